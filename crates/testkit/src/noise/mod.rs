//! Noise models for tests of statistics: how the same work varies from window to window. Some are synthetic, each the worst of its kind.
//! Some were recorded; the headers in `traces/` say how.

use std::f64::consts::TAU;

use evenkeel_stats::{Order, Pair, PairDesign};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A kind of noise by its name.
pub struct Noise {
    /// The name of the kind.
    pub name: &'static str,
    made: Made,
}

enum Made {
    /// Independent and normal on the log scale, with this standard deviation.
    Independent(f64),
    /// Autoregressive with lag-1 correlation 0.9 and a standard deviation of 10 %.
    Autocorrelated,
    /// The same as `Autocorrelated`, on a machine that gets 1 % slower with each window.
    Drifting,
    /// A standard deviation of 3 %. Now and then, for four windows on average, a neighbour costs a third more and raises it to 40 %.
    Bursty,
    /// Student's t with 2 degrees of freedom, scale 5 %: its variance is infinite.
    HeavyTailed,
    /// A column of a trace. It starts anywhere, and continues at the beginning after its end.
    Recorded(Vec<f64>),
}

/// Every trace: its name, its text and the column.
const TRACES: &[(&str, &str, usize)] = &[
    ("recorded: UDP p50", include_str!("traces/udp-busy.txt"), 0),
    ("recorded: UDP p99", include_str!("traces/udp-busy.txt"), 1),
    ("recorded, quiet: UDP p50", include_str!("traces/udp-quiet.txt"), 0),
    ("recorded, quiet: UDP p99", include_str!("traces/udp-quiet.txt"), 1),
    ("recorded: work, wall time", include_str!("traces/cpu-busy.txt"), 0),
];

/// All kinds.
pub fn all() -> Vec<Noise> {
    let made_up = [
        ("independent, 5 %", Made::Independent(0.05)),
        ("autocorrelated", Made::Autocorrelated),
        ("drifting", Made::Drifting),
        ("bursty", Made::Bursty),
        ("heavy-tailed", Made::HeavyTailed),
    ];
    let recorded = TRACES.iter().map(|(name, text, column)| (*name, Made::Recorded(numbers(text, *column))));
    made_up.into_iter().chain(recorded).map(|(name, made)| Noise { name, made }).collect()
}

fn numbers(text: &str, column: usize) -> Vec<f64> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| row.split_whitespace().nth(column)?.parse().ok()).collect()
}

impl Noise {
    /// A series of windows, the same for A and B.
    pub fn windows(&self, count: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
        if let Made::Recorded(trace) = &self.made {
            let start = random.random_range(0..trace.len());
            return (start..start + count).map(|at| trace[at % trace.len()]).collect();
        }
        let mut state = 0.10 * normal(random);
        let mut burst = false;
        (0..count).map(|window| 100.0 * self.next(window, &mut state, &mut burst, random).exp()).collect()
    }

    fn next(&self, window: usize, state: &mut f64, burst: &mut bool, random: &mut ChaCha8Rng) -> f64 {
        match &self.made {
            Made::Independent(sd) => sd * normal(random),
            Made::Autocorrelated | Made::Drifting => {
                *state = 0.9 * *state + 0.10 * f64::sqrt(1.0 - 0.9 * 0.9) * normal(random);
                *state + if matches!(self.made, Made::Drifting) { 0.01 * window as f64 } else { 0.0 }
            }
            Made::Bursty => {
                *burst = random.random::<f64>() < if *burst { 0.75 } else { 0.05 };
                0.03 * normal(random) + if *burst { 0.3 + 0.4 * normal(random).abs() } else { 0.0 }
            }
            Made::HeavyTailed => {
                // Half the sum of two squared normals is exponential.
                let exponential = -(1.0 - random.random::<f64>()).ln();
                0.05 * normal(random) / exponential.sqrt()
            }
            Made::Recorded(_) => 0.0,
        }
    }

    /// Pairs in random order, as evenkeel measures, with B's windows multiplied by `ratio`.
    pub fn pairs(&self, count: usize, ratio: f64, seed: u64) -> Vec<Pair> {
        // Use a separate random stream, because noise is independent of the order of arms.
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(1);
        let windows = self.windows(2 * count, &mut random);
        let pair = |(order, two): (Order, &[f64])| match order {
            Order::AFirst => Pair { a: two[0], b: two[1] * ratio },
            Order::BFirst => Pair { b: two[0] * ratio, a: two[1] },
        };
        PairDesign::new(count as u64, seed).orders().zip(windows.chunks_exact(2)).map(pair).collect()
    }
}

/// The Box-Muller transform.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
}
