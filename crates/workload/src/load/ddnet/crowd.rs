//! `Crowd`: players on one thread, each with a socket of its own, who play from when they join until they leave, window or not: a game does not
//! stand still while a setting is switched.

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

/// How long it may take until all play, in nanoseconds.
const JOIN_NS: u64 = 15_000_000_000;
/// How often it is looked whether the user asked to stop.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// A server that has said nothing to a player for so long hangs, in nanoseconds: a paused machine is no hung server.
const SILENCE_NS: u64 = 5_000_000_000;

/// How long the server may take.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// Until all play, in nanoseconds.
    pub(super) join_ns: u64,
    /// Until it says something to a player, in nanoseconds.
    pub(super) silence_ns: u64,
}
/// How often what is not due at a set time is looked at, in nanoseconds.
const LOOK_NS: u64 = 50_000_000;
/// Packets that are read from one socket at once: the others' turn comes.
const READS_MAX: usize = 16;
/// Inputs that are so many ticks late are not made up for, as after a pause of the machine.
const GIVE_UP_TICKS: u64 = 5;
/// How long after a window the answers to its pings are waited for at the most, in nanoseconds; and which part of a window's length: one that
/// takes much longer than planned is dropped.
const GIVE_UP_NS: u64 = 100_000_000;
const GIVE_UP_PART: u64 = 4;
/// A window begins no sooner than this after it was asked for: the thread looks for orders every 20 ms.
const ORDER_NS: u64 = 25_000_000;
/// How much longer than its end a window's numbers may take.
const GRACE: Duration = Duration::from_secs(8);

/// What the thread is told.
enum Order {
    /// Count what falls between these two times.
    Window { begin_ns: u64, end_ns: u64 },
    /// Run there; wherever the kernel puts it if there are none.
    RunOn(CpuSet),
}

/// Players that play.
#[derive(Debug)]
pub struct Crowd {
    orders: Option<Sender<Order>>,
    samples: Receiver<Result<Sample, Fault>>,
    thread: Option<JoinHandle<()>>,
    cpus: CpuSet,
}

impl Crowd {
    /// Joins with so many players, on these CPUs, and returns when all play, or when `stop` is set.
    ///
    /// # Errors
    /// What the server did instead; or that it was stopped.
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
        let seats = (0..players).map(|number| PlayerSlot::open(address, number, seed));
        let seats = seats.collect::<Result<Vec<_>, Fault>>()?;
        let readiness = Readiness::new()?;
        for (index, seat) in seats.iter().enumerate() {
            readiness.add(&seat.socket, index as u32, Interest::Read)?;
        }
        let (orders, told) = channel();
        let (answer, samples) = channel();
        let own = cpus.clone();
        let thread = std::thread::Builder::new().name("players".to_owned()).spawn(move || {
            run_on(&own);
            let _ = thread::set_timer_slack_ns(std::num::NonZeroU64::new(1));
            let mut table = Table { seats, readiness, told, answer, window: None, patience };
            if let Err(fault) = table.play() {
                // Nobody may listen any more.
                let _ = table.answer.send(Err(fault));
            }
            table.leave();
        })?;
        let mut crowd = Crowd { orders: Some(orders), samples, thread: Some(thread), cpus: cpus.clone() };
        crowd.hear(Duration::from_nanos(patience.join_ns) + GRACE, stop)?;
        Ok(crowd)
    }

    /// Runs on other CPUs from now on.
    pub fn run_on(&mut self, cpus: CpuSet) {
        self.cpus = cpus.clone();
        let _ = self.tell(Order::RunOn(cpus));
    }

    /// Where it may run; empty where nothing pins it.
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Lets them play for `settle`, then for `window`, and gives the window's numbers. `begin` and `end` are called at its two ends.
    ///
    /// # Errors
    /// What the server did instead of letting them play.
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
        self.tell(Order::Window { begin_ns, end_ns })?;
        clock::sleep_until_ns(begin_ns);
        begin();
        clock::sleep_until_ns(end_ns);
        end();
        self.hear(GRACE, &AtomicBool::new(false))
    }

    fn tell(&self, order: Order) -> Result<(), Fault> {
        match self.orders.as_ref().map(|orders| orders.send(order)) {
            Some(Ok(())) => Ok(()),
            // It has ended, and said why before.
            _ => Err(self.samples.try_iter().find_map(Result::err).unwrap_or_else(fell)),
        }
    }

    fn hear(&mut self, limit: Duration, stop: &AtomicBool) -> Result<Sample, Fault> {
        let begun = Instant::now();
        loop {
            let why = match self.samples.recv_timeout(STOP_LOOK.min(limit.saturating_sub(begun.elapsed()))) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(fell()),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => "it was stopped",
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < limit => continue,
                Err(RecvTimeoutError::Timeout) => "the players' thread does not answer",
            };
            return Err(Fault::Io { why: why.to_owned() });
        }
    }
}

