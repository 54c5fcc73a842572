//! Telemetry: publishes the state of the ticks on a page of shared memory.

use std::ffi::c_char;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use evenkeel_rt::Errno;
use evenkeel_rt::telemetry::{
    self, Access, Count, Counters, Faults, PageError, State, Telemetry, TelemetryReader, TelemetrySettings,
};

use crate::clock::EvenkeelClock;
use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::memory::EvenkeelTickMemory;
use crate::structs::{self, structs};
use crate::text;

/// A session's page.
#[derive(Debug)]
pub struct EvenkeelTelemetry(());

/// The value behind an [`EvenkeelTelemetry`]. The tick's thread writes the page, and any thread may change the counters.
pub(crate) struct Page {
    telemetry: Mutex<Telemetry>,
    counters: Counters,
}

handles! { EvenkeelTelemetry, 256 of Page; }

/// The counters of a session's page.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelCount {
    /// Jobs that ran.
    Jobs = 0,
    /// Datagrams received.
    PacketsIn = 1,
    /// Datagrams sent.
    PacketsOut = 2,
    /// Bytes received in datagrams.
    BytesIn = 3,
    /// Bytes sent in datagrams.
    BytesOut = 4,
    /// Datagrams lost because there was no room, in either direction.
    Drops = 5,
    /// The current number of players in the session. This number goes up and down.
    Players = 6,
}

/// Settings of a session's page.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelTelemetrySettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The session's name: any text of 1 to 64 bytes.
    pub session: *const c_char,
    /// The folder of the page. Null means /dev/shm, or $XDG_RUNTIME_DIR if /dev/shm is not writable.
    pub folder: *const c_char,
    /// If not 0, the server's group may read the page too. If 0, only the server's user may read it.
    pub is_for_group: u32,
    /// Always 0.
    pub reserved: u32,
}

structs! {
    EvenkeelTelemetrySettings { session: *const c_char, folder: *const c_char, is_for_group: u32, reserved: u32 }
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Failure {
        let status = match error {
            PageError::Unsupported => EvenkeelStatus::Unsupported,
            _ => EvenkeelStatus::Refused,
        };
        Failure::new(status, error)
    }
}

fn locked(telemetry: &Mutex<Telemetry>) -> std::sync::MutexGuard<'_, Telemetry> {
    telemetry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the page of a session, which any permitted process can read while the server runs. Freeing the handle removes the page.
/// Returns EVENKEEL_STATUS_REFUSED if no folder accepts the page, or this process already has a session of that name.
///
/// Threads: any. Free the handle with evenkeel_telemetry_free.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init, whose texts are null or end with a zero; `telemetry` may be written. A null `telemetry` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_telemetry_new(
    asked: *const EvenkeelTelemetrySettings,
    telemetry: *mut *mut EvenkeelTelemetry,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let asked = unsafe { structs::get(asked) }?;
        // SAFETY: as this function's caller promises.
        let settings = unsafe { settings(asked) }?;
        let make = || {
            let telemetry = Telemetry::create(&settings)?;
            Ok(Page { counters: telemetry.counters(), telemetry: Mutex::new(telemetry) })
        };
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(telemetry, make) }
    })
}

/// # Safety
/// The texts of `asked` are null or end with a zero.
pub(crate) unsafe fn settings(asked: EvenkeelTelemetrySettings) -> Result<TelemetrySettings, Failure> {
    if asked.reserved != 0 {
        return Err(EvenkeelStatus::UnknownField.into());
    }
    // SAFETY: as the caller promises.
    let session = unsafe { text::text(asked.session) }?.to_owned();
    let folder = if asked.folder.is_null() {
        None
    } else {
        // SAFETY: as the caller promises.
        Some(unsafe { text::text(asked.folder) }?.into())
    };
    let access = if asked.is_for_group == 0 { Access::Owner } else { Access::Group };
    Ok(TelemetrySettings { session, folder, access })
}

/// Writes the entry of the last tick, with the clock's period. Call this function after each evenkeel_clock_done.
/// Returns EVENKEEL_STATUS_NO_DATA if no tick has ended.
///
/// Threads: only the thread that ticks. Takes less than a microsecond.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_telemetry_after(
    telemetry: *const EvenkeelTelemetry,
    clock: *const EvenkeelClock,
) -> EvenkeelStatus {
    caught(|| {
        let (done, period) = handle::shared(clock, |clock| Ok((clock.last, clock.clock.period())))?;
        let done = done.ok_or(EvenkeelStatus::NoData)?;
        handle::shared(telemetry, |page| {
            let mut telemetry = locked(&page.telemetry);
            telemetry.set_period(period);
            telemetry.after(&done);
            Ok(())
        })
    })
}

/// Passes the clock's detected quantum to the page, from the next entry on. Call this function before each evenkeel_telemetry_after.
///
/// Threads: only the thread that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_telemetry_quantum(
    telemetry: *const EvenkeelTelemetry,
    clock: *const EvenkeelClock,
) -> EvenkeelStatus {
    caught(|| {
        let quantum = handle::shared(clock, |clock| Ok(clock.clock.quantum()))?;
        handle::shared(telemetry, |page| {
            locked(&page.telemetry).set_quantum(&quantum);
            Ok(())
        })
    })
}

