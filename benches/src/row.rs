//! One row: a number for evenkeel and for each peer, and the ratio to the best peer.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context;
use evenkeel_stats::{Direction, Options, Pair, compare, median, quantile};
use serde::Serialize;

/// The result of one row, as in `target/bench/ROW.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    format: u32,
    row: &'static str,
    unit: &'static str,
    better: &'static str,
    ours: Figure,
    /// The numbers of other modes of evenkeel, which are not compared with peers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    other_modes: BTreeMap<String, Figure>,
    peers: BTreeMap<String, Figure>,
    /// Peers that are not installed on this machine, each with advice how to install it.
    skipped: BTreeMap<String, String>,
    ratio_to_best_peer: Option<Ratio>,
    seed: u64,
}

/// The numbers of several runs of one program.
#[derive(Debug, Serialize)]
struct Figure {
    median: f64,
    /// The 10th percentile of the runs.
    low: f64,
    /// The 90th percentile of the runs.
    high: f64,
    runs: usize,
    version: String,
}

/// evenkeel's number divided by the peer's, round by round.
#[derive(Debug, Serialize)]
struct Ratio {
    peer: String,
    ratio: f64,
    /// The lower end of the 95 % confidence interval, computed by `evenkeel_stats::compare`.
    low: f64,
    high: f64,
}

/// The name, the version and the numbers of one program, one number per round.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) rounds: Vec<f64>,
}

/// The numbers of all programs of a row, evenkeel's first.
pub(crate) struct Measurements {
    pub(crate) row: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) all: Vec<Measured>,
    pub(crate) skipped: BTreeMap<String, String>,
    pub(crate) seed: u64,
}

impl Row {
    /// A row in which lower is better.
    ///
    /// # Errors
    /// If there are no results, or a result cannot be compared.
    pub(crate) fn new(measurements: Measurements) -> anyhow::Result<Row> {
        Row::in_direction(measurements, Direction::Lower)
    }

    /// A row in which higher is better.
    ///
    /// # Errors
    /// As [`Row::new`].
    pub(crate) fn of_more(measurements: Measurements) -> anyhow::Result<Row> {
        Row::in_direction(measurements, Direction::Higher)
    }

    fn in_direction(measurements: Measurements, better: Direction) -> anyhow::Result<Row> {
        let Measurements { row, unit, all, skipped, seed } = measurements;
        let (ours, peers) = all.split_first().context("nothing was measured")?;
        let mut best: Option<(&Measured, f64)> = None;
        let mut figures = BTreeMap::new();
        for peer in peers {
            let figure = Figure::new(peer)?;
            let is_better = |than: f64| match better {
                Direction::Lower => figure.median < than,
                Direction::Higher => figure.median > than,
            };
            if best.is_none_or(|(_, median)| is_better(median)) {
                best = Some((peer, figure.median));
            }
            figures.insert(peer.name.clone(), figure);
        }
        let ratio_to_best_peer = best.map(|(peer, _)| Ratio::new(ours, peer, better)).transpose()?;
        let ours = Figure::new(ours)?;
        let better = match better {
            Direction::Lower => "lower",
            Direction::Higher => "higher",
        };
        let other_modes = BTreeMap::new();
        Ok(Row { format: 1, row, unit, better, ours, other_modes, peers: figures, skipped, ratio_to_best_peer, seed })
    }

    /// Adds other modes of evenkeel.
    ///
    /// # Errors
    /// If a mode has no results.
    pub(crate) fn with_modes(mut self, modes: &[Measured]) -> anyhow::Result<Row> {
        for mode in modes {
            self.other_modes.insert(mode.name.clone(), Figure::new(mode)?);
        }
        Ok(self)
    }
}

impl Figure {
    fn new(measured: &Measured) -> anyhow::Result<Figure> {
        let at = |share| quantile(&measured.rounds, share).with_context(|| format!("{} has no figure", measured.name));
        Ok(Figure {
            median: median(&measured.rounds).with_context(|| format!("{} has no figure", measured.name))?,
            low: at(0.1)?,
            high: at(0.9)?,
            runs: measured.rounds.len(),
            version: measured.version.clone(),
        })
    }
}

