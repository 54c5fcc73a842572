//! `PerfFile`: a parsed `perf.data` file: the machine, the events, and where the records are.

use std::collections::HashMap;

use super::bytes::{Cursor, Malformed};
use super::compressed::{Unpacked, has_packed, is_packed, unpacked};
use super::features::{FEATURES, Features};
use super::layout::{Layout, SMALLEST_BYTES};
use super::record::{self, HEAD_BYTES, What, kind};
use super::walk::{Piece, Walk};
use crate::convert::Converter;
use crate::recording::{Event, EventId, Recording, RecordingCaveat, Unit};
use crate::unwind::Unwind;

const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");
/// The length of the header of a file that was written to disk.
const FILE_HEAD_BYTES: u64 = 104;
/// The length of the header of a file that was written to a pipe.
const PIPE_HEAD_BYTES: u64 = 16;
/// The length of the reference to an event's IDs. In the file, this reference follows the event's attributes.
const PLACE_BYTES: usize = 16;
/// The maximum number of events. No real recording has more. Each event costs memory, so a larger number is an error.
const EVENTS_MAX: usize = 4096;
/// `PERF_EVENT_UPDATE__NAME`.
const UPDATE_NAME: u64 = 2;

/// A `perf.data` file.
#[derive(Debug)]
pub struct PerfFile<'a> {
    bytes: &'a [u8],
    features: Features,
    layouts: Vec<Layout>,
    names: Vec<Option<String>>,
    by_id: HashMap<u64, EventId>,
    ids: Ids,
    data: Cursor<'a>,
    end: End,
    /// Whether the file has compressed records. Other files are neither searched for compressed records nor copied.
    has_packed: bool,
    /// The decompressed records, if some were compressed.
    unpacked: Option<Unpacked>,
}

/// How the end of the records is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The header declares the end.
    Declared,
    /// The writer did not finish the file, so the last record may be cut off.
    Undeclared,
}

/// The positions of the event ID in a record. If there are several layouts, the ID must be at the same position in all layouts.
#[derive(Clone, Copy, Debug, Default)]
struct Ids {
    in_sample: Option<usize>,
    from_end: Option<usize>,
}

/// The time, position and event of a record, to sort records by time.
#[derive(Clone, Copy, Debug)]
struct Place {
    at_ns: u64,
    at: usize,
    event: EventId,
}

