//! Tests `apply`, `verify`, `revert` and `history` on a captured machine:
//! the answers of the kernel, without root, and each exit code.

use std::fs;

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::support::{HOST, Scene};

const PATH: &str = "/proc/sys/vm/swappiness";

fn check(scene: &Scene, line: &str, expected: Expect) {
    expected.assert_eq(&scene.run(line).to_string());
}

/// A scene with [`HOST`] and these additional lines.
fn with(lines: &str) -> Scene {
    let scene = Scene::new();
    scene.write("host.txt", HOST.replace("\nend\n", &format!("\n{lines}\nend\n")));
    scene
}

#[test]
fn a_change_from_plan_to_revert() {
    let scene = Scene::new();
    let settings = "vm.swappiness=10 thp.enabled=never irq.affinity@27=2";
    check(
        &scene,
        &format!("apply {settings} --plan-only --host host.txt"),
        expect![[r#"
            exit code 0
            -- stdout
            vm.swappiness = 10
              write "10" to /proc/sys/vm/swappiness
              it is 60 now
              audit advises 30: a tick may wait for a page from "/swapfile": a lower value
              keeps the server's pages in memory; sources name 1, 10 and 30
              undone by: printf '%s\n' '60' > '/proc/sys/vm/swappiness'
            thp.enabled = never
              write "never" to /sys/kernel/mm/transparent_hugepage/enabled
              it is always now
              audit advises madvise: any page fault may have to clear 2 MiB, and khugepaged
              moves memory together in the background; TuneD recommends never, rpk always:
              run `evenkeel prove thp.enabled=madvise` to measure
              the kernel may change too: /proc/sys/vm/min_free_kbytes
              undone by: printf '%s\n' 'always' >
                '/sys/kernel/mm/transparent_hugepage/enabled'; printf '%s\n' '67584' >
                '/proc/sys/vm/min_free_kbytes'
            irq.affinity@27 = 2
              write "2" to /proc/irq/27/smp_affinity_list
              it is 0-3 now
              audit advises to keep 0: ens5-Tx-Rx-0: CPU 0 serves it, and slows CPU 2 of the
              same core: keep ticks off it
              undone by: printf '%s\n' '0-3' > '/proc/irq/27/smp_affinity_list'
        "#]],
    );
    check(
        &scene,
        &format!("apply {settings} --host host.txt --state state --output after.txt"),
        expect![[r#"
            exit code 0
            -- stdout
            vm.swappiness = 10: audit advises 30: a tick may wait for a page from
              "/swapfile": a lower value keeps the server's pages in memory; sources name 1,
              10 and 30
            thp.enabled = never: audit advises madvise: any page fault may have to clear 2
              MiB, and khugepaged moves memory together in the background; TuneD recommends
              never, rpk always: run `evenkeel prove thp.enabled=madvise` to measure
            irq.affinity@27 = 2: audit advises to keep 0: ens5-Tx-Rx-0: CPU 0 serves it,
              and slows CPU 2 of the same core: keep ticks off it

            applied         vm.swappiness = 10
                            was 60
            applied         thp.enabled = never
                            was always
                            with it: /proc/sys/vm/min_free_kbytes: 67584 -> 12952
            applied         irq.affinity@27 = 2
                            was 0-3

            Rehearsed on the captured machine; this one was not changed.
        "#]],
    );
    check(
        &scene,
        "verify --host after.txt --state state",
        expect![[r#"
        exit code 0
        -- stdout
        3 values hold, 0 drifted.
    "#]],
    );
    check(
        &scene,
        "apply vm.swappiness=10 --host after.txt --state state",
        expect![[r#"
            exit code 0
            -- stdout
            Nothing to do: all values are set already.
        "#]],
    );

    scene.write("drifted.txt", scene.read("after.txt").replace(&format!("{PATH} = 10"), &format!("{PATH} = 55")));
    check(
        &scene,
        "verify --host drifted.txt --state state",
        expect![[r#"
            exit code 1
            -- stdout
            drift           vm.swappiness = 10
                            is "55": somebody changed /proc/sys/vm/swappiness after
                            transaction 1
                            evenkeel apply vm.swappiness@/proc/sys/vm/swappiness=10 --state state
            2 values hold, 1 drifted.
        "#]],
    );
    check(
        &scene,
        "revert --host drifted.txt --state state --output back.txt",
        expect![[r#"
            exit code 0
            -- stdout
            1  vm.swappiness=10 thp.enabled=never irq.affinity@27=2
            put back        /proc/irq/27/smp_affinity_list = 0-3
                            was 2
            put back        /sys/kernel/mm/transparent_hugepage/enabled = always
                            was never
            put back        /proc/sys/vm/min_free_kbytes = 67584
                            was 12952
            put back        /proc/sys/vm/swappiness = 60
                            somebody else had made it "55"
            Everything is as it was.
        "#]],
    );
    check(
        &scene,
        "revert --host back.txt --state state",
        expect![[r#"
        exit code 0
        -- stdout
        There was nothing to put back.
    "#]],
    );
    // evenkeel does not create a mistyped folder.
    let mistyped = scene.run("revert --host back.txt --state stat").to_string();
    assert!(mistyped.starts_with("exit code 0\n-- stdout\nThere is no journal in "), "{mistyped}");
    assert!(!scene.path("stat").exists());
    check(
        &scene,
        "verify --host back.txt --state state",
        expect![[r#"
        exit code 0
        -- stdout
        0 values hold, 0 drifted.
    "#]],
    );
    // Two runs differ only in their dates.
    let history = scene.run("history --host host.txt --state state").to_string();
    let undated: Vec<String> = history.lines().map(undated).collect();
    expect![[r#"
        exit code 0
        -- stdout
        1  DATE  reverted  vm.swappiness=10 thp.enabled=never irq.affinity@27=2
        applied         vm.swappiness = 10
                        was 60
        applied         thp.enabled = never
                        was always
                        with it: /proc/sys/vm/min_free_kbytes: 67584 -> 12952
        applied         irq.affinity@27 = 2
                        was 0-3
    "#]]
    .assert_eq(&(undated.join("\n") + "\n"));
    let inspect = |file| scene.run(&format!("inspect --json --host {file}")).stdout;
    assert_eq!(inspect("host.txt"), inspect("back.txt"));
}

/// Replaces each date, such as `2026-03-14T09:26:53Z`, by `DATE`.
fn undated(line: &str) -> String {
    let words = line.split(' ').map(|word| if word.len() == 20 && word.ends_with('Z') { "DATE" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_rehearsal_leaves_nothing_behind() {
    let scene = Scene::new();
    let seen = scene.run("apply --advised --host host.txt");
    assert!(seen.code == 0 && seen.stdout.contains("Rehearsed"), "{seen}");
    assert_eq!(scene.read("host.txt"), HOST);
    let names: Vec<_> = std::fs::read_dir(scene.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["host.txt"]);
}

#[test]
fn a_knob_of_irqbalance_names_its_owner() {
    let scene = Scene::new();
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts/gcp-n2-kvm-swap-5.14.txt");
    let (code, planned) = scene.json(&format!("plan irq.affinity@24=3 vm.swappiness=10 --host {host}"));
    assert_eq!((code, &planned["steps"][1]["owned"]), (0, &Value::Null));
    let by = planned["steps"][0]["owned"].as_str().unwrap();
    assert!(by.contains("irqbalance runs"), "{by}");
    let (code, applied) = scene.json(&format!("apply irq.affinity@24=3 vm.swappiness=10 --host {host}"));
    let steps = &applied["transaction"]["steps"];
    assert_eq!((code, &steps[0]["outcome"], &steps[0]["by"]), (0, &"owned-by".into(), &by.into()), "{steps}");
    assert_eq!(steps[1]["outcome"], "applied");
}

#[test]
fn what_audit_advises_is_what_is_planned() {
    let scene = Scene::new();
    let settings = |steps: &Value| -> Vec<(Value, Value, Value)> {
        let all = steps.as_array().unwrap().iter().filter(|step| step.get("state").is_none_or(|state| state == "set"));
        all.map(|step| (step["knob"].clone(), step["place"].clone(), step["wanted"].clone())).collect()
    };
    for goal in ["latency", "throughput", "density"] {
        let (_, audit) = scene.json(&format!("audit --goal {goal} --host host.txt"));
        let (code, applied) = scene.json(&format!("apply --advised --goal {goal} --host host.txt"));
        assert_eq!((code, settings(&audit["advice"])), (0, settings(&applied["plan"]["steps"])), "{goal}");
    }
}

#[test]
fn each_way_to_fail_has_its_exit_code() {
    // The kernel refuses the first write for lack of privileges, so evenkeel has changed nothing.
    let denied = with("/proc/sys/net/core/busy_poll !write EACCES");
    check(
        &denied,
        "apply net.core.busy_poll=50 --host host.txt",
        expect![[r#"
            exit code 3
            -- stdout
            net.core.busy_poll = 50: audit advises this value: 4 CPUs and ens5, a device
              with queues to poll: sources recommend 50, 70 and 100 us: run `evenkeel prove
              net.core.busy_poll=50` to measure the effect

            refused         net.core.busy_poll = 50
                            permission denied (EACCES)
            as before       /proc/sys/net/core/busy_poll = 0
            -- stderr
            error: failed to set net.core.busy_poll to "50": the kernel refused the write to /proc/sys/net/core/busy_poll: permission denied (EACCES); nothing was changed
            hint: run it as root (sudo)
        "#]],
    );
    let not_permitted = with("/proc/sys/net/core/busy_poll !write EPERM");
    assert_eq!(not_permitted.run("apply net.core.busy_poll=50 --host host.txt").code, 3);

    // /proc/sys is read-only, as in a container, so more privileges would not help.
    let read_only = with("/proc/sys/net/core/busy_poll !write EROFS");
    check(
        &read_only,
        "apply net.core.busy_poll=50 --host host.txt",
        expect![[r#"
            exit code 4
            -- stdout
            net.core.busy_poll = 50: audit advises this value: 4 CPUs and ens5, a device
              with queues to poll: sources recommend 50, 70 and 100 us: run `evenkeel prove
              net.core.busy_poll=50` to measure the effect

            refused         net.core.busy_poll = 50
                            read-only file system (EROFS)
            as before       /proc/sys/net/core/busy_poll = 0
            -- stderr
            error: failed to set net.core.busy_poll to "50": the kernel refused the write to /proc/sys/net/core/busy_poll: read-only file system (EROFS); nothing was changed
        "#]],
    );

    // The kernel refuses the second step, so evenkeel undoes the first step.
    check(
        &read_only,
        "apply vm.swappiness=10 net.core.busy_poll=50 --host host.txt",
        expect![[r#"
            exit code 5
            -- stdout
            vm.swappiness = 10: audit advises 30: a tick may wait for a page from
              "/swapfile": a lower value keeps the server's pages in memory; sources name 1,
              10 and 30
            net.core.busy_poll = 50: audit advises this value: 4 CPUs and ens5, a device
              with queues to poll: sources recommend 50, 70 and 100 us: run `evenkeel prove
              net.core.busy_poll=50` to measure the effect

            rolled back     vm.swappiness = 10
                            was 60
            refused         net.core.busy_poll = 50
                            read-only file system (EROFS)
            as before       /proc/sys/net/core/busy_poll = 0
            put back        /proc/sys/vm/swappiness = 60
                            was 10
            -- stderr
            error: failed to set net.core.busy_poll to "50": the kernel refused the write to /proc/sys/net/core/busy_poll: read-only file system (EROFS); all earlier changes are restored
        "#]],
    );

    // For an unknown clock source, the kernel reports no error and keeps the current source.
    check(
        &denied,
        "apply clocksource=hpet --host host.txt",
        expect![[r#"
            exit code 4
            -- stdout
            clocksource = hpet: audit advises to keep tsc: a process reads it in user
              space; AWS recommends kvm-clock on Nitro, against the kernel's order: run
              `evenkeel prove clocksource=kvm-clock` to compare

            did not take    clocksource = hpet
                            /sys/devices/system/clocksource/clocksource0/current_clocksource
                            reads "tsc"
            as before       /sys/devices/system/clocksource/clocksource0/current_clocksource = tsc
            -- stderr
            error: failed to set clocksource to "hpet": the kernel accepted the write to /sys/devices/system/clocksource/clocksource0/current_clocksource, but /sys/devices/system/clocksource/clocksource0/current_clocksource reads "tsc"; nothing was changed
        "#]],
    );

    // evenkeel can't undo the first step, because this kernel refuses the original value.
    let stuck = with("/proc/sys/net/core/busy_poll !write EROFS");
    let odd = stuck.read("host.txt").replace(&format!("{PATH} = 60"), &format!("{PATH} = 250"));
    stuck.write("host.txt", odd);
    check(
        &stuck,
        "apply vm.swappiness=10 net.core.busy_poll=50 --host host.txt --state state",
        expect![[r#"
            exit code 6
            -- stdout
            vm.swappiness = 10: audit advises 30: a tick may wait for a page from
              "/swapfile": a lower value keeps the server's pages in memory; sources name 1,
              10 and 30
            net.core.busy_poll = 50: audit advises this value: 4 CPUs and ens5, a device
              with queues to poll: sources recommend 50, 70 and 100 us: run `evenkeel prove
              net.core.busy_poll=50` to measure the effect

            applied         vm.swappiness = 10
                            was 250
            interrupted     net.core.busy_poll = 50
                            was 0
            as before       /proc/sys/net/core/busy_poll = 0
            NOT put back    /proc/sys/vm/swappiness = 250
                            write "250" to /proc/sys/vm/swappiness: invalid argument
                            (EINVAL)
            -- stderr
            error: failed to set net.core.busy_poll to "50": the kernel refused the write to /proc/sys/net/core/busy_poll: read-only file system (EROFS); not restored: /proc/sys/vm/swappiness; try `evenkeel revert`
        "#]],
    );
    let (code, answer) = stuck.json("apply vm.swappiness=10 net.core.busy_poll=50 --host host.txt --state other");
    assert_eq!((code, answer["error"]["exit_code"].as_u64()), (6, Some(6)), "{answer}");
    assert_eq!(answer["put_back"]["all_undone"], false, "{answer}");
    let left = stuck.run("verify --host host.txt --state state");
    assert!(left.code == 1 && left.stdout.contains("interrupted"), "{left}");
}

#[test]
fn a_root_that_is_not_live_is_not_changed() {
    let scene = Scene::new();
    check(
        &scene,
        "apply vm.swappiness=10 --root / --state state",
        expect![[r#"
            exit code 4
            -- stdout
            vm.swappiness = 10: audit: it does not apply here: there is no swap here, so
              the value has no effect
            -- stderr
            error: failed to write to a mounted root: it is read-only; write to the live machine or to a capture
            hint: for an image: evenkeel image ROOT …
        "#]],
    );
    check(
        &scene,
        "revert --root / --state state",
        expect![[r#"
            exit code 4
            -- stderr
            error: failed to write to a mounted root: it is read-only; write to the live machine or to a capture
        "#]],
    );
}

#[test]
fn a_journal_that_others_could_write_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    std::fs::create_dir(scene.path("state")).unwrap();
    std::fs::set_permissions(scene.path("state"), std::fs::Permissions::from_mode(0o777)).unwrap();
    for line in ["apply vm.swappiness=10", "revert", "verify", "history"] {
        let seen = scene.run(&format!("{line} --host host.txt --state state"));
        assert!(seen.code == 4 && seen.stderr.contains("failed to trust the state directory state"), "{line}: {seen}");
    }
}

/// The journal has values of a captured machine. An undo would overwrite the values of this machine with them.
#[test]
fn the_journal_of_a_rehearsal_is_refused_on_a_real_machine() {
    // Other tests change the value that this test reads, so hold the lock of the host.
    let _host = evenkeel_testkit::HostLock::take();
    let scene = Scene::new();
    assert_eq!(scene.run("apply vm.swappiness=10 --host host.txt --state state --output after.txt").code, 0);
    let before = fs::read_to_string(PATH).unwrap();
    for command in [
        "revert --state state",
        "verify --state state",
        "history --state state",
        "confirm --state state",
        "apply vm.swappiness=11 --state state",
    ] {
        let refused = scene.run(command);
        assert_eq!(refused.code, 4, "{command}: {}", refused.stderr);
        assert!(refused.stderr.contains("it has changes of a captured machine"), "{command}: {}", refused.stderr);
        assert_eq!(fs::read_to_string(PATH).unwrap(), before, "{command}");
    }
    assert_eq!(scene.run("revert --host after.txt --state state").code, 0);
}
