//! The log of a search: one line of JSON for each window, so that an interrupted search can continue.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use evenkeel_fleet::capacity::{Limit, Window};
use evenkeel_hostfs::json_words;
use evenkeel_hostfs::user_file::UserFile;
use serde::{Deserialize, Serialize};

use crate::exit;
use crate::failure::Failure;
use crate::output_file;

/// The maximum size of the file. The record of a window takes a few hundred bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Identifies a search. A search with a different head cannot continue from these windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) format: u32,
    pub(super) workload: String,
    /// The settings that are compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) settings: Vec<String>,
    pub(super) limits: Vec<Limit>,
    pub(super) window_ms: u64,
    pub(super) seed: u64,
}

/// A log file that is open for writing.
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Creates a new file.
    pub(super) fn create(path: &Path, head: &Head) -> Result<Log, Failure> {
        output_file::is_free(path, false)?;
        let opened = OpenOptions::new().create_new(true).write(true).open(path);
        let file = opened.map_err(|error| failed("create", path, &error))?;
        let mut log = Log { path: path.to_owned(), file };
        log.line(head)?;
        Ok(log)
    }

    /// Reads the windows of a file, truncates an incomplete last line, and opens the file for further windows.
    pub(super) fn resume(path: &Path, head: &Head, sessions_max: u32) -> Result<(Log, Vec<Window>), Failure> {
        let wrong = |why: String| Failure::text(exit::WRONG_USE, format_args!("resume {}", path.display()), why);
        let opened = UserFile::open(path, FILE_BYTES_MAX);
        let opened = opened.map_err(|error| Failure::user_file(format_args!("read {}", path.display()), &error))?;
        let mut reader = BufReader::new(opened.into_reader());
        let (mut windows, mut whole_bytes, mut is_head) = (Vec::new(), 0, true);
        let mut line = String::new();
        loop {
            line.clear();
            let length = reader.read_line(&mut line).map_err(|error| failed("read", path, &error))?;
            if length == 0 || !line.ends_with('\n') {
                break;
            }
            if std::mem::replace(&mut is_head, false) {
                let found: Head = serde_json::from_str(&line)
                    .map_err(|error| wrong(format!("line 1: {}", json_words::in_line(&error))))?;
                let found = Head { seed: head.seed, ..found };
                if found != *head {
                    return Err(wrong(
                        "it is a search of another workload, of other settings, of other limits or of other windows"
                            .to_owned(),
                    )
                    .hint("give the same arguments as at first, or another --log"));
                }
            } else {
                let at = windows.len() + 2;
                let window: Window = serde_json::from_str(&line)
                    .map_err(|error| wrong(format!("line {at}: {}", json_words::in_line(&error))))?;
                let is_of_settings = !window.with_settings || !head.settings.is_empty();
                if !is_of_settings || !window.is_of(&head.limits, sessions_max) {
                    let why = format!("line {at}: {} sessions and {} values", window.sessions, window.worst.len());
                    return Err(wrong(why).hint(format!(
                        "this search has {} limits, and at most {sessions_max} sessions",
                        head.limits.len()
                    )));
                }
                windows.push(window);
            }
            whole_bytes += length as u64;
        }
        if is_head {
            return Err(wrong("it is empty".to_owned()));
        }
        let opened = OpenOptions::new().write(true).open(path);
        let mut file = opened.map_err(|error| failed("continue", path, &error))?;
        let cut = file.set_len(whole_bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(|error| failed("continue", path, &error))?;
        Ok((Log { path: path.to_owned(), file }, windows))
    }

    /// Adds a window.
    pub(super) fn add(&mut self, window: &Window) -> Result<(), Failure> {
        self.line(window)
    }

    fn line<T: Serialize>(&mut self, record: &T) -> Result<(), Failure> {
        let text = serde_json::to_string(record).map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
        // Use a single write: if the process is killed, only the last line can be incomplete.
        let written = self.file.write_all(format!("{text}\n").as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| failed("write", &self.path, &error))
    }
}

fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(exit::NOT_POSSIBLE, format_args!("{doing} {}", path.display()), error)
}
