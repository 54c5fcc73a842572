//! Checks the table of knobs against its files, its page in docs/, and its crate.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use evenkeel_host::{Place, knobs};
use expect_test::expect_file;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// A knob's file has the name of the knob's id, with `_` for dots, so that people can find the file.
#[test]
fn every_file_is_listed_and_every_knob_has_its_file() {
    let files = rust_files(&here().join("src/knobs")).unwrap();
    let stems = files.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let stems: BTreeSet<String> = stems.filter(|stem| stem != "mod").collect();
    let ids: BTreeSet<String> = knobs::ALL.iter().map(|knob| knob.id.replace('.', "_")).collect();
    assert_eq!(stems, ids);
    assert_eq!(ids.len(), knobs::ALL.len(), "an id is listed twice");
}

#[test]
fn ids_and_places_are_well_formed() {
    for knob in knobs::ALL {
        let parts: Vec<&str> = knob.id.split('.').collect();
        let plain = |part: &&str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        assert!(parts.iter().all(plain), "{:?}", knob.id);
        let is_each = matches!(knob.place, Place::Each { .. });
        for path in knob.place.files().iter().chain(knob.extras.side_effects) {
            let of_device = is_each && !path.starts_with('/');
            assert!(of_device || path.starts_with("/proc/sys/") || path.starts_with("/sys/"), "{}: {path}", knob.id);
            assert!(!path.contains("..") && !path.ends_with('/'), "{}: {path}", knob.id);
        }
        if let Place::File { path, .. } = knob.place
            && let Some(name) = path.strip_prefix("/proc/sys/")
        {
            assert_eq!(knob.id, name.replace('/', "."), "a sysctl goes by its own name");
        }
    }
}

#[test]
fn knobs_are_listed_by_area() {
    let areas: Vec<_> = knobs::ALL.iter().map(|knob| knob.area).collect();
    assert!(areas.is_sorted(), "{areas:?}");
}

#[test]
fn the_page_is_fresh() {
    expect_file!["../../../../docs/knobs.md"].assert_eq(&evenkeel_host::knobs_page());
}

/// This crate cannot write to a host, because it never names the type of the writer.
#[test]
fn the_crate_never_names_the_host_writer() {
    for path in rust_files(&here().join("src")).unwrap() {
        let text = fs::read_to_string(&path).unwrap();
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let writers = words.filter(|word| *word == "HostWriter").count();
        assert_eq!(writers, 0, "{} names HostWriter", path.display());
    }
}
