//! `Log`: the windows of a search on disk, with a line of JSON for each window. A killed search continues from its log.

use std::path::Path;

use evenkeel_hostfs::user_file;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::WindowResult;
use super::design::SearchDesign;
use crate::arm::Arm;
use crate::error::InvalidLine;
use crate::log_file::{IfThere, LogFile, LogFileError, lines};

/// The value of `format` in the file.
const FORMAT: u64 = 1;
/// The maximum length of a log to read, in bytes. This is enough for hundreds of thousands of windows.
const LOG_BYTES_MAX: u64 = 512 << 20;
/// The log's name in errors.
const LOG: &str = "search's log";
const WRITE: &str = "write the search's log";
const READ: &str = "read the search's log";

/// The first line of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Header {
    /// The number of the format.
    pub format: u64,
    /// The version of the program that wrote the log.
    pub evenkeel: String,
    /// The design of the search.
    pub design: SearchDesign,
    /// Data of the caller for continuing the search: the workload, and where the answer goes.
    pub context: Value,
}

impl Header {
    /// The head of a new search.
    pub fn new(design: SearchDesign, context: Value) -> Header {
        Header { format: FORMAT, evenkeel: env!("CARGO_PKG_VERSION").to_owned(), design, context }
    }
}

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// The arm of the window.
    pub arm: Arm,
    /// The result of the window.
    pub seen: WindowResult,
    /// The duration of the window including the switch, in milliseconds.
    pub took_ms: u64,
}

/// The windows of a search, in order.
#[derive(Debug, Default)]
pub struct Log {
    entries: Vec<Entry>,
    file: Option<LogFile>,
}

impl Log {
    /// A log that is kept only in memory.
    pub fn in_memory(entries: Vec<Entry>) -> Log {
        Log { entries, file: None }
    }

    /// Creates a log on disk that only this user can read. Replaces an existing file.
    ///
    /// # Errors
    /// Fails if the file can't be written.
    pub fn create(path: &Path, header: &Header) -> Result<Log, LogFileError> {
        let failed = |error: &std::io::Error| LogFileError::io(WRITE, path, error);
        let file = LogFile::create(path, IfThere::Replace).map_err(|error| failed(&error))?;
        let mut file = file.ok_or_else(|| LogFileError::refused(WRITE, path, "another one has come in its place"))?;
        file.add(header).map_err(|error| failed(&error))?;
        Ok(Log { entries: Vec::new(), file: Some(file) })
    }

    /// Opens the log of an earlier run, to continue it. An incomplete last line is removed.
    ///
    /// # Errors
    /// Fails if the file can't be read, or is invalid.
    pub fn open(path: &Path) -> Result<(Header, Log), LogFileError> {
        let failed = |error: std::io::Error| LogFileError::io(READ, path, &error);
        // Open the file first. A file that can't be continued, such as a pipe, must not be read either.
        let file = LogFile::open(path).map_err(failed)?;
        let bytes = user_file::read(path, LOG_BYTES_MAX).map_err(|error| failed(error.into()))?;
        let (header, entries, whole_bytes) =
            parse_log(&bytes).map_err(|wrong| LogFileError::unreadable(LOG, path, wrong))?;
        file.cut(whole_bytes).map_err(failed)?;
        Ok((header, Log { entries, file: Some(file) }))
    }

    /// The windows of the log.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds the next window, and returns it in the form in which a reader of the file would get it.
    /// Numbers may lose their last bit in the file, and a continued search must decide like the first run.
    ///
    /// # Errors
    /// Fails if the file can't be written.
    pub fn add(&mut self, mut entry: Entry) -> Result<Entry, LogFileError> {
        if let Some(file) = &mut self.file {
            let added = file.add(&entry).and_then(|line| Ok(serde_json::from_str(&line)?));
            entry = added.map_err(|error| LogFileError::io(WRITE, file.path(), &error))?;
        }
        self.entries.push(entry.clone());
        Ok(entry)
    }
}

/// The complete lines of a log, and their length in bytes.
fn parse_log(bytes: &[u8]) -> Result<(Header, Vec<Entry>, u64), InvalidLine> {
    let lines = lines::<Header>(bytes, &[FORMAT])?;
    let knobs = lines.head.design.candidates.len();
    let entry = |(at, line): (usize, &[u8])| {
        let entry: Entry = serde_json::from_slice(line).map_err(|error| InvalidLine::json(at, &error))?;
        match entry.arm.0.len() {
            len if len == knobs => Ok(entry),
            len => Err(InvalidLine::new(at, format_args!("{len} knobs where the search has {knobs}"))),
        }
    };
    let entries = lines.records.into_iter().map(entry).collect::<Result<_, _>>()?;
    Ok((lines.head, entries, lines.whole_bytes))
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
        Entry { arm: Arm::planned(2), seen: WindowResult::Measured { value, sample, conditions: None }, took_ms: 3 }
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
    fn invalid_logs_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let good = serde_json::to_string(&header()).unwrap();
        let table = [
            (String::new(), "line 1: it is empty"),
            ("no json\n".to_owned(), "line 1: it is not JSON"),
            ("{}\n".to_owned(), "line 1: it has no field \"format\""),
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
            let _ = parse_log(text.as_bytes());
            let _ = parse_log((serde_json::to_string(&header()).unwrap() + "\n" + &lines.join("\n") + "\n").as_bytes());
        }
    }
}