impl Drop for Crowd {
    /// They leave the game.
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn fell() -> Fault {
    Fault::Io { why: "the players' thread fell".to_owned() }
}

fn run_on(cpus: &CpuSet) {
    if !cpus.is_empty() {
        // Refused, it runs elsewhere: what it sends late is counted, and said.
        let _ = thread::set_affinity(cpus);
    }
}

/// A player with its socket.
struct PlayerSlot {
    player: Player,
    socket: UdpSocket,
    heard_ns: u64,
    /// When the next input would be due on a network that delays all alike, and when it is.
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

    /// Sends what is due. Gives when it was, if something was sent.
    fn input(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns;
        let bytes = self.player.input(now_ns);
        if let Some(bytes) = &bytes {
            self.send(bytes);
        }
        self.beat_ns += TICK_NS;
        let late_ns = now_ns.saturating_sub(self.beat_ns);
        if late_ns > GIVE_UP_TICKS * TICK_NS {
            // Whole ticks: all players are late after a pause, and each keeps its phase.
            self.beat_ns += late_ns / TICK_NS * TICK_NS;
        }
        self.due_ns = self.beat_ns + self.player.keys.wobble_ns();
        bytes.map(|_| due_ns)
    }

    /// A packet that has no room, or no one to take it, is lost as any packet may be: that the server is gone shows in its silence.
    fn send(&self, bytes: &[u8]) {
        let _ = self.socket.send(bytes);
    }
}

/// All that the thread has.
struct Table {
    seats: Vec<PlayerSlot>,
    readiness: Readiness,
    told: Receiver<Order>,
    answer: Sender<Result<Sample, Fault>>,
    window: Option<Count>,
    patience: Patience,
}

/// A window that is counted.
struct Count {
    counts: PlayerCounts,
    begin_ns: u64,
    end_ns: u64,
    /// CPU time and clock at its beginning.
    begun: Option<(u64, u64)>,
}

impl Table {
    fn play(&mut self) -> Result<(), Fault> {
        let join_ns = self.patience.join_ns;
        let limit_ns = clock::monotonic_ns() + join_ns;
        let (mut look_ns, mut is_joining) = (0, true);
        let mut ready = Vec::with_capacity(self.seats.len());
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= look_ns {
                look_ns = now_ns + LOOK_NS;
                self.look(now_ns)?;
                if is_joining && self.seats.iter().all(|seat| seat.player.is_playing()) {
                    is_joining = false;
                    let _ = self.answer.send(Ok(Sample::new()));
                }
                if is_joining && now_ns > limit_ns {
                    let playing = self.seats.iter().filter(|seat| seat.player.is_playing()).count();
                    let why = format!(
                        "{playing} of {} players joined within {} s",
                        self.seats.len(),
                        join_ns / 1_000_000_000
                    );
                    return Err(Fault::Connect { why });
                }
            }
            let due_ns = self.send_due();
            self.count(clock::monotonic_ns());
            let at_ns = self.window.as_ref().map_or(due_ns, |window| due_ns.min(window.next_ns()));
            self.readiness.wait(Some(at_ns), 20, &mut ready)?;
            if !self.obey()? {
                return Ok(());
            }
            self.hear(&ready)?;
        }
    }

