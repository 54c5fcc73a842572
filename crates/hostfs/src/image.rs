//! `Image`: folders of a root that does not run, such as the folder of its journal.
//! Nothing outside of the root is opened or created, even if another program changes the root meanwhile.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_sys::Errno;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::inside::{self, Links};

/// The folders of a mounted root. [`Root::image`](crate::Root::image) returns it.
///
/// A relative link in the path is followed if it stays below the root.
/// A link that leads out is refused with `EXDEV`, and so is every absolute link.
/// The machine that boots from the image resolves `/var -> /mnt/var` inside the image, but a program on this machine resolves it here.
/// Both machines must find evenkeel's files at the same place.
#[derive(Clone, Debug)]
pub struct Image {
    dir: Arc<OwnedFd>,
    path: PathBuf,
}

impl Image {
    pub(crate) fn new(dir: Arc<OwnedFd>, path: &Path) -> Image {
        Image { dir, path: path.to_owned() }
    }

    /// The path of a folder, only for messages, because another program may have replaced the folder since.
    pub fn shown(&self, folder: &str) -> PathBuf {
        self.path.join(folder)
    }

    /// Opens a folder, such as `var/lib`. If the path's last part is a link, it is refused with `ENOTDIR`.
    ///
    /// # Errors
    /// The kernel's error. `EXDEV` if a link leads out.
    pub fn open_folder(&self, folder: &str) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        Ok(File::from(inside::open(&self.dir, folder, flags, Links::Beneath)?))
    }

    /// Creates a folder with these permission bits, minus the umask of this process, and syncs its name to disk.
    /// Returns `false` if the folder already existed.
    ///
    /// # Errors
    /// As [`Image::open_folder`], for the parent folder.
    pub fn make_folder(&self, folder: &str, mode: u32) -> Result<bool, Errno> {
        let (parent, name) = folder.rsplit_once('/').unwrap_or((".", folder));
        let parent = inside::open(&self.dir, parent, OFlags::RDONLY | OFlags::DIRECTORY, Links::Beneath)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_bits_truncate(mode)) {
            Err(rustix::io::Errno::EXIST) => Ok(false),
            made => {
                made?;
                rustix::fs::fsync(&parent)?;
                Ok(true)
            }
        }
    }

    /// Removes a folder if it is empty. Returns `false` if the folder is missing or not empty.
    ///
    /// # Errors
    /// As [`Image::open_folder`], for the parent folder.
    pub fn remove_folder(&self, folder: &str) -> Result<bool, Errno> {
        let (parent, name) = folder.rsplit_once('/').unwrap_or((".", folder));
        let parent = inside::open(&self.dir, parent, OFlags::RDONLY | OFlags::DIRECTORY, Links::Beneath)?;
        match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST | rustix::io::Errno::NOENT) => Ok(false),
            removed => {
                removed?;
                rustix::fs::fsync(&parent)?;
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::Root;

    #[test]
    fn folders_are_made_and_opened_inside() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let image = Root::mounted(dir.path()).unwrap().image().unwrap();
        assert_eq!(image.make_folder("var", 0o755), Ok(true));
        assert_eq!(image.make_folder("var", 0o755), Ok(false));
        assert_eq!(image.make_folder("mnt", 0o755), Ok(true));
        assert_eq!(image.make_folder("no/parent", 0o755), Err(Errno::NOENT));
        assert_eq!(image.make_folder("mnt/empty", 0o755), Ok(true));
        assert_eq!(
            ["mnt", "mnt/empty", "mnt/empty"].map(|name| image.remove_folder(name)),
            [Ok(false), Ok(true), Ok(false)]
        );
        assert!(image.open_folder("var").is_ok());
        symlink("../mnt", dir.path().join("var/near")).unwrap();
        symlink("/mnt", dir.path().join("var/absolute")).unwrap();
        symlink(outside.path(), dir.path().join("var/out")).unwrap();
        assert_eq!(image.make_folder("var/near/lib", 0o755), Ok(true));
        for link in ["var/absolute", "var/out"] {
            assert_eq!(image.make_folder(&format!("{link}/lib"), 0o755), Err(Errno::XDEV), "{link}");
            assert_eq!(image.open_folder(link).unwrap_err(), Errno::NOTDIR, "{link}");
        }
        assert!(dir.path().join("mnt/lib").is_dir());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(Root::live().image().is_none());
    }
}
