//! Pressure: takes memory and touches it, up to an amount, and always leaves a reserve.
//! The disturber checks the available memory all the time, and gives memory back as soon as others need it.
//! So the machine never runs out of memory because of this disturber.
//! As a further precaution, its process is the first that the kernel would kill.
//! Therefore run it in a separate process when a command runs at the same time.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_hostfs::Root;
use evenkeel_sys::pages::Pages;
use evenkeel_sys::{CpuSet, clock};
use serde::{Deserialize, Serialize};

use super::headroom;
use crate::disturb::worker_group::{Class, End, Post, WorkerGroup};
use crate::error::MeterError;

/// The unit in which memory is taken and given back.
const CHUNK_BYTES: u64 = 4 << 20;

/// The step between touches. Pages may be larger. A second touch of a page costs little compared with the first touch.
const TOUCH_BYTES: usize = 4096;

/// The interval between checks of the available memory.
const LOOK_EVERY_NS: u64 = 5_000_000;

/// The smallest reserve.
pub const RESERVE_BYTES_MIN: u64 = 128 << 20;

/// The OOM score adjustment: the kernel kills this process first.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// The settings of the disturber.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The maximum amount to take, in bytes.
    pub amount_bytes: u64,
    /// How much to leave, in bytes: of the memory that the kernel reports as available,
    /// and of the memory that the limits of control groups leave.
    pub reserve_bytes: u64,
}

/// The report of the disturber.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The maximum memory that the disturber held at once, in bytes.
    pub held_bytes_max: u64,
    /// The memory that the disturber held at the end, in bytes.
    pub held_bytes_at_end: u64,
    /// The lowest available memory during the run, in bytes. None if the kernel never reported it.
    pub left_bytes_min: Option<u64>,
    /// The memory that the disturber gave back to others during the run, in bytes.
    pub given_back_bytes: u64,
    /// Whether the reserve ever prevented the disturber from taking the full amount.
    pub held_back: bool,
    /// The time from the start until the disturber held `held_bytes_max`, in nanoseconds.
    pub filled_ns: u64,
    /// Why the disturber ended early: the kernel stopped reporting the available memory, or refused more.
    /// None if the disturber did not end early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_because: Option<String>,
}

/// A running disturber. Dropping this value stops the disturber.
#[derive(Debug)]
pub struct Running {
    workers: WorkerGroup<Report>,
    filled: Arc<AtomicBool>,
    _first: KilledFirst,
}

/// Checks that the disturber can start.
///
/// # Errors
/// Fails as [`start`] does.
pub fn check(settings: &Settings) -> Result<(), MeterError> {
    refuse(settings, headroom(&Root::live()))
}

/// Starts the disturber. It ends by itself when the monotonic clock reaches `until_ns`.
///
/// # Errors
/// Fails if the reserve is too small, if less than the reserve is available at the start, or if the kernel does not report available memory.
pub fn start(settings: &Settings, until_ns: u64) -> Result<Running, MeterError> {
    check(settings)?;
    let first = KilledFirst::begin()?;
    let post = Post { cpus: CpuSet::default(), class: Class::Ordinary { nice: 0 } };
    let (settings, filled) = (*settings, Arc::<AtomicBool>::default());
    let full = Arc::clone(&filled);
    let workers =
        WorkerGroup::start("memory", &[post], &End::new(until_ns), move |_, end| press(settings, &full, end))?;
    Ok(Running { workers, filled, _first: first })
}

impl Running {
    /// Whether the disturber holds the full amount, or as much as the reserve allows.
    pub fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Relaxed)
    }

    /// Stops the disturber and returns its report.
    pub fn stop(self) -> Report {
        self.workers.stop().pop().unwrap_or_default()
    }
}

fn refuse(settings: &Settings, left: Option<u64>) -> Result<(), MeterError> {
    let Settings { amount_bytes, reserve_bytes } = *settings;
    let tried = format!("take {amount_bytes} bytes of memory and leave {reserve_bytes}");
    if amount_bytes < CHUNK_BYTES {
        return Err(MeterError::wrong_use(tried, format!("expected at least {CHUNK_BYTES}")));
    }
    if reserve_bytes < RESERVE_BYTES_MIN {
        let why = format!("leave at least {RESERVE_BYTES_MIN}, or the machine may run out of memory");
        return Err(MeterError::wrong_use(tried, why));
    }
    match left {
        None => Err(no_available_memory()),
        Some(left) if left < reserve_bytes.saturating_add(CHUNK_BYTES) => {
            Err(MeterError::not_possible(tried, format!("only {left} are available")))
        }
        Some(_) => Ok(()),
    }
}

