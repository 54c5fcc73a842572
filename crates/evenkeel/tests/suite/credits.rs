//! Tests `credits`: the page, the answer, this machine, and invalid tables.

use expect_test::expect_file;

use crate::support::Scene;

/// CPU use over more than a day: four busy hours in the evening, and a quiet night.
const EVENINGS: &str = "Timestamp,CPUUtilization\n2026-11-25T00:00:00Z,5\n2026-11-25T18:00:00Z,80\n2026-11-25T22:00:00Z,5\n2026-11-26T00:00:00Z,5\n2026-11-26T18:00:00Z,80\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("evenings.csv", EVENINGS);
    scene.write("steady.csv", "seconds,cpus\n0,0.7\n86400,0.7\n");
    scene
}

#[test]
fn the_pages_of_a_type_that_lasts_and_of_one_that_does_not() {
    let page = |line: &str| scene().run(line).to_string();
    expect_file!["snapshots/credits-lasts.txt"].assert_eq(&page("credits evenings.csv --type t3.xlarge"));
    expect_file!["snapshots/credits-runs-out.txt"].assert_eq(&page("credits steady.csv --type t3.medium --memory 4"));
}

#[test]
fn the_answer_has_both_modes_and_the_types_that_do() {
    let (code, answer) = scene().json("credits steady.csv --type t3.medium --credits 36");
    assert_eq!((code, &answer["mode"]), (0, &"unlimited".into()));
    // 0.7 CPUs use 0.3 credits per minute more than they earn, so 36 credits last two hours.
    assert_eq!(answer["standard"]["empty_after_s"], 7200.0);
    let usd = answer["unlimited"]["surplus_usd"].as_f64().unwrap();
    assert!((usd - (0.3 * 720.0 - 0.6) * 0.05).abs() < 1e-6, "{usd}");
    let names: Vec<&str> =
        answer["enough"].as_array().unwrap().iter().map(|one| one["instance_type"].as_str().unwrap()).collect();
    assert!(names.contains(&"t3.xlarge") && !names.contains(&"t3.medium"), "{names:?}");
    let (_, azure) = scene().json("credits evenings.csv --type Standard_B2s --days 1");
    assert!(azure["unlimited"].is_null() && azure["mode"] == "standard");
}

#[test]
fn the_type_of_a_captured_machine_is_taken() {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts/aws-c5n.xlarge-nitro-6.1.txt");
    let seen = scene().run(&format!("credits steady.csv --host {host}"));
    assert!(seen.code == 4 && seen.stderr.contains("c5n.xlarge has no CPU credits"), "{seen}");
    let seen = scene().run(&format!("credits --type t3.nano --host {host}"));
    assert!(seen.code == 2 && seen.stderr.contains("does not show its CPU use over time"), "{seen}");
}

#[test]
fn this_machine_is_observed_for_a_time() {
    let (code, answer) = scene().json("credits --type t3.medium --for 200ms --days 1");
    assert_eq!(code, 0, "{answer}");
    let load = &answer["load"];
    assert!(load["seconds"].as_f64() >= Some(0.2) && load["steal_share"].is_f64(), "{load}");
    assert!(answer["file"].is_null());
}

#[test]
fn what_is_wrong_is_named() {
    let scene = scene();
    scene.write("short.csv", "time,cpus\n0,0.1\n0.01,1\n");
    scene.write("average.csv", "Timestamp,Sum,Unit\n2026-11-25T00:00:00Z,5,Percent\n");
    let cases = [
        ("credits steady.csv --type c5.large", 4, "c5.large has no CPU credits"),
        ("credits steady.csv --type e2-small", 4, "no document says for how long"),
        ("credits steady.csv --type t9.tiny", 2, "does not have \"t9.tiny\""),
        ("credits steady.csv --type Standard_B2s --mode unlimited", 2, "has no unlimited mode"),
        ("credits nowhere.csv --type t3.nano", 2, "failed to read nowhere.csv"),
        ("credits steady.csv --type t3.nano --credits many", 2, "full, launch, or a number of credits"),
        ("credits steady.csv --type t3.nano --days 0", 2, "a number of days above 0"),
        (
            "credits steady.csv --type t3.nano --credits 100000",
            2,
            "t3.nano has at most 144 credits, and --credits is 100000",
        ),
        ("credits short.csv --type t3.nano", 2, "its rows cover 0.02 seconds"),
        (
            "credits average.csv --type t3.nano",
            2,
            "no column cpus or cpu_percent; the first line has Timestamp, Sum, Unit",
        ),
    ];
    for (line, code, expected) in cases {
        let seen = scene.run(line);
        assert!(seen.code == code && seen.stderr.contains(expected), "{line}: {seen}");
    }
    scene.write("wrong.csv", "time,cpus\n0,1\n60,-3\n");
    let seen = scene.run("credits wrong.csv --type t3.nano");
    assert!(seen.stderr.contains("line 3: column \"cpus\": \"-3\" is not a number of CPUs from 0 to 10000"), "{seen}");
}

