//! Agones: the sidecar of a game server in Kubernetes.

use std::ffi::c_char;
use std::time::Duration;

use evenkeel_rt::agones::{Agones, AgonesError, AgonesSettings, Client, Progress};

use crate::failure::{EvenkeelStatus, Failure, caught};
use crate::handle::{self, handles};
use crate::structs::{self, structs};

/// Reports to the sidecar from a thread of its own.
#[derive(Debug)]
pub struct EvenkeelAgones(());

handles! { EvenkeelAgones, 16 of Agones; }

/// Settings for Agones. All zero (EVENKEEL_INIT) means: the port from the environment, and a health message every two seconds.
/// After two seconds without a tick, health messages stop.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelAgonesSettings {
    /// The size of this struct, in bytes.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The sidecar's port on this machine, 1 to 65,535. 0 means the port in AGONES_SDK_HTTP_PORT, or 9358 if that is not set.
    pub port: u32,
    /// The timeout of a request, in milliseconds, up to 60,000. 0 means 1,000.
    pub timeout_ms: u32,
    /// The time between health messages, in milliseconds, up to 3,600,000. It must be less than spec.health.periodSeconds. 0 means 2,000.
    pub health_period_ms: u32,
    /// How long ticks may be missing before health messages stop, in milliseconds, up to 3,600,000. 0 means 2,000.
    pub stall_ms: u32,
}

/// The state of a request.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvenkeelProgress {
    /// Not requested.
    NotRequested = 0,
    /// The sidecar has not accepted the request yet. The thread repeats it.
    Asked = 1,
    /// The sidecar accepted the request.
    Done = 2,
}

/// The state of all requests.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelAgonesReport {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// Health messages that the sidecar accepted.
    pub health_sent: u64,
    /// Health messages that were not sent, because there was no tick.
    pub health_withheld: u64,
    /// Requests of any kind that failed.
    pub failures: u64,
    /// The state of the request by evenkeel_agones_ready, as an EvenkeelProgress.
    pub ready: u32,
    /// The state of the request by evenkeel_agones_shutdown, as an EvenkeelProgress.
    pub shutdown: u32,
    /// Why the last failed request failed, cut to fit, with a zero at the end. Empty if no request failed.
    pub last_failure: [c_char; 256],
}

/// The game server, as the sidecar reports it. Texts have a zero at the end, and are empty if the sidecar does not report them.
/// A text that does not fit causes EVENKEEL_STATUS_TOO_SMALL.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EvenkeelGameServer {
    /// The size of this struct, in bytes; after a call, how many were filled.
    pub size: u32,
    /// The version of this struct: EVENKEEL_ABI_VERSION.
    pub version: u32,
    /// The game server's name.
    pub name: [c_char; 256],
    /// The game server's namespace. The field's name is two words, because `namespace` is a keyword of C++.
    pub name_space: [c_char; 256],
    /// The game server's state, such as "Ready" or "Allocated".
    pub state: [c_char; 64],
    /// The address for players.
    pub address: [c_char; 256],
    /// The game server's first port. 0 if the game server has no port.
    pub port: u32,
    /// The number of the game server's ports.
    pub ports_count: u32,
}

structs! {
    EvenkeelAgonesSettings { port: u32, timeout_ms: u32, health_period_ms: u32, stall_ms: u32 }
    EvenkeelAgonesReport {
        health_sent: u64, health_withheld: u64, failures: u64, ready: u32, shutdown: u32, last_failure: [c_char; 256],
    }
    EvenkeelGameServer {
        name: [c_char; 256], name_space: [c_char; 256], state: [c_char; 64], address: [c_char; 256], port: u32,
        ports_count: u32,
    }
}

impl From<AgonesError> for Failure {
    fn from(error: AgonesError) -> Failure {
        Failure::new(EvenkeelStatus::Refused, error)
    }
}

fn duration(what: &str, ms: u32, most_ms: u32, default: Duration) -> Result<Duration, Failure> {
    match ms {
        0 => Ok(default),
        ms if ms <= most_ms => Ok(Duration::from_millis(ms.into())),
        _ => Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("{what} of {ms} ms"))),
    }
}

fn settings(asked: EvenkeelAgonesSettings) -> Result<AgonesSettings, Failure> {
    let client = match u16::try_from(asked.port) {
        Ok(0) => Client::from_environment()?,
        Ok(port) => Client::at(port),
        Err(_) => return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("port {}", asked.port))),
    };
    let client = client.within(duration("a time-out", asked.timeout_ms, 60_000, client.timeout())?);
    let defaults = AgonesSettings::at(client);
    let health_period = duration("a health period", asked.health_period_ms, 3_600_000, defaults.health_period)?;
    let stall = duration("a stall", asked.stall_ms, 3_600_000, defaults.stall)?;
    Ok(AgonesSettings { client, health_period, stall })
}

