//! The rules that drop a window. They are fixed before the run and ignore the arm.
//! A rule that used the arm or the metric could produce any verdict.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::conditions::Conditions;

/// Limits for the conditions of a window. The whole pair is dropped if a condition exceeds its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rules {
    /// The maximum delay with which the watching thread may wake, in microseconds.
    /// A pause of a whole virtual machine takes tens of milliseconds and can affect either arm.
    pub gap_us_max: f64,
    /// The maximum share of CPU time that the hypervisor may have given to others, from the kernel's counter.
    pub steal_share_max: f64,
    /// How much longer than planned a window may have taken, as a share of the planned length.
    pub overrun_share_max: f64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { gap_us_max: 40_000.0, steal_share_max: 0.10, overrun_share_max: 0.5 }
    }
}

/// Why a window was dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DropReason {
    /// The watching thread woke too late.
    Gap {
        /// The longest delay of the thread, in microseconds.
        gap_us: f64,
    },
    /// The hypervisor gave too much CPU time to others.
    Steal {
        /// The share of all CPU time.
        share: f64,
    },
    /// The window took far longer than planned.
    Overrun {
        /// The duration of the window in microseconds.
        span_us: f64,
    },
    /// The server was ready to run for most of the window but got no CPU, so there is nothing to compare.
    NoCpu {
        /// The thread, and how long this thread got no CPU.
        what: String,
    },
    /// The window has no value that can be compared.
    NoValue {
        /// Why the window has no such value.
        what: String,
    },
    /// Another program wrote a setting during the window.
    Changed {
        /// The value at the end of the window, and the value after the switch.
        what: String,
    },
    /// A rule of a later version, in a report that is read again.
    Other {
        /// The rule's name.
        rule: String,
        /// The observed values, by name.
        numbers: BTreeMap<String, f64>,
    },
}

impl DropReason {
    /// The kind of the reason without its figure, for counting.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            DropReason::Gap { .. } => "the machine paused",
            DropReason::Steal { .. } => "CPU time was stolen",
            DropReason::Overrun { .. } => {
                "a window took much longer than planned (the load, what gives the numbers, or the machine was slow)"
            }
            DropReason::NoCpu { .. } => "the server was given no CPU",
            DropReason::NoValue { .. } => "there was no value to compare",
            DropReason::Changed { .. } => "somebody else changed a setting of the trial",
            DropReason::Other { .. } => "a rule that this evenkeel does not know",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DropReason::Gap { gap_us } => write!(f, "the machine paused for {:.0} ms", gap_us / 1000.0),
            DropReason::Steal { share } => write!(f, "{:.0} % of CPU time was stolen", share * 100.0),
            DropReason::Overrun { span_us } => write!(f, "the window took {:.0} ms", span_us / 1000.0),
            DropReason::NoCpu { what } => write!(f, "the server was given no CPU: {what}"),
            DropReason::NoValue { what } => write!(f, "there was no value to compare: {what}"),
            DropReason::Changed { what } => write!(f, "somebody else changed {what}"),
            DropReason::Other { rule, numbers } => {
                let seen: Vec<String> = numbers.iter().map(|(name, value)| format!(" {name} {value}")).collect();
                write!(f, "{rule}{}", seen.join(","))
            }
        }
    }
}

impl Rules {
    /// Whether a window under these conditions is dropped, and why. An unknown value never causes a drop.
    pub fn judge(&self, window: Duration, conditions: &Conditions) -> Option<DropReason> {
        // Check this first. A changed setting stays changed, so this is the most important reason.
        if let Some(what) = conditions.changed.first() {
            return Some(DropReason::Changed { what: what.clone() });
        }
        let planned_us = window.as_secs_f64() * 1e6;
        if let Some(gap_us) = conditions.longest_gap_us.filter(|gap_us| *gap_us > self.gap_us_max) {
            return Some(DropReason::Gap { gap_us });
        }
        if let Some(share) = conditions.steal_share.filter(|share| *share > self.steal_share_max) {
            return Some(DropReason::Steal { share });
        }
        if let Some(what) = &conditions.no_cpu {
            return Some(DropReason::NoCpu { what: what.clone() });
        }
        if let Some(what) = &conditions.no_value {
            return Some(DropReason::NoValue { what: what.clone() });
        }
        let span_us = conditions.span_us;
        (span_us > planned_us * (1.0 + self.overrun_share_max)).then_some(DropReason::Overrun { span_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_dropped_for_what_the_machine_did() {
        let quiet = Conditions { span_us: 1_000_000.0, ..Conditions::default() };
        let rules = Rules::default();
        let table = [
            (quiet.clone(), None),
            (Conditions { longest_gap_us: Some(39_000.0), ..quiet.clone() }, None),
            (Conditions { longest_gap_us: Some(86_000.0), ..quiet.clone() }, Some("the machine paused for 86 ms")),
            (Conditions { steal_share: Some(0.1), ..quiet.clone() }, None),
            (Conditions { steal_share: Some(0.25), ..quiet.clone() }, Some("25 % of CPU time was stolen")),
            (
                Conditions { changed: vec!["k from 5 to 6".into()], steal_share: Some(0.25), ..quiet.clone() },
                Some("somebody else changed k from 5 to 6"),
            ),
            (
                Conditions { no_cpu: Some("main waited".into()), ..quiet.clone() },
                Some("the server was given no CPU: main waited"),
            ),
            (Conditions { span_us: 1_600_000.0, ..quiet }, Some("the window took 1600 ms")),
        ];
        for (conditions, expected) in table {
            let reason = rules.judge(Duration::from_secs(1), &conditions).map(|reason| reason.to_string());
            assert_eq!(reason.as_deref(), expected, "{conditions:?}");
        }
    }
}
