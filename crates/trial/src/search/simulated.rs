//! A simulated server: knobs with known effects, under noise as measured on rented machines.
//! Tests and benchmarks use this server, because nobody knows the right set on a real machine.
//!
//! The noise of a window acts on the logarithm and is autocorrelated (0.66 from window to window, as measured for round trips).
//! The noise has the tails of Student's t with three degrees of freedom.
//! A simulated neighbour slows the server down for some windows now and then.

use evenkeel_stats::{Direction, Pair, Sequential, StatsError, Verdict as Judged};
use evenkeel_workload::{Metric, Sample, WorkloadError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Candidate, SearchDesign, Subject, WindowResult};
use crate::arm::{Arm, Level};
use crate::conditions::Conditions;
use crate::error::TrialError;

/// The measured metric.
pub const METRIC: Metric = Metric::new("lateness_us_p50", "median lateness", "us", Direction::Lower);

/// The tail of the simulated server's latency, which every window also has.
pub const TAIL: Metric = Metric::us("lateness_us_p99", "99th percentile of lateness");

/// The effects of the knobs, on the logarithm of the metric: below 0 is better.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Truth {
    /// The number of knobs.
    pub knobs: usize,
    /// The effects of single knobs at the tested value.
    pub mains: Vec<(usize, f64)>,
    /// The additional effects of two knobs together.
    pub pairs: Vec<([usize; 2], f64)>,
    /// The effects of single knobs at another value: the first step of their first list of values.
    pub further: Vec<(usize, f64)>,
    /// Knobs that make the server end.
    pub deadly: Vec<usize>,
    /// Knobs whose values are refused.
    pub refused: Vec<usize>,
    /// The additional effects of single knobs on the tail, beyond the effect on the median.
    pub tails: Vec<(usize, f64)>,
    /// Knobs that have the name and value of a real knob, as `KNOB=VALUE`, so that they have known counters.
    pub named: Vec<(usize, &'static str)>,
    /// Counters: the name, the knob, and how much the counter grows in a window with this knob on, and with this knob off.
    pub counters: Vec<(&'static str, usize, [f64; 2])>,
    /// The approximate standard deviation of a window's noise over a few windows. A median round trip over one second has 0.04.
    pub noise: f64,
}

impl Truth {
    /// This truth has 30 knobs: three help by 8 to 20 %, one hurts by 15 %, and two help by 12 % only together.
    pub fn three_of_thirty() -> Truth {
        Truth {
            knobs: 30,
            mains: vec![(4, -0.22), (11, -0.12), (23, -0.085), (17, 0.14)],
            pairs: vec![([7, 28], -0.13)],
            noise: 0.04,
            ..Truth::default()
        }
    }

    /// A guide of 40 lines: three lines help by 8 to 20 %, one line hurts by 15 %, and the others do nothing.
    pub fn guide_of_forty() -> Truth {
        Truth {
            knobs: 40,
            mains: vec![(4, -0.22), (11, -0.12), (23, -0.085), (17, 0.14)],
            noise: 0.04,
            ..Truth::default()
        }
    }

    /// The sum of the effects of this arm, without noise.
    pub fn cost(&self, arm: &Arm) -> f64 {
        let is_on = |knob: usize| *arm.level(knob) != Level::AsItWas;
        let main = |(knob, effect): &(usize, f64)| match arm.level(*knob) {
            Level::AsItWas => 0.0,
            Level::Planned => *effect,
            Level::Value(_) => {
                effect + self.further.iter().filter(|(other, _)| other == knob).map(|(_, more)| more).sum::<f64>()
            }
        };
        let mains: f64 = self.mains.iter().map(main).sum();
        let both = |(knobs, _): &&([usize; 2], f64)| knobs.iter().all(|knob| is_on(*knob));
        mains + self.pairs.iter().filter(both).map(|(_, effect)| effect).sum::<f64>()
    }

    /// The candidates of a search among these knobs. Their names have no meaning.
    pub fn candidates(&self) -> Vec<Candidate> {
        let ways = |knob: usize| match self.further.iter().any(|(other, _)| *other == knob) {
            true => vec![vec!["2".to_owned()]],
            false => Vec::new(),
        };
        let setting = |knob: usize| match self.named.iter().find(|(other, _)| *other == knob) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("knob{knob}=1"),
        };
        (0..self.knobs).map(|knob| Candidate { settings: vec![setting(knob)], ways: ways(knob) }).collect()
    }
}

