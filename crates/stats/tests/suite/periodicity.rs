//! Simulates a CPU that is taken away periodically, at random,
//! by the scheduler's tick or by a budget, and counts how often the detector is right.
//! The seeds are fixed, so each run gives the same rates.

use std::fmt::Write as _;

use evenkeel_stats::periodicity::{
    Count, Gap, Known, Label, Limit, Model, Periodicity, Reason, Tracker, Window, detect,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const MS: f64 = 1e6;
/// A moment on a clock that has run for hours.
const BASE_NS: f64 = 12_345_678_901_234.0;
/// Shorter gaps are not reported.
const THRESHOLD_NS: f64 = 100_000.0;

/// How the CPU is taken away, and how it is watched.
#[derive(Clone, Copy, Debug)]
struct Machine {
    period_ms: f64,
    share: f64,
    /// Each start is shifted by up to this share of the period, in either direction.
    jitter: f64,
    /// Whether each start is timed from the previous one, so that the jitter adds up.
    adds_up: bool,
    drift_ppm: f64,
    /// Random gaps per second, 0.1 to 4 ms each.
    random_hz: f64,
    random_label: Label,
    seconds: f64,
    seed: u64,
}

const CLEAN: Machine = Machine {
    period_ms: 10.0,
    share: 0.4,
    jitter: 0.0,
    adds_up: false,
    drift_ppm: 0.0,
    random_hz: 0.0,
    random_label: Label::Unknown,
    seconds: 2.0,
    seed: 1,
};

type Taken = (f64, f64, Label);

struct SimulatedGaps {
    windows: Vec<Window>,
    gaps: Vec<Gap>,
    /// The true starts of our slice, without jitter.
    starts: Vec<f64>,
}

impl Machine {
    fn chance(&self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.seed)
    }

    fn slots(&self, random: &mut ChaCha8Rng) -> (Vec<Taken>, Vec<f64>) {
        let period = self.period_ms * MS * (1.0 + self.drift_ppm / 1e6);
        let gone = self.period_ms * MS * (1.0 - self.share);
        let mut first = random.random_range(0.0..period);
        let (mut taken, mut starts) = (Vec::new(), Vec::new());
        for turn in 0..(self.seconds * 1e9 / period) as u64 {
            let at = first + turn as f64 * period;
            let off = if self.jitter > 0.0 { random.random_range(-1.0..1.0) * self.jitter * period } else { 0.0 };
            // A late gap ends on time, and every gap needs some microseconds to begin.
            taken.push((at + off + random.random_range(0.0..8_000.0), at + off + gone, Label::Foreign));
            starts.push(at + gone);
            if self.adds_up {
                first += off;
            }
        }
        (taken, starts)
    }

    fn random(&self, random: &mut ChaCha8Rng) -> Vec<Taken> {
        let mut at = 0.0;
        let mut taken = Vec::new();
        while self.random_hz > 0.0 && at < self.seconds * 1e9 {
            at += -f64::ln(1.0 - random.random_range(0.0..1.0)) * 1e9 / self.random_hz;
            taken.push((at, at + random.random_range(0.1..4.0) * MS, self.random_label));
        }
        taken
    }

    fn watch(&self) -> SimulatedGaps {
        let mut random = self.chance();
        let (mut taken, starts) = if self.share < 1.0 { self.slots(&mut random) } else { Default::default() };
        taken.extend(self.random(&mut random));
        seen(taken, starts, self.seconds, &mut random)
    }
}

/// The view of a thread that watches in bursts.
fn seen(mut taken: Vec<Taken>, starts: Vec<f64>, seconds: f64, random: &mut ChaCha8Rng) -> SimulatedGaps {
    taken.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut merged: Vec<Taken> = Vec::new();
    for (from, to, label) in taken {
        match merged.last_mut() {
            Some(last) if from <= last.1 + 1000.0 => {
                last.1 = last.1.max(to);
                if label != Label::Foreign {
                    last.2 = label;
                }
            }
            _ => merged.push((from, to, label)),
        }
    }
    let (mut windows, mut gaps) = (Vec::new(), Vec::new());
    let mut at = 0.0;
    while at < seconds * 1e9 {
        let end = at + random.random_range(90.0..130.0) * MS;
        let from = merged.iter().find(|gap| gap.0 <= at && at < gap.1).map_or(at, |gap| gap.1);
        let inside: Vec<&Taken> = merged.iter().filter(|gap| gap.0 > from && gap.0 < end).collect();
        let to = inside.last().map_or(end, |gap| gap.1.max(end));
        let whole = |ns: f64| (BASE_NS + ns) as u64;
        for (start, stop, label) in inside.into_iter().filter(|gap| gap.1 - gap.0 >= THRESHOLD_NS) {
            gaps.push(Gap { start_ns: whole(*start), length_ns: (stop - start) as u64, label: *label });
        }
        windows.push(Window { start_ns: whole(from), end_ns: whole(to) });
        at = to + random.random_range(50.0..90.0) * MS;
    }
    SimulatedGaps { windows, gaps, starts }
}

