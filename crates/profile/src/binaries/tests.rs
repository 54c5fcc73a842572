//! Names and stacks of a process with its own root come from its own files, even if another file has the same path outside.

use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::source::source;
use super::{Links, Lookup, NotFound, Sought, bare, debug_paths, place, same_build};
use crate::recording::{Machine, Mapping};
use crate::stack::{Module, ModuleId, Modules};

const SOURCE: &str = "#include <unistd.h>\n\
                      int main(void) { write(1, \"r\", 1); for (;;) pause(); }\n\
                      int NAME(int x) { volatile int y[SIZE]; y[x] = x; return y[0]; }\n";

/// A process in its own root. Dropping this value ends the process.
pub(crate) struct Contained {
    child: Child,
    /// The temporary folder with all files. Dropping this value removes the folder.
    _folder: tempfile::TempDir,
    /// The program's path, both inside the process's root and outside.
    pub(crate) path: PathBuf,
    /// The file in the process's root, as seen from outside.
    pub(crate) inside: PathBuf,
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compile(to: &Path, build_id: &str, name: &str, size: u32) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-static", "-x", "c", "-", "-o"]).arg(to);
    gcc.args([format!("-Wl,--build-id={build_id}"), format!("-DNAME={name}"), format!("-DSIZE={size}")]);
    let mut gcc = gcc.stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut gcc.stdin.take().unwrap(), SOURCE.as_bytes()).unwrap();
    assert!(gcc.wait().unwrap().success());
}

impl Contained {
    /// Starts a process in its own root. Outside that root, another program has the same path.
    /// None if the user may not change the root. The test is then recorded as skipped.
    pub(crate) fn start(build_id: &str) -> Option<Contained> {
        if evenkeel_testkit::needs_root("a process with a root of its own") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let path = folder.path().join("program");
        let inside = root.join(path.strip_prefix("/").unwrap());
        std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
        compile(&inside, build_id, "inside", 16);
        compile(&path, build_id, "outside", 4096);
        let mut child = Command::new("chroot").arg(&root).arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        // The program writes one byte as soon as it runs.
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        Some(Contained { child, _folder: folder, path, inside })
    }

    /// The program as a module of a recording. The module's address has no mapping in the process, so only its name leads to the file.
    pub(crate) fn module(&self, build_id: Option<Vec<u8>>) -> (Module, Mapping) {
        let module = Module { path: self.path.to_str().unwrap().to_owned(), build_id };
        let number: ModuleId = Modules::default().number(module.clone());
        (module, Mapping { at_ns: 0, pid: self.child.id(), start: 0x1000, end: 0x2000, module: number })
    }
}

fn build_id_of(path: &Path) -> Vec<u8> {
    let file = source(place::open(path).unwrap().file).unwrap();
    Links::read(&file).unwrap().build_id.unwrap()
}

fn opened(module: &Module, mapping: Mapping) -> Result<Vec<u8>, NotFound> {
    let lookup = Lookup::default();
    let (opened, _) = Sought::new(&Machine::default(), &[mapping], module, &lookup).open(&lookup)?;
    let mut bytes = Vec::new();
    // The search for the build ID moved the position in the file, so rewind the file.
    let mut file = opened.file;
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    Ok(bytes)
}

#[test]
fn a_containers_file_is_never_taken_from_the_host() {
    let Some(contained) = Contained::start("none") else { return };
    let (module, mapping) = contained.module(None);
    assert_eq!(opened(&module, mapping).unwrap(), std::fs::read(&contained.inside).unwrap());
    // The process still runs, and the other program still exists outside its root.
    std::fs::remove_file(&contained.inside).unwrap();
    assert_eq!(opened(&module, mapping).unwrap_err(), NotFound::Gone);
}

#[test]
fn the_hosts_file_stands_in_for_a_containers_of_the_same_build() {
    let Some(contained) = Contained::start("sha1") else { return };
    let (module, mapping) = contained.module(Some(build_id_of(&contained.inside)));
    let whole = std::fs::read(&contained.inside).unwrap();
    assert_eq!(opened(&module, mapping).unwrap(), whole);
    std::fs::remove_file(&contained.inside).unwrap();
    let outside = super::hex(&build_id_of(&contained.path));
    let detail = Some(format!("its build id is {outside}"));
    assert_eq!(opened(&module, mapping).unwrap_err(), NotFound::Replaced { detail });
    std::fs::write(&contained.path, &whole).unwrap();
    assert_eq!(opened(&module, mapping).unwrap(), whole);
}

#[test]
fn build_ids_are_compared_without_what_fills_them_up() {
    let short = [0xab, 0xcd, 0xef];
    let padded = [0xab, 0xcd, 0xef, 0, 0];
    assert!(same_build(&short, &padded) && same_build(&padded, &short) && same_build(&padded, &padded));
    assert!(!same_build(&short, &[0xab, 0xcd]) && !same_build(&[], &[]));
    assert_eq!((bare(&padded), bare(&[0, 0])), (&short[..], &[][..]));
    let lookup = Lookup { debug_folders: vec!["/d".into()], ..Lookup::default() };
    let paths: Vec<PathBuf> = debug_paths(&padded, &lookup).collect();
    assert_eq!(paths, [Path::new("/d/.build-id/ab/cdef0000.debug"), Path::new("/d/.build-id/ab/cdef.debug")]);
    assert_eq!(debug_paths(&[], &lookup).next(), None);
}
