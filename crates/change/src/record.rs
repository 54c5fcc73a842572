//! One record of the journal and its line of text: `CRC32 JSON`, with the checksum in eight hexadecimal digits.
//!
//! A program skips and reports a kind of record that it does not know.
//! If an older program must not skip a record,
//! the record has a new format number, and the older program refuses that number.

use evenkeel_host::{Reading, Step};
use evenkeel_hostfs::Entry;
use serde::{Deserialize, Serialize};

use crate::outcome::{Kind, SideEffect, StepError};
use crate::owner::Owner;
use crate::persist_plan::{Content, Lasting};
use crate::undo_text::undo_commands;

/// The number in a record's `format`. Programs that wrote formats 1 and 2 did not number their records.
const FORMAT: u64 = 3;
const FORMATS: std::ops::RangeInclusive<u64> = 1..=FORMAT;

/// An event and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Record {
    pub(crate) format: u64,
    /// The record's number: one more than the previous record's. `None` in records of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
    /// Wall clock, in nanoseconds since 1970 UTC.
    pub(crate) at_ns: u64,
    #[serde(flatten)]
    pub(crate) event: Event,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A transaction starts. evenkeel has written nothing yet.
    Begin {
        txn: u64,
        kind: Kind,
        title: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot_id: Option<String>,
        steps: Vec<Step>,
        /// The settings that give the transaction, as `KNOB=VALUE`; empty in journals of the oldest version.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        settings: Vec<String>,
        /// What makes it persist.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasting: Option<Lasting>,
        /// When the transaction reverts itself unless the user confirms it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Until>,
        /// The trial or the cluster's goal that the transaction belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
        /// Whether the transaction changes a captured machine in memory, so that no real machine has these values.
        /// Older programs did not write this field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        captured: Option<bool>,
    },
    /// evenkeel is about to write a kernel file. The record contains the undo data.
    Intent(Intent),
    /// evenkeel is about to change a configuration file. The record contains the undo data.
    File(FileIntent),
    /// evenkeel is about to run a command. The record contains the command that undoes it.
    Command(CommandIntent),
    /// The write took effect.
    Done {
        txn: u64,
        step: usize,
        found: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        side_effects: Vec<SideEffect>,
    },
    /// Every step was applied or was already in force.
    Commit {
        txn: u64,
        already_so: Vec<usize>,
        /// The failed steps, if the job continues after a failed step.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missed: Vec<FailedStep>,
        /// The steps whose places have another owner too.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        owned: Vec<OwnedStep>,
    },
    /// Somebody confirmed it.
    Confirmed { txn: u64 },
    /// A step's files are restored, or no longer exist.
    Undone { txn: u64, step: usize },
    /// evenkeel rolled back the whole transaction after a failure.
    RolledBack {
        txn: u64,
        why: String,
        /// The failed step and its error, if a step failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<FailedStep>,
    },
    /// A person, or the end of a trial, reverted the whole transaction.
    Reverted { txn: u64 },
    /// The machine has rebooted since, so the kernel has lost all values of the transaction.
    EndedByReboot { txn: u64 },
    /// The number of closed transactions that this or an earlier compaction dropped.
    /// `txn` is the newest dropped transaction. This record is the first in the journal.
    Compacted { txn: u64, transactions: u64 },
}

/// A step whose place has another owner too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OwnedStep {
    /// The step's index in its plan, from 0.
    pub step: usize,
    /// The owner, and what to do about the owner's setting.
    pub by: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FailedStep {
    pub(crate) step: usize,
    #[serde(flatten)]
    pub(crate) error: StepError,
}

/// When a transaction reverts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Until {
    /// The time of the revert, on the clock that counts since boot, in nanoseconds.
    pub boottime_ns: u64,
    /// The time limit, in seconds.
    pub seconds: u64,
}

