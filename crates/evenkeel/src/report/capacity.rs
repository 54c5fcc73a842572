//! The page of `capacity`: the number of sessions, its interval, the limiting factors, and the curve.

use std::path::Path;

use evenkeel_fleet::capacity::{
    CapacityReport, Comparison, Ended, EndedBy, Found, Gain, GainVerdict, Limit, Search, Step, Window,
};
use evenkeel_trial::Outcome;
use serde::Serialize;

use super::chart::{self, Source};
use super::words::trim;
use crate::failure::Failure;
use crate::show::units::percent;
use crate::view::{Block, Column, Text, Verdict, terminal};

const WITHOUT: &str = "Without the settings";
const WITH: &str = "With the settings";

/// The content of the page.
pub(crate) struct Shown<'a> {
    /// The report of the search without the settings.
    pub(crate) report: &'a CapacityReport,
    pub(crate) compared: Option<&'a Comparison>,
    /// The files that evenkeel wrote, each with a description and a name.
    pub(crate) files: Vec<(&'static str, String)>,
}

/// The page as text for a terminal.
pub(crate) fn text(shown: &Shown<'_>) -> String {
    terminal::text(&blocks(shown, ""))
}

/// Writes `report.html` and `report.json` into a folder.
pub(crate) fn write<T: Serialize>(folder: &Path, answer: &T, shown: &Shown<'_>) -> Result<(), Failure> {
    let taken = super::taken_now();
    let sub = format!("{taken} · evenkeel {} · {}", env!("CARGO_PKG_VERSION"), shown.report.workload);
    let page = blocks(&Shown { files: Vec::new(), ..*shown }, &taken);
    super::write_blocks(folder, "evenkeel capacity report", &sub.into(), page, answer).map(drop)
}

fn blocks(shown: &Shown<'_>, taken: &str) -> Vec<Block> {
    let Shown { report, compared, files } = shown;
    let verdict = compared.map_or_else(|| of_one(&report.found), |compared| of_two(&compared.gain));
    let mut terms = subject(report);
    let mut caveats: Vec<&String> = report.caveats.iter().collect();
    match compared {
        None => terms.extend(side(report)),
        Some(compared) => {
            terms.extend(worth(report, compared));
            caveats.extend(compared.report.caveats.iter().filter(|caveat| !report.caveats.contains(caveat)));
        }
    }
    terms.extend(files.iter().map(|(what, name)| (*what, name.as_str().into())));
    let mut blocks = vec![Block::Opening(vec![Block::Verdict(verdict), Block::Terms(terms), Block::caveats(&caveats)])];
    if let Some(compared) = compared {
        blocks.push(Block::section(WITHOUT, vec![Block::Terms(side(report))]));
        blocks.push(Block::section(WITH, vec![Block::Terms(side(&compared.report))]));
    }
    blocks.extend(tried(shown, taken));
    blocks
}

/// The verdict on one search.
/// Without an upper bound, more sessions may fit, because a stopped search has proven only a minimum.
fn of_one(found: &Found) -> Verdict {
    let says = match (found.sessions, found.at_most) {
        (0, None) => "How many sessions fit is not known yet".to_owned(),
        (many, None) => format!("{many} {} on this machine, or more", fit(many.into())),
        (many, Some(_)) => format!("{many} {} on this machine", fit(many.into())),
    };
    let badge = if found.at_most == Some(found.at_least) { "proven" } else { "an interval" };
    Verdict { outcome: None, badge: badge.to_owned(), is_repeated: true, says }
}

/// The verdict on the settings: how many more or fewer sessions fit with them.
fn of_two(gain: &Gain) -> Verdict {
    let (outcome, badge, says) = match gain.verdict {
        GainVerdict::More => {
            (Outcome::Better, "more", format!("{} more {} with these settings", gain.sessions, fit(gain.sessions)))
        }
        GainVerdict::Fewer => {
            (Outcome::Worse, "fewer", format!("{} fewer {} with these settings", -gain.sessions, fit(-gain.sessions)))
        }
        GainVerdict::Same => (Outcome::Same, "same", "As many sessions fit with these settings as without".to_owned()),
        GainVerdict::Undecided => {
            let says = "Whether more sessions fit with these settings is undecided".to_owned();
            (Outcome::Undecided, "undecided", says)
        }
    };
    Verdict { outcome: Some(outcome), badge: badge.to_owned(), is_repeated: true, says }
}

fn subject(report: &CapacityReport) -> Vec<(&'static str, Text)> {
    let limits: Vec<String> = report.limits.iter().map(limit).collect();
    vec![
        ("limits", format!("{}, of every session in most windows", limits.join(" and ")).into()),
        ("server", report.workload.as_str().into()),
        ("machine", machine(report.machine.cpus, report.machine.memory_mib).into()),
    ]
}

fn machine(cpus: f64, memory_mib: f64) -> String {
    format!("{cpus} CPU{}, {memory_mib:.0} MiB of memory", if cpus == 1.0 { "" } else { "s" })
}

fn worth(without: &CapacityReport, compared: &Comparison) -> Vec<(&'static str, Text)> {
    let with = &compared.report;
    let mut terms = vec![
        ("settings", Text::code(compared.settings.join(" "))),
        ("sessions", format!("{} without, {} with", without.found.sessions, with.found.sessions).into()),
        ("gain", gain_interval(&compared.gain).into()),
    ];
    if let (Some(before), Some(after)) = (without.price_per_session_hour, with.price_per_session_hour) {
        terms.push(("price", format!("{before:.4} to {after:.4} per session and hour").into()));
    }
    terms
}

