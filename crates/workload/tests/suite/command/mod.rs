//! A user's command with all kinds of servers. Some servers work.
//! Others end, hang, are slow, print random bytes, lose their port, or go into the background.
//! Each error must be clear, and no process may remain.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_sys::foreign_process::Signal;
use evenkeel_sys::{CpuSet, thread};
use evenkeel_testkit::skipped;
use evenkeel_workload::Placement;
use evenkeel_workload::command::{Command, Ending, LinesFrom, Observer, Port, Ready, Runs, Settings};
use evenkeel_workload::{Sample, Workload, WorkloadError};

use crate::common::scripts::{options, settings, start, tag, window, with_load};

mod ends;
mod loads;

/// The time limit of waits. Only a hang reaches this limit.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file for which a script waits, so that the test controls when the script continues.
struct Gate(tempfile::TempDir);

impl Gate {
    fn new() -> Gate {
        Gate(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> String {
        self.0.path().join("open").display().to_string()
    }

    /// A shell line that waits until the gate is open.
    fn wait(&self) -> String {
        format!("until [ -e '{}' ]; do sleep 0.01; done", self.path())
    }

    fn open(&self) {
        fs::write(self.path(), "").unwrap();
    }
}

/// Measures windows of this length until one contains a line, because the process that prints the line must start first.
fn window_with_lines(command: &mut Command, ms: u64) -> Sample {
    let begun = Instant::now();
    loop {
        match window(command, ms) {
            Ok(sample) => return sample,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// The first error in several short windows.
fn first_error(command: &mut Command) -> String {
    let begun = Instant::now();
    loop {
        if let Err(error) = window(command, 50) {
            return error.to_string();
        }
        assert!(begun.elapsed() < PATIENCE, "it never came to an error");
    }
}

/// Whether a living process has this argument.
fn lives(argument: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
}

fn said<T>(result: Result<T, WorkloadError>) -> String {
    result.err().map(|error| error.to_string()).unwrap()
}

fn lower(metric: &str) -> Settings {
    Settings { json_metrics: vec![metric.into()], better: vec!["lower".into()], ..settings() }
}

#[test]
fn numbers_come_from_lines_and_from_the_kernel() {
    let script = "while :; do echo '{\"rtt\":{\"us\":7}}'; echo 'rps: 900.5'; sleep 0.01; done";
    let mut settings = lower("rtt.us@mean");
    settings.regex_metrics = vec!["rps=^rps: ([0-9.]+)".into()];
    settings.better = vec!["lower".into(), "rps=higher".into()];
    let mut command = start("lines", script, settings).unwrap();
    let sample = window_with_lines(&mut command, 100);
    assert_eq!((sample["rtt.us"], sample["rps"]), (7.0, 900.5));
    assert!(sample["cpu_share"] > 0.0 && sample["switches_voluntary_per_s"] > 0.0, "{sample:?}");
    let names: Vec<_> = command.metrics().iter().map(|metric| metric.name.as_ref()).collect();
    assert_eq!(names, ["rtt.us", "rps", "cpu_share"]);
    assert!(!command.pids().is_empty());
    command.restart().unwrap();
    assert_eq!(window_with_lines(&mut command, 100)["rtt.us"], 7.0);
    command.stop();
    assert!(!lives(&tag("lines")));
}

#[test]
fn environment_and_folder_are_kept_and_there_is_no_shell() {
    let script = "test \"$PWD\" = \"$1\" && test \"$(printenv PATH)\" = \"$2\" && echo ready '$HOME' && exec sleep 60";
    let here = std::env::current_dir().unwrap().display().to_string();
    let mut settings = settings();
    settings.ready = Ready::Line("^ready \\$HOME$".into());
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::start(&options(&["sh", "-c", script, &tag("kept"), &here, &path]), settings).unwrap();
    assert!(window(&mut command, 20).is_ok());
}

#[test]
fn a_failed_start_says_why() {
    let none = Path::new("evenkeel-no-such-program");
    for (command, expected) in [
        (
            vec![none.to_str().unwrap()],
            "start evenkeel-no-such-program: no such file or directory (ENOENT); no folder in PATH contains it",
        ),
        (
            vec!["sleep 60"],
            "start sleep 60: no such file or directory (ENOENT); it is started without a shell: give program",
        ),
        (vec!["/etc/passwd"], "start /etc/passwd: permission denied (EACCES); it must be a program that may be run"),
        (vec![], "read the options of the workload: which command? Write it after --, with its arguments"),
    ] {
        let message = said(Command::start(&options(&command), settings()));
        assert!(message.starts_with(expected), "{message}");
    }
    // The server ends before it is ready, even on a slow machine.
    let ready = Ready::After(Duration::from_secs(60));
    let ends = said(start("ends", "echo one; echo two >&2; exit 3", Settings { ready, ..settings() }));
    assert!(ends.starts_with("measure sh: it ended (exit status: 3); its last lines: "), "{ends}");
    assert!(ends.contains("\"one\"") && ends.contains("\"two\""), "{ends}");
}

#[test]
fn settings_that_contradict_each_other_are_refused_before_anything_starts() {
    type Change = fn(&mut Settings);
    let table: [(Change, &str); 8] = [
        (
            |s| s.json_metrics = vec!["rtt".into()],
            "which way is better for rtt? (--better 'rtt=lower' or 'rtt=higher')",
        ),
        (|s| s.better = vec!["rtt=lower".into()], "--better rtt: no metric has this name"),
        (|s| s.prometheus = Some("http://x".into()), "--prometheus http://x: name its metrics with"),
        (|s| s.prometheus_metrics = vec!["x".into()], "--prometheus-metric: name the page with"),
        (|s| s.lines_from = LinesFrom::Load, "lines of a load need a load (--load)"),
        (|s| s.ready = Ready::Line("(".into()), "wait for a line like (: the expression is invalid: unclosed group"),
        (
            |s| {
                s.json_metrics = vec!["a".into()];
                s.regex_metrics = vec!["a=(.)".into()];
                s.better = vec!["lower".into()];
            },
            "two metrics are called a",
        ),
        (|s| s.regex_metrics = vec!["a".into()], "--regex-metric a: expected a name and an expression"),
    ];
    for (change, expected) in table {
        let mut settings = settings();
        change(&mut settings);
        let message = said(start("refused", "sleep 60", settings));
        assert!(message.starts_with(&format!("read the options of the workload: {expected}")), "{message}");
    }
    assert!(!lives(&tag("refused")));
}

#[test]
fn a_slow_start_is_awaited_and_a_server_that_is_never_ready_is_named() {
    let mut slow = settings();
    slow.ready = Ready::Line("^serving on [0-9]+$".into());
    assert!(start("slow", "sleep 0.1; echo serving on 1 >&2; exec sleep 60", slow.clone()).is_ok());
    // A busy machine may need some time to start a shell.
    let limits = ["0.5", "5", "50"].map(|limit_s| {
        slow.ready_limit = Duration::from_secs_f64(limit_s.parse().unwrap());
        (limit_s, slow.clone())
    });
    let mut messages =
        limits.into_iter().map(|(limit_s, slow)| (limit_s, said(start("never", "echo loading; exec sleep 60", slow))));
    let (limit_s, message) = messages.find(|(_, message)| message.contains("its last lines")).unwrap();
    let expected = format!(
        "measure sh: it runs, and has printed nothing like ^serving on [0-9]+$ within {limit_s} s; --ready-limit gives it longer; \
         its last lines: \"loading\""
    );
    assert_eq!(message, expected);
    assert!(!lives(&tag("never")));
}

#[test]
fn a_server_that_dies_in_a_window_is_noticed_at_once() {
    let gate = Gate::new();
    let script = format!("echo so far so good; {}; kill -9 $$", gate.wait());
    let mut command = start("dies", &script, settings()).unwrap();
    let begun = Instant::now();
    let (settle, long) = (Duration::from_millis(1), 2 * PATIENCE);
    let message = said(command.window(settle, long, &mut || gate.open()));
    let expected = "measure sh: it ended (signal: 9 (SIGKILL)); its last lines: \"so far so good\"";
    assert_eq!(message, expected);
    assert!(begun.elapsed() < PATIENCE, "the window was not sat out");
}

#[test]
fn a_hung_server_that_ignores_signals_is_killed() {
    let mut settings = lower("rtt");
    // The server's only line is printed before the window begins.
    settings.ready = Ready::Line("rtt".into());
    settings.ending.limit = Duration::from_millis(200);
    let mut command = start("hangs", "trap '' TERM; echo '{\"rtt\":1}'; while :; do sleep 1; done", settings).unwrap();
    let pid = command.pids()[0];
    let message = said(window(&mut command, 50));
    let alive = format!("measure sh: its process {pid} lives; it printed no line during the window, and its last one");
    assert!(message.starts_with(&alive), "{message}");
    assert!(message.ends_with(" (JSON lines: rtt (median)); its last lines: \"{\\\"rtt\\\":1}\""), "{message}");
    command.stop();
    assert!(!lives(&tag("hangs")));
}

#[test]
fn a_stopped_server_is_distinguished_from_a_silent_one_and_ends_at_once() {
    let mut settings = lower("rtt");
    settings.ready = Ready::Line("rtt".into());
    settings.ending.limit = 2 * PATIENCE;
    let mut command = start("stopped", "trap 'exit 0' TERM; echo '{\"rtt\":1}'; kill -STOP $$", settings).unwrap();
    let begun = Instant::now();
    let status = format!("/proc/{}/status", command.pids()[0]);
    while !fs::read_to_string(&status).unwrap().contains("\nState:\tT") {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not stop");
        std::thread::sleep(Duration::from_millis(5));
    }
    let message = said(window(&mut command, 50));
    assert!(message.starts_with("measure sh: its process "), "{message}");
    assert!(
        message.contains(" is stopped (SIGSTOP, or a debugger); it printed no line during the window, and its last"),
        "{message}"
    );
    // The time limit is far longer than this. A stopped process must continue before it handles a signal.
    let begun = Instant::now();
    command.stop();
    assert!(begun.elapsed() < PATIENCE, "it was left stopped until it was killed");
    assert!(!lives(&tag("stopped")));
}

#[test]
fn one_is_asked_to_end_by_the_signal_of_the_users_choice() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ended");
    let mut settings = settings();
    settings.ready = Ready::Line("^up$".into());
    settings.ending = Ending { signal: Signal::of_name("SIGUSR1").unwrap(), limit: Duration::from_secs(20) };
    let script = format!(
        "trap 'echo well >{}; exit 0' USR1; trap '' TERM; echo up; while :; do sleep 0.05; done",
        file.display()
    );
    start("asked", &script, settings).unwrap().stop();
    assert_eq!(fs::read_to_string(file).unwrap(), "well\n");
}

#[test]
fn garbage_without_an_end_is_drained() {
    // The bytes from /dev/zero contain no newlines, and after `tr` they are not text.
    let mut command = start("rubbish", "exec tr '\\0' '\\377' </dev/zero", lower("rtt")).unwrap();
    let message = said(window(&mut command, 200));
    assert!(message.contains("it printed no line during the window"), "{message}");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak_kib: u64 =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse().ok()).unwrap();
    assert!(peak_kib < 200 << 10, "{peak_kib} KiB");
    command.stop();
    assert!(!lives("\\377"));
    let ready = Ready::Line("not a number".into());
    let words = "while :; do echo not a number; echo '{\"rtt\":'; done";
    let mut command = start("words", words, Settings { ready, ..lower("rtt") }).unwrap();
    let message = said(window(&mut command, 200));
    assert!(message.contains(" lines came, but none with rtt; the last one was "), "{message}");
}

/// A server with one port, which it closes when a file appears. It is a script for Debian's Python interpreter.
const PORT: &str = "import os,socket,sys,time
kind = socket.SOCK_STREAM if sys.argv[2] == 'tcp' else socket.SOCK_DGRAM
time.sleep(0.05)
s = socket.socket(socket.AF_INET, kind)
s.bind(('127.0.0.1', int(sys.argv[3])))
if sys.argv[2] == 'tcp': s.listen(5)
while not os.path.exists(sys.argv[4]): time.sleep(0.01)
s.close()
time.sleep(600)
";

/// A port that is free at the moment.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn port_server(name: &str, protocol: &str, port: u16, gate: &Gate) -> Option<Result<Command, WorkloadError>> {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        skipped("no python3 is installed to make a server of");
        return None;
    }
    let mut settings = settings();
    settings.ready = Ready::Port(Port::parse(&format!("{protocol}:{port}")).unwrap());
    let (tag, port, gate) = (tag(name), port.to_string(), gate.path());
    let command = ["python3", "-c", PORT, &tag, protocol, &port, &gate];
    Some(Command::start(&options(&command), settings))
}

#[test]
fn a_server_is_ready_when_it_has_its_port() {
    for protocol in ["tcp", "udp"] {
        let Some(started) = port_server("port", protocol, free_port(), &Gate::new()) else { return };
        let mut command = started.unwrap();
        assert!(window(&mut command, 20).is_ok(), "{protocol}");
    }
    assert!(!lives(&tag("port")));
}

#[test]
fn a_server_that_drops_its_port_is_noticed() {
    let port = free_port();
    let gate = Gate::new();
    let Some(started) = port_server("drops", "tcp", port, &gate) else { return };
    let mut command = started.unwrap();
    window(&mut command, 20).unwrap();
    gate.open();
    let message = first_error(&mut command);
    let name = message.split(':').next().unwrap().to_owned();
    assert_eq!(message, format!("{name}: it still runs, but it no longer has TCP port {port}"));
}

#[test]
fn a_port_of_another_process_does_not_count_as_ready() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut settings = settings();
    settings.ready = Ready::Port(Port { protocol: None, number: port });
    settings.ready_limit = Duration::from_millis(300);
    let message = said(start("taken", "exec sleep 60", settings.clone()));
    let expected =
        format!("measure sh: port {port} belongs to another process, so the server did not get it within 0.3 s");
    assert_eq!(message, expected);
    drop(listener);
    // Another test may just be starting a child. The child also has the listener until it calls exec.
    let dropped = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() && dropped.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let message = said(start("unbound", "exec sleep 60", settings));
    let expected =
        format!("measure sh: it runs, and has not opened port {port} within 0.3 s; --ready-limit gives it longer");
    assert_eq!(message, expected);
}

