//! A server loop with its thread, memory, rate, scopes and telemetry, all set up by one struct.
//! The loop needs fewer calls than the single parts, and you cannot make these calls in the wrong order.

mod report;
mod settings;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use evenkeel_rt::memory::Memory;
use evenkeel_rt::rate::TickRate;
use evenkeel_rt::telemetry::{Counters, Telemetry};
use evenkeel_rt::{TickClock, TickGuard, TickLoop, TickLoopBuilder, TickLoopError};

use crate::clock::{EvenkeelDone, EvenkeelTick, begun};
use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::rate::{self, Changes};
use crate::structs;
use crate::telemetry;

pub use report::*;
pub use settings::EvenkeelTickLoopSettings;

use settings::builder;

/// A server loop: a clock with its thread, memory, rate, scopes and telemetry.
#[derive(Debug)]
pub struct EvenkeelTickLoop(());

/// The value behind an [`EvenkeelTickLoop`].
pub(crate) struct Looping {
    owner: ThreadId,
    ticks: Mutex<Owned>,
    counters: Option<Counters>,
    page: Option<PathBuf>,
    changes: Arc<Mutex<Changes>>,
}

/// A loop that only its owner thread uses, and that any thread may drop.
struct Owned(TickLoop);

// SAFETY: each part of a loop may be sent to another thread.
// `TickLoop` is not `Send` only so that it ticks on the thread that it set up. Here `own` ensures that, because it refuses other threads.
unsafe impl Send for Owned {}
const _: () = {
    const fn sent<T: Send>() {}
    sent::<TickClock>();
    sent::<Memory>();
    sent::<Telemetry>();
    sent::<TickRate>();
};

handles! { EvenkeelTickLoop, 256 of Looping; }

impl From<TickLoopError> for Failure {
    fn from(error: TickLoopError) -> Failure {
        match error {
            TickLoopError::Tick(error) => error.into(),
            TickLoopError::Rate(error) => error.into(),
            TickLoopError::Telemetry(error) => error.into(),
            TickLoopError::Scopes(error) => error.into(),
            error => Failure::new(EvenkeelStatus::Refused, error),
        }
    }
}

impl Looping {
    fn build(builder: TickLoopBuilder) -> Result<Looping, Failure> {
        let mut ticks = builder.build()?;
        let (record, changes) = Changes::recorder();
        ticks.on_rate_change(record);
        Ok(Looping {
            owner: thread::current().id(),
            counters: ticks.counters(),
            page: ticks.telemetry_path().map(PathBuf::from),
            changes,
            ticks: Mutex::new(Owned(ticks)),
        })
    }
}

/// Calls `work` on a loop, or fails if the calling thread does not own the loop.
fn own<R>(
    ticks: *const EvenkeelTickLoop,
    work: impl FnOnce(&mut TickLoop) -> Result<R, Failure>,
) -> Result<R, Failure> {
    handle::shared(ticks, |looping| {
        if looping.owner != thread::current().id() {
            return Err(EvenkeelStatus::WrongThread.into());
        }
        work(&mut looping.ticks.try_lock().map_err(handle::refused)?.0)
    })
}

/// Sets up the calling thread and starts a loop. The first tick is due one period later. This function allocates all memory of the loop.
/// Settings that the kernel refuses are not errors: evenkeel_tick_loop_advice lists them.
/// Returns EVENKEEL_STATUS_OUT_OF_RANGE if the period, an enumeration or the ladder of the rate is invalid.
/// Returns EVENKEEL_STATUS_REFUSED if the telemetry page cannot be created.
/// Returns EVENKEEL_STATUS_NO_ROOM if too many threads record scopes.
/// Returns EVENKEEL_STATUS_BUSY if this thread records scopes under another name, such as that of an earlier loop.
///
/// Threads: only the thread that ticks. Free the handle with evenkeel_tick_loop_free.
/// Unless a function says otherwise, only that thread may use the loop. Other threads get EVENKEEL_STATUS_WRONG_THREAD, and nothing changes.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init. Its pointers are null or point to such structs or to texts that end with a zero.
/// `ticks` may be written. A null `ticks` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_new(
    asked: *const EvenkeelTickLoopSettings,
    ticks: *mut *mut EvenkeelTickLoop,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(ticks)?;
        // SAFETY: as this function's caller promises.
        let builder = unsafe { builder(structs::get(asked)?) }?;
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(ticks, || Looping::build(builder)) }
    })
}

/// Sleeps until the next tick is due, and begins it. If the previous tick has not ended, this call ends it.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `tick` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_wait(
    ticks: *mut EvenkeelTickLoop,
    tick: *mut EvenkeelTick,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises. The check comes first, because a tick that has begun cannot be undone.
        unsafe { structs::fillable(tick) }?;
        let filled = own(ticks, |ticks| {
            let tick = ticks.wait().detach();
            Ok(begun(tick, ticks.period()))
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(tick, filled) }
    })
}