/// A simulated server with the state of its noise.
pub struct Simulated {
    truth: Truth,
    chance: ChaCha8Rng,
    /// The autocorrelated part of the noise of the last window.
    drift: f64,
    /// The factor by which the neighbour slows the server, and the number of windows for which this continues.
    neighbour: (f64, u32),
    /// The number of windows so far.
    pub windows: usize,
    /// The index of the first window that fails. All later windows fail too. `None` means that no window fails.
    pub fails_from: Option<usize>,
}

impl Simulated {
    /// A server with these true effects and this seed of the noise.
    pub fn new(truth: Truth, seed: u64) -> Simulated {
        let chance = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed_0f57);
        Simulated { truth, chance, drift: 0.0, neighbour: (0.0, 0), windows: 0, fails_from: None }
    }

    /// A standard normal number, as the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.chance.random::<f64>()).sum::<f64>() - 6.0
    }

    /// The noise of the next window, on the logarithm of the metric.
    fn noise(&mut self) -> f64 {
        let scale = self.truth.noise;
        self.drift = 0.66 * self.drift + 0.6 * scale * self.normal();
        let square: f64 = (0..3).map(|_| self.normal().powi(2)).sum::<f64>() / 3.0;
        let tail = 0.5 * scale * self.normal() / square.max(1e-6).sqrt();
        if self.neighbour.1 == 0 && self.chance.random::<f64>() < 0.02 {
            self.neighbour = (4.0 * scale * self.chance.random::<f64>(), 2 + self.chance.random_range(0..10_u32));
        }
        let (takes, left) = self.neighbour;
        self.neighbour = (takes, left.saturating_sub(1));
        self.drift + tail + if left > 0 { takes } else { 0.0 }
    }

    /// The metric in one window of an arm.
    pub fn measure(&mut self, arm: &Arm) -> f64 {
        self.windows += 1;
        50.0 * (self.truth.cost(arm) + self.noise()).exp()
    }
}

/// Compares one knob after another with the unchanged machine, as people do by hand.
/// Each comparison runs until it is decided. This function uses the test of the search, and the same confidence over all knobs together.
/// Returns the knobs that help, and the number of windows.
///
/// # Errors
/// Fails if the options of the design are invalid.
pub fn one_at_a_time(
    design: &SearchDesign,
    server: &mut Simulated,
    pairs_max: usize,
) -> Result<(Vec<usize>, usize), StatsError> {
    let (mut chance, mut windows, mut helping) = (ChaCha8Rng::seed_from_u64(design.seed), 0, Vec::new());
    let baseline = design.baseline();
    for knob in 0..design.candidates.len() {
        let mut test = Sequential::new(design.options(design.candidates.len()))?;
        let mut arm = baseline.clone();
        arm.0[knob] = Level::Planned;
        while test.verdict() == Judged::Undecided && test.pairs() < pairs_max {
            windows += 2;
            let pair = if chance.random::<bool>() {
                let a = server.measure(&baseline);
                Pair { a, b: server.measure(&arm) }
            } else {
                let b = server.measure(&arm);
                Pair { a: server.measure(&baseline), b }
            };
            test.add(pair)?;
        }
        if test.verdict() == Judged::Better {
            helping.push(knob);
        }
    }
    Ok((helping, windows))
}

impl Subject for Simulated {
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
        if self.fails_from.is_some_and(|from| self.windows >= from) {
            let why = "it can't be started any more".into();
            return Err(WorkloadError::Program { program: "simulated".into(), why }.into());
        }
        let on = |knobs: &[usize]| knobs.iter().copied().find(|knob| *arm.level(*knob) != Level::AsItWas);
        if let Some(setting) = on(&self.truth.refused) {
            self.windows += 1;
            return Ok(WindowResult::Refused { setting, why: "invalid argument (EINVAL)".into() });
        }
        if on(&self.truth.deadly).is_some() {
            self.windows += 1;
            return Ok(WindowResult::Died { why: "it ended (signal: 9)".into() });
        }
        let value = self.measure(arm);
        let is_on = |knob: usize| *arm.level(knob) != Level::AsItWas;
        let worse: f64 = self.truth.tails.iter().filter(|(knob, _)| is_on(*knob)).map(|(_, more)| more).sum();
        let tail = 4.0 * value * (worse + self.truth.noise * self.normal()).exp();
        let sample = Sample::from([
            (METRIC.name.to_string(), value),
            (TAIL.name.to_string(), tail),
            ("cpu_share".to_owned(), 0.1),
        ]);
        let count = |(name, knob, [on, off]): &(&'static str, usize, [f64; 2])| {
            ((*name).to_owned(), if is_on(*knob) { *on } else { *off })
        };
        let counters = self.truth.counters.iter().map(count).collect();
        let conditions = Some(Box::new(Conditions { counters, ..Conditions::default() }));
        Ok(WindowResult::Measured { value, sample, conditions })
    }
}
