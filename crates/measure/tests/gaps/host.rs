//! What the calibration needs of the host: that nobody else loads or changes it meanwhile, and patience with a machine that is not ours.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The host, for one test that loads it.
pub(crate) struct ThisHost(File);

impl ThisHost {
    /// Waits until no other test loads the host. None, said aloud, where that can't be known.
    pub(crate) fn taken() -> Option<ThisHost> {
        let path = "/tmp/evenkeel-tests-of-this-host.lock";
        let file = File::options().create(true).truncate(false).write(true).open(path);
        match file.and_then(|file| file.lock().map(|()| file)) {
            Ok(file) => Some(ThisHost(file)),
            Err(error) => {
                println!("skipped: {path}: {error}");
                None
            }
        }
    }
}

impl Drop for ThisHost {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// This process in a control group of its own with a limit on CPU time, until this is dropped.
pub(crate) struct Limited {
    group: PathBuf,
    before: PathBuf,
    /// Takes the group away when this process is gone, however it went.
    keeper: Child,
}

impl Limited {
    /// None, said aloud, where no such group can be made.
    pub(crate) fn here(quota_us: u64, period_us: u64) -> Option<Limited> {
        let top = PathBuf::from("/sys/fs/cgroup/cpu");
        let group = top.join(format!("evenkeel-test-gaps-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&group) {
            println!("skipped: {}: {error}", group.display());
            return None;
        }
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = groups.lines().find_map(|line| line.split_once(":cpu:")).map_or("", |(_, path)| path);
        let before = top.join(own.trim_start_matches('/'));
        let script = "cat >/dev/null; sleep 0.2; rmdir \"$0\" 2>/dev/null";
        let keeper = Command::new("sh").args(["-c", script]).arg(&group).stdin(Stdio::piped()).spawn().unwrap();
        let limited = Limited { group, before, keeper };
        fs::write(limited.group.join("cpu.cfs_period_us"), period_us.to_string()).unwrap();
        fs::write(limited.group.join("cpu.cfs_quota_us"), quota_us.to_string()).unwrap();
        fs::write(limited.group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        Some(limited)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), std::process::id().to_string());
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        assert!(!self.group.exists() || std::thread::panicking(), "{} is left", self.group.display());
    }
}

/// A busy neighbour or a pause of the whole machine may spoil a try; a fault of the meter spoils all three.
pub(crate) fn one_of_three(mut one: impl FnMut() -> Result<(), String>) {
    let mut said = Vec::new();
    for _ in 0..3 {
        match one() {
            Ok(()) => return,
            Err(why) => {
                println!("a try failed: {why}");
                said.push(why);
            }
        }
    }
    panic!("three of three tries failed: {said:?}");
}
