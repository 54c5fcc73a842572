//! Opens paths below an open folder without ever leaving that folder, whatever links the folder contains, and even if they change meanwhile.
//!
//! Since Linux 5.6 the kernel does this in one call, `openat2(2)`.
//! If the call is missing or a system call filter refuses it, we open the parts of the path one by one. The kernel then follows no link.
//! We resolve each link from the folders that we hold open.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use evenkeel_sys::Errno;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

/// How to treat links in the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// A link leads where it would lead if the folder were the root: `/usr` is below the folder, and `..` stops at the folder.
    /// Used to read an image.
    InRoot,
    /// Follows only links that stay below the folder.
    /// Refuses an absolute link, because the link's target depends on the program that follows it. Used to write.
    Beneath,
}

/// The maximum number of links to follow. This is the kernel's own limit.
const LINKS_MAX: u32 = 40;

/// The maximum number of tries. The kernel fails with `EAGAIN` if something was renamed while it processed `..`.
const TRIES: u32 = 32;

/// Opens a path below `dir`. A link at its end is followed unless `flags` say otherwise.
pub(crate) fn open(dir: impl AsFd, path: &str, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    let resolve = match links {
        Links::InRoot => ResolveFlags::IN_ROOT,
        Links::Beneath => ResolveFlags::BENEATH,
    };
    let flags = flags | OFlags::CLOEXEC;
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match rustix::fs::openat2(&dir, path, flags, Mode::empty(), resolve | ResolveFlags::NO_MAGICLINKS) {
            Err(rustix::io::Errno::AGAIN) if tries > 0 => {}
            // The system call filters of containers return EPERM for an unknown call.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => return walk(dir.as_fd(), path, flags, links),
            opened => return Ok(opened?),
        }
    }
}

/// Opens the path without `openat2`. Keeps every folder of the path open, so that `..` returns to the folder from which we came.
fn walk(root: BorrowedFd<'_>, path: &str, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    let mut above: Vec<OwnedFd> = Vec::new();
    let mut left: VecDeque<String> = parts(path).collect();
    let mut followed = 0;
    if path.starts_with('/') && links == Links::Beneath {
        return Err(Errno::XDEV);
    }
    while let Some(name) = left.pop_front() {
        if name == ".." {
            if above.pop().is_none() && links == Links::Beneath {
                return Err(Errno::XDEV);
            }
            continue;
        }
        let here = above.last().map_or(root, AsFd::as_fd);
        let handle = rustix::fs::openat(here, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode);
        let is_end = left.is_empty();
        match kind {
            FileType::Symlink if is_end && flags.contains(OFlags::NOFOLLOW) => return reopen(here, &name, flags),
            FileType::Symlink => {
                followed += 1;
                if followed > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(&handle, "", Vec::new())?;
                let target = target.into_string().map_err(|_| Errno::ILSEQ)?;
                if target.starts_with('/') {
                    if links == Links::Beneath {
                        return Err(Errno::XDEV);
                    }
                    above.clear();
                }
                for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    left.push_front(part);
                }
            }
            _ if is_end => return reopen(here, &name, flags),
            FileType::Directory => above.push(handle),
            _ => return Err(Errno::NOTDIR),
        }
    }
    reopen(above.last().map_or(root, AsFd::as_fd), ".", flags)
}

