//! What `demo` and `prove` leave behind: one object, written as `report.json` for programs and as `report.html` for people.

use std::path::{Path, PathBuf};

use evenkeel_host::{Advice, Facts};
use evenkeel_trial::saved::Saved;
use evenkeel_trial::{Choice, Design, Report, Settle, Stop};
use serde::Serialize;

use crate::exit;
use crate::failure::Failure;
use crate::show::{escape, json};

pub(crate) mod across;
pub(crate) mod blocks;
pub(crate) mod boots;
mod chart;
pub(crate) mod choice;
pub(crate) mod counted;
mod html;
mod machine;
mod trial;
pub(crate) mod words;

pub(crate) use words::{Claim, as_change};

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
    /// The machine as `capture` writes it, where it was captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) capture: Option<String>,
    /// What would suit it.
    pub(crate) advice: Vec<Advice>,
    /// What was measured; of one session with several arms each of them.
    pub(crate) trials: Vec<Told>,
    /// Which of several arms, where there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) choice: Option<ToldChoice>,
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
    /// The sentences of the caveats, as answers had them before these had figures.
    pub(crate) doubts: Vec<String>,
}

/// All that one session tells: each arm beside A, and which of several.
#[derive(Serialize)]
pub(crate) struct Tolds {
    pub(crate) trials: Vec<Told>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) choice: Option<ToldChoice>,
    /// The file that has all of it, where one has: it can be told again from there.
    #[serde(skip)]
    pub(crate) kept_in: Option<PathBuf>,
}

/// Which of several arms.
#[derive(Serialize)]
pub(crate) struct ToldChoice {
    /// In one sentence.
    pub(crate) sentence: String,
    #[serde(flatten)]
    pub(crate) choice: Choice,
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
            capture: None,
            advice,
            trials: Vec::new(),
            choice: None,
            not_tried: Vec::new(),
            settings: Vec::new(),
            all_as_before: true,
        }
    }

    /// Writes `report.html` and `report.json` into a folder, and returns their paths.
    pub(crate) fn write(&self, folder: &Path) -> Result<[PathBuf; 2], Failure> {
        let json = json::answer_of_trial(self)?;
        let unread = |error| Failure::text(exit::NOT_POSSIBLE, "make report.html of report.json", error);
        let saved = Saved::parse(&json).map_err(unread)?;
        let page = html::page(&saved, &json).into_string();
        Ok([write_page(folder, "report.html", &page)?, write_page(folder, "report.json", &json)?])
    }
}

/// What was decided beforehand, as the options of `prove` that decide it again, whatever the defaults are by then.
pub(crate) fn design_again(design: &Design) -> String {
    let mut again = format!(" --metric {} --pairs {}", design.metric.name, design.stop.pairs_max());
    match design.stop {
        Stop::After { .. } => again += " --fixed",
        Stop::Sequential { budget: Some(budget), .. } => again += &format!(" --budget {}ms", budget.as_millis()),
        Stop::Sequential { budget: None, .. } => {}
    }
    if let Settle::Fixed { time } = design.settle {
        again += &format!(" --settle {}ms", time.as_millis());
    }
    again += &format!(" --turns {}", design.turns);
    let percent = |share: f64| words::trim(share * 100.0);
    again += &format!(
        " --window-ms {} --smallest-effect {}",
        design.window.as_millis(),
        percent(design.smallest_effect_ratio)
    );
    again += &format!(" --control-pairs {}", design.control_pairs);
    match design.guards.is_empty() {
        true => again += " --guard none",
        false => {
            for guard in &design.guards {
                again += &format!(" --guard {}={}", guard.metric.name, percent(guard.harm_ratio));
            }
        }
    }
    format!("{again} --seed {}", design.seed)
}

/// Makes the folder that a report is to be written into, if it is not there: that it can't be is better known before anything was measured.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::io(exit::NOT_POSSIBLE, format!("write into {}", folder.display()), &error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Whether this user may write there, and the disk take a file, is best asked by doing it.
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(failed)
}

/// Writes a file into a folder, which is made if it is not there, and returns its path.
pub(crate) fn write_page(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error| Failure::io(exit::NOT_POSSIBLE, format!("write {}", path.display()), &error);
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let path = folder.join(name);
    std::fs::write(&path, escape::page(text)).map_err(|error| failed(&path, error))?;
    Ok(path)
}

#[cfg(test)]
mod tests;
