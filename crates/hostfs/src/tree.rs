//! `Tree`: the only way to write configuration files of a host, and only below `/etc` and `/boot`.
//! A change is made completely or not at all, and is on disk when the call returns.
//! Links in an image cannot lead out of the image.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use evenkeel_sys::Errno;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use crate::capture::{Capture, lock};
use crate::draft;
use crate::entry::Entry;
use crate::inside::{self, Links};

/// The maximum size of a file to read or write, in bytes. `grub.cfg` of a host with many kernels has some 50,000 bytes.
pub const MAX_FILE_BYTES: usize = 256 << 10;

/// Nothing outside of these folders is changed, whatever a plan says.
const WRITABLE: [&str; 2] = ["/etc/", "/boot/"];

/// A configuration file that could not be read or changed. The message continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{doing} {path}: {why}")]
pub struct TreeError {
    /// The action that failed, such as `write`.
    pub doing: &'static str,
    /// The path.
    pub path: String,
    /// The kernel's error.
    pub errno: Errno,
    /// The error in words, with what to do if that is known.
    pub why: String,
}

/// The configuration files of one host.
#[derive(Clone, Debug)]
pub struct Tree {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Disk { dir: Arc<OwnedFd>, links: Links },
    Captured(Arc<Mutex<Capture>>),
}

impl Tree {
    pub(crate) fn live() -> Result<Tree, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = Arc::new(rustix::fs::open("/", flags, Mode::empty())?);
        Ok(Tree { source: Source::Disk { dir, links: Links::InRoot } })
    }

    /// Refuses every link that points out of `dir`. This includes absolute links, because they mean the running host's files.
    pub(crate) fn image(dir: Arc<OwnedFd>) -> Tree {
        Tree { source: Source::Disk { dir, links: Links::Beneath } }
    }

    pub(crate) fn captured(capture: Arc<Mutex<Capture>>) -> Tree {
        Tree { source: Source::Captured(capture) }
    }

    /// The entry at `path`. A link at the end of the path is not followed.
    ///
    /// # Errors
    /// The kernel's error. `EFBIG` for more than [`MAX_FILE_BYTES`], and `EILSEQ` for text that is not UTF-8.
    /// `EINVAL` for an entry that is neither file nor link, or for a path outside `/etc` and `/boot`.
    pub fn look(&self, path: &str) -> Result<Entry, TreeError> {
        let inside = checked(path)?;
        match &self.source {
            Source::Disk { dir, links } => look_at(dir, *links, inside),
            Source::Captured(capture) => Ok(captured_entry(&lock(capture), path)),
        }
        .map_err(|errno| error("read", path, errno))
    }

    /// Puts `entry` at `path`, in place of the old entry. A replaced file keeps its owner and group.
    ///
    /// # Errors
    /// The kernel's error. After an error, the old entry is unchanged.
    pub fn put(&self, path: &str, entry: &Entry) -> Result<(), TreeError> {
        let inside = checked(path)?;
        let doing = if *entry == Entry::Absent { "remove" } else { "write" };
        match &self.source {
            Source::Disk { dir, links } => {
                Folder::open(dir, *links, inside).and_then(|folder| draft::put(&folder.dir, folder.name, entry))
            }
            Source::Captured(capture) => {
                put_captured(&mut lock(capture), path, entry);
                Ok(())
            }
        }
        .map_err(|errno| error(doing, path, errno))
    }

    /// Removes the files that a killed [`Tree::put`] may have left next to `path`.
    ///
    /// # Errors
    /// The kernel's error. A missing folder is not an error.
    pub fn sweep(&self, path: &str) -> Result<(), TreeError> {
        let inside = checked(path)?;
        let Source::Disk { dir, links } = &self.source else {
            return Ok(());
        };
        match Folder::open(dir, *links, inside).and_then(|folder| draft::sweep(&folder.dir, folder.name)) {
            Err(errno) if !errno.is_absence() => Err(error("clear a half-written", path, errno)),
            _ => Ok(()),
        }
    }

    /// The missing folders above `path`, the outermost first.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn missing_folders(&self, path: &str) -> Result<Vec<String>, TreeError> {
        checked(path)?;
        let Source::Disk { dir, links } = &self.source else {
            return Ok(Vec::new());
        };
        let mut missing = Vec::new();
        let ends = path.char_indices().skip(1).filter(|(_, letter)| *letter == '/').map(|(at, _)| at);
        for folder in ends.map(|end| &path[..end]) {
            match inside::open(dir, &folder[1..], OFlags::PATH | OFlags::DIRECTORY, *links) {
                Ok(_) => {}
                Err(errno) if errno.is_absence() => missing.push(folder.to_owned()),
                Err(errno) => return Err(error("open", folder, errno)),
            }
        }
        Ok(missing)
    }

    /// Creates one folder. An existing folder is not an error.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn make_folder(&self, path: &str) -> Result<(), TreeError> {
        let inside = checked(path)?;
        let Source::Disk { dir, links } = &self.source else {
            return Ok(());
        };
        let made = Folder::open(dir, *links, inside).and_then(|parent| {
            let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
            rustix::fs::mkdirat(&parent.dir, parent.name, mode)?;
            parent.sync()
        });
        match made {
            Err(errno) if errno != Errno::EXIST => Err(error("make the folder", path, errno)),
            _ => Ok(()),
        }
    }

    /// Removes one folder if it is empty. A missing folder is not an error, and neither is a folder with entries.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_empty_folder(&self, path: &str) -> Result<(), TreeError> {
        let inside = checked(path)?;
        let Source::Disk { dir, links } = &self.source else {
            return Ok(());
        };
        let removed = Folder::open(dir, *links, inside).and_then(|parent| {
            rustix::fs::unlinkat(&parent.dir, parent.name, AtFlags::REMOVEDIR)?;
            parent.sync()
        });
        match removed {
            Err(errno) if !errno.is_absence() && errno != Errno::NOTEMPTY && errno != Errno::EXIST => {
                Err(error("remove the folder", path, errno))
            }
            _ => Ok(()),
        }
    }

    /// The names in a folder, sorted. Empty if the folder does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn names(&self, folder: &str) -> Result<Vec<String>, TreeError> {
        let inside = checked(folder)?;
        let read = match &self.source {
            Source::Disk { dir, links } => {
                inside::open(dir, inside, OFlags::RDONLY | OFlags::DIRECTORY, *links).and_then(names_in)
            }
            Source::Captured(capture) => Ok(lock(capture).entries(folder).unwrap_or_default()),
        };
        match read {
            Err(errno) if errno.is_absence() => Ok(Vec::new()),
            read => read.map_err(|errno| error("list", folder, errno)),
        }
    }
}

