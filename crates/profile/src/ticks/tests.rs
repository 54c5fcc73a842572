//! Divides recordings of made-up servers into ticks.

use proptest::prelude::*;

use super::account::{Places, account};
use super::compare::{Comparison, TicksCaveat};
use super::cut::{Ends, NoTicks, Wanted};
use super::marks::MarkedTick;
use super::*;
use crate::offcpu::Reason;
use crate::recording::{Event, Sample, Span, Thread, Unit};
use crate::stack::{Frame, StackId};

mod marks;

const MS: u64 = 1_000_000;
const PERIOD_NS: u64 = 20 * MS;
const CLOCK_NS: u64 = MS / 2;
const TID: u32 = 7;

/// A server that ticks fifty times per second and works for two milliseconds in each tick.
/// A clock samples 2,000 times per second of its CPU time.
struct Server {
    recording: Recording,
    intervals: Vec<OffCpuInterval>,
    now_ns: u64,
    since_clock_ns: u64,
}

impl Server {
    fn new() -> Server {
        let mut recording = Recording::default();
        recording.events.push(Event { name: "cpu-clock".to_owned(), unit: Unit::Nanoseconds });
        for (tid, name) in [(TID, "server"), (8, "saver")] {
            recording.threads.insert(tid, Thread { pid: TID, name: Some(name.to_owned()) });
        }
        Server { recording, intervals: Vec::new(), now_ns: 1_000 * MS, since_clock_ns: 0 }
    }

    /// A stack of these functions, outermost first. Kernel functions have names that end with `_k`.
    fn stack(&mut self, path: &str) -> StackId {
        let frames: Vec<Frame> = path
            .split(';')
            .map(|name| Frame::Named {
                name: self.recording.stacks.text(name.trim_end_matches("_k")),
                module: None,
                is_kernel: name.ends_with("_k"),
                is_inlined: false,
            })
            .collect();
        self.recording.stacks.intern(frames)
    }

    fn runs(&mut self, path: &str, for_ns: u64) {
        let stack = self.stack(path);
        let mut left_ns = for_ns;
        while self.since_clock_ns + left_ns >= CLOCK_NS {
            let step_ns = CLOCK_NS - self.since_clock_ns;
            self.now_ns += step_ns;
            left_ns -= step_ns;
            self.since_clock_ns = 0;
            self.recording.samples.push(Sample {
                event: 0,
                at_ns: self.now_ns - 1,
                cpu: 0,
                pid: TID,
                tid: TID,
                stack,
                weight: CLOCK_NS,
                address: 0,
                raw: (0, 0),
            });
        }
        self.since_clock_ns += left_ns;
        self.now_ns += left_ns;
    }

    fn waits(&mut self, reason: Reason, path: Option<&str>, until_ns: u64, woken_by: Option<u32>) {
        let stack = path.map(|path| self.stack(path));
        self.intervals.push(OffCpuInterval {
            pid: TID,
            tid: TID,
            cpu: 0,
            span: Span { start_ns: self.now_ns, end_ns: until_ns.max(self.now_ns) },
            reason,
            stack,
            taken_by: None,
            woken_by: woken_by.map(|tid| (tid, None)),
            ..OffCpuInterval::default()
        });
        self.now_ns = until_ns.max(self.now_ns);
    }

    /// Makes ticks. The thread gets the CPU and begins each tick `late_ns` after the due time. Then `body` runs.
    fn ticks(&mut self, count: u64, late_ns: impl Fn(u64) -> u64, mut body: impl FnMut(&mut Server, u64)) {
        let base_ns = self.now_ns;
        for number in 1..=count {
            let due_ns = base_ns + number * PERIOD_NS;
            self.waits(Reason::Sleep, Some("main;clock_nanosleep;nap_k"), due_ns + 50_000 + late_ns(number), None);
            body(self, number);
        }
        self.waits(Reason::Sleep, Some("main;clock_nanosleep;nap_k"), self.now_ns + PERIOD_NS, None);
        self.recording.span = Span { start_ns: 1_000 * MS, end_ns: self.now_ns };
    }

    fn works(&mut self) {
        self.runs("main;tick;simulate", MS);
        self.runs("main;tick;send;sendmsg_k", MS);
    }