/// The rows about one search: its interval, the limiting factors, and the cost of a session.
fn side(report: &CapacityReport) -> Vec<(&'static str, Text)> {
    let ended_by = report.ended_by.map_or("nothing: the limits were not broken", ended_by);
    let mut terms = vec![("interval", interval(&report.found).into()), ("ended by", ended_by.into())];
    if let Some(need) = &report.need {
        let memory = need.memory_mib.map_or_else(String::new, |mib| format!(", {mib:.1} MiB of memory"));
        terms.push(("a session takes", format!("{:.3} CPUs{memory}", need.cpus).into()));
    }
    if let Some(price) = report.price_per_session_hour {
        terms.push(("price", format!("{price:.4} per session and hour").into()));
    }
    if let Ended::NoStart { session, why } = &report.ended {
        terms.push(("stopped", Text::bad(format!("session {session} did not start: {why}"))));
    }
    terms
}

/// Every number of sessions that the search tried, as a chart and as a table. `None` without any window.
fn tried(shown: &Shown<'_>, taken: &str) -> Option<Block> {
    let Shown { report, compared, .. } = shown;
    let with = compared.map(|compared| &compared.report);
    let curves: Vec<&[Step]> = std::iter::once(*report).chain(with).map(|side| side.curve.as_slice()).collect();
    if curves.iter().all(|curve| curve.is_empty()) {
        return None;
    }
    let source = Source {
        host: report.workload.clone(),
        date: taken.to_owned(),
        command: format!("evenkeel capacity, windows of {} ms", report.window_ms),
    };
    let drawn =
        |(at, limit): (usize, &Limit)| Block::Drawing(chart::sessions(&curves, at, limit, &source), Text::default());
    let mut blocks: Vec<Block> = report.limits.iter().enumerate().map(drawn).collect();
    for (side, title) in [(Some(*report), WITHOUT), (with, WITH)] {
        let Some(side) = side.filter(|side| !side.curve.is_empty()) else { continue };
        blocks.extend(compared.is_some().then_some(Block::Subheading(title)));
        blocks.push(table(side));
    }
    blocks.push(Block::Note("The worst session of each window; the median over the windows.".to_owned()));
    Some(Block::section("What was tried", blocks))
}

fn table(report: &CapacityReport) -> Block {
    let mut header = vec![Column::from("sessions"), Column::number("windows held")];
    header.extend(report.limits.iter().map(|limit| Column::number(format!("worst {}", limit.metric))));
    header.push(Column::number("CPUs busy"));
    let row = |step: &Step| {
        let mut row: Vec<Text> =
            vec![step.sessions.to_string().into(), format!("{} of {}", step.held, step.held + step.broken).into()];
        row.extend(report.limits.iter().zip(&step.worst).map(|(limit, worst)| Text::from(value(limit, *worst))));
        row.push(format!("{:.2}", step.machine.cpus_busy).into());
        row
    };
    Block::Table { header, rows: report.curve.iter().map(row).collect() }
}

fn fit(sessions: i64) -> &'static str {
    if sessions == 1 { "session fits" } else { "sessions fit" }
}

fn gain_interval(gain: &Gain) -> String {
    match (gain.at_least, gain.at_most) {
        (Some(least), Some(most)) if least == most => format!("{least:+}: proven in both directions"),
        (Some(least), Some(most)) => format!("{least:+} to {most:+}"),
        (Some(least), None) => format!("at least {least:+}; no upper bound is proven"),
        (None, Some(most)) => format!("at most {most:+}; no lower bound is proven"),
        (None, None) => "not known: neither number has a proven upper bound".to_owned(),
    }
}

/// A line about a window, while the search runs.
/// `with_settings` shows whether the window had the settings; `None` if no settings are compared.
pub(crate) fn progress(window: &Window, with_settings: Option<bool>, limits: &[Limit], search: &Search) -> String {
    let values: Vec<String> = limits.iter().zip(&window.worst).map(|(limit, worst)| value(limit, *worst)).collect();
    let held = if window.is_held(limits) { "held" } else { "broken" };
    let Found { at_least, at_most, .. } = search.found();
    let most = at_most.map_or_else(|| "?".to_owned(), |most| most.to_string());
    let s = if window.sessions == 1 { "" } else { "s" };
    let worst = values.join(", ");
    let side = match with_settings {
        None => "",
        Some(false) => "without, ",
        Some(true) => "with, ",
    };
    format!("{side}{} session{s}: {held}, worst {worst}; proven so far: {at_least} to {most}\n", window.sessions)
}

fn interval(found: &Found) -> String {
    match found.at_most {
        Some(most) if most == found.at_least => format!("{most}: proven in both directions"),
        Some(most) => format!("{} to {most}", found.at_least),
        None => format!("at least {}; no upper bound is proven", found.at_least),
    }
}

fn limit(limit: &Limit) -> String {
    let sign = if limit.is_higher_better { "≥" } else { "≤" };
    format!("{} {sign} {}", limit.metric, value(limit, Some(limit.value)))
}

fn value(limit: &Limit, value: Option<f64>) -> String {
    match (value, limit.unit.as_str()) {
        (None, _) => "no value".to_owned(),
        (Some(share), "share") => percent(share),
        (Some(value), unit) => format!("{} {unit}", trim(value)).trim_end().to_owned(),
    }
}

fn ended_by(what: EndedBy) -> &'static str {
    match what {
        EndedBy::Cpu => "CPU: all CPUs were busy",
        EndedBy::Quota => "the CPU quota of the control group: it was used up",
        EndedBy::Steal => "steal: the hypervisor gave CPU time to others",
        EndedBy::Memory => "memory: it was used up",
        EndedBy::Packets => "packets: they found full buffers",
        EndedBy::Waiting => "waiting: sessions waited for each other while CPUs were idle",
        EndedBy::Alone => "itself: a session alone does not hold the limits",
    }
}
