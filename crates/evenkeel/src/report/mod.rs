//! The report of `demo` and `prove`: one object, written as `report.json` for programs and as `report.html` for people.

use std::path::{Path, PathBuf};

use evenkeel_host::{Advice, Facts};
pub(crate) use evenkeel_trial::saved::{ChoiceEntry, NotTried, RunReport, SettingText, TrialEntry};
use evenkeel_trial::{Design, Settle, Stop};
use serde::Serialize;

use crate::exit;
use crate::failure::Failure;
use crate::output_file;
use crate::show::{escape, json};
use crate::times;
use crate::view::{Block, Text};

pub(crate) mod across;
pub(crate) mod boots;
pub(crate) mod capacity;
mod chart;
pub(crate) mod choice;
pub(crate) mod counted;
mod html;
mod machine;
mod markup;
pub(crate) mod search;
mod trial;
pub(crate) mod words;

pub(crate) use words::{Claim, as_change};

/// The report of one run, with all facts and advice.
pub(crate) type FullReport = RunReport<Facts, Advice>;

/// The answer of one session: a report on each arm's comparison with A, and the choice if there are several arms.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct SessionAnswer {
    pub(crate) trials: Vec<TrialEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) choice: Option<ChoiceEntry>,
    /// The file of the session; `None` if the file is incomplete.
    #[serde(skip)]
    pub(crate) kept_in: Option<PathBuf>,
}

/// Creates a report of this version and time, without trials.
pub(crate) fn begin(command: String, facts: Facts, advice: Vec<Advice>) -> FullReport {
    FullReport {
        evenkeel: Some(env!("CARGO_PKG_VERSION").to_owned()),
        command: Some(command),
        taken: Some(taken_now()),
        facts,
        capture: None,
        advice,
        trials: Vec::new(),
        choice: None,
        not_tried: Vec::new(),
        settings: Vec::new(),
        all_as_before: Some(true),
    }
}

/// Writes `report.html` and `report.json` into a folder, and returns their paths.
pub(crate) fn write(story: &FullReport, folder: &Path) -> Result<[PathBuf; 2], Failure> {
    let json = json::answer_of_trial(story)?;
    let unread = |error| Failure::text(exit::NOT_POSSIBLE, "make report.html of report.json", error);
    let page = html::page(&story.as_read().map_err(unread)?, &json).into_string();
    Ok([write_page(folder, "report.html", &page)?, write_page(folder, "report.json", &json)?])
}

/// The design as options of `prove`. The options give the same design even if the defaults change later.
pub(crate) fn design_again(design: &Design) -> String {
    let mut again = format!(" --metric {} --pairs {}", design.metric.name, design.stop.pairs_max());
    match design.stop {
        Stop::After { .. } => again += " --fixed",
        Stop::Sequential { budget: Some(budget), .. } => again += &format!(" --budget {}", times::option(budget)),
        Stop::Sequential { budget: None, .. } => {}
    }
    if let Settle::Fixed { time } = design.settle {
        again += &format!(" --settle {}", times::option(time));
    }
    again += &format!(" --interleaves {}", design.interleaves);
    let percent = |share: f64| words::trim(share * 100.0);
    again += &format!(
        " --window {} --smallest-effect {}",
        times::option(design.window),
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

/// The current time, in the format of a report.
fn taken_now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Writes blocks as `report.html`, and the answer as `report.json`. The page also contains the answer as a download.
/// Returns both paths.
fn write_blocks<T: Serialize>(
    folder: &Path,
    title: &str,
    sub: &Text,
    mut blocks: Vec<Block>,
    answer: &T,
) -> Result<[PathBuf; 2], Failure> {
    let json = json::answer(answer)?;
    blocks.push(Block::Download {
        name: "report.json",
        kind: "application/json",
        content: json.clone(),
        what: "all numbers of this page, for programs",
    });
    let page = crate::view::html::page(title, sub, &blocks);
    Ok([write_page(folder, "report.html", &page)?, write_page(folder, "report.json", &json)?])
}

/// Writes a file into a folder, and returns its path. Creates the folder if it is missing.
pub(crate) fn write_page(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| output_file::failure(folder, &error))?;
    let path = folder.join(name);
    std::fs::write(&path, escape::page(text)).map_err(|error| output_file::failure(&path, &error))?;
    Ok(path)
}

#[cfg(test)]
mod tests;
