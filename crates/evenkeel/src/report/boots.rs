//! The blocks of the page for a trial over boots.
//! They show the verdict with its basis and its caveats, the boots, the guards, and how to repeat the trial.
//! The verdict always names the number of boots.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::time::Duration;

use evenkeel_stats::{BootsComparison, quantile};
use evenkeel_trial::boots::{
    ArmOfBoots, BootOutcome, BootWords, BootsEnded, BootsReport, BootsState, GuardOfBoots, SeenBoot,
};
use evenkeel_trial::{ArmName, Outcome};

use super::chart::{self, Estimate, Source};
use super::counted;
use super::trial::ways;
use super::words::{as_change, range, share, trim};
use crate::shell::quoted;
use crate::times;
use crate::view::{Block, Text, Verdict, html, markdown, sentence};

const TITLE: &str = "evenkeel report over boots";

/// The page as HTML. `json` is the same report for programs.
pub(crate) fn page(state: &BootsState, report: &BootsReport, json: &str) -> String {
    let sub = Text::from(format!("begun {} · evenkeel {} · ", begun(state), report.evenkeel))
        .and(Text::code(report.design.settings.join(" ")));
    let mut blocks = blocks(state, report);
    let (name, kind, what) = ("boots.json", "application/json", "all numbers of this page, for programs");
    blocks.push(Block::Download { name, kind, content: json.to_owned(), what });
    html::page(TITLE, &sub, &blocks)
}

/// The same report as Markdown, for tickets and wikis.
pub(crate) fn document(state: &BootsState, report: &BootsReport) -> String {
    markdown::document(TITLE, &blocks(state, report))
}

pub(crate) fn blocks(state: &BootsState, report: &BootsReport) -> Vec<Block> {
    let source = source(state, report);
    let opening = vec![
        Block::Verdict(verdict(report)),
        Block::paragraph(sentence(&progress(report))),
        Block::caveats(&report.caveats),
    ];
    let mut blocks = vec![Block::Opening(opening)];
    blocks.extend(effect(report, &source));
    if !report.boots.is_empty() {
        let shown =
            vec![Block::Drawing(chart::boots(report, &source), Text::default()), table(report), machines(report)];
        blocks.push(Block::section("The boots", shown));
    }
    blocks.extend(guards(report));
    blocks.extend(engagement(report));
    blocks.push(repeat(state, report));
    blocks
}

