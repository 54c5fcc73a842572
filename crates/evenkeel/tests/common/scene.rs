//! `Scene`: runs the program in a separate folder, as root and as an ordinary user.
//! At the end of a test, the settings of the host must be unchanged. The suite and the live checks use it.

#![allow(dead_code, reason = "each of the two programs uses its part")]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel_host::{Facts, files_of, knobs};
use evenkeel_hostfs::Root;
use evenkeel_sys::process;
use evenkeel_testkit::HostLock;
use serde_json::Value;

/// The user number of `nobody` on every distribution that we know.
pub(crate) const ORDINARY_USER: u32 = 65534;
/// The time limit that detects a hang. No result depends on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Scene {
    folder: tempfile::TempDir,
    host: Option<Host>,
}

/// The host and the original value of every setting. Only one test at a time may use the host.
struct Host {
    _lock: HostLock,
    before: BTreeMap<String, Option<String>>,
}

impl Scene {
    /// A folder to which any user may write, like `/tmp`, for a test that does not change the host.
    pub(crate) fn new() -> Scene {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        Scene { folder, host: None }
    }

    /// A scene for a test that changes settings of the host or measures it.
    pub(crate) fn of_host() -> Scene {
        let lock = HostLock::take();
        let mut scene = Scene::new();
        scene.host = Some(Host { _lock: lock, before: settings() });
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with a separate state directory, because a test must leave nothing in root's directory.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        let (own, behind) = line.split_once(" -- ").map_or((line, None), |(own, behind)| (own, Some(behind)));
        command.args(own.split_whitespace());
        if !line.contains(" --state ") && !["prove compare ", "prove workloads"].iter().any(|of| line.starts_with(of)) {
            command.arg("--state").arg(self.path("state"));
        }
        if let Some(behind) = behind {
            command.arg("--").args(behind.split_whitespace());
        }
        command.current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs a command line that needs the arena, which is the default workload.
    /// Prints a skip and returns `None` if the arena is not built.
    pub(crate) fn run_if_built(&self, line: &str) -> Option<Output> {
        let output = self.run(line);
        let program = Path::new(env!("CARGO_BIN_EXE_evenkeel")).with_file_name("evenkeel-arena");
        let names_it = String::from_utf8_lossy(&output.stderr).contains("evenkeel-arena");
        let is_missing = !program.exists() && names_it;
        if is_missing {
            evenkeel_testkit::skipped(format_args!(
                "{line}: evenkeel-arena is not built; `cargo build --workspace` builds it"
            ));
        }
        (!is_missing).then_some(output)
    }

    /// Runs a command line as an ordinary user. That user must be able to start the program, so the scene copies it.
    pub(crate) fn run_as_ordinary_user(&self, line: &str) -> Output {
        let programs = Path::new(env!("CARGO_BIN_EXE_evenkeel")).parent().unwrap();
        // Cargo builds the arena's programs only with the whole workspace. Tests that need them check for them.
        for name in ["evenkeel", "evenkeel-arena", "evenkeel-bots"] {
            if name == "evenkeel" || programs.join(name).exists() {
                std::fs::copy(programs.join(name), self.path(name)).unwrap();
            }
        }
        let mut command = Command::new(self.path("evenkeel"));
        command.args(line.split_whitespace()).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env_remove("XDG_STATE_HOME").stdin(Stdio::null());
        if process::is_root() {
            command.uid(ORDINARY_USER).gid(ORDINARY_USER);
        }
        command.output().unwrap()
    }

    /// Starts a trial or a search.
    pub(crate) fn start(&self, line: &str) -> Running {
        Running(self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Writes the script of a simulated workload, which `--set script=script.json` names.
    pub(crate) fn script(&self, script: &Value) {
        std::fs::write(self.path("script.json"), script.to_string()).unwrap();
    }

    /// Waits until a simulated window waits for `file` to appear.
    pub(crate) fn await_window(&self, file: &str, running: &mut Running) {
        let waiting = self.path(&format!("{file}.waiting"));
        running.wait_until(|| waiting.exists());
    }

    pub(crate) fn assert_all_as_before(&self) {
        let host = self.host.as_ref().expect("a scene of the host");
        assert_eq!(settings(), host.before, "every setting reads as before");
    }
}

impl Drop for Scene {
    /// Restores the host even if a test fails half-way.
    fn drop(&mut self) {
        let Some(host) = &self.host else { return };
        let now = settings();
        for (path, before) in host.before.iter().filter(|(path, before)| now.get(*path) != Some(before)) {
            let value = before.as_deref().unwrap_or_default().trim();
            let written = Root::live().writer().unwrap().write(path, value);
            eprintln!("{path} was not put back; it is now: {written:?}");
        }
    }
}

/// A running program, which is killed when the test ends.
pub(crate) struct Running(pub(crate) Child);

/// How a program ended.
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until `is_so` returns true. Fails if the program ends first.
    pub(crate) fn wait_until(&mut self, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "what the test waits for does not come");
            if let Some(status) = self.0.try_wait().unwrap() {
                let Finished { stdout, stderr, .. } = self.read();
                panic!("it ended ({status}): {stdout}{stderr}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends the program with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Reads the program's messages until a complete line contains `text`, and returns them.
    /// If the program ends first, returns everything that it printed.
    pub(crate) fn messages_until(&mut self, text: &str) -> String {
        use std::io::Read;
        let (mut read, mut byte) = (Vec::new(), [0]);
        let messages = self.0.stderr.as_mut().unwrap();
        while matches!(messages.read(&mut byte), Ok(1)) {
            read.push(byte[0]);
            if byte == *b"\n" && String::from_utf8_lossy(&read).contains(text) {
                break;
            }
        }
        String::from_utf8(read).unwrap()
    }

    /// Waits until the program ends.
    pub(crate) fn finish(mut self) -> Finished {
        self.read()
    }

    fn read(&mut self) -> Finished {
        use std::io::Read;
        let (mut stdout, mut stderr) = (String::new(), String::new());
        // Answers are smaller than a pipe's buffer.
        // So the program never waits while this code reads the streams one after the other.
        let _ = self.0.stderr.take().unwrap().read_to_string(&mut stderr);
        let _ = self.0.stdout.take().unwrap().read_to_string(&mut stdout);
        Finished { code: self.0.wait().unwrap().code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail if the program has already ended, which is no error.
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

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{}", said(output)));
    crate::schemas::check_any(&answer);
    answer
}

/// The processes that a process has started.
pub(crate) fn children(pid: u32) -> Vec<String> {
    let root = Root::live();
    let threads = root.entries(&format!("/proc/{pid}/task")).unwrap_or_default();
    let of = |thread: &String| root.text(&format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    threads.iter().flat_map(|thread| of(thread).split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}
