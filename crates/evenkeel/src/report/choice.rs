//! The choice of the best arm: as a sentence, as rows for the terminal and the page, and as a section of the page.

use evenkeel_trial::saved::{ChoiceEntry, PairOfWindows, RunReport, TrialEntry};
use evenkeel_trial::{ArmName, Choice, Effect, Left, LeftWhy};
use maud::{Markup, html};

use super::chart::{self, Estimate};
use super::markup::word;
use super::trial::{source, ways};
use super::words::{as_change, range, share, trim};

/// The maximum number of marked pairs below an interval.
const RUG_MAX: usize = 400;

/// The sentence if no arm differs from the unchanged machine.
pub(crate) fn of_control(is_claimed: bool) -> String {
    match is_claimed {
        true => "arms with the same configuration show a difference, which is wrong: do not trust this run",
        false => "no arm differs from A, as it should be: all had the same configuration",
    }
    .to_owned()
}

/// Names the best arm in one sentence, which claims no more than the intervals show.
/// `knobs` has the settings of each arm except A.
pub(crate) fn of_choice(choice: &Choice, knobs: &[(ArmName, &str)], metric: &str) -> String {
    let named = |arm: ArmName| {
        let knob = knobs.iter().find(|(name, _)| *name == arm).map_or("unknown", |(_, knob)| *knob);
        format!("{arm} ({knob})")
    };
    let advised = choice.advised;
    match (&choice.better[..], &choice.alike[..]) {
        ([], _) => "no arm is better than A: keep the current configuration".to_owned(),
        ([one], _) => {
            format!("choose {}: it is the only arm that is better than A", named(*one))
        }
        (better, [best]) => {
            let next = better.iter().find(|arm| *arm != best).copied().unwrap_or(*best);
            let apart = choice.between(*best, next).and_then(|between| Some((between, between.effect?)));
            let lead = apart.map_or_else(String::new, |(between, effect)| {
                // The sentence names the best arm first,
                // so the ratio must be the best arm's value divided by the other's.
                let turned = |ratio: f64| if between.arm == *best { ratio } else { 1.0 / ratio };
                let ends = effect.low.zip(effect.high).map(|(low, high)| {
                    let [one, other] = [low, high].map(turned);
                    (one.min(other), one.max(other))
                });
                let between = ends.map_or_else(String::new, |(low, high)| {
                    format!(" ({} at {} confidence)", range(low, high), share(effect.confidence))
                });
                format!("; {metric} is {} than with {}{between}", as_change(turned(effect.ratio)), named(next))
            });
            format!("choose {}: it is better than A, and better than every other arm that is{lead}", named(*best))
        }
        (_, alike) => {
            let names: Vec<String> = alike.iter().map(|arm| named(*arm)).collect();
            format!(
                "{} are better than A, and no difference between them is shown: choose {advised}, which is closest to the current configuration",
                names.join(" and ")
            )
        }
    }
}

/// Why the trial measured no further windows of an arm, as text.
pub(crate) fn left(left: &Left) -> String {
    let block = left.block.saturating_add(1);
    let why = match &left.why {
        LeftWhy::Worse => "worse than A".to_owned(),
        LeftWhy::Same => "same as A".to_owned(),
        LeftWhy::Harm { guard } => format!("guard {guard} got worse"),
        LeftWhy::Beaten { by } => format!("{by} is better"),
        LeftWhy::Other => return format!("left after block {block}"),
    };
    format!("left after block {block}: {why}")
}

/// The titles of the columns. Each arm has one row.
pub(crate) const COLUMNS: [&str; 6] = ["arm", "settings", "median", "against A", "verdict", "pairs"];