/// Passes the page faults from evenkeel_memory_after to the page, for the next entry. Call this function before evenkeel_telemetry_after.
///
/// Threads: only the thread that ticks.
///
/// # Safety
/// `tick` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_telemetry_memory(
    telemetry: *const EvenkeelTelemetry,
    tick: *const EvenkeelTickMemory,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let tick = unsafe { structs::get(tick) }?;
        let known = |number: u64| (number != u64::MAX).then_some(number);
        let faults = known(tick.minor_faults).zip(known(tick.major_faults));
        handle::shared(telemetry, |page| {
            let mut telemetry = locked(&page.telemetry);
            telemetry.set_faults(faults.map(|(minor, major)| Faults { minor, major }));
            telemetry.set_swapped_in(known(tick.swapped_in));
            Ok(())
        })
    })
}

pub(crate) fn count(number: u32) -> Result<Count, Failure> {
    let known = Count::ALL.get(number as usize).copied();
    known.ok_or_else(|| Failure::new(EvenkeelStatus::OutOfRange, format_args!("no EvenkeelCount: {number}")))
}

/// Adds to a counter of the page (EvenkeelCount).
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_telemetry_add(telemetry: *const EvenkeelTelemetry, what: u32, more: u64) -> EvenkeelStatus {
    caught(|| {
        let what = count(what)?;
        handle::shared(telemetry, |page| {
            page.counters.add(what, more);
            Ok(())
        })
    })
}

/// Sets a counter of the page (EvenkeelCount), such as players.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_telemetry_set(telemetry: *const EvenkeelTelemetry, what: u32, now: u64) -> EvenkeelStatus {
    caught(|| {
        let what = count(what)?;
        handle::shared(telemetry, |page| {
            page.counters.set(what, now);
            Ok(())
        })
    })
}

/// Writes the path of the page to `path`. `needed` is the number of bytes, with the zero at the end.
///
/// Threads: any, at any time.
///
/// # Safety
/// `path` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_telemetry_path(
    telemetry: *const EvenkeelTelemetry,
    path: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        let found =
            handle::shared(telemetry, |page| Ok(locked(&page.telemetry).path().to_string_lossy().into_owned()))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(path, size, &found, needed) }
    })
}

/// Writes the page to `text` in Prometheus' text format. `needed` is the number of bytes, with the zero at the end.
///
/// Threads: any, at any time. Allocates memory: do not call it in a tick.
///
/// # Safety
/// `text` is null or points to `size` bytes that may be written; `needed` may be written. A null `needed` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_telemetry_prometheus(
    telemetry: *const EvenkeelTelemetry,
    text: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        let path = handle::shared(telemetry, |page| Ok(locked(&page.telemetry).path().to_owned()))?;
        let said = TelemetryReader::open(&path)?.prometheus()?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(text, size, &said, needed) }
    })
}

/// Writes the readable pages of all running sessions of this machine to `text`, as one Prometheus text.
/// `needed` is the number of bytes, with the zero at the end. `folder` is the folder of the pages. An empty text means the default folders.
/// Returns EVENKEEL_STATUS_TOO_SMALL if the text does not fit. Sessions come and go, so call again with more than `needed`.
///
/// Threads: any, at any time. Allocates memory and reads files: do not call it in a tick.
///
/// # Safety
/// `folder` is null or a text that ends with a zero. `text` is null or points to `size` bytes that may be written.
/// `needed` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_telemetry_prometheus_of_all(
    folder: *const c_char,
    text: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(needed)?;
        // SAFETY: as this function's caller promises.
        let folder = unsafe { text::text(folder) }?;
        let is_named = !folder.is_empty();
        let folders = if is_named { vec![PathBuf::from(folder)] } else { telemetry::folders() };
        let mut pages = Vec::new();
        for folder in folders {
            match telemetry::sessions(&folder) {
                Ok(sessions) => {
                    let running = sessions.iter().filter(|session| session.state == State::Live);
                    pages.extend(running.filter_map(|session| session.reader.read().ok()));
                }
                Err(Errno::OPNOTSUPP) => return Err(PageError::Unsupported.into()),
                // It is not an error if one of the default folders is missing.
                Err(errno) if is_named => {
                    let what = format_args!("failed to read {}: {errno}", folder.display());
                    return Err(Failure::new(EvenkeelStatus::Refused, what));
                }
                Err(_) => {}
            }
        }
        // SAFETY: as this function's caller promises.
        unsafe { structs::put_text(text, size, &telemetry::prometheus(&pages), needed) }
    })
}

/// Removes the page.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_telemetry_free(telemetry: *mut EvenkeelTelemetry) -> EvenkeelStatus {
    caught(|| handle::take(telemetry).map(drop))
}
