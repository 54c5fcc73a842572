//! `SessionLog`: the file of a session while the session runs, pair by pair, one JSON object a line.
//! After SIGKILL, a full disk or a lost terminal, the measurements are still there.
//! A user can report or continue them.

use std::path::Path;

use evenkeel_hostfs::user_file;
use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::design::Design;
use crate::error::InvalidLine;
use crate::log_file::{IfThere, LogFile, LogFileError, lines, words};
use crate::session::settled::SettleSeen;
use crate::session::{Dropped, Ended, NetworkPath, Record, Window};
use crate::titles::Titles;

/// The format of a session of two arms.
/// A session of more arms has another number, because an evenkeel that knows only two arms must refuse such a session.
const FORMAT: u32 = 1;
const FORMAT_OF_SEVERAL: u32 = 2;
/// The maximum length of a file to read, in bytes. This is enough for ten thousand pairs with all values of a workload.
const BYTES_MAX: u64 = 256 << 20;
/// The log's name in errors.
const SESSION: &str = "session";

/// The first line: a description of the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Head {
    /// The number of the format.
    pub format: u32,
    /// The tested settings, as the user gave them. With more than two arms, the first setting of each knob.
    pub settings: Vec<String>,
    /// The settings of each arm except A. Empty unless there are more than two arms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings_by_arm: Vec<Vec<String>>,
    /// The texts for the report.
    pub titles: Titles,
    /// The design of the trial.
    pub design: Design,
    /// The arms: the level of each setting.
    pub arms: Vec<Arm>,
    /// The knobs that are switched, one for each setting.
    pub knobs: Vec<String>,
    /// Whether the workload's packets pass a network device.
    pub network: NetworkPath,
    /// Additional data for a resume. None in sessions of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

/// Options of the user that are not in the design.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asked {
    /// The arguments that name the workload, and its command, in shell syntax.
    pub workload: String,
    /// The working directory of the workload. None if its path is not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The absolute path of the report's folder. None unless the user requested a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

impl Head {
    /// A head in the format that this version writes.
    pub fn new(settings: Vec<String>, titles: Titles, design: Design, record: &Record) -> Head {
        let Record { arms, knobs, network, .. } = record.clone();
        let format = if arms.len() > 2 { FORMAT_OF_SEVERAL } else { FORMAT };
        Head { format, settings, settings_by_arm: Vec::new(), titles, design, arms, knobs, network, asked: None }
    }

    /// Why this is not a valid head of a session. None if the head is valid.
    fn impossible(&self) -> Option<String> {
        if let Err(error) = self.design.check_for(self.arms.len()) {
            return Some(error.to_string());
        }
        let named = self.titles.values.len();
        if named != self.arms.len() {
            return Some(format!("{named} arms are named, but {} were measured", self.arms.len()));
        }
        let (given, further) = (self.settings_by_arm.len(), self.arms.len() - 1);
        (given > 0 && given != further).then(|| format!("settings of {given} arms, but {further} were measured"))
    }
}

/// A line after the head.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// The settle time.
    Settle(SettleSeen),
    /// A pair of the A/A phase.
    Control(Vec<Window>),
    /// A counted pair or block.
    Pair(Vec<Window>),
    /// A dropped window.
    Dropped(Dropped),
    /// How the session ended. A session that was continued has several of these lines.
    Ended(Ended),
}

/// Writes a session's file, if there is one.
#[derive(Debug, Default)]
pub struct SessionWriter {
    file: Option<LogFile>,
    trouble: Option<String>,
}

impl SessionWriter {
    /// Stores nothing, because no file was requested.
    pub fn nowhere() -> SessionWriter {
        SessionWriter::default()
    }

    /// Stores nothing, because the requested file failed with this error.
    pub fn failed(why: String) -> SessionWriter {
        SessionWriter { file: None, trouble: Some(why) }
    }

    /// Creates a file. If a later write fails, the session reports the failure and continues.
    ///
    /// # Errors
    /// Fails if the file can't be created, or is not empty.
    pub fn begin(path: &Path, head: &Head) -> Result<SessionWriter, LogFileError> {
        let doing = "store the session in";
        let file = LogFile::create(path, IfThere::Refuse).map_err(|error| LogFileError::io(doing, path, &error))?;
        let why = "the file is not empty; name another file, or continue it with `evenkeel prove resume FILE`";
        let mut keep =
            SessionWriter { file: Some(file.ok_or_else(|| LogFileError::refused(doing, path, why))?), trouble: None };
        keep.write(head);
        Ok(keep)
    }

