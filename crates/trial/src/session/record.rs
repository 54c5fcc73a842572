//! `Record`: everything that one trial measured.

use std::collections::BTreeMap;
use std::fmt;

use evenkeel_workload::{Sample, Workload, WorkloadCaveat};
use serde::{Deserialize, Serialize};

use super::SettleSeen;
use crate::arm::{Arm, ArmName};
use crate::conditions::Conditions;
use crate::design::Design;
use crate::rules::DropReason;

/// One window of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// The index of the window's pair in its phase, from 0. With more than two arms, the index of its block.
    pub pair: usize,
    /// The arm of the window. In the A/A phase, both arms are the unchanged machine.
    pub arm: ArmName,
    /// When the window began, in microseconds since the trial began.
    pub start_us: f64,
    /// The value of the primary metric, which decides.
    pub value: f64,
    /// Everything that the workload measured.
    pub sample: Sample,
    /// The state and counters of the machine during the window.
    pub conditions: Conditions,
}

impl Window {
    /// Combines the interleaves of one arm into a window: the mean of each number, but the largest of each maximum.
    /// `None` without interleaves.
    pub(super) fn of_interleaves(interleaves: Vec<Window>, decides: &str) -> Option<Window> {
        if interleaves.len() < 2 {
            return interleaves.into_iter().next();
        }
        let mut all: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
        for (name, value) in interleaves.iter().flat_map(|interleave| &interleave.sample) {
            all.entry(name).or_default().push(*value);
        }
        let joined = |(name, values): (&String, Vec<f64>)| {
            let value = match name.ends_with("_max") {
                true => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                false => values.iter().sum::<f64>() / values.len() as f64,
            };
            (name.clone(), value)
        };
        let sample: Sample = all.into_iter().map(joined).collect();
        let conditions = Conditions::of_interleaves(
            &interleaves.iter().map(|interleave| interleave.conditions.clone()).collect::<Vec<_>>(),
        );
        let Window { pair, arm, start_us, value, .. } = interleaves.into_iter().next()?;
        Some(Window { pair, arm, start_us, value: sample.get(decides).copied().unwrap_or(value), sample, conditions })
    }
}

/// A part of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stretch {
    /// The phase that measures the settle time.
    Settling,
    /// The A/A phase, which compares the unchanged machine with itself.
    Control,
    /// The phase that compares A with the other arms.
    #[default]
    Trial,
}

/// A window that a rule dropped. All comparisons in the pair or block that need this window are dropped too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dropped {
    /// The index of the pair or block.
    pub pair: usize,
    /// The arm of the window.
    pub arm: ArmName,
    /// The rule that dropped the window.
    pub reason: DropReason,
    /// The phase of the window.
    #[serde(default)]
    pub stretch: Stretch,
    /// The other trials that ran at the same time, as texts.
    #[serde(alias = "beside", default, skip_serializing_if = "Vec::is_empty")]
    pub other_trials: Vec<String>,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The session was decided before all its pairs were used.
    Decided,
    /// All planned pairs were measured.
    Whole,
    /// The time budget was used up.
    OutOfTime,
    /// Too many pairs were dropped, so the spare pairs were not enough to replace them.
    OutOfSpares,
    /// The user stopped the session.
    Stopped,
    /// An error ended the session.
    Failed {
        /// The reason.
        why: String,
    },
    /// The session was killed. Its log has the windows up to the kill.
    CutOff,
}

/// Whether a workload's packets pass a network device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NetworkPath {
    /// The packets pass no network device: loopback traffic stays in the kernel.
    #[default]
    Loopback,
    /// The packets pass a network device.
    Devices,
}

impl NetworkPath {
    /// The path of this workload's packets.
    pub fn from_workload(workload: &dyn Workload) -> NetworkPath {
        match workload.passes_network_devices() {
            true => NetworkPath::Devices,
            false => NetworkPath::Loopback,
        }
    }
}

/// Everything that one trial measured, and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The windows of the counted pairs or blocks, in the order in which they were measured.
    /// If a rule dropped a window of a block, the block's other windows remain.
    pub windows: Vec<Window>,
    /// The windows of the A/A phase.
    pub control: Vec<Window>,
    /// The windows that a rule dropped.
    pub dropped: Vec<Dropped>,
    /// How long the trial waited after a switch, and how it found this time.
    pub settle: SettleSeen,
    /// How the session ended.
    pub ended: Ended,
    /// The arms: the level of each setting.
    pub arms: Vec<Arm>,
    /// The knobs that were switched, one for each setting.
    pub knobs: Vec<String>,
    /// Whether the workload's packets pass a network device.
    pub network: NetworkPath,
    /// Problems that are not about windows, such as a file that could not be written.
    pub mishaps: Vec<Mishap>,
}

/// A problem that is not about windows, or a caveat of the workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Mishap {
    /// A caveat of the workload.
    Workload(WorkloadCaveat),
    /// The file of the session could not be written, for this reason.
    File(String),
}

impl From<WorkloadCaveat> for Mishap {
    fn from(caveat: WorkloadCaveat) -> Mishap {
        Mishap::Workload(caveat)
    }
}

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mishap::Workload(caveat) => caveat.fmt(f),
            Mishap::File(why) => f.write_str(why),
        }
    }
}

impl Record {
    /// A record without windows.
    pub fn new(design: &Design, arms: impl Into<Vec<Arm>>, knobs: Vec<String>, network: NetworkPath) -> Record {
        Record {
            windows: Vec::new(),
            control: Vec::new(),
            dropped: Vec::new(),
            settle: SettleSeen::fixed(design.settle.least()),
            ended: Ended::CutOff,
            arms: arms.into(),
            knobs,
            network,
            mishaps: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.windows.is_empty() && self.control.is_empty()
    }

    /// The number of pairs or blocks of a phase that were measured, even if they do not count. Their indices start from 0.
    pub(super) fn tried(&self, stretch: Stretch) -> usize {
        let counted = match stretch {
            Stretch::Settling => &[],
            Stretch::Control => &self.control[..],
            Stretch::Trial => &self.windows[..],
        };
        let dropped = self.dropped.iter().filter(|dropped| dropped.stretch == stretch).map(|dropped| dropped.pair);
        let last = counted.iter().map(|window| window.pair).chain(dropped).max();
        last.map_or(0, |last| last.saturating_add(1))
    }

    /// The number of pairs or blocks in which a window was dropped.
    pub(super) fn spoiled(&self) -> usize {
        let mut spoiled: Vec<(Stretch, usize)> =
            self.dropped.iter().map(|dropped| (dropped.stretch, dropped.pair)).collect();
        spoiled.sort_unstable();
        spoiled.dedup();
        spoiled.len()
    }
}