impl Ratio {
    fn new(ours: &Measured, peer: &Measured, better: Direction) -> anyhow::Result<Ratio> {
        let rounds = peer.rounds.iter().zip(&ours.rounds);
        let pairs: Vec<Pair> = rounds.map(|(peer, ours)| Pair { a: *peer, b: *ours }).collect();
        let comparison = compare(&pairs, Options::new(better))?;
        Ok(Ratio { peer: peer.name.clone(), ratio: comparison.ratio, low: comparison.low, high: comparison.high })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} in {}, median and the middle four fifths of the runs, {} is better",
            self.row, self.unit, self.better
        )?;
        let ours = std::iter::once(("evenkeel", &self.ours));
        let others = self.other_modes.iter().chain(&self.peers);
        for (name, figure) in ours.chain(others.map(|(name, figure)| (name.as_str(), figure))) {
            let Figure { median, low, high, runs, version } = figure;
            writeln!(f, "  {name:24} {median:9.2} [{low:.2}, {high:.2}] {runs} runs, {version}")?;
        }
        for (name, why) in &self.skipped {
            writeln!(f, "  {name:24} skipped: {why}")?;
        }
        match &self.ratio_to_best_peer {
            Some(Ratio { peer, ratio, low, high }) => {
                writeln!(f, "  ratio to {peer}: {ratio:.3} [{low:.3}, {high:.3}]")
            }
            None => writeln!(f, "  no peer is installed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, rounds: &[f64]) -> Measured {
        Measured { name: name.to_owned(), version: "1".to_owned(), rounds: rounds.to_vec() }
    }

    #[test]
    fn the_best_peer_is_the_one_with_the_lowest_median() {
        // The machine slows down by half during the rounds. Therefore only the ratio within each round is 2.
        let slowing: Vec<f64> = (0..20).map(|round| 10.0 + f64::from(round) / 4.0).collect();
        let ours: Vec<f64> = slowing.iter().map(|ms| ms * 2.0).collect();
        let all = vec![measured("ours", &ours), measured("slow", &[90.0; 20]), measured("fast", &slowing)];
        let row = Row::new(Measurements { row: "r", unit: "ms", all, skipped: BTreeMap::new(), seed: 7 }).unwrap();
        let ratio = row.ratio_to_best_peer.unwrap();
        assert_eq!(ratio.peer, "fast");
        assert!((ratio.ratio - 2.0).abs() < 1e-9 && ratio.low <= ratio.ratio && ratio.ratio <= ratio.high, "{ratio:?}");
        assert_eq!((row.peers.len(), row.ours.runs), (2, 20));
    }

    #[test]
    fn another_mode_of_evenkeel_is_shown_and_is_no_peer() {
        let all = vec![measured("ours", &[2.0; 12]), measured("peer", &[4.0; 12])];
        let row = Row::new(Measurements { row: "r", unit: "ms", all, skipped: BTreeMap::new(), seed: 7 }).unwrap();
        let row = row.with_modes(&[measured("ours, other mode", &[1.0; 12])]).unwrap();
        assert_eq!((row.ratio_to_best_peer.as_ref().unwrap().peer.as_str(), row.peers.len()), ("peer", 1));
        assert!(row.to_string().contains("ours, other mode              1.00 [1.00, 1.00] 12 runs"), "{row}");
    }

    #[test]
    fn of_more_the_best_peer_has_the_highest_median() {
        let all = vec![measured("ours", &[14.0; 12]), measured("few", &[7.0; 12]), measured("many", &[10.0; 12])];
        let row = Row::of_more(Measurements { row: "r", unit: "sessions", all, skipped: BTreeMap::new(), seed: 7 });
        let row = row.unwrap();
        assert_eq!((row.better, row.ratio_to_best_peer.as_ref().unwrap().peer.as_str()), ("higher", "many"));
        assert!((row.ratio_to_best_peer.unwrap().ratio - 1.4).abs() < 1e-9);
    }

    #[test]
    fn without_peers_there_is_no_ratio() {
        let of = |all| Row::new(Measurements { row: "r", unit: "ms", all, skipped: BTreeMap::new(), seed: 7 });
        assert!(of(vec![measured("ours", &[1.0])]).unwrap().ratio_to_best_peer.is_none());
        assert!(of(vec![]).is_err());
    }
}
