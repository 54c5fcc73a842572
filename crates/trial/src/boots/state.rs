//! `BootsState`: everything that a trial over boots stores from one boot to the next.

use std::collections::BTreeMap;

use evenkeel_hostfs::json_words;
use evenkeel_stats::{BOOTS_BLOCK, BOOTS_MAX, boot_order};
use evenkeel_workload::Metric;
use serde::{Deserialize, Serialize};

use crate::arm::ArmName;
use crate::design::{Guard, check_guards};

use super::counters::BootCounters;

/// The value of the state's field `format`.
const FORMAT: u32 = 1;
/// The maximum length of a state file to read, in bytes. The largest valid state is far shorter.
pub(super) const BYTES_MAX: u64 = 4 << 20;
/// The maximum number of extra boots.
/// Extra boots replace boots that were interrupted or did not have the arm's values.
/// If the trial needs more, it gives up, so that a machine does not reboot endlessly.
pub const EXTRA_BOOTS: usize = 3;
/// The maximum number of windows of a boot.
pub const WINDOWS_MAX: usize = 1000;
/// The maximum number of guards. Each boot stores one value for each.
pub const BOOT_GUARDS_MAX: usize = 8;
/// The maximum number of dropped windows that a valid state has for a boot.
const DROPPED_MAX: usize = 10 * WINDOWS_MAX;
/// The maximum number of measurements that the trial starts in one boot, because systemd may start the unit again.
/// After that number of attempts, the boot does not count.
pub(super) const TRIES_MAX: u32 = 3;

/// Why a state or a design is invalid. evenkeel shows the text, and does not use the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidBoots(String);

impl<T: Into<String>> From<T> for InvalidBoots {
    fn from(why: T) -> InvalidBoots {
        InvalidBoots(why.into())
    }
}

fn invalid<T>(why: impl Into<InvalidBoots>) -> Result<T, InvalidBoots> {
    Err(why.into())
}

/// The design of a trial over boots, decided before the first boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootsDesign {
    /// The settings of arm B, as `KNOB=VALUE`.
    pub settings: Vec<String>,
    /// The primary metric, which decides.
    pub metric: Metric,
    /// Metrics that must not get worse. Each metric can veto a *better*.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guard>,
    /// The smallest effect that matters, as a share: 0.05 is 5 %.
    pub smallest_effect_ratio: f64,
    /// The number of planned boots: a multiple of four.
    pub boots: usize,
    /// The number of windows per boot.
    pub windows: usize,
    /// The length of a window in milliseconds.
    pub window_ms: u64,
    /// How long evenkeel waits after a boot before it measures, in milliseconds.
    pub settle_ms: u64,
    /// The seed of the order of the arms.
    pub seed: u64,
    /// Whether evenkeel reboots the machine by itself. Otherwise evenkeel waits for the user to reboot it.
    pub reboots: bool,
    /// The maximum duration of the trial in seconds.
    pub limit_s: u64,
}

impl BootsDesign {
    /// A metric for planning before the workload runs.
    pub fn default_metric() -> Metric {
        Metric::us("due_to_done_us_p99", "from due to done, p99")
    }

    /// Checks the design.
    ///
    /// # Errors
    /// Describes what is invalid.
    pub fn check(&self) -> Result<(), InvalidBoots> {
        let settings = &self.settings;
        if settings.is_empty() || settings.len() > 64 || !settings.iter().all(|setting| is_line(setting, 1000)) {
            return invalid("it has no settings, too many, or some with control characters");
        }
        if self.boots == 0 || self.boots > BOOTS_MAX || !self.boots.is_multiple_of(BOOTS_BLOCK) {
            return invalid(format!("{} boots are not whole blocks of {BOOTS_BLOCK}, {BOOTS_MAX} at most", self.boots));
        }
        if !(1..=WINDOWS_MAX).contains(&self.windows) || !(100..=600_000).contains(&self.window_ms) {
            return invalid("it has no windows, too many, or windows that are too short or too long");
        }
        if self.settle_ms > 3_600_000 || !(self.smallest_effect_ratio > 0.0 && self.smallest_effect_ratio < 10.0) {
            return invalid("its settle time or its smallest effect is beyond all measure");
        }
        if self.guards.len() > BOOT_GUARDS_MAX {
            return invalid(format!("{} guards over boots: at most {BOOT_GUARDS_MAX}", self.guards.len()));
        }
        for (at, guard) in self.guards.iter().enumerate() {
            let Metric { name, title, unit, .. } = &guard.metric;
            if name.is_empty() || ![name, title, unit].iter().all(|text| is_line(text, 1000)) {
                return invalid(format!("guard {at} has no name, or an invalid one"));
            }
            if self.guards[..at].iter().any(|other| other.metric.name == *name) {
                return invalid(format!("{name} stands guard twice"));
            }
        }
        check_guards(&self.guards, &self.metric).map_err(|error| InvalidBoots::from(error.to_string()))
    }
}

