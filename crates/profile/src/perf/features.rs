//! `Features`: the additional data of a `perf.data` file, such as its machine, the names of its events, and the files with the code.

use std::collections::HashMap;

use super::bytes::{Cursor, Malformed};
use super::record::{HEAD_BYTES, Head};
use crate::recording::Machine;

/// The numbers of the features that are read here (`HEADER_*` of perf).
mod feature {
    pub(super) const BUILD_ID: u64 = 2;
    pub(super) const HOSTNAME: u64 = 3;
    pub(super) const OSRELEASE: u64 = 4;
    pub(super) const ARCH: u64 = 6;
    pub(super) const NRCPUS: u64 = 7;
    pub(super) const CMDLINE: u64 = 11;
    pub(super) const EVENT_DESC: u64 = 12;
    pub(super) const COMPRESSED: u64 = 27;
}

/// The number of features that a file's header has bits for.
pub(super) const FEATURES: u64 = 256;
/// `misc` of an entry in the table of build IDs: the entry has the length of its ID.
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;
/// The number of bytes for the build ID in an entry. The ID is at most the first twenty bytes.
const BUILD_ID_ROOM: usize = 24;

/// The parsed features of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Features {
    pub(super) machine: Machine,
    /// The names of the events, in their order.
    pub(super) event_names: Vec<String>,
    /// Build ids by path.
    pub(super) build_ids: HashMap<String, Vec<u8>>,
    /// The compression of records, if any.
    pub(super) compression: Option<Compression>,
}

/// The compression of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// zstd, the only method that perf supports.
    Zstd,
    /// Another method, by perf's number.
    Other(u32),
}

impl Features {
    /// Parses one feature. Unused features are skipped.
    ///
    /// # Errors
    /// If the feature is shorter than its length field. The error has the position.
    pub(super) fn take(&mut self, number: u64, mut at: Cursor<'_>) -> Result<(), Malformed> {
        let machine = &mut self.machine;
        match number {
            feature::HOSTNAME => machine.host = Some(text(&mut at)?),
            feature::OSRELEASE => machine.kernel = Some(text(&mut at)?),
            feature::ARCH => machine.architecture = Some(text(&mut at)?),
            feature::NRCPUS => {
                let _there = at.u32()?;
                machine.cpus = Some(at.u32()?);
            }
            feature::CMDLINE => {
                let count = at.u32()?;
                machine.command.clear();
                for _ in 0..count {
                    machine.command.push(text(&mut at)?);
                }
            }
            feature::EVENT_DESC => self.event_names = event_names(&mut at)?,
            feature::BUILD_ID => self.build_ids(at)?,
            feature::COMPRESSED => {
                const ZSTD: u32 = 1;
                let _version = at.u32()?;
                let method = at.u32()?;
                self.compression = Some(if method == ZSTD { Compression::Zstd } else { Compression::Other(method) });
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads a table of build IDs.
    fn build_ids(&mut self, mut at: Cursor<'_>) -> Result<(), Malformed> {
        while at.left() >= HEAD_BYTES {
            let mut ahead = at;
            let head = Head::parse(ahead.take(HEAD_BYTES)?, at.offset())?;
            let offset = at.offset().saturating_add(HEAD_BYTES as u64);
            let whole = at.take(head.length)?;
            self.build_id(Cursor::new(whole.get(HEAD_BYTES..).unwrap_or_default(), offset), head)?;
        }
        Ok(())
    }

    /// Reads one entry of the table of build IDs. The cursor is after the entry's header.
    ///
    /// # Errors
    /// If the entry is too short. The error has the position.
    pub(super) fn build_id(&mut self, mut at: Cursor<'_>, head: Head) -> Result<(), Malformed> {
        let _pid = at.u32()?;
        let room = at.take(BUILD_ID_ROOM)?;
        let length = if head.misc & MISC_BUILD_ID_SIZE == 0 { 20 } else { usize::from(room[20]).min(20) };
        let path = String::from_utf8_lossy(at.text()).into_owned();
        self.build_ids.insert(path, room[..length].to_vec());
        Ok(())
    }
}

/// Reads a text that follows its length. The length includes the zeros after the text.
fn text(at: &mut Cursor<'_>) -> Result<String, Malformed> {
    let offset = at.offset();
    let length = at.u32()?;
    let bytes = at.take(usize::try_from(length).unwrap_or(usize::MAX))?;
    Ok(String::from_utf8_lossy(Cursor::new(bytes, offset).text()).into_owned())
}

fn event_names(at: &mut Cursor<'_>) -> Result<Vec<String>, Malformed> {
    let (count, attribute_bytes) = (at.u32()?, at.u32()?);
    let mut names = Vec::new();
    for _ in 0..count {
        at.take(usize::try_from(attribute_bytes).unwrap_or(usize::MAX))?;
        let ids = at.u32()?;
        names.push(text(at)?);
        at.words(u64::from(ids))?;
    }
    Ok(names)
}
