//! Tests `pack plan`: the page on captured machines, the answer, and invalid tables.

use expect_test::{Expect, expect, expect_file};

use crate::support::Scene;

const TABLE: &str = "\u{feff}session,count,cpus,tick_hz,work_us_p99,memory_mib,cache_kib,packets_per_s\r\n\
                     arena,12,0.12,60,5000,30,512,1200\r\nlobby,2,0.40,20,,80,,400\r\n\r\nbots,1,1.3,,,150,,\r\n";

/// Machines with one CPU, with four nodes, with 128 CPUs, with isolated CPUs,
/// without second threads, of Arm, and with two nodes and siblings.
const HOSTS: [&str; 7] = [
    "qemu-1cpu-6.1",
    "qemu-4-nodes-6.1",
    "qemu-128cpu-6.1",
    "qemu-isolcpus-6.1",
    "qemu-nosmt-6.1",
    "qemu-arm64-2-nodes-6.12",
    "aws-c4.8xlarge-xen-3.14",
];

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("sessions.csv", TABLE);
    scene
}

fn host(name: &str) -> String {
    format!("--host {}/../../hosts/{name}.txt", env!("CARGO_MANIFEST_DIR"))
}

fn check(line: &str, expected: Expect) {
    expected.assert_eq(&scene().run(line).to_string());
}

#[test]
fn the_pages_of_captured_machines() {
    let scene = scene();
    for name in HOSTS {
        let page = scene.run(&format!("pack plan sessions.csv {}", host(name))).to_string();
        let page = page.replace(concat!(env!("CARGO_MANIFEST_DIR"), "/../../"), "");
        expect_file![format!("snapshots/pack-{name}.txt")].assert_eq(&page);
    }
}

#[test]
fn the_answer_has_what_a_script_needs() {
    let scene = scene();
    let (code, answer) = scene.json(&format!("pack plan sessions.csv {}", host("aws-c4.8xlarge-xen-3.14")));
    assert_eq!((code, &answer["format"], &answer["placed"]), (0, &1.into(), &15.into()));
    assert_eq!(answer["proof"]["is_best"], true);
    assert_eq!(answer["cpus"].as_array().map(Vec::len), Some(36));
    for one in answer["placements"].as_array().unwrap() {
        let cpus = one["cpus"].as_str().unwrap();
        assert_eq!(one["unit"][0], format!("AllowedCPUs={cpus}"));
        assert_eq!(one["unit"][1], format!("AllowedMemoryNodes={}", one["node"]));
        assert_eq!(one["taskset"], format!("taskset --cpu-list {cpus}"));
    }
    let (code, answer) = scene.json(&format!("pack plan sessions.csv {}", host("qemu-1cpu-6.1")));
    assert_eq!((code, &answer["left_out"][0]["resource"]), (1, &"node".into()));
}

