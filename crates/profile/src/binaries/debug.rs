//! Finds the separate debug file of a program or library.
//! The debug file has the names, source lines and unwind tables that were stripped from the program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::source::{Source, source};
use super::{Links, Lookup, bare, hex, place, same_build};

/// Finds the separate debug file of the file at `path`: by its build ID, or by the name and checksum in its debug link.
pub(crate) fn separate(links: &Links, path: &Path, lookup: &Lookup) -> Option<(Source, PathBuf)> {
    if let Some(id) = &links.build_id
        && let Some(found) = by_build_id(id, lookup)
    {
        return Some(found);
    }
    let (name, checksum) = links.debug_link.as_ref()?;
    let name = Path::new(OsStr::from_bytes(name));
    // The link must be a plain file name, not a path.
    if name.file_name() != Some(name.as_os_str()) {
        return None;
    }
    let folder = path.parent()?;
    let below = folder.strip_prefix("/").ok()?;
    let folders = [folder.to_owned(), folder.join(".debug")];
    let folders = folders.into_iter().chain(lookup.debug_folders.iter().map(|folder| folder.join(below)));
    for candidate in folders.map(|folder| folder.join(name)).filter(|candidate| candidate != path) {
        let Ok(opened) = place::open(&candidate) else { continue };
        let Ok(again) = opened.file.try_clone() else { continue };
        let Ok(source) = source(opened.file) else { continue };
        let is_it = match (Links::read(&source).map(|found| found.build_id), &links.build_id) {
            (Err(_), _) => false,
            (Ok(Some(found)), Some(id)) => same_build(&found, id),
            (Ok(_), _) => checksum_of(again) == Some(*checksum),
        };
        if is_it {
            return Some((source, candidate));
        }
    }
    None
}

/// The separate debug file with this build ID.
pub(crate) fn by_build_id(id: &[u8], lookup: &Lookup) -> Option<(Source, PathBuf)> {
    debug_paths(id, lookup).find_map(|path| {
        let source = source(place::open(&path).ok()?.file).ok()?;
        let is_it = Links::read(&source).ok()?.build_id.is_some_and(|found| same_build(&found, id));
        is_it.then_some((source, path))
    })
}

/// The files that may have the debug information of a build ID. If the ID was padded with zeros, the file's name leaves out these zeros.
pub(crate) fn debug_paths(id: &[u8], lookup: &Lookup) -> impl Iterator<Item = PathBuf> {
    let as_given = Some(id).into_iter();
    let ids = as_given.chain(Some(bare(id)).filter(|bare| *bare != id));
    let digits = ids.map(hex).collect::<Vec<_>>();
    let place = |digits: &String| {
        let (first, rest) = digits.split_at_checked(2)?;
        Some(format!(".build-id/{first}/{rest}.debug"))
    };
    let places: Vec<String> = digits.iter().filter_map(place).collect();
    lookup
        .debug_folders
        .iter()
        .flat_map(move |folder| places.iter().map(|place| folder.join(place)).collect::<Vec<_>>())
}

fn checksum_of(mut file: File) -> Option<u32> {
    file.rewind().ok()?;
    let mut sum = crc32fast::Hasher::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(sum.finalize()),
            read => sum.update(piece.get(..read)?),
        }
    }
}
