//! One thread of the load with its connections. It sends due requests, receives answers, and counts.

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_sys::readiness::{Interest, Readiness};
use evenkeel_sys::{CpuSet, clock, thread};

use super::connection::{Connection, Flight, TURN, Waits};
use super::counts::{RequestCounts, Span};
use super::draw::Draw;
use super::fault::Fault;
use super::protocol::Protocol;
use super::schedule::Schedule;

/// A server hangs if a request has no answer after this many nanoseconds. This is longer than a pause of the machine.
pub(super) const SILENCE_NS: u64 = 5_000_000_000;

/// When a thread sends.
#[derive(Clone, Debug)]
pub(super) enum Turn {
    /// It sends as soon as a connection is free (closed loop).
    AtOnce,
    /// It sends at the due times (open loop).
    Due(Schedule),
}

pub(super) struct Worker {
    protocol: Arc<dyn Protocol>,
    connections: Vec<Connection>,
    readiness: Readiness,
    waits: Waits,
    turn: Turn,
    draw: Draw,
    /// Connections without a request, each with the time since which it has been free. The connection that has been free longest is first.
    free: VecDeque<(u32, u64)>,
    ready: Vec<u32>,
    /// [`SILENCE_NS`], except in tests.
    pub(super) silence_ns: u64,
}

impl Worker {
    pub(super) fn new(
        protocol: Arc<dyn Protocol>,
        connections: Vec<Connection>,
        turn: Turn,
        draw: Draw,
    ) -> Result<Worker, Fault> {
        let readiness = Readiness::new()?;
        let waits = match (&turn, connections.len()) {
            (Turn::AtOnce, 1) => Waits::InRead,
            _ => Waits::Never,
        };
        for (index, connection) in connections.iter().enumerate() {
            connection.wait(waits)?;
            readiness.add(&connection.stream, index as u32, Interest::Read)?;
        }
        let (free, ready) = (VecDeque::with_capacity(connections.len()), Vec::with_capacity(64));
        Ok(Worker { protocol, connections, readiness, waits, turn, draw, free, ready, silence_ns: SILENCE_NS })
    }

    /// Prepares the calling thread. Pins it to its CPU, and sets a timer slack with which the thread wakes on time.
    pub(super) fn settle(cpus: &CpuSet) {
        if !cpus.is_empty() {
            // If the kernel refuses, the thread runs on other CPUs. At worst, the window's values show that the load does not keep up.
            let _ = thread::set_affinity(cpus);
        }
        let _ = thread::set_timer_slack_ns(std::num::NonZeroU64::new(1));
    }

