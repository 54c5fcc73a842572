//! How many free places for sessions an autoscaler should hold, and why.
//!
//! A session that starts takes a free place at once. Where no node has room, the next free place comes with a new node.
//! So the free places must last for all sessions that start before the new node has room.
//! Starts come at random: their number in a fixed time follows a Poisson distribution around its mean, if no start causes another.
//! The buffer is that distribution's 99th percentile.

use serde::Serialize;

/// How often the autoscaler compares, in seconds: Agones' default.
pub(super) const SYNC_S: u32 = 30;
/// While a node starts, the buffer may run out in this share of cases.
const EMPTY_SHARE: f64 = 0.01;
/// Terms of the distribution below this share of the largest term do not change the percentile.
const TERM_MIN: f64 = 1e-12;
/// Agones counts game servers in 32 bits.
const SERVERS_MAX: u64 = i32::MAX as u64;

/// The inputs of the advice. `None` for an input that the user did not give.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// How many sessions start in a minute at the busiest hour.
    pub starts_per_minute: Option<f64>,
    /// The time from the request for a node to a ready game server on it, in seconds.
    pub node_start_s: Option<f64>,
    /// The maximum number of nodes.
    pub nodes_max: Option<u32>,
}

/// A number that the advice needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// How many sessions start in a minute.
    StartsPerMinute,
    /// How long a new node takes.
    NodeStart,
    /// The maximum number of nodes.
    NodesMax,
    /// How many sessions fit on a node.
    SessionsPerNode,
}

/// The advice, or what is missing for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BufferAdvice {
    /// All inputs are known.
    Known(Buffer),
    /// Some inputs are unknown.
    Unknown {
        /// The unknown inputs.
        missing: Vec<Input>,
    },
}

/// How many free places the autoscaler should hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Buffer {
    /// Free places for sessions.
    pub sessions: u32,
    /// The mean number of sessions that start in `lead_s`.
    pub starts_mean: f64,
    /// The time until a new node has a place, in seconds: until the autoscaler's next comparison, and then until the node's server is ready.
    pub lead_s: f64,
    /// How many sessions fit on a node.
    pub sessions_per_node: u32,
    /// How many nodes the free places of the buffer need.
    pub nodes: f64,
    /// The maximum number of sessions on all nodes.
    pub sessions_max: u64,
}

/// Why there is no buffer that Agones accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// The buffer is larger than all nodes together.
    #[error("the buffer is {sessions} sessions, and {nodes_max} nodes have places for {sessions_max}")]
    AboveNodes {
        /// The free places of the buffer.
        sessions: u64,
        /// The maximum number of nodes.
        nodes_max: u32,
        /// The number of places on all nodes.
        sessions_max: u64,
    },
    /// There are more sessions than Agones can count.
    #[error("{0} sessions are more than Agones counts")]
    TooMany(u64),
}

/// The buffer for this demand, on nodes with `sessions_per_node` places each.
pub(super) fn buffer(demand: &Demand, sessions_per_node: Option<u32>) -> Result<BufferAdvice, BufferError> {
    let missing: Vec<Input> = [
        (demand.starts_per_minute.is_none(), Input::StartsPerMinute),
        (demand.node_start_s.is_none(), Input::NodeStart),
        (demand.nodes_max.is_none(), Input::NodesMax),
        (sessions_per_node.is_none(), Input::SessionsPerNode),
    ]
    .into_iter()
    .filter_map(|(is_missing, input)| is_missing.then_some(input))
    .collect();
    let (Some(per_minute), Some(node_start_s), Some(nodes_max), Some(sessions_per_node)) =
        (demand.starts_per_minute, demand.node_start_s, demand.nodes_max, sessions_per_node)
    else {
        return Ok(BufferAdvice::Unknown { missing });
    };
    let lead_s = f64::from(SYNC_S) + node_start_s;
    let starts_mean = per_minute / 60.0 * lead_s;
    let sessions_max = u64::from(nodes_max) * u64::from(sessions_per_node);
    let sessions = percentile(starts_mean).max(1);
    if sessions_max > SERVERS_MAX {
        return Err(BufferError::TooMany(sessions_max));
    }
    if sessions > sessions_max {
        return Err(BufferError::AboveNodes { sessions, nodes_max, sessions_max });
    }
    Ok(BufferAdvice::Known(Buffer {
        sessions: sessions as u32,
        starts_mean,
        lead_s,
        sessions_per_node,
        nodes: sessions as f64 / f64::from(sessions_per_node),
        sessions_max,
    }))
}