fn no_available_memory() -> MeterError {
    MeterError::not_possible(
        "take memory",
        "the kernel does not report the available memory (MemAvailable in /proc/meminfo)",
    )
}

/// Makes this process the first that the kernel kills when memory runs out, until it is dropped.
#[derive(Debug)]
struct KilledFirst {
    before: String,
}

impl KilledFirst {
    fn begin() -> Result<KilledFirst, MeterError> {
        let refused = |error: std::io::Error| MeterError::refused(format!("write 1000 to {OOM_SCORE}"), &error);
        let before = fs::read_to_string(OOM_SCORE).map_err(refused)?;
        fs::write(OOM_SCORE, "1000").map_err(refused)?;
        Ok(KilledFirst { before })
    }
}

impl Drop for KilledFirst {
    fn drop(&mut self) {
        // Lowering the value below the initial value needs privileges. Restoring the initial value does not.
        let _ = fs::write(OOM_SCORE, self.before.trim());
    }
}

fn press(settings: Settings, filled: &AtomicBool, end: &End) -> Report {
    let root = Root::live();
    let (start_ns, mut report, mut held) = (clock::monotonic_ns(), Report::default(), Vec::new());
    let mut touched = 0;
    while !end.is_now() {
        let Some(left) = headroom(&root) else {
            report.ended_because = Some("the kernel no longer reported the available memory".to_owned());
            break;
        };
        report.left_bytes_min = Some(report.left_bytes_min.map_or(left, |least: u64| least.min(left)));
        if left < settings.reserve_bytes {
            let too_much = (settings.reserve_bytes - left).div_ceil(CHUNK_BYTES);
            let kept = held.len().saturating_sub(usize::try_from(too_much).unwrap_or(usize::MAX));
            report.given_back_bytes += (held.len() - kept) as u64 * CHUNK_BYTES;
            report.held_back = true;
            held.truncate(kept);
        } else if (held.len() as u64 + 1) * CHUNK_BYTES <= settings.amount_bytes {
            if left >= settings.reserve_bytes + CHUNK_BYTES {
                match take_chunk() {
                    Ok(chunk) => held.push(chunk),
                    Err(errno) => {
                        report.ended_because = Some(format!("the kernel refused more: {errno}"));
                        break;
                    }
                }
                let bytes = held.len() as u64 * CHUNK_BYTES;
                if bytes > report.held_bytes_max {
                    report.held_bytes_max = bytes;
                    report.filled_ns = clock::monotonic_ns() - start_ns;
                }
                continue;
            }
            report.held_back = true;
        }
        filled.store(true, Ordering::Relaxed);
        // The kernel would swap out unused memory, which would then no longer cause pressure.
        if let Some(at) = (touched as usize).checked_rem(held.len()) {
            touch(&mut held[at]);
            touched += 1;
        }
        end.sleep_until_ns(clock::monotonic_ns() + LOOK_EVERY_NS);
    }
    report.held_bytes_at_end = held.len() as u64 * CHUNK_BYTES;
    report
}

fn take_chunk() -> Result<Pages, evenkeel_sys::Errno> {
    let mut chunk = Pages::new(CHUNK_BYTES as usize)?;
    touch(&mut chunk);
    Ok(chunk)
}

fn touch(chunk: &mut Pages) {
    for byte in chunk.bytes().iter_mut().step_by(TOUCH_BYTES) {
        *byte = byte.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn some_memory_is_always_left() {
        let with = |amount, reserve| Settings { amount_bytes: amount * MIB, reserve_bytes: reserve * MIB };
        let table = [
            (with(64, 256), Some(1024), "well"),
            (with(64, 1), Some(1024), "leave at least 134217728, or the machine may run out of memory"),
            (with(1, 256), Some(1024), "expected at least 4194304"),
            (with(64, 256), Some(258), "only 270532608 are available"),
            (with(64, 256), None, "the kernel does not report the available memory (MemAvailable in /proc/meminfo)"),
        ];
        for (settings, left, expected) in table {
            let refused = refuse(&settings, left.map(|mib| mib * MIB));
            let said = refused.map_or_else(|error| error.to_string(), |()| "well".to_owned());
            assert!(said.ends_with(expected), "{said}");
        }
    }
}
