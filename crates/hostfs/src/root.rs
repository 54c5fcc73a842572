//! `Root`: the only way to read a host. A root has one of three sources.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use evenkeel_sys::Errno;

use crate::capture::{Capture, lock};
use crate::image::Image;
use crate::look::{absolute, read_text};
use crate::metadata::Metadata;
use crate::mounted::Mounted;
use crate::pseudo;
use crate::refusal::{Refusal, Why};
use crate::tree::Tree;
use crate::writer::{HostWriter, ReadOnlyHost};

/// A host to read. Cloning is cheap: clones share the source and the recorded readings.
#[derive(Clone, Debug)]
pub struct Root {
    source: Arc<Source>,
    /// `None` if the readings are not recorded.
    seen: Option<Arc<Mutex<Capture>>>,
}

/// The source of a [`Root`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// The machine on which this process runs.
    Live,
    /// A directory that holds another root, such as `/host` in a container or an unpacked image.
    Mounted,
    /// A captured machine held in memory.
    Captured,
}

#[derive(Debug)]
enum Source {
    /// The metadata service. `None` if the service must not be queried.
    Live(Option<Metadata>),
    Mounted(Mounted),
    Captured(Arc<Mutex<Capture>>),
}

/// A mounted root that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("open the root {path}: {errno}")]
pub struct RootError {
    /// The directory.
    pub path: String,
    /// The kernel's error.
    pub errno: Errno,
}

impl Root {
    /// The machine on which this process runs.
    pub fn live() -> Root {
        Root::from_source(Source::Live(None))
    }

    /// The machine on which this process runs, with instance metadata:
    /// `@metadata/ec2/instance-type`, `@metadata/gce/machine-type`, `@metadata/azure/vm-size`.
    /// A reading of metadata takes up to 100 ms, and uses only the cloud's link-local address.
    pub fn live_with_metadata() -> Root {
        Root::from_source(Source::Live(Some(Metadata::link_local())))
    }

    /// The root that is mounted or unpacked at `dir`. Symbolic links are followed only inside the root.
    ///
    /// # Errors
    /// If `dir` is not a directory that this process may open.
    pub fn mounted(dir: &Path) -> Result<Root, RootError> {
        let mounted = Mounted::open(dir).map_err(|errno| RootError { path: dir.display().to_string(), errno })?;
        Ok(Root::from_source(Source::Mounted(mounted)))
    }

    /// A captured machine. Writes through its [`HostWriter`] change only this root and its clones.
    pub fn captured(capture: Capture) -> Root {
        Root::from_source(Source::Captured(Arc::new(Mutex::new(capture))))
    }

    fn from_source(source: Source) -> Root {
        Root { source: Arc::new(source), seen: Some(Arc::default()) }
    }

    /// The same root without a record of its readings.
    /// If a root is read every second for days, a record would grow by the files of every process that ended.
    #[must_use]
    pub fn unrecorded(&self) -> Root {
        Root { source: Arc::clone(&self.source), seen: None }
    }

    /// The source of this root.
    pub fn kind(&self) -> RootKind {
        match *self.source {
            Source::Live(_) => RootKind::Live,
            Source::Mounted(_) => RootKind::Mounted,
            Source::Captured(_) => RootKind::Captured,
        }
    }