/// The data needed to restore a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct FileIntent {
    pub(crate) txn: u64,
    /// The file's index. Indices of files follow those of the steps.
    pub(crate) step: usize,
    pub(crate) path: String,
    /// The new content.
    #[serde(flatten)]
    pub(crate) content: Content,
    pub(crate) before: Entry,
    /// The folders that evenkeel must create for the file, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) folders: Vec<String>,
    /// The undo as a shell command, for a person without this program.
    pub(crate) undo: String,
}

/// What undoes a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct CommandIntent {
    pub(crate) txn: u64,
    /// The command's index. Indices of commands follow those of the files.
    pub(crate) step: usize,
    pub(crate) argv: Vec<String>,
    pub(crate) undo_argv: Vec<String>,
    pub(crate) undo: String,
}

/// The data needed to restore a file and its side effects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Intent {
    pub(crate) txn: u64,
    pub(crate) step: usize,
    pub(crate) knob: String,
    pub(crate) place: String,
    pub(crate) path: String,
    pub(crate) reading: Reading,
    /// The value to write; `None` if a trial writes several values in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wanted: Option<String>,
    pub(crate) before: String,
    /// The whole text, for people who want to see the original file.
    pub(crate) before_text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) side_effects: Vec<SideEffect>,
    /// The undo as a shell command, for a person without this program.
    pub(crate) undo: String,
    /// Whether the registers list the files of this change, so that other journals know of it.
    #[serde(default, rename = "registered", skip_serializing_if = "is_false")]
    pub(crate) is_registered: bool,
}

/// Whether a flag is false. serde then omits the field.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn is_false(is: &bool) -> bool {
    !*is
}

impl Intent {
    /// The files that the step changes: its own file, then the files that the kernel may change with it.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.path.as_str()).chain(self.side_effects.iter().map(|side| side.path.as_str()))
    }

    /// Adds the shell commands that restore the file.
    pub(crate) fn with_undo(mut self) -> Intent {
        self.undo = undo_commands(&self.path, self.reading, &self.before, &self.side_effects);
        self
    }
}

/// A valid line. Its kind may be one that only a newer program knows.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    Known(Box<Record>),
    Unknown { kind: String, seq: Option<u64> },
}

/// An invalid line.
#[derive(Debug, PartialEq)]
pub(crate) enum Bad {
    /// The checksum does not match: the line was truncated or changed.
    Checksum,
    /// The checksum matches, but the format number is not ours.
    Format(String),
    /// The checksum matches, but the content is not a valid record.
    Content(String),
}

/// The record's line, with its newline.
pub(crate) fn encode(seq: u64, at_ns: u64, event: &Event) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    struct RecordRef<'a> {
        format: u64,
        seq: u64,
        at_ns: u64,
        #[serde(flatten)]
        event: &'a Event,
    }
    Ok(sealed(&serde_json::to_string(&RecordRef { format: FORMAT, seq, at_ns, event })?))
}

/// The same record with another number, whatever its kind.
pub(crate) fn renumbered(line: &[u8], seq: u64) -> Option<Vec<u8>> {
    let mut value: serde_json::Value = serde_json::from_slice(checked(line)?).ok()?;
    let fields = value.as_object_mut()?;
    fields.insert("format".to_owned(), FORMAT.into());
    fields.insert("seq".to_owned(), seq.into());
    Some(sealed(&value.to_string()))
}

fn sealed(json: &str) -> Vec<u8> {
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
}

