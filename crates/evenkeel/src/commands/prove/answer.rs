//! What `prove` says when it is over: of two arms one page, of several which of them, a row an arm, and then each.

use std::path::Path;

use evenkeel_host::Facts;
use evenkeel_trial::{Ended, Outcome as Verdict, Report};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::report::words::share;
use crate::report::{self, ChoiceEntry, SessionAnswer, TrialEntry, as_change, choice};
use crate::show::Out;
use crate::show::page::{Indent, PLAIN, Page};
use crate::workload_args::WorkloadArgs;

/// How what was found is reported.
pub(super) struct Answer<'a> {
    pub(super) facts: &'a Facts,
    pub(super) capture: Option<String>,
    /// The folder of the report, if there is to be one.
    pub(super) report: Option<&'a Path>,
    /// The command that measures it again.
    pub(super) again: String,
    /// Whether it comes out of a file, and was measured before.
    pub(super) was_kept: bool,
}

impl Answer<'_> {
    pub(super) fn tell(self, out: &Out, told: SessionAnswer) -> Outcome {
        let was_stopped = told.trials.iter().any(|told| told.report.ended == Ended::Stopped);
        // A session that is told again ends as it is told, however its run ended.
        let code = if was_stopped && !self.was_kept { exit::STOPPED } else { exit_of(&told) };
        let mut text = text(&told);
        let mut full = report::begin(self.again, self.facts.clone(), Vec::new());
        full.capture = self.capture;
        (full.trials, full.choice) = (told.trials, told.choice);
        // Of what was kept before, the file that it came from is still there.
        let hint = |failure: Failure, report: &str| match (self.was_kept, &told.kept_in) {
            (true, _) => failure,
            (false, kept_in) => failure.hint(untold(kept_in.as_deref(), report)),
        };
        if let Some(folder) = self.report {
            match report::write(&full, folder) {
                Ok([page, json]) => text += &format!("report: {} and {}\n", page.display(), json.display()),
                Err(failure) => {
                    // That it can't be written either matters less than why there is no report.
                    let _ = if out.is_json() { Ok(()) } else { out.text(&text) };
                    return Err(hint(failure, " --report DIR"));
                }
            }
        }
        let answered = match (&full.choice, &full.trials[..]) {
            (None, [one]) => out.answer_of_trial(one, || text),
            _ => out.answer_of_trial(&Several { choice: &full.choice, trials: &full.trials }, || text),
        };
        answered.map_err(|failure| hint(failure, ""))?;
        Ok(code)
    }
}

/// How to have what was found, where it could not be told.
fn untold(kept_in: Option<&Path>, report: &str) -> String {
    match kept_in {
        Some(file) => format!("the session is kept: `evenkeel prove report {}{report}` reports it", file.display()),
        None => "what was measured is not all kept on disk either: make room, or name other places by --keep and --report, and measure anew"
            .to_owned(),
    }
}

/// The answer of several arms.
#[derive(serde::Serialize)]
struct Several<'a> {
    choice: &'a Option<ChoiceEntry>,
    trials: &'a [TrialEntry],
}

/// How to repeat it.
pub(super) fn again(workload: &WorkloadArgs, anyway: bool, told: &SessionAnswer) -> String {
    let Some(first) = told.trials.first() else { return "evenkeel prove".to_owned() };
    let asked = match &told.trials[..] {
        [one] if one.knob.is_empty() => String::new(),
        [one] => format!(" {}", one.knob),
        several => several.iter().map(|told| format!(" --arm '{}'", told.knob)).collect(),
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
fn text(told: &SessionAnswer) -> String {
    let Some(which) = &told.choice else { return told.trials.iter().map(of_one).collect() };
    let mut page = Page::default();
    page.paragraph(Indent::all(0), PLAIN, &which.sentence);
    page.table(&choice::COLUMNS, &choice::rows(&told.trials));
    let mut text = page.finish();
    for told in &told.trials {
        let name = told.report.arms.get(1).map_or_else(String::new, |arm| arm.arm.to_string());
        text += &format!("\n{name}: {}", of_one(told));
        if let Some(left) = &told.report.left {
            text += &format!("  {}\n", choice::left(left));
        }
    }
    text
}

fn of_one(told: &TrialEntry) -> String {
    let report = &told.report;
    let mut text = format!("{}: {}\n", report.verdict, told.sentence);
    // Before the numbers: what limits them.
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
        text += &format!("  {}  median {median}, server's CPU {cpu}: {}\n", arm.arm, arm.values);
    }
    for guard in &report.guards {
        let change = guard.effect.map_or_else(|| "not compared".to_owned(), |effect| as_change(effect.ratio));
        text += &format!("  guard {}: {} ({change})\n", guard.metric.name, guard.verdict);
    }
    let other = report.arms.get(1).map_or_else(|| "B".to_owned(), |arm| arm.arm.to_string());
    for knob in &report.mechanism {
        let readings: Vec<String> = knob
            .readings
            .iter()
            .map(|reading| format!("{} {} / {}", reading.name, number(reading.a), number(reading.b)))
            .collect();
        if !readings.is_empty() {
            text += &format!("  seen of {}, A / {other}: {}\n", knob.knob, readings.join(", "));
        }
    }
    let turns = report.settle.turns.map_or_else(String::new, |turns| format!("in {turns} turns each, "));
    text += &format!(
        "  {} pairs, {turns}{} dropped ({} in A, {} in {other}), {} ms of quiet after a switch, seed {}, metric {}\n",
        report.pairs,
        report.dropped.len(),
        report.dropped_by_arm.a,
        report.dropped_by_arm.b,
        report.settle.settle_ms,
        report.seed,
        report.metric.name
    );
    if let Some(control) = &report.control_stretch {
        text += &format!("  A/A check: {} ({} pairs)\n", control.verdict, control.pairs);
    }
    text += &detectable(report);
    text
}

/// The sensitivity of this run: by its own interval, so there is one figure on a page. An undecided sentence has it already.
fn detectable(report: &Report) -> String {
    let ratio = report.effect.and_then(|effect| effect.smallest_visible_ratio).filter(|ratio| ratio.is_finite());
    match ratio {
        Some(ratio) if report.verdict != Verdict::Undecided => {
            format!("  smallest detectable difference in {} pairs: {}\n", report.pairs, share(ratio))
        }
        _ => String::new(),
    }
}

/// Two decimals, and more where they would all be noughts: a metric of a server's own may be in seconds.
fn figure(value: f64) -> String {
    let noughts = if value == 0.0 { 0.0 } else { (-value.abs().log10()).floor() };
    let decimals = if (1.0..=12.0).contains(&noughts) { noughts as usize + 3 } else { 2 };
    format!("{value:.decimals$}")
}

/// A verdict of worse is a "no", of several arms if it is that of each; a trial that failed on the way was not possible here, and was
/// undone.
fn exit_of(told: &SessionAnswer) -> exit::Exit {
    let failed = |told: &TrialEntry| matches!(told.report.ended, Ended::Failed { .. });
    match told.trials.iter().all(|told| told.report.verdict == Verdict::Worse) {
        _ if told.trials.iter().any(failed) => exit::UNDONE,
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
