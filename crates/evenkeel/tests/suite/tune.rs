//! `tune` on the machine that runs the tests: what it refuses, and a search that is killed, put back and gone on with. What it finds
//! is the machine's business; that it reports whole and puts everything back is asserted.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel_sys::process;
use evenkeel_trial::Metric;
use evenkeel_trial::search::{Budget, Candidate, Header, Log, SearchDesign};
use serde_json::Value;

/// How long something may take that takes a moment: this machine pauses at times.
const PATIENCE: Duration = Duration::from_secs(30);
const FILES: [&str; 2] = ["/proc/sys/vm/swappiness", "/proc/sys/vm/stat_interval"];

struct Scene {
    /// There is one host, and one test at a time that switches its settings.
    _host: File,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
        host.lock().unwrap();
        Scene { _host: host, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(line.split(' ')).args(["--state".into(), self.path("state")]).current_dir(self.folder.path());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }
}

/// A search that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that is faster with two settings: one of the machine, one of its own process. It costs what its numbers say, whatever else the
/// machine does.
const TUNABLE: &str = r#"$| = 1; sub is { open my $file, "<", $_[0]; <$file> == $_[1] }
while (1) {
    select undef, undef, undef, 0.005;
    my ($far, $near) = (is("/proc/sys/vm/swappiness", 31) ? 0.7 : 1, is("/proc/self/timerslack_ns", 1) ? 0.7 : 1);
    printf qq({"lat_us":%f}\n), (100 + rand) * $far * $near;
}"#;

#[test]
fn what_was_found_is_told_and_kept_where_the_goal_can_not_be_written() {
    if !process::is_root() {
        eprintln!("skipped: to switch settings of the host needs root");
        return;
    }
    let scene = Scene::new();
    let asked = "--knobs vm.swappiness=31 process.timer_slack_ns=1 --budget 60s --window-ms 100 --settle-ms 20 --seed 3 \
                 --json-metric lat_us --better lower";
    let run = |line: &str| scene.command(line).args(["--", "perl", "-e", TUNABLE]).output().unwrap();
    let output = run(&format!("tune {asked} --out /dev/full"));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{told}{}", said(&output));
    assert!(told.contains("better: with 2 knobs, ") && told.contains("vm.swappiness=31"), "{told}");
    let again = format!("`evenkeel tune --resume --state {} --out FILE`", scene.path("state").display());
    for expected in ["write the goal /dev/full: no space left on device", &again] {
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
    let log = || std::fs::read_to_string(scene.path("state").join("tune.jsonl")).unwrap();
    let measured = log();
    // With --json there is one document all the same, which tells what is missing.
    let output = scene.run("tune --resume --json --out /dev/full");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["verdict"]), (Some(4), &"better".into()), "{answer}");
    assert!(answer["notes"][0].as_str().unwrap().contains("write the goal /dev/full: "), "{answer}");
    // What it was begun with may be said again, and nothing else.
    for (other, expected) in [
        ("--budget 5s", "it was begun with --budget 60s, and this says --budget 5s"),
        ("--metric cpu_share", "it was begun with --metric lat_us, and this says --metric cpu_share"),
        ("--knobs vm.swappiness=31", "it was begun with --knobs process.timer_slack_ns=1 vm.swappiness=31, and this"),
        ("--guard lat_us", "it was begun without --guard, and this says --guard lat_us"),
        ("--smallest-effect 7", "it was begun without --smallest-effect, and this says --smallest-effect 7"),
        ("-- /no/such/server", "and this says -- /no/such/server: it decides by what it was begun with"),
    ] {
        let output = scene.command("tune --resume").args(other.split(' ')).output().unwrap();
        assert!(said(&output).contains(expected), "{other}: {}", said(&output));
        assert_eq!(output.status.code(), Some(2), "{other}");
    }
    // What nobody asked for may be named as it is.
    let output = run(&format!("tune {asked} --smallest-effect 5 --guard none --resume --json --out goal.json"));
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    assert_eq!((output.status.code(), &answer["goal_file"]), (Some(0), &"goal.json".into()), "{answer}");
    assert_eq!(log(), measured, "nothing is measured anew");
    // One word on whether the set lasts, and the one that apply holds to.
    let [note] = &answer["notes"].as_array().unwrap()[..] else { panic!("{}", answer["notes"]) };
    assert!(note.as_str().unwrap().starts_with("process.timer_slack_ns=1 can't be made to last: "), "{note}");
    assert!(note.as_str().unwrap().ends_with("`evenkeel apply` refuses the plan as it is"), "{note}");
    let output = scene.run("apply goal.json");
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
}

