//! The tick thread: handles received events, plays one tick, sends snapshots to all players, and answers a waiting command.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use evenkeel_rt::telemetry::{Count, Telemetry};
use evenkeel_rt::udp::{Outgoing, SendCounters};
use evenkeel_rt::{Align, Overrun, PhaseSettings, Spinning, ThreadConfig, TickClock, TickSettings, TickThread};
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::console::{Request, answer_waiting};
use crate::control::{Answer, Command};
use crate::game::sim::Slot;
use crate::net::gate::Event;
use crate::room::{Act, ClientInput, Room};
use crate::server::config::{Keeping, QUEUE_EVENTS, ServerConfig, ServerError};
use crate::server::scribe::Scribe;
use crate::server::tick_gate::TickGate;
use crate::server::window::{Counters, Window};
use crate::time::SECOND_NS;
use crate::work::Work;
use crate::worker_group::WorkerGroup;

/// One tick in this many has the additional work for the tail. Two ticks in a hundred determine the 99th percentile.
const TAIL_EVERY: u64 = 50;

/// The parts of a tick.
pub(super) struct Parts<'a> {
    pub(super) group: WorkerGroup,
    pub(super) telemetry: Option<Telemetry>,
    pub(super) scribe: Option<Scribe>,
    pub(super) work: Work,
    pub(super) events: Receiver<Event>,
    pub(super) outgoing: &'a mut Outgoing,
    pub(super) counters: &'a Counters,
    pub(super) tick_gate: &'a TickGate,
}

pub(super) struct Tick<'a> {
    config: ServerConfig,
    parts: Parts<'a>,
    room: Room,
    work_units: u64,
    delay_units: u64,
    tail_units: u64,
    /// The number of ticks in this measuring window.
    ticks: u64,
    period_ns: u64,
    addresses: Vec<Option<SocketAddr>>,
    sent: SendCounters,
    window: Window,
}

impl<'a> Tick<'a> {
    pub(super) fn new(config: ServerConfig, parts: Parts<'a>) -> Self {
        let period_ns = SECOND_NS / u64::from(config.tick_hz.max(1));
        Self {
            room: Room::new(config.sim()),
            work_units: parts.work.units(config.work_us),
            delay_units: 0,
            tail_units: parts.work.units(config.tail_us),
            ticks: 0,
            period_ns,
            addresses: vec![None; usize::from(config.players)],
            sent: SendCounters::default(),
            window: Window::open(parts.counters, period_ns),
            parts,
            config,
        }
    }

    pub(super) fn run(mut self, requests: &Receiver<Request>, stop: &Arc<AtomicBool>) -> Result<(), ServerError> {
        let mut clock = clock(&self.config, self.period_ns)?;
        if let Some(telemetry) = &mut self.parts.telemetry {
            telemetry.set_period(clock.period());
        }
        while !stop.load(Ordering::Relaxed) {
            let due_ns = clock.wait().due_ns;
            self.parts.tick_gate.begin();
            self.tick((due_ns / 1_000) as u32);
            self.parts.tick_gate.end();
            if let Some(done) = clock.done() {
                self.window.record(&done);
                if let Some(telemetry) = &mut self.parts.telemetry {
                    telemetry.after(&done);
                }
            }
            answer_waiting(requests, |command| self.answer(command, &clock));
        }
        self.parts.scribe.map_or(Ok(()), Scribe::end)
    }

    fn tick(&mut self, due_us: u32) {
        self.take_in();
        let parts = &mut self.parts;
        let jobs_before = parts.group.done();
        self.room.tick(&mut parts.group, due_us);
        // The additional work is in the middle of fifty ticks. So windows that differ by one tick have the same amount of it.
        let tail_units = if self.ticks % TAIL_EVERY == TAIL_EVERY / 2 { self.tail_units } else { 0 };
        self.ticks += 1;
        parts.work.run(self.work_units + self.delay_units + tail_units, &mut parts.group);
        let jobs = parts.group.done() - jobs_before;
        self.window.jobs(jobs);
        self.send(jobs);
        let shots = self.room.sim().players().filter_map(|(_, body)| body.shot);
        shots.for_each(|fired| self.window.shot(&fired));
        if let Some(scribe) = &mut self.parts.scribe {
            scribe.tick(&self.room, due_us);
        }
    }

