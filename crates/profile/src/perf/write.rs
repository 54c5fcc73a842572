//! `PerfWriter`: writes `perf.data` files that `perf report` and `perf script` can open.
//! The records come first and their description last, because the IDs of late events are unknown before.

use std::io::{self, Seek, SeekFrom, Write};

use super::layout::{Layout, sample};
use super::record::{HEAD_BYTES, MISC_KERNEL, MISC_USER, kind};
use crate::recording::Machine;

const MAGIC: &[u8; 8] = b"PERFILE2";
const HEAD_OF_FILE_BYTES: u64 = 104;
/// The offset of the feature bits in the header.
const FEATURE_BYTES: usize = 32;
/// Texts are padded with zeros to a multiple of this length (`NAME_ALIGN`).
const TEXT_ALIGN: usize = 64;
/// `HEADER_*`: the bits of the features that are written.
mod feature {
    pub(super) const TRACING_DATA: u32 = 1;
    pub(super) const BUILD_IDS: u32 = 2;
    pub(super) const HOST: u32 = 3;
    pub(super) const KERNEL: u32 = 4;
    pub(super) const VERSION: u32 = 5;
    pub(super) const ARCHITECTURE: u32 = 6;
    pub(super) const CPUS: u32 = 7;
    pub(super) const COMMAND: u32 = 11;
    pub(super) const EVENTS: u32 = 12;
}

/// An event of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenEvent {
    /// The name of the event in perf: `cpu-clock`, `sched:sched_waking`.
    pub name: String,
    /// The event's `struct perf_event_attr`, which has the same length in all events of a file.
    pub attributes: Vec<u8>,
    /// The IDs in the event's records: one for each CPU, or for each thread and CPU.
    pub ids: Vec<u64>,
}

/// The build ID of a file that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildId {
    /// The path of the file. `[kernel.kallsyms]` means the kernel.
    pub path: String,
    /// The build ID: at most 20 bytes.
    pub id: Vec<u8>,
    /// Whether the build ID is the kernel's.
    pub is_kernel: bool,
}

/// The description of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// The recorded machine.
    pub machine: Machine,
    /// The number of CPUs, including offline CPUs.
    pub cpus_present: Option<u32>,
    /// The version of the recording program.
    pub version: String,
    /// The events of the records.
    pub events: Vec<WrittenEvent>,
    /// The known build IDs of mapped files.
    pub build_ids: Vec<BuildId>,
    /// The descriptions of tracepoints in perf's format. Empty without tracepoints.
    pub tracing_data: Vec<u8>,
}

/// Writes a file.
#[derive(Debug)]
pub struct PerfWriter<W> {
    into: W,
    records_bytes: u64,
}

impl<W: Write + Seek> PerfWriter<W> {
    /// Starts a file. Until the file is finished, its header declares no records.
    ///
    /// # Errors
    /// If writing fails.
    pub fn begin(mut into: W) -> io::Result<PerfWriter<W>> {
        into.write_all(&head(&Section::default(), 0, &Section::default(), &[0; FEATURE_BYTES]))?;
        Ok(PerfWriter { into, records_bytes: 0 })
    }

    /// The size of all records so far, in bytes.
    pub fn records_bytes(&self) -> u64 {
        self.records_bytes
    }

    /// Adds whole records.
    ///
    /// # Errors
    /// If writing fails.
    pub fn records(&mut self, records: &[u8]) -> io::Result<()> {
        self.into.write_all(records)?;
        self.records_bytes += records.len() as u64;
        Ok(())
    }

    /// Writes the description, and completes the file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self, described: &Described) -> io::Result<W> {
        let records = Section { offset: HEAD_OF_FILE_BYTES, length: self.records_bytes };
        // perf expects the features directly after the records.
        let mut offset = records.end();
        let features = features(described);
        let mut bits = [0_u8; FEATURE_BYTES];
        let mut tail = Vec::new();
        let mut bodies = Vec::new();
        let table_bytes = features.len() as u64 * 16;
        for (bit, body) in &features {
            bits[(bit / 8) as usize] |= 1 << (bit % 8);
            let section = Section { offset: offset + table_bytes + bodies.len() as u64, length: body.len() as u64 };
            tail.extend(section.bytes());
            bodies.extend_from_slice(body);
        }
        tail.extend(bodies);
        tail.resize(tail.len().next_multiple_of(8), 0);
        offset += tail.len() as u64;
        let mut attributes = Vec::new();
        let mut each_bytes = 0;
        for event in &described.events {
            let ids = Section { offset, length: event.ids.len() as u64 * 8 };
            tail.extend(event.ids.iter().flat_map(|id| id.to_ne_bytes()));
            attributes.extend_from_slice(&event.attributes);
            attributes.extend(ids.bytes());
            each_bytes = event.attributes.len() as u64 + 16;
            offset = ids.end();
        }
        let attributes_at = Section { offset, length: attributes.len() as u64 };
        tail.extend(attributes);
        self.into.write_all(&tail)?;
        self.into.seek(SeekFrom::Start(0))?;
        self.into.write_all(&head(&attributes_at, each_bytes, &records, &bits))?;
        self.into.flush()?;
        Ok(self.into)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Section {
    offset: u64,
    length: u64,
}

impl Section {
    fn end(&self) -> u64 {
        self.offset + self.length
    }

