//! `Claims` are locks on the host's files that this process changes, across all journals.
//! Without these locks, two processes could change one file in turn.
//! Each process would record the other's value as the original, and would later restore that value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::state_dir::{Lock, StateDir};
use crate::state_error::StateError;

/// The folder of the locks. Only root may write to it, so that no other user can block root's evenkeel.
pub(crate) const CLAIMS_DIR: &str = "/run/evenkeel";

/// The longest name of a lock, in bytes. Linux allows 255.
const MAX_NAME_BYTES: usize = 240;

/// How many bytes of a lock's name are used in a register's name.
const MAX_REGISTER_NAME_BYTES: usize = 200;

/// The locks that this process holds until it drops the `Claims`.
#[derive(Default)]
pub(crate) struct Claims {
    /// The locks by name; `None` for a lock that could not be made.
    held: BTreeMap<String, Option<Lock>>,
    /// Locks that another evenkeel held when we tried to take them. We do not wait for them a second time.
    busy: BTreeSet<String>,
}

impl Claims {
    /// Locks `path` for the journal in `journal`.
    /// If no lock can be made, as in a container without a writable `/run`, the call succeeds without a lock.
    /// A missing lock must not prevent a restore of the machine.
    ///
    /// # Errors
    /// If another evenkeel holds the lock.
    pub(crate) fn take(&mut self, dir: &Path, path: &str, journal: &Path) -> Result<(), StateError> {
        let name = name_of(path);
        if self.held.contains_key(&name) {
            return Ok(());
        }
        let is_patient = !self.busy.contains(&name);
        let lock = match StateDir::open_or_make(dir).and_then(|dir| dir.lock(&name, journal, is_patient)) {
            Err(StateError::Busy { holder, .. }) => {
                self.busy.insert(name);
                return Err(StateError::Busy { path: path.to_owned(), holder });
            }
            made => made.ok(),
        };
        self.held.insert(name, lock);
        Ok(())
    }

    /// Whether another evenkeel held one of the requested locks.
    pub(crate) fn met_another(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Whether we hold `path` exclusively. Returns `false` if its lock could not be made.
    pub(crate) fn has(&self, path: &str) -> bool {
        matches!(self.held.get(&name_of(path)), Some(Some(_)))
    }
}

/// The name of the register of `path`, a file next to the lock. The register lists the journals that hold the path.
/// Different paths have different registers, even if they share a lock.
pub(crate) fn register_name(path: &str) -> String {
    let name = name_of(path);
    // FNV-1a with 64 bits.
    let hash = path
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let cut = name.char_indices().map(|(at, _)| at).find(|at| name.len() - at <= MAX_REGISTER_NAME_BYTES);
    format!("{}.{hash:016x}.holders", &name[cut.unwrap_or(0)..])
}

/// The name of a path's lock. All interrupts share one lock; all CPUs, all queues and all devices of a kind do too.
/// A machine may have thousands, and a process may open only a limited number of files.
/// A shared lock is harmless: it only excludes other processes from more files than needed.
fn name_of(path: &str) -> String {
    let mut name = String::new();
    for shown in path.trim_start_matches('/').chars() {
        match shown {
            '0'..='9' if name.ends_with('N') => {}
            '0'..='9' => name.push('N'),
            '/' => name.push('-'),
            other => name.push(other),
        }
    }
    // Names differ most at their ends, so cut the start. A UTF-8 character may have four bytes.
    let cut = name.char_indices().map(|(at, _)| at).find(|at| name.len() - at <= MAX_NAME_BYTES);
    name[cut.unwrap_or(0)..].to_owned()
}

/// The folder for claims on the running machine; `None` without root, because only root may change the machine.
pub(crate) fn dir_of_root() -> Option<PathBuf> {
    evenkeel_sys::process::is_root().then(|| CLAIMS_DIR.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_tell_the_end_of_a_path() {
        assert_eq!(name_of("/proc/sys/vm/swappiness"), "proc-sys-vm-swappiness");
        let long = name_of(&format!("/sys/{}/end", "é/".repeat(400)));
        assert!(long.len() <= MAX_NAME_BYTES && long.ends_with("é--end") && !long.contains('/'), "{long}");
        assert_eq!(name_of("/"), "");
        let queues = ["/sys/class/net/eth0/queues/rx-0/rps_cpus", "/sys/class/net/eth12/queues/rx-31/rps_cpus"];
        assert_eq!(queues.map(name_of), ["sys-class-net-ethN-queues-rx-N-rps_cpus"; 2]);
    }

    #[test]
    fn one_at_a_time_and_the_next_learns_who() {
        let dir = tempfile::tempdir().unwrap();
        let claims = dir.path().join("claims");
        let (mut first, mut second) = (Claims::default(), Claims::default());
        first.take(&claims, "/proc/a", Path::new("/x/one")).unwrap();
        first.take(&claims, "/proc/a", Path::new("/x/one")).unwrap();
        second.take(&claims, "/proc/b", Path::new("/x/two")).unwrap();
        let error = second.take(&claims, "/proc/a", Path::new("/x/two")).unwrap_err().to_string();
        let who = format!("lock /proc/a: another evenkeel (process {}, journal in /x/one)", std::process::id());
        assert!(error.starts_with(&who), "{error}");
        assert!(second.met_another() && !first.met_another());
        drop(first);
        second.take(&claims, "/proc/a", Path::new("/x/two")).unwrap();
    }

    #[test]
    fn without_a_place_for_locks_nobody_is_kept_out() {
        let mut claims = Claims::default();
        claims.take(Path::new("/nowhere/at/all"), "/proc/a", Path::new("/x")).unwrap();
        // A file has the name of the folder, and a folder has the name of the lock.
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::fs::create_dir_all(dir.path().join("claims/proc-a")).unwrap();
        for name in ["file", "claims"] {
            Claims::default().take(&dir.path().join(name), "/proc/a", Path::new("/x")).unwrap();
        }
    }
}