/// Whether a text is a single line of at most `bytes_max` bytes.
fn is_line(text: &str, bytes_max: usize) -> bool {
    text.len() <= bytes_max && !text.chars().any(char::is_control)
}

/// The kernel, processor and CPUs of the machine in one boot, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootWords {
    /// The release of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The command line of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// The processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// The online CPUs, as a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
}

/// The result of one boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum BootOutcome {
    /// The machine has booted, and the boot has no result yet.
    Begun,
    /// The boot was measured. Its value is the median of the windows' values.
    Measured {
        /// The value of each window, in the order of measurement.
        values: Vec<f64>,
        /// The number of windows that a rule dropped. Rules do not use the arm.
        dropped: usize,
        /// The value of each guard, by its name: the median over the same windows. A guard without a value is absent.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        guards: BTreeMap<String, f64>,
        /// The settings' counters. None if an older version measured the boot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted: Option<BootCounters>,
    },
    /// The boot does not count: the settings did not have the arm's values, or the measurement failed.
    Missed {
        /// The reason as text.
        why: String,
    },
    /// The machine or evenkeel went down during the measurement.
    CutOff,
    /// An extra boot, used only to prepare the next one.
    Passed,
}

/// One boot of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeenBoot {
    /// The kernel's boot id.
    pub boot_id: String,
    /// The index of the planned boot, from 0.
    pub slot: usize,
    /// The planned arm.
    pub arm: ArmName,
    /// How often the measurement of this boot was started.
    pub tries: u32,
    /// The kernel, processor and CPUs of this boot.
    #[serde(default)]
    pub machine: BootWords,
    /// The result.
    #[serde(flatten)]
    pub outcome: BootOutcome,
}

/// The preparation of the next boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Armed {
    /// The index of the planned boot, from 0.
    pub slot: usize,
    /// The boot id of the boot in which it was prepared.
    pub boot_id: String,
}

/// How a trial over boots ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BootsEnded {
    /// All planned boots were measured.
    Whole,
    /// The user ended the trial, with `prove boots cancel` or `evenkeel revert`.
    Cancelled,
    /// evenkeel gave up.
    GivenUp {
        /// The reason as text.
        why: String,
    },
}

/// The whole state of a trial over boots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootsState {
    /// The format number.
    pub format: u32,
    /// The version of the program that began the trial.
    pub evenkeel: String,
    /// The trial's name in the journal: eight hexadecimal digits.
    pub id: String,
    /// When the trial began, in seconds since 1970 UTC.
    pub begun_s: u64,
    /// The boot id of the boot in which the trial began.
    pub begun_boot: String,
    /// The design, decided before the first boot.
    pub design: BootsDesign,
    /// The arguments that name the workload, in shell syntax. They are not in the unit file, because systemd expands variables there.
    pub workload: String,
    /// The workload in words.
    pub workload_words: String,
    /// The working directory of the workload.
    pub folder: String,
    /// The preparation of the next boot, if it is prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub armed: Option<Armed>,
    /// How often the trial requested a reboot.
    /// This count detects a machine whose boots all have the same id, so that the machine does not reboot endlessly.
    #[serde(default)]
    pub asked: usize,
    /// Every boot since the trial began.
    #[serde(default)]
    pub seen: Vec<SeenBoot>,
    /// How the trial ended. None while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<BootsEnded>,
}

impl BootsState {
    /// The state of a trial that begins now.
    pub fn begin(design: BootsDesign, begun_s: u64, begun_boot: &str) -> BootsState {
        BootsState {
            format: FORMAT,
            evenkeel: env!("CARGO_PKG_VERSION").to_owned(),
            id: format!("{:08x}", (design.seed ^ begun_s.rotate_left(16)) & 0xffff_ffff),
            begun_s,
            begun_boot: begun_boot.to_owned(),
            design,
            workload: String::new(),
            workload_words: String::new(),
            folder: "/".to_owned(),
            armed: None,
            asked: 0,
            seen: Vec::new(),
            ended: None,
        }
    }

    /// The arm of each planned boot.
    pub fn order(&self) -> Vec<ArmName> {
        let arm = |is_b| if is_b { ArmName::B } else { ArmName::A };
        boot_order(self.design.boots, self.design.seed).into_iter().map(arm).collect()
    }