impl SimulatedGaps {
    fn detect(&self, known: &Known) -> Periodicity {
        detect(&self.windows, &self.gaps, known)
    }

    /// The errors of the result: period (as a ratio), share, and phase in the middle of the time (in nanoseconds).
    fn errors(&self, machine: &Machine, said: &Periodicity) -> Option<(f64, f64, f64)> {
        let slots = said.slots?;
        let period = machine.period_ms * MS * (1.0 + machine.drift_ppm / 1e6);
        let middle = BASE_NS + machine.seconds * 0.5e9;
        let start = slots.next_start_ns(middle as u64) as f64 - BASE_NS;
        let off = self.starts.iter().map(|truth| (truth - start).abs()).fold(f64::MAX, f64::min);
        Some((slots.period_ns / period - 1.0, slots.share - machine.share, off))
    }

    fn is_right(&self, machine: &Machine, said: &Periodicity) -> bool {
        self.errors(machine, said).is_some_and(|(period, share, phase_ns)| {
            period.abs() <= 0.01 && share.abs() <= 0.03 && phase_ns <= 0.3 * MS
        })
    }
}

/// How often each point of the grid is run.
const RUNS_OF_EACH: u64 = 4;
/// How often each point of the grid is run to check a change of the detector.
const MANY_RUNS_OF_EACH: u64 = 20;

/// Runs the grid. Returns the number of right results, the number of runs, and a list of the wrong results.
fn grid(machine: impl Fn(Machine) -> Machine, known: &Known, runs_of_each: u64) -> (u64, u64, String) {
    let (mut right, mut runs, mut wrong) = (0, 0, String::new());
    for period_ms in [5.0, 7.3, 8.0, 10.0, 12.0, 15.6, 20.0, 30.0] {
        for share in [0.2, 0.4, 0.6, 0.8, 0.9] {
            for seed in 0..runs_of_each {
                let machine = machine(Machine { period_ms, share, seed, ..CLEAN });
                let seen = machine.watch();
                let said = seen.detect(known);
                runs += 1;
                if seen.is_right(&machine, &said) {
                    right += 1;
                } else {
                    let _ = writeln!(wrong, "{machine:?}: {:?} of {said:?}", seen.errors(&machine, &said));
                }
            }
        }
    }
    (right, runs, wrong)
}

#[test]
fn slots_are_found_over_the_whole_grid() {
    slots_are_found(RUNS_OF_EACH);
}

#[test]
#[ignore = "five times as many runs as the test above: for a change of the detector"]
fn slots_are_found_in_many_runs() {
    slots_are_found(MANY_RUNS_OF_EACH);
}

fn slots_are_found(runs_of_each: u64) {
    let unlabelled = Known::default();
    type Change = fn(Machine) -> Machine;
    let table: [(&str, Change, f64); 5] = [
        ("clean", |machine| machine, 1.0),
        ("jitter 2 %, drift 100 ppm", |machine| Machine { jitter: 0.02, drift_ppm: 100.0, ..machine }, 0.98),
        ("with 10 random gaps a second", |machine| Machine { jitter: 0.02, random_hz: 10.0, ..machine }, 0.95),
        ("drift down, 10 s", |machine| Machine { drift_ppm: -100.0, jitter: 0.02, seconds: 10.0, ..machine }, 0.99),
        (
            "with 40 turns of others a second, known by their label",
            |machine| Machine { jitter: 0.02, random_hz: 40.0, random_label: Label::Preempted, ..machine },
            0.95,
        ),
    ];
    for (name, change, at_least) in table {
        let (right, runs, wrong) = grid(change, &unlabelled, runs_of_each);
        println!("{name}: {right} of {runs} right");
        assert!(right as f64 >= at_least * runs as f64, "{name}: {right} of {runs}\n{wrong}");
    }
}

#[test]
fn chance_has_no_period() {
    no_period_is_made_up(RUNS_OF_EACH);
}

#[test]
#[ignore = "five times as many runs as the test above: for a change of the detector"]
fn chance_has_no_period_in_many_runs() {
    no_period_is_made_up(MANY_RUNS_OF_EACH);
}

fn no_period_is_made_up(runs_of_each: u64) {
    let mut made_up = String::new();
    for seed in 0..20 * runs_of_each {
        for random_hz in [0.0, 5.0, 20.0, 60.0, 120.0] {
            let machine = Machine { share: 1.0, random_hz, seed, ..CLEAN };
            let said = machine.watch().detect(&Known { count: Count::All, ..Known::default() });
            if !matches!(said.model, Model::None | Model::Irregular) {
                let _ = writeln!(made_up, "{machine:?}: {said:?}");
            }
        }
    }
    assert_eq!(made_up, "");
}