fn names_in(dir: OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The path without its first slash, if evenkeel may change it.
fn checked(path: &str) -> Result<&str, TreeError> {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_inside = WRITABLE.iter().any(|top| path.starts_with(top));
    if !is_inside || path.contains('\0') || path.len() > 4096 || !path.split('/').skip(1).all(plain) {
        return Err(error("touch", path, Errno::INVAL));
    }
    Ok(&path[1..])
}

fn error(doing: &'static str, path: &str, errno: Errno) -> TreeError {
    let why = match errno {
        Errno::XDEV => {
            "a symbolic link in the path points out of the root; evenkeel changes nothing outside the root".to_owned()
        }
        Errno::ROFS => "the file system is mounted read-only".to_owned(),
        Errno::EXIST => {
            "every name for its draft file, .NAME.evenkeel-draft and so on, already exists in its folder: move \
                them away"
                .to_owned()
        }
        Errno::FBIG => format!("it has more than {MAX_FILE_BYTES} bytes, so it is not a configuration file"),
        Errno::ILSEQ => "it is not UTF-8 text".to_owned(),
        Errno::INVAL if doing == "touch" => "evenkeel changes only plain paths below /etc and /boot".to_owned(),
        Errno::INVAL => "it is neither a regular file nor a symbolic link".to_owned(),
        _ => errno.to_string(),
    };
    TreeError { doing, path: path.to_owned(), errno, why }
}

fn look_at(dir: &OwnedFd, links: Links, inside: &str) -> Result<Entry, Errno> {
    let handle = match inside::open(dir, inside, OFlags::PATH | OFlags::NOFOLLOW, links) {
        Ok(handle) => handle,
        Err(errno) if errno.is_absence() => return Ok(Entry::Absent),
        Err(errno) => return Err(errno),
    };
    let stat = rustix::fs::fstat(&handle)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&handle, "", Vec::new())?;
            Ok(Entry::Link { target: target.into_string().map_err(|_| Errno::ILSEQ)? })
        }
        FileType::RegularFile => {
            let file = inside::open(dir, inside, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK, links)?;
            let mut bytes = Vec::new();
            let limit = MAX_FILE_BYTES as u64 + 1;
            File::from(file).take(limit).read_to_end(&mut bytes).map_err(|error| Errno::from(&error))?;
            if bytes.len() > MAX_FILE_BYTES {
                return Err(Errno::FBIG);
            }
            let text = String::from_utf8(bytes).map_err(|_| Errno::ILSEQ)?;
            Ok(Entry::File { text, mode: Mode::from_raw_mode(stat.st_mode).bits() })
        }
        _ => Err(Errno::INVAL),
    }
}

