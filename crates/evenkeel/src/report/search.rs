//! The page of a search.
//! It shows the effect of every knob with its interval, the set, the omitted knobs
//! with the reasons, the proof, and the time by stage.

use std::path::Path;
use std::time::Duration;

use evenkeel_trial::search::{Answer, Interaction, KnobAnswer, KnobOutcome, Measure, Stage, Verdict as Found, Whole};
use schemars::JsonSchema;
use serde::Serialize;

use super::chart::{self, Estimate, Source};
use super::trial::ways;
use super::words::{as_change, range};
use crate::failure::Failure;
use crate::show::tune::{SearchResult, name, outcome};
use crate::times;
use crate::view::{Block, Column, Text, Verdict, sentence};

/// Writes the page of a search as `report.html`, and the answer as `report.json`.
/// The page begins with the blocks of `first`. Returns a note for the user.
pub(crate) fn write<T: Serialize + JsonSchema>(
    folder: &Path,
    answer: &T,
    result: &SearchResult,
    first: Vec<Block>,
) -> Result<String, Failure> {
    let taken = super::taken_now();
    let mut all = first;
    all.extend(blocks(result, &taken));
    let sub = Text::from(format!("{taken} · evenkeel {} · {}", env!("CARGO_PKG_VERSION"), result.workload));
    let [page, data] = super::write_blocks(folder, "evenkeel search report", &sub, all, answer)?;
    Ok(format!("report: {} and {}", page.display(), data.display()))
}

/// The blocks of a search.
pub(crate) fn blocks(result: &SearchResult, taken: &str) -> Vec<Block> {
    let answer = &result.answer;
    let source = Source {
        host: result.workload.clone(),
        date: taken.to_owned(),
        command: format!("seed {}, metric {}", result.design.seed, result.design.metric.name),
    };
    let opening = vec![Block::Verdict(verdict(result)), Block::caveats(&answer.caveats)];
    let mut blocks = vec![Block::Opening(opening)];
    blocks.extend(drawn("All settings of the guide together", &whole(result), result, &source));
    blocks.extend(drawn(
        "The effect of each knob, measured together with all others",
        &screened(answer),
        result,
        &source,
    ));
    blocks.extend(ladders(answer));
    blocks.extend(interactions(answer));
    blocks.extend(drawn("The set with each knob against the set without it", &left_out_one(answer), result, &source));
    blocks.extend(drawn("The proof, on fresh pairs of windows", &proof(result), result, &source));
    blocks.push(Block::section("Every knob", vec![knobs(result)]));
    blocks.extend(not_tried(result));
    blocks.push(Block::section("Time by stage", vec![stages(result)]));
    blocks
}

fn verdict(result: &SearchResult) -> Verdict {
    let answer = &result.answer;
    let (outcome, badge) = match answer.verdict {
        Found::Better => (Some(evenkeel_trial::Outcome::Better), "better"),
        Found::NothingHelped => (Some(evenkeel_trial::Outcome::Same), "nothing helped"),
        Found::NotProved => (Some(evenkeel_trial::Outcome::Undecided), "not proved"),
    };
    let metric = &result.design.metric.title;
    let says = match (&answer.effect, answer.verdict) {
        (Some(effect), Found::Better) => {
            format!("{metric} is {} with {} of {} knobs", as_change(effect.ratio), answer.set.len(), answer.knobs.len())
        }
        (_, Found::NothingHelped) => format!("no set of these knobs improved {metric} clearly"),
        _ => format!("no set of these knobs was proved to improve {metric}"),
    };
    Verdict { outcome, badge: badge.to_owned(), is_repeated: false, says }
}

fn estimate(label: String, note: String, measure: &Measure) -> Estimate {
    let interval = measure.low.zip(measure.high);
    Estimate { label, note, ratio: Some(measure.ratio), interval, rug: Vec::new() }
}

fn screened(answer: &Answer) -> Vec<Estimate> {
    let row = |knob: &KnobAnswer| {
        let measure = knob.screening.as_ref()?;
        let steps =
            if knob.steps > 0 { format!("; its value was moved {} steps further", knob.steps) } else { String::new() };
        Some(estimate(knob.settings.join(" "), format!("{} pairs{steps}", measure.pairs), measure))
    };
    answer.knobs.iter().filter_map(row).collect()
}

fn left_out_one(answer: &Answer) -> Vec<Estimate> {
    let row = |knob: &KnobAnswer| {
        let measure = knob.without.as_ref()?;
        Some(estimate(knob.settings.join(" "), format!("{} pairs", measure.pairs), measure))
    };
    answer.knobs.iter().filter_map(row).collect()
}

