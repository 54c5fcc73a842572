//! `Crowd`: players on one thread, each with its own socket. They play from when they join until they leave.
//! The players also play between windows, because a game does not stop while a setting is switched.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_sys::readiness::{Interest, Readiness};
use evenkeel_sys::{CpuSet, clock, thread};

use super::TICK_NS;
use super::counts::PlayerCounts;
use super::player::{Event, Player};
use super::wire::PACKET_BYTES_MAX;
use crate::load::fault::Fault;
use crate::workload::Sample;

/// The time limit for all players to join, in nanoseconds.
const JOIN_NS: u64 = 15_000_000_000;
/// How often a wait checks whether the user asked to stop.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// A server hangs if it sends nothing to a player for this many nanoseconds. This is longer than a pause of the machine.
const SILENCE_NS: u64 = 5_000_000_000;

/// How long the players wait for the server.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// The time limit until all players play, in nanoseconds.
    pub(super) join_ns: u64,
    /// The time limit until the next packet to each player, in nanoseconds.
    pub(super) silence_ns: u64,
}
/// How often the periodic checks are done, in nanoseconds.
const LOOK_NS: u64 = 50_000_000;
/// The maximum number of packets to read from one socket before the thread reads the other sockets.
const READS_MAX: usize = 16;
/// A player that is more than this many ticks late, as after a pause of the machine, skips the inputs of these ticks.
const GIVE_UP_TICKS: u64 = 5;
/// How long to wait for answers to the last pings of a window:
/// in nanoseconds, and (the next constant) as a part of the window's length.
/// A longer wait is not useful, because a window that takes much longer than planned is dropped.
const GIVE_UP_NS: u64 = 100_000_000;
const GIVE_UP_PART: u64 = 4;
/// The minimum time from an order to the beginning of its window. The thread reads orders every 20 ms.
const ORDER_NS: u64 = 25_000_000;
/// The maximum time after a window for its values to arrive.
const GRACE: Duration = Duration::from_secs(8);

/// An order to the players' thread.
enum Order {
    /// Count the events between these two times.
    Window { begin_ns: u64, end_ns: u64 },
    /// Run on these CPUs. With an empty set, the kernel chooses.
    RunOn(CpuSet),
}

/// The players of a running game.
#[derive(Debug)]
pub struct Crowd {
    orders: Option<Sender<Order>>,
    samples: Receiver<Result<Sample, Fault>>,
    thread: Option<JoinHandle<()>>,
    cpus: CpuSet,
}

impl Crowd {
    /// Joins with this many players on these CPUs. Returns when all players play, or when `stop` is set.
    ///
    /// # Errors
    /// Fails if the server fails or refuses the players, or if `stop` was set.
    pub fn join(
        address: SocketAddr,
        players: u32,
        seed: u64,
        cpus: &CpuSet,
        stop: &AtomicBool,
    ) -> Result<Crowd, Fault> {
        let patience = Patience { join_ns: JOIN_NS, silence_ns: SILENCE_NS };
        Crowd::join_within(patience, address, players, seed, cpus, stop)
    }

    pub(super) fn join_within(
        patience: Patience,
        address: SocketAddr,
        players: u32,
        seed: u64,
        cpus: &CpuSet,
        stop: &AtomicBool,
    ) -> Result<Crowd, Fault> {
        let slots = (0..players).map(|number| PlayerSlot::open(address, number, seed));
        let slots = slots.collect::<Result<Vec<_>, Fault>>()?;
        let readiness = Readiness::new()?;
        for (index, slot) in slots.iter().enumerate() {
            readiness.add(&slot.socket, index as u32, Interest::Read)?;
        }
        let (orders, pending) = channel();
        let (answer, samples) = channel();
        let own = cpus.clone();
        let thread = std::thread::Builder::new().name("players".to_owned()).spawn(move || {
            run_on(&own);
            let _ = thread::set_timer_slack_ns(std::num::NonZeroU64::new(1));
            let mut players = Players { slots, readiness, orders: pending, answer, window: None, patience };
            if let Err(fault) = players.play() {
                // If the receiver has been dropped, nobody needs the error.
                let _ = players.answer.send(Err(fault));
            }
            players.leave();
        })?;
        let mut crowd = Crowd { orders: Some(orders), samples, thread: Some(thread), cpus: cpus.clone() };
        crowd.hear(Duration::from_nanos(patience.join_ns) + GRACE, stop)?;
        Ok(crowd)
    }

    /// Moves the players to other CPUs.
    pub fn run_on(&mut self, cpus: CpuSet) {
        self.cpus = cpus.clone();
        let _ = self.order(Order::RunOn(cpus));
    }

