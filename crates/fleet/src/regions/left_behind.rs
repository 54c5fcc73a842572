//! Finds the players that a set of regions leaves behind: in groups, with the region that would serve each group.

use serde::Serialize;

use super::latencies::{Latencies, UNMEASURED, milliseconds, quantile};
use super::players::{Players, UNITS};

/// The maximum number of groups of a report.
const GROUPS_SHOWN_MAX: usize = 20;

/// Players above a latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftBehind {
    /// The limit, in milliseconds.
    pub above_ms: f64,
    /// How many players have a latency above the limit.
    pub players: f64,
    /// The share of these players in all players, from 0 to 1.
    pub share: f64,
    /// The largest groups of these players, by the table's column `group` or `country`.
    /// Without such a column, players are grouped by the region that would serve them best.
    pub groups: Vec<Group>,
    /// How many groups are not listed.
    pub groups_left_out: usize,
}

/// Players above a latency that belong together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// The name of the group in the table. `null` if the table has no such column.
    pub name: Option<String>,
    /// How many players of the group are above the latency.
    pub players: f64,
    /// The median latency of these players, in milliseconds; `null` if the regions do not reach them.
    pub p50_ms: Option<f64>,
    /// The candidate that is nearest to most of these players; `null` if no candidate reaches them.
    pub nearest: Option<String>,
    /// The median latency of these players if all candidates were chosen, in milliseconds; `null` if no candidate reaches them.
    pub nearest_p50_ms: Option<f64>,
}

/// The data of a group.
struct Members {
    /// For each player, the latency to the nearest chosen region, with the weight. `nearest`: the latency to the nearest candidate.
    latencies: Vec<(u32, u64)>,
    nearest: Vec<(u32, u64)>,
    by_region: Vec<u64>,
    total: u64,
}

/// Finds the players above `limit_us`.
pub(super) fn find(players: &Players, set: u64, limit_us: u32) -> LeftBehind {
    let latencies = &players.latencies;
    let regions = players.candidates.len();
    let all = (1 << regions) - 1;
    let has_names = !players.groups.is_empty();
    let mut groups: Vec<Option<Members>> = Vec::new();
    // The last group is for players that no region reaches.
    groups.resize_with(if has_names { players.groups.len() } else { regions + 1 }, || None);
    let mut sum = 0;
    for ((row, weight), number) in latencies.rows().zip(&latencies.weights).zip(&latencies.groups) {
        let (_, latency) = Latencies::nearest(row, set);
        if latency <= limit_us {
            continue;
        }
        sum += weight;
        let (region, nearest) = Latencies::nearest(row, all);
        let group = match (has_names, nearest) {
            (true, _) => *number as usize,
            (false, UNMEASURED) => regions,
            (false, _) => region,
        };
        let new = || Members { latencies: Vec::new(), nearest: Vec::new(), by_region: vec![0; regions], total: 0 };
        let Some(members) = groups.get_mut(group).map(|group| group.get_or_insert_with(new)) else { continue };
        members.total += weight;
        members.latencies.push((latency, *weight));
        members.nearest.push((nearest, *weight));
        if nearest != UNMEASURED {
            members.by_region[region] += weight;
        }
    }
    let mut found: Vec<(usize, Members)> =
        groups.into_iter().enumerate().filter_map(|(at, members)| Some((at, members?))).collect();
    found.sort_by_key(|(at, members)| (std::cmp::Reverse(members.total), *at));
    let groups_left_out = found.len().saturating_sub(GROUPS_SHOWN_MAX);
    let shown = found.into_iter().take(GROUPS_SHOWN_MAX);
    LeftBehind {
        above_ms: f64::from(limit_us) / 1000.0,
        players: sum as f64 / UNITS,
        share: sum as f64 / latencies.total as f64,
        groups: shown.map(|(at, members)| group(players, at, members)).collect(),
        groups_left_out,
    }
}

fn group(players: &Players, at: usize, mut members: Members) -> Group {
    let half = members.total.div_ceil(2);
    let p50_ms = |latencies: &mut Vec<(u32, u64)>| {
        latencies.sort_unstable();
        milliseconds(quantile(latencies, half))
    };
    let most = members.by_region.iter().enumerate().filter(|(_, weight)| **weight > 0);
    let nearest = most.max_by_key(|(at, weight)| (**weight, std::cmp::Reverse(*at))).map(|(at, _)| at);
    Group {
        name: players.groups.get(at).cloned(),
        players: members.total as f64 / UNITS,
        p50_ms: p50_ms(&mut members.latencies),
        nearest: nearest.map(|at| players.candidates[at].region.clone()),
        nearest_p50_ms: p50_ms(&mut members.nearest),
    }
}