/// The results of other values of the knobs that changed the metric. `None` if the search tried no other values.
fn ladders(answer: &Answer) -> Option<Block> {
    let rows: Vec<[Text; 4]> = answer
        .knobs
        .iter()
        .flat_map(|knob| {
            knob.ladder.iter().map(|tried| {
                let range =
                    tried.effect.low.zip(tried.effect.high).map_or_else(String::new, |(low, high)| range(low, high));
                let taken = if tried.is_taken { "taken" } else { "not better" };
                [
                    Text::code(format!("{}={}", knob.name(), tried.value)),
                    as_change(tried.effect.ratio).into(),
                    range.into(),
                    taken.into(),
                ]
            })
        })
        .collect();
    let header = ["value", "change from the value before", "95 % interval", "result"];
    (!rows.is_empty()).then(|| Block::section("Other values", vec![Block::table(header, rows)]))
}

/// The joint effect of every two knobs that changed the metric. `None` if the search measured no joint effect.
fn interactions(answer: &Answer) -> Option<Block> {
    let row = |found: &Interaction| {
        let p_value = if found.p_value < 0.001 { "below 0.001".to_owned() } else { format!("{:.3}", found.p_value) };
        [
            Text::code(found.knobs[0].clone()),
            Text::code(found.knobs[1].clone()),
            as_change(found.ratio).into(),
            p_value.into(),
        ]
    };
    let rows: Vec<[Text; 4]> = answer.interactions.iter().map(row).collect();
    let header = ["knob", "with", "beyond the sum of both", "p-value"];
    (!rows.is_empty()).then(|| Block::section("Joint effects", vec![Block::table(header, rows)]))
}

/// The effect of all settings of a guide together.
fn whole(result: &SearchResult) -> Vec<Estimate> {
    let title = || result.design.metric.title.clone().into_owned();
    let row = |whole: &Whole| {
        let note = format!("{} settings, {} pairs", result.answer.knobs.len(), whole.effect.pairs);
        estimate(title(), note, &whole.effect)
    };
    result.answer.whole.iter().map(row).collect()
}

/// The effect of the chosen set, and of its guards.
fn proof(result: &SearchResult) -> Vec<Estimate> {
    let answer = &result.answer;
    let title = || result.design.metric.title.clone().into_owned();
    let set = answer.effect.iter().map(|effect| estimate(title(), format!("the set, {} pairs", effect.pairs), effect));
    let guards = answer.guards.iter().map(|guard| Estimate {
        label: guard.metric.clone(),
        note: format!("guard of the set, {} pairs", guard.pairs),
        ratio: Some(guard.ratio),
        interval: guard.low.zip(guard.high),
        rug: Vec::new(),
    });
    set.chain(guards).collect()
}

fn drawn(title: &str, rows: &[Estimate], result: &SearchResult, source: &Source) -> Option<Block> {
    if rows.is_empty() {
        return None;
    }
    let matters = result.design.smallest_effect_ratio;
    let drawing = chart::estimates(rows, matters, ways(result.design.metric.better), source);
    let words = |row: &Estimate| {
        let change = row.ratio.map_or_else(|| "not measured".to_owned(), as_change);
        let interval = row.interval.map_or_else(String::new, |(low, high)| range(low, high));
        [Text::code(row.label.clone()), change.into(), interval.into(), row.note.clone().into()]
    };
    let table = Block::table(["setting", "change", "95 % interval", "basis"], rows.iter().map(words).collect());
    Some(Block::section(title, vec![Block::Drawing(drawing, Text::default()), table]))
}

fn knobs(result: &SearchResult) -> Block {
    let row = |knob: &KnobAnswer| {
        let word = if knob.outcome == KnobOutcome::InTheSet {
            "in the set".to_owned()
        } else {
            outcome(knob, result.design.smallest_effect_ratio)
        };
        [Text::code(knob.settings.join(" ")), word.into()]
    };
    Block::table(["knob", "outcome"], result.answer.knobs.iter().map(row).collect())
}

fn not_tried(result: &SearchResult) -> Option<Block> {
    if result.not_tried.is_empty() {
        return None;
    }
    let rows = result.not_tried.iter().map(|left| [Text::code(left.knob.clone()), left.why.to_string().into()]);
    Some(Block::section("Not tried", vec![Block::table(["knob", "why"], rows.collect())]))
}

fn stages(result: &SearchResult) -> Block {
    let all: usize = result.answer.windows.values().sum();
    let took = |windows: usize| {
        let share = windows as f64 / all.max(1) as f64;
        times::words(Duration::from_millis((result.answer.took_ms as f64 * share) as u64))
    };
    let row = |(stage, windows): (&Stage, &usize)| {
        [
            Text::from(sentence(name(*stage)).trim_end_matches('.')),
            windows.to_string().into(),
            format!("about {}", took(*windows)).into(),
        ]
    };
    Block::table(
        [Column::from("stage"), Column::number("windows"), Column::number("time")],
        result.answer.windows.iter().map(row).collect(),
    )
}
