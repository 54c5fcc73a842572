//! Checks who could replace the state directory.
//! Anyone who may write to a parent folder can rename the state directory and put another one in its place.
//! The owner of a parent folder could do so too, but evenkeel trusts the owner.
//! Root itself chose the directory, and with `sudo` or in a container root often works in folders of its users.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat};

use crate::state_error::StateError;

/// The maximum depth of a folder. A path has at most 4,096 bytes, so no path reaches a deeper folder.
const LEVELS_MAX: usize = 2048;

/// Refuses a state directory that another user could replace.
/// Checks the real parent folders of the directory, even if the path has links.
///
/// # Errors
/// [`StateError::Unsafe`] with the folder and the fix.
pub(crate) fn refuse_if_replaceable(dir: &File, path: &Path) -> Result<(), StateError> {
    let io = |errno| StateError::io("look above", path, errno);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let is_same = |one: &Stat, other: &Stat| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino);
    let mut below = rustix::fs::fstat(dir).map_err(io)?;
    let mut above = rustix::fs::openat(dir, "..", flags, Mode::empty()).map_err(io)?;
    for level in 1..=LEVELS_MAX {
        let stat = rustix::fs::fstat(&above).map_err(io)?;
        if is_same(&stat, &below) {
            break;
        }
        if let Some(why) = why_not(&stat, &|| shown(path, level)) {
            return Err(StateError::Unsafe { path: path.display().to_string(), why });
        }
        let next = rustix::fs::openat(&above, "..", flags, Mode::empty()).map_err(io)?;
        (above, below) = (next, stat);
    }
    Ok(())
}

/// Why a parent folder must not be trusted, and the fix.
fn why_not(stat: &Stat, folder: &dyn Fn() -> String) -> Option<String> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.contains(Mode::WOTH) && !mode.contains(Mode::SVTX) {
        let (folder, mode) = (folder(), mode.as_raw_mode());
        return Some(format!(
            "anyone can write to its parent folder {folder} (mode {mode:o}) and so can replace it: remove that \
                right with `chmod o-w {folder}`, or let only owners remove files there with `chmod +t {folder}`"
        ));
    }
    None
}

/// The folder that is `level` levels above `path`, for messages.
fn shown(path: &Path, level: usize) -> String {
    let above: PathBuf = std::iter::once(path).chain(std::iter::repeat_n(Path::new(".."), level)).collect();
    std::fs::canonicalize(&above).unwrap_or(above).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use crate::{Log, State};

    use super::*;

    fn why(dir: &Path) -> Option<String> {
        let was_there = dir.exists();
        let opened = State::open(dir).map(drop).map_err(|error| error.to_string());
        assert_eq!(dir.exists(), was_there || opened.is_ok(), "what is refused is not made");
        assert_eq!(Log::read(dir).is_err(), was_there && opened.is_err(), "{opened:?}");
        opened.err()
    }

    /// Regression: evenkeel trusted a world-writable folder,
    /// so any user could replace root's journal with another journal.
    #[test]
    fn a_folder_above_that_others_can_write_to_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().canonicalize().unwrap();
        let dir = parent.join("a/b/state");
        std::fs::create_dir_all(dir.parent().unwrap()).unwrap();
        assert_eq!(why(&dir), None);
        for folder in [parent.join("a"), parent.join("a/b")] {
            for (mode, is_safe) in [(0o777, false), (0o703, false), (0o1777, true), (0o775, true), (0o755, true)] {
                std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
                match why(&dir) {
                    None => assert!(is_safe, "{mode:o}"),
                    Some(error) => {
                        let shown = folder.display();
                        assert!(error.contains(&format!("parent folder {shown} (mode {mode:o})")), "{error}");
                        assert!(error.contains(&format!("`chmod o-w {shown}`")) && !is_safe, "{error}");
                    }
                }
            }
        }
        // The check must not depend on the path by which the directory is reached.
        symlink(parent.join("a/b"), parent.join("link")).unwrap();
        std::fs::set_permissions(parent.join("a"), PermissionsExt::from_mode(0o777)).unwrap();
        let error = why(&parent.join("link/state")).unwrap();
        assert!(error.contains(&format!("`chmod o-w {}`", parent.join("a").display())), "{error}");
    }
}
