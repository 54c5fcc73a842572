//! The report: the chosen regions, the latency of players with them, and the proof.

use serde::Serialize;

use super::asked::{Candidates, Goal};
use super::candidates::{Candidate, Known};
use super::choose::Chosen;
use super::cover::bits;
use super::latencies::{Latencies, UNMEASURED, microseconds, milliseconds, quantile};
use super::left_behind::{self, LeftBehind};
use super::model::{self, LatencyModel, Position};
use super::players::{Players, UNITS};

/// How many columns a caveat names.
const NAMED_MAX: usize = 5;

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The players.
    pub players: PlayersRead,
    /// How latencies were estimated from positions; `null` if the table has latencies.
    pub model: Option<LatencyModel>,
    /// How many regions there were to choose from.
    pub candidates: usize,
    /// The chosen regions, those with the most players first.
    pub chosen: Vec<Served>,
    /// The latency of all players, each to the nearest chosen region.
    pub latency: Latency,
    /// Whether another set can be better.
    pub proof: Proof,
    /// Players above the limit, or above the percentile if there is no limit.
    pub left_behind: LeftBehind,
    /// What to consider before you use the answer.
    pub caveats: Vec<String>,
}

/// The contents of a table of players.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlayersRead {
    /// The number of players: the sum of the weights of all rows.
    pub count: f64,
    /// The number of rows of the table.
    pub rows: u64,
    /// The number of latencies that the table leaves empty. A region without a latency does not reach the player.
    pub unmeasured: u64,
}

/// A region, and the players that are nearest to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Served {
    /// The cloud's name of the region.
    pub region: String,
    /// The cloud; `null` if the list does not name it.
    pub provider: Option<String>,
    /// The place, as the cloud names it; `null` if it is not known.
    pub named: Option<String>,
    /// Where the region is; `null` if it is not known.
    pub position: Option<Position>,
    /// How exact the position is; `null` if it is not from the catalogue.
    pub known: Option<Known>,
    /// Whether the user asked to keep the region.
    pub is_kept: bool,
    /// The number of players that are nearest to the region.
    pub players: f64,
    /// The median of these players' latencies, in milliseconds; `null` if the region has no players.
    pub p50_ms: Option<f64>,
    /// The percentile of these players' latencies, in milliseconds; `null` if the region has no players.
    pub percentile_ms: Option<f64>,
}

/// The latency of all players, in milliseconds; `null` if the regions reach too few players.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// The median.
    pub p50_ms: Option<f64>,
    /// The percentile that `percentile_ms` is about, such as 95.
    pub percentile: f64,
    /// The latency at this percentile, which the search minimises.
    pub percentile_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: Option<f64>,
}

/// Whether another set can be better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proof {
    /// Whether it is proven that no set with as many regions has a lower latency at the percentile, and that no smaller set is within the limit.
    pub is_best: bool,
    /// No set with as many regions has a lower latency at the percentile than this, in milliseconds.
    pub bound_ms: f64,
    /// Whether it is proven that no smaller set is within the limit. `null` if the user gave the number of regions.
    pub is_fewest: Option<bool>,
}

/// Makes the report.
pub(super) fn report(players: &Players, candidates: &Candidates, goal: &Goal, chosen: &Chosen) -> Report {
    let latencies = &players.latencies;
    let served = latencies.served(chosen.set);
    let at = |thousandths| milliseconds(quantile(&served, latencies.share(thousandths)));
    let limit_us = goal.within_ms.map_or(chosen.percentile_us, microseconds);
    let model = players.places.is_some().then_some(model::MODEL);
    let is_best = chosen.bound_us == chosen.percentile_us && chosen.is_count_proven;
    let mut report = Report {
        players: PlayersRead {
            count: latencies.total as f64 / UNITS,
            rows: players.rows,
            unmeasured: players.unmeasured,
        },
        model,
        candidates: players.candidates.len(),
        chosen: regions(players, candidates, goal, chosen.set),
        latency: Latency {
            p50_ms: at(500),
            percentile: f64::from(goal.thousandths) / 10.0,
            percentile_ms: at(goal.thousandths),
            p99_ms: at(990),
        },
        proof: Proof {
            is_best,
            bound_ms: f64::from(chosen.bound_us) / 1000.0,
            is_fewest: goal.count.is_none().then_some(chosen.is_count_proven),
        },
        left_behind: left_behind::find(players, chosen.set, limit_us),
        caveats: Vec::new(),
    };
    report.caveats = caveats(&report, goal);
    report.caveats.extend(unknown_columns(players, candidates));
    report
}