    /// The CPUs of the players. Empty if they are not pinned.
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Lets the players play for `settle` and then for `window`, and returns the values of the window.
    /// Calls `begin` when the window begins and `end` when it ends.
    ///
    /// # Errors
    /// Fails if the server does not let the players play.
    pub fn window(
        &mut self,
        settle: Duration,
        window: Duration,
        begin: &mut dyn FnMut(),
        end: &mut dyn FnMut(),
    ) -> Result<Sample, Fault> {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        let begin_ns = clock::monotonic_ns().saturating_add(ns(settle).max(ORDER_NS));
        let end_ns = begin_ns.saturating_add(ns(window));
        self.order(Order::Window { begin_ns, end_ns })?;
        clock::sleep_until_ns(begin_ns);
        begin();
        clock::sleep_until_ns(end_ns);
        end();
        self.hear(GRACE, &AtomicBool::new(false))
    }

    fn order(&self, order: Order) -> Result<(), Fault> {
        match self.orders.as_ref().map(|orders| orders.send(order)) {
            Some(Ok(())) => Ok(()),
            // The thread has ended, and has already reported the reason.
            _ => Err(self.samples.try_iter().find_map(Result::err).unwrap_or_else(thread_ended)),
        }
    }

    fn hear(&mut self, limit: Duration, stop: &AtomicBool) -> Result<Sample, Fault> {
        let begun = Instant::now();
        loop {
            let why = match self.samples.recv_timeout(STOP_LOOK.min(limit.saturating_sub(begun.elapsed()))) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(thread_ended()),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => "it was stopped",
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < limit => continue,
                Err(RecvTimeoutError::Timeout) => "the players' thread does not answer",
            };
            return Err(Fault::Io { why: why.to_owned() });
        }
    }
}

impl Drop for Crowd {
    /// All players leave the game.
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn thread_ended() -> Fault {
    Fault::Io { why: "the players' thread ended unexpectedly".to_owned() }
}

fn run_on(cpus: &CpuSet) {
    if !cpus.is_empty() {
        // If the kernel refuses, the thread runs on other CPUs. Inputs that are late because of this are counted and reported.
        let _ = thread::set_affinity(cpus);
    }
}

/// A player with its socket.
struct PlayerSlot {
    player: Player,
    socket: UdpSocket,
    heard_ns: u64,
    /// When the next input would be due if the network had a constant delay. The other field includes the random delay.
    beat_ns: u64,
    due_ns: u64,
}

impl PlayerSlot {
    fn open(address: SocketAddr, number: u32, seed: u64) -> Result<PlayerSlot, Fault> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        let mut player = Player::new(number + 1, seed);
        let heard_ns = clock::monotonic_ns();
        let beat_ns = heard_ns + player.keys.phase_ns();
        Ok(PlayerSlot { player, socket, heard_ns, beat_ns, due_ns: beat_ns })
    }

    /// Sends the next input, if the input is due. Returns the due time of a sent input.
    fn input(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns;
        let bytes = self.player.input(now_ns);
        if let Some(bytes) = &bytes {
            self.send(bytes);
        }
        self.beat_ns += TICK_NS;
        let late_ns = now_ns.saturating_sub(self.beat_ns);
        if late_ns > GIVE_UP_TICKS * TICK_NS {
            // Skip only whole ticks, so that each player keeps its phase: after a pause, all players are late together.
            self.beat_ns += late_ns / TICK_NS * TICK_NS;
        }
        self.due_ns = self.beat_ns + self.player.keys.wobble_ns();
        bytes.map(|_| due_ns)
    }

    /// Sends a packet. An error counts as a lost packet, because a server that has ended is detected by its silence anyway.
    fn send(&self, bytes: &[u8]) {
        let _ = self.socket.send(bytes);
    }
}

/// The state of the players' thread.
struct Players {
    slots: Vec<PlayerSlot>,
    readiness: Readiness,
    orders: Receiver<Order>,
    answer: Sender<Result<Sample, Fault>>,
    window: Option<Count>,
    patience: Patience,
}

/// A window whose events the thread counts.
struct Count {
    counts: PlayerCounts,
    begin_ns: u64,
    end_ns: u64,
    /// The CPU time, and the clock, at the beginning of the window.
    begun: Option<(u64, u64)>,
}

