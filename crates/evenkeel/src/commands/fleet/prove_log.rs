//! The log of a trial over a fleet. Each record is one line, and is on disk before the trial continues.
//! The seed determines the random order, so the log is enough to continue the trial.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use evenkeel_fleet::switchback::Numbers;
use evenkeel_hostfs::{json_words, user_file};
use serde::{Deserialize, Serialize};

use crate::exit;
use crate::failure::Failure;
use crate::output_file;

const FORMAT: u32 = 1;
/// The maximum size of a log, in bytes. A trial with 2,000 hosts and 144 blocks takes 10 MB.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(super) enum Record {
    /// The trial begins.
    Begin(Begin),
    /// The numbers of a block before the trial, in which no node has the goal.
    Before {
        /// The numbers, by node.
        numbers: Numbers,
    },
    /// The numbers of a block of the trial.
    Block {
        /// The numbers, by node.
        numbers: Numbers,
    },
    /// The guard ended the goal on a host. The pair of this host leaves the trial.
    Stopped {
        /// The host.
        host: String,
    },
    /// The trial is over, and evenkeel asked every node to revert the goal.
    End {
        /// Why the trial ended.
        why: String,
    },
}

/// Identifies a trial. A trial cannot continue this log if it differs in one of these fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Begin {
    pub(super) format: u32,
    /// The trial's id, which the goal's annotation names.
    pub(super) trial: String,
    pub(super) goal: String,
    pub(super) generation: i64,
    /// The goal's uid. Logs of the first versions have no uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    pub(super) nodes: Vec<String>,
    pub(super) metric: String,
    /// The query that returns hosts on which the goal must end at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) guard: Option<String>,
    pub(super) better: evenkeel_stats::Direction,
    pub(super) block_ms: u64,
    pub(super) wash_out_ms: u64,
    pub(super) blocks_before: u32,
    pub(super) smallest_effect_ratio: f64,
    pub(super) seed: u64,
}

impl Begin {
    pub(super) fn format() -> u32 {
        FORMAT
    }

    /// What the trial compares.
    pub(super) fn identity(&self) -> Identity {
        Identity { generation: self.generation, uid: self.uid.clone() }
    }
}

/// Distinguishes a goal from a later goal of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The generation, which changes with the goal's content.
    pub(super) generation: i64,
    /// The uid of a HostGoal; empty for other goals and in the first logs.
    pub(super) uid: String,
}

/// A log that is being written.
pub(super) struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Creates a log. Does not overwrite an existing file of this name.
    pub(super) fn create(path: &Path, begin: &Begin) -> Result<Log, Failure> {
        let opened = OpenOptions::new().append(true).create_new(true).open(path);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let cause = "the file is there already";
                Failure::text(exit::WRONG_USE, format_args!("begin the log {}", path.display()), cause)
                    .hint("--continue goes on with its trial; --log FILE names another")
            }
            _ => Failure::io(exit::WRONG_USE, format_args!("begin the log {}", path.display()), &error),
        })?;
        lock(path, &file)?;
        let mut log = Log { path: path.to_owned(), file };
        log.add(&Record::Begin(begin.clone()))?;
        Ok(log)
    }

    /// Opens the log of an earlier run, and returns its records. Removes an incomplete last line.
    pub(super) fn open(path: &Path) -> Result<(Log, Begin, Vec<Record>), Failure> {
        let tried = format!("read the log {}", path.display());
        let cut = |error| Failure::io(exit::WRONG_USE, &tried, &error);
        let read = || user_file::read_text(path, LOG_BYTES_MAX).map_err(|error| Failure::user_file(&tried, &error));
        // The first read refuses a path that is not a file.
        // The second read also has the records that another evenkeel added before the lock.
        read()?;
        let file = OpenOptions::new().append(true).open(path).map_err(cut)?;
        lock(path, &file)?;
        let text = read()?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let wrong = |why: String| Failure::text(exit::WRONG_USE, &tried, why);
        let mut records = Vec::new();
        for (index, line) in text[..whole].lines().enumerate() {
            let record = serde_json::from_str(line)
                .map_err(|error| wrong(format!("line {}: {}", index + 1, json_words::in_line(&error))))?;
            records.push(record);
        }
        let begin = match records.first() {
            Some(Record::Begin(begin)) if begin.format == FORMAT => begin.clone(),
            Some(Record::Begin(begin)) => {
                return Err(wrong(format!("it has format {}, and this program reads {FORMAT}", begin.format)));
            }
            _ => return Err(wrong("it is not a log of a trial over a fleet".to_owned())),
        };
        records.remove(0);
        file.set_len(whole as u64).map_err(cut)?;
        Ok((Log { path: path.to_owned(), file }, begin, records))
    }

    /// Adds a record, and waits until it is on disk.
    pub(super) fn add(&mut self, record: &Record) -> Result<(), Failure> {
        let written = serde_json::to_string(record).map_err(io::Error::other).and_then(|line| {
            self.file.write_all(format!("{line}\n").as_bytes())?;
            self.file.sync_data()
        });
        written.map_err(|error| output_file::failure(&self.path, &error))
    }
}

/// Locks the log. Two commands that continue the same trial would switch its nodes against each other.
fn lock(path: &Path, file: &File) -> Result<(), Failure> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let cause = "another evenkeel goes on with its trial";
            Err(Failure::text(exit::WRONG_USE, format_args!("lock the log {}", path.display()), cause)
                .hint("wait until it ends, or stop it"))
        }
        // On a file system without locks, the lock cannot prevent a second command.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin() -> Begin {
        Begin {
            format: FORMAT,
            trial: "0123".to_owned(),
            goal: "steady".to_owned(),
            generation: 1,
            uid: "u".to_owned(),
            nodes: vec!["a".to_owned(), "b".to_owned()],
            metric: "x".to_owned(),
            guard: None,
            better: evenkeel_stats::Direction::Lower,
            block_ms: 1,
            wash_out_ms: 1,
            blocks_before: 1,
            smallest_effect_ratio: 0.02,
            seed: 1,
        }
    }

    #[test]
    fn a_log_that_was_cut_anywhere_is_read_up_to_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        let numbers = Numbers::from([("a".to_owned(), 1.5), ("b".to_owned(), 2.0)]);
        let records = [
            Record::Before { numbers: numbers.clone() },
            Record::Block { numbers },
            Record::Stopped { host: "a".to_owned() },
            Record::End { why: "x".to_owned() },
        ];
        let mut log = Log::create(&path, &begin()).unwrap();
        records.iter().for_each(|record| log.add(record).unwrap());
        assert!(Log::create(&path, &begin()).is_err(), "an older log is overwritten");
        let busy = Log::open(&path).err().unwrap().message();
        assert!(busy.ends_with("another evenkeel goes on with its trial"), "{busy}");
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        let head = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let Ok((mut log, read, found)) = Log::open(&path) else {
                assert!(cut < head, "{cut}");
                continue;
            };
            assert_eq!((read, found.as_slice()), (begin(), &records[..found.len()]), "{cut}");
            log.add(&records[3]).unwrap();
            drop(log);
            let (_, _, again) = Log::open(&path).unwrap();
            assert_eq!(again.len(), found.len() + 1, "{cut}");
        }
        std::fs::write(&path, "{\"record\":\"end\",\"why\":\"x\"}\n").unwrap();
        assert!(Log::open(&path).is_err());
    }
}