    fn bytes(&self) -> Vec<u8> {
        [self.offset.to_ne_bytes(), self.length.to_ne_bytes()].concat()
    }
}

fn head(attributes: &Section, each_bytes: u64, records: &Section, features: &[u8; FEATURE_BYTES]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend(HEAD_OF_FILE_BYTES.to_ne_bytes());
    head.extend(each_bytes.to_ne_bytes());
    head.extend(attributes.bytes());
    head.extend(records.bytes());
    // The section of event types, which is obsolete and empty.
    head.extend(Section::default().bytes());
    head.extend(features);
    head
}

/// The features, each with its bit, in the order of the bits.
fn features(described: &Described) -> Vec<(u32, Vec<u8>)> {
    let machine = &described.machine;
    let text_of = |value: &Option<String>| value.as_deref().map(text);
    let cpus = described
        .cpus_present
        .zip(machine.cpus)
        .map(|(present, online)| [present.to_ne_bytes(), online.to_ne_bytes()].concat());
    let command = (!machine.command.is_empty()).then(|| {
        let mut body = (machine.command.len() as u32).to_ne_bytes().to_vec();
        body.extend(machine.command.iter().flat_map(|part| text(part)));
        body
    });
    let tracing_data = (!described.tracing_data.is_empty()).then(|| described.tracing_data.clone());
    let all = [
        (feature::TRACING_DATA, tracing_data),
        (feature::BUILD_IDS, (!described.build_ids.is_empty()).then(|| build_ids(&described.build_ids))),
        (feature::HOST, text_of(&machine.host)),
        (feature::KERNEL, text_of(&machine.kernel)),
        (feature::VERSION, Some(text(&described.version))),
        (feature::ARCHITECTURE, text_of(&machine.architecture)),
        (feature::CPUS, cpus),
        (feature::COMMAND, command),
        (feature::EVENTS, Some(descriptions(&described.events))),
    ];
    all.into_iter().filter_map(|(bit, body)| Some((bit, body?))).collect()
}

fn descriptions(events: &[WrittenEvent]) -> Vec<u8> {
    let each_bytes = events.first().map_or(0, |event| event.attributes.len());
    let mut body = [(events.len() as u32).to_ne_bytes(), (each_bytes as u32).to_ne_bytes()].concat();
    for event in events {
        body.extend_from_slice(&event.attributes);
        body.extend((event.ids.len() as u32).to_ne_bytes());
        body.extend(text(&event.name));
        body.extend(event.ids.iter().flat_map(|id| id.to_ne_bytes()));
    }
    body
}

/// Build IDs in perf's form: each entry has a header, the owner, the ID with its length, and the path.
fn build_ids(all: &[BuildId]) -> Vec<u8> {
    const ID_BYTES: usize = 20;
    const ROOM_BYTES: usize = 24;
    /// `misc`: the record has the length of the ID.
    const MISC_SIZE: u16 = 1 << 15;
    let mut body = Vec::new();
    for one in all.iter().filter(|one| one.id.len() <= ID_BYTES) {
        let path_bytes = (one.path.len() + 1).next_multiple_of(TEXT_ALIGN);
        // A path that is too long for a record is also too long to be opened.
        let Ok(length) = u16::try_from(HEAD_BYTES + 4 + ROOM_BYTES + path_bytes) else { continue };
        let whose = if one.is_kernel { MISC_KERNEL } else { MISC_USER };
        body.extend(0_u32.to_ne_bytes());
        body.extend((whose | MISC_SIZE).to_ne_bytes());
        body.extend(length.to_ne_bytes());
        // This pid means the machine itself, not one of its guests.
        body.extend(u32::MAX.to_ne_bytes());
        let (id_at, path_at) = (body.len(), body.len() + ROOM_BYTES);
        body.extend_from_slice(&one.id);
        body.resize(id_at + ID_BYTES, 0);
        body.push(one.id.len() as u8);
        body.resize(path_at, 0);
        body.extend_from_slice(one.path.as_bytes());
        body.resize(path_at + path_bytes, 0);
    }
    body
}

/// A text in the file's format: the padded length, the text, and the padding.
fn text(text: &str) -> Vec<u8> {
    let room = (text.len() + 1).next_multiple_of(TEXT_ALIGN);
    let mut bytes = (room as u32).to_ne_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(4 + room, 0);
    bytes
}

/// A record of this kind and body, without event and time, for the state before the recording.
/// `fields` are the trailing fields of all records.
///
/// None if the record would exceed the maximum length.
pub fn record(kind: u32, misc: u16, body: &[u8], layout: &Layout) -> Option<Vec<u8>> {
    let tail_bytes = if kind >= kind::FIRST_OF_USER { 0 } else { id_bytes(layout) };
    let room = body.len().next_multiple_of(8);
    let length = u16::try_from(HEAD_BYTES + room + tail_bytes).ok()?;
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend(length.to_ne_bytes());
    bytes.extend_from_slice(body);
    bytes.resize(usize::from(length), 0);
    Some(bytes)
}

/// The length of the trailing fields of records other than samples.
pub fn id_bytes(layout: &Layout) -> usize {
    const FIELDS: [u64; 6] =
        [sample::TID, sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];
    if layout.is_sample_id_all() { FIELDS.iter().filter(|field| layout.has(**field)).count() * 8 } else { 0 }
}
