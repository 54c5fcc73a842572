//! `BootsCaveat`: the caveats of a trial over boots, each with its figures.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::arm::ArmName;
use crate::caveat::Caveat;
use crate::words::as_change;

/// A caveat: a reason to question an answer, or a limit of the answer. Boots are numbered from 1.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the sentences below say what the figures are")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum BootsCaveat {
    /// A caveat that a trial without reboots may have too.
    OfTrial(Caveat),
    /// A boot does not count. `why` has the reason.
    Missed { boot: usize, why: String },
    /// The machine or evenkeel went down while the boot was measured.
    CutOff { boot: usize },
    /// An extra boot was not measured, because it was not prepared for the planned arm.
    Passed { boot: usize },
    /// Many windows of a boot were dropped: `dropped` out of `of`.
    Dropped { boot: usize, dropped: usize, of: usize },
    /// The machine was not the same in all boots that count. `seen` has the different values.
    Differ { what: Part, seen: Vec<String> },
    /// The boots of one arm had several command lines.
    CommandLines { arm: ArmName },
    /// The boots could not be compared.
    NotCompared { why: String },
    /// A claim was made before all planned boots were compared.
    Early { boots: usize, of: usize },
    /// A guard got worse in every boot of B.
    GuardWorse { metric: String, ratio: f64 },
    /// It is unknown whether a guard got worse.
    GuardUnknown { metric: String, harm_ratio: f64, why: GuardUnknown },
}

/// A property of a machine that can differ between boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as what they are")]
pub enum Part {
    Kernels,
    Processors,
}

/// Why it is unknown whether a guard got worse.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the sentences below say what the figures are")]
pub enum GuardUnknown {
    /// Only `have` out of `boots` boots have a value of the guard.
    Missing { have: usize, boots: usize },
    /// The medians of the guard have no ratio, for example because one is zero.
    NoRatio,
    /// B is worse by the medians, but the ranges of the two arms overlap.
    Overlap { ratio: f64 },
}

/// Prints one sentence, without a full stop.
impl fmt::Display for BootsCaveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BootsCaveat::OfTrial(caveat) => caveat.fmt(f),
            BootsCaveat::Missed { boot, why } => write!(f, "boot {boot} does not count: {why}"),
            BootsCaveat::CutOff { boot } => {
                write!(f, "the machine or evenkeel went down while boot {boot} was measured")
            }
            BootsCaveat::Passed { boot } => write!(f, "boot {boot} came in between and was not measured"),
            BootsCaveat::Dropped { boot, dropped, of } => {
                write!(f, "{dropped} of {of} windows of boot {boot} were dropped: the machine was disturbed")
            }
            BootsCaveat::Differ { what, seen } => {
                let what = match what {
                    Part::Kernels => "kernels",
                    Part::Processors => "processors",
                };
                write!(f, "the boots had different {what}: {}", seen.join(", "))
            }
            BootsCaveat::CommandLines { arm } => write!(f, "the boots of {arm:?} had different command lines"),
            BootsCaveat::NotCompared { why } => write!(f, "failed to compare the boots: {why}"),
            BootsCaveat::Early { boots, of } => write!(
                f,
                "only {boots} of {of} boots are compared: a result before the last boot is wrong more often than stated"
            ),
            BootsCaveat::GuardWorse { metric, ratio } => {
                write!(f, "the guard {metric} is {} in every boot of B", as_change(*ratio))
            }
            BootsCaveat::GuardUnknown { metric, harm_ratio, why } => {
                write!(f, "can't check the guard {metric} (limit {:.0} % worse): {why}", harm_ratio * 100.0)
            }
        }
    }
}

impl fmt::Display for GuardUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuardUnknown::Missing { have, boots } => write!(f, "only {have} of {boots} boots have a value"),
            GuardUnknown::NoRatio => f.write_str("its medians have no ratio"),
            GuardUnknown::Overlap { ratio } => {
                write!(f, "its median is {} in B, but boots of A and B overlap", as_change(*ratio))
            }
        }
    }
}

/// In JSON, a caveat is its sentence.
impl Serialize for BootsCaveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
