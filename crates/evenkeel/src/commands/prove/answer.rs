//! The answer of `prove`. For two arms, it is one page.
//! For several arms, it has the best arm, a table, and one page for each arm.

use std::path::Path;

use evenkeel_host::Facts;
use evenkeel_trial::{Ended, Outcome as Verdict, Report};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::report::words::share;
use crate::report::{self, ChoiceEntry, SessionAnswer, TrialEntry, as_change, choice};
use crate::show::Out;
use crate::show::page::{Indent, PLAIN, Page, fitted};
use crate::times;
use crate::workload_args::WorkloadArgs;

/// The data that an answer needs, and where the answer goes.
pub(super) struct Answer<'a> {
    pub(super) facts: &'a Facts,
    pub(super) capture: Option<String>,
    /// The folder of the report; `None` if the user requested no report.
    pub(super) report: Option<&'a Path>,
    /// The command that repeats the measurement.
    pub(super) again: String,
    /// Whether the session was read from a file.
    pub(super) was_kept: bool,
}

impl Answer<'_> {
    pub(super) fn print(self, out: &Out, session: SessionAnswer) -> Outcome {
        let was_stopped = session.trials.iter().any(|entry| entry.report.ended == Ended::Stopped);
        // If the session comes from a file, showing it is a success, even if its run was stopped.
        let code = if was_stopped && !self.was_kept { exit::STOPPED } else { exit_of(&session) };
        let mut text = text(&session);
        let mut full = report::begin(self.again, self.facts.clone(), Vec::new());
        full.capture = self.capture;
        (full.trials, full.choice) = (session.trials, session.choice);
        // A session from a file needs no hint, because the file still contains it.
        let hint = |failure: Failure, report: &str| match (self.was_kept, &session.kept_in) {
            (true, _) => failure,
            (false, kept_in) => failure.hint(not_printed(kept_in.as_deref(), report)),
        };
        if let Some(folder) = self.report {
            match report::write(&full, folder) {
                Ok([page, json]) => text += &format!("report: {} and {}\n", page.display(), json.display()),
                Err(failure) => {
                    // Report the first error, which explains why there is no report. Ignore an error of this output.
                    let _ = if out.is_json() { Ok(()) } else { out.text(&text) };
                    return Err(hint(failure, " --report DIR"));
                }
            }
        }
        let answered = match (&full.choice, &full.trials[..]) {
            (None, [one]) => out.answer_of_trial(one, || fitted(&text)),
            _ => out.answer_of_trial(&Several { choice: &full.choice, trials: &full.trials }, || fitted(&text)),
        };
        answered.map_err(|failure| hint(failure, ""))?;
        Ok(code)
    }
}

/// The hint about how to get the result after evenkeel failed to print it.
fn not_printed(kept_in: Option<&Path>, report: &str) -> String {
    match kept_in {
        Some(file) => format!("the session is stored: `evenkeel prove report {}{report}` prints it", file.display()),
        None => "the session is not fully stored either: free disk space, or use other places for --keep and --report, and measure again"
            .to_owned(),
    }
}

/// The answer for several arms.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Several<'a> {
    choice: &'a Option<ChoiceEntry>,
    trials: &'a [TrialEntry],
}

/// The command that repeats the session.
pub(super) fn again(workload: &WorkloadArgs, anyway: bool, session: &SessionAnswer) -> String {
    let Some(first) = session.trials.first() else { return "evenkeel prove".to_owned() };
    let asked = match &session.trials[..] {
        [one] if one.knob.is_empty() => String::new(),
        [one] => format!(" {}", one.knob),
        several => several.iter().map(|entry| format!(" --arm '{}'", entry.knob)).collect(),
    };
    format!(
        "evenkeel prove{asked}{}{}{}{}{}",
        workload.again(),
        report::design_again(&first.report.design),
        if first.control { " --control" } else { "" },
        if anyway { " --anyway" } else { "" },
        workload.command_again()
    )
}

/// The answer as text.
pub(super) fn text(session: &SessionAnswer) -> String {
    let Some(which) = &session.choice else { return session.trials.iter().map(of_one).collect() };
    let mut page = Page::default();
    page.paragraph(Indent::all(0), PLAIN, &which.sentence);
    page.table(&choice::COLUMNS, &choice::rows(&session.trials));
    let mut text = page.finish();
    for entry in &session.trials {
        let name = entry.report.arms.get(1).map_or_else(String::new, |arm| arm.arm.to_string());
        text += &format!("\n{name}: {}", of_one(entry));
        if let Some(left) = &entry.report.left {
            text += &format!("  {}\n", choice::left(left));
        }
    }
    text
}