    /// Handles the events since the last tick.
    fn take_in(&mut self) {
        let parts = &mut self.parts;
        // Handle at most as many events as the queue holds. Events that arrive meanwhile wait for the next tick.
        for event in parts.events.try_iter().take(QUEUE_EVENTS) {
            let act = match event {
                Event::Join { slot, address } => {
                    self.addresses[slot.0] = Some(address);
                    Act::Join(slot)
                }
                Event::Leave { slot } => {
                    self.addresses[slot.0] = None;
                    Act::Leave(slot)
                }
                Event::Input { slot, sequence, ack, input } => Act::Input(slot, ClientInput { sequence, ack, input }),
            };
            if parts.scribe.as_mut().is_none_or(|scribe| scribe.act(&act)) {
                self.room.apply(act);
            }
        }
    }

    /// Sends all snapshots in one call. If the socket buffer is full, a datagram is lost, but the tick is not delayed.
    fn send(&mut self, jobs: u64) {
        let Parts { outgoing, counters, telemetry, .. } = &mut self.parts;
        for (Slot(slot), datagram, is_full) in self.room.datagrams() {
            if let Some(address) = self.addresses[slot] {
                // Refused datagrams are counted below.
                let _ = outgoing.send(address, datagram);
                self.window.snapshot(is_full);
            }
        }
        outgoing.flush();
        let (now, before) = (outgoing.counters(), self.sent);
        let (packets, bytes) = (now.packets - before.packets, now.bytes - before.bytes);
        let failed = now.refused + now.not_queued - before.refused - before.not_queued;
        counters.sent(packets, bytes);
        counters.send_failed(failed);
        self.sent = now;
        if let Some(page) = telemetry.as_ref().map(Telemetry::counters) {
            page.add(Count::Jobs, jobs);
            page.add(Count::PacketsOut, packets);
            page.add(Count::BytesOut, bytes);
            page.add(Count::Drops, failed);
            page.set(Count::Players, self.addresses.iter().flatten().count() as u64);
        }
    }

    fn answer(&mut self, command: Command, clock: &TickClock) -> Answer {
        match command {
            Command::Window => {
                self.ticks = 0;
                let players = self.addresses.iter().flatten().count();
                let window = self.window.close(self.parts.counters, players as u64, clock);
                Answer::ServerWindow(Box::new(window))
            }
            Command::TimerSlackNs { value } => timer_slack(value),
            Command::DelayUs { value } => {
                self.delay_units = self.parts.work.units(value);
                Answer::Delay { delay_us: value }
            }
            Command::WorkUs { value } => {
                self.work_units = self.parts.work.units(value);
                Answer::Work { work_us: value }
            }
            Command::TailUs { value } => {
                self.tail_units = self.parts.work.units(value);
                Answer::Tail { tail_us: value }
            }
            Command::Stop => Answer::Stopping { stopping: true },
        }
    }
}

/// The clock of this thread, and the thread's configuration.
fn clock(config: &ServerConfig, period_ns: u64) -> Result<TickClock, ServerError> {
    let thread_config = match config.keeping {
        Keeping::Steady => ThreadConfig { fifo: config.fifo, ..ThreadConfig::default() },
        Keeping::Plain => {
            ThreadConfig { slice_ns: None, timer_slack_ns: None, fifo: config.fifo, ..ThreadConfig::default() }
        }
    };
    let (spinning, align) = match config.keeping {
        Keeping::Steady => (Spinning::WhereThereIsRoom, Align::Measured),
        Keeping::Plain => (Spinning::Never, Align::Never),
    };
    let thread = TickThread::set_up(&thread_config);
    let settings = TickSettings { period: Duration::from_nanos(period_ns), overrun: Overrun::Skip, spinning, align };
    let mut clock = TickClock::start(settings)?.on(thread);
    if config.phases {
        clock.join_phases(&PhaseSettings::default())?;
    }
    Ok(clock)
}

/// Sets this thread's timer slack, and reads it back.
fn timer_slack(value: Option<u64>) -> Answer {
    let set = match value.and_then(NonZeroU64::new) {
        Some(value) => set_current_timer_slack(Some(value)),
        None => Ok(()),
    };
    match set.and_then(|()| current_timer_slack()) {
        Ok(timer_slack_ns) => Answer::TimerSlack { timer_slack_ns },
        Err(errno) => Answer::Error { error: format!("timer slack: {errno}") },
    }
}