/// The results for machines whose slots have jitter, compared with the truth.
#[derive(Default)]
struct Score {
    runs: u32,
    found: u32,
    /// Period within 3 %, share within 0.03.
    near: u32,
    /// Period and share within 10 %.
    fair: u32,
    /// The number of results that report gaps at fixed times.
    in_phase: u32,
    jitter: f64,
}

impl Score {
    fn simulate(machines: impl Iterator<Item = Machine>) -> Score {
        let mut score = Score::default();
        for machine in machines {
            let said = machine.watch().detect(&Known::default());
            score.runs += 1;
            let Some(period) = said.period else { continue };
            let off = period.period_ns / (machine.period_ms * MS) - 1.0;
            let share_off = period.share - machine.share;
            score.found += 1;
            score.near += u32::from(off.abs() <= 0.03 && share_off.abs() <= 0.03);
            score.fair += u32::from(off.abs() <= 0.1 && share_off.abs() <= 0.1 * machine.share);
            score.in_phase += u32::from(said.why == Reason::Periodic);
            score.jitter += period.jitter;
        }
        score.jitter /= f64::from(score.found.max(1));
        score
    }

    fn row(&self) -> String {
        let Score { runs, found, near, fair, in_phase, jitter } = self;
        format!(
            "{found} of {runs} found, {near} within 3 %, {fair} within 10 %, {in_phase} in phase, jitter {:.2} %",
            jitter * 100.0
        )
    }
}

fn machines(shares: &[f64], like: Machine, seeds: u64) -> impl Iterator<Item = Machine> {
    let places = [3.0, 5.0, 7.3, 10.0, 20.0, 30.0]
        .into_iter()
        .flat_map(move |period_ms| shares.iter().map(move |share| (period_ms, *share)));
    places.flat_map(move |(period_ms, share)| (0..seeds).map(move |seed| Machine { period_ms, share, seed, ..like }))
}

#[test]
fn a_period_is_reported_with_its_jitter() {
    let seeds = 2;
    for adds_up in [false, true] {
        for jitter in [0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1] {
            let like = Machine { jitter, adds_up, ..CLEAN };
            let score = Score::simulate(machines(&[0.2, 0.4, 0.55, 0.8, 0.9], like, seeds));
            println!("jitter {jitter}, adds up: {adds_up}: {}", score.row());
            assert_eq!((score.found, score.near), (score.runs, score.runs), "{}", score.row());
            // The jitter is uniform in both directions.
            let sd = jitter / 3_f64.sqrt();
            assert!((score.jitter - sd).abs() <= 0.1 * sd + 0.001, "{sd}: {}", score.row());
            let out_of_phase = adds_up && jitter >= 0.02;
            let in_phase = f64::from(score.in_phase) / f64::from(score.runs);
            assert!(if out_of_phase { in_phase <= 0.1 } else { adds_up || in_phase == 1.0 }, "{}", score.row());

            let noisy = Machine { random_hz: 20.0, ..like };
            let score = Score::simulate(machines(&[0.2, 0.4, 0.55, 0.7], noisy, seeds));
            println!("    with 20 random gaps a second: {}", score.row());
            let share = |count: u32| f64::from(count) / f64::from(score.runs);
            assert!(share(score.found) >= 0.9 && score.fair == score.found, "{}", score.row());
        }
    }
}

/// An ordinary thread on the same CPU. Its time slices and the test's end at the scheduler's tick, and last about one tick each.
fn neighbour(seed: u64, label: Label, steady: bool) -> SimulatedGaps {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut at, mut taken) = (random.random_range(0.0..4.0) * MS, Vec::new());
    while at < 2e9 {
        let turns = |random: &mut ChaCha8Rng| if steady { 1.0 } else { f64::from(random.random_range(1..=3_u8)) };
        let length = turns(&mut random) * 4.0 * MS;
        taken.push((at, at + length - random.random_range(0.0..20_000.0), label));
        at += length + turns(&mut random) * 4.0 * MS;
    }
    seen(taken, Vec::new(), 2.0, &mut random)
}

#[test]
fn an_ordinary_neighbour_is_not_reported_as_a_hypervisor() {
    for seed in 0..100 {
        for steady in [true, false] {
            let preempted = neighbour(seed, Label::Preempted, steady).detect(&Known::default());
            assert_eq!((preempted.model, preempted.counted), (Model::None, 0), "{preempted:?}");
            // Without labels, the slices of this thread look like slots, and only the tick reveals them.
            let known = Known { turns_end_at_ns: Some(4_000_000), ..Known::default() };
            let unknown = neighbour(seed, Label::Unknown, steady).detect(&known);
            assert_eq!(unknown.model, Model::Irregular, "{unknown:?}");
        }
    }
    let seen = neighbour(1, Label::Unknown, true);
    let fooled = seen.detect(&Known::default());
    assert_eq!(fooled.model, Model::FixedSlot, "the test's neighbour is as regular as a hypervisor: {fooled:?}");
}