    /// Takes what it was told; `false` when it is over.
    fn obey(&mut self) -> Result<bool, Fault> {
        loop {
            match self.told.try_recv() {
                Ok(Order::Window { begin_ns, end_ns }) => {
                    self.window =
                        Some(Count { counts: PlayerCounts::new(begin_ns, end_ns), begin_ns, end_ns, begun: None });
                }
                Ok(Order::RunOn(cpus)) if cpus.is_empty() => {
                    // What it was pinned to before is not to stay.
                    let _ = thread::affinity_of(std::process::id()).map(|ours| thread::set_affinity(&ours));
                }
                Ok(Order::RunOn(cpus)) => run_on(&cpus),
                Err(TryRecvError::Empty) => return Ok(true),
                Err(TryRecvError::Disconnected) => return Ok(false),
            }
        }
    }

    /// What is done now and then: whoever has not come in asks again, and a server that says nothing is told of.
    fn look(&mut self, now_ns: u64) -> Result<(), Fault> {
        for seat in &mut self.seats {
            if let Some(bytes) = seat.player.urge(now_ns) {
                seat.send(&bytes);
            }
            let silent_ns = now_ns.saturating_sub(seat.heard_ns);
            if seat.player.is_playing() && silent_ns >= self.patience.silence_ns {
                return Err(Fault::Silent { seconds: silent_ns / 1_000_000_000 });
            }
        }
        Ok(())
    }

    /// Sends every input that is due, and says when the next one is.
    fn send_due(&mut self) -> u64 {
        let mut next_ns = u64::MAX;
        for seat in &mut self.seats {
            let now_ns = clock::monotonic_ns();
            if seat.due_ns <= now_ns {
                let sent = seat.input(now_ns);
                if let Some((window, due_ns)) = self.window.as_mut().zip(sent) {
                    window.counts.sent(due_ns, now_ns);
                }
            }
            next_ns = next_ns.min(seat.due_ns);
        }
        next_ns
    }

    /// Notes the ends of the window, and tells its numbers after it.
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
            let sample = window.counts.sample(self.seats.len() as u32);
            self.window = None;
            let _ = self.answer.send(Ok(sample));
        }
    }

    fn hear(&mut self, ready: &[u32]) -> Result<(), Fault> {
        let (mut answers, mut events) = (Vec::new(), Vec::new());
        let mut room = [0_u8; PACKET_BYTES_MAX + 1];
        for index in ready {
            let Some(seat) = self.seats.get_mut(*index as usize) else { continue };
            for _ in 0..READS_MAX {
                let bytes = match seat.socket.recv(&mut room) {
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // What the network says of an earlier packet: nobody listens there any more.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused && !seat.player.is_playing() => break,
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Err(Fault::Closed),
                    Err(error) => return Err(error.into()),
                };
                let now_ns = clock::monotonic_ns();
                seat.heard_ns = now_ns;
                seat.player.hear(room.get(..bytes).unwrap_or_default(), now_ns, &mut answers, &mut events);
                answers.drain(..).for_each(|bytes| seat.send(&bytes));
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
        for seat in &mut self.seats {
            if let Some(bytes) = seat.player.leave() {
                seat.send(&bytes);
            }
        }
    }
}

impl Count {
    /// When it is to be looked at next.
    fn next_ns(&self) -> u64 {
        if self.begun.is_none() { self.begin_ns } else { self.closes_ns() }
    }

    /// Answers to the last pings are waited for.
    fn closes_ns(&self) -> u64 {
        let part_ns = self.end_ns.saturating_sub(self.begin_ns) / GIVE_UP_PART;
        self.end_ns + if self.counts.waits() { part_ns.min(GIVE_UP_NS) } else { 0 }
    }
}