/// The folder that contains a path, and the path's last part.
struct Folder<'a> {
    dir: OwnedFd,
    name: &'a str,
}

impl<'a> Folder<'a> {
    fn open(root: &OwnedFd, links: Links, inside: &'a str) -> Result<Folder<'a>, Errno> {
        let (folder, name) = inside.rsplit_once('/').unwrap_or((".", inside));
        Ok(Folder { dir: inside::open(root, folder, OFlags::RDONLY | OFlags::DIRECTORY, links)?, name })
    }

    fn sync(&self) -> Result<(), Errno> {
        Ok(rustix::fs::fsync(&self.dir)?)
    }
}

fn captured_entry(capture: &Capture, path: &str) -> Entry {
    if let Some(Ok(target)) = capture.links.get(path) {
        return Entry::Link { target: target.clone() };
    }
    match capture.texts.get(path) {
        Some(Ok(text)) => Entry::File { text: text.clone(), mode: 0o644 },
        _ => Entry::Absent,
    }
}

fn put_captured(capture: &mut Capture, path: &str, entry: &Entry) {
    let absent = || Err(Errno::NOENT);
    capture.texts.remove(path);
    capture.links.remove(path);
    match entry {
        Entry::Absent => capture.saw_text(path, absent()),
        Entry::File { text, .. } => capture.saw_text(path, Ok(text.clone())),
        Entry::Link { target } => capture.saw_link(path, Ok(target.clone())),
    }
    let Some((folder, name)) = path.rsplit_once('/') else { return };
    // If the parent's names were listed, update the list.
    if let Some(Ok(names)) = capture.lists.get_mut(folder) {
        names.retain(|other| other != name);
        if *entry != Entry::Absent {
            names.push(name.to_owned());
            names.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use crate::{Capture, Root};

    use super::*;

    fn file(text: &str) -> Entry {
        Entry::File { text: text.to_owned(), mode: 0o644 }
    }

    fn image() -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc/sysctl.d")).unwrap();
        let tree = Root::mounted(dir.path()).unwrap().tree().unwrap();
        (dir, tree)
    }

    #[test]
    fn written_files_are_visible() {
        let (dir, tree) = image();
        let path = "/etc/sysctl.d/90-x.conf";
        assert_eq!(tree.look(path), Ok(Entry::Absent));
        for entry in [file("a\n"), Entry::File { text: "b".into(), mode: 0o755 }, Entry::Link { target: "../x".into() }]
        {
            tree.put(path, &entry).unwrap();
            assert_eq!(tree.look(path), Ok(entry));
            assert_eq!(tree.names("/etc/sysctl.d").unwrap(), ["90-x.conf"]);
        }
        tree.put(path, &Entry::Absent).unwrap();
        tree.put(path, &Entry::Absent).unwrap();
        assert_eq!(tree.look(path), Ok(Entry::Absent));
        assert_eq!(std::fs::read_dir(dir.path().join("etc/sysctl.d")).unwrap().count(), 0);
    }

    #[test]
    fn a_captured_tree_is_the_same() {
        let capture = Capture::parse("evenkeel-capture 1\n/etc/sysctl.d/a.conf = x\nend\n").unwrap();
        let root = Root::captured(capture);
        let tree = root.tree().unwrap();
        tree.put("/etc/sysctl.d/90-x.conf", &file("vm.swappiness = 1\n")).unwrap();
        assert_eq!(root.text("/etc/sysctl.d/90-x.conf").unwrap(), "vm.swappiness = 1\n");
        tree.put("/etc/sysctl.d/90-x.conf", &Entry::Absent).unwrap();
        assert_eq!(tree.look("/etc/sysctl.d/90-x.conf"), Ok(Entry::Absent));
    }

    #[test]
    fn folders_are_made_and_removed() {
        let (dir, tree) = image();
        let path = "/etc/systemd/system/x.service.d/90-x.conf";
        let missing = tree.missing_folders(path).unwrap();
        assert_eq!(missing, ["/etc/systemd", "/etc/systemd/system", "/etc/systemd/system/x.service.d"]);
        for folder in &missing {
            tree.make_folder(folder).unwrap();
            tree.make_folder(folder).unwrap();
        }
        tree.put(path, &file("")).unwrap();
        tree.remove_empty_folder("/etc/systemd/system/x.service.d").unwrap();
        assert!(dir.path().join("etc/systemd/system/x.service.d").exists(), "it is not empty");
        tree.put(path, &Entry::Absent).unwrap();
        for folder in missing.iter().rev() {
            tree.remove_empty_folder(folder).unwrap();
            tree.remove_empty_folder(folder).unwrap();
        }
        assert!(!dir.path().join("etc/systemd").exists());
    }

    #[test]
    fn no_link_leads_out_of_an_image() {
        let (dir, tree) = image();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("etc/out")).unwrap();
        symlink("../../..", dir.path().join("etc/climb")).unwrap();
        for path in ["/etc/out/x", "/etc/climb/x"] {
            let refused = tree.put(path, &file("x")).unwrap_err();
            assert_eq!(refused.errno, Errno::XDEV, "{refused}");
            assert!(refused.to_string().contains("points out of the root"), "{refused}");
        }
        // A link at the end is replaced, never followed.
        symlink(outside.path().join("x"), dir.path().join("etc/end")).unwrap();
        tree.put("/etc/end", &file("x")).unwrap();
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_etc_and_boot_are_touched() {
        let (_dir, tree) = image();
        for path in ["/usr/bin/x", "etc/x", "/etc", "/etc/../usr/x", "/etc//x", "/etc/./x", "/etc/x\0", "/etcx/y", ""] {
            assert_eq!(tree.put(path, &file("")).unwrap_err().errno, Errno::INVAL, "{path:?}");
            assert_eq!(tree.look(path).unwrap_err().errno, Errno::INVAL, "{path:?}");
        }
    }

    #[test]
    fn binary_files_are_left_alone() {
        let (dir, tree) = image();
        std::fs::write(dir.path().join("etc/bytes"), [0xff, 0xfe]).unwrap();
        std::fs::write(dir.path().join("etc/long"), vec![b'x'; MAX_FILE_BYTES + 1]).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("etc/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let errnos =
            ["/etc/bytes", "/etc/long", "/etc/fifo", "/etc/sysctl.d"].map(|path| tree.look(path).unwrap_err().errno);
        assert_eq!(errnos, [Errno::ILSEQ, Errno::FBIG, Errno::INVAL, Errno::INVAL]);
    }

    #[test]
    fn a_half_written_file_is_swept() {
        let (dir, tree) = image();
        let draft = dir.path().join("etc/sysctl.d/.90-x.conf.evenkeel-draft");
        std::fs::write(&draft, "half").unwrap();
        tree.sweep("/etc/sysctl.d/90-x.conf").unwrap();
        assert!(!draft.exists());
        tree.sweep("/etc/not/here.conf").unwrap();
        std::fs::write(&draft, "half").unwrap();
        tree.put("/etc/sysctl.d/90-x.conf", &Entry::File { text: "whole".into(), mode: 0o600 }).unwrap();
        assert!(!draft.exists());
        let mode = std::fs::metadata(dir.path().join("etc/sysctl.d/90-x.conf")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
}
