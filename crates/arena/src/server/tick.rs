//! The tick thread: takes in what was received, plays one tick, sends everybody a snapshot, and answers a command if one waits.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use evenkeel_rt::{Overrun, Spinning, ThreadWishes, TickClock, TickSettings, TickThread};
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::console::{Request, answer_waiting};
use crate::control::{Answer, Command};
use crate::crew::Crew;
use crate::game::sim::Slot;
use crate::net::gate::Event;
use crate::room::{Act, Room, Told};
use crate::server::aside::Aside;
use crate::server::receive::send;
use crate::server::scribe::Scribe;
use crate::server::window::{Counters, Window};
use crate::server::{Keeping, QUEUE_EVENTS, Server, ServerConfig, ServerError, sim_config};
use crate::time::SECOND_NS;
use crate::work::Work;

pub(super) struct Tick {
    config: ServerConfig,
    room: Room,
    crew: Crew,
    scribe: Option<Scribe>,
    work: Work,
    work_units: u64,
    delay_units: u64,
    period_ns: u64,
    events: mpsc::Receiver<Event>,
    addresses: Vec<Option<SocketAddr>>,
    socket: Arc<UdpSocket>,
    counters: Arc<Counters>,
    aside: Arc<Aside>,
    window: Window,
}

impl Tick {
    pub(super) fn new(server: Server, events: mpsc::Receiver<Event>, counters: Arc<Counters>, aside: Arc<Aside>) -> Self {
        let config = server.config;
        let period_ns = SECOND_NS / u64::from(config.tick_hz.max(1));
        Self {
            room: Room::new(sim_config(&config)),
            crew: Crew::new(config.workers),
            scribe: server.scribe,
            work_units: server.work.units(config.work_us),
            work: server.work,
            delay_units: 0,
            period_ns,
            events,
            addresses: vec![None; usize::from(config.players)],
            socket: server.socket,
            window: Window::open(&counters, period_ns),
            counters,
            aside,
            config,
        }
    }

    pub(super) fn run(mut self, requests: &Receiver<Request>, stop: &Arc<AtomicBool>) -> Result<(), ServerError> {
        let mut clock = clock(&self.config, self.period_ns);
        while !stop.load(Ordering::Relaxed) {
            let due_ns = clock.wait().due_ns;
            self.aside.begin();
            self.tick((due_ns / 1_000) as u32);
            self.aside.end();
            if let Some(done) = clock.done() {
                self.window.record(&done);
            }
            answer_waiting(requests, |command| self.answer(command, &clock));
        }
        self.scribe.map_or(Ok(()), Scribe::end)
    }

    fn tick(&mut self, due_us: u32) {
        // As many as the queue can hold: what comes while it is drained waits for the next tick.
        for event in self.events.try_iter().take(QUEUE_EVENTS) {
            let act = match event {
                Event::Join { slot, address } => {
                    self.addresses[slot.0] = Some(address);
                    Act::Join(slot)
                }
                Event::Leave { slot } => {
                    self.addresses[slot.0] = None;
                    Act::Leave(slot)
                }
                Event::Input { slot, sequence, ack, input } => Act::Input(slot, Told { sequence, ack, input }),
            };
            if self.scribe.as_mut().is_none_or(|scribe| scribe.act(&act)) {
                self.room.apply(act);
            }
        }
        self.room.tick(&mut self.crew, due_us);
        self.work.run(self.work_units + self.delay_units, &mut self.crew);
        for (Slot(slot), datagram, is_full) in self.room.datagrams() {
            if let Some(address) = self.addresses[slot] {
                send(&self.socket, &self.counters, datagram, address);
                self.window.snapshot(is_full);
            }
        }
        let shots = self.room.sim().players().filter_map(|(_, body)| body.shot);
        shots.for_each(|fired| self.window.shot(&fired));
        if let Some(scribe) = &mut self.scribe {
            scribe.tick(&self.room, due_us);
        }
    }

    fn answer(&mut self, command: Command, clock: &TickClock) -> Answer {
        match command {
            Command::Window => {
                let players = self.addresses.iter().flatten().count();
                let window = self.window.close(&self.counters, players as u64, clock);
                Answer::ServerWindow(Box::new(window))
            }
            Command::TimerSlackNs { value } => timer_slack(value),
            Command::DelayUs { value } => {
                self.delay_units = self.work.units(value);
                Answer::Delay { delay_us: value }
            }
            Command::Stop => Answer::Stopping { stopping: true },
        }
    }
}

/// The clock of this thread, and the thread as it is wished to be treated.
fn clock(config: &ServerConfig, period_ns: u64) -> TickClock {
    let wishes = match config.keeping {
        Keeping::Steady => ThreadWishes { fifo: config.fifo, ..ThreadWishes::default() },
        Keeping::Plain => {
            ThreadWishes { slice_ns: None, timer_slack_ns: None, fifo: config.fifo, ..ThreadWishes::default() }
        }
    };
    let spinning = match config.keeping {
        Keeping::Steady => Spinning::WhereThereIsRoom,
        Keeping::Plain => Spinning::Never,
    };
    let thread = TickThread::set_up(&wishes);
    let settings = TickSettings { period: Duration::from_nanos(period_ns), overrun: Overrun::Skip, spinning };
    TickClock::start(settings).on(thread)
}

/// Sets and reads back the slack of this thread's timers.
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