    /// Runs the load of one window. Returns when every request is answered or given up.
    pub(super) fn run(&mut self, span: Span) -> Result<RequestCounts, Fault> {
        let mut counts = RequestCounts::new();
        self.free.clear();
        self.free.extend((0..self.connections.len() as u32).map(|index| (index, span.start_ns)));
        if let Turn::Due(schedule) = &mut self.turn {
            schedule.start(span.start_ns);
        }
        clock::sleep_until_ns(span.start_ns);
        let (mut begun, mut ended) = (None, None);
        let mut look_ns = span.start_ns;
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= span.begin_ns && begun.is_none() {
                begun = Some((clock::thread_cpu_ns(), now_ns));
            }
            if now_ns >= span.end_ns && ended.is_none() {
                ended = Some((clock::thread_cpu_ns(), now_ns));
            }
            if now_ns >= look_ns {
                look_ns = now_ns + TURN.as_nanos() as u64;
                self.refuse_silence(now_ns)?;
            }
            self.send_due(now_ns, span, &mut counts)?;
            if self.is_over(now_ns, span) {
                break;
            }
            self.hear(span, &mut counts)?;
        }
        self.give_up(span, &mut counts);
        if let Some((begun, ended)) = begun.zip(ended) {
            counts.ran(ended.0.saturating_sub(begun.0), ended.1.saturating_sub(begun.1));
        }
        Ok(counts)
    }

    fn send_due(&mut self, now_ns: u64, span: Span, counts: &mut RequestCounts) -> Result<(), Fault> {
        while let Some((index, freed_ns)) = self.free.front().copied() {
            // Connections are handled one after another.
            // In a closed loop, the latency of a request counts from the moment when it is really sent.
            let now_ns = if matches!(self.turn, Turn::AtOnce) { clock::monotonic_ns() } else { now_ns };
            let due_ns = match &mut self.turn {
                Turn::AtOnce if now_ns >= span.end_ns => return Ok(()),
                Turn::AtOnce => now_ns,
                Turn::Due(schedule) => {
                    let due_ns = schedule.due_ns();
                    if due_ns > now_ns || due_ns >= span.end_ns || now_ns >= span.give_up_ns {
                        return Ok(());
                    }
                    schedule.advance();
                    if span.has(due_ns) {
                        counts.sent(now_ns.saturating_sub(due_ns.max(freed_ns)));
                    }
                    due_ns
                }
            };
            self.free.pop_front();
            self.ask(index, due_ns, now_ns)?;
        }
        Ok(())
    }

    fn ask(&mut self, index: u32, due_ns: u64, now_ns: u64) -> Result<(), Fault> {
        let Some(connection) = self.connections.get_mut(index as usize) else { return Ok(()) };
        connection.ask(Flight { op: self.draw.next(), due_ns, sent_ns: now_ns }, &*self.protocol)?;
        if connection.has_output() && self.waits == Waits::Never {
            self.readiness.change(&connection.stream, index, Interest::ReadAndWrite)?;
        }
        Ok(())
    }

    fn is_over(&self, now_ns: u64, span: Span) -> bool {
        let all_sent = match &self.turn {
            Turn::AtOnce => true,
            Turn::Due(schedule) => schedule.due_ns() >= span.end_ns || now_ns >= span.give_up_ns,
        };
        now_ns >= span.end_ns && all_sent && self.free.len() == self.connections.len()
    }

    /// Waits for answers until the next request is due, and handles them.
    fn hear(&mut self, span: Span, counts: &mut RequestCounts) -> Result<(), Fault> {
        // Move the list out of `self`, so that the list and the connections can be borrowed at the same time. The list is moved back below.
        let mut ready = std::mem::take(&mut self.ready);
        match self.waits {
            Waits::InRead => {
                ready.clear();
                ready.push(0);
            }
            Waits::Never => {
                let due_ns = match &self.turn {
                    Turn::Due(schedule) if !self.free.is_empty() => Some(schedule.due_ns().min(span.end_ns)),
                    _ => None,
                };
                self.readiness.wait(due_ns, TURN.as_millis() as u32, &mut ready)?;
            }
        }
        for index in ready.iter().copied() {
            self.hear_one(index, span, counts)?;
        }
        self.ready = ready;
        Ok(())
    }

    fn hear_one(&mut self, index: u32, span: Span, counts: &mut RequestCounts) -> Result<(), Fault> {
        let Some(connection) = self.connections.get_mut(index as usize) else { return Ok(()) };
        if connection.has_output() {
            connection.flush()?;
            if !connection.has_output() && self.waits == Waits::Never {
                self.readiness.change(&connection.stream, index, Interest::Read)?;
            }
        }
        let Some((flight, found)) = connection.hear(&*self.protocol)? else { return Ok(()) };
        let now_ns = clock::monotonic_ns();
        if span.has(now_ns) {
            counts.answered();
        }
        let is_closed = matches!(self.turn, Turn::AtOnce);
        // In an open loop, a request belongs to the window in which it was due, whenever its answer arrives.
        let counts_at_ns = if is_closed { now_ns } else { flight.due_ns };
        if span.has(counts_at_ns) {
            counts.took(now_ns.saturating_sub(flight.due_ns), found);
        }
        // Send the next request at once, before reading the other answers.
        // Otherwise the server would have to wait, and its measured rate would be too low.
        if is_closed && now_ns < span.end_ns {
            return self.ask(index, now_ns, now_ns);
        }
        self.free.push_back((index, now_ns));
        Ok(())
    }

    fn refuse_silence(&self, now_ns: u64) -> Result<(), Fault> {
        let flights = self.connections.iter().filter_map(|connection| connection.flight);
        let oldest_ns = flights.map(|flight| flight.sent_ns).min().unwrap_or(now_ns);
        match now_ns.saturating_sub(oldest_ns) {
            waited_ns if waited_ns >= self.silence_ns => Err(Fault::Silent { seconds: waited_ns / 1_000_000_000 }),
            _ => Ok(()),
        }
    }

    /// Counts requests that were due but never sent. Otherwise, a server that cannot keep up would look fast.
    fn give_up(&mut self, span: Span, counts: &mut RequestCounts) {
        let Turn::Due(schedule) = &mut self.turn else { return };
        while schedule.due_ns() < span.end_ns {
            if span.has(schedule.due_ns()) {
                counts.unsent(span.give_up_ns.saturating_sub(schedule.due_ns()));
            }
            schedule.advance();
        }
    }
}
