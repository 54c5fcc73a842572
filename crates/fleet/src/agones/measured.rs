//! Reads the need of a session and the capacity of a node from the saved answer of `evenkeel capacity --json`.
//! The file can come from anywhere, so its numbers are checked.

use serde::Deserialize;

use crate::sessions::Session;

/// The format of a saved answer.
const FORMAT: u32 = 1;
/// The maximum size of a saved answer, in bytes.
pub const CAPACITY_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of CPUs that a session or a machine may have.
const CPUS_MAX: f64 = 10_000.0;
const MEMORY_MIB_MAX: f64 = 1e9;

/// The measurements on a machine of the nodes' type.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What a session needs; none if only one number of sessions was tried.
    pub need: Option<Session>,
    /// The number of CPUs of the machine.
    pub cpus: f64,
    /// The highest number of sessions that is proven to hold the limits; none without such a proof.
    pub sessions: Option<u32>,
}

/// Why a saved answer cannot be used. The message continues a sentence that begins with "failed to read FILE: ".
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// The text is not an answer of `capacity`.
    #[error("it is not an answer of `evenkeel capacity --json`: {0}")]
    Text(serde_json::Error),
    /// A newer program wrote it.
    #[error("this evenkeel does not know format {0}; use the version that wrote it")]
    Format(u32),
    /// A number in the answer is out of range.
    #[error("{field} is {value}, which is out of range")]
    Range {
        /// The name of the number's field.
        field: &'static str,
        /// The value of the field.
        value: f64,
    },
}

#[derive(Deserialize)]
struct Saved {
    format: u32,
    machine: SavedMachine,
    found: SavedFound,
    need: Option<SavedNeed>,
}

#[derive(Deserialize)]
struct SavedMachine {
    cpus: f64,
}

#[derive(Deserialize)]
struct SavedFound {
    at_least: u32,
}

#[derive(Deserialize)]
struct SavedNeed {
    cpus: f64,
    memory_mib: Option<f64>,
}

/// Reads a saved answer.
///
/// # Errors
/// If the text is not such an answer, or a number is out of range.
pub fn read_measured(text: &str) -> Result<Measured, MeasuredError> {
    let saved: Saved = serde_json::from_str(text).map_err(MeasuredError::Text)?;
    if saved.format != FORMAT {
        return Err(MeasuredError::Format(saved.format));
    }
    let in_range = |field, value: f64, is_good: bool| match is_good {
        true => Ok(value),
        false => Err(MeasuredError::Range { field, value }),
    };
    let cpus = |field, value: f64| in_range(field, value, value > 0.0 && value <= CPUS_MAX);
    let need = saved.need.map(|need| {
        let memory_mib =
            need.memory_mib.map(|mib| in_range("need.memory_mib", mib, (0.0..=MEMORY_MIB_MAX).contains(&mib)));
        Ok(Session::new("session", cpus("need.cpus", need.cpus)?, memory_mib.transpose()?))
    });
    Ok(Measured {
        need: need.transpose()?,
        cpus: cpus("machine.cpus", saved.machine.cpus)?,
        sessions: Some(saved.found.at_least).filter(|sessions| *sessions > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_its_numbers_are_checked() {
        let text = |cpus: &str, at_least: &str, need: &str| {
            format!(
                r#"{{"format": 1, "machine": {{"cpus": {cpus}}}, "found": {{"at_least": {at_least}}}, "need": {need}}}"#
            )
        };
        let measured = read_measured(&text("4", "9", r#"{"cpus": 0.25, "memory_mib": null}"#)).unwrap();
        assert_eq!((measured.cpus, measured.sessions), (4.0, Some(9)));
        assert_eq!(measured.need.map(|need| (need.cpus, need.memory_mib, need.count)), Some((0.25, None, 1)));
        let unproven = read_measured(&text("4", "0", "null")).unwrap();
        assert_eq!((unproven.need, unproven.sessions), (None, None));
        for (wrong, why) in [
            ("{}".to_owned(), "it is not an answer"),
            ("[]".to_owned(), "it is not an answer"),
            (text("4", "-1", "null"), "it is not an answer"),
            (text("0", "1", "null"), "machine.cpus is 0"),
            (text("1e9", "1", "null"), "machine.cpus is 1000000000"),
            (text("4", "1", r#"{"cpus": -1}"#), "need.cpus is -1"),
            (text("4", "1", r#"{"cpus": 1, "memory_mib": 1e12}"#), "need.memory_mib is 1000000000000"),
            (text("4", "1", "null").replace("\"format\": 1", "\"format\": 2"), "does not know format 2"),
        ] {
            let error = read_measured(&wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