#[test]
fn options_bound_the_load_and_move_the_interrupts() {
    let scene = scene();
    let host = host("qemu-4-nodes-6.1");
    let answer = |options: &str| scene.json(&format!("pack plan sessions.csv {host} {options}")).1;
    let roles = |answer: &serde_json::Value| answer["cpus"][3]["roles"].clone();
    assert_eq!(roles(&answer("--interrupt-cpus avoid")), serde_json::json!(["interrupts"]));
    assert_eq!(roles(&answer("--interrupt-cpus share")), serde_json::json!(["sessions", "interrupts"]));
    let bounded = answer("--load-max 0.3 --system-cpus 2");
    assert!(bounded["placed"].as_u64() < Some(15), "{bounded}");
    assert_eq!(bounded["rules"]["system_cpus"], 2.0);
    scene.write("slices.json", r#"{"format": 1, "cpus": [{"cpu": 0, "share": 0.4}, {"cpu": 1, "share": null}]}"#);
    let sliced = answer("--slices slices.json");
    assert_eq!((&sliced["cpus"][0]["load_max"], &sliced["cpus"][1]["load_max"]), (&0.28.into(), &0.7.into()));
    for (text, expected) in
        [("{}", "it has no field \"cpus\""), (r#"{"cpus": [{"cpu": 0, "share": 7}]}"#, "share of 7")]
    {
        scene.write("slices.json", text);
        let refused = scene.run(&format!("pack plan sessions.csv {host} --slices slices.json"));
        assert!(refused.code == 2 && refused.stderr.contains(expected), "{refused}");
    }
}

/// The packets need ten times the capacity of the CPU that serves the network.
/// All sessions have places, but the plan does not work.
#[test]
fn packets_that_no_cpu_can_serve_are_no_success() {
    let scene = scene();
    scene.write("packets.csv", "cpus,count,packets_per_s\n0.1,2,5000000\n");
    let line = format!("pack plan packets.csv {}", host("qemu-4-nodes-6.1"));
    let seen = scene.run(&line);
    assert!(seen.code == 1 && seen.stdout.contains("packets") && seen.stdout.contains("too many: they need"), "{seen}");
    let (code, answer) = scene.json(&line);
    assert_eq!((code, &answer["placed"]), (1, &2.into()));
    assert!(
        answer["cpus"].as_array().unwrap().iter().any(|cpu| cpu["interrupt_load"].as_f64() > Some(1.0)),
        "{answer}"
    );
}

#[test]
fn the_page_shows_the_bound_of_the_cpu_and_one_line_for_all() {
    let scene = scene();
    scene.write("one.csv", "cpus,packets_per_s\n0.1,10\n");
    let page = scene.run(&format!("pack plan one.csv {}", host("qemu-1cpu-6.1"))).stdout;
    assert!(page.contains("(bound 0.35)") && page.contains("taskset --cpu-list 0 COMMAND"), "{page}");
    let page = scene.run(&format!("pack plan sessions.csv {}", host("qemu-4-nodes-6.1"))).stdout;
    assert!(page.contains("taskset --cpu-list CPUS COMMAND, with the CPUs of its line"), "{page}");
    // The session has three threads, each at the bound, and does not get three separate CPUs.
    scene.write("wide.csv", "cpus,packets_per_s\n2.1,10\n");
    let (code, answer) = scene.json(&format!("pack plan wide.csv {}", host("qemu-128cpu-6.1")));
    assert_eq!((code, &answer["load"]), (0, &0.7.into()));
}

/// The machine has memory for all sessions, and the slice in which they run has not.
#[test]
fn the_memory_limit_of_a_slice_bounds_the_sessions() {
    let scene = scene();
    let path = format!("{}/../../hosts/qemu-4-nodes-6.1.txt", env!("CARGO_MANIFEST_DIR"));
    let slice = "/sys/fs/cgroup/a.slice/a-b.slice/memory.max = 524288000\n\
                 /sys/fs/cgroup/a.slice/memory.max = max\n/sys/fs/cgroup/a.slice/cpu.max = max 100000\n\
                 /sys/fs/cgroup/a.slice/a-b.slice/cpu.max = 800000 100000\n\
                 /sys/fs/cgroup/a.slice/a-b.slice/cpuset.cpus.effective = 0-7\nend\n";
    scene.write("limited.txt", std::fs::read_to_string(path).unwrap().replace("\nend\n", &format!("\n{slice}")));
    let line = "pack plan sessions.csv --host limited.txt --slice a-b.slice";
    let (code, answer) = scene.json(line);
    assert_eq!((code, &answer["slice"], &answer["rules"]["memory_limit_mib"]), (1, &"a-b.slice".into(), &500.0.into()));
    assert_eq!(answer["rules"]["quota_cpus"], 8.0);
    let memory: f64 =
        answer["nodes"].as_array().unwrap().iter().map(|node| node["memory_used_mib"].as_f64().unwrap()).sum();
    assert!(memory > 400.0 && memory <= 500.0, "{answer}");
    let why = "the memory limit of slice a-b.slice (500 MiB) is used up";
    assert_eq!((&answer["left_out"][0]["resource"], &answer["left_out"][0]["why"]), (&"memory".into(), &why.into()));
    let page = scene.run(line).stdout;
    assert!(page.contains("memory limit") && page.contains("of 500 MiB that slice a-b.slice allows"), "{page}");
    assert_eq!(scene.run("pack plan sessions.csv --host limited.txt").code, 0, "other limits hold elsewhere");
    for (slice, code, expected) in [
        ("other.slice", 4, "hold the limits of slice other.slice"),
        ("a-b.service", 2, "it is not the name of a slice"),
    ] {
        let seen = scene.run(&format!("pack plan sessions.csv --host limited.txt --slice {slice}"));
        assert!(seen.code == code && seen.stderr.contains(expected), "{seen}");
    }
}

#[test]
fn a_wrong_table_is_an_error_that_names_the_line() {
    let scene = scene();
    let host = host("qemu-4-nodes-6.1");
    let long = format!("cpus\n{}\n", "1".repeat(3 << 20));
    for (table, expected) in [
        ("", "it has no lines"),
        ("cpus\n", "it has no sessions"),
        ("session\na\n", "no column cpus"),
        ("cpus\n0.1\nNaN\n", "line 3: column \"cpus\": \"NaN\""),
        ("cpus\n-1\n", "line 2: column \"cpus\""),
        ("cpus\ninf\n", "line 2: column \"cpus\""),
        ("cpus\n1e300\n", "line 2: column \"cpus\""),
        ("cpus,count\n1,4294967296\n", "line 2: column \"count\""),
        ("cpus,count\n1,100000\n", "100000 sessions, and the most is 10000"),
        ("cpus\n\u{1b}[31m\n", "line 2: column \"cpus\""),
        (long.as_str(), "line 2: longer than 65536 bytes"),
    ] {
        scene.write("wrong.csv", table);
        let seen = scene.run(&format!("pack plan wrong.csv {host}"));
        assert!(seen.code == 2 && seen.stderr.contains(expected), "{table:.40}: {seen}");
        assert!(!seen.stderr.contains('\u{1b}'), "{seen}");
    }
    // These extreme values are valid: evenkeel computes a plan, but some sessions have no place.
    scene.write("wrong.csv", "cpus,count,memory_mib,cache_kib,tick_hz,work_us_p99,packets_per_s\n1e-300,9000,1e-300,1e9,1e-9,1e-9,1e9\n9999,1,1e9,1e9,1e4,1e9,1e9\n");
    assert_eq!(scene.run(&format!("pack plan wrong.csv {host}")).code, 1);
}

#[test]
fn what_is_missing_is_named() {
    check(
        "pack plan nowhere.csv",
        expect![[r#"
            exit code 2
            -- stderr
            error: failed to read nowhere.csv: no such file or directory (ENOENT)
            hint: name a readable file; a relative path starts in the current folder
        "#]],
    );
    check(
        "pack plan sessions.csv --load-max 2",
        expect![[r#"
        exit code 2
        -- stderr
        error: --load-max does not take "2": a share of a CPU from 0.05 to 1, such as 0.7
        hint: `evenkeel pack plan --help` lists what it takes
    "#]],
    );
}