impl<'a> PerfFile<'a> {
    /// Parses everything except the records.
    ///
    /// # Errors
    /// If the bytes are not a perf.data file, or if a part is invalid. The error has the position.
    pub fn parse(bytes: &'a [u8]) -> Result<PerfFile<'a>, Malformed> {
        let mut at = Cursor::new(bytes, 0);
        let wrong = |what: &str, offset: u64| Malformed { what: what.to_owned(), offset };
        match at.u64().map_err(|_| wrong("this is not a perf.data file: it has no head", 0))? {
            MAGIC => {}
            other if other == MAGIC.swap_bytes() => {
                return Err(wrong("it was written on a machine of the other byte order, which is not read here", 0));
            }
            _ => return Err(wrong("this is not a perf.data file", 0)),
        }
        let mut file = PerfFile {
            bytes,
            features: Features::default(),
            layouts: Vec::new(),
            names: Vec::new(),
            by_id: HashMap::new(),
            ids: Ids::default(),
            data: at,
            end: End::Declared,
            has_packed: false,
            unpacked: None,
        };
        match at.u64()? {
            FILE_HEAD_BYTES => file.of_disk(at)?,
            PIPE_HEAD_BYTES => file.of_pipe(at)?,
            other => return Err(wrong(&format!("a header of {other} bytes is invalid"), 8)),
        }
        if file.layouts.is_empty() {
            return Err(wrong("it has no events", file.data.offset()));
        }
        if file.has_packed {
            file.unpacked = Some(unpacked(file.data, file.features.compression, file.end == End::Undeclared)?);
        }
        file.name_events();
        file.ids = Ids::from_layouts(&file.layouts);
        Ok(file)
    }

    /// Parses a file on disk, whose header has the positions of its parts.
    fn of_disk(&mut self, mut at: Cursor<'a>) -> Result<(), Malformed> {
        let attribute_bytes = at.u64()?;
        let (attributes, data, _types) = ((at.u64()?, at.u64()?), (at.u64()?, at.u64()?), (at.u64()?, at.u64()?));
        let mut bits = [0; FEATURES as usize / 64];
        for word in &mut bits {
            *word = at.u64()?;
        }
        self.events(attribute_bytes, attributes)?;
        // perf writes the length and the features last. If perf was killed, both are missing.
        if data.1 == 0 {
            let rest = (self.bytes.len() as u64).saturating_sub(data.0);
            self.data = self.part((data.0, rest))?;
            self.end = End::Undeclared;
            // The feature that declares compression is missing too, so look for compressed records.
            self.has_packed = has_packed(self.data);
            return Ok(());
        }
        self.data = self.part(data)?;
        let count: u32 = bits.iter().map(|word: &u64| word.count_ones()).sum();
        let mut table = self.part((data.0.saturating_add(data.1), u64::from(count) * PLACE_BYTES as u64))?;
        for number in (0..FEATURES).filter(|number| bits[*number as usize / 64] >> (number % 64) & 1 == 1) {
            let place = (table.u64()?, table.u64()?);
            self.features.take(number, self.part(place)?)?;
        }
        self.has_packed = self.features.compression.is_some();
        Ok(())
    }

    /// Parses a file that went through a pipe, in which everything is a record.
    fn of_pipe(&mut self, at: Cursor<'a>) -> Result<(), Malformed> {
        (self.data, self.end) = (at, End::Undeclared);
        let mut walk = Walk::over(at);
        // `places` later reports a record that is cut off at the end.
        while let Ok(Some(piece)) = walk.next() {
            self.has_packed |= is_packed(piece.head);
            let mut at = piece.body();
            match piece.head.kind {
                kind::HEADER_ATTR => {
                    let bytes = Layout::written_bytes(at.ahead(8)).max(SMALLEST_BYTES);
                    let number = self.event(at.take(bytes)?, piece.body().offset())?;
                    self.numbers(at, number)?;
                }
                kind::HEADER_FEATURE => {
                    let number = at.u64()?;
                    self.features.take(number, at)?;
                }
                kind::HEADER_BUILD_ID => self.features.build_id(at, piece.head)?,
                kind::EVENT_UPDATE => {
                    let (what, id) = (at.u64()?, at.u64()?);
                    let event = self.by_id.get(&id).filter(|_| what == UPDATE_NAME);
                    if let Some(name) = event.and_then(|event| self.names.get_mut(usize::from(*event))) {
                        *name = Some(String::from_utf8_lossy(at.text()).into_owned());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn part(&self, (offset, length): (u64, u64)) -> Result<Cursor<'a>, Malformed> {
        let start = usize::try_from(offset).ok();
        let end = offset.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let part = start.zip(end).and_then(|(start, end)| self.bytes.get(start..end));
        let what = || {
            format!("the file announces a part of {length} bytes, but has only {}: it was cut off", self.bytes.len())
        };
        Ok(Cursor::new(part.ok_or_else(|| Malformed { what: what(), offset })?, offset))
    }

    fn events(&mut self, each_bytes: u64, attributes: (u64, u64)) -> Result<(), Malformed> {
        let mut at = self.part(attributes)?;
        let each = usize::try_from(each_bytes)
            .ok()
            .and_then(|bytes| bytes.checked_sub(PLACE_BYTES))
            .filter(|bytes| *bytes >= SMALLEST_BYTES);
        let each = each.ok_or_else(|| at.malformed(format!("an event of {each_bytes} bytes is invalid")))?;
        while at.left() > 0 {
            let offset = at.offset();
            let number = self.event(at.take(each)?, offset)?;
            let place = (at.u64()?, at.u64()?);
            let numbers = self.part(place)?;
            self.numbers(numbers, number)?;
        }
        Ok(())
    }

    fn event(&mut self, bytes: &[u8], offset: u64) -> Result<EventId, Malformed> {
        let layout = Layout::parse(bytes, offset)?;
        let number = self.layouts.len();
        if number >= EVENTS_MAX {
            return Err(Malformed { what: format!("the file has more than {EVENTS_MAX} events"), offset });
        }
        self.layouts.push(layout);
        self.names.push(None);
        Ok(number as EventId)
    }

    /// The kernel's numbers of an event, one for each CPU or thread.
    fn numbers(&mut self, mut at: Cursor<'_>, event: EventId) -> Result<(), Malformed> {
        while at.left() > 0 {
            let offset = at.offset();
            let id = at.u64()?;
            // Without this check, overlapping event IDs could cost far more memory than the file has bytes.
            if self.by_id.insert(id, event).is_some_and(|before| before != event) {
                return Err(Malformed { what: "two events have the same number".to_owned(), offset });
            }
        }
        Ok(())
    }

    /// Gives events the names that the file has. Events without a name in the file get the kernel's name.
    fn name_events(&mut self) {
        let names = &self.features.event_names;
        for (number, (name, layout)) in self.names.iter_mut().zip(&self.layouts).enumerate() {
            let own =
                || names.get(number).filter(|name| !name.is_empty() && names.len() == self.layouts.len()).cloned();
            let of_kernel = || layout.name().map(str::to_owned);
            *name = name.take().or_else(own).or_else(of_kernel);
        }
    }

    /// The whole recording.
    ///
    /// # Errors
    /// If a record is invalid. The error has the record's position.
    pub fn recording(&self, unwind: &mut dyn Unwind) -> Result<Recording, Malformed> {
        let events = self.names.iter().zip(&self.layouts).map(|(name, layout)| {
            let name = name.clone().unwrap_or_else(|| format!("event {}:{}", layout.kind, layout.config));
            Event { name, unit: if layout.is_clock() { Unit::Nanoseconds } else { Unit::Events } }
        });
        let mut converter = Converter::new(self.features.machine.clone(), events.collect(), unwind);
        converter.build_ids(self.features.build_ids.clone());
        for place in self.places(&mut converter)? {
            let Some(layout) = self.layouts.get(usize::from(place.event)) else { continue };
            let whole = self.bytes_of_records().get(place.at..).unwrap_or_default();
            let record = record::parse(whole, layout, place.at as u64).map_err(|wrong| self.in_records(wrong))?;
            converter.take(&record, place.event, layout);
        }
        Ok(converter.finish())
    }

    /// The positions of all records, sorted by time. In the file, only the records of a single CPU are in order.
    fn places(&self, converter: &mut Converter<'_>) -> Result<Vec<Place>, Malformed> {
        let records = self.unpacked.as_ref().map_or(self.data, |unpacked| Cursor::new(&unpacked.bytes, 0));
        let mut walk = Walk::over(records);
        let mut places = Vec::new();
        let mut latest_ns = 0;
        loop {
            let piece = match walk.next() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                // perf flushes its compressor once per record, so data that is still in the compressor at the end is lost.
                Err(malformed) if self.end == End::Undeclared || self.unpacked.is_some() && walk.is_cut_off() => {
                    converter.caveat(RecordingCaveat::EndMissing { why: malformed.to_string() });
                    break;
                }
                Err(malformed) => return Err(self.in_records(malformed)),
            };
            if is_packed(piece.head) {
                let what = "a compressed record in a file without the feature for compression".to_owned();
                return Err(self.in_records(Malformed { what, offset: piece.offset }));
            }
            let Some((event, layout)) = self.event_of(&piece) else {
                converter.odd();
                continue;
            };
            let record = record::parse(piece.whole, layout, piece.offset).map_err(|wrong| self.in_records(wrong))?;
            if matches!(record.what, What::Other(_)) {
                continue;
            }
            // A record without a time is reported by its position.
            let at_ns = if layout.says_when(piece.head.kind) { record.id.at_ns } else { latest_ns };
            latest_ns = latest_ns.max(at_ns);
            places.push(Place { at_ns, at: piece.offset as usize, event });
        }
        if let Some(caveat) = self.unpacked.as_ref().and_then(|unpacked| unpacked.caveat.as_ref()) {
            converter.caveat(RecordingCaveat::EndMissing { why: caveat.clone() });
        }
        if self.end == End::Undeclared && self.is_of_disk() {
            converter.caveat(RecordingCaveat::Unfinished);
        }
        places.sort_by_key(|place| place.at_ns);
        Ok(places)
    }

    /// The bytes to which the positions of records refer.
    fn bytes_of_records(&self) -> &[u8] {
        self.unpacked.as_ref().map_or(self.bytes, |unpacked| &unpacked.bytes)
    }

    /// Adds the position to an error in a record. Compressed records have no position in the file.
    fn in_records(&self, malformed: Malformed) -> Malformed {
        match self.unpacked {
            None => malformed,
            Some(_) => Malformed { what: format!("{} (of its decompressed records)", malformed.what), ..malformed },
        }
    }

    fn is_of_disk(&self) -> bool {
        self.bytes.get(8..16).is_some_and(|size| size == FILE_HEAD_BYTES.to_ne_bytes())
    }

    /// The event of a record. If layouts differ, the event ID is at the same position in all layouts.
    /// None for a sample of an unknown event.
    fn event_of(&self, piece: &Piece<'_>) -> Option<(EventId, &Layout)> {
        let first = self.layouts.first().map(|layout| (0, layout));
        if self.layouts.len() == 1 || piece.head.kind >= kind::FIRST_OF_USER {
            return first;
        }
        let is_sample = piece.head.kind == kind::SAMPLE;
        let word = |at: usize| Some(u64::from_ne_bytes(piece.whole.get(at..at.checked_add(8)?)?.try_into().ok()?));
        let id = if is_sample {
            self.ids.in_sample.and_then(|words| word(HEAD_BYTES + words * 8))
        } else {
            self.ids.from_end.and_then(|words| piece.whole.len().checked_sub(words * 8)).and_then(word)
        };
        // Records that perf itself wrote have ID 0. They count as records of the first event.
        let event = id.filter(|id| *id != 0).map(|id| self.by_id.get(&id).copied());
        match event {
            Some(Some(event)) => self.layouts.get(usize::from(event)).map(|layout| (event, layout)),
            Some(None) if is_sample => None,
            _ => first,
        }
    }
}

impl Ids {
    fn from_layouts(layouts: &[Layout]) -> Ids {
        let same = |of: fn(&Layout) -> Option<usize>| {
            let first = layouts.first().and_then(of)?;
            layouts.iter().all(|layout| of(layout) == Some(first)).then_some(first)
        };
        Ids { in_sample: same(Layout::id_word), from_end: same(Layout::id_word_from_end) }
    }
}
