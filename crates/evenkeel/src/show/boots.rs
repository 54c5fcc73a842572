//! A trial over boots as a page and as Markdown. The verdict always has the number of boots.

use evenkeel_stats::BootsComparison;
use evenkeel_trial::boots::{ArmOfBoots, BootOutcome, BootsEnded, BootsReport, GuardOfBoots, SeenBoot};
use evenkeel_trial::{Engaged, Mechanism, Reading};
use evenkeel_workload::Metric;

use crate::report::counted;
use crate::report::words::{as_change, range, share, trim};
use crate::show::page::{Indent, PLAIN, Page, WARN};

pub(crate) fn page(report: &BootsReport) -> String {
    let mut page = Page::default();
    page.heading(&title(report));
    for line in lines(report) {
        page.paragraph(Indent { first: 2, rest: 4 }, PLAIN, &line);
    }
    if !report.boots.is_empty() {
        page.heading("Boots");
        page.table(&COLUMNS, &rows(report));
    }
    for caveat in &report.caveats {
        page.paragraph(Indent { first: 2, rest: 4 }, WARN, &format!("caveat: {caveat}"));
    }
    page.finish()
}

/// The same report as Markdown, for tickets and wikis.
pub(crate) fn markdown(report: &BootsReport) -> String {
    // Text from the machine must not end a cell or become a link or a tag.
    let cell = |text: &str| text.replace(['|', '<', '>', '[', ']', '`', '\n', '\r'], " ");
    let mut text = format!("# {}\n\n", cell(&title(report)));
    for line in lines(report) {
        text += &format!("- {}\n", cell(&line));
    }
    if !report.boots.is_empty() {
        text += &format!("\n| {} |\n|{}\n", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
        for row in rows(report) {
            let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    for caveat in &report.caveats {
        text += &format!("\nCaveat: {}\n", cell(&caveat.to_string()));
    }
    text
}

pub(crate) const COLUMNS: [&str; 5] = ["boot", "arm", "median", "middle half", "windows"];

fn title(report: &BootsReport) -> String {
    format!("prove {} over boots: {}", report.design.settings.join(" "), report.verdict)
}

fn lines(report: &BootsReport) -> Vec<String> {
    let design = &report.design;
    let mut lines = vec![progress(report)];
    lines.extend(report.comparison.iter().flat_map(sentences));
    let unit = &design.metric.unit;
    lines.extend(report.arms.iter().filter(|arm| !arm.boots.is_empty()).map(|arm| of_arm(arm, unit)));
    lines.extend(report.guards.iter().map(of_guard));
    lines.extend(report.mechanism.iter().map(of_knob));
    lines.push(format!("workload: {}", report.workload));
    lines.push(format!("decided by {}, order {}, seed {}", design.metric.name, report.order, design.seed));
    lines
}

/// How far it is.
pub(crate) fn progress(report: &BootsReport) -> String {
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

/// The result of the boots, and how often chance would give it.
pub(crate) fn sentences(found: &BootsComparison) -> Vec<String> {
    let (half, way) = (found.boots / 2, if found.ratio < 1.0 { "below" } else { "above" });
    let all = if half == 2 { "both boots".to_owned() } else { format!("all {half} boots") };
    let apart = match found.is_apart {
        true => format!("{all} of B were {way} {all} of A"),
        false => "boots of A and B overlap".to_owned(),
    };
    let often = trim(found.p_value * 100.0);
    let chance = match (found.is_apart, found.boots) {
        (true, 4) => format!(
            "; without an effect, boots separate like this in 1 of 3 trials, and differ this much in {often} % if their noise is normal"
        ),
        (false, 4) => {
            format!("; without an effect, boots differ this much in {often} % of trials if their noise is normal")
        }
        _ => format!("; without an effect, boots differ this much in {often} % of trials"),
    };
    vec![
        apart + &chance,
        format!(
            "B is {}; {:.0} % confidence interval: {}",
            as_change(found.ratio),
            found.confidence * 100.0,
            range(found.low, found.high)
        ),
    ]
}

fn of_arm(arm: &ArmOfBoots, unit: &str) -> String {
    let between =
        arm.between_boots_share.map_or_else(String::new, |found| format!("; its boots differ by {}", share(found)));
    let within =
        arm.within_boot_share.map_or_else(String::new, |found| format!("; windows of one boot by {}", share(found)));
    format!("{:?}: {} {unit}{between}{within}", arm.arm, numbers(&arm.boots))
}

/// A guard's numbers, and whether they veto.
fn of_guard(guard: &GuardOfBoots) -> String {
    let [a, b] = [&guard.a, &guard.b].map(|values| numbers(values));
    let change = guard.ratio.map_or_else(String::new, |ratio| format!("; B is {}", as_change(ratio)));
    let Metric { name, unit, .. } = &guard.metric;
    format!("guard {name}: A {a}; B {b} {unit}{change}; {}", harm_of(guard))
}

/// Whether a setting was engaged, with the readings of its counter.
fn of_knob(knob: &Mechanism) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), trim);
    let reading = |seen: &Reading| format!("; {}: A {}, B {}", seen.name, number(seen.a), number(seen.b));
    let readings: String = knob.readings.iter().map(reading).collect();
    format!("{}: {}{readings}", knob.knob, engaged_words(&knob.engaged))
}

/// Whether it was engaged, as in a trial without reboots.
pub(crate) fn engaged_words(engaged: &Engaged) -> String {
    counted::engaged(engaged)
}

/// Each boot's number.
pub(crate) fn numbers(values: &[f64]) -> String {
    let words: Vec<String> = values.iter().map(|value| trim(*value)).collect();
    if words.is_empty() { "no boot yet".to_owned() } else { words.join(", ") }
}

/// The result of a guard. "Not worse" is no proof: few boots show only a large harm.
pub(crate) fn harm_of(guard: &GuardOfBoots) -> String {
    let margin = share(guard.margin);
    match guard.is_harmed {
        true => {
            format!("beyond its limit: every boot of B is worse than every boot of A, the medians by {margin} or more")
        }
        false => format!("not worse by {margin} in every boot"),
    }
}

pub(crate) fn rows(report: &BootsReport) -> Vec<Vec<String>> {
    report.boots.iter().enumerate().map(|(at, boot)| row(at, boot)).collect()
}

fn row(at: usize, boot: &SeenBoot) -> Vec<String> {
    let [median, middle, windows] = match &boot.outcome {
        BootOutcome::Measured { values, dropped, .. } => {
            let of = |q| evenkeel_stats::quantile(values, q).map_or_else(String::new, trim);
            let lost = if *dropped == 0 { String::new() } else { format!(", {dropped} dropped") };
            [of(0.5), format!("{} to {}", of(0.25), of(0.75)), format!("{}{lost}", values.len())]
        }
        BootOutcome::Begun => ["measuring now".to_owned(), String::new(), String::new()],
        BootOutcome::Missed { .. } => ["does not count".to_owned(), String::new(), String::new()],
        BootOutcome::CutOff => ["interrupted".to_owned(), String::new(), String::new()],
        BootOutcome::Passed => ["not measured".to_owned(), String::new(), String::new()],
    };
    vec![(at + 1).to_string(), format!("{:?}", boot.arm), median, middle, windows]
}

#[cfg(test)]
mod tests {
    use evenkeel_trial::boots::{BootsDesign, BootsState};
    use expect_test::expect;

    use super::*;

    /// Four boots, with lower values in B's, in the order of the seed.
    fn some(seed: u64) -> BootsState {
        let design = BootsDesign {
            settings: vec!["cmdline.processor.max_cstate=1".into()],
            metric: BootsDesign::default_metric(),
            guards: Vec::new(),
            smallest_effect_ratio: 0.05,
            boots: 4,
            windows: 3,
            window_ms: 1000,
            settle_ms: 0,
            seed,
            reboots: true,
            limit_s: 1,
        };
        let mut state = BootsState::begin(design, 1, "b");
        state.workload_words = "a tick".into();
        for nth in 0..4 {
            let Some((slot, arm)) = state.next_slot() else { break };
            let level = if format!("{arm:?}") == "B" { 80.0 } else { 100.0 } + f64::from(nth);
            state.seen.push(SeenBoot {
                boot_id: format!("r{nth}"),
                slot,
                arm,
                tries: 1,
                machine: Default::default(),
                outcome: BootOutcome::Measured {
                    values: vec![level, level + 2.0, level - 2.0],
                    dropped: 0,
                    guards: Default::default(),
                    counted: None,
                },
            });
        }
        state
    }

    fn abba() -> BootsState {
        (0..).map(some).find(|state| state.report().order == "ABBA").unwrap_or_else(|| some(0))
    }

    #[test]
    fn better_never_stands_alone() {
        let state = abba();
        let text = page(&state.report()).replace(&format!("seed {}", state.design.seed), "seed N");
        expect![[r#"
            [1mprove cmdline.processor.max_cstate=1 over boots: better (over 4 boots only:[0m
            [1mweaker than a trial)[0m
              4 of 4 boots count after 4 boots; the trial continues after the next boot
              both boots of B were below both boots of A; without an effect, boots
                separate like this in 1 of 3 trials, and differ this much in 0.528 % if
                their noise is normal
              B is 20 % lower; 95 % confidence interval: between 14 % and 25 % lower
              A: 100, 103 us; its boots differ by 2.96 %; windows of one boot by 2 %
              B: 81, 82 us; its boots differ by 1.23 %; windows of one boot by 2.47 %
              workload: a tick
              decided by due_to_done_us_p99, order ABBA, seed N

            [1mBoots[0m
            [2m  boot  arm  median  middle half  windows[0m
              1     A    100     99 to 101    3
              2     B    81      80 to 82     3
              3     B    82      81 to 83     3
              4     A    103     102 to 104   3
        "#]]
        .assert_eq(&text);
        let text = format!("{text}{}", markdown(&state.report()));
        assert_eq!(text.matches("better").count(), text.matches("better (over 4 boots only").count());
        assert!(!text.contains("better (over 4 boots only: weaker than a trial)\n\n\n"));
    }

    /// The same state with a guard that is 40 % higher in B, or equal.
    fn guarded(is_harmed: bool) -> BootsState {
        let mut state = abba();
        let metric = Metric::us("due_to_done_us_max", "the longest");
        state.design.guards = vec![evenkeel_trial::Guard { metric, harm_ratio: 0.25 }];
        for boot in &mut state.seen {
            let is_b = format!("{:?}", boot.arm) == "B";
            if let BootOutcome::Measured { guards, .. } = &mut boot.outcome {
                guards.insert("due_to_done_us_max".into(), if is_b && is_harmed { 700.0 } else { 500.0 });
            }
        }
        state
    }

    #[test]
    fn a_guard_that_vetoes_is_shown_with_the_verdict() {
        let report = guarded(true).report();
        let text = page(&report).replace(&format!("seed {}", report.design.seed), "seed N");
        expect![[r#"
            [1mprove cmdline.processor.max_cstate=1 over boots: better (over 4 boots only:[0m
            [1mweaker than a trial), but due_to_done_us_max is 40 % higher in every boot of B:[0m
            [1mnot to be kept[0m
              4 of 4 boots count after 4 boots; the trial continues after the next boot
              both boots of B were below both boots of A; without an effect, boots
                separate like this in 1 of 3 trials, and differ this much in 0.528 % if
                their noise is normal
              B is 20 % lower; 95 % confidence interval: between 14 % and 25 % lower
              A: 100, 103 us; its boots differ by 2.96 %; windows of one boot by 2 %
              B: 81, 82 us; its boots differ by 1.23 %; windows of one boot by 2.47 %
              guard due_to_done_us_max: A 500, 500; B 700, 700 us; B is 40 % higher;
                beyond its limit: every boot of B is worse than every boot of A, the medians
                by 25 % or more
              workload: a tick
              decided by due_to_done_us_p99, order ABBA, seed N

            [1mBoots[0m
            [2m  boot  arm  median  middle half  windows[0m
              1     A    100     99 to 101    3
              2     B    81      80 to 82     3
              3     B    82      81 to 83     3
              4     A    103     102 to 104   3
        "#]]
        .assert_eq(&text);
        for text in [page(&report), markdown(&report)] {
            let text = text.replace("\u{1b}[0m", "").replace("\u{1b}[1m", "");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let vetoed = "but due_to_done_us_max is 40 % higher in every boot of B: not to be kept";
            assert!(text.contains(vetoed) && text.contains("beyond its limit: every boot of B is worse"), "{text}");
        }
        let calm = markdown(&guarded(false).report());
        assert!(
            calm.contains(
                "- guard due_to_done_us_max: A 500, 500; B 500, 500 us; B is 0.0 % higher; not worse by 25 %"
            ),
            "{calm}"
        );
        assert!(!calm.contains("not to be kept") && !markdown(&abba().report()).contains("guard"));
        let mut none = guarded(false);
        none.seen.clear();
        assert!(
            markdown(&none.report()).contains("A no boot yet; B no boot yet us; not worse"),
            "{}",
            markdown(&none.report())
        );
    }

    #[test]
    fn text_of_a_machine_ends_no_cell() {
        let mut state = abba();
        state.workload_words = "a | b\n# <script>".into();
        assert!(!markdown(&state.report()).contains("# <script>"));
        assert!(!markdown(&state.report()).contains("a | b"));
    }
}
