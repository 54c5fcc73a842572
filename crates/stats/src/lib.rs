//! The statistics behind a verdict: what one window of load is boiled down to, in which order two arms take their
//! turns, and what may honestly be said of the difference. Pure: seeds and data come in, and no clock or file is read.
//!
//! On a rented machine the noise is autocorrelated and it drifts, so that a test which takes windows for independent
//! (all of A, then all of B, then Welch or Mann-Whitney) calls a thing different from itself far more often than it
//! says. Everything here rests on the one source of chance that is ours: the coin that decides which arm of a pair goes
//! first. [`docs/statistics.md`](https://github.com/evenkeel/evenkeel/blob/main/docs/statistics.md) has the method in
//! plain words and the rates at which it errs.
//!
//! | step | item |
//! |---|---|
//! | many durations of one window | [`Histogram`], [`Summary`] |
//! | a few numbers, exactly | [`quantile`], [`median`], [`median_absolute_deviation`] |
//! | which arm goes first | [`PairDesign`], [`Order`]; of more than two, [`BlockDesign`] |
//! | one number a window to a ratio, an interval and a verdict, looked at after every pair | [`Sequential`], [`Look`], [`Verdict`] |
//! | the same after a number of pairs that was fixed beforehand | [`compare`], [`Comparison`] |
//! | two arms that take a reboot: few boots, one number each | [`boot_order`], [`compare_boots`], [`BootsComparison`] |
//! | what a machine lets one see, from A beside A | [`calibrate`], [`Calibration`] |
//! | a share of the time from windows at random moments, with its interval | [`ShareSum`], [`Share`] |
//! | many claims at once | [`e_benjamini_hochberg`], [`holm`] |
//!
//! For many knobs at once there are [`designs`]. Beside it all, [`periodicity`]: whether a CPU is taken away by the clock.
//!
//! ```
//! use evenkeel_stats::{Direction, Options, Order, Pair, PairDesign, Verdict, compare};
//!
//! let design = PairDesign::new(12, 42);
//! // What the meter would say of one window, the machine growing 1 % slower with each: B takes a fifth less time.
//! let wake_latency_us_p99 = |window: u64, scale: f64| scale * 100.0 * 1.01_f64.powi(window as i32);
//! let pairs: Vec<Pair> = (0..design.pairs())
//!     .map(|i| match design.order_of_pair(i) {
//!         Order::AFirst => Pair { a: wake_latency_us_p99(2 * i, 1.0), b: wake_latency_us_p99(2 * i + 1, 0.8) },
//!         Order::BFirst => Pair { b: wake_latency_us_p99(2 * i, 0.8), a: wake_latency_us_p99(2 * i + 1, 1.0) },
//!     })
//!     .collect();
//!
//! let comparison = compare(&pairs, Options::new(Direction::Lower))?;
//! assert_eq!(comparison.verdict, Verdict::Better);
//! assert!(comparison.low < 0.8 && 0.8 < comparison.high);
//! # Ok::<(), evenkeel_stats::StatsError>(())
//! ```

#[cfg(feature = "comparison")]
mod comparison;
mod histogram;
pub mod periodicity;
mod quantile;

#[cfg(feature = "comparison")]
pub use comparison::*;
pub use histogram::{Bar, Histogram, Summary};
pub use quantile::{median, median_absolute_deviation, quantile};
