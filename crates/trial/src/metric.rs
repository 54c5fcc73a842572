//! `Metric`: a number that a window yields, with what is needed to read it. Built-in workloads have theirs as const data; of a
//! command's output or a Prometheus endpoint the names come from the user.

use std::borrow::Cow;

use evenkeel_stats::Direction;
use serde::{Deserialize, Serialize};

/// One number that a window yields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, with unit and quantile: `round_trip_us_p50`.
    pub name: Cow<'static, str>,
    /// What it is, in a few plain words.
    pub title: Cow<'static, str>,
    /// Its unit, such as `us`; `share` for a part of one; empty where it is not known.
    pub unit: Cow<'static, str>,
    /// Which way is better.
    pub better: Direction,
}

impl Metric {
    /// A metric that is known when the program is built.
    pub const fn new(name: &'static str, title: &'static str, unit: &'static str, better: Direction) -> Metric {
        Metric { name: Cow::Borrowed(name), title: Cow::Borrowed(title), unit: Cow::Borrowed(unit), better }
    }

    /// A time in microseconds: the shorter the better.
    pub const fn us(name: &'static str, title: &'static str) -> Metric {
        Metric::new(name, title, "us", Direction::Lower)
    }

    /// A metric that a user named; the title is the name.
    pub fn named(name: String, unit: String, better: Direction) -> Metric {
        Metric { title: Cow::Owned(name.clone()), name: Cow::Owned(name), unit: Cow::Owned(unit), better }
    }
}
