//! Compares the pages in docs/ with the current command line.
//! These are unit tests of this program, because they need the parser's definition.

mod commands;
mod lines;
mod metrics;

use std::path::{Path, PathBuf};

/// The root folder of the project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages for readers: the pages in docs/ and in the root folder.
/// Leaves out dated findings, because they use the options of their time.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "hosts/README.md", "lab/README.md"]
            .map(|page| project().join(page))
            .to_vec();
    let mut folders = vec![project().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let is_page = path.extension().is_some_and(|end| end == "md");
            match path.is_dir() {
                true if path.ends_with("findings") => pages.push(path.join("README.md")),
                true => folders.push(path),
                false if is_page => pages.push(path),
                false => {}
            }
        }
    }
    pages.sort();
    pages
}
