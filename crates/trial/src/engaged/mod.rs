//! Decides whether a knob was engaged.
//! For example, if other programs keep the CPUs awake, no idle knob has an effect.
//! The answer "no effect" would then be false, and the true answer is "not engaged".

mod observed;

use evenkeel_host::Counter;
use evenkeel_stats::median;
use serde::{Deserialize, Serialize};

use crate::arm::ArmName;
use crate::caveat::Caveat;
use crate::counters::{FREQUENCY, IDLE_STATES, Sign, counter_of};
use crate::outcome::Outcome;
use crate::session::{NetworkPath, Record};

pub(crate) use observed::Observed;
use observed::median_of;

/// If all CPUs together go idle less often than this per second, no idle knob matters to a server.
const ENTRIES_A_SECOND_MIN: f64 = 100.0;
/// Above this share of busy time the CPUs hardly ever idle, so an idle knob has nothing to act on.
const BUSY_SHARE_MAX: f64 = 0.9;
/// The name of the reading that shows how busy the CPUs were.
const BUSY_SHARE: &str = "busy_share";
/// An idle knob was engaged if the mean exit latency of the entered states differs by more than this share between the arms.
const EXIT_LATENCY_RATIO_MIN: f64 = 0.05;
/// A scheduler setting is not engaged if threads wait for a CPU for a smaller share of the time.
const WAITING_SHARE_MIN: f64 = 0.001;
/// Frequencies, or shares of interrupts, that differ by less than this count as equal.
const DIFFERENCE_MIN: f64 = 0.01;

/// Whether a knob was engaged, with the counters that show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mechanism {
    /// The knob.
    pub knob: String,
    /// The counters. Each value is the median over the windows of an arm.
    pub readings: Vec<Reading>,
    /// Whether it was engaged.
    pub engaged: Engaged,
}

/// The value of one counter in both arms: its increase during a window, or its value at the end of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// The counter's name.
    pub name: String,
    /// The value in arm A. None if no window has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<f64>,
    /// The value in arm B. None if no window has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<f64>,
}

/// Whether a knob was engaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Engaged {
    /// A counter shows that the knob was engaged.
    Yes,
    /// A counter shows that the knob was not engaged.
    No {
        /// Why it was not engaged.
        why: String,
    },
    /// Unknown: the knob has no counter, or the kernel does not report it.
    Unknown,
}

/// For each knob of a record, whether its windows show that the knob was engaged.
pub(crate) fn mechanisms(record: &Record) -> Vec<Mechanism> {
    // Two equal arms differ in no knob, so no knob can be engaged.
    let is_control = record.arms[0] == record.arms[1];
    let windows: Vec<Observed<'_>> =
        record.windows.iter().map(|window| Observed { arm: window.arm, conditions: &window.conditions }).collect();
    record.knobs.iter().map(|knob| mechanism(&windows, record.network, knob, is_control)).collect()
}

