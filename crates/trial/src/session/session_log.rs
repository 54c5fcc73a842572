//! `SessionLog`: the file of a session while it runs, pair by pair, one JSON object a line. After SIGKILL, a full disk or a lost terminal,
//! the measurements are still there, and can be reported or continued.

use std::path::Path;

use evenkeel_hostfs::user_file;
use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::design::Design;
use crate::error::InvalidLine;
use crate::log_file::{IfThere, LogFile, LogFileError, lines};
use crate::session::settled::SettleSeen;
use crate::session::{Dropped, Ended, NetworkPath, Record, Window};
use crate::titles::Titles;

/// The number of the format of a kept session of two arms, and of one with more: an evenkeel that knows but two shall say so.
const FORMAT: u32 = 1;
const FORMAT_OF_SEVERAL: u32 = 2;
/// The longest file that is read, in bytes: ten thousand pairs with everything that a workload measures.
const BYTES_MAX: u64 = 256 << 20;
/// What errors call it.
const SESSION: &str = "session";

/// What a session is, on the first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Head {
    /// The number of the format.
    pub format: u32,
    /// What is proved, as it was asked for; with more than two arms, of each knob the first that was.
    pub settings: Vec<String>,
    /// With more than two arms, the settings of each arm except A.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings_by_arm: Vec<Vec<String>>,
    /// What the report needs in words.
    pub titles: Titles,
    /// All that was decided beforehand.
    pub design: Design,
    /// What each arm does to the host.
    pub arms: Vec<Arm>,
    /// The knobs that are switched.
    pub knobs: Vec<String>,
    /// Which way the workload's packets go.
    pub network: NetworkPath,
    /// What else a resume needs; missing in sessions of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

/// The options that do not belong to the design.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asked {
    /// The workload's arguments and its command, as a shell reads them.
    pub workload: String,
    /// The folder that it was started in, where its name is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The folder of the report, from the root on, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

impl Head {
    /// A head in the format of this program.
    pub fn new(settings: Vec<String>, titles: Titles, design: Design, record: &Record) -> Head {
        let Record { arms, knobs, network, .. } = record.clone();
        let format = if arms.len() > 2 { FORMAT_OF_SEVERAL } else { FORMAT };
        Head { format, settings, settings_by_arm: Vec::new(), titles, design, arms, knobs, network, asked: None }
    }

    /// Why it can't be the head of a session, if it can't.
    fn impossible(&self) -> Option<String> {
        if let Err(error) = self.design.check_for(self.arms.len()) {
            return Some(error.to_string());
        }
        let named = self.titles.values.len();
        if named != self.arms.len() {
            return Some(format!("{named} arms are named, and {} were measured", self.arms.len()));
        }
        let (given, further) = (self.settings_by_arm.len(), self.arms.len() - 1);
        (given > 0 && given != further).then(|| format!("settings of {given} arms, and {further} were measured"))
    }
}

/// One line after the head.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// How long a switch is felt.
    Settle(SettleSeen),
    /// A pair of the A/A phase.
    Control(Vec<Window>),
    /// A pair or block that counts.
    Pair(Vec<Window>),
    /// A window that does not.
    Dropped(Dropped),
    /// How it ended; a session that is gone on with has several.
    Ended(Ended),
}

/// Where a session is kept; perhaps nowhere.
#[derive(Debug, Default)]
pub struct SessionWriter {
    file: Option<LogFile>,
    trouble: Option<String>,
}

impl SessionWriter {
    /// Keeps nothing.
    pub fn nowhere() -> SessionWriter {
        SessionWriter::default()
    }

    /// Keeps nothing, although it should have.
    pub fn failed(why: String) -> SessionWriter {
        SessionWriter { file: None, trouble: Some(why) }
    }

    /// Begins a file. What can't be written to it is a trouble of the session, and not its end.
    ///
    /// # Errors
    /// If it can't be made, or has something in it already.
    pub fn begin(path: &Path, head: &Head) -> Result<SessionWriter, LogFileError> {
        let failed = |why: &dyn ToString| LogFileError::io("store the session in", path, why.to_string());
        let file = LogFile::create(path, IfThere::Refuse).map_err(|error| failed(&error))?;
        let why = "the file is not empty; name another file, or continue it with `evenkeel prove resume FILE`";
        let mut keep = SessionWriter { file: Some(file.ok_or_else(|| failed(&why))?), trouble: None };
        keep.write(head);
        Ok(keep)
    }

    /// Goes on with a file that was read by [`read`], after its last whole line.
    ///
    /// # Errors
    /// If it can't be written to.
    pub fn go_on(path: &Path, kept: &SessionLog) -> Result<SessionWriter, LogFileError> {
        let failed = |error| LogFileError::io("continue the session in", path, error);
        let file = LogFile::open(path).map_err(failed)?;
        file.cut(kept.whole_bytes).map_err(failed)?;
        Ok(SessionWriter { file: Some(file), trouble: None })
    }

    /// The file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(LogFile::path)
    }

    /// The file, if all that was measured so far is in it: what can be reported from it later is then what is reported now.
    pub fn whole(&self) -> Option<&Path> {
        self.path().filter(|_| self.trouble.is_none())
    }

    pub(crate) fn note(&mut self, line: &Line) {
        self.write(line);
    }

    fn write(&mut self, line: &impl Serialize) {
        let Some(file) = self.file.as_mut().filter(|_| self.trouble.is_none()) else { return };
        if let Err(error) = file.add(line) {
            // Whatever of the line came through is the last of the file: a torn end is what a reader expects.
            let path = file.path().display();
            self.trouble = Some(format!("failed to store the whole session in {path}: {error}"));
        }
    }

    /// What went wrong, if something did. The file is then whole up to that moment.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Lets the disk have it.
    pub(crate) fn sync(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.trouble.is_none())
            && let Err(error) = file.sync()
        {
            let path = file.path().display();
            self.trouble = Some(format!("what was measured may not all be on disk in {path}: {error}"));
        }
    }
}

/// A session as it was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionLog {
    /// What it is.
    pub head: Head,
    /// What was seen until it ended or was cut off.
    pub record: Record,
    /// The bytes up to the end of its last whole line.
    whole_bytes: u64,
}

/// Reads a kept session. A line that was cut off at the end is left out.
///
/// # Errors
/// If it can't be read or is invalid.
pub fn read(path: &Path) -> Result<SessionLog, LogFileError> {
    let bytes = user_file::read(path, BYTES_MAX).map_err(std::io::Error::from);
    let bytes = bytes.map_err(|error| LogFileError::io("read the session", path, error))?;
    parse(&bytes).map_err(|wrong| LogFileError::unreadable(SESSION, path, wrong))
}

/// What was kept, from a file's bytes. Total: whatever they are, a session or the first line that is wrong, from 1, and why.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<SessionLog, InvalidLine> {
    let lines = lines::<Head>(bytes, &[FORMAT.into(), FORMAT_OF_SEVERAL.into()])?;
    let head = lines.head;
    if let Some(why) = head.impossible() {
        return Err(InvalidLine { line: 1, why });
    }
    let mut record = Record::new(&head.design, head.arms.clone(), head.knobs.clone(), head.network);
    for (at, line) in lines.records {
        let line = serde_json::from_slice(line).map_err(|error| InvalidLine::new(at, error))?;
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
            // Whatever ended it before, it went on.
            record.ended = Ended::CutOff;
        }
        Line::Dropped(dropped) => record.dropped.push(dropped),
        Line::Ended(ended) => record.ended = ended,
    }
    Ok(())
}