#[test]
fn a_server_that_detaches_is_named_and_ended() {
    let argument = format!("611.{}", std::process::id());
    let script = format!(
        "setsid sh -c 'exec sleep {argument}' & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do sleep 0.01; done; exit 0"
    );
    let mut settings = settings();
    settings.ready = Ready::Line("never".into());
    let message = said(start("away", &script, settings));
    let expected = "measure sh: it ended (exit status: 0) and left sleep (";
    assert!(
        message.starts_with(expected) && message.contains(") running in the background, which is ended too: "),
        "{message}"
    );
    assert!(!lives(&argument));
}

#[test]
fn all_that_a_server_started_is_ended_with_it() {
    let [one, two, three, four] = [612, 613, 614, 615].map(|number| format!("{number}.{}", std::process::id()));
    let script = format!("sleep {one} & setsid sleep {two} & (setsid sleep {three} &) ; exec sleep {four}");
    let mut command = start("many", &script, settings()).unwrap();
    let begun = Instant::now();
    while command.pids().len() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", command.pids());
    }
    command.stop();
    for argument in [one, two, three, four] {
        assert!(!lives(&argument), "{argument}");
    }
}

#[test]
fn a_property_of_its_threads_is_set_while_it_runs() {
    // When the server is ready, both of its processes exist.
    let ready = Ready::Line("^up$".into());
    let mut command = start("slack", "sleep 60 & echo up; wait", Settings { ready, ..settings() }).unwrap();
    let slacks = |command: &Command| -> Vec<String> {
        let read = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/timerslack_ns")).ok();
        command.pids().iter().filter_map(read).map(|text| text.trim().to_owned()).collect()
    };
    let before = slacks(&command);
    if before.is_empty() {
        skipped("this user may not read a server's timer slack");
        return;
    }
    assert_eq!(command.set_process("process.timer_slack_ns", Some("1234")).unwrap(), "1234");
    assert_eq!(slacks(&command), vec!["1234"; before.len()]);
    command.set_process("process.timer_slack_ns", None).unwrap();
    assert_eq!(slacks(&command), before);
    command.set_process("process.timer_slack_ns", Some("1234")).unwrap();
    command.restart().unwrap();
    assert_eq!(command.set_process("process.timer_slack_ns", None).unwrap(), before[0]);
}