/// One row for each arm, A first.
pub(crate) fn rows(entries: &[TrialEntry]) -> Vec<Vec<String>> {
    let number = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), trim);
    let of_a = entries.first().and_then(|entry| entry.report.arms.first());
    let a = of_a.map(|arm| {
        vec!["A".to_owned(), arm.values.clone(), number(arm.median), String::new(), String::new(), String::new()]
    });
    let further = entries.iter().filter_map(|entry| {
        let arm = entry.report.arms.get(1)?;
        let effect = entry.report.effect.as_ref();
        let ends = effect.and_then(|effect| effect.low.zip(effect.high));
        let change = match (effect, ends) {
            (None, _) => "not measured".to_owned(),
            (Some(effect), None) => as_change(effect.ratio),
            (Some(effect), Some((low, high))) => format!("{}, {}", as_change(effect.ratio), range(low, high)),
        };
        let pairs = entry.report.pairs.to_string();
        Some(vec![
            arm.arm.to_string(),
            arm.values.clone(),
            number(arm.median),
            change,
            entry.report.verdict.to_string(),
            pairs,
        ])
    });
    a.into_iter().chain(further).collect()
}

/// The section of the page that compares all arms.
pub(super) fn section(saved: &RunReport, choice: &ChoiceEntry) -> Markup {
    let Some(first) = saved.trials.first().map(|entry| &entry.report) else { return html! {} };
    let matters = first.design.smallest_effect_ratio;
    let source = source(saved, first);
    html! {
        section #which {
            h2 { "Best arm" }
            figure {
                (chart::estimates(&estimates(saved), matters, ways(first.metric.better), &source))
                figcaption {
                    "Each arm against A, in the blocks that have both: the change of " code { (first.metric.name) }
                    " with its confidence interval; small marks are single pairs. Grey band: too small to matter. All intervals hold together, \
                     at any time of the trial, with " (share(choice.choice.confidence)) " confidence."
                }
            }
            (table(saved))
            (between(&choice.choice))
            (chart::timeline_of_all(&saved.trials, &source))
        }
    }
}

fn estimates(saved: &RunReport) -> Vec<Estimate> {
    let row = |label: String, pairs: usize, effect: Option<Effect>, of: Vec<PairOfWindows<'_>>| Estimate {
        label,
        note: format!("{pairs} pairs"),
        ratio: effect.map(|effect| effect.ratio),
        interval: effect.and_then(|effect| effect.ends()),
        rug: of.iter().filter_map(PairOfWindows::ratio).take(RUG_MAX).collect(),
    };
    let arm = |entry: &TrialEntry| {
        let trial = &entry.report;
        row(format!("{}: {}", trial.other(), entry.knob), trial.pairs, trial.effect, trial.pairs_of_windows())
    };
    let mut rows: Vec<Estimate> = saved.trials.iter().map(arm).collect();
    if let Some(stretch) = saved.trials.first().and_then(|entry| entry.report.control_stretch.as_ref()) {
        rows.push(row("A/A phase".to_owned(), stretch.pairs, stretch.effect, stretch.pairs_of_windows()));
    }
    rows
}

fn table(saved: &RunReport) -> Markup {
    let number = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), trim);
    let of = |entry: &TrialEntry, at: usize| entry.report.arms.get(at).cloned();
    html! {
        div.wide {
            table {
                thead { tr {
                    @for title in ["arm", "settings", "verdict"] { th scope="col" { (title) } }
                    @for title in ["median", "change", "pairs"] { th.n scope="col" { (title) } }
                    th scope="col" { "windows" }
                } }
                tbody {
                    @if let Some(a) = saved.trials.first().and_then(|entry| of(entry, 0)) {
                        tr { th scope="row" { "A" } td { (a.values) } td {} td.n { (number(a.median)) } td.n {} td.n {} td { "in every block" } }
                    }
                    @for entry in &saved.trials {
                        @let trial = &entry.report;
                        tr {
                            th scope="row" { (trial.other()) } td { (entry.knob) } td { (word(trial.verdict)) }
                            td.n { (number(of(entry, 1).and_then(|arm| arm.median))) }
                            td.n { (trial.effect.map_or_else(|| "not measured".to_owned(), |effect| as_change(effect.ratio))) }
                            td.n { (trial.pairs) }
                            td { (trial.left.as_ref().map_or_else(|| "in every block".to_owned(), left)) }
                        }
                    }
                }
            }
        }
    }
}

