//! What `demo` and `prove` leave behind: one object, written as `report.json` for programs and as `report.html` for people.

use std::path::{Path, PathBuf};

use evenkeel_host::{Advice, Facts};
use evenkeel_trial::Report;
use serde::Serialize;

use crate::exit;
use crate::failure::Failure;
use crate::show::json;

pub(crate) mod blocks;
mod chart;
mod html;

/// The whole story of one run.
#[derive(Serialize)]
pub(crate) struct Story {
    /// The version of this program.
    pub(crate) evenkeel: &'static str,
    /// How to repeat it.
    pub(crate) command: String,
    /// When it was taken, UTC.
    pub(crate) taken: String,
    /// What the machine is.
    pub(crate) facts: Facts,
    /// What would suit it.
    pub(crate) advice: Vec<Advice>,
    /// What was measured.
    pub(crate) trials: Vec<Told>,
    /// What could not be tried, and why.
    pub(crate) not_tried: Vec<NotTried>,
    /// Every setting that a knob names, before and after.
    pub(crate) settings: Vec<Kept>,
    /// Whether each of them reads the same as before.
    pub(crate) all_as_before: bool,
}

/// One trial of the story.
#[derive(Serialize)]
pub(crate) struct Told {
    /// The knob that was switched.
    pub(crate) knob: String,
    /// Whether both arms were the same, to see what the method says of nothing.
    pub(crate) control: bool,
    /// The verdict in one sentence.
    pub(crate) sentence: String,
    #[serde(flatten)]
    pub(crate) report: Report,
}

/// A knob that was not tried.
#[derive(Serialize)]
pub(crate) struct NotTried {
    pub(crate) knob: String,
    pub(crate) why: String,
}

/// A setting before and after the run; the text is absent where it can't be read.
#[derive(Serialize)]
pub(crate) struct Kept {
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
}

impl Story {
    pub(crate) fn new(command: String, facts: Facts, advice: Vec<Advice>) -> Story {
        Story {
            evenkeel: env!("CARGO_PKG_VERSION"),
            command,
            taken: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            facts,
            advice,
            trials: Vec::new(),
            not_tried: Vec::new(),
            settings: Vec::new(),
            all_as_before: true,
        }
    }

    /// Writes `report.html` and `report.json` into a folder, and returns their paths.
    pub(crate) fn write(&self, folder: &Path) -> Result<[PathBuf; 2], Failure> {
        let failed = |path: &Path, error| Failure::io(exit::NOT_POSSIBLE, format!("write {}", path.display()), &error);
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        let paths = ["report.html", "report.json"].map(|name| folder.join(name));
        let texts = [html::page(self).into_string(), json::answer(self)?];
        for (path, text) in paths.iter().zip(texts) {
            std::fs::write(path, text).map_err(|error| failed(path, error))?;
        }
        Ok(paths)
    }
}

/// A factor as a change for people: 0.48 is `52 % lower`, 1.5 is `50 % higher`.
pub(crate) fn as_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let digits = usize::from(percent.abs() < 9.95);
    if percent < 0.0 { format!("{:.digits$} % lower", -percent) } else { format!("{percent:.digits$} % higher") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_told_as_changes() {
        let told = [0.481, 1.5, 1.0, 0.9951, 1.0949].map(as_change);
        assert_eq!(told, ["52 % lower", "50 % higher", "0.0 % higher", "0.5 % lower", "9.5 % higher"]);
    }
}
