//! Settings of a server loop.

use std::ffi::c_char;

use evenkeel_rt::{TickLoop, TickLoopBuilder};

use crate::clock::{self, EvenkeelClockSettings};
use crate::failure::{EvenkeelStatus, Failure};
use crate::memory::{self, EvenkeelMemoryConfig};
use crate::phases::{self, EvenkeelPhaseSettings};
use crate::rate::{self, EvenkeelRateSettings};
use crate::scope;
use crate::structs::{self, structs};
use crate::telemetry::{self, EvenkeelTelemetrySettings};
use crate::text;
use crate::thread::{self, EvenkeelThreadConfig};

/// Settings of a server loop. All zero (EVENKEEL_INIT) means 50 ticks a second, missed ticks are skipped, and thread settings that need no privileges.
/// Prepare each struct behind a pointer with EVENKEEL_INIT. The library no longer needs these structs after evenkeel_tick_loop_new.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelTickLoopSettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The period of ticks, in nanoseconds: 1,000 to 3,600,000,000,000. 0 means `rate->start_ns` if `rate` is set, and otherwise 20,000,000.
    pub period_ns: u64,
    /// One of EvenkeelOverrun.
    pub overrun: u32,
    /// The maximum number of late ticks in a row if `overrun` is CatchUp. Otherwise 0.
    pub catch_up_at_most: u32,
    /// One of EvenkeelSpinning.
    pub spinning: u32,
    /// One of EvenkeelAlign.
    pub align: u32,
    /// The kernel settings of the loop's thread. Null means settings that need no privileges.
    pub thread: *const EvenkeelThreadConfig,
    /// Keeps the process's pages in memory, and counts the page faults of each tick. Null means off: this setting affects the whole process.
    pub memory: *const EvenkeelMemoryConfig,
    /// Publishes every tick on a page of shared memory. Null means off.
    pub telemetry: *const EvenkeelTelemetrySettings,
    /// Lengthens and shortens the period with the load. Null means that the period does not change.
    pub rate: *const EvenkeelRateSettings,
    /// Records scopes of the loop's thread, under this name. Null means off.
    pub scopes_name: *const c_char,
    /// How many of the thread's last scopes the loop records, up to a million. Used with scopes_name. 0 means 4,096.
    pub scopes_count: u64,
    /// Spreads the ticks of all sessions on this host, so that fewer ticks collide. Null means off.
    pub phases: *const EvenkeelPhaseSettings,
}

structs! {
    EvenkeelTickLoopSettings {
        period_ns: u64, overrun: u32, catch_up_at_most: u32, spinning: u32, align: u32, thread: *const EvenkeelThreadConfig,
        memory: *const EvenkeelMemoryConfig, telemetry: *const EvenkeelTelemetrySettings, rate: *const EvenkeelRateSettings,
        scopes_name: *const c_char, scopes_count: u64, phases: *const EvenkeelPhaseSettings,
    }
}

/// The struct that a pointer of the settings points to. `None` if the pointer is null.
///
/// # Safety
/// `structure` is null or points to a struct prepared by evenkeel_init.
unsafe fn optional<T: structs::Struct>(structure: *const T) -> Result<Option<T>, Failure> {
    if structure.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { structs::get(structure) }.map(Some)
}

/// Converts the settings to the type of the Rust library.
///
/// # Safety
/// Each pointer is null, or points to a struct prepared by evenkeel_init or to a text that ends with a zero.
/// The pointers in these structs also point to prepared structs or texts, or are null.
pub(super) unsafe fn builder(asked: EvenkeelTickLoopSettings) -> Result<TickLoopBuilder, Failure> {
    let EvenkeelTickLoopSettings { period_ns, overrun, catch_up_at_most, spinning, align, .. } = asked;
    let ticks = EvenkeelClockSettings { size: 0, version: 0, period_ns, overrun, catch_up_at_most, spinning, align };
    let ticks = clock::settings(ticks)?;
    let mut builder = TickLoop::builder().overrun(ticks.overrun).spinning(ticks.spinning).align(ticks.align);
    if period_ns != 0 {
        builder = builder.period(ticks.period);
    }
    // SAFETY: the caller promises this for each of the pointers.
    unsafe {
        if let Some(thread) = optional(asked.thread)? {
            builder = builder.thread(thread::asked(thread)?);
        }
        if let Some(memory) = optional(asked.memory)? {
            builder = builder.memory(memory::memory_config(memory)?);
        }
        if let Some(telemetry) = optional(asked.telemetry)? {
            builder = builder.telemetry(telemetry::settings(telemetry)?);
        }
        if let Some(rate) = optional(asked.rate)? {
            builder = builder.adaptive_rate(rate::settings(rate));
        }
        if let Some(phases) = optional(asked.phases)? {
            builder = builder.phases(phases::settings(phases)?);
        }
        if !asked.scopes_name.is_null() {
            let scopes = if asked.scopes_count == 0 { 4096 } else { asked.scopes_count };
            let scopes = usize::try_from(scopes).unwrap_or(usize::MAX);
            builder = builder.scopes(text::text(asked.scopes_name)?, scopes);
            scope::reserve()?;
        } else if asked.scopes_count != 0 {
            return Err(Failure::new(EvenkeelStatus::BadText, "scopes_count needs scopes_name"));
        }
    }
    Ok(builder)
}
