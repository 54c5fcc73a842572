//! During a flood the receive thread waits while a tick runs.
//! Otherwise both threads would share a CPU, and the scheduler gives each four milliseconds at a time.
//! Snapshots would then be late because of datagrams that are refused anyway.

use evenkeel_rt::Event;

/// How many datagrams are judged together.
const ROUND: u32 = 256;
/// If more than this many of [`ROUND`] datagrams come from unknown senders, they are a flood.
/// A full match has no datagrams from unknown senders.
const STRANGERS: u32 = 192;
/// For a flood, [`ROUND`] datagrams must also arrive within this time, in nanoseconds.
/// That is 25,600 per second, four times what 64 players may send.
const ROUND_NS: u64 = 10_000_000;

/// Shows the receive thread whether a tick runs.
#[derive(Debug)]
pub(super) struct TickGate {
    between_ticks: Event,
}

impl TickGate {
    /// A gate while no tick runs.
    pub(super) fn new() -> Self {
        let between_ticks = Event::new();
        between_ticks.set();
        Self { between_ticks }
    }

    /// Marks that a tick begins.
    pub(super) fn begin(&self) {
        self.between_ticks.reset();
    }

    /// Marks that the tick is over: waiting threads continue.
    pub(super) fn end(&self) {
        self.between_ticks.set();
    }

    /// Waits for the end of the tick, if one is being played.
    pub(super) fn wait(&self) {
        self.between_ticks.wait();
    }
}

/// Detects a flood.
#[derive(Debug, Default)]
pub(super) struct Flood {
    seen: u32,
    strangers: u32,
    round_began_ns: u64,
    is_on: bool,
}

impl Flood {
    /// Counts a datagram of a known or unknown sender. Returns whether there is a flood.
    pub(super) fn saw(&mut self, is_stranger: bool, now_ns: u64) -> bool {
        self.seen += 1;
        self.strangers += u32::from(is_stranger);
        if self.seen >= ROUND {
            let took_ns = now_ns.saturating_sub(self.round_began_ns);
            self.is_on = self.strangers > STRANGERS && took_ns < ROUND_NS;
            (self.seen, self.strangers, self.round_began_ns) = (0, 0, now_ns);
        }
        self.is_on
    }

    /// Starts to count again from zero, because no datagram arrived for a while.
    pub(super) fn quiet(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this many datagrams per second end as a flood, if this share comes from unknown senders.
    fn is_flood(a_second: u64, strangers: f64) -> bool {
        let mut flood = Flood::default();
        let count = 4 * u64::from(ROUND);
        (1..=count)
            .map(|n| flood.saw((n as f64 * 0.618).fract() < strangers, n * 1_000_000_000 / a_second))
            .last()
            .unwrap()
    }

    #[test]
    fn only_many_strangers_at_once_are_a_flood() {
        assert!(is_flood(600_000, 1.0) && is_flood(600_000, 0.9));
        assert!(!is_flood(600_000, 0.3), "players that send fast");
        assert!(!is_flood(10_000, 1.0), "strangers that come slowly");
        let mut flood = Flood::default();
        assert!((0..2 * ROUND).any(|n| flood.saw(true, u64::from(n))));
        flood.quiet();
        assert!(!flood.saw(true, 1_000));
    }

    #[test]
    fn a_waiting_thread_continues_after_the_tick() {
        let tick_gate = TickGate::new();
        tick_gate.wait();
        tick_gate.begin();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| tick_gate.wait());
            tick_gate.end();
            waiting.join().unwrap();
        });
    }
}