/// The number and the affinity of the process that we started with this argument.
/// None unless there is exactly one such process, because a child has the same arguments until it calls exec.
fn placed(argument: &str) -> Option<(u32, CpuSet)> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    };
    let parent = format!("PPid:\t{}", std::process::id());
    let is_ours = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.lines().any(|line| line == parent))
    };
    pids.filter(has).filter(is_ours).find_map(|pid| Some((pid, thread::affinity_of(pid).ok()?)))
}

#[test]
fn server_and_load_are_moved_while_they_run_and_put_back() {
    let (server, load) = (tag("placed"), tag("placing"));
    let script = "while :; do sleep 0.01; done";
    let mut command =
        start("placed", script, with_load(&format!("sh -c '{script}' {load}"), Runs::Throughout)).unwrap();
    let (server_pid, before) = placed(&server).unwrap();
    let (load_pid, _) = placed(&load).unwrap();
    // A process that has pinned itself is moved back to its own CPUs.
    let own: CpuSet = before.iter().last().into_iter().collect();
    thread::set_affinity_of(server_pid, &own).unwrap();
    let together = Placement::Together.cpus().0;
    for _ in 0..2 {
        assert_eq!(command.set_process("workload.placement", Some("together")).unwrap(), "together");
        assert_eq!(thread::affinity_of(server_pid).unwrap(), together);
        assert_eq!(thread::affinity_of(load_pid).unwrap(), together);
        window(&mut command, 30).unwrap();
        assert_eq!(command.set_process("workload.placement", None).unwrap(), "free");
        assert_eq!(thread::affinity_of(server_pid).unwrap(), own);
        assert_eq!(thread::affinity_of(load_pid).unwrap(), before);
    }
    let refused = said(command.set_process("workload.placement", Some("elsewhere")));
    assert_eq!(refused, "switch workload.placement to elsewhere: expected apart, together or free");
    command.set_process("workload.placement", Some("together")).unwrap();
    command.restart().unwrap();
    assert_eq!(placed(&server).unwrap().1, before, "it starts as at first");
    command.stop();
    // A load per window starts on the CPUs of its placement.
    let alone = tag("alone");
    let load = format!("sh -c 'grep Cpus_allowed_list /proc/self/status; sleep 0.05' {alone}");
    let mut settings = with_load(&load, Runs::PerWindow);
    settings.regex_metrics = vec!["cpu=Cpus_allowed_list:\\s+([0-9]+)$".into()];
    settings.better = vec!["lower".into()];
    let mut command = start("alone-server", script, settings).unwrap();
    command.set_process("workload.placement", Some("together")).unwrap();
    assert_eq!(window(&mut command, 5000).unwrap()["cpu"], together.first().unwrap() as f64);
}

#[test]
fn no_metric_has_two_sources() {
    let twice = Settings {
        observe: vec![Observer::Ticks],
        json_metrics: vec!["tick_work_us_p50".into()],
        better: vec!["lower".into()],
        ..settings()
    };
    match Command::start(&options(&["sh", "-c", "exec sleep 60", &tag("twice")]), twice) {
        Err(error) if ["denied", "not permitted"].iter().any(|word| error.to_string().contains(word)) => {
            skipped(format_args!("this user may not see when threads run ({error})"));
        }
        other => assert!(said(other).contains("two metrics are called tick_work_us_p50")),
    }
}