/// The comparisons of the other arms with each other, without A.
fn between(choice: &Choice) -> Markup {
    if choice.between.is_empty() {
        return html! {};
    }
    html! {
        details {
            summary { "Arms compared with each other" }
            div.wide {
                table {
                    thead { tr {
                        @for title in ["arms", "verdict", "change"] { th scope="col" { (title) } } th.n scope="col" { "pairs" }
                    } }
                    tbody {
                        @for between in &choice.between {
                            tr {
                                th scope="row" { (between.arm) " against " (between.against) }
                                td { (word(between.verdict)) }
                                td {
                                    @match between.effect {
                                        None => "not measured",
                                        Some(effect) => {
                                            (as_change(effect.ratio))
                                            @if let Some((low, high)) = effect.ends() { ", " (range(low, high)) }
                                        }
                                    }
                                }
                                td.n { (between.pairs) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_trial::{Between, Effect, Interval, Outcome};
    use expect_test::expect;

    use super::*;

    fn effect(ratio: f64) -> Option<Effect> {
        let (low, high) = (Some(ratio * 0.95), Some(ratio * 1.05));
        let (interval, smallest_visible_ratio) = (Interval::Anytime, Some(0.05));
        Some(Effect {
            ratio,
            low,
            high,
            confidence: 0.95,
            interval,
            p_value: 0.01,
            e_value: Some(99.0),
            smallest_visible_ratio,
        })
    }

    #[test]
    fn a_sentence_for_each_choice() {
        use ArmName::{A, B, C};
        let knobs = [(B, "k=1"), (C, "k=2")];
        let between = vec![Between { arm: C, against: B, pairs: 9, effect: effect(0.8), verdict: Outcome::Better }];
        let choice = |better: &[ArmName], alike: &[ArmName], advised: ArmName| Choice {
            confidence: 0.95,
            better: better.to_vec(),
            alike: alike.to_vec(),
            advised,
            between: between.clone(),
        };
        let all = [
            choice(&[], &[], A),
            choice(&[B], &[B], B),
            choice(&[C, B], &[C], C),
            choice(&[B, C], &[B], B),
            choice(&[C, B], &[C, B], B),
        ];
        let mut text: Vec<String> = all.iter().map(|choice| of_choice(choice, &knobs, "the round trip")).collect();
        text.extend([false, true].map(of_control));
        expect![[r#"
            no arm is better than A: keep the current configuration
            choose B (k=1): it is the only arm that is better than A
            choose C (k=2): it is better than A, and better than every other arm that is; the round trip is 20 % lower than with B (k=1) (between 16 % and 24 % lower at 95 % confidence)
            choose B (k=1): it is better than A, and better than every other arm that is; the round trip is 25 % higher than with C (k=2) (between 19 % and 32 % higher at 95 % confidence)
            C (k=2) and B (k=1) are better than A, and no difference between them is shown: choose B, which is closest to the current configuration
            no arm differs from A, as it should be: all had the same configuration
            arms with the same configuration show a difference, which is wrong: do not trust this run
        "#]]
        .assert_eq(&(text.join("\n") + "\n"));
    }

    #[test]
    fn an_arms_reason_to_leave_is_shown_and_an_unknown_one_is_accepted() {
        let harm = LeftWhy::Harm { guard: "x_us_p99".to_owned() };
        let whys = [LeftWhy::Worse, LeftWhy::Same, harm, LeftWhy::Beaten { by: ArmName::C }];
        let text = whys.map(|why| left(&Left { block: 8, why }));
        expect![[r#"
            left after block 9: worse than A
            left after block 9: same as A
            left after block 9: guard x_us_p99 got worse
            left after block 9: C is better
        "#]]
        .assert_eq(&(text.join("\n") + "\n"));
        let block = usize::MAX;
        assert_eq!(left(&Left { block, why: LeftWhy::Other }), format!("left after block {block}"));
    }
}