/// Whether these windows of two arms show that a knob was engaged.
pub(crate) fn mechanism(windows: &[Observed<'_>], network: NetworkPath, knob: &str, is_control: bool) -> Mechanism {
    let counter = counter_of(knob);
    let readings = counter.map_or_else(Vec::new, |counter| readings(windows, knob, counter));
    let engaged = match counter.filter(|_| !is_control && !windows.is_empty()) {
        Some(counter) => judge(windows, network, knob, counter),
        None => Engaged::Unknown,
    };
    Mechanism { knob: knob.to_owned(), readings, engaged }
}

/// Whether there are knobs, and the counters show that none of them was engaged.
pub(crate) fn none_engaged(mechanism: &[Mechanism]) -> bool {
    !mechanism.is_empty() && mechanism.iter().all(|knob| matches!(knob.engaged, Engaged::No { .. }))
}

/// The caveats about knobs that were not engaged or hardly engaged, for this verdict.
pub(crate) fn caveats(mechanism: &[Mechanism], verdict: Outcome) -> Vec<Caveat> {
    let caveat = |seen: &Mechanism| {
        let knob = (mechanism.len() > 1).then(|| seen.knob.clone());
        match &seen.engaged {
            Engaged::No { why } if verdict == Outcome::NotEngaged => {
                Some(Caveat::NotEngaged { knob, why: why.clone() })
            }
            // A counter covers only one path by which a knob acts.
            // If the counter did not move, a measured difference may still be real.
            // Without a difference, another path may still have a small effect.
            Engaged::No { why } => Some(Caveat::MechanismUnseen { knob, why: why.clone() }),
            Engaged::Yes if counter_of(&seen.knob) == Some(Counter::IdleStates) => {
                let busy = seen.readings.iter().find(|reading| reading.name == BUSY_SHARE)?;
                let busy = busy.a.zip(busy.b).map(|(a, b)| a.min(b)).filter(|busy| *busy > BUSY_SHARE_MAX)?;
                Some(Caveat::BusyForIdleKnob { knob, busy_share: busy })
            }
            _ => None,
        }
    };
    mechanism.iter().filter_map(caveat).collect()
}

fn readings(windows: &[Observed<'_>], knob: &str, counter: Counter) -> Vec<Reading> {
    let reading = |name: &str, of: &dyn Fn(&Observed<'_>) -> Option<f64>| {
        let (a, b) = (median_of(windows, ArmName::A, of), median_of(windows, ArmName::B, of));
        (a.is_some() || b.is_some()).then(|| Reading { name: name.to_owned(), a, b })
    };
    let mut readings: Vec<Reading> = match counter {
        Counter::IdleStates => [
            reading("idle_entries_per_s", &|window| window.conditions.idle_entries_per_s),
            reading("idle_exit_latency_us", &|window| window.conditions.idle_exit_latency_us),
            reading("idle_polling_share", &|window| window.conditions.idle_polling_share),
            reading(BUSY_SHARE, &|window| window.conditions.busy_share),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Counter::WaitingThreads => {
            reading("cpu_pressure_share", &|window| window.conditions.cpu_pressure_share).into_iter().collect()
        }
        Counter::ReadBack => {
            reading(knob, &|window| window.conditions.counters.get(knob).copied()).into_iter().collect()
        }
        _ => Vec::new(),
    };
    for name in Sign::from_counter(counter).names(counted(windows)) {
        readings.extend(reading(&name, &|window| window.conditions.counters.get(&name).copied()));
    }
    readings
}

fn judge(windows: &[Observed<'_>], network: NetworkPath, knob: &str, counter: Counter) -> Engaged {
    let on_loopback = || "the workload's packets stay on loopback, and pass no network device".to_owned();
    let of_devices = matches!(
        counter,
        Counter::DevicePackets | Counter::BusyPolling | Counter::SteeredPackets | Counter::InterruptsByCpu
    );
    if of_devices && network == NetworkPath::Loopback {
        return Engaged::No { why: on_loopback() };
    }
    match (counter, network) {
        (Counter::IdleStates, _) => idleness(windows),
        (Counter::DevicePackets, _) => Engaged::Unknown,
        (Counter::InterruptsByCpu, _) => interrupts(windows),
        (Counter::WaitingThreads, _) => waiting(windows),
        (Counter::Frequency, _) => differs(windows, FREQUENCY, "the CPUs ran at the same frequency in both arms"),
        (Counter::ReadBack, _) => differs(windows, knob, "the server read the same value in both arms"),
        // Loopback packets pass the backlog queue. The knob limits that queue even if the limit is never reached.
        (Counter::Backlog, NetworkPath::Loopback) => {
            moved(windows, &["softnet_processed"], "no packet passed the queue that it limits")
        }
        _ => {
            let sign = Sign::from_counter(counter);
            moved(windows, sign.moved, sign.stood_still)
        }
    }
}

/// The names of all counters of these windows.
fn counted<'w>(windows: &'w [Observed<'_>]) -> impl Iterator<Item = &'w String> {
    windows.iter().flat_map(|window| window.conditions.counters.keys())
}

/// Whether any of these counters moved in any window.
fn moved(windows: &[Observed<'_>], names: &[&str], why: &str) -> Engaged {
    let seen: Vec<f64> = windows
        .iter()
        .flat_map(|window| names.iter().filter_map(|name| window.conditions.counters.get(*name)))
        .copied()
        .collect();
    match (seen.is_empty(), seen.iter().any(|count| *count > 0.0)) {
        (true, _) => Engaged::Unknown,
        (false, true) => Engaged::Yes,
        (false, false) => Engaged::No { why: why.to_owned() },
    }
}

/// Whether this reading differs between the arms.
fn differs(windows: &[Observed<'_>], name: &str, why: &str) -> Engaged {
    let of = |arm| median_of(windows, arm, |window| window.conditions.counters.get(name).copied());
    match (of(ArmName::A), of(ArmName::B)) {
        (Some(a), Some(b)) if (a - b).abs() > DIFFERENCE_MIN * a.abs().max(b.abs()) => Engaged::Yes,
        (Some(_), Some(_)) => Engaged::No { why: why.to_owned() },
        _ => Engaged::Unknown,
    }
}

fn waiting(windows: &[Observed<'_>]) -> Engaged {
    let of = |arm| median_of(windows, arm, |window| window.conditions.cpu_pressure_share);
    match (of(ArmName::A), of(ArmName::B)) {
        (Some(a), Some(b)) if a.max(b) < WAITING_SHARE_MIN => {
            Engaged::No { why: "hardly any thread waited for a CPU: there was nothing to choose between".to_owned() }
        }
        (Some(_), Some(_)) => Engaged::Yes,
        _ => Engaged::Unknown,
    }
}

/// Whether the interrupts went to different CPUs in the two arms.
fn interrupts(windows: &[Observed<'_>]) -> Engaged {
    let names = Sign::from_counter(Counter::InterruptsByCpu).names(counted(windows));
    let sums = |arm| -> Vec<f64> {
        let of_arm = |name: &String| {
            let of_arm = windows.iter().filter(|window| window.arm == arm);
            of_arm.filter_map(|window| window.conditions.counters.get(name)).sum::<f64>()
        };
        names.iter().map(of_arm).collect()
    };
    let (a, b) = (sums(ArmName::A), sums(ArmName::B));
    let (all_a, all_b) = (a.iter().sum::<f64>(), b.iter().sum::<f64>());
    if names.is_empty() {
        return Engaged::Unknown;
    }
    if all_a == 0.0 || all_b == 0.0 {
        return Engaged::No { why: "the interrupts did not come while it was measured".to_owned() };
    }
    let moved = a.iter().zip(&b).any(|(a, b)| (a / all_a - b / all_b).abs() > DIFFERENCE_MIN);
    if moved {
        Engaged::Yes
    } else {
        Engaged::No { why: "the interrupts went to the same CPUs in both arms".to_owned() }
    }
}

fn idleness(windows: &[Observed<'_>]) -> Engaged {
    let no = |why: String| Engaged::No { why };
    let both =
        |number: fn(&Observed<'_>) -> Option<f64>| median(&windows.iter().filter_map(number).collect::<Vec<_>>());
    let entries = both(|window| window.conditions.idle_entries_per_s);
    let has_no_state = |window: &Observed<'_>| window.conditions.counters.get(IDLE_STATES) == Some(&0.0);
    let without = windows.iter().filter(|window| has_no_state(window)).count();
    if without > 0 && without < windows.len() {
        // One arm has no idle driver. In a trial over boots, a kernel argument may remove the driver.
        return Engaged::Yes;
    }
    if without > 0 {
        return no("there is no idle driver here: the kernel has no idle state to choose".to_owned());
    }
    if let Some(entries) = entries.filter(|entries| *entries < ENTRIES_A_SECOND_MIN) {
        return no(format!("CPUs went idle only {entries:.0} times a second"));
    }
    let exit_us = |arm| median_of(windows, arm, |window| window.conditions.idle_exit_latency_us);
    let exits = exit_us(ArmName::A).zip(exit_us(ArmName::B));
    // A knob of idle states is engaged if the entered states differ, even if the CPUs are busy.
    // The CPUs may idle too rarely for an effect. The trial's result shows that.
    if entries.is_some() && exits.is_some_and(|(a, b)| (a - b).abs() > EXIT_LATENCY_RATIO_MIN * a.max(b)) {
        return Engaged::Yes;
    }
    if let Some(busy) = both(|window| window.conditions.busy_share).filter(|busy| *busy > BUSY_SHARE_MAX) {
        return no(format!("the CPUs were {:.0} % busy in the median window, so hardly ever idle", busy * 100.0));
    }
    match (entries, exits) {
        (Some(_), Some((a, b))) => {
            no(format!("both arms used the same idle states: mean exit latency {a:.2} us and {b:.2} us"))
        }
        _ => Engaged::Unknown,
    }
}

#[cfg(test)]
mod tests;