fn readings() -> Vec<Option<String>> {
    FILES.iter().map(|file| std::fs::read_to_string(file).ok()).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_can_not_be_searched_is_refused_with_its_reason() {
    let scene = Scene::new();
    let table = [
        ("tune --knobs vm.swapiness=1", 2, "did you mean \"vm.swappiness\""),
        ("tune --knobs vm.swappiness=1000", 2, "vm.swappiness does not take \"1000\""),
        (
            "tune --budget 5",
            2,
            "the budget gives 4 windows of 1000 ms, each after 100 ms of quiet; a search takes at least 80, which is 88 s",
        ),
        ("tune --budget soon", 2, "is no unit of time: s, min, h"),
        ("tune --smallest-effect 0", 2, "0 is not between"),
        ("tune --metric no_such_us", 2, "the workload gives"),
        ("tune --guard 1", 2, "a guard at 1 times the usual"),
        ("tune --stop-at 1", 2, "a guard at 1 times the usual"),
        ("tune --guard no_such_us", 2, "the workload gives"),
        ("tune --guard round_trip_us_p99=-5", 2, "is no per cent above 0"),
        ("tune --metric round_trip_us_p50 --guard round_trip_us_p50", 2, "it is what decides already"),
        ("tune --knobs workload.colour=red", 2, "unknown knob"),
        ("tune --knobs workload.tick-hz=5", 4, "set tick-hz=5: expected a whole number from 10 to 500"),
        ("tune --knobs workload.tick-hz=50", 4, "workload.tick-hz: it is so already"),
        ("prove workload.tick-hz=5", 2, "set tick-hz=5: expected a whole number from 10 to 500"),
        ("prove workload.pps=100", 2, "set pps: the workload arena takes tick-hz, work-us, tail-us"),
        ("tune --out /not/here/goal.json", 2, "there is no such folder"),
        ("tune --workload arean", 2, "there is no such workload"),
        ("tune --resume", 2, "read the search's log"),
        ("tune --knobs cmdline.mitigations=off", 4, "it takes effect after a reboot"),
        ("prove --goal /not/here/goal.json", 2, "read the goal /not/here/goal.json"),
    ];
    for (line, code, expected) in table {
        let output = scene.run(line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
        assert!(said(&output).contains(expected), "{line}: {}", said(&output));
        // More time mends a budget that is too small, and nothing else.
        assert_eq!(said(&output).contains("give more time by --budget"), line == "tune --budget 5", "{line}");
    }
}

#[test]
fn an_ordinary_goal_is_no_goal() {
    let scene = Scene::new();
    let plan = scene.path("plan.json");
    let output = scene.run(&format!("plan vm.swappiness=10 --output {}", plan.display()));
    assert!(output.status.success(), "{}", said(&output));
    let output = scene.run(&format!("prove --goal {}", plan.display()));
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("it is a plan without evidence"), "{}", said(&output));
}

#[test]
fn a_command_is_not_run_because_a_log_says_so() {
    let scene = Scene::new();
    let begun_with = |name: &str, command: &str, asked: &str| {
        let metric = Metric::us("lat_us", "");
        let budget = Budget { windows: 100, time_ms: None };
        let design = SearchDesign::new(vec![Candidate::plain("vm.swappiness=31")], metric, budget, 3);
        let workload = serde_json::json!({"name": "command", "placement": "free", "arguments": command});
        let asked = serde_json::json!({"a workload": asked});
        let context = serde_json::json!({"workload": workload, "left_out": [], "asked": asked});
        std::fs::create_dir_all(scene.path(name).parent().unwrap()).unwrap();
        Log::create(&scene.path(name), &Header::new(design, context)).unwrap();
    };
    let runs = "-- touch started";
    begun_with("last", runs, runs);
    begun_with("foreign", runs, runs);
    begun_with("lies", runs, "-- sleep 9");
    begun_with("state/searches/kept.jsonl", runs, runs);
    std::os::unix::fs::symlink(scene.path("foreign"), scene.path("state/searches/linked.jsonl")).unwrap();
    let refused = "its workload is a command, which is not run because a file says so";
    let named = format!(
        "look at it, and name it yourself: evenkeel tune --resume foreign --state {} -- touch started",
        scene.path("state").display()
    );
    let other = "it was begun with -- touch started, and this says -- sleep 9";
    // What is asked, whether the command is started, and what is said where it is not.
    let table = [
        ("tune --resume", "", false, "state/tune.jsonl"),
        ("tune --resume last", "", false, "state/tune.jsonl"),
        ("tune --resume ./last", "", false, refused),
        ("tune --resume foreign", "", false, refused),
        ("tune --resume foreign", "", false, &named),
        ("tune --resume state/searches/linked.jsonl", "", false, refused),
        ("tune --resume lies", "-- sleep 9", false, other),
        ("tune --resume state/searches/kept.jsonl", "-- sleep 9", false, other),
        ("tune --resume state/searches/kept.jsonl", "", true, ""),
        ("tune --resume foreign", runs, true, ""),
    ];
    for (line, command, is_started, expected) in table {
        let output = scene.command(line).args(command.split_whitespace()).output().unwrap();
        assert!(said(&output).contains(expected), "{line} {command}: {}", said(&output));
        assert_eq!(scene.path("started").exists(), is_started, "{line} {command}: {}", said(&output));
        assert_eq!(output.status.code(), Some(if is_started { 4 } else { 2 }), "{line} {command}: {}", said(&output));
        let _ = std::fs::remove_file(scene.path("started"));
    }
}

/// Prints a line of JSON every $ARGV[0] seconds; when it is started for the first time it ends after $ARGV[1].
const SERVER: &str = r#"$| = 1; my $first = !-e "starts"; open F, ">>starts"; print F "x"; close F; my $begun = time;
while (1) { select undef, undef, undef, $ARGV[0]; print qq({"lat_us":50}\n); exit 3 if $first && time > $begun + $ARGV[1] }"#;

#[test]
fn a_server_that_is_started_anew_lives_and_why_the_first_one_ended_is_told() {
    if !process::is_root() {
        eprintln!("skipped: to switch settings of the host needs root");
        return;
    }
    // How often it reports, how long the first one lives, how it is searched on, after which line of the log the second one is
    // measured, and what is said of the first one's end.
    let table = [
        // It dies in the middle.
        ("0.01", "2", "--window-ms 100 --settle-ms 10", "{\"died\":", "perl: it ended (exit status: 3)"),
        // It reports more seldom than the windows by which it is found how long a switch is felt.
        ("0.35", "9999", "--window-ms 600", "{\"format\":", "it printed no line during the window"),
    ];
    for (every, lives, how, line_of_end, ended) in table {
        let scene = Scene::new();
        let line = format!(
            "tune --knobs vm.swappiness=31 vm.stat_interval=7 --budget 150s --seed 3 --json-metric lat_us --better lower {how} --json"
        );
        let mut command = scene.command(&line);
        command.args(["--", "perl", "-e", SERVER, every, lives]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut search = Running(command.spawn().unwrap());
        let log = || std::fs::read_to_string(scene.path("state").join("tune.jsonl")).unwrap_or_default();
        let starts = || std::fs::read_to_string(scene.path("starts")).map_or(0, |text| text.len());
        let measured = || log().split_once(line_of_end).map_or(0, |(_, then)| then.matches("{\"measured\":").count());
        let begun = Instant::now();
        while starts() < 2 || measured() < 4 {
            assert!(begun.elapsed() < 3 * PATIENCE, "{every}: {} starts, {}", starts(), log());
            assert_eq!(search.0.try_wait().unwrap(), None, "{every}: {} starts, {}", starts(), log());
            std::thread::sleep(Duration::from_millis(10));
        }
        Command::new("kill").args(["-INT", &search.0.id().to_string()]).status().unwrap();
        let mut text = String::new();
        search.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!((&answer["ended"], starts()), (&"stopped".into(), 2), "{answer}");
        let told = format!("{} {}", answer["doubts"], answer["design"]["settles"]);
        assert!(told.contains(ended), "{told}");
    }
}

/// Waits until so many windows are in the log, and one of the settings is switched.
fn wait_for_windows(log: &Path, count: usize, before: &[Option<String>]) {
    let begun = Instant::now();
    let windows = || std::fs::read_to_string(log).map_or(0, |text| text.lines().count().saturating_sub(1));
    while windows() < count || readings() == before {
        assert!(begun.elapsed() < PATIENCE, "the search does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_search_is_put_back_by_revert_and_gone_on_with() {
    if !process::is_root() {
        eprintln!("skipped: to switch settings of the host needs root");
        return;
    }
    let scene = Scene::new();
    let before = readings();
    let knobs = "vm.swappiness=31 vm.stat_interval=7 process.timer_slack_ns=1";
    let line = format!("tune --knobs {knobs} --budget 14s --window-ms 100 --settle-ms 10 --seed 3");
    let log = scene.path("state").join("tune.jsonl");
    {
        let mut search = Running(scene.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_for_windows(&log, 12, &before);
        search.0.kill().unwrap();
        search.0.wait().unwrap();
    }
    let refused = scene.run("tune --resume");
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(said(&refused).contains("was interrupted and has not been put back"), "{}", said(&refused));
    let state = scene.path("state");
    let hint = format!("`evenkeel tune --resume --state {}` then goes on with the search", state.display());
    assert!(said(&refused).contains(&hint), "{}", said(&refused));
    let reverted = scene.run("revert");
    assert!(reverted.status.success(), "{}", said(&reverted));
    assert_eq!(readings(), before);
    let kept = std::fs::read_to_string(&log).unwrap().lines().count();
    // Another search takes nothing from the first, and says where it is now.
    let mut another = scene.command(&line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map(Running).unwrap();
    wait_for_windows(&log, 1, &before);
    Command::new("kill").args(["-INT", &another.0.id().to_string()]).status().unwrap();
    let mut told = String::new();
    another.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    another.0.wait().unwrap();
    let first = std::fs::read_dir(state.join("searches")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read_to_string(&first).unwrap().lines().count(), kept);
    assert!(told.contains(&format!("tune --resume {} --state", first.display())), "{told}");
    let output = scene.run(&format!("tune --resume {} --json", first.display()));
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    assert_eq!(readings(), before);
    assert_eq!((&answer["format"], &answer["all_as_before"]), (&1.into(), &true.into()), "{answer}");
    let verdict = answer["verdict"].as_str().unwrap();
    assert!(["better", "nothing-helped", "not-proved"].contains(&verdict), "{verdict}");
    assert_eq!(answer["design"]["seed"], 3);
    assert_eq!(answer["knobs"].as_array().unwrap().len(), 3);
    let windows: u64 = answer["windows"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert!(windows as usize + 1 >= kept, "{windows} windows, {kept} lines were kept");
}