/// Reads a line, without its newline.
pub(crate) fn decode(line: &[u8]) -> Result<Line, Bad> {
    let json = checked(line).ok_or(Bad::Checksum)?;
    let content = |error: serde_json::Error| Bad::Content(error.to_string());
    let value: serde_json::Value = serde_json::from_slice(json).map_err(content)?;
    match value.get("format") {
        Some(format) if format.as_u64().is_some_and(|format| FORMATS.contains(&format)) => {}
        Some(format) => return Err(Bad::Format(format.to_string())),
        None => return Err(Bad::Content("it has no format number".to_owned())),
    }
    let Some(kind) = value.get("record").and_then(|kind| kind.as_str()) else {
        return Err(Bad::Content("it has no record kind".to_owned()));
    };
    if !KINDS.contains(&kind) {
        let seq = value.get("seq").and_then(serde_json::Value::as_u64);
        return Ok(Line::Unknown { kind: kind.chars().take(80).collect(), seq });
    }
    let record = serde_json::from_value(value).map_err(content)?;
    Ok(Line::Known(Box::new(record)))
}

/// The `record` of each [`Event`]. A test checks that the list is complete.
const KINDS: &[&str] = &[
    "begin",
    "intent",
    "file",
    "command",
    "done",
    "commit",
    "confirmed",
    "undone",
    "rolled-back",
    "reverted",
    "ended-by-reboot",
    "compacted",
];

impl Event {
    /// The transaction that the record belongs to.
    pub(crate) fn txn(&self) -> u64 {
        match self {
            Event::Intent(Intent { txn, .. })
            | Event::File(FileIntent { txn, .. })
            | Event::Command(CommandIntent { txn, .. })
            | Event::Confirmed { txn }
            | Event::Begin { txn, .. }
            | Event::Done { txn, .. }
            | Event::Commit { txn, .. }
            | Event::Undone { txn, .. }
            | Event::RolledBack { txn, .. }
            | Event::Reverted { txn }
            | Event::Compacted { txn, .. }
            | Event::EndedByReboot { txn } => *txn,
        }
    }

    /// Whether it records a restore.
    pub(crate) fn is_of_undoing(&self) -> bool {
        matches!(
            self,
            Event::Undone { .. } | Event::RolledBack { .. } | Event::Reverted { .. } | Event::EndedByReboot { .. }
        )
    }
}

