//! Tests `watch`: the page, the answer, the file of metrics, and wrong use.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel_sys::process;
use expect_test::expect_file;

use crate::support::Scene;

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts/aws-c5n.xlarge-nitro-6.1.txt");

#[test]
fn a_captured_host_has_its_values_and_no_rate() {
    let scene = Scene::new();
    let seen = scene.run(&format!("watch --once --host {HOST}"));
    expect_file!["snapshots/watch-captured.txt"].assert_eq(&seen.to_string());
    let (code, answer) = scene.json(&format!("watch --host {HOST}"));
    assert_eq!((code, &answer["elapsed_ns"]), (0, &0.into()));
    assert_eq!(answer["host"]["all"]["unknown"], "absent");
    assert_eq!(answer["host"]["clock_source"], "tsc");
    assert!(answer["settings"]["findings"]["set"].as_u64() > Some(0), "{answer}");
}

#[test]
fn this_machine_is_watched_with_a_process_that_is_named() {
    let pid = std::process::id();
    let (code, answer) = Scene::new().json(&format!("watch --once --interval 100ms --pid {pid} --pid {pid}"));
    assert_eq!(code, 0, "{answer}");
    assert!(answer["elapsed_ns"].as_u64() >= Some(100_000_000), "{answer}");
    assert!(answer["host"]["cpus"].as_array().is_some_and(|cpus| !cpus.is_empty()), "{answer}");
    let servers = answer["servers"].as_array().unwrap();
    let named: Vec<_> = servers.iter().filter(|server| server["pid"] == pid).collect();
    assert_eq!(named.len(), 1, "{servers:?}");
    assert!(named[0]["cpu"].is_f64(), "{named:?}");
    assert_eq!(named[0]["ticks"]["unknown"], "absent");
}

#[test]
fn what_is_wrong_is_named() {
    let scene = Scene::new();
    let cases = [
        ("watch --interval 50ms", "samples are 100ms to 60s apart"),
        ("watch --interval 2h", "samples are 100ms to 60s apart"),
        ("watch --once --pid 0", "0 is not in"),
        ("watch --once --pid 4194305", "watch process 4194305"),
        ("watch --once --root /nowhere", "open the root /nowhere"),
    ];
    for (line, expected) in cases {
        let seen = scene.run(line);
        assert!(seen.code == 2 && seen.stderr.contains(expected), "{line}: {seen}");
    }
    let seen = scene.run("watch --once --interval 100ms --textfile missing/file.prom");
    assert!(seen.code == 4 && seen.stderr.contains("write missing/file.prom"), "{seen}");
}

#[test]
fn metrics_are_written_until_a_signal() {
    let scene = Scene::new();
    let mut child = scene.command("watch --interval 100ms --textfile metrics.prom").spawn().unwrap();
    let file = scene.path("metrics.prom");
    let begun = Instant::now();
    while !file.exists() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# TYPE evenkeel_host_cpu_seconds_total counter\n"), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o444, 0o444);
    process::ask_to_end(child.id());
    assert!(child.wait().unwrap().success());
    let left: Vec<_> =
        std::fs::read_dir(file.parent().unwrap()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".metrics")), "{left:?}");
}

#[test]
fn samples_are_stored_and_replayed() {
    let scene = Scene::new();
    assert_eq!(scene.run("watch --once --interval 100ms --store samples").code, 0);
    let (code, stored) = scene.json("watch --replay samples");
    assert_eq!(code, 0, "{stored}");
    assert!(stored["elapsed_ns"].as_u64() >= Some(100_000_000), "{stored}");
    assert!(stored["host"]["all"]["idle"].is_f64(), "{stored}");
    let seen = scene.run("watch --replay samples --at 1999-01-01T00:00:00Z");
    assert!(seen.code == 2 && seen.stderr.contains("it has no sample of that time: it begins at 20"), "{seen}");
    let seen = scene.run("watch --replay nothing");
    assert!(seen.code == 2 && seen.stderr.contains("read the folder nothing"), "{seen}");
    let seen = scene.run("watch --replay samples --at noon");
    assert!(seen.code == 2 && seen.stderr.contains("is not a time in UTC such as 21:14"), "{seen}");
    let seen = scene.run("watch --replay samples --store samples");
    assert_eq!(seen.code, 2, "{seen}");
}

