//! A control group for a test. It is removed when this is dropped, and also when the test process is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// The command waits, because the kernel takes a moment to notice that the last process of a group is gone.
const REMOVE: &str = "cat >/dev/null; for n in $(seq 50); do rmdir \"$0\" 2>/dev/null && break; sleep 0.05; done";

/// A control group.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    /// Removes the group when the pipe to it closes.
    keeper: Child,
}

impl Group {
    /// Creates a group below the mount of a version 1 controller, and writes these of its files.
    ///
    /// # Errors
    /// Why that is not possible here.
    pub fn with(controller: &str, files: &[(&str, String)]) -> Result<Group, String> {
        Group::below(&Path::new("/sys/fs/cgroup").join(controller), files)
    }

    /// Creates a group that may run for `quota_us` of every `period_us`, in version 1 or version 2.
    ///
    /// # Errors
    /// Why that is not possible here.
    pub fn with_cpu_limit(quota_us: u64, period_us: u64) -> Result<Group, String> {
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        if v1.join("cgroup.procs").exists() {
            // Write the period first, because the kernel refuses a quota that is too long for the period.
            let files = [("cpu.cfs_period_us", period_us.to_string()), ("cpu.cfs_quota_us", quota_us.to_string())];
            return Group::below(v1, &files);
        }
        Group::below(Path::new("/sys/fs/cgroup"), &[("cpu.max", format!("{quota_us} {period_us}"))])
    }

    fn below(parent: &Path, files: &[(&str, String)]) -> Result<Group, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if !parent.join("cgroup.procs").exists() {
            return Err(format!("{} is not a control group", parent.display()));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("evenkeel-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let keeper = Command::new("sh").args(["-c", REMOVE]).arg(&path).stdin(Stdio::piped()).spawn();
        let group = Group { path, keeper: keeper.expect("start sh") };
        for (name, value) in files {
            fs::write(group.path.join(name), value).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(group)
    }

    /// The group's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one of the group's files.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn write(&self, name: &str, value: &str) {
        fs::write(self.path.join(name), value).unwrap();
    }

    /// Moves a process into the group. The process must leave or end before the group is dropped.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn enter(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        assert!(!self.path.exists() || std::thread::panicking(), "{} is left", self.path.display());
    }
}
