//! Handles the file of a step: reads its value, collects the data for a restore, and checks which value is in force.

use evenkeel_host::{Action, Reading, Step};
use evenkeel_hostfs::{Refusal, Root, Why};
use evenkeel_sys::{CpuSet, clock};

use crate::blocked::blocker;
use crate::outcome::{SideEffect, StepError};

/// The longest text that a transaction can restore, in bytes.
/// The kernel accepts at most one page per write to a sysctl or sysfs file.
const MAX_TEXT_BYTES: usize = 8192;

/// The maximum number of checks after a write.
/// An interrupt moves to its new CPU when it next fires, so the value in force changes some time after the write.
const SETTLE_LOOKS: u32 = 20;
const SETTLE_STEP_NS: u64 = 5_000_000;

/// The file that a step writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) path: &'a str,
    pub(crate) reading: Reading,
    pub(crate) in_force: Option<&'a str>,
    pub(crate) side_effects: &'a [String],
}

/// What undoing a write needs.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) value: String,
    pub(crate) text: String,
    pub(crate) side_effects: Vec<SideEffect>,
}

/// Why reading a value failed.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The kernel refused the read.
    Refused(Refusal),
    /// The text does not have the expected form.
    Odd { text: String, why: String },
}

/// The result of comparing the value in force with the wanted value.
#[derive(Debug, PartialEq)]
pub(crate) enum EffectiveValue {
    Holds,
    Other { found: String, read_from: String },
}

impl<'a> Target<'a> {
    pub(crate) fn from_step(step: &'a Step) -> Option<Target<'a>> {
        match &step.action {
            Action::Write { path, reading, in_force, side_effects, .. } => {
                Some(Target { path, reading: *reading, in_force: in_force.as_deref(), side_effects })
            }
            _ => None,
        }
    }

    /// The data that a restore will need, or why a restore is not possible.
    pub(crate) fn before(self, root: &Root) -> Result<Before, StepError> {
        let unreadable = |why: String| StepError::Unreadable { why };
        let text = root.text(self.path).map_err(|refusal| match refusal.why {
            Why::Errno(errno) if blocker(root, self.path, errno).is_some() => {
                StepError::refused(root, self.path, errno)
            }
            _ => unreadable(refusal.to_string()),
        })?;
        let value = self.reading.value(&text).ok_or_else(|| unreadable(odd(self.path, &text)))?;
        restorable(self.path, &text, &value).map_err(unreadable)?;
        let mut side_effects = Vec::new();
        for path in self.side_effects {
            match look(root, path, Reading::Plain) {
                Ok(before) => {
                    restorable(path, &before, &before).map_err(unreadable)?;
                    side_effects.push(SideEffect { path: path.clone(), before, after: None });
                }
                // If the file does not exist, the kernel cannot change it as a side effect.
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(unreadable(error.why())),
            }
        }
        Ok(Before { value, text, side_effects })
    }

    /// Whether `wanted` is in force.
    pub(crate) fn effective(self, root: &Root, wanted: &str) -> Result<EffectiveValue, ReadError> {
        let found = look(root, self.path, self.reading)?;
        if !self.agree(wanted, &found) {
            return Ok(EffectiveValue::Other { found, read_from: self.path.to_owned() });
        }
        let Some(in_force) = self.in_force else {
            return Ok(EffectiveValue::Holds);
        };
        let effective = match look(root, in_force, self.reading) {
            Ok(effective) => effective,
            // Kernels before 4.13 do not show the effective CPUs. The requested value is then the best information.
            Err(error) if error.is_gone() => return Ok(EffectiveValue::Holds),
            Err(error) => return Err(error),
        };
        let holds = match self.cpus(&effective) {
            // An interrupt of a device that is down has no CPU yet.
            Some(effective) => self.cpus(wanted).is_some_and(|wanted| effective.is_subset(&wanted)),
            None => self.agree(wanted, &effective),
        };
        let other = || EffectiveValue::Other { found: effective.clone(), read_from: in_force.to_owned() };
        Ok(if holds { EffectiveValue::Holds } else { other() })
    }

    /// Like [`Target::effective`], after a write.
    /// Waits if the file with the value in force lags behind the written file.
    pub(crate) fn settled(self, root: &Root, wanted: &str) -> Result<EffectiveValue, ReadError> {
        for _ in 1..SETTLE_LOOKS {
            let lags = matches!(self.effective(root, wanted)?, EffectiveValue::Other { read_from, .. } if read_from != self.path);
            if !lags {
                break;
            }
            clock::sleep_until_ns(clock::monotonic_ns() + SETTLE_STEP_NS);
        }
        self.effective(root, wanted)
    }

    fn agree(self, wanted: &str, found: &str) -> bool {
        match (self.cpus(wanted), self.cpus(found)) {
            (Some(wanted), Some(found)) => wanted == found,
            _ => same(wanted, found),
        }
    }

    fn cpus(self, value: &str) -> Option<CpuSet> {
        match self.reading {
            Reading::CpuList | Reading::CpuMask => CpuSet::parse_list(value),
            Reading::Plain | Reading::Words | Reading::ChosenWord => None,
        }
    }
}

/// Reads the value in a file.
pub(crate) fn look(root: &Root, path: &str, reading: Reading) -> Result<String, ReadError> {
    let text = root.text(path).map_err(ReadError::Refused)?;
    reading.value(&text).ok_or_else(|| ReadError::Odd { why: odd(path, &text), text: text.trim().to_owned() })
}

/// Whether two values are equal. In a list of numbers, the kernel writes tabs and people write spaces.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

impl ReadError {
    pub(crate) fn why(&self) -> String {
        match self {
            ReadError::Refused(refusal) => refusal.to_string(),
            ReadError::Odd { why, .. } => why.clone(),
        }
    }

    /// Whether the file does not exist, or no longer exists.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            ReadError::Refused(Refusal { why: Why::Errno(errno), .. }) => errno.is_absence(),
            ReadError::Refused(Refusal { why: Why::NotCaptured, .. }) => true,
            ReadError::Refused(Refusal { why: Why::OtherNetwork, .. }) | ReadError::Odd { .. } => false,
        }
    }
}

fn odd(path: &str, text: &str) -> String {
    let start: String = text.chars().take(200).collect();
    format!("read {path}: {start:?} is not a value")
}

/// Refuses to overwrite a value that the writer could not restore.
fn restorable(path: &str, text: &str, value: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT_BYTES || value.contains(['\n', '\0']) {
        return Err(format!(
            "change {path}: its {} bytes are not one line, so evenkeel could not restore them",
            text.len()
        ));
    }
    // The kernel ignores an empty write to a sysctl.
    if value.is_empty() && path.starts_with("/proc/sys/") {
        return Err(format!("change {path}: it is empty, and evenkeel could not make it empty again"));
    }
    Ok(())
}
