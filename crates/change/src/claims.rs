//! `Claims`: what one evenkeel changes on the running machine is kept from every other one, whichever journal that one writes. Two that
//! changed one file in turns would each take the other's value for the machine's own, and put that back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_sys::Errno;

use crate::state::{Lock, StateDir, StateError};

/// Only root writes to it, so that no other user can keep root's evenkeel from what it is to change or put back.
pub(crate) const CLAIMS_DIR: &str = "/run/evenkeel";

/// The longest name of a lock, in bytes. Linux takes 255.
const MAX_NAME_BYTES: usize = 240;

/// The places that are ours until this is dropped.
#[derive(Default)]
pub(crate) struct Claims {
    held: BTreeMap<String, Option<Lock>>,
}

impl Claims {
    /// Takes `path` for whoever writes the journal in `journal`. Where no lock can be made, as in a container without a `/run` to write
    /// to, nobody is kept out.
    ///
    /// # Errors
    /// If another evenkeel has it, or `dir` is not ours alone to write.
    pub(crate) fn take(&mut self, dir: &Path, path: &str, journal: &Path) -> Result<(), StateError> {
        if self.held.contains_key(path) {
            return Ok(());
        }
        let lock = match StateDir::open_or_make(dir).and_then(|dir| dir.lock(&name_of(path), journal)) {
            Ok(lock) => Some(lock),
            Err(StateError::Busy { holder, .. }) => return Err(StateError::Busy { path: path.to_owned(), holder }),
            Err(StateError::Io { errno: Errno::NOENT | Errno::ROFS | Errno::NOSPC | Errno::ACCESS, .. }) => None,
            Err(error) => return Err(error),
        };
        self.held.insert(path.to_owned(), lock);
        Ok(())
    }
}

/// The lock of a path. Two paths that differ in nothing but `/` and `-` share one, which does no harm: each is then kept from the other.
fn name_of(path: &str) -> String {
    let name = path.trim_start_matches('/').replace('/', "-");
    // Names are at their most different at their ends. A character may have four bytes.
    let cut = name.char_indices().map(|(at, _)| at).find(|at| name.len() - at <= MAX_NAME_BYTES);
    name[cut.unwrap_or(0)..].to_owned()
}

/// Where claims on the running machine are kept, for who may change it.
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
    }

    #[test]
    fn one_at_a_time_and_the_next_is_told_who() {
        let dir = tempfile::tempdir().unwrap();
        let claims = dir.path().join("claims");
        let (mut first, mut second) = (Claims::default(), Claims::default());
        first.take(&claims, "/proc/a", Path::new("/x/one")).unwrap();
        first.take(&claims, "/proc/a", Path::new("/x/one")).unwrap();
        second.take(&claims, "/proc/b", Path::new("/x/two")).unwrap();
        let error = second.take(&claims, "/proc/a", Path::new("/x/two")).unwrap_err().to_string();
        let who = format!("lock /proc/a: another evenkeel (process {}, journal in /x/one)", std::process::id());
        assert!(error.starts_with(&who), "{error}");
        drop(first);
        second.take(&claims, "/proc/a", Path::new("/x/two")).unwrap();
    }

    #[test]
    fn without_a_place_for_locks_nobody_is_kept_out() {
        let mut claims = Claims::default();
        claims.take(Path::new("/nowhere/at/all"), "/proc/a", Path::new("/x")).unwrap();
    }
}
