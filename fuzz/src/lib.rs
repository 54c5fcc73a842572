//! Fuzz targets: `targets.rs` describes them, and `README.md` how to run them.

#![allow(dead_code, reason = "of the program's modules only the reader of waivers is wanted")]

use std::fs;
use std::sync::LazyLock;

use tempfile::TempDir;

#[path = "../../crates/evenkeel/src/exit.rs"]
mod exit;
#[path = "../../crates/evenkeel/src/failure.rs"]
mod failure;
mod targets;
#[path = "../../crates/evenkeel/src/waivers.rs"]
mod waivers;

use targets::{Reads, TARGETS};

static DIR: LazyLock<TempDir> = LazyLock::new(|| TempDir::new_in("/dev/shm").expect("/dev/shm takes a folder"));

/// Passes a text to the target with this name.
pub fn run(name: &str, text: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("Cargo.toml names targets that there are");
    match target.reads {
        Reads::Whole(read) => read(text),
        Reads::Paths(host, paths) => drop(targets::machines::on_paths(host, paths, text)),
        Reads::Program => {
            let file = DIR.path().join("waivers.toml");
            fs::write(&file, text).expect("/dev/shm takes a file");
            if let Err(failure) = waivers::Waivers::read(&file) {
                assert!(failure.message().starts_with("failed to read the waivers"), "{}", failure.message());
            }
        }
    }
}
