//! The statistics behind a verdict: how a window of load becomes one number,
//! in which order two arms run, and which conclusions the difference allows.
//! The crate is pure: seeds and data come in, and it reads no clock and no file.
//!
//! On a rented machine the noise is autocorrelated and drifts.
//! Some tests treat windows as independent (all of A, then all of B, then Welch or Mann-Whitney).
//! Such a test calls a system different from itself far more often than it promises.
//! This crate relies on the one random choice that evenkeel controls: the coin that decides which arm of a pair goes first.
//! `docs/statistics.md` explains the method in plain words and gives its error rates.
//!
//! | step | item |
//! |---|---|
//! | many durations of one window | [`Histogram`], [`Summary`] |
//! | a few numbers, exactly | [`quantile`], [`median`], [`median_absolute_deviation`] |
//! | which arm goes first | [`PairDesign`], [`Order`]; of more than two, [`BlockDesign`] |
//! | a ratio, an interval and a verdict from one number per window, tested after every pair | [`Sequential`], [`Look`], [`Verdict`] |
//! | a ratio, an interval and a verdict after a fixed number of pairs | [`compare`], [`Comparison`] |
//! | two arms that need a reboot: few boots, one number each | [`boot_order`], [`compare_boots`], [`BootsComparison`] |
//! | the smallest detectable effect, from an A/A phase | [`calibrate`], [`Calibration`] |
//! | a share of the time from windows at random moments, with its interval | [`ShareSum`], [`Share`] |
//! | many claims at once | [`e_benjamini_hochberg`], [`holm`] |
//!
//! For many knobs at once there are [`designs`]. The separate module [`periodicity`] finds whether a CPU is taken away periodically.
//!
//! ```
//! use evenkeel_stats::{Direction, Options, Order, Pair, PairDesign, Verdict, compare};
//!
//! let design = PairDesign::new(12, 42);
//! // The meter's result for one window. The machine gets 1 % slower with each window, and B takes a fifth less time.
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

/// Compiles and runs the example in README.md as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "comparison")]
mod comparison;
mod histogram;
pub mod periodicity;
mod quantile;

#[cfg(feature = "comparison")]
pub use comparison::*;
pub use histogram::{Bar, Histogram, Summary};
pub use quantile::{median, median_absolute_deviation, quantile};