#[test]
fn a_limit_that_runs_out_is_a_bucket_and_one_that_does_not_is_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    // A quota of 40 of 100 ms. From the moment when it runs out, the CPU is gone until the next period.
    let taken: Vec<Taken> = (0..20)
        .map(|turn| (turn as f64 * 100.0 * MS + 40.0 * MS, (turn + 1) as f64 * 100.0 * MS, Label::Preempted))
        .collect();
    let seen = seen(taken, Vec::new(), 2.0, &mut random);
    let limit = |quota_ns, throttled| Some(Limit { quota_ns, period_ns: 100_000_000, throttled });
    for (limit, model) in [
        (limit(40_000_000, Some(12)), Model::TokenBucket),
        (limit(40_000_000, None), Model::TokenBucket),
        (limit(40_000_000, Some(0)), Model::None),
        (limit(400_000_000, None), Model::None),
        (None, Model::None),
    ] {
        let said = seen.detect(&Known { limit, ..Known::default() });
        assert_eq!(said.model, model, "{said:?}");
    }
}

#[test]
fn slots_are_followed_gap_by_gap() {
    let machine = Machine { jitter: 0.01, ..CLEAN };
    let seen = machine.watch();
    let said = seen.detect(&Known::default());
    let mut tracker = Tracker::new(&said.slots.unwrap());
    // Continue for ten more minutes, with a period that differs from the detected one by 100 ppm.
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let period = 10.0 * MS * 1.0001;
    let first = tracker.next_start_ns(seen.windows.last().unwrap().end_ns) as f64;
    for turn in 0..60_000_u32 {
        let at = first + f64::from(turn) * period;
        if turn % 7 == 0 {
            tracker.observe((at + 3.0 * MS) as u64);
        }
        if turn % 3 != 0 {
            tracker.observe((at + random.random_range(-0.1..0.1) * MS) as u64);
        }
        let next = tracker.next_start_ns((at + 2.0 * MS) as u64) as f64;
        assert!((next - at - period).abs() < 0.2 * MS, "turn {turn}: off by {} ns", next - at - period);
    }
    assert!((tracker.period_ns() / period - 1.0).abs() < 1e-4 && tracker.fits() > 0.5, "{tracker:?}");
    (0..200).for_each(|turn| tracker.observe((first + (60_000.5 + f64::from(turn)) * period) as u64));
    assert!(tracker.fits() < 0.1, "{tracker:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_gaps_make_it_panic(
        lengths in prop::collection::vec((0_u64..200_000_000, 0_u64..100_000_000, 0_u8..3), 0..60),
        windows in prop::collection::vec((0_u64..300_000_000, 0_u64..300_000_000), 0..12),
        quota_ns in any::<u64>(), period_ns in any::<u64>(), tick in prop::option::of(any::<u64>()),
    ) {
        let mut at = 0;
        let mut gap = |(pause, length_ns, label): (u64, u64, u8)| {
            let start_ns = at + pause;
            at = start_ns + length_ns;
            let label = [Label::Preempted, Label::Foreign, Label::Unknown][usize::from(label)];
            Gap { start_ns, length_ns, label }
        };
        let gaps: Vec<Gap> = lengths.into_iter().map(&mut gap).collect();
        let mut at = 0;
        let mut window = |(pause, length): (u64, u64)| {
            let start_ns = at + pause;
            at = start_ns + length;
            Window { start_ns, end_ns: at }
        };
        let windows: Vec<Window> = windows.into_iter().map(&mut window).collect();
        let limit = Some(Limit { quota_ns, period_ns, throttled: None });
        for count in [Count::Foreign, Count::All] {
            for limit in [None, limit] {
                let said = detect(&windows, &gaps, &Known { count, limit, turns_end_at_ns: tick });
                prop_assert!((0.0..=1.0).contains(&said.confidence) && (0.0..=1.0).contains(&said.lost_share), "{:?}", said);
                prop_assert_eq!(said.period.is_some(), said.model == Model::FixedSlot);
                prop_assert!(said.period.is_some() || said.slots.is_none());
                if let Some(slots) = said.slots {
                    prop_assert!(slots.share > 0.0 && slots.share < 1.0 && slots.period_ns.is_finite(), "{:?}", slots);
                    let next = slots.next_start_ns(at);
                    prop_assert!(next as f64 >= at as f64 - 2.0 && (next as f64) < at as f64 + slots.period_ns + 2.0, "{} {}", next, at);
                }
            }
        }
    }
}