#[test]
fn a_watcher_that_is_killed_leaves_what_it_stored() {
    let scene = Scene::new();
    let mut child = scene.command("watch --interval 100ms --store samples").spawn().unwrap();
    let count = || scene.run("watch --replay samples --json").code == 0;
    let begun = Instant::now();
    while !count() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let second = scene.run("watch --once --interval 100ms --store samples");
    assert!(second.code == 4 && second.stderr.contains("another evenkeel writes to it"), "{second}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(count());
    assert_eq!(scene.run("watch --once --interval 100ms --store samples").code, 0);
    let (_, last) = scene.json("watch --replay samples");
    assert!(last["elapsed_ns"].as_u64() > Some(0), "{last}");
}

/// `watch --dump` requests a dump from the recorder of another `watch`. The dump remains when that `watch` is killed.
#[test]
fn a_running_watcher_writes_a_dump_when_asked() {
    let scene = Scene::new();
    let nobody = scene.run("watch --dumps dumps --dump");
    assert!(nobody.code == 4 && nobody.stderr.contains("dump-wanted"), "{nobody}");
    let mut child =
        scene.command("watch --interval 100ms --dumps dumps --dumps-max 3 --store samples").spawn().unwrap();
    let began = Instant::now();
    let dump = loop {
        let asked = scene.run("watch --dumps dumps --dump --json");
        if asked.code == 0 {
            let answer: serde_json::Value = serde_json::from_str(&asked.stdout).unwrap();
            break answer["dump"].as_str().unwrap().to_owned();
        }
        let recorder = scene.json("watch --replay samples").1["recorder"].clone();
        if let Some(why) = recorder["failure"].as_str() {
            child.kill().unwrap();
            child.wait().unwrap();
            return evenkeel_testkit::skipped(format_args!("the flight recorder: {why}"));
        }
        // On a machine under load, the recorder may see a request only after its sender has given up.
        if let Some(last) = recorder["last"].as_str() {
            break last.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{asked}");
    };
    let again = scene.run("watch --dumps dumps --dump");
    let is_within_a_minute = began.elapsed() < Duration::from_secs(60);
    let is_refused = again.code == 4 && again.stderr.contains("less than a minute ago");
    assert!(is_refused || !is_within_a_minute, "{again}");
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, replayed) = scene.json(&format!("watch --replay {dump}"));
    assert!(code == 0 && replayed["host"].is_object(), "{replayed}");
    assert_eq!(scene.run(&format!("profile switches {dump}")).code, 0);
    let files = std::fs::read_dir(scene.path("dumps")).unwrap().map(|entry| entry.unwrap().file_name());
    let files: Vec<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    // The folder also contains the recorder's lock, whose name begins with a dot.
    let dumps = files.iter().filter(|name| !name.starts_with('.')).count();
    assert!(dumps == 1 || !is_within_a_minute, "{files:?}");
}

/// Runs the program on a pseudo-terminal, which `script` of util-linux creates.
#[test]
fn the_screen_is_drawn_and_keys_move_it() {
    let script = ["/usr/bin/script", "/bin/script"].into_iter().find(|path| std::path::Path::new(path).exists());
    let Some(script) = script else {
        evenkeel_testkit::skipped("util-linux's script is missing");
        return;
    };
    let scene = Scene::new();
    let line = format!(
        "stty cols 80 rows 24; exec timeout --foreground 100 {} watch --interval 100ms",
        env!("CARGO_BIN_EXE_evenkeel")
    );
    let mut command = Command::new(script);
    command.args(["-qfec", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
    let mut child = command.current_dir(scene.path("")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = String::new();
    // If the pipe hangs, the test ends the program, which closes the pipe.
    // Press the key several times, because at first the screen may have nothing to show.
    let mut until = |key: &[u8], texts: &[&str]| {
        let mut bytes = [0; 4096];
        while let Some(text) = texts.iter().find(|text| !seen.contains(**text)) {
            // Ignore an error: after the last key, the program may have closed its input.
            let _ = keys.write_all(key);
            let length = screen.read(&mut bytes).unwrap();
            assert!(length > 0, "waited in vain for {text:?}: {seen:?}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        seen.clear();
    };
    // The program writes only changed cells. So wait for words whose cells were blank before.
    // One write may contain both words.
    until(b"", &["[overview]", "UTC"]);
    until(b"[", &["back"]);
    until(b"\x1b[C", &["[CPUs]"]);
    // At the end, the terminal shows the screen of the shell again.
    until(b"q", &["\u{1b}[?1049l"]);
    assert!(child.wait().unwrap().success());
}

/// A limit on the size of files simulates a full disk: the kernel refuses to write more.
#[test]
fn a_full_disk_is_reported_once_and_loses_no_earlier_sample() {
    let scene = Scene::new();
    // 25 is SIGXFSZ. The limit is 32 blocks, of 512 or of 1024 bytes.
    let program = env!("CARGO_BIN_EXE_evenkeel");
    let line = format!("trap '' 25; ulimit -f 32; exec {program} watch --interval 100ms --store samples");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &line]).current_dir(scene.path("")).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut complaints = child.stderr.take().unwrap();
    let mut seen = String::new();
    let mut bytes = [0; 1024];
    while !seen.contains("EFBIG") {
        let length = complaints.read(&mut bytes).unwrap();
        assert!(length > 0, "it ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    // The program continues, and the next write fails too.
    std::thread::sleep(Duration::from_millis(500));
    process::ask_to_end(child.id());
    assert!(child.wait().unwrap().success());
    complaints.read_to_string(&mut seen).unwrap();
    assert_eq!(seen.matches("warning: write samples/").count(), 1, "{seen}");
    let (code, last) = scene.json("watch --replay samples");
    assert!(code == 0 && last["elapsed_ns"].as_u64() > Some(0), "{last}");
}
