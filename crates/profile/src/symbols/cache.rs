//! `Cache`: names on disk by build ID and path.
//! The cache makes later searches fast, and keeps recordings readable after their files were replaced.
//! Users may delete the cache at any time. Damaged or foreign entries are replaced.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::binaries::hex;
use crate::names::Function;

/// The first line of an entry. An entry with another number has another format and is replaced.
const HEAD: &str = "evenkeel symbols 2";
/// The maximum length of an entry. Longer entries are not stored.
const ENTRY_MAX_BYTES: u64 = 16 << 20;
/// The maximum total size of all entries. Above this size, the oldest entries are removed.
const ALL_MAX_BYTES: u64 = 256 << 20;
/// The maximum number of entries that are kept.
const ENTRIES_MAX: usize = 4096;

/// The source of a file's names. Later variants have better names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Grade {
    /// Exported symbols only: the file is stripped.
    Dynamic,
    /// The file's own symbol table.
    Own,
    /// A separate debug file.
    Separate,
}

/// The owner of a file. A container's file differs from the host's file at the same path, whatever build ID it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// This machine, for its own files.
    Here,
    /// A container, for its files.
    Container,
    /// One recording, for code without a build ID.
    Recording,
}

/// The cached names of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedNames {
    /// Where the names come from.
    pub(crate) grade: Grade,
    /// The functions by offset. The list is empty if an offset has no name.
    pub(crate) places: BTreeMap<u64, Vec<Function>>,
}

/// The stored form, with each function stored once.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Written {
    grade: Grade,
    functions: Vec<(String, Option<String>, u32, bool)>,
    places: BTreeMap<u64, Vec<usize>>,
}

/// The cache folder.
#[derive(Clone, Debug)]
pub(crate) struct Cache(Option<PathBuf>);

/// The key of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'k> {
    /// The file's build ID, or the identity of a recording.
    pub(crate) build_id: &'k [u8],
    /// The path of the file.
    pub(crate) path: &'k str,
    /// The scope in which the key is valid.
    pub(crate) scope: Scope,
}

impl Cache {
    /// Creates the folder if it does not exist. None disables the cache.
    pub(crate) fn new(folder: Option<&Path>) -> Cache {
        Cache(folder.map(Path::to_owned))
    }

    /// Loads an entry. None if the entry is missing or invalid.
    pub(crate) fn load(&self, key: Key<'_>) -> Option<CachedNames> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let path = self.path(key)?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let known = file.metadata().ok()?;
        if !known.is_file() || known.len() > ENTRY_MAX_BYTES || !is_own(&known) {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(ENTRY_MAX_BYTES).read_to_end(&mut bytes).ok()?;
        parse_entry(&bytes)
    }

    /// Stores an entry. Errors are ignored, because the names can be found again.
    pub(crate) fn store(&self, key: Key<'_>, kept: &CachedNames) {
        let _ = self.try_store(key, kept);
    }

    fn try_store(&self, key: Key<'_>, kept: &CachedNames) -> Option<()> {
        let folder = self.0.as_ref()?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        if !is_own(&std::fs::symlink_metadata(folder).ok()?) {
            return None;
        }
        let entry = written(kept)?;
        let path = self.path(key)?;
        // Another process may write the same entry. Each process writes its own file, and the last rename wins.
        let own = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = File::create_new(&own).ok()?;
        let done = file.write_all(&entry).and_then(|()| std::fs::rename(&own, &path));
        if done.is_err() {
            let _ = std::fs::remove_file(&own);
        }
        self.shrink()
    }

    /// Removes the oldest entries beyond the limit.
    fn shrink(&self) -> Option<()> {
        let entries = std::fs::read_dir(self.0.as_ref()?).ok()?.flatten();
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let known = entry.metadata().ok().filter(|known| known.is_file())?;
                Some((known.modified().ok()?, known.len(), entry.path()))
            })
            .collect();
        entries.sort_by(|one, other| other.cmp(one));
        let mut left = ALL_MAX_BYTES;
        for (at, (_, bytes, path)) in entries.iter().enumerate() {
            match left.checked_sub(*bytes).filter(|_| at < ENTRIES_MAX) {
                Some(rest) => left = rest,
                None => std::fs::remove_file(path).ok()?,
            }
        }
        Some(())
    }

    fn path(&self, key: Key<'_>) -> Option<PathBuf> {
        const ID_MAX_BYTES: usize = 64;
        let folder = self.0.as_ref()?;
        let id = hex(key.build_id.get(..key.build_id.len().min(ID_MAX_BYTES))?);
        let scope = match key.scope {
            Scope::Here => "here",
            Scope::Container => "container",
            Scope::Recording => "recording",
        };
        Some(folder.join(format!("{id}-{:08x}-{scope}", crc32fast::hash(key.path.as_bytes()))))
    }
}

