//! The interface between a transaction and the disk and host.
//! Tests replace it to stop a transaction at every boundary, as SIGKILL would, or to simulate a full disk.
//! The default methods do the real work.

use std::fs::File;
use std::path::PathBuf;

use evenkeel_hostfs::{Entry, HostWriter, Root, RootKind, Tree, TreeError, WriteError};
use evenkeel_sys::Errno;
use rustix::fs::AtFlags;

use crate::{claims, command};

pub(crate) trait Outside: Send {
    /// Appends `bytes` to a file in one `write(2)`, so that a kill leaves all, a part, or nothing of a record.
    fn append(&mut self, file: &File, bytes: &[u8]) -> Result<(), Errno> {
        let written = rustix::io::write(file, bytes)?;
        // For a regular file, a write is short only if the disk or the quota is full.
        if written < bytes.len() { Err(Errno::NOSPC) } else { Ok(()) }
    }

    fn sync(&mut self, file: &File) -> Result<(), Errno> {
        Ok(rustix::fs::fdatasync(file)?)
    }

    fn truncate(&mut self, file: &File, len_bytes: u64) -> Result<(), Errno> {
        Ok(rustix::fs::ftruncate(file, len_bytes)?)
    }

    /// Renames a file of `dir`. Replaces a file that has the new name.
    fn rename(&mut self, dir: &File, from: &str, to: &str) -> Result<(), Errno> {
        Ok(rustix::fs::renameat(dir, from, dir, to)?)
    }

    /// Removes a file of `dir`.
    fn remove(&mut self, dir: &File, name: &str) -> Result<(), Errno> {
        Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
    }

    fn write(&mut self, writer: &HostWriter, path: &str, value: &str) -> Result<(), WriteError> {
        writer.write(path, value)
    }

    fn put(&mut self, tree: &Tree, path: &str, entry: &Entry) -> Result<(), TreeError> {
        tree.put(path, entry)
    }

    fn make_folder(&mut self, tree: &Tree, path: &str) -> Result<(), TreeError> {
        tree.make_folder(path)
    }

    fn remove_empty_folder(&mut self, tree: &Tree, path: &str) -> Result<(), TreeError> {
        tree.remove_empty_folder(path)
    }

    /// Runs a command to its end on this machine.
    fn run(&mut self, argv: &[String]) -> Result<(), String> {
        command::run(argv)
    }

    /// Pretends to run a command on a captured machine, which has no programs.
    fn rehearse(&mut self, _: &[String]) -> Result<(), String> {
        Ok(())
    }

    /// The folder with the locks on the files of `root` that processes are changing.
    /// `None` if no other process can change these files at the same time.
    fn claims_dir(&self, root: &Root) -> Option<PathBuf> {
        if root.kind() == RootKind::Live { claims::dir_of_root() } else { None }
    }

    fn realtime_ns(&mut self) -> u64 {
        evenkeel_sys::clock::realtime_ns()
    }
}

/// This machine's disk, and the host that the writer changes.
pub(crate) struct Real;

impl Outside for Real {}