/// Copies a text and its terminating zero, or fails if they do not fit.
fn whole(place: &mut [c_char], text: &str) -> Result<(), Failure> {
    if text.len() >= place.len() {
        return Err(Failure::new(EvenkeelStatus::TooSmall, format_args!("a text of {} bytes", text.len())));
    }
    place.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte as c_char);
    Ok(())
}

/// Copies as much of a text as fits.
fn cut(place: &mut [c_char], text: &str) {
    let mut length = text.len().min(place.len() - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    // This cannot fail, because the text was cut to fit.
    let _ = whole(place, &text[..length]);
}

/// Starts to report to the sidecar. The sidecar may start later. Returns EVENKEEL_STATUS_REFUSED if AGONES_SDK_HTTP_PORT is not a port.
///
/// Threads: any. Call it before evenkeel_thread_new if you can, because a new thread inherits the CPUs of the thread that starts it.
/// Free the handle with evenkeel_agones_free.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init; `agones` may be written. A null `agones` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_agones_new(
    asked: *const EvenkeelAgonesSettings,
    agones: *mut *mut EvenkeelAgones,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let settings = settings(unsafe { structs::get(asked) }?)?;
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(agones, || Ok(Agones::start(settings)?)) }
    })
}

/// Call this function in each tick. It takes some nanoseconds. Before the first call, the library sends no health message.
///
/// Threads: only the thread that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_agones_tick(agones: *const EvenkeelAgones) -> EvenkeelStatus {
    caught(|| {
        handle::shared(agones, |agones| {
            agones.tick();
            Ok(())
        })
    })
}

/// Reports that the server is ready for players. Returns at once. The thread repeats the request until the sidecar accepts it.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_agones_ready(agones: *const EvenkeelAgones) -> EvenkeelStatus {
    caught(|| {
        handle::shared(agones, |agones| {
            agones.ready();
            Ok(())
        })
    })
}

/// Asks Agones to shut the game server down. Returns at once. The thread repeats the request until the sidecar accepts it.
/// evenkeel_agones_free sends the request once more.
///
/// Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_agones_shutdown(agones: *const EvenkeelAgones) -> EvenkeelStatus {
    caught(|| {
        handle::shared(agones, |agones| {
            agones.shutdown();
            Ok(())
        })
    })
}

/// Reads the game server from the sidecar. Blocks until the answer or the timeout. Returns EVENKEEL_STATUS_REFUSED if the sidecar does not answer.
///
/// Threads: any except the thread that ticks.
///
/// # Safety
/// `game_server` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_agones_game_server(
    agones: *const EvenkeelAgones,
    game_server: *mut EvenkeelGameServer,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(agones, |agones| Ok(agones.game_server()?))?;
        let mut filled = EvenkeelGameServer {
            size: 0,
            version: 0,
            name: [0; 256],
            name_space: [0; 256],
            state: [0; 64],
            address: [0; 256],
            port: found.status.ports.first().and_then(|port| port.port).map_or(0, u32::from),
            ports_count: u32::try_from(found.status.ports.len()).unwrap_or(u32::MAX),
        };
        whole(&mut filled.name, found.object_meta.name.as_deref().unwrap_or_default())?;
        whole(&mut filled.name_space, found.object_meta.namespace.as_deref().unwrap_or_default())?;
        whole(&mut filled.state, found.status.state.as_deref().unwrap_or_default())?;
        whole(&mut filled.address, found.status.address.as_deref().unwrap_or_default())?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(game_server, filled) }
    })
}

/// The state of all requests.
///
/// Threads: any, at any time.
///
/// # Safety
/// `report` is null or points to a struct prepared by evenkeel_init.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_agones_report(
    agones: *const EvenkeelAgones,
    report: *mut EvenkeelAgonesReport,
) -> EvenkeelStatus {
    caught(|| {
        let found = handle::shared(agones, |agones| Ok(agones.report()))?;
        let progress = |progress: Progress| match progress {
            Progress::NotRequested => EvenkeelProgress::NotRequested as u32,
            Progress::Asked => EvenkeelProgress::Asked as u32,
            Progress::Done => EvenkeelProgress::Done as u32,
        };
        let mut filled = EvenkeelAgonesReport {
            size: 0,
            version: 0,
            health_sent: found.health_sent,
            health_withheld: found.health_withheld,
            failures: found.failures,
            ready: progress(found.ready),
            shutdown: progress(found.shutdown),
            last_failure: [0; 256],
        };
        cut(&mut filled.last_failure, found.last_failure.as_deref().unwrap_or_default());
        // SAFETY: as this function's caller promises.
        unsafe { structs::fill(report, filled) }
    })
}

/// Ends the library's thread and frees the handle. This takes at most two timeouts. Returns EVENKEEL_STATUS_BUSY while another thread uses the handle.
///
/// Threads: any except the thread that ticks.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_agones_free(agones: *mut EvenkeelAgones) -> EvenkeelStatus {
    caught(|| handle::take(agones).map(drop))
}
