//! Chooses where to put servers: the regions with the best latency for nearly all players, or the fewest regions that keep it under a limit.
//!
//! `players` reads a table of latencies or positions, `choose` finds the set, `cover` proves it, and the report lists who is left behind.

mod asked;
mod candidates;
mod choose;
mod cover;
mod latencies;
mod left_behind;
mod map;
mod model;
mod players;
mod report;

use std::io::Read;

pub use self::asked::{Candidates, Goal, RegionsError};
pub use self::candidates::{CANDIDATES_MAX, Candidate, Known, PROVIDERS, catalogue, read as read_candidates};
use self::choose::{Choice, Chosen};
use self::latencies::{UNMEASURED, microseconds, milliseconds};
pub use self::left_behind::{Group, LeftBehind};
pub use self::model::{LatencyModel, Position, Spread};
use self::players::Players;
pub use self::report::{Latency, PlayersRead, Proof, Report, Served};

/// A report, and a map of it.
#[derive(Debug)]
pub struct Answer {
    /// The report.
    pub report: Report,
    players: Players,
    set: u64,
}

/// Chooses regions for the players of a table.
///
/// # Errors
/// If the table is wrong, or the goal can't be reached.
pub fn choose(table: impl Read, candidates: &Candidates, goal: &Goal) -> Result<Answer, RegionsError> {
    if goal.count.is_none() && goal.within_ms.is_none() {
        return Err(RegionsError::NoGoal);
    }
    let players = players::read(table, candidates)?;
    let chosen = search(&players, candidates, goal)?;
    let report = report::report(&players, candidates, goal, &chosen);
    Ok(Answer { report, players, set: chosen.set })
}

impl Answer {
    /// The regions and the players as an SVG document. `None` if no position is known.
    pub fn map(&self) -> Option<String> {
        map::svg(&self.players, self.set, &self.report)
    }
}

fn search(players: &Players, candidates: &Candidates, goal: &Goal) -> Result<Chosen, RegionsError> {
    let (all, latencies) = (&players.candidates, &players.latencies);
    let is_kept = |candidate: &Candidate| candidates.keep.contains(&candidate.region);
    let keep = all.iter().enumerate().filter(|(_, one)| is_kept(one)).fold(0, |set, (at, _)| set | 1 << at);
    let choice = Choice { keep, all: (1 << all.len()) - 1, thousandths: goal.thousandths };
    if let Some(count) = goal.count.filter(|count| *count < keep.count_ones()) {
        return Err(RegionsError::TooFew { keep: candidates.keep.len(), count });
    }
    let need = latencies.share(goal.thousandths);
    let least = latencies.within(choice.all, need);
    if least == UNMEASURED {
        let reached: u64 = latencies
            .served(choice.all)
            .iter()
            .filter(|(latency, _)| *latency != UNMEASURED)
            .map(|(_, weight)| weight)
            .sum();
        return Err(RegionsError::Unmeasured { percent: reached as f64 / latencies.total as f64 * 100.0 });
    }
    let chosen = match (goal.count, goal.within_ms) {
        (Some(count), _) => choose::best(latencies, &choice, count.min(all.len() as u32)),
        (None, within) => choose::fewest(latencies, &choice, microseconds(within.unwrap_or(f64::MAX))),
    };
    let percentile = f64::from(goal.thousandths) / 10.0;
    chosen.ok_or_else(|| match (goal.count, goal.within_ms) {
        (None, Some(within_ms)) => RegionsError::OutOfReach {
            regions: all.len(),
            percentile,
            least_ms: milliseconds(least).unwrap_or_default(),
            within_ms,
        },
        (count, _) => RegionsError::TooFewReach { count: count.unwrap_or_default(), regions: all.len(), percentile },
    })
}
