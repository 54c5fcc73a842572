//! The files of a crate must not form a circle: no two files may need each other, directly or indirectly.
//!
//! A file needs another file if its code names an item of that file:
//! in a `use` line, in a path, or in the arguments of a macro.
//! The test follows names through re-exports to the file that defines the item.
//! So a parent that only re-exports items of its children does not need them.
//! A method counts for the file that defines it, if the code calls it as `Type::function` or on `self`.
//! The test does not detect other method calls. Tests, comments and strings do not count.

mod modules;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use self::modules::Modules;
use crate::rules::{files, project, read};

/// Files that all need each other, directly or indirectly, and the shortest circle of them.
#[derive(Debug)]
struct Circle {
    files: BTreeSet<PathBuf>,
    shortest: String,
}

/// The circles of a crate. `root` is the path of its root file, relative to the folder of the sources.
fn circles(sources: &BTreeMap<PathBuf, String>, root: &Path) -> Vec<Circle> {
    let graph = Modules::new(sources, root).graph();
    let reached: BTreeMap<&Path, BTreeMap<&Path, &Path>> =
        graph.keys().map(|file| (file.as_path(), reached(&graph, file))).collect();
    let mut found: Vec<Circle> = Vec::new();
    for (file, needs) in &reached {
        if found.iter().any(|circle| circle.files.contains(*file)) || !needs.contains_key(file) {
            continue;
        }
        let files: BTreeSet<&Path> = needs.keys().copied().filter(|other| reached[other].contains_key(file)).collect();
        let shortest = files.iter().map(|file| way_back(&reached[file], file)).min_by_key(Vec::len).unwrap_or_default();
        let shortest: Vec<String> = shortest.iter().map(|file| file.display().to_string()).collect();
        found.push(Circle { files: files.into_iter().map(Path::to_owned).collect(), shortest: shortest.join(" -> ") });
    }
    found
}

/// The files that this file needs, directly or indirectly. Each has its predecessor on a shortest path.
fn reached<'a>(graph: &'a BTreeMap<PathBuf, BTreeSet<PathBuf>>, file: &'a Path) -> BTreeMap<&'a Path, &'a Path> {
    let mut before = BTreeMap::new();
    let mut left = VecDeque::from([file]);
    while let Some(at) = left.pop_front() {
        for next in graph.get(at).into_iter().flatten() {
            before.entry(next.as_path()).or_insert_with(|| {
                left.push_back(next);
                at
            });
        }
    }
    before
}

/// The shortest path from a file back to itself, built from the predecessor of each reached file.
fn way_back<'a>(before: &BTreeMap<&'a Path, &'a Path>, file: &'a Path) -> Vec<&'a Path> {
    let mut way = vec![file];
    while let Some(at) = before.get(way[way.len() - 1]) {
        way.push(at);
        if *at == file {
            break;
        }
    }
    way.reverse();
    way
}

/// The sources of a crate: the path of each file below `src`, and its text.
fn sources(of: &str) -> BTreeMap<PathBuf, String> {
    let folder = project().join("crates").join(of).join("src");
    let files = files(&folder, "rs").into_iter();
    files.map(|path| (path.strip_prefix(&folder).unwrap().to_owned(), read(&path))).collect()
}

/// Whether a file is the root of a library or program.
fn is_root(file: &Path) -> bool {
    let is_main = file.ends_with("main.rs");
    file == Path::new("lib.rs") || is_main || file.parent() == Some(Path::new("bin"))
}

#[test]
fn files_of_a_crate_form_no_circle() {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(project().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let sources = sources(&name);
        let roots = sources.keys().filter(|file| is_root(file));
        let circles = roots.flat_map(|root| circles(&sources, root));
        found.extend(
            circles.map(|circle| format!("{name}: {} files, shortest {}", circle.files.len(), circle.shortest)),
        );
    }
    assert!(found.is_empty(), "files that need each other:\n{}", found.join("\n"));
}

/// The shortest circle of each group of files that need each other. `files` has the name and the code of each file.
fn planted(files: &[(&str, &str)]) -> Vec<String> {
    let sources = files.iter().map(|(file, code)| (PathBuf::from(file), (*code).to_owned())).collect();
    circles(&sources, Path::new("lib.rs")).into_iter().map(|circle| circle.shortest).collect()
}