    fn names(&self) -> Names {
        Names::resolve(&self.recording, |_| Vec::new())
    }

    fn found(&self) -> Ticks {
        Ticks::find(&self.recording, &self.names(), &self.intervals, &Wanted::Any).unwrap()
    }

    fn compared(&self) -> Comparison {
        let names = Names::resolve(&self.recording, |_| Vec::new());
        self.found().compare(&self.recording, &names, 0.01).unwrap()
    }
}

/// The comparison for a stall in every hundredth tick.
fn compared(late_ns: u64, stall: impl Fn(&mut Server)) -> Comparison {
    let mut server = Server::new();
    server.ticks(
        900,
        |number| if number % 100 == 50 { late_ns } else { 0 },
        |server, number| {
            server.runs("main;tick;simulate", MS);
            if number % 100 == 50 {
                stall(server);
            }
            server.runs("main;tick;send;sendmsg_k", MS);
        },
    );
    let ticks = server.found();
    assert_eq!((ticks.cut.tid, ticks.cut.ends, ticks.cut.ticks.len()), (TID, Ends::AtItsWait, 900));
    for (tick, account) in ticks.cut.ticks.iter().zip(&ticks.accounts) {
        assert_eq!(
            account.sums.values().sum::<u64>(),
            tick.span.length_ns(),
            "the account covers all of a tick's time"
        );
    }
    server.compared()
}

#[test]
fn a_stall_of_any_kind_has_its_reason() {
    type Row = (&'static str, u64, fn(&mut Server), Spent, Option<&'static str>);
    let rows: [Row; 7] = [
        (
            "a lock",
            0,
            |server| {
                let until_ns = server.now_ns + 3 * MS;
                server.waits(Reason::Futex, Some("main;tick;world::lock;__lll_lock_wait;futex_k"), until_ns, Some(8));
            },
            Spent::Without(Reason::Futex),
            Some("world::lock"),
        ),
        (
            "faults, each a piece of it",
            0,
            |server| {
                for _ in 0..30 {
                    server.runs("main;tick;map_read;asm_exc_page_fault_k", 60_000);
                    server.waits(
                        Reason::PageFault,
                        Some("main;tick;map_read;asm_exc_page_fault_k;io_k"),
                        server.now_ns + 40_000,
                        None,
                    );
                }
            },
            Spent::Without(Reason::PageFault),
            Some("map_read"),
        ),
        ("a loop", 0, |server| server.runs("main;tick;find_path", 3 * MS), Spent::Ran, Some("find_path")),
        (
            "a loop that calls others",
            0,
            |server| {
                for _ in 0..3 {
                    server.runs("main;tick;find_path;one", MS / 2);
                    server.runs("main;tick;find_path;other", MS / 2);
                }
            },
            Spent::Ran,
            Some("find_path"),
        ),
        (
            "a quota",
            0,
            |server| {
                server.waits(Reason::Throttled, Some("main;tick;simulate;throttle_k"), server.now_ns + 3 * MS, None)
            },
            Spent::Without(Reason::Throttled),
            Some("simulate"),
        ),
        ("no sample for a while", 0, |server| server.now_ns += 3 * MS, Spent::Unsampled, None),
        ("a late beginning", 3 * MS, |_| (), Spent::Late, None),
    ];
    for (name, late_ns, stall, spent, function) in rows {
        let said = compared(late_ns, stall);
        let top = said.top.as_ref().unwrap();
        assert_eq!((top.spent, top.function.as_deref()), (spent, function), "{name}: {said:#?}");
        assert_eq!((said.slow_ticks, said.ticks), (9, 900), "{name}");
        let numbers: Vec<u64> = said.slow.iter().map(|slow| slow.number % 100).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]), "{name}: {numbers:?}");
        assert!(said.slow.iter().all(|slow| slow.spent == spent), "{name}: {:?}", said.slow);
        assert_eq!(said.caveats, [], "{name}");
        let more_ns = said.slow_mean_ns - said.rest_mean_ns;
        assert!((2_900_000..3_700_000).contains(&more_ns), "{name}: {more_ns}");
        let [slow, rest] = [said.slow_folded.total(), said.rest_folded.total()];
        assert!(slow.abs_diff(said.slow_mean_ns) < 1_000 && rest.abs_diff(said.rest_mean_ns) < 1_000, "{name}");
    }
}