/// Samples of a machine with two CPUs, taken at these minutes after its boot, of which one CPU is busy for `busy` of the time.
fn store(dir: &std::path::Path, boots: &[(u64, &[u64])], busy: f64) {
    use evenkeel_hostfs::Root;
    use evenkeel_watch::sample::Moment;
    use evenkeel_watch::store::{StoreOptions, StoreWriter};
    use evenkeel_watch::{Collector, CollectorOptions};

    let mut writer = StoreWriter::open(dir, StoreOptions::default()).unwrap();
    for (began_minute, minutes) in boots {
        for minute in *minutes {
            let ticks = minute * 6000;
            let user = (ticks as f64 * busy) as u64;
            let stat = format!("cpu0 {user} 0 0 {} 0 0 0 0 0 0\ncpu1 0 0 0 {ticks} 0 0 0 0 0 0\n", ticks - user);
            let root = Root::from(std::collections::BTreeMap::from([("/proc/stat".to_owned(), stat)]));
            let mut sample = Collector::new(root, CollectorOptions::default()).sample();
            let ns = minute * 60_000_000_000;
            let realtime_ns = 1_795_780_800_000_000_000 + began_minute * 60_000_000_000 + ns;
            sample.at = Moment { monotonic_ns: ns, boottime_ns: ns, realtime_ns };
            sample.is_live = true;
            writer.append(&sample).unwrap();
        }
    }
}

#[test]
fn a_store_of_watch_is_a_trace() {
    let scene = scene();
    let minutes: Vec<u64> = (10..130).collect();
    store(&scene.path("store"), &[(0, &minutes)], 0.7);
    let (code, answer) = scene.json("credits store --type t3.medium");
    assert_eq!((code, answer["file"].as_str()), (0, Some("store")), "{answer}");
    let load = |answer: &serde_json::Value, field: &str| answer["load"][field].as_f64().unwrap();
    assert!((load(&answer, "cpus_mean") - 0.7).abs() < 1e-6 && load(&answer, "seconds") == 7140.0, "{answer}");
    assert_eq!(load(&answer, "steal_share"), 0.0);
    // The machine was off for an hour, and `watch` did not run for two.
    store(&scene.path("gaps"), &[(0, &[10, 11, 131, 132]), (192, &[1, 2, 3])], 0.5);
    let (_, answer) = scene.json("credits gaps --type t3.medium");
    assert!((load(&answer, "cpus_mean") - 0.5).abs() < 1e-6 && load(&answer, "seconds") == 7440.0, "{answer}");
    let caveats = answer["caveats"].to_string();
    assert!(
        caveats.contains("1.0 h of the store are left out") && caveats.contains("for 2.0 h of the store"),
        "{caveats}"
    );
    store(&scene.path("single"), &[(0, &[10])], 0.5);
    for (line, expected) in [
        ("credits single --type t3.medium", "it has less than two samples with CPU times of one boot"),
        ("credits store --type t3.medium --vcpus 2", "--vcpus says what 100 % is"),
        ("credits . --type t3.medium", "no sample"),
    ] {
        let seen = scene.run(line);
        assert!(seen.code == 2 && seen.stderr.contains(expected), "{line}: {seen}");
    }
}
