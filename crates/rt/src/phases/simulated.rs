//! Simulated hosts: the rule settles from any start, with sessions that come, go, crash, or change their rate or work.
//! Each session sees only the slots that the others had published by its last read.

use super::rule::{SHIFT_PARTS, Step, Ticks, start, step};

const MS: u64 = 1_000_000;
const PERIOD_NS: u64 = 20 * MS;
/// Ten seconds at 50 Hz.
const TEN_SECONDS_NS: u64 = 10_000 * MS;

/// Pseudo-random numbers, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        // xorshift64.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

struct Simulated {
    /// The session's last published ticks, with the due time of its next tick.
    ticks: Ticks,
    /// The session's plan until its next read.
    plan: Step,
    left_ns: i64,
    looks_ns: u64,
    every_ns: u64,
}

struct Host {
    now_ns: u64,
    sessions: Vec<Simulated>,
    chance: Chance,
    next_id: u64,
}

impl Host {
    fn new(seed: u64) -> Host {
        Host { now_ns: 1_000 * MS, sessions: Vec::new(), chance: Chance(seed * 2 + 1), next_id: 0 }
    }

    fn published(&self) -> Vec<Ticks> {
        self.sessions.iter().map(|session| session.ticks).collect()
    }

    /// Adds a session whose next tick is due at `due_ns`, without regard to the others.
    fn put(&mut self, period_ns: u64, work_ns: u64, due_ns: u64) {
        // Gives sessions numbers in no particular order.
        self.next_id += 1;
        let id = self.next_id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let ticks = Ticks { id, period_ns, due_ns, work_ns, is_fixed: false };
        let every_ns = 250 * MS + self.chance.below(100 * MS);
        let looks_ns = self.now_ns + self.chance.below(every_ns);
        self.sessions.push(Simulated { ticks, plan: Step::default(), left_ns: 0, looks_ns, every_ns });
    }

    /// Adds a session that starts now and chooses the largest gap.
    fn join(&mut self, period_ns: u64, work_ns: u64) {
        let due_ns = self.now_ns + period_ns;
        let me = Ticks { id: u64::MAX, period_ns, due_ns, work_ns, is_fixed: false };
        let shift_ns = start(&me, &self.published());
        self.put(period_ns, work_ns, due_ns + shift_ns);
    }

    fn run(&mut self, for_ns: u64) {
        let end_ns = self.now_ns + for_ns;
        while let Some(at) = (0..self.sessions.len()).min_by_key(|at| self.sessions[*at].ticks.due_ns) {
            self.now_ns = self.sessions[at].ticks.due_ns;
            if self.now_ns >= end_ns {
                break;
            }
            self.tick(at);
        }
        self.now_ns = end_ns;
    }

    fn tick(&mut self, at: usize) {
        if self.now_ns >= self.sessions[at].looks_ns {
            let others = self.published();
            let session = &mut self.sessions[at];
            session.plan = step(&session.ticks, &others);
            session.left_ns = session.plan.distance_ns;
            session.looks_ns = self.now_ns + session.every_ns;
        }
        let session = &mut self.sessions[at];
        let shift_ns = session.plan.shift_ns.clamp(session.left_ns.min(0), session.left_ns.max(0));
        assert!(shift_ns.unsigned_abs() <= session.ticks.period_ns / SHIFT_PARTS, "no tick is shifted by more");
        session.left_ns -= shift_ns;
        session.ticks.due_ns += session.ticks.period_ns.saturating_add_signed(shift_ns);
    }

    /// The smallest distance of two ticks on the circle of their pair, between the middles of their work.
    fn closest_ns(&self) -> u64 {
        let all = self.published();
        let middle = |ticks: &Ticks| ticks.due_ns + ticks.work_ns / 2;
        let pairs = all.iter().enumerate().flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (one, other)));
        let apart = pairs.map(|(one, other)| {
            let circle_ns = common(one.period_ns, other.period_ns);
            let away_ns = middle(one).abs_diff(middle(other)) % circle_ns;
            away_ns.min(circle_ns - away_ns)
        });
        apart.min().unwrap_or(u64::MAX)
    }

    /// How evenly the ticks of one period are spread: the smallest distance, as a share of the distance of evenly spread ticks.
    fn evenness(&self) -> f64 {
        self.closest_ns() as f64 * self.sessions.len() as f64 / self.sessions[0].ticks.period_ns as f64
    }

    fn all_settled(&self) -> bool {
        let all = self.published();
        all.iter().all(|me| step(me, &all).is_settled(me.period_ns))
    }
}

/// The greatest common divisor.
fn common(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { common(other, one % other) }
}

const COUNTS: [u64; 9] = [2, 3, 5, 8, 13, 14, 50, 120, 200];

#[test]
fn sessions_that_join_settle_within_ten_seconds() {
    for many in COUNTS {
        let mut host = Host::new(many);
        for _ in 0..many {
            host.join(PERIOD_NS, MS / 10);
            let wait_ns = host.chance.below(50 * MS);
            host.run(wait_ns);
        }
        host.run(TEN_SECONDS_NS);
        assert!(host.evenness() > 0.9 && host.all_settled(), "{many}: {}", host.evenness());
    }
}

/// If all ticks have one phase, they are farthest from the goal: half a circle, which takes a thousand ticks.
/// The sessions move apart at a steady rate, so after half of that time they are half as far apart.
#[test]
fn sessions_at_one_phase_part() {
    for many in COUNTS {
        let mut host = Host::new(many);
        let due_ns = host.now_ns + PERIOD_NS;
        (0..many).for_each(|_| host.put(PERIOD_NS, MS / 10, due_ns));
        host.run(TEN_SECONDS_NS);
        // With more sessions, some pass each other on the way, because their view is a moment old.
        assert!(many > 50 || host.evenness() > 0.35, "{many}: {}", host.evenness());
        host.run(TEN_SECONDS_NS + 3_000 * MS);
        assert!(host.evenness() > 0.9 && host.all_settled(), "{many}: {}", host.evenness());
    }
}

