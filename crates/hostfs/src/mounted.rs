//! A root that is mounted or unpacked in a directory. Readings never leave that directory.
//! An image's `/etc/os-release` may be an absolute link, and a link in a hostile image may point at the reader's own files.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_sys::Errno;
use rustix::fs::{Dir, FileType, Mode, OFlags};

use crate::inside::{self, Links};
use crate::look::{absolute, read_text};
use crate::{kernel_config, package, pseudo};

/// The identity of the running kernel. If the identity is equal inside and outside, the mounted /proc belongs to this machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// An open root directory.
#[derive(Debug)]
pub(crate) struct Mounted {
    dir: Arc<OwnedFd>,
    path: PathBuf,
    /// Whether the /proc in this root belongs to this machine. If so, readings of this machine such as `@cpuid` also hold for the root.
    is_this_machine: bool,
    /// Whether this process is in another network namespace than the first process of this machine.
    is_other_network: bool,
}

impl Mounted {
    pub(crate) fn open(path: &Path) -> Result<Mounted, Errno> {
        let dir = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut mounted =
            Mounted { dir: Arc::new(dir), path: path.to_owned(), is_this_machine: false, is_other_network: false };
        let here = std::fs::read_to_string(BOOT_ID).ok();
        mounted.is_this_machine = here.is_some() && mounted.text(BOOT_ID).ok() == here;
        mounted.is_other_network = mounted.is_this_machine && mounted.is_in_other_network();
        Ok(mounted)
    }

    /// Compares the inodes of `net/dev`, because each network namespace has its own files in /proc with unique inodes.
    /// Reading the links to namespaces would need privileges.
    fn is_in_other_network(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let number = |file: std::fs::File| file.metadata().map(|metadata| metadata.ino()).ok();
        let hosts = self.file("/proc/1/net/dev").ok().and_then(number);
        let own = std::fs::File::open("/proc/self/net/dev").ok().and_then(number);
        hosts.is_some() && own.is_some() && hosts != own
    }

    /// Whether the kernel would show the network setting at `path` of this process instead of the mounted host.
    pub(crate) fn hides(&self, path: &str) -> bool {
        self.is_other_network && path.starts_with("/proc/sys/net/")
    }

    pub(crate) fn handle(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.dir)
    }

    /// The path by which the directory was opened, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn text(&self, path: &str) -> Result<String, Errno> {
        if path.starts_with('@') {
            if path == "@kernel-config" {
                return kernel_config::text(|path| self.file(path));
            }
            if let Some(name) = path.strip_prefix("@package/") {
                return package::version(name, |path| self.file(path));
            }
            return if self.is_this_machine { pseudo::text(path) } else { Err(Errno::NOENT) };
        }
        read_text(self.file(path)?)
    }

    fn file(&self, path: &str) -> Result<std::fs::File, Errno> {
        let file = self.open_inside(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        // A device node in an image is not a fact. Reading a device could block or have effects.
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(std::fs::File::from(file)),
            FileType::Directory => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn entries(&self, dir: &str) -> Result<Vec<String>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.open_inside(dir, OFlags::RDONLY | OFlags::DIRECTORY)?)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    pub(crate) fn link(&self, path: &str) -> Result<String, Errno> {
        let link = self.open_inside(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let target = rustix::fs::readlinkat(&link, "", Vec::new()).map_err(|errno| {
            // For a path that is not a link, the kernel returns ENOENT, because the relative path is empty here.
            // readlink(2) with a path returns EINVAL.
            if errno == rustix::io::Errno::NOENT { Errno::INVAL } else { Errno::from(errno) }
        })?;
        Ok(target.to_string_lossy().into_owned())
    }

    fn open_inside(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        inside::open(&self.dir, absolute(path)?, flags, Links::InRoot)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use evenkeel_sys::Errno;

    use crate::RootKind;
    use crate::refusal::Why;
    use crate::root::Root;

    #[test]
    fn links_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("usr/lib")).unwrap();
        std::fs::create_dir_all(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("usr/lib/os-release"), "ID=inside\n").unwrap();
        std::fs::write(outside.path().join("secret"), "outside\n").unwrap();
        symlink("/usr/lib/os-release", dir.path().join("etc/os-release")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("etc/escape")).unwrap();
        symlink("../../../../../../usr/lib/os-release", dir.path().join("etc/climb")).unwrap();

        let root = Root::mounted(dir.path()).unwrap();
        assert_eq!(root.kind(), RootKind::Mounted);
        assert_eq!(root.text("/etc/os-release").unwrap(), "ID=inside\n");
        assert_eq!(root.text("/etc/climb").unwrap(), "ID=inside\n");
        assert_eq!(root.text("/etc/escape").unwrap_err().why, Why::Errno(Errno::NOENT));
        assert_eq!(root.link("/etc/os-release").unwrap(), "/usr/lib/os-release");
        assert_eq!(root.link("/usr/lib/os-release").unwrap_err().why, Why::Errno(Errno::INVAL));
        assert_eq!(root.entries("/etc").unwrap(), ["climb", "escape", "os-release"]);
        assert_eq!(root.text("/etc").unwrap_err().why, Why::Errno(Errno::ISDIR));
        assert!(root.writer().is_err(), "a mounted root is read only");
    }

    #[test]
    fn an_image_does_not_borrow_this_machines_processor() {
        let dir = tempfile::tempdir().unwrap();
        let image = Root::mounted(dir.path()).unwrap();
        assert_eq!(image.text("@uname").unwrap_err().why, Why::Errno(Errno::NOENT));
        let host = Root::mounted(std::path::Path::new("/")).unwrap();
        assert_eq!(host.text("@uname"), Root::live().text("@uname"));
    }
}
