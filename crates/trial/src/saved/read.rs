//! Reads a report from a file, and converts a fresh report to the same form.

use evenkeel_host::{Advice, Facts};
use evenkeel_hostfs::json_words;
use serde::Deserialize;
use serde_json::Value;

use super::{BYTES_MAX, FORMAT_MAX, RunReport, SavedError, upgrade};

impl RunReport {
    /// Reads a report in any format so far, as `--report` or `prove --json` wrote it.
    ///
    /// # Errors
    /// Fails if the text is longer than [`BYTES_MAX`], is not a report, has a later format, or has values that no run can have.
    pub fn parse(text: &str) -> Result<RunReport, SavedError> {
        #[derive(Deserialize)]
        struct Head {
            format: u64,
            trials: Option<serde::de::IgnoredAny>,
            verdict: Option<serde::de::IgnoredAny>,
        }
        if text.len() > BYTES_MAX {
            return Err(SavedError::TooLong);
        }
        let shape = |error: serde_json::Error| SavedError::Shape(json_words::plain(&error));
        let head: Head = serde_json::from_str(text).map_err(shape)?;
        if !(1..=FORMAT_MAX).contains(&head.format) {
            return Err(SavedError::Format(head.format));
        }
        let mut value: Value = serde_json::from_str(text).map_err(shape)?;
        if head.trials.is_none() {
            head.verdict.ok_or(SavedError::Other)?;
            value = serde_json::json!({ "trials": [value] });
        }
        let report = upgrade::read(value)?;
        report.validate()?;
        Ok(report)
    }
}

impl RunReport<Facts, Advice> {
    /// The report in the form in which a reader of its file gets it, with the facts and the advice as pages show them.
    ///
    /// # Errors
    /// Fails if the report has values that no run can have.
    pub fn as_read(&self) -> Result<RunReport, SavedError> {
        let shape = |error: serde_json::Error| SavedError::Shape(json_words::plain(&error));
        let report = RunReport {
            evenkeel: self.evenkeel.clone(),
            command: self.command.clone(),
            taken: self.taken.clone(),
            facts: serde_json::to_value(&self.facts).map_err(shape)?,
            capture: self.capture.clone(),
            advice: serde_json::to_value(&self.advice).and_then(serde_json::from_value).map_err(shape)?,
            trials: self.trials.clone(),
            choice: self.choice.clone(),
            not_tried: self.not_tried.clone(),
            settings: self.settings.clone(),
            all_as_before: self.all_as_before,
        };
        report.validate()?;
        Ok(report)
    }
}