/// Whether only this user can write to a file.
fn is_own(known: &std::fs::Metadata) -> bool {
    known.uid() == rustix::process::geteuid().as_raw() && known.mode() & 0o022 == 0
}

fn written(kept: &CachedNames) -> Option<Vec<u8>> {
    let mut numbers = std::collections::HashMap::new();
    let mut functions = Vec::new();
    let mut places = BTreeMap::new();
    for (place, found) in &kept.places {
        let number = |function: &Function| {
            *numbers.entry(function.clone()).or_insert_with(|| {
                let Function { name, file, line, is_inlined } = function.clone();
                functions.push((name, file, line, is_inlined));
                functions.len() - 1
            })
        };
        places.insert(*place, found.iter().map(number).collect());
    }
    let body = serde_json::to_vec(&Written { grade: kept.grade, functions, places }).ok()?;
    let mut entry = format!("{HEAD} {:08x}\n", crc32fast::hash(&body)).into_bytes();
    entry.extend(body);
    (entry.len() as u64 <= ENTRY_MAX_BYTES).then_some(entry)
}

/// Parses an entry: a line with format and checksum, then the content. None if the format or the checksum does not match.
pub(crate) fn parse_entry(bytes: &[u8]) -> Option<CachedNames> {
    let end = bytes.iter().take(80).position(|byte| *byte == b'\n')?;
    let sum = std::str::from_utf8(bytes.get(..end)?).ok()?.strip_prefix(HEAD)?.strip_prefix(' ')?;
    let body = bytes.get(end + 1..)?;
    if u32::from_str_radix(sum, 16).ok()? != crc32fast::hash(body) {
        return None;
    }
    let Written { grade, functions, places } = serde_json::from_slice(body).ok()?;
    let function = |number: &usize| {
        let (name, file, line, is_inlined) = functions.get(*number)?.clone();
        Some(Function { name, file, line, is_inlined })
    };
    let places = places
        .into_iter()
        .map(|(place, numbers)| Some((place, numbers.iter().map(function).collect::<Option<Vec<_>>>()?)));
    Some(CachedNames { grade, places: places.collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn kept() -> CachedNames {
        let inlined =
            Function { name: "step".to_owned(), file: Some("world.rs".to_owned()), line: 7, is_inlined: true };
        let places =
            [(0x1000, vec![Function::named("run"), inlined]), (0x1004, vec![Function::named("run")]), (9, vec![])];
        CachedNames { grade: Grade::Own, places: places.into() }
    }

    const KEY: Key<'static> = Key { build_id: &[0xab, 0xcd], path: "/usr/bin/server", scope: Scope::Here };

    #[test]
    fn cached_names_are_found_by_the_same_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("a/symbols")));
        assert_eq!(cache.load(KEY), None);
        cache.store(KEY, &kept());
        assert_eq!(cache.load(KEY), Some(kept()));
        for other in [
            Key { build_id: &[0xab, 0xce], ..KEY },
            Key { path: "/tmp/server", ..KEY },
            Key { scope: Scope::Container, ..KEY },
        ] {
            assert_eq!(cache.load(other), None, "{other:?}");
        }
        assert_eq!(Cache::new(None).load(KEY), None);
    }

    #[test]
    fn entries_that_others_can_write_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path()));
        let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        set(folder.path(), 0o777);
        cache.store(KEY, &kept());
        assert_eq!(cache.load(KEY), None, "it was kept in a folder that everybody may write to");
        set(folder.path(), 0o700);
        cache.store(KEY, &kept());
        set(&cache.path(KEY).unwrap(), 0o666);
        assert_eq!(cache.load(KEY), None);
    }

    #[test]
    fn the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path()));
        for number in 0..3_u64 {
            let file = File::create(folder.path().join(format!("{number}"))).unwrap();
            // The file is sparse. The limit counts the file's length, not its blocks.
            file.set_len(ALL_MAX_BYTES / 2 - 1).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number)).unwrap();
        }
        cache.shrink().unwrap();
        let mut left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["1", "2"]);
    }

    proptest! {
        #[test]
        fn a_damaged_entry_is_none(at in 0_usize..400, bit in 0_u8..8, cut in 0_usize..400) {
            let whole = written(&kept()).unwrap();
            prop_assert_eq!(parse_entry(&whole), Some(kept()));
            let mut flipped = whole.clone();
            let at = at % whole.len();
            flipped[at] ^= 1 << bit;
            // The checksum is hexadecimal, so upper and lower case are equal.
            if !flipped.eq_ignore_ascii_case(&whole) {
                prop_assert_eq!(parse_entry(&flipped), None);
            }
            prop_assert_eq!(parse_entry(&whole[..cut % whole.len()]), None);
        }
    }
}
