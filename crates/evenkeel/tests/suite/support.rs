//! Runs the real program in an empty directory with an empty environment, and returns the output that a user sees.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::schemas;

/// The captured machine that most tests read. In a scene, it is the file `host.txt`.
pub(crate) const HOST: &str = include_str!("host.txt");

/// A separate directory. It is the program's current directory, so that the output contains no random path.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
}

/// What a user sees of a run.
pub(crate) struct Seen {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Scene {
    /// A scene with [`HOST`] in the file `host.txt`.
    pub(crate) fn new() -> Scene {
        let scene = Scene { dir: tempfile::tempdir().unwrap() };
        scene.write("host.txt", HOST);
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Writes a file that no other user may read.
    pub(crate) fn write_private(&self, name: &str, bytes: impl AsRef<[u8]>) {
        self.write(name, bytes);
        fs::set_permissions(self.path(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The program with an empty environment. Without a `PATH`, it can't start another program.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(line.split_whitespace()).current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        command
    }

    /// Runs the command line, split at white space.
    pub(crate) fn run(&self, line: &str) -> Seen {
        self.command(line).output().unwrap().into()
    }

    /// Runs the command line with `--json`. The output must be exactly one object of format 1.
    pub(crate) fn json(&self, line: &str) -> (i32, Value) {
        let (code, value) = self.json_of_any_format(line);
        assert_eq!(value["format"], 1, "{line}: {value:#}");
        (code, value)
    }

    /// Runs the command line with `--json`, for an answer of another format.
    pub(crate) fn json_of_any_format(&self, line: &str) -> (i32, Value) {
        let seen = self.run(&format!("--json {line}"));
        let value: Value = serde_json::from_str(&seen.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {seen}"));
        schemas::check(line, &value);
        (seen.code, value)
    }
}

impl From<Output> for Seen {
    fn from(output: Output) -> Seen {
        Seen {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The exit code, and then each stream that is not empty.
impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "exit code {}", self.code)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "-- {name}\n{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}