fn begun(state: &BootsState) -> String {
    let at = i64::try_from(state.begun_s).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
    at.map_or_else(|| "at an unknown time".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

fn source(state: &BootsState, report: &BootsReport) -> Source {
    let machine = report.boots.first().map(|boot| &boot.machine);
    let kernel = machine.and_then(|machine| machine.kernel.as_ref()).map(|kernel| format!("Linux {kernel}"));
    let cpus = machine.and_then(|machine| machine.cpus.as_ref()).map(|cpus| format!("CPUs {cpus}"));
    let host: Vec<String> = [cpus, kernel].into_iter().flatten().collect();
    let host = if host.is_empty() { "unknown host".to_owned() } else { host.join(", ") };
    Source { host, date: begun(state), command: again(state) }
}

/// The verdict in one sentence. The badge always names the number of boots.
fn verdict(report: &BootsReport) -> Verdict {
    let change = report.comparison.map_or_else(String::new, |found| change(report, &found));
    let word = |verdict: Outcome| if report.vetoed_by.is_some() { "vetoed".to_owned() } else { verdict.to_string() };
    let decided = report.comparison.as_ref().zip(report.outcome);
    Verdict {
        outcome: report.outcome,
        badge: decided.map_or_else(
            || "not yet".to_owned(),
            |(found, verdict)| format!("{} over {} boots", word(verdict), found.boots),
        ),
        is_repeated: true,
        says: format!("{} over boots: {}{change}", report.design.settings.join(" "), report.verdict),
    }
}

fn change(report: &BootsReport, found: &BootsComparison) -> String {
    let title = &report.design.metric.title;
    let often = found.confidence * 100.0;
    format!("; {title} is {}, with {often:.0} % confidence {}", as_change(found.ratio), range(found.low, found.high))
}

/// The progress of the trial as text.
fn progress(report: &BootsReport) -> String {
    let design = &report.design;
    let counted: usize = report.arms.iter().map(|arm| arm.boots.len()).sum();
    let how = match &report.ended {
        None => format!(
            "{counted} of {} boots count after {} boots; the trial continues after the next boot",
            design.boots,
            report.boots.len()
        ),
        Some(BootsEnded::Whole) => {
            format!("all {} boots are measured, with {} boots in total", design.boots, report.boots.len())
        }
        Some(BootsEnded::Cancelled) => format!("cancelled with {counted} of {} boots", design.boots),
        Some(BootsEnded::GivenUp { why }) => format!("given up with {counted} of {} boots: {why}", design.boots),
    };
    how + match report.is_put_back {
        None => "",
        Some(true) => "; all settings are restored",
        Some(false) => "; the settings are still being restored",
    }
}

fn effect(report: &BootsReport, source: &Source) -> Option<Block> {
    let arms = report.arms.iter().filter(|arm| !arm.boots.is_empty()).map(|arm| arm_words(arm, report).into());
    let arms: Vec<Text> = arms.collect();
    let Some(found) = &report.comparison else {
        return (!arms.is_empty()).then(|| Block::section("The effect", vec![Block::List(arms)]));
    };
    let metric = &report.design.metric;
    let mut shown = vec![Estimate {
        label: "B against A".to_owned(),
        note: format!("{} boots", found.boots),
        ratio: Some(found.ratio),
        interval: Some((found.low, found.high)),
        rug: Vec::new(),
    }];
    // The axis shows the better direction of the primary metric.
    // The table lists guards with the opposite direction; the axis does not.
    let fits = |guard: &&GuardOfBoots| guard.metric.better == metric.better;
    shown.extend(report.guards.iter().filter(fits).map(|guard| Estimate {
        label: format!("guard: {}", guard.metric.name),
        note: format!("{} boots", guard.a.len() + guard.b.len()),
        ratio: guard.ratio,
        ..Estimate::default()
    }));
    let matters = report.design.smallest_effect_ratio;
    let of_guards = match shown.len() {
        1 => "",
        _ => {
            " For a guard, the square is the ratio of the medians. So few boots give no interval, and the band does not apply."
        }
    };
    let caption = format!(
        "Square: the estimated change of `{}`. Bar: its {:.0} % confidence interval. Grey band (±{}): changes too small to matter, fixed \
         before the first boot.{of_guards}",
        metric.name,
        found.confidence * 100.0,
        share(matters)
    );
    let drawing = chart::estimates(&shown, matters, ways(metric.better), source);
    let words = [Text::from(apart(found))].into_iter().chain(arms).collect();
    Some(Block::section("The effect", vec![Block::Drawing(drawing, Text::prose(&caption)), Block::List(words)]))
}

/// Describes how the values of the arms' boots differ,
/// and how often chance alone would cause a difference of this size.
fn apart(found: &BootsComparison) -> String {
    let (half, way) = (found.boots / 2, if found.ratio < 1.0 { "below" } else { "above" });
    let all = if half == 2 { "both boots".to_owned() } else { format!("all {half} boots") };
    let apart = match found.is_apart {
        true => sentence(&format!("{all} of B were {way} {all} of A")),
        false => "Boots of A and B overlap.".to_owned(),
    };
    let often = trim(found.p_value * 100.0);
    let chance = match (found.is_apart, found.boots) {
        (true, 4) => format!(
            "boots separate like this in 1 of 3 trials, and differ this much in {often} % if their noise is normal"
        ),
        (false, 4) => format!("boots differ this much in {often} % of trials if their noise is normal"),
        _ => format!("boots differ this much in {often} % of trials"),
    };
    format!("{apart} Without an effect, {chance}.")
}

fn arm_words(arm: &ArmOfBoots, report: &BootsReport) -> String {
    let between =
        arm.between_boots_share.map_or_else(String::new, |found| format!("; its boots differ by {}", share(found)));
    let within =
        arm.within_boot_share.map_or_else(String::new, |found| format!("; windows of one boot by {}", share(found)));
    format!("{:?}: {} {}{between}{within}.", arm.arm, numbers(&arm.boots), report.design.metric.unit)
}

/// The value of each boot, as text.
fn numbers(values: &[f64]) -> String {
    let words: Vec<String> = values.iter().map(|value| trim(*value)).collect();
    if words.is_empty() { "no boot yet".to_owned() } else { words.join(", ") }
}

fn table(report: &BootsReport) -> Block {
    let unit = &report.design.metric.unit;
    let median = if unit.is_empty() { "median".to_owned() } else { format!("median, {unit}") };
    let header = ["boot".to_owned(), "arm".to_owned(), median, "middle half".to_owned(), "windows".to_owned()];
    Block::table(header, report.boots.iter().enumerate().map(|(at, boot)| row(at, boot)).collect())
}

fn row(at: usize, boot: &SeenBoot) -> [String; 5] {
    let [median, middle, windows] = match &boot.outcome {
        BootOutcome::Measured { values, dropped, .. } => {
            let share_below = |q| quantile(values, q).map_or_else(String::new, trim);
            let lost = if *dropped == 0 { String::new() } else { format!(", {dropped} dropped") };
            let middle = format!("{} to {}", share_below(0.25), share_below(0.75));
            [share_below(0.5), middle, format!("{}{lost}", values.len())]
        }
        BootOutcome::Begun => ["measuring now".to_owned(), String::new(), String::new()],
        BootOutcome::Missed { .. } => ["does not count".to_owned(), String::new(), String::new()],
        BootOutcome::CutOff => ["interrupted".to_owned(), String::new(), String::new()],
        BootOutcome::Passed => ["not measured".to_owned(), String::new(), String::new()],
    };
    [(at + 1).to_string(), format!("{:?}", boot.arm), median, middle, windows]
}

/// The traits of the machine in each boot, as a table.
fn machines(report: &BootsReport) -> Block {
    let known = |text: &Option<String>| Text::from(text.as_deref().unwrap_or("unknown"));
    let row = |(at, boot): (usize, &SeenBoot)| {
        let machine = &boot.machine;
        let command_line = Text::code(known(&machine.command_line).words());
        let (boot, arm) = ((at + 1).to_string().into(), format!("{:?}", boot.arm).into());
        [boot, arm, known(&machine.kernel), known(&machine.processor), known(&machine.cpus), command_line]
    };
    let header = ["boot", "arm", "kernel", "processor", "CPUs", "command line"];
    let rows = report.boots.iter().enumerate().map(row).collect();
    Block::Details("The machine in each boot".to_owned(), vec![Block::table(header, rows)])
}

fn guards(report: &BootsReport) -> Option<Block> {
    let row = |guard: &GuardOfBoots| {
        let result = harm(guard);
        [
            Text::from(format!("{}: ", guard.metric.title)).and(Text::code(guard.metric.name.as_ref())),
            guard.metric.unit.to_string().into(),
            numbers(&guard.a).into(),
            numbers(&guard.b).into(),
            guard.ratio.map_or_else(|| "not compared".to_owned(), as_change).into(),
            if guard.is_harmed { Text::bad(result) } else { result.into() },
        ]
    };
    let vetoed = report.vetoed_by.as_ref().map(|guard| {
        Block::Warning(format!("Rejected: the guard {guard} got worse by more than its limit in every boot."))
    });
    let header = ["guard", "unit", "boots of A", "boots of B", "B against A", "result"];
    let table = Block::table(header, report.guards.iter().map(row).collect());
    (!report.guards.is_empty()).then(|| Block::section("Guards", vetoed.into_iter().chain([table]).collect()))
}

/// The result of a guard, as text. "Not worse" proves little, because few boots show only a large harm.
fn harm(guard: &GuardOfBoots) -> String {
    let margin = share(guard.margin);
    match guard.is_harmed {
        true => {
            format!("beyond its limit: every boot of B is worse than every boot of A, the medians by {margin} or more")
        }
        false => format!("not worse by {margin} in every boot"),
    }
}

fn engagement(report: &BootsReport) -> Option<Block> {
    let knobs = report.mechanism.iter();
    let knobs: Vec<Block> =
        knobs.flat_map(|knob| counted::mechanism(ArmName::B, knob, "counter, in a window")).collect();
    (!knobs.is_empty()).then(|| Block::section("Was the setting engaged?", knobs))
}

fn repeat(state: &BootsState, report: &BootsReport) -> Block {
    let design = &report.design;
    let how = Text::from("The same order of boots, from the same seed, on a machine like this one, in the folder ")
        .and(Text::code(state.folder.as_str()))
        .and(":");
    let terms = vec![
        // This text comes from a machine, so a backtick in the text must not begin code.
        ("server and load", report.workload.as_str().into()),
        ("decided by", Text::from(format!("{}: ", design.metric.title)).and(Text::code(design.metric.name.as_ref()))),
        ("smallest effect", format!("{}; smaller effects do not matter", share(design.smallest_effect_ratio)).into()),
        ("order of boots", format!("{}, random, from seed {}", report.order, design.seed).into()),
        (
            "each boot",
            format!(
                "{} windows of {} ms, after {} s of settle time",
                design.windows,
                design.window_ms,
                trim(design.settle_ms as f64 / 1000.0)
            )
            .into(),
        ),
    ];
    let command = Block::Detail(vec![Block::Paragraph(how), Block::Command(again(state))]);
    let machine = vec![
        ("evenkeel", report.evenkeel.as_str().into()),
        ("kernel", seen(report, |machine| machine.kernel.as_deref()).into()),
        ("processor", seen(report, |machine| machine.processor.as_deref()).into()),
    ];
    Block::section("How to repeat it", vec![command, Block::Terms(terms), Block::Detail(vec![Block::Terms(machine)])])
}

/// The values of a trait in all boots, each value once.
fn seen(report: &BootsReport, value: impl Fn(&BootWords) -> Option<&str>) -> String {
    let all: BTreeSet<&str> = report.boots.iter().filter_map(|boot| value(&boot.machine)).collect();
    if all.is_empty() { "unknown".to_owned() } else { all.into_iter().collect::<Vec<_>>().join(", ") }
}

/// The command that repeats the trial, even if the defaults change later.
fn again(state: &BootsState) -> String {
    let design = &state.design;
    let percent = |share: f64| trim(share * 100.0);
    let guards: Vec<String> = match design.guards.as_slice() {
        [] => vec!["none".to_owned()],
        guards => guards.iter().map(|guard| format!("{}={}", guard.metric.name, percent(guard.harm_ratio))).collect(),
    };
    format!(
        "evenkeel prove boots start {} --boots {}{} --settle {} --windows {} --window {} --smallest-effect {} --metric {}{} --seed {}{}",
        quoted(&design.settings),
        design.boots,
        if design.reboots { " --reboot" } else { "" },
        times::option(Duration::from_millis(design.settle_ms)),
        design.windows,
        times::option(Duration::from_millis(design.window_ms)),
        percent(design.smallest_effect_ratio),
        quoted(from_ref(&design.metric.name.to_string())),
        guards.iter().map(|guard| format!(" --guard {}", quoted(from_ref(guard)))).collect::<String>(),
        design.seed,
        state.workload,
    )
}