fn of_one(entry: &TrialEntry) -> String {
    let report = &entry.report;
    let mut text = format!("{}: {}\n", report.verdict, entry.sentence);
    for caveat in &report.caveats {
        text += &format!("  caveat: {caveat}\n");
    }
    let number = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), figure);
    let with_unit = |value: Option<f64>, unit: &str| match value {
        Some(value) => format!("{} {unit}", figure(value)).trim_end().to_owned(),
        None => "not measured".to_owned(),
    };
    for arm in &report.arms {
        let cpu = with_unit(arm.cpu_share.map(|share| share * 100.0), "%");
        let median = with_unit(arm.median, &report.metric.unit);
        text += &format!("  {}  median {median}, server CPU {cpu}: {}\n", arm.arm, arm.values);
    }
    for guard in &report.guards {
        let change = guard.effect.map_or_else(|| "not compared".to_owned(), |effect| as_change(effect.ratio));
        text += &format!("  guard {}: {} ({change})\n", guard.metric.name, guard_words(guard.verdict));
    }
    let other = report.arms.get(1).map_or_else(|| "B".to_owned(), |arm| arm.arm.to_string());
    for knob in &report.mechanism {
        let readings: Vec<String> = knob
            .readings
            .iter()
            .map(|reading| format!("{} {} (A), {} ({other})", reading.name, number(reading.a), number(reading.b)))
            .collect();
        if !readings.is_empty() {
            text += &format!("  {}: {}\n", knob.knob, readings.join("; "));
        }
    }
    let interleaves =
        report.settle.interleaves.map_or_else(String::new, |interleaves| format!(" of {interleaves} interleaves"));
    text += &format!(
        "  {} pairs{interleaves}, {} dropped ({} in A, {} in {other}), settle time {}, seed {}, metric {}\n",
        report.pairs,
        report.dropped.len(),
        report.dropped_by_arm.a,
        report.dropped_by_arm.b,
        times::words(report.settle.time()),
        report.seed,
        report.metric.name
    );
    if let Some(control) = &report.control_stretch {
        text += &format!("  A/A check: {} ({} pairs)\n", control.verdict, control.pairs);
    }
    text += &detectable(report);
    text
}

/// The text for a guard's verdict. A guard can only be worse, or not worse.
pub(crate) fn guard_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Same => "not worse",
        Verdict::Undecided | Verdict::NotEngaged => "undecided",
    }
}

/// The smallest detectable effect of this run, from its interval.
/// Empty for an undecided run, because its sentence already contains the effect.
fn detectable(report: &Report) -> String {
    let ratio = report.effect.and_then(|effect| effect.smallest_visible_ratio).filter(|ratio| ratio.is_finite());
    match ratio {
        Some(ratio) if report.verdict != Verdict::Undecided => {
            format!("  smallest detectable difference in {} pairs: {}\n", report.pairs, share(ratio))
        }
        _ => String::new(),
    }
}

/// The number with two decimals, or more for small numbers: the metric of a server may be in seconds.
fn figure(value: f64) -> String {
    let noughts = if value == 0.0 { 0.0 } else { (-value.abs().log10()).floor() };
    let decimals = if (1.0..=12.0).contains(&noughts) { noughts as usize + 3 } else { 2 };
    format!("{value:.decimals$}")
}

/// The exit code is "no" if every arm is worse. If a trial failed half-way, the code shows that evenkeel undid it.
pub(super) fn exit_of(session: &SessionAnswer) -> exit::Exit {
    let failed = |entry: &TrialEntry| matches!(entry.report.ended, Ended::Failed { .. });
    match session.trials.iter().all(|entry| entry.report.verdict == Verdict::Worse) {
        _ if session.trials.iter().any(failed) => exit::UNDONE,
        true => exit::NO,
        false => exit::WELL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_figures_keep_their_digits() {
        for (value, expected) in [
            (0.0, "0.00"),
            (12.345, "12.35"),
            (0.5, "0.50"),
            (0.0123, "0.0123"),
            (0.000_061_24, "0.0000612"),
            (-0.05, "-0.0500"),
        ] {
            assert_eq!(figure(value), expected);
        }
    }
}