#[test]
fn a_lock_wait_names_the_holder_and_where_it_took_the_lock() {
    let said = compared(0, |server| {
        let until_ns = server.now_ns + 3 * MS;
        server.waits(Reason::Futex, Some("main;simulate;world::lock;std::lock;futex_k"), until_ns, Some(8));
    });
    let top = said.top.unwrap();
    assert_eq!((top.from.as_deref(), top.ended_by.as_deref()), (Some("simulate"), Some("saver (8)")));
    assert!((2_900_000..=3_000_000).contains(&top.growth_ns) && top.share > 0.95, "{top:?}");
    let line = "server;main;simulate;world::lock;std::lock;futex_[k];[futex]";
    assert!(said.slow_folded.lines.contains_key(line), "{:?}", said.slow_folded);
    assert!(!said.rest_folded.lines.contains_key(line), "{:?}", said.rest_folded);
}

/// Packets wake the thread between ticks. The thread waits for packets and for ticks at the same place.
#[test]
fn work_between_ticks_is_not_part_of_them() {
    let mut server = Server::new();
    let poll = Some("main;poll;poll_k");
    let base_ns = server.now_ns;
    for number in 1..=400_u64 {
        let due_ns = base_ns + number * PERIOD_NS;
        for packet in 1..4 {
            server.waits(Reason::Poll, poll, due_ns - PERIOD_NS + (packet * 5 + number % 3) * MS, None);
            server.runs("main;receive", 100_000);
        }
        server.waits(Reason::Poll, poll, due_ns, None);
        server.works();
        if number % 100 == 7 {
            let until_ns = server.now_ns + MS;
            server.waits(Reason::Futex, Some("main;tick;lock;futex_k"), until_ns, None);
            server.works();
        }
    }
    let ticks = server.found();
    assert_eq!(ticks.cut.ends, Ends::AtItsWait);
    assert!(ticks.cut.ticks.len() > 390, "{}", ticks.cut.ticks.len());
    let lengths = ticks.cut.ticks.iter().map(|tick| (tick.span.end_ns - tick.begun_ns) / 1000);
    let mut lengths: Vec<u64> = lengths.collect();
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [2000, 5000]);
}

/// If the recording has no stacks of waiting threads, a tick ends at its first sleep.
#[test]
fn without_reasons_a_tick_ends_at_its_first_sleep_and_it_is_said() {
    let mut server = Server::new();
    server.ticks(100, |_| 0, |server, _| server.works());
    for interval in &mut server.intervals {
        (interval.reason, interval.stack) = (Reason::Unknown, None);
    }
    assert_eq!(server.found().cut.ends, Ends::AtFirstSleep);
    let caveats = server.compared().caveats;
    assert_eq!(caveats, [TicksCaveat::FewTicks { enough: 300 }, TicksCaveat::WaitsUnknown, TicksCaveat::Alike]);
}

#[test]
fn a_clock_that_comes_too_seldom_is_doubted() {
    let mut server = Server::new();
    server.ticks(400, |_| 0, |server, _| server.works());
    let mut nth = 0;
    server.recording.samples.retain_mut(|sample| {
        sample.weight *= 20;
        nth += 1;
        nth % 20 == 0
    });
    let caveats = server.compared().caveats;
    assert!(caveats.contains(&TicksCaveat::Coarse { period_ns: Some(10 * MS), enough_hz: 1000 }), "{caveats:?}");
}

/// A loop that sleeps for a set time after each tick begins late after a long tick. This delay does not count as lateness.
#[test]
fn a_loop_that_sleeps_a_set_time_is_not_late_after_a_long_tick() {
    let mut server = Server::new();
    for number in 0..600_u64 {
        // Real timers fire some microseconds early or late, so this test does too.
        let until_ns = server.now_ns + 18 * MS + (number * 7 % 11) * 5_000;
        server.waits(Reason::Sleep, Some("main;nanosleep"), until_ns, None);
        server.works();
        if number % 100 == 50 {
            server.runs("main;tick;find_path", 3 * MS);
        }
    }
    let said = server.compared();
    assert_eq!(said.top.as_ref().unwrap().spent, Spent::Ran, "{said:#?}");
    assert!(said.slow.iter().all(|slow| slow.lateness_ns < 100_000), "{said:#?}");
}

