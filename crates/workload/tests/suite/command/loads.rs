//! Loads of a command: a load per window, and a load that runs throughout.

use super::*;

#[test]
fn a_load_of_each_window_gives_its_numbers() {
    let mut settings = with_load("sh -c 'sleep 0.1; echo \"GET: 144927.5 rps\"'", Runs::PerWindow);
    settings.regex_metrics = vec!["rps=^GET: ([0-9.]+) rps$".into()];
    settings.better = vec!["higher".into()];
    let mut command = start("load", "exec sleep 60", settings).unwrap();
    for _ in 0..2 {
        assert_eq!(window_with_lines(&mut command, 500)["rps"], 144_927.5);
    }
    assert!(command.describe().contains("load once in each window: sh -c "), "{}", command.describe());
    assert_eq!(command.caveats(), Vec::new());
    let message =
        said(window(&mut start("short", "exec sleep 60", with_load("sleep 0.3", Runs::PerWindow)).unwrap(), 100));
    // The load takes longer than its sleep, because it must be started.
    let number = |rest: &str| rest.split([' ', 'm']).next().and_then(|ms| ms.parse::<u64>().ok());
    let took_ms = message.strip_prefix("measure sleep: the load took ").and_then(number).unwrap();
    let longer_ms = message.split(" ms, and a window lasts 100 ms: --window ").nth(1).and_then(number).unwrap();
    assert!(took_ms >= 300 && (took_ms..=took_ms + 200).contains(&longer_ms), "{message}");
    let failing = with_load("sh -c 'echo refused >&2; exit 1'", Runs::PerWindow);
    let message = said(window(&mut start("fails", "exec sleep 60", failing).unwrap(), 100));
    assert_eq!(message, "measure sh: the load failed (exit status: 1); its last lines: \"refused\"");
}

#[test]
fn a_load_that_runs_throughout_must_do_so() {
    let gate = Gate::new();
    let until_open = format!("sh -c \"{}\"", gate.wait());
    let mut command = start("loaded", "exec sleep 60", with_load(&until_open, Runs::Throughout)).unwrap();
    window(&mut command, 20).unwrap();
    gate.open();
    let message = first_error(&mut command);
    assert!(message.starts_with("measure sh: the load must run through all windows, or anew in each"), "{message}");
    assert!(message.ends_with("; it ended (exit status: 0)"), "{message}");
    // If load and server have both ended, the error also reports the server's end.
    let gate = Gate::new();
    let mut command = start("died", &gate.wait(), with_load("sleep 60", Runs::Throughout)).unwrap();
    let ended = command.window(Duration::from_millis(1), PATIENCE, &mut || gate.open());
    assert_eq!(said(ended), "measure sh: it ended (exit status: 0)");
}

#[test]
fn an_idle_load_gets_no_caveat() {
    let mut command = start("idle", "exec sleep 60", with_load("sleep 60", Runs::Throughout)).unwrap();
    let sample = window(&mut command, 50).unwrap();
    assert!(sample["load_busiest_share"] < 0.5 && sample["load_cpus_used_share"] < 0.5, "{sample:?}");
    assert_eq!(command.caveats(), Vec::new());
}