/// Opens `name` in the folder `here`. Fails if a link has replaced it.
fn reopen(here: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    Ok(rustix::fs::openat(here, name, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

fn parts(path: &str) -> impl Iterator<Item = String> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    /// A folder with links of all kinds. No link may reach the file next to the folder.
    fn scene() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join("mnt/var/lib")).unwrap();
        fs::write(root.join("a/b/file"), "inside").unwrap();
        fs::write(root.join("mnt/var/lib/file"), "var").unwrap();
        fs::write(top.path().join("secret"), "outside").unwrap();
        let outside = top.path().join("secret").display().to_string();
        let links = [
            ("up", "../secret"),
            ("out", outside.as_str()),
            ("var", "/mnt/var"),
            ("near", "mnt/var"),
            ("a/down", "b/file"),
            ("a/back", "../a/b"),
            ("a/far", "../../../../a/b/file"),
            ("loop", "loop"),
            ("chain", "a/back/../down"),
            ("none", "nothing"),
            ("self", "."),
            ("top", "/"),
        ];
        for (name, target) in links {
            symlink(target, root.join(name)).unwrap();
        }
        top
    }

    fn root(top: &Path) -> OwnedFd {
        rustix::fs::open(top.join("root"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    /// The result of opening: a file's text, `folder`, `link`, or the error.
    fn as_text(opened: Result<OwnedFd, Errno>) -> String {
        let opened = match opened {
            Ok(opened) => opened,
            Err(errno) => return errno.to_string(),
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&opened).unwrap().st_mode) {
            FileType::Directory => "folder".to_owned(),
            FileType::Symlink => "link".to_owned(),
            _ => {
                let mut text = String::new();
                match File::from(opened).read_to_string(&mut text) {
                    Ok(_) => text,
                    Err(_) => "file".to_owned(),
                }
            }
        }
    }

    #[test]
    fn without_the_call_it_is_the_same() {
        let top = scene();
        let root = root(top.path());
        let names =
            ["up", "out", "var", "near", "a", "a/down", "a/back", "a/far", "loop", "chain", "none", "self", "top"];
        let more = ["", "/b/file", "/lib/file", "/lib", "/..", "/../a/b", "/file", "/x"];
        let mut compared = 0;
        for name in names {
            for end in more {
                let path = format!("{name}{end}");
                for flags in
                    [OFlags::RDONLY, OFlags::RDONLY | OFlags::NOFOLLOW, OFlags::PATH | OFlags::NOFOLLOW, OFlags::PATH]
                {
                    for flags in [flags, flags | OFlags::DIRECTORY] {
                        for links in [Links::InRoot, Links::Beneath] {
                            let kernel = as_text(open(&root, &path, flags, links));
                            let ours = as_text(walk(root.as_fd(), &path, flags | OFlags::CLOEXEC, links));
                            assert_eq!(ours, kernel, "{path} {flags:?} {links:?}");
                            assert_ne!(ours, "outside", "{path}");
                            compared += 1;
                        }
                    }
                }
            }
        }
        assert!(compared > 1000, "{compared}");
    }

    #[test]
    fn an_absolute_link_is_inside_to_read_and_refused_to_write() {
        let top = scene();
        let root = root(top.path());
        let read = |links| as_text(open(&root, "var/lib/file", OFlags::RDONLY, links));
        assert_eq!(read(Links::InRoot), "var");
        assert_eq!(read(Links::Beneath), Errno::XDEV.to_string());
        assert_eq!(as_text(open(&root, "near/lib/file", OFlags::RDONLY, Links::Beneath)), "var");
    }

    /// Another process keeps replacing a folder with a link that points out. Every open returns a file inside, or fails.
    #[test]
    fn a_link_that_appears_leads_nowhere() {
        let top = scene();
        let root = root(top.path());
        let outside = top.path().join("outside");
        fs::create_dir_all(outside.join("b")).unwrap();
        fs::write(outside.join("b/file"), "outside").unwrap();
        symlink(&outside, top.path().join("root/swap")).unwrap();
        let (one, other) = (top.path().join("root/a"), top.path().join("root/swap"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            for _ in 0..2000 {
                for links in [Links::InRoot, Links::Beneath] {
                    for path in ["a/b/file", "a/b/../b/file", "swap/b/file"] {
                        assert_ne!(as_text(open(&root, path, OFlags::RDONLY, links)), "outside");
                        assert_ne!(
                            as_text(walk(root.as_fd(), path, OFlags::RDONLY | OFlags::CLOEXEC, links)),
                            "outside"
                        );
                    }
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