    /// Continues a file that [`read`] has read, after its last complete line.
    ///
    /// # Errors
    /// Fails if the file can't be written.
    pub fn go_on(path: &Path, kept: &SessionLog) -> Result<SessionWriter, LogFileError> {
        let failed = |error| LogFileError::io("continue the session in", path, &error);
        let file = LogFile::open(path).map_err(failed)?;
        file.cut(kept.whole_bytes).map_err(failed)?;
        Ok(SessionWriter { file: Some(file), trouble: None })
    }

    /// The path of the file. None if nothing is stored.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(LogFile::path)
    }

    /// The path of the file, if the file has all measurements so far. A later report from this file is the same as a report now.
    pub fn whole(&self) -> Option<&Path> {
        self.path().filter(|_| self.trouble.is_none())
    }

    pub(crate) fn note(&mut self, line: &Line) {
        self.write(line);
    }

    fn write(&mut self, line: &impl Serialize) {
        let Some(file) = self.file.as_mut().filter(|_| self.trouble.is_none()) else { return };
        if let Err(error) = file.add(line) {
            // The last line in the file may be incomplete. Readers expect that.
            let (path, error) = (file.path().display(), words(&error));
            self.trouble = Some(format!("failed to store the whole session in {path}: {error}"));
        }
    }

    /// The first error in writing, up to which the file is complete. None if there was no error.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Syncs the file to the disk.
    pub(crate) fn sync(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.trouble.is_none())
            && let Err(error) = file.sync()
        {
            let (path, error) = (file.path().display(), words(&error));
            self.trouble = Some(format!("the measurements in {path} may not all be on disk: {error}"));
        }
    }
}

/// A stored session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionLog {
    /// The first line of the session's log.
    pub head: Head,
    /// The measurements until the session ended or was killed.
    pub record: Record,
    /// The length of the file up to the end of its last complete line, in bytes.
    whole_bytes: u64,
}

/// Reads a stored session. An incomplete last line is left out.
///
/// # Errors
/// Fails if the file can't be read, or is invalid.
pub fn read(path: &Path) -> Result<SessionLog, LogFileError> {
    let bytes = user_file::read(path, BYTES_MAX).map_err(std::io::Error::from);
    let bytes = bytes.map_err(|error| LogFileError::io("read the session", path, &error))?;
    parse(&bytes).map_err(|wrong| LogFileError::unreadable(SESSION, path, wrong))
}

/// Parses a file's bytes. Any bytes give either a session or an error.
///
/// # Errors
/// Returns the number of the first invalid line, and why it is invalid.
pub fn parse(bytes: &[u8]) -> Result<SessionLog, InvalidLine> {
    let lines = lines::<Head>(bytes, &[FORMAT.into(), FORMAT_OF_SEVERAL.into()])?;
    let head = lines.head;
    if let Some(why) = head.impossible() {
        return Err(InvalidLine { line: 1, why });
    }
    let mut record = Record::new(&head.design, head.arms.clone(), head.knobs.clone(), head.network);
    for (at, line) in lines.records {
        let line = serde_json::from_slice(line).map_err(|error| InvalidLine::json(at, &error))?;
        take(&mut record, at, line)?;
    }
    Ok(SessionLog { head, record, whole_bytes: lines.whole_bytes })
}

fn take(record: &mut Record, at: usize, line: Line) -> Result<(), InvalidLine> {
    let arms = record.arms.len();
    let whole = |pair: &[Window], arms: usize| {
        let is_one = |nth: usize, window: &Window| {
            window.pair == pair[0].pair
                && (window.arm as usize) < arms
                && !pair[..nth].iter().any(|before| before.arm == window.arm)
        };
        match pair.len() >= 2 && pair.iter().enumerate().all(|(nth, window)| is_one(nth, window)) {
            true => Ok(()),
            false if arms == 2 => Err(InvalidLine::new(at, "a pair is a window of each arm")),
            false => Err(InvalidLine::new(at, "a block is two windows or more, each of another arm")),
        }
    };
    match line {
        Line::Settle(settle) => record.settle = settle,
        Line::Control(pair) => {
            whole(&pair, 2)?;
            record.control.extend(pair);
        }
        Line::Pair(pair) => {
            whole(&pair, arms)?;
            record.windows.extend(pair);
            // The session continued after this end, so the session did not end here.
            record.ended = Ended::CutOff;
        }
        Line::Dropped(dropped) => record.dropped.push(dropped),
        Line::Ended(ended) => record.ended = ended,
    }
    Ok(())
}
