//! Creates the host's folder through which sessions of several pods spread their ticks.
//! If Kubernetes created the folder, only root could write to it, so the agent creates it.
//! Like /dev/shm, the folder is in memory, and everybody may write to it.
//! It stays until the next boot, because pods may have it open.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use evenkeel_fleet::agones::PHASES_FOLDER;

/// Every user may create files in the folder, and may remove only their own files.
const MODE: u32 = 0o1777;

/// Creates the folder below the host's root.
pub(super) fn make(root: &Path) -> io::Result<()> {
    let folder = root.join(PHASES_FOLDER.trim_start_matches('/'));
    match DirBuilder::new().mode(MODE).create(&folder) {
        // Set the mode again, because the umask may have removed some of its bits.
        Ok(()) => std::fs::set_permissions(&folder, Permissions::from_mode(MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => already(&folder),
        Err(error) => Err(error),
    }
}

/// Accepts an existing folder with its mode, because the administrator may have chosen that mode.
/// Refuses a symbolic link, because it could lead anywhere.
fn already(folder: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(folder)?.is_dir() {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::NotADirectory)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_may_write_and_what_is_there_stays() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run/evenkeel-phases");
        let mode = || std::fs::metadata(&folder).unwrap().permissions().mode() & 0o7777;
        assert_eq!(make(root.path()).unwrap_err().kind(), io::ErrorKind::NotFound, "a host has /run");
        std::fs::create_dir(root.path().join("run")).unwrap();
        make(root.path()).unwrap();
        assert_eq!(mode(), MODE);
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        make(root.path()).unwrap();
        assert_eq!(mode(), 0o700);
        std::fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/tmp", &folder).unwrap();
        assert_eq!(make(root.path()).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }
}
