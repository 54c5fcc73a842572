//! The server: a tick thread that plays the match and sends snapshots, and a receive thread that answers pings at once.
//! So the round trip of a ping measures the machine and not the tick.
//!
//! `evenkeel-rt` keeps the tick.
//! If a tick ends after the next deadline, passed deadlines are skipped and counted, and never caught up.
//! The match then slows down, rather than running late ticks in a burst.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use evenkeel_rt::telemetry::{Telemetry, TelemetrySettings};
use evenkeel_rt::udp::{Udp, UdpSettings};
use rustix::thread::gettid;

use crate::console::Request;
use crate::control::{FORMAT, ServerEvent};
use crate::net::gate::{Gate, GateConfig};
use crate::server::config::QUEUE_EVENTS;
use crate::server::receive::Receive;
use crate::server::scribe::Scribe;
use crate::server::tick::{Parts, Tick};
use crate::server::tick_gate::{Flood, TickGate};
use crate::server::window::Counters;
use crate::work::Work;
use crate::worker_group::WorkerGroup;

mod config;
mod receive;
mod scribe;
mod tick;
mod tick_gate;
mod window;

pub use config::{Keeping, ServerConfig, ServerError};

/// A server that is bound but does not tick yet.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    udp: Udp,
    group: WorkerGroup,
    telemetry: Option<Telemetry>,
    scribe: Option<Scribe>,
    work: Work,
}

impl Server {
    /// Binds the socket, starts the workers, opens the record and calibrates the work.
    ///
    /// # Errors
    /// If the address, a thread, the page or the file is not available.
    pub fn bind(config: ServerConfig) -> Result<Self, ServerError> {
        let udp = Udp::open(UdpSettings { address: config.listen, ..UdpSettings::default() })?;
        let group = WorkerGroup::new(config.workers)?;
        let telemetry = config.session.as_deref().map(|name| Telemetry::create(&TelemetrySettings::named(name)));
        let telemetry = telemetry.transpose()?;
        let scribe = match &config.record {
            Some(path) => Some(Scribe::begin(path, config.sim())?),
            None => None,
        };
        Ok(Self { config, udp, group, telemetry, scribe, work: Work::calibrated() })
    }

    /// The event to announce. Call this on the thread that will call [`Server::run`].
    pub fn ready(&self) -> ServerEvent {
        ServerEvent::Ready {
            addr: self.udp.local_address(),
            pid: std::process::id(),
            tick_tid: gettid().as_raw_pid(),
            tick_hz: self.config.tick_hz,
            workers: self.config.workers,
            work_units_per_us: self.work.units_per_us(),
            format: FORMAT,
        }
    }

    /// Serves until `stop` is set, with this thread as the tick thread. Commands are answered between ticks.
    ///
    /// # Errors
    /// If the receive thread cannot start, or the record could not be written completely.
    pub fn run(self, requests: &Receiver<Request>, stop: &Arc<AtomicBool>) -> Result<(), ServerError> {
        let Self { config, mut udp, group, telemetry, scribe, work } = self;
        let counters = Counters::default();
        let (sender, events) = sync_channel(QUEUE_EVENTS);
        let gate = GateConfig { slots: usize::from(config.players), tick_hz: config.tick_hz, seed: config.seed };
        // One handle is for answers and one for waiting, because the halves belong to different threads.
        let socket = udp.as_fd().try_clone_to_owned().map_err(ServerError::Answers)?;
        let (incoming, outgoing) = udp.halves();
        let tick_gate = TickGate::new();
        let (counters, tick_gate) = (&counters, &tick_gate);
        let page = telemetry.as_ref().map(Telemetry::counters);
        let gate = Gate::new(gate, sender);
        let receiver = Receive { socket, incoming, gate, counters, page, tick_gate, flood: Flood::default(), stop };
        // Create it before a datagram is received, so that the first window misses none.
        // The thread is set up only after the other one has started, which would inherit the settings.
        let tick = Tick::new(config, Parts { group, telemetry, scribe, work, events, outgoing, counters, tick_gate });
        thread::scope(|scope| {
            thread::Builder::new()
                .name("receive".into())
                .spawn_scoped(scope, || receiver.run())
                .map_err(|source| ServerError::Thread { name: "receive", source })?;
            let ended = tick.run(requests, stop);
            // The receive thread sees the flag within its timeout.
            stop.store(true, Ordering::Relaxed);
            ended
        })
    }
}