#[test]
fn a_thread_is_chosen_by_its_name_or_by_what_it_does() {
    let mut server = Server::new();
    server.ticks(200, |_| 0, |server, _| server.works());
    let find =
        |wanted| Ticks::find(&server.recording, &server.names(), &server.intervals, &wanted).map(|ticks| ticks.cut.tid);
    assert_eq!(find(Wanted::Named("server".to_owned())), Ok(TID));
    assert_eq!(find(Wanted::Thread(TID)), Ok(TID));
    let none = find(Wanted::Named("saver".to_owned())).unwrap_err();
    assert_eq!(none, NoTicks::NoSwitches("a thread called saver".to_owned()));
    let nothing = Ticks::find(&server.recording, &server.names(), &[], &Wanted::Any).unwrap_err();
    assert!(nothing.to_string().starts_with("the recording has no switches of any thread"), "{nothing}");
}

/// Ticks with begin events, such as a function's entry: of a thread that waits, and of a thread that never waits.
#[test]
fn ticks_begun_by_an_event_end_at_the_wait_or_at_the_next() {
    let mut server = Server::new();
    let mut begins = Vec::new();
    server.ticks(
        100,
        |_| 0,
        |server, _| {
            server.runs("main;receive", 300_000);
            begins.push(server.now_ns);
            server.works();
        },
    );
    let marked = ThreadTicks { tid: TID, ticks: begins.into_iter().map(MarkedTick::at).collect(), unended: 0 };
    let ticks = Ticks::at(&server.recording, &server.names(), &server.intervals, &marked);
    assert_eq!((ticks.cut.ends, ticks.cut.ticks.len()), (Ends::AtItsWait, 99));
    assert!(ticks.cut.ticks.iter().all(|tick| tick.span.length_ns() == 2 * MS));
    let never = Ticks::at(&server.recording, &server.names(), &[], &marked);
    assert_eq!(never.cut.ends, Ends::AtNextBegin);
    assert!(never.cut.ticks.iter().all(|tick| tick.span.length_ns() == PERIOD_NS));
}

proptest! {
    /// For any recording, ticks do not overlap, and a tick's account covers its time exactly once.
    #[test]
    fn no_recording_is_a_panic(
        intervals in prop::collection::vec((0_u64..3_000_000, 0_u64..3_000_000, 0_u8..10), 0..200),
        samples in prop::collection::vec((0_u64..3_000_000, any::<u64>()), 0..100),
    ) {
        let mut server = Server::new();
        for (start_ns, end_ns, reason) in intervals {
            let reasons = [Reason::Futex, Reason::Poll, Reason::Sleep, Reason::Preempted, Reason::Unknown, Reason::PageFault];
            server.now_ns = start_ns;
            server.waits(reasons[usize::from(reason) % reasons.len()], Some("main;wait"), end_ns, None);
        }
        let stack = server.stack("main;work");
        for (at_ns, weight) in samples {
            server.recording.samples.push(Sample { event: 0, at_ns, cpu: 0, pid: 1, tid: TID, stack, weight, address: 0, raw: (0, 0) });
        }
        server.recording.samples.sort_by_key(|sample| sample.at_ns);
        let lives = cut::by_thread(&server.intervals);
        let life = lives.get(&TID).map_or(&[][..], Vec::as_slice);
        let begins = life.iter().map(|interval| MarkedTick { due_ns: Some(interval.span.start_ns), ..MarkedTick::at(interval.span.end_ns) });
        let marked = ThreadTicks { tid: TID, ticks: begins.collect(), unended: 0 };
        let cuts = [Ticks::find(&server.recording, &server.names(), &server.intervals, &Wanted::Any).ok().map(|ticks| ticks.cut),
            Some(cut::at(&server.recording, life, &marked))];
        let places = Places::from_recording(&server.recording, &server.names(), &[TID], life);
        for cut in cuts.into_iter().flatten() {
            prop_assert!(cut.ticks.windows(2).all(|pair| pair[0].span.end_ns <= pair[1].span.start_ns));
            for tick in &cut.ticks {
                let accounted: u64 = account(life, &places, tick).sums.values().sum();
                prop_assert_eq!(accounted, tick.span.length_ns());
            }
        }
    }
}