#[test]
fn a_planted_circle_is_found() {
    let both = "a.rs -> b.rs -> a.rs";
    let lib = "mod a; mod b; pub use a::A; pub use b::B;";
    for (a, b) in [
        ("use crate::b::B; pub struct A;", "use crate::a::A; pub struct B;"),
        ("use crate::{b::{self, B}}; pub struct A;", "pub struct B(super::a::A);"),
        // The files name each other through a re-export of the root, under another name, and as a module.
        ("use crate::B as Other; pub struct A;", "use super::a; pub struct B; fn f() -> a::A { a::A }"),
        ("pub struct A; fn f() { println!(\"{}\", crate::b::f()) }", "pub struct B; fn f() { use super::a::A; }"),
        ("use super::b::*; pub struct A(B);", "use crate::a::A; pub struct B;"),
        (
            "#[serde(with = \"super::b\")] pub struct A(super::b::B);",
            "#[serde(with = \"super::a::with\")] pub struct B;",
        ),
        ("pub struct A; macro_rules! make { () => { $crate::b::B } }", "pub struct B; fn f() { make!(); }"),
        // If a file calls a method on `self`, it needs the file that defines the method.
        (
            "pub struct A; impl A { fn f(&self) { self.g() } }",
            "use super::a::A; pub struct B; impl A { fn g(&self) {} }",
        ),
        ("pub struct A; impl A { fn f() { Self::g() } }", "use super::a::A; pub struct B; impl A { fn g() {} }"),
    ] {
        let found = planted(&[("lib.rs", lib), ("a.rs", a), ("b.rs", b)]);
        assert_eq!(found, [both], "{a} {b}");
    }
    let parent = "mod child; pub struct A; fn f() -> child::B { child::B }";
    let files = [("lib.rs", "mod a;"), ("a/mod.rs", parent), ("a/child.rs", "use super::A; pub struct B;")];
    assert_eq!(planted(&files), ["a/child.rs -> a/mod.rs -> a/child.rs"]);
    let files = [("lib.rs", "mod a; pub struct L; fn f() { a::f() }"), ("a.rs", "use crate::L; pub fn f() {}")];
    assert_eq!(planted(&files), ["a.rs -> lib.rs -> a.rs"]);
    let three = [("a.rs", "pub struct A(crate::b::B);"), ("b.rs", "pub struct B(crate::c::C);")];
    let rest = [("lib.rs", "mod a; mod b; mod c;"), ("c.rs", "pub struct C(crate::a::A);")];
    assert_eq!(planted(&[three, rest].concat()), ["a.rs -> b.rs -> c.rs -> a.rs"]);
}

#[test]
fn imports_without_a_circle_pass() {
    let lib = "mod a; mod b; pub use a::A; pub use b::{B, Leaf};";
    for (a, b) in [
        ("use crate::b::B; pub struct A;", "pub struct B; pub struct Leaf;"),
        ("use crate::b::B; pub struct A;", "// use crate::a::A;\npub struct B; const T: &str = \"crate::a::A\";"),
        ("use crate::b::B; pub struct A;", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
        ("use crate::b::B; pub struct A;", "pub struct B; #[cfg(all(test, not(loom)))] mod t { use crate::A; }"),
        ("use crate::b::B; pub struct A;", "pub struct B; #[test] fn t() { crate::a::A; }"),
        // No circle: a local name equals the name of a module.
        ("use crate::b::B; pub struct A;", "pub struct B; fn f(a: u8) -> u8 { a + self::g(a) }"),
        (
            "use crate::b::B; pub struct A; impl A { fn g(&self) {} }",
            "pub struct B; impl B { fn f(&self) { self.g() } }",
        ),
    ] {
        let found = planted(&[("lib.rs", lib), ("a.rs", a), ("b.rs", b)]);
        assert_eq!(found, [""; 0], "{a} {b}");
    }
    // A file that uses an item of a child through the parent's `pub use` needs only the child.
    let parent = "mod child; mod leaf; pub use child::B; pub use leaf::*;";
    let child = "use super::Leaf; pub struct B;";
    let files = [("lib.rs", "mod a;"), ("a/mod.rs", parent), ("a/child.rs", child), ("a/leaf.rs", "pub struct Leaf;")];
    assert_eq!(planted(&files), [""; 0]);
}
