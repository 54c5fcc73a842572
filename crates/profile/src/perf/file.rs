//! `PerfFile`: a `perf.data` file taken apart: what it says of its machine, its events, and where its records are.

use std::collections::HashMap;

use super::bytes::{Cursor, Malformed};
use super::layout::{Layout, SMALLEST_BYTES};
use super::record::{self, HEAD_BYTES, Head, Record, What, kind};
use crate::convert::Converter;
use crate::recording::{Event, EventId, Machine, Recording, Unit};
use crate::unwind::Unwind;

const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");
/// The head of a file that was written to disk; one that was written to a pipe has sixteen bytes.
const FILE_HEAD_BYTES: u64 = 104;
/// More events than this are not told apart.
const EVENTS_MAX: usize = 4096;

/// A `perf.data` file.
#[derive(Debug)]
pub struct PerfFile<'a> {
    bytes: &'a [u8],
    machine: Machine,
    layouts: Vec<Layout>,
    names: Vec<String>,
    by_id: HashMap<u64, EventId>,
    data: (u64, u64),
}

impl<'a> PerfFile<'a> {
    /// Takes apart all but its records.
    ///
    /// # Errors
    /// If it is no such file, or one of its parts can't be, with the place.
    pub fn parse(bytes: &'a [u8]) -> Result<PerfFile<'a>, Malformed> {
        let mut at = Cursor::new(bytes, 0);
        let wrong = |what: &str, offset: u64| Malformed { what: what.to_owned(), offset };
        match at.u64().map_err(|_| wrong("this is no perf.data file: it has no head", 0))? {
            MAGIC => {}
            other if other == MAGIC.swap_bytes() => {
                return Err(wrong("it was written on a machine of the other byte order, which is not read here", 0));
            }
            _ => return Err(wrong("this is no perf.data file", 0)),
        }
        if at.u64()? != FILE_HEAD_BYTES {
            return Err(wrong("it was written to a pipe: that is not read yet", 8));
        }
        let attribute_bytes = at.u64()?;
        let (attributes, data, _types) = ((at.u64()?, at.u64()?), (at.u64()?, at.u64()?), (at.u64()?, at.u64()?));
        let mut file = PerfFile {
            bytes,
            machine: Machine::default(),
            layouts: Vec::new(),
            names: Vec::new(),
            by_id: HashMap::new(),
            data,
        };
        file.events(attribute_bytes, attributes)?;
        Ok(file)
    }

    fn part(&self, (offset, length): (u64, u64)) -> Result<Cursor<'a>, Malformed> {
        let start = usize::try_from(offset).ok();
        let end = offset.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let part = start.zip(end).and_then(|(start, end)| self.bytes.get(start..end));
        let what = || format!("a part of {length} bytes is said to be there, in a file of {}", self.bytes.len());
        Ok(Cursor::new(part.ok_or_else(|| Malformed { what: what(), offset })?, offset))
    }

    fn events(&mut self, each_bytes: u64, attributes: (u64, u64)) -> Result<(), Malformed> {
        let mut at = self.part(attributes)?;
        let each = usize::try_from(each_bytes)
            .ok()
            .and_then(|bytes| bytes.checked_sub(16))
            .filter(|bytes| *bytes >= SMALLEST_BYTES);
        let each = each.ok_or_else(|| at.malformed(format!("an event of {each_bytes} bytes can't be")))?;
        while at.left() > 0 && self.layouts.len() < EVENTS_MAX {
            let offset = at.offset();
            let layout = Layout::parse(at.take(each)?, offset)?;
            let number = self.layouts.len() as EventId;
            let mut ids = self.part((at.u64()?, at.u64()?))?;
            while ids.left() > 0 {
                self.by_id.insert(ids.u64()?, number);
            }
            self.names
                .push(layout.name().map_or_else(|| format!("event {}:{}", layout.kind, layout.config), str::to_owned));
            self.layouts.push(layout);
        }
        if self.layouts.is_empty() {
            return Err(at.malformed("it has no events"));
        }
        Ok(())
    }

    /// All that it recorded.
    ///
    /// # Errors
    /// If a record can't be, with its place.
    pub fn recording(&self, unwind: &mut dyn Unwind) -> Result<Recording, Malformed> {
        let events = self.names.iter().zip(&self.layouts).map(|(name, layout)| {
            let is_time = layout.kind == 1 && layout.config <= 1;
            Event { name: name.clone(), unit: if is_time { Unit::Nanoseconds } else { Unit::Events } }
        });
        let mut converter = Converter::new(self.machine.clone(), events.collect(), unwind);
        for (at_ns, at, event) in self.places()? {
            let _ = at_ns;
            let layout = &self.layouts[usize::from(event)];
            let record = record::parse(&self.bytes[at..], layout, at as u64)?;
            converter.take(&record, event, layout);
        }
        Ok(converter.finish())
    }

    /// When and where each record is, in the order of time, and of which event it is. Those of each CPU are in order, and not all of them.
    fn places(&self) -> Result<Vec<(u64, usize, EventId)>, Malformed> {
        let mut at = self.part(self.data)?;
        let mut places = Vec::new();
        while at.left() >= HEAD_BYTES {
            let (offset, rest) = (at.offset(), at);
            let head = Head::parse(&self.bytes[offset as usize..], offset)?;
            let whole = at
                .take(head.length)
                .map_err(|_| rest.malformed(format!("a record of {} bytes is cut off", head.length)))?;
            let event = self.event_of(whole, head);
            let record: Record<'_> = record::parse(whole, &self.layouts[usize::from(event)], offset)?;
            if !matches!(record.what, What::Other(_)) {
                places.push((record.id.at_ns, offset as usize, event));
            }
        }
        places.sort_by_key(|(at_ns, ..)| *at_ns);
        Ok(places)
    }

    /// The event of a record: where they differ, each says it at the same place.
    fn event_of(&self, whole: &[u8], head: Head) -> EventId {
        if self.layouts.len() == 1 || head.kind >= kind::FIRST_OF_USER {
            return 0;
        }
        let word = |at: usize| Some(u64::from_ne_bytes(whole.get(at..at + 8)?.try_into().ok()?));
        let id = if head.kind == kind::SAMPLE { word(HEAD_BYTES) } else { whole.len().checked_sub(8).and_then(word) };
        id.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0)
    }
}
