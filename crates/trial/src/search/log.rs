//! `Log`: the windows of a search on disk, a line of JSON each, from which it goes on after a kill.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use evenkeel_hostfs::user_file;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Seen;
use super::design::SearchDesign;
use crate::arm::Arm;
use crate::error::InvalidLine;

/// The number in the file's `format`.
const FORMAT: u64 = 1;
/// The longest log that is read, in bytes: hundreds of thousands of windows.
const LOG_BYTES_MAX: u64 = 512 << 20;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format's number.
    pub format: u64,
    /// The version of the program that wrote it.
    pub evenkeel: String,
    /// What was decided before.
    pub design: SearchDesign,
    /// What the caller needs to go on: the workload, and where the answer goes.
    pub context: Value,
}

impl Header {
    /// That of a new search.
    pub fn new(design: SearchDesign, context: Value) -> Header {
        Header { format: FORMAT, evenkeel: env!("CARGO_PKG_VERSION").to_owned(), design, context }
    }
}

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What was on.
    pub arm: Arm,
    /// What came of it.
    pub seen: Seen,
    /// How long it took, switching included, in milliseconds.
    pub took_ms: u64,
}

/// A log that can't be written or read. Reads well after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file.
    #[error("{tried} the search's log {}: {why}", path.display())]
    File {
        /// What was tried.
        tried: &'static str,
        /// Its path.
        path: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// Its text.
    #[error("read the search's log {}, line {line}: {why}", path.display())]
    Text {
        /// Its path.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// The windows of a search, in order.
#[derive(Debug, Default)]
pub struct Log {
    entries: Vec<Entry>,
    file: Option<(PathBuf, File)>,
}

impl Log {
    /// One that is kept in memory alone.
    pub fn in_memory(entries: Vec<Entry>) -> Log {
        Log { entries, file: None }
    }

    /// A new one on disk, in the place of whatever is there, for nobody else to read.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn create(path: &Path, header: &Header) -> Result<Log, LogError> {
        let failed = |why| LogError::File { tried: "write", path: path.to_owned(), why };
        // One that is there may be open to others: its mode would stay.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let line = serde_json::to_string(header).map_err(|error| failed(error.into()))? + "\n";
        file.write_all(line.as_bytes()).map_err(failed)?;
        Ok(Log { entries: Vec::new(), file: Some((path.to_owned(), file)) })
    }

    /// One that was begun before, to go on with. A last line that was cut off by a kill is taken away.
    ///
    /// # Errors
    /// If it can't be read, or is none.
    pub fn open(path: &Path) -> Result<(Header, Log), LogError> {
        let failed = |why| LogError::File { tried: "read", path: path.to_owned(), why };
        let file = user_file::open_to_append(path).map_err(|error| failed(error.into()))?;
        let bytes = user_file::read(path, LOG_BYTES_MAX).map_err(|error| failed(error.into()))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let text = String::from_utf8_lossy(&bytes[..whole]);
        let (header, entries) = parse_log(&text).map_err(|InvalidLine { line, why }| LogError::Text {
            path: path.to_owned(),
            line,
            why,
        })?;
        file.set_len(whole as u64).map_err(failed)?;
        Ok((header, Log { entries, file: Some((path.to_owned(), file)) }))
    }

    /// Its windows.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Takes the next window, and returns it as it will be read again: numbers may lose their last bit on the way, and a search
    /// that goes on has to decide as the first did. It is not synced: that would disturb the windows to come, and only a
    /// machine that loses its power loses what was not.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn add(&mut self, mut entry: Entry) -> Result<Entry, LogError> {
        if let Some((path, file)) = &mut self.file {
            let failed = |why| LogError::File { tried: "write", path: path.clone(), why };
            let line = serde_json::to_string(&entry).map_err(|error| failed(error.into()))?;
            entry = serde_json::from_str(&line).map_err(|error| failed(error.into()))?;
            file.write_all((line + "\n").as_bytes()).map_err(failed)?;
        }
        self.entries.push(entry.clone());
        Ok(entry)
    }
}