#[test]
fn sessions_at_any_phases_settle() {
    for seed in 1..60 {
        let mut host = Host::new(seed);
        let many = 2 + host.chance.below(18);
        for _ in 0..many {
            let due_ns = host.now_ns + host.chance.below(PERIOD_NS);
            host.put(PERIOD_NS, MS / 10, due_ns);
        }
        host.run(2 * TEN_SECONDS_NS);
        assert!(host.evenness() > 0.9 && host.all_settled(), "{seed}, {many}: {}", host.evenness());
    }
}

#[test]
fn the_others_close_the_gap_of_a_crash_within_ten_seconds() {
    for many in [4, 8, 14, 50] {
        let mut host = Host::new(many);
        (0..many).for_each(|_| host.join(PERIOD_NS, MS / 10));
        host.run(TEN_SECONDS_NS);
        // All sessions of half a circle crash, which leaves the largest gap that this number of sessions can leave.
        let from_ns = host.now_ns;
        host.sessions.retain(|session| (session.ticks.due_ns - from_ns) % PERIOD_NS < PERIOD_NS / 2);
        assert!(host.sessions.len() >= 2);
        host.run(TEN_SECONDS_NS);
        assert!(host.evenness() > 0.9, "{many}: {}", host.evenness());
        host.join(PERIOD_NS, MS / 10);
        host.run(TEN_SECONDS_NS);
        assert!(host.evenness() > 0.9, "one more than {many}: {}", host.evenness());
    }
}

#[test]
fn sessions_come_and_go_for_minutes() {
    for seed in 1..8 {
        let mut host = Host::new(seed);
        for _ in 0..60 {
            let is_full = host.sessions.len() > 2 + host.chance.below(20) as usize;
            if is_full {
                let leaves = host.chance.below(host.sessions.len() as u64) as usize;
                host.sessions.swap_remove(leaves);
            } else {
                let work_ns = MS / 10 + host.chance.below(MS / 4);
                host.join(PERIOD_NS, work_ns);
            }
            let wait_ns = host.chance.below(3_000 * MS);
            host.run(wait_ns);
        }
        host.run(TEN_SECONDS_NS);
        assert!(host.all_settled(), "{seed}");
        // The ticks are not evenly spread, because their work differs. But no two ticks overlap.
        let room_ns = PERIOD_NS / host.sessions.len() as u64 / 2;
        assert!(host.closest_ns() > room_ns.min(350_000), "{seed}: {}", host.closest_ns());
    }
}

#[test]
fn work_and_rates_change() {
    let mut host = Host::new(5);
    (0..10).for_each(|_| host.join(PERIOD_NS, MS / 2));
    host.run(TEN_SECONDS_NS);
    host.sessions[3].ticks.work_ns = 4 * MS;
    host.run(TEN_SECONDS_NS);
    assert!(host.all_settled());
    let heavy = host.sessions[3].ticks;
    let others = host.published().into_iter().filter(|other| other.id != heavy.id);
    let after_its_start = others.map(|other| (other.due_ns + 100 * PERIOD_NS - heavy.due_ns) % PERIOD_NS);
    assert!(after_its_start.min() > Some(4 * MS), "nobody starts during its work");
    host.sessions[3].ticks.work_ns = MS / 2;
    // All sessions change to a longer period at their next ticks, as when a match begins. Then they return to the old period.
    for period_ns in [30 * MS, PERIOD_NS] {
        host.sessions.iter_mut().for_each(|session| session.ticks.period_ns = period_ns);
        host.run(3 * TEN_SECONDS_NS);
        assert!(host.evenness() > 0.9 && host.all_settled(), "{period_ns}: {}", host.evenness());
    }
}

#[test]
fn other_periods_share_the_circle() {
    // The periods in milliseconds, and the minimum distance of two ticks in microseconds.
    let table: [(&[u64], u64); 6] = [
        (&[20, 10], 4_900),
        (&[20, 20, 20, 20, 20, 20, 10, 10], 600),
        (&[20, 30], 4_900),
        (&[50, 50, 50, 10], 2_000),
        (&[10, 20, 30, 50], 1_200),
        (&[30, 30, 30, 15, 15, 60], 1_500),
    ];
    for (periods, least_us) in table {
        for seed in 1..20 {
            let mut host = Host::new(seed);
            for period in periods {
                host.join(period * MS, MS / 10);
                let wait_ns = host.chance.below(300 * MS);
                host.run(wait_ns);
            }
            host.run(3 * TEN_SECONDS_NS);
            assert!(host.closest_ns() / 1000 >= least_us, "{periods:?}, {seed}: {}", host.closest_ns());
        }
    }
}

/// A faulty or hostile session moves the others a little, but does not bring them together.
#[test]
fn a_wild_neighbour_does_not_gather_the_others() {
    let mut host = Host::new(7);
    (0..8).for_each(|_| host.join(PERIOD_NS, MS / 10));
    host.run(TEN_SECONDS_NS);
    host.join(PERIOD_NS, u64::MAX);
    for _ in 0..200 {
        host.run(100 * MS);
        let wild = host.sessions.len() - 1;
        let due_ns = host.now_ns + host.chance.below(PERIOD_NS);
        host.sessions[wild].ticks.due_ns = due_ns;
        let wild = host.sessions.pop().unwrap();
        assert!(host.evenness() > 0.3, "{}", host.evenness());
        host.sessions.push(wild);
    }
}
