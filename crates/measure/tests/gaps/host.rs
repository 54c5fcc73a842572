//! What the calibration needs of the host: that nobody else loads or changes it meanwhile, and patience with a machine that is not ours.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::machine::{self, Needs};

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

/// This process in a control group of its own, until this is dropped.
pub(crate) struct Group {
    group: PathBuf,
    before: PathBuf,
    /// Takes the group away when this process is gone, however it went.
    keeper: Child,
}

impl Group {
    /// Below the mount of this controller of the first version, with these files written. None, said aloud, where it can't be made.
    pub(crate) fn with(controller: &str, files: &[(&str, String)]) -> Option<Group> {
        let top = PathBuf::from("/sys/fs/cgroup").join(controller);
        let group = top.join(format!("evenkeel-test-gaps-{}", std::process::id()));
        if !top.join("cgroup.procs").exists() {
            println!("skipped: no {}", top.display());
            return None;
        }
        if let Err(error) = fs::create_dir(&group) {
            println!("skipped: {}: {error}", group.display());
            return None;
        }
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = groups.lines().find_map(|line| line.split_once(&format!(":{controller}:")));
        let before = top.join(own.map_or("", |(_, path)| path).trim_start_matches('/'));
        let script = "cat >/dev/null; sleep 0.2; rmdir \"$0\" 2>/dev/null";
        let keeper = Command::new("sh").args(["-c", script]).arg(&group).stdin(Stdio::piped()).spawn().unwrap();
        let made = Group { group, before, keeper };
        for (name, value) in files {
            made.write(name, value);
        }
        made.write("cgroup.procs", &std::process::id().to_string());
        Some(made)
    }

    /// Writes one of its files.
    pub(crate) fn write(&self, name: &str, value: &str) {
        fs::write(self.group.join(name), value).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), std::process::id().to_string());
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        assert!(!self.group.exists() || std::thread::panicking(), "{} is left", self.group.display());
    }
}

/// A busy neighbour or a pause of the whole machine may spoil a try; a fault of the meter spoils all three.
pub(crate) fn one_of_three(one: impl FnMut() -> Result<(), String>) {
    machine::one_of(3, &Needs::on_last_cpu(), one);
}