/// A caveat if some columns of a table of latencies are regions of a cloud, and others are not: the other columns may not be latencies.
fn unknown_columns(players: &Players, candidates: &Candidates) -> Option<String> {
    let (known, mut unknown): (Vec<&Candidate>, Vec<&Candidate>) =
        players.candidates.iter().partition(|one| one.provider.is_some());
    // The user named these.
    unknown.retain(|one| !candidates.among.contains(&one.region) && !candidates.keep.contains(&one.region));
    if players.places.is_some() || known.is_empty() || unknown.is_empty() {
        return None;
    }
    let named: Vec<&str> = unknown.iter().take(NAMED_MAX).map(|one| one.region.as_str()).collect();
    let more = if unknown.len() > NAMED_MAX { ", …" } else { "" };
    Some(format!(
        "these columns count as regions, and no cloud has such a region: {}{more}; --among names the only regions to choose from",
        named.join(", ")
    ))
}

/// The chosen regions, with the players that are nearest to each.
fn regions(players: &Players, candidates: &Candidates, goal: &Goal, set: u64) -> Vec<Served> {
    let latencies = &players.latencies;
    let mut nearest: Vec<Vec<(u32, u64)>> = vec![Vec::new(); players.candidates.len()];
    for (row, weight) in latencies.rows().zip(&latencies.weights) {
        let (region, latency) = Latencies::nearest(row, set);
        if latency != UNMEASURED {
            nearest[region].push((latency, *weight));
        }
    }
    let mut chosen: Vec<Served> = bits(set)
        .map(|region| {
            let served = &mut nearest[region];
            served.sort_unstable();
            let total: u64 = served.iter().map(|(_, weight)| weight).sum();
            let at = |thousandths: u32| {
                let need = (u128::from(total) * u128::from(thousandths)).div_ceil(1000);
                milliseconds(quantile(served, u64::try_from(need).unwrap_or(u64::MAX)))
            };
            let candidate = &players.candidates[region];
            Served {
                region: candidate.region.clone(),
                provider: candidate.provider.clone(),
                named: candidate.named.clone(),
                position: candidate.position,
                known: candidate.known,
                is_kept: candidates.keep.contains(&candidate.region),
                players: total as f64 / UNITS,
                p50_ms: at(500),
                percentile_ms: at(goal.thousandths),
            }
        })
        .collect();
    chosen.sort_by(|a, b| b.players.total_cmp(&a.players).then_with(|| a.region.cmp(&b.region)));
    chosen
}

fn caveats(report: &Report, goal: &Goal) -> Vec<String> {
    let mut caveats = Vec::new();
    if let Some(model) = &report.model {
        let spread = model.measured_over_estimate;
        caveats.push(format!(
            "latencies are estimates from distances: measured round trips between data centres are {} to {} times as long for 8 of 10 pairs, \
             and the players' own access is not in them; measure before you decide between regions that are close",
            spread.p10, spread.p90
        ));
        let is_area = |one: &&Served| one.known == Some(Known::StateOrCountry);
        let areas: Vec<&str> = report.chosen.iter().filter(is_area).map(|one| one.region.as_str()).collect();
        if !areas.is_empty() {
            caveats.push(format!(
                "the cloud names only a state or country for {}; the position is that of a city in it",
                areas.join(", ")
            ));
        }
    }
    if report.players.unmeasured > 0 {
        let count = report.players.unmeasured;
        caveats.push(format!("empty latencies: {count}; such a player counts as not reached by such a region"));
    }
    if report.proof.is_fewest == Some(false) {
        caveats.push("the search ended by its bound on work: fewer regions may be within the limit".to_owned());
    }
    if report.proof.bound_ms < report.latency.percentile_ms.unwrap_or(f64::INFINITY) {
        let bound = report.proof.bound_ms;
        caveats.push(format!(
            "the search ended by its bound on work: another set may be better, but none has a percentile below {bound:.1} ms"
        ));
    }
    if let Some(count) = goal.count.filter(|count| (report.chosen.len() as u32) < *count) {
        caveats.push(match report.chosen.len() {
            all if all == report.candidates => format!("--count is {count}, and only {all} can be chosen from"),
            1 => format!("1 of {count} regions is enough: more lower no latency"),
            some => format!("{some} of {count} regions are enough: more lower no latency"),
        });
    }
    caveats
}