    /// The boots that count so far, in the order of measurement, each with the values of its windows.
    pub fn measured(&self) -> impl Iterator<Item = (&SeenBoot, &[f64])> {
        self.seen.iter().filter_map(|boot| match &boot.outcome {
            BootOutcome::Measured { values, .. } => Some((boot, values.as_slice())),
            _ => None,
        })
    }

    /// The index and the arm of the next planned boot. None if all were measured.
    pub fn next_slot(&self) -> Option<(usize, ArmName)> {
        let slot = self.measured().count();
        Some((slot, *self.order().get(slot)?))
    }

    /// The maximum number of boots, including extra boots.
    pub fn boots_max(&self) -> usize {
        self.design.boots + EXTRA_BOOTS
    }

    /// Checks every field, because the file may be damaged or malicious.
    fn check(&self) -> Result<(), InvalidBoots> {
        let design = &self.design;
        if self.id.len() != 8 || !self.id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return invalid("its id is not eight hexadecimal digits");
        }
        design.check()?;
        if !is_line(&self.folder, 4096) || !self.folder.starts_with('/') || self.workload.len() > 256 << 10 {
            return invalid("its workload or the folder of it can't be meant");
        }
        if self.asked > 10 * self.boots_max() {
            return invalid("it has asked for more reboots than it may");
        }
        if self.seen.len() > self.boots_max() || self.measured().count() > design.boots {
            return invalid("it has more boots than it may");
        }
        let order = self.order();
        let mut slot = 0;
        for (at, boot) in self.seen.iter().enumerate() {
            if boot.slot != slot || boot.slot > order.len() || order.get(slot).is_some_and(|arm| *arm != boot.arm) {
                return invalid(format!("boot {at} does not fit the planned order"));
            }
            if self.seen[..at].iter().any(|other| other.boot_id == boot.boot_id) {
                return invalid(format!("boot {at} is there twice"));
            }
            if let BootOutcome::Measured { values, guards, dropped, counted } = &boot.outcome {
                if *dropped > DROPPED_MAX {
                    return invalid(format!("boot {at} can't have dropped {dropped} windows"));
                }
                if values.is_empty() || values.len() > design.windows || !values.iter().all(|value| value.is_finite()) {
                    return invalid(format!("the windows of boot {at} are invalid"));
                }
                let is_of_design = |name: &str| design.guards.iter().any(|guard| guard.metric.name == name);
                if !guards.iter().all(|(name, value)| is_of_design(name) && value.is_finite()) {
                    return invalid(format!("the guards of boot {at} are invalid"));
                }
                if !counted.as_ref().is_none_or(BootCounters::check) {
                    return invalid(format!("the counters of boot {at} are invalid"));
                }
                slot += 1;
            }
        }
        Ok(())
    }

    /// The text of the file: one line with a checksum, as in the journal, followed by JSON.
    ///
    /// # Errors
    /// Fails if a number has no JSON form, such as NaN.
    pub fn text(&self) -> Result<String, InvalidBoots> {
        let json = serde_json::to_string(self).map_err(|error| InvalidBoots::from(error.to_string()))?;
        Ok(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())))
    }
}

/// Parses the text of [`BootsState::text`]. Any bytes give either a valid state or an error.
///
/// # Errors
/// Describes what is invalid.
pub fn parse(bytes: &[u8]) -> Result<BootsState, InvalidBoots> {
    if bytes.len() as u64 > BYTES_MAX {
        return invalid(format!("it has more than {BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not a text")?;
    let line = text.strip_suffix('\n').ok_or("it has no end")?;
    let (sum, json) = line.split_once(' ').ok_or("it has no checksum")?;
    // Compare the checksum's exact spelling.
    // A parser of numbers would accept several spellings, and a flipped bit can turn one spelling into another.
    if sum != format!("{:08x}", crc32fast::hash(json.as_bytes())) {
        return invalid("the checksum does not match");
    }
    parse_json(json)
}

/// Parses a state without a checksum. The fields must be valid.
///
/// # Errors
/// Describes what is invalid.
pub fn parse_json(json: &str) -> Result<BootsState, InvalidBoots> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let bad = |error: serde_json::Error| InvalidBoots::from(json_words::plain(&error));
    match serde_json::from_str::<Format>(json).map_err(bad)?.format {
        FORMAT => {}
        other => return invalid(format!("format {other} is not known to this evenkeel; use the one that wrote it")),
    }
    let state: BootsState = serde_json::from_str(json).map_err(bad)?;
    state.check()?;
    Ok(state)
}
