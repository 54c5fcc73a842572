//! `prove` and `demo` on the machine that runs the tests: as root and as an ordinary user, to the end, stopped and killed. What
//! they find is the machine's business; that they report whole and put everything back is asserted. They need the reference
//! server's programs beside this one, which `cargo build --workspace` puts there.

#![expect(clippy::unwrap_used, reason = "a test that can't run its program fails")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel_host::{Facts, files_of, knobs};
use evenkeel_sys::{Root, process};
use serde_json::Value;

/// `nobody` on every distribution that we know.
const ORDINARY_USER: u32 = 65534;
/// How long something may take that takes a moment: this machine pauses at times.
const PATIENCE: Duration = Duration::from_secs(20);

struct Scene {
    /// There is one host: a test that switches its settings must not run beside one that looks whether they stay, be it of
    /// another checkout.
    _host: File,
    folder: tempfile::TempDir,
    before: BTreeMap<String, Option<String>>,
}

impl Scene {
    /// A folder that any user may write to, and what every setting reads before.
    fn new() -> Scene {
        use std::os::unix::fs::PermissionsExt;
        let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
        host.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        Scene { _host: host, folder, before: settings() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(line.split(' ')).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// The same as somebody who is not root. The program must be where that user can start it, so it is copied.
    fn run_as_ordinary_user(&self, line: &str) -> Output {
        let programs = Path::new(env!("CARGO_BIN_EXE_evenkeel")).parent().unwrap();
        for name in ["evenkeel", "evenkeel-arena", "evenkeel-bots"] {
            std::fs::copy(programs.join(name), self.path(name)).unwrap();
        }
        let mut command = Command::new(self.path("evenkeel"));
        command.args(line.split(' ')).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        if process::is_root() {
            command.uid(ORDINARY_USER).gid(ORDINARY_USER);
        }
        command.output().unwrap()
    }

    fn assert_all_as_before(&self) {
        assert_eq!(settings(), self.before, "every setting reads as before");
    }
}

impl Drop for Scene {
    /// A test that fails half-way leaves the host as it was all the same.
    fn drop(&mut self) {
        let now = settings();
        for (path, before) in self.before.iter().filter(|(path, before)| now.get(*path) != Some(before)) {
            let value = before.as_deref().unwrap_or_default().trim();
            let written = Root::live().hand().unwrap().write(path, value);
            eprintln!("{path} was not put back; it is now: {written:?}");
        }
    }
}

/// A trial that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text of every file that a knob names on this machine.
fn settings() -> BTreeMap<String, Option<String>> {
    let root = Root::live();
    let facts = Facts::probe(&root);
    let paths = knobs::ALL.iter().flat_map(|knob| files_of(knob, &facts));
    paths.map(|path| (path.clone(), root.text(&path).ok())).collect()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Says aloud that a test is skipped, and why.
fn is_skipped_without_root(what: &str) -> bool {
    let skipped = !process::is_root();
    if skipped {
        eprintln!("skipped: {what} needs root");
    }
    skipped
}

#[test]
fn an_ordinary_user_proves_a_knob_of_the_servers_process() {
    let scene = Scene::new();
    let output = scene.run_as_ordinary_user("prove process.timer_slack_ns=1 --pairs 6 --window-ms 200 --seed 3 --json");
    let answer = json(&output);
    assert_eq!(answer["format"], 1, "{answer}");
    assert_eq!(answer["seed"], 3);
    assert_eq!(answer["metric"]["name"], "tick_lateness_us_p50");
    assert_eq!(answer["arms"].as_array().map(Vec::len), Some(2));
    let verdict = answer["verdict"].as_str().unwrap();
    assert!(["better", "worse", "same", "undecided"].contains(&verdict), "{verdict}");
    assert_eq!(answer["pairs"].as_u64().unwrap() as usize * 2, answer["windows"].as_array().unwrap().len());
    for window in answer["windows"].as_array().unwrap() {
        assert!(window["value"].as_f64().unwrap() > 0.0);
        assert!(window["sample"]["ticks"].as_f64().unwrap() > 0.0);
        assert!(window["conditions"]["span_us"].as_f64().unwrap() >= 200_000.0);
    }
    if answer["pairs"].as_u64() == Some(6) {
        let effect = &answer["effect"];
        assert!(effect["low"].as_f64().unwrap() <= effect["high"].as_f64().unwrap(), "{effect}");
    }
    assert!(answer["doubts"].is_array() && answer["dropped"].is_array());
    scene.assert_all_as_before();
}

#[test]
fn what_can_not_be_proved_is_refused_with_its_reason() {
    let scene = Scene::new();
    let table = [
        ("prove vm.swapiness=1", 2, "did you mean \"vm.swappiness\""),
        ("prove vm.swappiness=1000", 2, "vm.swappiness does not take \"1000\""),
        ("prove vm.swappiness", 2, "expected KNOB=VALUE"),
        ("prove process.timer_slack_ns=1 --smallest-effect 0", 2, "0 is not between"),
        ("prove process.timer_slack_ns=1 --metric no_such_us", 2, "the workload gives round_trip_us_p50"),
        ("prove process.timer_slack_ns=1 --pairs 2", 2, "2 is not in 6..=5000"),
    ];
    for (line, code, expected) in table {
        let output = scene.run(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(expected), "{line}: {said}");
    }
    let output = scene.run_as_ordinary_user("prove vm.swappiness=30");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    if !is_skipped_without_root("to be refused a kernel argument for another reason than rights") {
        let output =
            scene.run(&format!("prove cmdline.intel_idle.max_cstate=1 --state {}", scene.path("state").display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("a kernel argument takes effect after a reboot"), "{said}");
    }
}

/// Starts a long trial that switches `vm.swappiness`, and waits until its journal tells that it has begun.
fn long_trial(scene: &Scene) -> Running {
    let state = scene.path("state");
    let line = format!("prove vm.swappiness=31 --pairs 500 --window-ms 100 --state {}", state.display());
    let trial = Running(scene.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    let is_31 = || std::fs::read_to_string("/proc/sys/vm/swappiness").is_ok_and(|text| text == "31\n");
    let changed = || state.join("journal").exists() && is_31();
    while !changed() {
        assert!(begun.elapsed() < PATIENCE, "the trial does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
    trial
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<String> {
    let root = Root::live();
    let threads = root.entries(&format!("/proc/{pid}/task")).unwrap();
    let of = |thread: &String| root.text(&format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    threads.iter().flat_map(|thread| of(thread).split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn a_killed_trial_is_put_back_by_revert_and_leaves_no_server() {
    if is_skipped_without_root("a trial of a sysctl") {
        return;
    }
    let scene = Scene::new();
    let mut trial = long_trial(&scene);
    let servers = children(trial.0.id());
    assert_eq!(servers.len(), 2, "the server and its bots");
    trial.0.kill().unwrap();
    trial.0.wait().unwrap();
    let begun = Instant::now();
    // A process that was killed and that nobody has waited for yet reads as state Z; init waits for it in its own time.
    let runs = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
    };
    while servers.iter().any(runs) {
        assert!(begun.elapsed() < PATIENCE, "the server outlives the trial");
        std::thread::sleep(Duration::from_millis(5));
    }
    let state = scene.path("state");
    let refused = scene.run(&format!("prove vm.swappiness=31 --state {}", state.display()));
    assert_eq!(refused.status.code(), Some(4), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("evenkeel revert"));
    let reverted = scene.run(&format!("revert --state {}", state.display()));
    assert!(reverted.status.success(), "{}", String::from_utf8_lossy(&reverted.stderr));
    scene.assert_all_as_before();
}

#[test]
fn a_stopped_trial_reports_what_it_has_and_puts_everything_back() {
    if is_skipped_without_root("a trial of a sysctl") {
        return;
    }
    let scene = Scene::new();
    let mut trial = long_trial(&scene);
    process::ask_to_end(trial.0.id());
    let status = trial.0.wait().unwrap();
    assert_eq!(status.code(), Some(0), "stopped, which is no failure: {status}");
    scene.assert_all_as_before();
}

fn check_demo(scene: &Scene, output: &Output, proved: &[&str]) {
    let said = String::from_utf8_lossy(&output.stdout);
    // With so few pairs a noisy machine may leave the control undecided, which is exit code 1.
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("read as before"), "{said}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(scene.path("out/report.json")).unwrap()).unwrap();
    assert_eq!(report["format"], 1);
    assert_eq!(report["all_as_before"], true);
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.iter().map(|trial| trial["control"].as_bool()).collect::<Vec<_>>(), [Some(true), Some(false)]);
    let knob = trials[1]["knob"].as_str().unwrap().split('=').next().unwrap();
    assert!(proved.contains(&knob), "{knob}");
    assert!(report["not_tried"].as_array().is_some_and(|not_tried| !not_tried.is_empty()), "{said}");
    let page = std::fs::read_to_string(scene.path("out/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("</html>"));
    for outside in ["src=\"http", "href=\"http", "url(", "@import"] {
        assert!(!page.contains(outside), "the page needs the network: {outside}");
    }
    scene.assert_all_as_before();
}

#[test]
fn demo_as_an_ordinary_user() {
    let scene = Scene::new();
    let output = scene.run_as_ordinary_user("demo --pairs 6 --out out");
    check_demo(&scene, &output, &["process.timer_slack_ns"]);
}

#[test]
fn demo_as_root() {
    if is_skipped_without_root("the demo of a knob of the host") {
        return;
    }
    let scene = Scene::new();
    let output = scene.run(&format!("demo --pairs 6 --out out --state {}", scene.path("state").display()));
    check_demo(&scene, &output, &["haltpoll.guest_halt_poll_ns", "cpuidle.dma_latency_us", "process.timer_slack_ns"]);
}