/// The smallest number of places that runs out in at most one of 100 waits, for a Poisson distribution with this mean.
fn percentile(mean: f64) -> u64 {
    // The terms are relative to the largest one, because e^-mean alone would be 0 for means above 745.
    let mode = mean.floor();
    let below: Vec<f64> = std::iter::successors(Some((mode, 1.0)), |(at, term)| Some((at - 1.0, term * at / mean)))
        .take_while(|(at, term)| *at >= 0.0 && *term >= TERM_MIN)
        .map(|(_, term)| term)
        .collect();
    let above: Vec<f64> = std::iter::successors(Some((mode + 1.0, mean / (mode + 1.0))), |(at, term)| {
        Some((at + 1.0, term * mean / (at + 1.0)))
    })
    .take_while(|(_, term)| *term >= TERM_MIN)
    .map(|(_, term)| term)
    .collect();
    let all: f64 = below.iter().chain(&above).sum();
    // Sum the terms from the largest number down, until the tail reaches the share.
    let (mut at, mut tail) = (mode as u64 + above.len() as u64, 0.0);
    for term in above.iter().rev().chain(&below) {
        tail += term;
        if tail > EMPTY_SHARE * all {
            return at;
        }
        at = at.saturating_sub(1);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The percentile by the plain formula, for means that it can compute.
    fn by_formula(mean: f64) -> u64 {
        let (mut term, mut sum, mut at) = ((-mean).exp(), 0.0, 0_u64);
        loop {
            sum += term;
            if 1.0 - sum <= EMPTY_SHARE {
                return at;
            }
            at += 1;
            term *= mean / at as f64;
        }
    }

    #[test]
    fn the_buffer_is_the_percentile_of_the_starts() {
        // These values come from tables of the Poisson distribution.
        for (mean, expected) in [(0.0, 0), (0.01, 0), (1.0, 4), (5.0, 11), (10.0, 18), (100.0, 124)] {
            assert_eq!(percentile(mean), expected, "{mean}");
        }
        for tenths in 1..600 {
            let mean = f64::from(tenths) / 10.0;
            assert_eq!(percentile(mean), by_formula(mean), "{mean}");
        }
        // For a large mean, the percentile is about the mean plus 2.33 standard deviations.
        for mean in [1e4, 1e6, 3.3e8] {
            let normal = mean + 2.3263 * f64::sqrt(mean);
            assert!(
                (percentile(mean) as f64 - normal).abs() < 2.0 + 1e-4 * f64::sqrt(mean),
                "{mean}: {}",
                percentile(mean)
            );
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        let demand = Demand { starts_per_minute: Some(6.0), node_start_s: Some(90.0), nodes_max: Some(10) };
        let BufferAdvice::Known(known) = buffer(&demand, Some(8)).unwrap() else { panic!() };
        assert_eq!((known.starts_mean, known.lead_s, known.sessions, known.sessions_max), (12.0, 120.0, 21, 80));
        assert_eq!(known.nodes, 21.0 / 8.0);
        let missing = |demand: &Demand, per_node| match buffer(demand, per_node).unwrap() {
            BufferAdvice::Unknown { missing } => missing,
            BufferAdvice::Known(known) => panic!("{known:?}"),
        };
        assert_eq!(missing(&demand, None), [Input::SessionsPerNode]);
        assert_eq!(missing(&Demand { node_start_s: None, ..demand }, Some(8)), [Input::NodeStart]);
        let all = [Input::StartsPerMinute, Input::NodeStart, Input::NodesMax, Input::SessionsPerNode];
        assert_eq!(missing(&Demand::default(), None), all);
    }

    #[test]
    fn a_buffer_that_fits_nowhere_is_refused() {
        let demand = Demand { starts_per_minute: Some(60.0), node_start_s: Some(90.0), nodes_max: Some(2) };
        let error = buffer(&demand, Some(8)).unwrap_err();
        assert_eq!(error, BufferError::AboveNodes { sessions: 146, nodes_max: 2, sessions_max: 16 });
        let huge = Demand { nodes_max: Some(u32::MAX), ..demand };
        assert!(matches!(buffer(&huge, Some(u32::MAX)), Err(BufferError::TooMany(_))));
        // Without any start, the buffer is still one place, because Agones accepts no buffer of 0.
        let idle = Demand { starts_per_minute: Some(0.0), ..demand };
        assert!(matches!(buffer(&idle, Some(8)), Ok(BufferAdvice::Known(Buffer { sessions: 1, .. }))));
    }
}
