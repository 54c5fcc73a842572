//! What tests of trials on the machine that runs them share: its settings, which must read as before, and the program as root and as an
//! ordinary user.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel_host::{Facts, files_of, knobs};
use evenkeel_sys::{Root, process};
use serde_json::Value;

use crate::bare::Bare;

/// `nobody` on every distribution that we know.
pub(crate) const ORDINARY_USER: u32 = 65534;
/// How long something may take that takes a moment: this machine pauses at times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    /// There is one host: a test that switches its settings must not run beside one that looks whether they stay, be it of
    /// another checkout.
    _host: File,
    folder: tempfile::TempDir,
    before: BTreeMap<String, Option<String>>,
}

impl Scene {
    /// A folder that any user may write to, and what every setting reads before.
    pub(crate) fn new() -> Scene {
        use std::os::unix::fs::PermissionsExt;
        let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
        host.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        Scene { _host: host, folder, before: settings() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with a state directory of its own: root's is not a test's to leave anything in.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        let mut words = line.split(' ');
        command.args(words.next());
        if !line.contains(" --state ") {
            command.arg("--state").arg(self.path("state"));
        }
        command.args(words).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// The same as somebody who is not root. The program must be where that user can start it, so it is copied.
    pub(crate) fn run_as_ordinary_user(&self, line: &str) -> Output {
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

    pub(crate) fn assert_all_as_before(&self) {
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
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text of every file that a knob names on this machine.
pub(crate) fn settings() -> BTreeMap<String, Option<String>> {
    let root = Root::live();
    let facts = Facts::probe(&root);
    let paths = knobs::ALL.iter().flat_map(|knob| files_of(knob, &facts));
    paths.map(|path| (path.clone(), root.text(&path).ok())).collect()
}

pub(crate) fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Says aloud that a test is skipped, and why.
pub(crate) fn is_skipped_without_root(what: &str) -> bool {
    let skipped = !process::is_root();
    if skipped {
        eprintln!("skipped: {what} needs root");
    }
    skipped
}

/// A trial that is long enough to be disturbed, kept in a file; waits until some pairs are in it. None, said aloud, on a machine that
/// disturbs every window.
pub(crate) fn kept_trial(scene: &Scene) -> Option<(Running, PathBuf, String)> {
    kept_trial_of(scene, "process.timer_slack_ns=1", 30)
}

pub(crate) fn kept_trial_of(scene: &Scene, setting: &str, pairs: u32) -> Option<(Running, PathBuf, String)> {
    let file = scene.path("session.jsonl");
    let (asked, state) = (format!("prove {setting} --window-ms 100"), scene.path("state").display().to_string());
    let kept = file.display();
    let line = format!("{asked} --pairs {pairs} --fixed --control-pairs 1 --settle 20ms --keep {kept} --state {state}");
    let bare = Bare::start();
    let mut trial = Running(scene.command(&line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let begun = Instant::now();
    let pairs = || std::fs::read_to_string(&file).map_or(0, |text| text.matches("{\"pair\":[").count());
    while pairs() < 3 {
        assert!(begun.elapsed() < PATIENCE, "no pairs are kept");
        if trial.0.try_wait().unwrap().is_some() {
            let answer = json(&scene.run(&format!("prove --from {} --json", file.display())));
            assert_eq!(answer["ended"], "out-of-spares", "{answer}");
            bare.excuses(&answer["dropped"]);
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some((trial, file, format!("{asked} --state {state}")))
}