/// The JSON of a line; `None` if the checksum does not match.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let (digits, json) = (line.get(..8)?, line.get(9..)?);
    let spelled = digits.iter().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(digit));
    let sum = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (spelled && line[8] == b' ' && crc32fast::hash(json) == sum).then_some(json)
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::Errno;
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn intent() -> Intent {
        let side = SideEffect { path: "/proc/sys/vm/min_free_kbytes".into(), before: "67584".into(), after: None };
        Intent {
            txn: 1,
            step: 0,
            knob: "thp.enabled".into(),
            place: "it's here".into(),
            path: "/sys/kernel/mm/transparent_hugepage/enabled".into(),
            reading: Reading::ChosenWord,
            wanted: Some("never".into()),
            before: "madvise".into(),
            before_text: "always [madvise] never\n".into(),
            side_effects: vec![side],
            undo: String::new(),
            is_registered: false,
        }
        .with_undo()
    }

    fn begin(until: Option<Until>) -> Event {
        let boot_id = Some("b".into());
        let (title, steps, settings) = ("t".into(), vec![], vec![]);
        Event::Begin {
            txn: 1,
            kind: Kind::Apply,
            title,
            boot_id,
            steps,
            settings,
            lasting: None,
            until,
            owner: None,
            captured: None,
        }
    }

    /// Records about persistence or confirmation only.
    fn lasting_events() -> Vec<Event> {
        let content = Content::Whole { text: "vm.swappiness = 1\n".into(), mode: 0o644 };
        let before = Entry::File { text: "was\n".into(), mode: 0o600 };
        let missed = vec![FailedStep { step: 1, error: StepError::Refused { errno: Errno::INVAL } }];
        vec![
            begin(Some(Until { boottime_ns: 5, seconds: 60 })),
            Event::File(FileIntent {
                txn: 1,
                step: 1,
                path: "/etc/x".into(),
                content,
                before,
                folders: vec!["/etc/y".into()],
                undo: "u".into(),
            }),
            Event::Command(CommandIntent {
                txn: 1,
                step: 2,
                argv: vec!["update-grub".into()],
                undo_argv: vec!["update-grub".into()],
                undo: "update-grub".into(),
            }),
            Event::Commit { txn: 1, already_so: vec![], missed, owned: vec![OwnedStep { step: 0, by: "o".into() }] },
            Event::Confirmed { txn: 1 },
        ]
    }

    fn every_event() -> Vec<Event> {
        let failed = Some(FailedStep { step: 1, error: StepError::Refused { errno: Errno::INVAL } });
        let side = SideEffect { path: "/p".into(), before: "1".into(), after: Some("2".into()) };
        vec![
            begin(None),
            Event::Intent(intent()),
            Event::Done { txn: 1, step: 0, found: "never".into(), side_effects: vec![side] },
            Event::Commit { txn: 1, already_so: vec![2], missed: vec![], owned: vec![] },
            Event::Undone { txn: 1, step: 0 },
            Event::RolledBack { txn: 1, why: "w".into(), failed },
            Event::Reverted { txn: 1 },
            Event::EndedByReboot { txn: 1 },
            Event::Compacted { txn: 9, transactions: 4 },
        ]
    }

    fn sealed(json: &str) -> Vec<u8> {
        let mut line = super::sealed(json);
        line.pop();
        line
    }

    /// Reads lines of older programs, which have no record numbers.
    fn read_of(lines: &str) -> Vec<Event> {
        let read = |line: &str| match decode(line.as_bytes()) {
            Ok(Line::Known(record)) if (record.seq, record.at_ns) == (None, 7) => record.event,
            other => panic!("{line}: {other:?}"),
        };
        lines.lines().map(read).collect()
    }

    /// Users have journals with lines in format 1.
    #[test]
    fn format_1_is_read() {
        let lines = r#"76e06f3d {"format":1,"at_ns":7,"record":"begin","txn":1,"kind":"apply","title":"t","boot_id":"b","steps":[]}
70c876a1 {"format":1,"at_ns":7,"record":"intent","txn":1,"step":0,"knob":"thp.enabled","place":"it's here","path":"/sys/kernel/mm/transparent_hugepage/enabled","reading":"chosen-word","wanted":"never","before":"madvise","before_text":"always [madvise] never\n","side_effects":[{"path":"/proc/sys/vm/min_free_kbytes","before":"67584"}],"undo":"printf '%s\\n' 'madvise' > '/sys/kernel/mm/transparent_hugepage/enabled'; printf '%s\\n' '67584' > '/proc/sys/vm/min_free_kbytes'"}
94adab3d {"format":1,"at_ns":7,"record":"done","txn":1,"step":0,"found":"never","side_effects":[{"path":"/p","before":"1","after":"2"}]}
c2c8fa7d {"format":1,"at_ns":7,"record":"commit","txn":1,"already_so":[2]}
7a4ce4ca {"format":1,"at_ns":7,"record":"undone","txn":1,"step":0}
e5727261 {"format":1,"at_ns":7,"record":"rolled-back","txn":1,"why":"w","failed":{"step":1,"outcome":"refused","errno":"EINVAL"}}
5b430892 {"format":1,"at_ns":7,"record":"reverted","txn":1}
2969ad99 {"format":1,"at_ns":7,"record":"ended-by-reboot","txn":1}"#;
        let mut events = every_event();
        events.pop();
        assert_eq!(read_of(lines), events);
    }

    /// Format 2 has files and confirmations.
    #[test]
    fn format_2_is_read() {
        let lines = r#"e5d589fc {"format":2,"at_ns":7,"record":"begin","txn":1,"kind":"apply","title":"t","boot_id":"b","steps":[],"until":{"boottime_ns":5,"seconds":60}}
3320dca5 {"format":2,"at_ns":7,"record":"file","txn":1,"step":1,"path":"/etc/x","content":"whole","text":"vm.swappiness = 1\n","mode":420,"before":{"entry":"file","text":"was\n","mode":384},"folders":["/etc/y"],"undo":"u"}
dd366580 {"format":2,"at_ns":7,"record":"command","txn":1,"step":2,"argv":["update-grub"],"undo_argv":["update-grub"],"undo":"update-grub"}
cc3e5837 {"format":2,"at_ns":7,"record":"commit","txn":1,"already_so":[],"missed":[{"step":1,"outcome":"refused","errno":"EINVAL"}],"owned":[{"step":0,"by":"o"}]}
9d5c79e9 {"format":2,"at_ns":7,"record":"confirmed","txn":1}"#;
        assert_eq!(read_of(lines), lasting_events());
    }

    /// The lines that this version writes. This format is released, so a change here would break existing journals.
    #[test]
    fn format_3_stays() {
        let events = [every_event(), lasting_events()].concat();
        let lines = (1..).zip(&events).map(|(seq, event)| String::from_utf8(encode(seq, 7, event).unwrap()).unwrap());
        expect![[r#"
            1920a5dc {"format":3,"seq":1,"at_ns":7,"record":"begin","txn":1,"kind":"apply","title":"t","boot_id":"b","steps":[]}
            2d6862fc {"format":3,"seq":2,"at_ns":7,"record":"intent","txn":1,"step":0,"knob":"thp.enabled","place":"it's here","path":"/sys/kernel/mm/transparent_hugepage/enabled","reading":"chosen-word","wanted":"never","before":"madvise","before_text":"always [madvise] never\n","side_effects":[{"path":"/proc/sys/vm/min_free_kbytes","before":"67584"}],"undo":"printf '%s\\n' 'madvise' > '/sys/kernel/mm/transparent_hugepage/enabled'; printf '%s\\n' '67584' > '/proc/sys/vm/min_free_kbytes'"}
            cebed031 {"format":3,"seq":3,"at_ns":7,"record":"done","txn":1,"step":0,"found":"never","side_effects":[{"path":"/p","before":"1","after":"2"}]}
            95683897 {"format":3,"seq":4,"at_ns":7,"record":"commit","txn":1,"already_so":[2]}
            a859ce50 {"format":3,"seq":5,"at_ns":7,"record":"undone","txn":1,"step":0}
            5609f145 {"format":3,"seq":6,"at_ns":7,"record":"rolled-back","txn":1,"why":"w","failed":{"step":1,"outcome":"refused","errno":"EINVAL"}}
            4d448f7e {"format":3,"seq":7,"at_ns":7,"record":"reverted","txn":1}
            11baf019 {"format":3,"seq":8,"at_ns":7,"record":"ended-by-reboot","txn":1}
            4fde1e22 {"format":3,"seq":9,"at_ns":7,"record":"compacted","txn":9,"transactions":4}
            bcf8c6e9 {"format":3,"seq":10,"at_ns":7,"record":"begin","txn":1,"kind":"apply","title":"t","boot_id":"b","steps":[],"until":{"boottime_ns":5,"seconds":60}}
            fb87184c {"format":3,"seq":11,"at_ns":7,"record":"file","txn":1,"step":1,"path":"/etc/x","content":"whole","text":"vm.swappiness = 1\n","mode":420,"before":{"entry":"file","text":"was\n","mode":384},"folders":["/etc/y"],"undo":"u"}
            e81806e0 {"format":3,"seq":12,"at_ns":7,"record":"command","txn":1,"step":2,"argv":["update-grub"],"undo_argv":["update-grub"],"undo":"update-grub"}
            4b33c2b2 {"format":3,"seq":13,"at_ns":7,"record":"commit","txn":1,"already_so":[],"missed":[{"step":1,"outcome":"refused","errno":"EINVAL"}],"owned":[{"step":0,"by":"o"}]}
            6fa97259 {"format":3,"seq":14,"at_ns":7,"record":"confirmed","txn":1}
        "#]].assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn another_number_leaves_all_else() {
        let newer = sealed(r#"{"format":1,"at_ns":7,"record":"drop-in","txn":1,"what":"unknown"}"#);
        let mut line = renumbered(&newer, 5).unwrap();
        line.pop();
        assert_eq!(decode(&line), Ok(Line::Unknown { kind: "drop-in".into(), seq: Some(5) }));
        for event in every_event() {
            let mut line = encode(1, 7, &event).unwrap();
            line.pop();
            let mut line = renumbered(&line, 9).unwrap();
            line.pop();
            let Ok(Line::Known(record)) = decode(&line) else { panic!("{event:?}") };
            assert_eq!(*record, Record { format: FORMAT, seq: Some(9), at_ns: 7, event });
        }
    }

    #[test]
    fn every_kind_survives_a_round_trip() {
        let mut kinds = std::collections::BTreeSet::new();
        for event in [every_event(), lasting_events()].concat() {
            let line = encode(3, 7, &event).unwrap();
            let Ok(Line::Known(record)) = decode(line.strip_suffix(b"\n").unwrap()) else { panic!("{event:?}") };
            kinds.insert(serde_json::to_value(&event).unwrap()["record"].as_str().unwrap().to_owned());
            assert_eq!(*record, Record { format: FORMAT, seq: Some(3), at_ns: 7, event });
        }
        assert!(kinds.iter().eq(KINDS.iter().copied().collect::<std::collections::BTreeSet<_>>()), "{kinds:?}");
    }

    #[test]
    fn invalid_records_are_refused_with_a_reason() {
        let bad = |line: &[u8]| decode(line).unwrap_err();
        assert_eq!(bad(b""), Bad::Checksum);
        assert_eq!(bad(b"00000000 {}"), Bad::Checksum);
        assert_eq!(bad(b"00000000\xc3\xa9"), Bad::Checksum);
        let whole = sealed(r#"{"format":1,"at_ns":0,"record":"reverted","txn":1}"#);
        assert!(decode(&whole).is_ok());
        assert_eq!(bad(&whole.to_ascii_uppercase()), Bad::Checksum);
        assert_eq!(bad(&sealed(r#"{"format":4,"record":"reverted","txn":1}"#)), Bad::Format("4".into()));
        assert_eq!(bad(&sealed(r#"{"format":"1"}"#)), Bad::Format("\"1\"".into()));
        assert!(matches!(bad(&sealed("[1]")), Bad::Content(_)));
        assert!(matches!(bad(&sealed(r#"{"format":1}"#)), Bad::Content(_)));
        assert!(matches!(bad(&sealed(r#"{"format":1,"at_ns":0,"record":"reverted"}"#)), Bad::Content(_)));
        assert!(matches!(bad(&sealed(&"[".repeat(100_000))), Bad::Content(_)));
        let newer = sealed(r#"{"format":1,"at_ns":0,"record":"drop-in","txn":1}"#);
        assert_eq!(decode(&newer), Ok(Line::Unknown { kind: "drop-in".into(), seq: None }));
        let more = sealed(r#"{"format":1,"at_ns":0,"record":"reverted","txn":1,"by":"a newer field"}"#);
        assert!(matches!(decode(&more), Ok(Line::Known(_))), "fields may be added");
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..64), json in "\\PC{0,64}") {
            let _ = decode(&line);
            let _ = decode(&sealed(&json));
        }

        #[test]
        fn no_flipped_bit_goes_unseen(at in 0_usize..4096, bit in 0_u32..8) {
            for event in every_event() {
                let mut line = encode(1, 7, &event).unwrap();
                line.pop();
                let at = at % line.len();
                line[at] ^= 1_u8 << bit;
                prop_assert_eq!(decode(&line), Err(Bad::Checksum));
            }
        }
    }
}