/// The whole lines of a log.
fn parse_log(text: &str) -> Result<(Header, Vec<Entry>), InvalidLine> {
    let wrong = |line: usize, error: serde_json::Error| InvalidLine::new(line, error);
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (_, first) = lines.next().ok_or_else(|| InvalidLine::new(1, "it is empty"))?;
    let header: Value = serde_json::from_str(first).map_err(|error| wrong(1, error))?;
    match header.get("format").and_then(Value::as_u64) {
        Some(FORMAT) => {}
        Some(other) => return Err(InvalidLine::new(1, format_args!("format {other} is not known to this evenkeel"))),
        None => return Err(InvalidLine::new(1, "it is no log of a search")),
    }
    let header: Header = serde_json::from_value(header).map_err(|error| wrong(1, error))?;
    let knobs = header.design.candidates.len();
    let mut entries = Vec::new();
    for (at, line) in lines {
        let entry: Entry = serde_json::from_str(line).map_err(|error| wrong(at, error))?;
        if entry.arm.0.len() != knobs {
            let why = format!("{} knobs where the search has {knobs}", entry.arm.0.len());
            return Err(InvalidLine { line: at, why });
        }
        entries.push(entry);
    }
    Ok((header, entries))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use evenkeel_workload::{Metric, Sample};
    use proptest::prelude::*;

    use super::*;
    use crate::search::{Budget, Candidate};

    const METRIC: Metric = Metric::us("x_us", "x");

    fn header() -> Header {
        let candidates = vec![Candidate::plain("vm.swappiness=10"), Candidate::plain("thp.enabled=never")];
        let design = SearchDesign::new(candidates, METRIC, Budget { windows: 100, time_ms: None }, 7);
        Header::new(design, serde_json::json!({"workload": "mock"}))
    }

    fn entry(value: f64) -> Entry {
        let sample = Sample::from([("x_us".to_owned(), value)]);
        Entry { arm: Arm::planned(2), seen: Seen::Measured { value, sample, conditions: None }, took_ms: 3 }
    }

    #[test]
    fn a_log_cut_anywhere_is_read_up_to_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = Log::create(&path, &header()).unwrap();
        for value in [0.1, 1.0 / 3.0, 1e-9] {
            log.add(entry(value)).unwrap();
        }
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in (first..=whole.len()).step_by(7) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            let (read, mut log) = Log::open(&path).unwrap();
            assert_eq!((read, log.entries().len()), (header(), lines - 1), "cut at {cut}");
            log.add(entry(2.0)).unwrap();
            let (_, again) = Log::open(&path).unwrap();
            assert_eq!(again.entries().last(), Some(&entry(2.0)));
        }
    }

    #[test]
    fn a_new_one_is_nobody_elses_to_read_whatever_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        Log::create(&path, &header()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Log::open(&path).unwrap().0, header());
    }

    #[test]
    fn what_is_no_log_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let good = serde_json::to_string(&header()).unwrap();
        let table = [
            (String::new(), "line 1: it is empty"),
            ("no json\n".to_owned(), "line 1: expected"),
            ("{}\n".to_owned(), "line 1: it is no log of a search"),
            (good.replacen("\"format\":1", "\"format\":9", 1) + "\n", "format 9 is not known"),
            (
                good.clone() + "\n{\"arm\":[\"as-it-was\"],\"seen\":{\"dropped\":{\"why\":\"x\"}},\"took_ms\":1}\n",
                "1 knobs where the search has 2",
            ),
            (good + "\n17\n", "line 2:"),
        ];
        for (text, expected) in table {
            std::fs::write(&path, text).unwrap();
            let message = Log::open(&path).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        assert!(Log::open(&folder.path().join("none")).unwrap_err().to_string().starts_with("read the search's log"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, lines in prop::collection::vec(".{0,40}", 0..5)) {
            let _ = parse_log(&text);
            let _ = parse_log(&(serde_json::to_string(&header()).unwrap() + "\n" + &lines.join("\n")));
        }
    }
}