impl Players {
    fn play(&mut self) -> Result<(), Fault> {
        let join_ns = self.patience.join_ns;
        let limit_ns = clock::monotonic_ns() + join_ns;
        let (mut check_ns, mut is_joining) = (0, true);
        let mut ready = Vec::with_capacity(self.slots.len());
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= check_ns {
                check_ns = now_ns + LOOK_NS;
                self.check(now_ns)?;
                if is_joining && self.slots.iter().all(|slot| slot.player.is_playing()) {
                    is_joining = false;
                    let _ = self.answer.send(Ok(Sample::new()));
                }
                if is_joining && now_ns > limit_ns {
                    let playing = self.slots.iter().filter(|slot| slot.player.is_playing()).count();
                    let why = format!(
                        "{playing} of {} players joined within {} s",
                        self.slots.len(),
                        join_ns / 1_000_000_000
                    );
                    return Err(Fault::Connect { why });
                }
            }
            let due_ns = self.send_due();
            self.count(clock::monotonic_ns());
            let at_ns = self.window.as_ref().map_or(due_ns, |window| due_ns.min(window.next_ns()));
            self.readiness.wait(Some(at_ns), 20, &mut ready)?;
            if !self.take_orders()? {
                return Ok(());
            }
            self.hear(&ready)?;
        }
    }

    /// Carries out pending orders. Returns `false` if the players must leave.
    fn take_orders(&mut self) -> Result<bool, Fault> {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Window { begin_ns, end_ns }) => {
                    self.window =
                        Some(Count { counts: PlayerCounts::new(begin_ns, end_ns), begin_ns, end_ns, begun: None });
                }
                Ok(Order::RunOn(cpus)) if cpus.is_empty() => {
                    // Remove the earlier pinning of this thread.
                    let _ = thread::affinity_of(std::process::id()).map(|ours| thread::set_affinity(&ours));
                }
                Ok(Order::RunOn(cpus)) => run_on(&cpus),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// Does the periodic checks. Players that have not joined ask again, and a silent server is an error.
    fn check(&mut self, now_ns: u64) -> Result<(), Fault> {
        for slot in &mut self.slots {
            if let Some(bytes) = slot.player.urge(now_ns) {
                slot.send(&bytes);
            }
            let silent_ns = now_ns.saturating_sub(slot.heard_ns);
            if slot.player.is_playing() && silent_ns >= self.patience.silence_ns {
                return Err(Fault::Silent { seconds: silent_ns / 1_000_000_000 });
            }
        }
        Ok(())
    }

    /// Sends every input that is due. Returns when the next input is due.
    fn send_due(&mut self) -> u64 {
        let mut next_ns = u64::MAX;
        for slot in &mut self.slots {
            let now_ns = clock::monotonic_ns();
            if slot.due_ns <= now_ns {
                let sent = slot.input(now_ns);
                if let Some((window, due_ns)) = self.window.as_mut().zip(sent) {
                    window.counts.sent(due_ns, now_ns);
                }
            }
            next_ns = next_ns.min(slot.due_ns);
        }
        next_ns
    }

    /// Begins and ends the window, and sends its values when it is complete.
    fn count(&mut self, now_ns: u64) {
        let Some(window) = &mut self.window else { return };
        if now_ns >= window.begin_ns && window.begun.is_none() {
            window.begun = Some((clock::thread_cpu_ns(), now_ns));
        }
        if now_ns >= window.closes_ns() {
            if let Some((cpu_ns, at_ns)) = window.begun {
                window.counts.cpu_ns = clock::thread_cpu_ns().saturating_sub(cpu_ns);
                window.counts.wall_ns = now_ns.saturating_sub(at_ns);
            }
            window.counts.give_up(now_ns);
            let sample = window.counts.sample(self.slots.len() as u32);
            self.window = None;
            let _ = self.answer.send(Ok(sample));
        }
    }

    fn hear(&mut self, ready: &[u32]) -> Result<(), Fault> {
        let (mut answers, mut events) = (Vec::new(), Vec::new());
        let mut room = [0_u8; PACKET_BYTES_MAX + 1];
        for index in ready {
            let Some(slot) = self.slots.get_mut(*index as usize) else { continue };
            for _ in 0..READS_MAX {
                let bytes = match slot.socket.recv(&mut room) {
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // This error is the response to an earlier packet: no program listens at the server's address any more.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused && !slot.player.is_playing() => break,
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Err(Fault::Closed),
                    Err(error) => return Err(error.into()),
                };
                let now_ns = clock::monotonic_ns();
                slot.heard_ns = now_ns;
                slot.player.hear(room.get(..bytes).unwrap_or_default(), now_ns, &mut answers, &mut events);
                answers.drain(..).for_each(|bytes| slot.send(&bytes));
                for event in events.drain(..) {
                    match (event, &mut self.window) {
                        (Event::Closed { why }, _) => {
                            return Err(Fault::Odd { why: format!("it sent a player away: {why}") });
                        }
                        (Event::Snapshot { tick }, Some(window)) => window.counts.snapshot(tick, now_ns),
                        (Event::Pong { sent_ns }, Some(window)) => window.counts.pong(sent_ns, now_ns),
                        (Event::Snapshot { .. } | Event::Pong { .. }, None) => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn leave(&mut self) {
        for slot in &mut self.slots {
            if let Some(bytes) = slot.player.leave() {
                slot.send(&bytes);
            }
        }
    }
}

impl Count {
    /// When the next step of this window is due.
    fn next_ns(&self) -> u64 {
        if self.begun.is_none() { self.begin_ns } else { self.closes_ns() }
    }

    /// When the window is complete: at its end, plus the wait for answers to the last pings.
    fn closes_ns(&self) -> u64 {
        let part_ns = self.end_ns.saturating_sub(self.begin_ns) / GIVE_UP_PART;
        self.end_ns + if self.counts.waits() { part_ns.min(GIVE_UP_NS) } else { 0 }
    }
}
