//! Ticks that are spread among the ticks of other sessions on the host.

use std::ffi::c_char;

use evenkeel_rt::{PhaseReport, PhaseSettings, PhaseState};

use crate::failure::Failure;
use crate::structs::structs;
use crate::text;

/// Where the sessions of a host find each other.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelPhaseSettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The folder of the sessions' files. Null means /dev/shm. Sessions see each other if they use the same folder.
    pub folder: *const c_char,
}

/// How a loop reacts to the phases of other sessions: EvenkeelPhaseReport.state.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelPhaseState {
    /// Spreading was not requested.
    Off = 0,
    /// The loop keeps its phase, because the alignment of its ticks needs that. Other sessions spread around it.
    Aligned = 1,
    /// No other session with a matching period shares CPUs with this one.
    Alone = 2,
    /// The loop's ticks move towards their goal.
    Settling = 3,
    /// The loop's ticks are at their goal.
    Settled = 4,
}

/// How a session's ticks are spread among the ticks of others.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelPhaseReport {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// One of EvenkeelPhaseState.
    pub state: u32,
    /// How many other sessions the loop takes into account.
    pub neighbours: u32,
    /// How far the loop has shifted its ticks so far, in nanoseconds. Positive means later.
    pub shifted_ns: i64,
    /// How far the ticks still have to move, in nanoseconds. Positive means later.
    pub distance_ns: i64,
}

structs! {
    EvenkeelPhaseSettings { folder: *const c_char }
    EvenkeelPhaseReport { state: u32, neighbours: u32, shifted_ns: i64, distance_ns: i64 }
}

/// # Safety
/// `asked.folder` is null or a text that ends with a zero.
pub(crate) unsafe fn settings(asked: EvenkeelPhaseSettings) -> Result<PhaseSettings, Failure> {
    if asked.folder.is_null() {
        return Ok(PhaseSettings::default());
    }
    // SAFETY: as the caller promises.
    Ok(PhaseSettings { folder: Some(unsafe { text::text(asked.folder) }?.into()) })
}

pub(crate) fn filled(found: PhaseReport) -> EvenkeelPhaseReport {
    let state = match found.state {
        PhaseState::Off => EvenkeelPhaseState::Off,
        PhaseState::Aligned => EvenkeelPhaseState::Aligned,
        PhaseState::Alone => EvenkeelPhaseState::Alone,
        PhaseState::Settling => EvenkeelPhaseState::Settling,
        PhaseState::Settled => EvenkeelPhaseState::Settled,
    };
    let PhaseReport { neighbours, shifted_ns, distance_ns, .. } = found;
    EvenkeelPhaseReport { size: 0, version: 0, state: state as u32, neighbours, shifted_ns, distance_ns }
}