/// For engines that own their loop: begins the next tick if it is due, else returns EVENKEEL_STATUS_WOULD_BLOCK. Never waits.
/// evenkeel_tick_loop_next_due returns when to call this function.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `tick` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_poll(
    ticks: *mut EvenkeelTickLoop,
    tick: *mut EvenkeelTick,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        unsafe { structs::fillable(tick) }?;
        let filled = own(ticks, |ticks| {
            let tick = ticks.poll().map(TickGuard::detach).ok_or(EvenkeelStatus::WouldBlock)?;
            Ok(begun(tick, ticks.period()))
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(tick, filled) }
    })
}

/// For engines that own their loop: when the next tick is due, in nanoseconds of evenkeel_now_ns's clock.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `due_ns` may be written. A null `due_ns` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_next_due(
    ticks: *const EvenkeelTickLoop,
    due_ns: *mut u64,
) -> EvenkeelStatus {
    caught(|| {
        let found = own(ticks, |ticks| Ok(ticks.next_due_ns()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(due_ns, found) }
    })
}

/// Ends the tick, and does its bookkeeping: page faults, telemetry, rate. Returns EVENKEEL_STATUS_NO_DATA if no tick has begun.
///
/// Threads: only the loop's own thread.
///
/// # Safety
/// `done` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_tick_loop_done(
    ticks: *mut EvenkeelTickLoop,
    done: *mut EvenkeelDone,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        unsafe { structs::fillable(done) }?;
        let ended = own(ticks, |ticks| Ok(ticks.done().ok_or(EvenkeelStatus::NoData)?))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(done, ended.into()) }
    })
}

/// Call this function between the steps of a tick's work, so that the loop also finds gaps inside ticks. A call costs some 50 ns.
///
/// Threads: only the loop's own thread.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_tick_loop_checkpoint(ticks: *mut EvenkeelTickLoop) -> EvenkeelStatus {
    caught(|| {
        own(ticks, |ticks| {
            ticks.checkpoint();
            Ok(())
        })
    })
}

/// Enters another phase of the game, with periods from `fastest_ns` to `slowest_ns`. The period moves into that range at once.
/// Without a rate, the period does not change.
///
/// Threads: only the loop's own thread.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_tick_loop_enter_phase(
    ticks: *mut EvenkeelTickLoop,
    fastest_ns: u64,
    slowest_ns: u64,
) -> EvenkeelStatus {
    caught(|| {
        let phase = rate::phase(fastest_ns, slowest_ns)?;
        own(ticks, |ticks| {
            ticks.enter_phase(phase);
            Ok(())
        })
    })
}

/// Adds to a counter (EvenkeelCount) of the telemetry page. Returns EVENKEEL_STATUS_NO_DATA if the loop has no telemetry.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_tick_loop_add(ticks: *const EvenkeelTickLoop, what: u32, more: u64) -> EvenkeelStatus {
    caught(|| {
        let what = telemetry::count(what)?;
        handle::shared(ticks, |ticks| {
            ticks.counters.as_ref().ok_or(EvenkeelStatus::NoData)?.add(what, more);
            Ok(())
        })
    })
}

/// Sets a counter (EvenkeelCount) of the telemetry page, such as players. Returns EVENKEEL_STATUS_NO_DATA if the loop has no telemetry.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_tick_loop_set(ticks: *const EvenkeelTickLoop, what: u32, now: u64) -> EvenkeelStatus {
    caught(|| {
        let what = telemetry::count(what)?;
        handle::shared(ticks, |ticks| {
            ticks.counters.as_ref().ok_or(EvenkeelStatus::NoData)?.set(what, now);
            Ok(())
        })
    })
}

/// Ends the loop: removes its telemetry page, and ends dma_latency_us. The thread's other settings and locked pages stay.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the loop. In that case the loop is not freed.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_tick_loop_free(ticks: *mut EvenkeelTickLoop) -> EvenkeelStatus {
    caught(|| handle::take(ticks).map(drop))
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    #[test]
    fn a_loop_in_use_is_not_freed() {
        let mut ticks = null_mut();
        // SAFETY: the place is a variable of this test.
        let made = caught(|| unsafe { handle::give(&raw mut ticks, || Looping::build(TickLoop::builder())) });
        assert_eq!(made, EvenkeelStatus::Ok);
        let inside = own(ticks, |_| {
            assert_eq!(evenkeel_tick_loop_free(ticks), EvenkeelStatus::Busy);
            assert_eq!(evenkeel_tick_loop_checkpoint(ticks), EvenkeelStatus::Busy);
            Ok(())
        });
        assert!(inside.is_ok());
        // A panic in an earlier call may have left the loop half-changed.
        assert_eq!(caught(|| own(ticks, |_| panic!("in a call"))), EvenkeelStatus::Panicked);
        assert_eq!(evenkeel_tick_loop_checkpoint(ticks), EvenkeelStatus::Panicked);
        assert_eq!(evenkeel_tick_loop_free(ticks), EvenkeelStatus::Ok);
        assert_eq!(evenkeel_tick_loop_free(ticks), EvenkeelStatus::BadHandle);
    }
}
