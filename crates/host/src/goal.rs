//! `Goal`: what the user wants of the host. Advice depends on it, facts do not.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// What to favour where one thing costs another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Steady ticks and short waits, at the price of CPU time and power.
    #[default]
    Latency,
    /// Work done a second.
    Throughput,
    /// Sessions a machine.
    Density,
}

impl Goal {
    /// Every goal, in the order they are shown.
    pub const ALL: [Goal; 3] = [Goal::Latency, Goal::Throughput, Goal::Density];
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Goal::Latency => "latency",
            Goal::Throughput => "throughput",
            Goal::Density => "density",
        })
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(name: &str) -> Result<Goal, String> {
        let known = || Goal::ALL.map(|goal| goal.to_string()).join(", ");
        Goal::ALL
            .into_iter()
            .find(|goal| goal.to_string() == name)
            .ok_or_else(|| format!("unknown goal {name:?}: expected one of {}", known()))
    }
}
