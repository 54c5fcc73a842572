//! `Scopes`: what `evenkeel-rt` recorded of a server's scopes. They are read from JSON of `evenkeel-rt` (Chrome's trace event format).

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use evenkeel_hostfs::json_words;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::perf::bytes::Malformed;

/// The maximum number of names. `evenkeel-rt` has at most 4,096 names and 256 threads, but a file may be from several servers.
const NAMES_MAX: usize = 65_536;
const THREADS_MAX: usize = 4_096;
/// A longer name counts as an error.
const NAME_BYTES_MAX: usize = 4_096;
/// The name of `evenkeel-rt`'s clock in the file.
const MONOTONIC: &str = "CLOCK_MONOTONIC";

/// Scopes, as they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    /// The names of scopes, each stored once.
    pub names: Vec<String>,
    /// The scopes of each thread.
    pub threads: Vec<ScopeThread>,
    /// The number of events of other kinds, which are ignored.
    pub other_events: u64,
    /// Whether the file says that its times are of the monotonic clock.
    pub is_monotonic: bool,
}

/// A thread that recorded scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeThread {
    /// The process of the thread.
    pub pid: u64,
    /// The name of the thread, or empty if the file has none.
    pub name: String,
    /// The kernel's number of the thread, if the file has this number.
    pub tid: Option<u32>,
    /// The number of older scopes that were overwritten before they were read.
    pub overwritten: u64,
    /// The scopes in the order in which the thread left them: an inner scope before its outer scope.
    pub scopes: Vec<Scope>,
}

/// One pass through a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The scope's name, as an index of [`Scopes::names`].
    pub name: u32,
    /// When the thread entered the scope, in nanoseconds.
    pub start_ns: u64,
    /// How long the scope took, in nanoseconds.
    pub length_ns: u64,
    /// Whether the thread was switched out during the scope, if known.
    pub switched_out: Option<bool>,
}

impl Scope {
    /// When the thread left the scope.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }
}

/// Reads a whole file.
///
/// # Errors
/// If the file is not JSON, is not a trace, or has an impossible value. The error has the position.
pub fn parse(bytes: &[u8]) -> Result<Scopes, Malformed> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let scopes = Reader::deserialize(&mut reader).and_then(|read| reader.end().map(|()| read.scopes));
    scopes.map_err(|error| Malformed {
        what: json_words::in_line(&error),
        offset: offset(bytes, error.line(), error.column()),
    })
}

/// The offset of a line and column, which count from one.
fn offset(bytes: &[u8], line: usize, column: usize) -> u64 {
    let begins = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let begin = if line <= 1 { 0 } else { begins.take(line - 1).last().unwrap_or(0) };
    (begin + column.saturating_sub(1)).min(bytes.len()) as u64
}

/// One event. Fields of other kinds of events are ignored.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    ph: Cow<'a, str>,
    ts: Option<f64>,
    dur: Option<f64>,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(default)]
    args: Args,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Args {
    name: Option<String>,
    kernel_thread: Option<u32>,
    overwritten: u64,
    switched_out: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OtherData {
    clock: Option<String>,
}

/// Parses one event after another, so that memory holds only the scopes and not the events.
#[derive(Default)]
struct Reader {
    scopes: Scopes,
    names: HashMap<String, u32>,
    threads: HashMap<(u64, u64), usize>,
}

impl<'de> Deserialize<'de> for Reader {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Reader, D::Error> {
        from.deserialize_any(Trace)
    }
}

/// The whole document: an object that contains the events, or only the list of events.
struct Trace;

impl<'de> Visitor<'de> for Trace {
    type Value = Reader;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a trace: an object with traceEvents, or a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, events: A) -> Result<Reader, A::Error> {
        let mut reader = Reader::default();
        reader.take_all(events)?;
        Ok(reader)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Reader, A::Error> {
        let mut reader = Reader::default();
        let mut has_events = false;
        while let Some(field) = fields.next_key::<Cow<'_, str>>()? {
            match &*field {
                "traceEvents" => {
                    has_events = true;
                    fields.next_value_seed(Events(&mut reader))?;
                }
                "otherData" => {
                    let data: OtherData = fields.next_value()?;
                    reader.scopes.is_monotonic = data.clock.as_deref() == Some(MONOTONIC);
                }
                _ => {
                    fields.next_value::<serde::de::IgnoredAny>()?;
                }
            }
        }
        if !has_events {
            return Err(A::Error::custom("it has no traceEvents: these are not scopes of evenkeel-rt"));
        }
        Ok(reader)
    }
}

struct Events<'r>(&'r mut Reader);

impl<'de> serde::de::DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, events: A) -> Result<(), A::Error> {
        self.0.take_all(events)
    }
}

impl Reader {
    fn take_all<'de, A: SeqAccess<'de>>(&mut self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element::<Event<'de>>()? {
            self.take(event).map_err(A::Error::custom)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match &*event.ph {
            "X" => {
                let (start_ns, length_ns) = (time(event.ts, "start")?, time(event.dur, "duration")?);
                let name = self.name(&event.name)?;
                let scope = Scope { name, start_ns, length_ns, switched_out: event.args.switched_out };
                self.thread((event.pid, event.tid))?.scopes.push(scope);
            }
            "M" if event.name == "thread_name" => {
                let thread = self.thread((event.pid, event.tid))?;
                thread.name = event.args.name.unwrap_or_default();
                thread.tid = event.args.kernel_thread;
                thread.overwritten = event.args.overwritten;
            }
            _ => self.scopes.other_events += 1,
        }
        Ok(())
    }

    fn thread(&mut self, key: (u64, u64)) -> Result<&mut ScopeThread, String> {
        let threads = &mut self.scopes.threads;
        let at = match self.threads.get(&key) {
            Some(at) => *at,
            None if threads.len() >= THREADS_MAX => {
                return Err(format!("there are more than {THREADS_MAX} threads"));
            }
            None => {
                self.threads.insert(key, threads.len());
                threads.push(ScopeThread { pid: key.0, ..ScopeThread::default() });
                threads.len() - 1
            }
        };
        threads.get_mut(at).ok_or_else(|| "a thread is gone".to_owned())
    }

    fn name(&mut self, name: &str) -> Result<u32, String> {
        if let Some(number) = self.names.get(name) {
            return Ok(*number);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("a scope's name has {} bytes, more than the maximum of {NAME_BYTES_MAX}", name.len()));
        }
        let number = self.scopes.names.len();
        if number >= NAMES_MAX {
            return Err(format!("there are more than {NAMES_MAX} names of scopes"));
        }
        self.scopes.names.push(name.to_owned());
        self.names.insert(name.to_owned(), number as u32);
        Ok(number as u32)
    }
}

/// Microseconds to nanoseconds.
fn time(us: Option<f64>, what: &str) -> Result<u64, String> {
    let us = us.ok_or_else(|| format!("a scope has no {what}"))?;
    let ns = (us * 1e3).round();
    if !(0.0..=i64::MAX as f64).contains(&ns) {
        return Err(format!("the {what} of a scope is invalid: {us} us"));
    }
    Ok(ns as u64)
}