    /// The text of a file. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// A path that begins with `@` is not a file: `@cpuid/40000000`, `@uname`, `@ethtool/eth0/drvinfo`.
    /// `@metadata/…` is `ENOENT` unless the root was made by [`Root::live_with_metadata`].
    ///
    /// # Errors
    /// The kernel's error, or [`Why::NotCaptured`](crate::Why::NotCaptured) if the capture does not contain the path.
    pub fn text(&self, path: &str) -> Result<String, Refusal> {
        let look = match &*self.source {
            Source::Live(Some(metadata)) if path.starts_with("@metadata/") => metadata.text(path).map_err(Why::Errno),
            Source::Live(_) if path.starts_with('@') => pseudo::text(path).map_err(Why::Errno),
            Source::Live(_) => live_text(path).map_err(Why::Errno),
            Source::Mounted(mounted) if mounted.hides(path) => Err(Why::OtherNetwork),
            Source::Mounted(mounted) => mounted.text(path).map_err(Why::Errno),
            Source::Captured(capture) => lock(capture).text(path),
        };
        self.remember(path, &look, Capture::saw_text);
        look.map_err(|why| Refusal { path: path.to_owned(), why })
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// As [`Root::text`].
    pub fn entries(&self, dir: &str) -> Result<Vec<String>, Refusal> {
        let look = match &*self.source {
            Source::Live(_) => live_entries(dir).map_err(Why::Errno),
            Source::Mounted(mounted) if mounted.hides(dir) => Err(Why::OtherNetwork),
            Source::Mounted(mounted) => mounted.entries(dir).map_err(Why::Errno),
            Source::Captured(capture) => lock(capture).entries(dir),
        };
        self.remember(dir, &look, Capture::saw_entries);
        look.map_err(|why| Refusal { path: dir.to_owned(), why })
    }

    /// The target of a symbolic link, as written in the link.
    ///
    /// # Errors
    /// As [`Root::text`]; `EINVAL` if the path is not a link.
    pub fn link(&self, path: &str) -> Result<String, Refusal> {
        let look = match &*self.source {
            Source::Live(_) => live_link(path).map_err(Why::Errno),
            Source::Mounted(mounted) => mounted.link(path).map_err(Why::Errno),
            Source::Captured(capture) => lock(capture).link(path),
        };
        self.remember(path, &look, Capture::saw_link);
        look.map_err(|why| Refusal { path: path.to_owned(), why })
    }

    /// All readings so far, including refusals. For a captured root, its whole content.
    /// Empty for a live or mounted root that is [unrecorded](Root::unrecorded).
    pub fn capture(&self) -> Capture {
        match &*self.source {
            Source::Captured(capture) => lock(capture).clone(),
            _ => self.seen.as_ref().map(|seen| lock(seen).clone()).unwrap_or_default(),
        }
    }

    /// The writer to this host.
    ///
    /// # Errors
    /// A mounted root is read-only: without a running kernel, nothing can show whether a write took effect.
    pub fn writer(&self) -> Result<HostWriter, ReadOnlyHost> {
        match &*self.source {
            Source::Live(_) => Ok(HostWriter::live()),
            Source::Mounted(_) => Err(ReadOnlyHost),
            Source::Captured(capture) => Ok(HostWriter::captured(Arc::clone(capture))),
        }
    }

    /// The configuration files of this host, for changes. The files of a captured root are in memory.
    ///
    /// # Errors
    /// The kernel's error for opening `/`.
    pub fn tree(&self) -> Result<Tree, RootError> {
        match &*self.source {
            Source::Live(_) => Tree::live().map_err(|errno| RootError { path: "/".to_owned(), errno }),
            Source::Mounted(mounted) => Ok(Tree::image(mounted.handle())),
            Source::Captured(capture) => Ok(Tree::captured(Arc::clone(capture))),
        }
    }

    /// The folders of a mounted root. `None` for other roots, whose folders have a path.
    pub fn image(&self) -> Option<Image> {
        match &*self.source {
            Source::Mounted(mounted) => Some(Image::new(mounted.handle(), mounted.path())),
            Source::Live(_) | Source::Captured(_) => None,
        }
    }

    fn remember<T: Clone>(
        &self,
        path: &str,
        look: &Result<T, Why>,
        saw: impl FnOnce(&mut Capture, &str, Result<T, Errno>),
    ) {
        let Some(seen) = &self.seen else { return };
        let outcome = match look {
            Ok(value) => Ok(value.clone()),
            Err(Why::Errno(errno)) => Err(*errno),
            Err(Why::NotCaptured | Why::OtherNetwork) => return,
        };
        saw(&mut lock(seen), path, outcome);
    }
}

fn live_text(path: &str) -> Result<String, Errno> {
    // Opening a directory succeeds too. The read then returns EISDIR, which is the right error.
    let file = rustix::fs::open(
        absolute(path)?,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    )?;
    read_text(std::fs::File::from(file))
}

fn live_entries(dir: &str) -> Result<Vec<String>, Errno> {
    let entries = std::fs::read_dir(absolute(dir)?).map_err(|error| Errno::from(&error))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Errno::from(&error))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

fn live_link(path: &str) -> Result<String, Errno> {
    let target = std::fs::read_link(absolute(path)?).map_err(|error| Errno::from(&error))?;
    Ok(target.to_string_lossy().into_owned())
}

/// A captured root with these files, from path to text, for tests and examples that need a small host.
impl From<BTreeMap<String, String>> for Root {
    fn from(texts: BTreeMap<String, String>) -> Root {
        let mut capture = Capture::default();
        for (path, text) in texts {
            capture.saw_text(&path, Ok(text));
        }
        Root::captured(capture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_LOOK_BYTES;

    #[test]
    fn looks_are_remembered_with_their_refusals() {
        let root = Root::live();
        assert!(root.text("/proc/version").is_ok());
        let refusal = root.text("/proc/evenkeel-has-no-such-file").unwrap_err();
        assert_eq!(refusal.why, Why::Errno(Errno::NOENT));
        assert!(root.text("/proc").is_err_and(|refusal| refusal.why == Why::Errno(Errno::ISDIR)));
        assert!(root.text("proc/version").is_err_and(|refusal| refusal.why == Why::Errno(Errno::INVAL)));
        assert!(root.link("/proc/self").is_ok());
        assert!(root.entries("/proc/sys/vm").is_ok_and(|names| names.contains(&"swappiness".to_owned())));

        let replay = Root::captured(root.capture());
        assert_eq!(replay.text("/proc/version"), root.text("/proc/version"));
        assert_eq!(replay.text("/proc/evenkeel-has-no-such-file"), Err(refusal));
        assert_eq!(replay.link("/proc/self"), root.link("/proc/self"));
        assert_eq!(replay.entries("/proc/sys/vm"), root.entries("/proc/sys/vm"));
        assert_eq!(replay.text("/proc/uptime").map_err(|refusal| refusal.why), Err(Why::NotCaptured));
    }

    #[test]
    fn an_unrecorded_root_reads_the_same_and_holds_nothing() {
        let root = Root::live();
        let unrecorded = root.unrecorded();
        assert_eq!(unrecorded.text("/proc/version"), root.text("/proc/version"));
        assert!(Root::captured(unrecorded.capture()).text("/proc/version").is_err());
        let captured = Root::captured(root.capture()).unrecorded();
        assert_eq!(captured.text("/proc/version"), root.text("/proc/version"));
        assert!(Root::captured(captured.capture()).text("/proc/version").is_ok(), "a captured root is its content");
    }

    #[test]
    fn nothing_uses_the_network_unless_requested() {
        let refusal = Root::live().text("@metadata/ec2/instance-type").unwrap_err();
        assert_eq!(refusal.why, Why::Errno(Errno::NOENT));
        let refusal = Root::live_with_metadata().text("@metadata/ec2/user-data").unwrap_err();
        assert_eq!(refusal.why, Why::Errno(Errno::NOENT));
    }

    #[test]
    fn a_long_file_is_refused_not_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        std::fs::File::create(&path).unwrap().set_len(MAX_LOOK_BYTES as u64 + 1).unwrap();
        let refusal = Root::live().text(path.to_str().unwrap()).unwrap_err();
        assert_eq!(refusal.why, Why::Errno(Errno::FBIG));
    }

    #[test]
    fn a_fifo_does_not_hang() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(Root::live().text(path.to_str().unwrap()), Ok(String::new()));
    }
}
