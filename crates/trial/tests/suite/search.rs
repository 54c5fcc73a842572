//! Searches on a simulated server with known truth.
//! The tests check whether the searches find the right set, and how many windows they need.
//! Other tests have a search that is killed, a server that dies, and a knob that is refused or harms.

use std::cell::Cell;

use evenkeel_trial::search::simulated::{METRIC, Simulated, TAIL, Truth, one_at_a_time};
use evenkeel_trial::search::{
    Answer, Budget, Header, KnobOutcome, Log, SearchDesign, SearchEnded, Stage, Subject, Tools, Verdict, WindowResult,
    is_over, search,
};
use evenkeel_trial::{Arm, Engaged, Guard, Level, NetworkPath, TrialError};

/// A budget that is larger than any search here needs. The tests check how much of the budget the searches use.
const BUDGET: Budget = Budget { windows: 1500, time_ms: None };

/// The number of seeds per rate: few by default, because tests run unoptimised, and 100 for published figures.
pub(crate) fn seeds() -> u64 {
    if std::env::var_os("EVENKEEL_CALIBRATE").is_some() { 100 } else { 20 }
}

pub(crate) fn design_of(truth: &Truth, seed: u64) -> SearchDesign {
    // The noise and the effects of all these servers suit this design, whatever the metric's name.
    SearchDesign { smallest_effect_ratio: 0.05, ..SearchDesign::new(truth.candidates(), METRIC, BUDGET, seed) }
}

pub(crate) fn run_on(design: &SearchDesign, subject: &mut dyn Subject, log: &mut Log) -> Answer {
    search(design, Tools { subject, log, stop: &|| false, on_progress: &mut |_| {} }).unwrap()
}

fn run(truth: &Truth, seed: u64) -> Answer {
    let mut server = Simulated::new(truth.clone(), seed);
    run_on(&design_of(truth, seed), &mut server, &mut Log::in_memory(Vec::new()))
}

pub(crate) fn windows(answer: &Answer) -> usize {
    answer.windows.values().sum()
}

/// The indices of the knobs in the set.
pub(crate) fn set(answer: &Answer) -> Vec<usize> {
    let number = |setting: &str| setting.strip_prefix("knob").unwrap().split('=').next().unwrap().parse().unwrap();
    let mut set: Vec<usize> = answer.set.iter().map(|chosen| number(&chosen.settings[0])).collect();
    set.sort_unstable();
    set
}

struct Rate {
    right: u64,
    windows: Vec<usize>,
    wrong: String,
}

fn rate(truth: &Truth, is_right: impl Fn(&Answer) -> bool) -> Rate {
    let mut rate = Rate { right: 0, windows: Vec::new(), wrong: String::new() };
    for seed in 0..seeds() {
        let answer = run(truth, seed);
        rate.windows.push(windows(&answer));
        if is_right(&answer) {
            rate.right += 1;
        } else {
            rate.wrong += &format!(
                "seed {seed}: {:?} {:?} {:?} {:?}\n",
                answer.verdict,
                answer.ended,
                set(&answer),
                answer.windows
            );
        }
    }
    rate.windows.sort_unstable();
    eprintln!("{} of {} right, median {} windows", rate.right, seeds(), rate.windows[rate.windows.len() / 2]);
    eprint!("{}", rate.wrong);
    rate
}

/// Asserts nine right results of ten, with a tolerance for chance in a small sample: two of about twenty.
fn assert_nine_of_ten(rate: &Rate) {
    let slack = if seeds() == 100 { 0 } else { 1 };
    assert!((rate.right + slack) * 10 >= seeds() * 9, "{} of {}\n{}", rate.right, seeds(), rate.wrong);
}

#[test]
fn the_right_set_of_thirty_comes_out_in_half_the_windows_of_one_at_a_time() {
    let truth = Truth::three_of_thirty();
    let rate = rate(&truth, |answer| answer.verdict == Verdict::Better && set(answer) == [4, 7, 11, 23, 28]);
    assert_nine_of_ten(&rate);
    let mut singly = Vec::new();
    for seed in 0..seeds() / 4 {
        let (found, windows) =
            one_at_a_time(&design_of(&truth, seed), &mut Simulated::new(truth.clone(), seed), 300).unwrap();
        eprintln!("one at a time, seed {seed}: {found:?} in {windows} windows");
        singly.push(windows);
    }
    singly.sort_unstable();
    let (ours, theirs) = (rate.windows[rate.windows.len() / 2], singly[singly.len() / 2]);
    assert!(ours * 2 <= theirs, "{ours} windows, one at a time {theirs}");
}

#[test]
fn of_two_ways_to_one_end_one_is_left() {
    let truth = Truth {
        knobs: 30,
        mains: vec![(4, -0.2), (11, -0.2), (23, -0.1), (17, 0.14)],
        pairs: vec![([4, 11], 0.2)],
        noise: 0.04,
        ..Truth::default()
    };
    let rate =
        rate(&truth, |answer| answer.verdict == Verdict::Better && [vec![4, 23], vec![11, 23]].contains(&set(answer)));
    assert_nine_of_ten(&rate);
}

/// Two knobs have the same effect, and one of them is dropped. Earlier results then show nothing about the effect of the other knob alone.
#[test]
fn the_one_that_is_left_of_two_ways_is_the_one_that_does_it() {
    let mains = vec![(4, -0.2), (11, -0.2)];
    let truth = Truth { knobs: 12, mains, pairs: vec![([4, 11], 0.18)], noise: 0.05, ..Truth::default() };
    let answers: Vec<Answer> = (0..12).map(|seed| run(&truth, seed)).collect();
    let lone = answers.iter().filter_map(|answer| match &answer.set[..] {
        [lone] if answer.verdict == Verdict::Better => Some(lone),
        _ => None,
    });
    let shown: Vec<_> = lone.map(|lone| (lone.is_shown, lone.without.as_ref())).collect();
    assert!(!shown.is_empty() && shown.iter().all(|one| *one == (true, None)), "{shown:?}");
}

#[test]
fn of_two_that_stand_in_each_others_way_one_is_found() {
    // Averaged over the other knob, neither knob has an effect.
    let truth = Truth {
        knobs: 30,
        mains: vec![(4, -0.2), (11, -0.2), (23, -0.1)],
        pairs: vec![([4, 11], 0.4)],
        noise: 0.04,
        ..Truth::default()
    };
    let rate =
        rate(&truth, |answer| answer.verdict == Verdict::Better && [vec![4, 23], vec![11, 23]].contains(&set(answer)));
    assert_nine_of_ten(&rate);
}

#[test]
fn without_an_effect_no_set_is_claimed() {
    let truth = Truth { knobs: 30, mains: vec![(3, 0.2)], noise: 0.04, ..Truth::default() };
    let rate = rate(&truth, |answer| answer.verdict == Verdict::NothingHelped && answer.set.is_empty());
    assert!(rate.right * 20 >= seeds() * 19, "{}", rate.wrong);
}

/// A subject that counts windows and ends the search after some windows, like a kill.
struct Killed<'a> {
    server: &'a mut Simulated,
    left: usize,
    asked: &'a Cell<usize>,
}

impl Subject for Killed<'_> {
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
        self.asked.set(self.asked.get() + 1);
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return Err(TrialError::Change("killed".into())),
        }
        self.server.window(arm)
    }
}

#[test]
fn a_killed_search_goes_on_where_it_was() {
    let truth = Truth::three_of_thirty();
    let design = design_of(&truth, 3);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let whole = {
        let mut log = Log::create(&path, &Header::new(design.clone(), serde_json::json!({}))).unwrap();
        run_on(&design, &mut Simulated::new(truth.clone(), 3), &mut log)
    };
    assert_eq!(whole.ended, SearchEnded::Whole);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().count() - 1;
    assert_eq!(windows(&whole), lines, "a line for each window");
    for kept in [0, 1, 7, 40, 135, 200, lines - 1, lines] {
        // The process was killed while it wrote a line.
        let head: Vec<&str> = text.lines().take(kept + 1).collect();
        std::fs::write(&path, head.join("\n") + "\n{\"arm\":[\"as-it").unwrap();
        let (header, mut log) = Log::open(&path).unwrap();
        assert_eq!((log.entries().len(), is_over(&header.design, &mut log)), (kept, kept == lines));
        // The server continues with the same noise, and no window is measured twice.
        let (mut server, asked) = (Simulated::new(truth.clone(), 3), Cell::new(0));
        for entry in log.entries() {
            server.window(&entry.arm).unwrap();
        }
        let mut subject = Killed { server: &mut server, left: usize::MAX, asked: &asked };
        let again = run_on(&header.design, &mut subject, &mut log);
        assert_eq!(asked.get(), lines - kept);
        let of = |answer: &Answer| (answer.verdict, answer.ended.clone(), set(answer), answer.windows.clone());
        assert_eq!(of(&again), of(&whole), "killed after {kept} windows");
    }
}

#[test]
fn the_log_of_another_search_is_no_log_of_this_one() {
    let truth = Truth::three_of_thirty();
    let mut log = Log::in_memory(Vec::new());
    run_on(&design_of(&truth, 3), &mut Simulated::new(truth.clone(), 3), &mut log);
    let answer = run_on(&design_of(&truth, 4), &mut Simulated::new(truth.clone(), 4), &mut log);
    assert!(
        matches!(&answer.ended, SearchEnded::Failed { why } if why.contains("the log of another search")),
        "{:?}",
        answer.ended
    );
    assert_eq!(answer.verdict, Verdict::NotProved);
    assert!(!is_over(&design_of(&truth, 4), &mut log), "a log that can't be replayed may belong to another search");
}

#[test]
fn a_search_that_ends_early_returns_its_results() {
    let truth = Truth::three_of_thirty();
    let design = design_of(&truth, 5);
    let stopped_after = |windows: usize| {
        let mut server = Simulated::new(truth.clone(), 5);
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > windows
        };
        let mut log = Log::in_memory(Vec::new());
        let tools = Tools { subject: &mut server, log: &mut log, stop: &stop, on_progress: &mut |_| {} };
        search(&design, tools).unwrap()
    };
    let early = stopped_after(4);
    assert_eq!((early.ended.clone(), early.verdict), (SearchEnded::Stopped, Verdict::NotProved));
    assert!(early.knobs.iter().all(|knob| knob.outcome == KnobOutcome::Unclear && knob.screening.is_none()));
    let late = stopped_after(150);
    assert_eq!((late.ended.clone(), late.verdict), (SearchEnded::Stopped, Verdict::NotProved));
    assert!(late.knobs[4].screening.as_ref().unwrap().ratio < 0.9);
    assert_eq!((&late.knobs[17].outcome, &late.knobs[0].outcome), (&KnobOutcome::Hurts, &KnobOutcome::NoEffect));
    // If the user asks to stop while a server is starting, the start fails.
    let mut waits = Simulated::new(truth.clone(), 5);
    waits.fails_from = Some(0);
    let asked = Cell::new(false);
    let tools = Tools {
        subject: &mut waits,
        log: &mut Log::in_memory(Vec::new()),
        stop: &|| asked.replace(true),
        on_progress: &mut |_| {},
    };
    assert_eq!(search(&design, tools).unwrap().ended, SearchEnded::Stopped);
    let mut server = Simulated::new(truth.clone(), 5);
    server.fails_from = Some(200);
    let failed = run_on(&design, &mut server, &mut Log::in_memory(Vec::new()));
    assert!(
        matches!(&failed.ended, SearchEnded::Failed { why } if why.contains("can't be started any more")),
        "{:?}",
        failed.ended
    );
    assert_eq!(failed.verdict, Verdict::NotProved);
}

#[test]
fn knobs_that_kill_hurt_or_are_refused_are_taken_out_and_the_rest_is_found() {
    // With every seed, the search must reject knobs of these three kinds and find the right set.
    let truth = Truth {
        deadly: vec![9],
        refused: vec![2],
        mains: vec![(4, -0.22), (11, -0.12), (23, -0.085), (17, 1.9)],
        pairs: Vec::new(),
        ..Truth::three_of_thirty()
    };
    let mut deaths = Vec::new();
    let rate = rate(&truth, |answer| {
        let outcomes = [&answer.knobs[9].outcome, &answer.knobs[17].outcome];
        assert_eq!(outcomes, [&KnobOutcome::Stopped, &KnobOutcome::Stopped]);
        assert_eq!(answer.knobs[2].outcome, KnobOutcome::Refused { why: "invalid argument (EINVAL)".into() });
        answer.verdict == Verdict::Better && set(answer) == [4, 11, 23]
    });
    assert_nine_of_ten(&rate);
    for seed in 0..5 {
        let mut log = Log::in_memory(Vec::new());
        run_on(&design_of(&truth, seed), &mut Simulated::new(truth.clone(), seed), &mut log);
        deaths.push(log.entries().iter().filter(|entry| matches!(entry.seen, WindowResult::Died { .. })).count());
        // If the server dies under an arm, the search runs the arm once more at once, because the death may have been an accident.
        // After two deaths, the search never runs the arm again.
        let (mut forbidden, mut again): (Vec<&Arm>, _) = (Vec::new(), None);
        for entry in log.entries() {
            let is_again = again.take() == Some(&entry.arm);
            assert!(is_again || !forbidden.contains(&&entry.arm), "seed {seed}: {:?}", entry.arm);
            if matches!(entry.seen, WindowResult::Died { .. }) {
                forbidden.push(&entry.arm);
                again = (!is_again).then_some(&entry.arm);
            }
        }
    }
    assert!(deaths.iter().all(|deaths| *deaths <= 8), "the culprit is found by halves: {deaths:?}");
}

#[test]
fn a_better_value_on_the_ladder_is_taken() {
    let mut truth = Truth::three_of_thirty();
    truth.further = vec![(4, -0.15), (23, 0.1)];
    let rate = rate(&truth, |answer| {
        let settings: Vec<&str> = answer.set.iter().map(|chosen| chosen.settings[0].as_str()).collect();
        answer.verdict == Verdict::Better && settings.contains(&"knob4=2") && settings.contains(&"knob23=1")
    });
    assert_nine_of_ten(&rate);
}

#[test]
fn a_better_median_with_a_worse_tail_is_vetoed() {
    let of = |truth: &Truth, guards: Vec<Guard>| {
        let design = SearchDesign { guards, ..design_of(truth, 1) };
        run_on(&design, &mut Simulated::new(truth.clone(), 1), &mut Log::in_memory(Vec::new()))
    };
    let guard = || vec![Guard { metric: TAIL, harm_ratio: 0.25 }];
    let truth = Truth { knobs: 12, mains: vec![(4, -0.22)], tails: vec![(4, 0.9)], noise: 0.04, ..Truth::default() };
    let unguarded = of(&truth, Vec::new());
    assert_eq!((unguarded.verdict, set(&unguarded)), (Verdict::Better, vec![4]));
    assert!(
        unguarded.along["lateness_us_p99"] > 1.5,
        "the cost is reported without a guard too: {:?}",
        unguarded.along
    );
    let guarded = of(&truth, guard());
    assert_eq!((guarded.verdict, set(&guarded), &guarded.veto), (Verdict::NothingHelped, Vec::new(), &None));
    let outcome = &guarded.knobs[4].outcome;
    assert!(matches!(outcome, KnobOutcome::Vetoed { why } if why.starts_with("lateness_us_p99 is ")), "{outcome:?}");
    // Each knob alone makes the tail worse by less than the guard's limit.
    // Both knobs together exceed the limit, which the confirmation shows.
    let both = Truth { mains: vec![(4, -0.22), (5, -0.2)], tails: vec![(4, 0.36), (5, 0.34)], ..truth };
    let guarded = of(&both, guard());
    assert_eq!((guarded.verdict, set(&guarded)), (Verdict::NothingHelped, Vec::new()));
    assert!(guarded.veto.as_ref().is_some_and(|why| why.starts_with("lateness_us_p99 is ")), "{:?}", guarded.veto);
    let [seen] = &guarded.guards[..] else { panic!("{:?}", guarded.guards) };
    assert!(seen.is_harmed && seen.ratio > 1.1 && seen.low > Some(1.0), "{seen:?}");
}

/// The settings of the chosen set.
fn settings(answer: &Answer) -> Vec<&str> {
    answer.set.iter().map(|chosen| chosen.settings[0].as_str()).collect()
}

#[test]
fn knobs_that_wreck_a_guard_are_taken_out_and_the_rest_is_found() {
    // Two knobs improve the median more than any other knob, but also change the tail.
    // One doubles the tail, the other makes it seven times as long.
    let truth = Truth {
        mains: vec![(4, -0.22), (11, -0.12), (23, -0.085), (17, 0.14), (9, -0.3), (14, -0.3)],
        tails: vec![(9, 0.9), (14, 2.3)],
        ..Truth::three_of_thirty()
    };
    let guards = vec![Guard { metric: TAIL, harm_ratio: 0.25 }];
    let of = |seed, guards: Vec<Guard>| {
        let design = SearchDesign { guards, ..design_of(&truth, seed) };
        let mut log = Log::in_memory(Vec::new());
        let answer = run_on(&design, &mut Simulated::new(truth.clone(), seed), &mut log);
        (answer, log)
    };
    let (unguarded, _) = of(1, Vec::new());
    assert!(set(&unguarded).contains(&9) && set(&unguarded).contains(&14), "{:?}", set(&unguarded));
    let mut right = 0;
    for seed in 0..seeds() {
        let (answer, log) = of(seed, guards.clone());
        let (doubled, sevenfold) = (&answer.knobs[9].outcome, &answer.knobs[14].outcome);
        assert!(
            matches!(doubled, KnobOutcome::Vetoed { why } if why.starts_with("lateness_us_p99 is ")),
            "seed {seed}: {doubled:?}"
        );
        assert_eq!(*sevenfold, KnobOutcome::Stopped, "seed {seed}");
        assert!(set(&answer).iter().all(|knob| ![9, 14].contains(knob)), "seed {seed}");
        // The search drops the knob at once. Only the windows that revealed the harm have the knob on.
        let on = |knob: usize| log.entries().iter().filter(|entry| *entry.arm.level(knob) != Level::AsItWas).count();
        assert!(on(14) * 4 < log.entries().len(), "seed {seed}: {} of {}", on(14), log.entries().len());
        let is_right = answer.verdict == Verdict::Better && set(&answer) == [4, 7, 11, 23, 28];
        if is_right {
            assert!(
                answer.guards.iter().all(|guard| guard.metric == TAIL.name && !guard.is_harmed),
                "{:?}",
                answer.guards
            );
            assert_eq!(answer.guards.len(), 1);
        } else {
            eprintln!("seed {seed}: {:?} {:?} {:?}", answer.verdict, set(&answer), answer.windows);
        }
        right += u64::from(is_right);
    }
    eprintln!("{right} of {} right", seeds());
    assert_nine_of_ten(&Rate { right, windows: Vec::new(), wrong: String::new() });
}

#[test]
fn one_bad_window_of_a_noisy_tail_takes_nothing_out() {
    /// In every seventh window, the tail is ten times as long, whatever the settings are.
    struct Spiky(Simulated, usize);
    impl Subject for Spiky {
        fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
            self.1 += 1;
            let mut seen = self.0.window(arm)?;
            if let WindowResult::Measured { sample, .. } = &mut seen
                && self.1.is_multiple_of(7)
                && let Some(tail) = sample.get_mut(TAIL.name.as_ref())
            {
                *tail *= 10.0;
            }
            Ok(seen)
        }
    }
    let truth = Truth::three_of_thirty();
    let guards = vec![Guard { metric: TAIL, harm_ratio: 0.25 }];
    for seed in 0..3 {
        let design = SearchDesign { guards: guards.clone(), ..design_of(&truth, seed) };
        let mut subject = Spiky(Simulated::new(truth.clone(), seed), 0);
        let answer = run_on(&design, &mut subject, &mut Log::in_memory(Vec::new()));
        assert!(answer.knobs.iter().all(|knob| knob.outcome != KnobOutcome::Stopped), "seed {seed}: {answer:?}");
        assert!(answer.verdict == Verdict::Better && set(&answer).contains(&4), "seed {seed}: {:?}", set(&answer));
    }
}

#[test]
fn a_knob_that_was_never_engaged_is_in_the_set_only_if_it_moved_the_metric() {
    let truth = Truth {
        knobs: 12,
        mains: vec![(4, -0.22), (5, -0.15)],
        named: vec![
            (2, "net.core.busy_poll=50"),
            (4, "process.timer_slack_ns=1"),
            (5, "net.core.netdev_budget=600"),
            (6, "thp.enabled=always"),
            (7, "irq.affinity=0"),
        ],
        counters: vec![
            // The first counter did not change, whether the knob was on or off.
            // The second counter did not change either, but the metric differed.
            ("BusyPollRxPackets", 2, [0.0, 0.0]),
            ("softnet_time_squeeze", 5, [0.0, 0.0]),
            // The value that was read back from the server changed with the knob.
            ("process.timer_slack_ns", 4, [1.0, 50_000.0]),
            ("thp_fault_alloc", 6, [12.0, 0.0]),
        ],
        noise: 0.04,
        ..Truth::default()
    };
    let outcomes = |answer: &Answer| {
        let of = |knob: usize| answer.knobs[knob].outcome.clone();
        (of(2), of(5), of(6))
    };
    for seed in 0..5 {
        let design = SearchDesign { network: NetworkPath::Devices, ..design_of(&truth, seed) };
        let mut log = Log::in_memory(Vec::new());
        let answer = run_on(&design, &mut Simulated::new(truth.clone(), seed), &mut log);
        let both = vec!["process.timer_slack_ns=1", "net.core.netdev_budget=600"];
        assert_eq!((answer.verdict, settings(&answer)), (Verdict::Better, both), "seed {seed}: {answer:?}");
        let (polling, budget, pages) = outcomes(&answer);
        let still = |why: &str| why.starts_with("no packet was taken");
        assert!(matches!(&polling, KnobOutcome::NotEngaged { why } if still(why)), "seed {seed}: {polling:?}");
        assert_eq!(budget, KnobOutcome::InTheSet, "seed {seed}: what was seen stands");
        let [caveat] = &answer.caveats[..] else { panic!("seed {seed}: {:?}", answer.caveats) };
        let caveat = caveat.to_string();
        assert!(
            caveat.starts_with("the counter of net.core.netdev_budget shows that it was not engaged (no CPU ever"),
            "{caveat}"
        );
        assert_eq!(pages, KnobOutcome::NoEffect, "seed {seed}: it was engaged, and is useless");
        let engaged = |knob: usize| answer.knobs[knob].engaged.as_ref().map(|seen| seen.engaged.clone());
        assert_eq!((engaged(4), engaged(6)), (Some(Engaged::Yes), Some(Engaged::Yes)));
        assert_eq!((engaged(0), engaged(7)), (None, Some(Engaged::Unknown)), "no counter, and an unknown one");
        // A continued search uses the results of the first part.
        let again = run_on(&design, &mut Simulated::new(truth.clone(), seed), &mut log);
        assert_eq!((outcomes(&again), settings(&again)), (outcomes(&answer), settings(&answer)));
    }
    // If noise leaves room for an effect that matters, the unchanged counter does not exclude an effect by another path.
    for seed in 0..5 {
        let noisy = Truth { noise: 0.6, ..truth.clone() };
        let design = SearchDesign { network: NetworkPath::Devices, ..design_of(&noisy, seed) };
        let answer = run_on(&design, &mut Simulated::new(noisy, seed), &mut Log::in_memory(Vec::new()));
        let polling = &answer.knobs[2];
        let is_within = polling.screening.as_ref().is_some_and(|seen| seen.is_within(design.smallest_effect_ratio));
        assert!(!is_within && !matches!(polling.outcome, KnobOutcome::NotEngaged { .. }), "seed {seed}: {polling:?}");
    }
    // For a workload on loopback, busy polling has no effect, whatever its counter shows.
    let answer = run(&truth, 1);
    assert!(
        matches!(&answer.knobs[2].outcome, KnobOutcome::NotEngaged { why } if why.contains("stay on loopback")),
        "{:?}",
        answer.knobs[2].outcome
    );
}

#[test]
fn a_further_value_that_is_refused_leaves_the_asked_one() {
    /// Refuses every further value of one knob, like a kernel beyond its limits.
    struct Bounded(Simulated);
    impl Subject for Bounded {
        fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
            match arm.level(4) {
                Level::Value(_) => Ok(WindowResult::Refused { setting: 4, why: "EINVAL".into() }),
                _ => self.0.window(arm),
            }
        }
    }
    let truth = Truth { knobs: 8, mains: vec![(4, -0.22)], further: vec![(4, -0.3)], noise: 0.04, ..Truth::default() };
    let mut subject = Bounded(Simulated::new(truth.clone(), 2));
    let answer = run_on(&design_of(&truth, 2), &mut subject, &mut Log::in_memory(Vec::new()));
    assert_eq!((answer.verdict, settings(&answer)), (Verdict::Better, vec!["knob4=1"]), "{answer:?}");
}

#[test]
fn a_budget_is_kept_and_what_does_not_fit_is_named() {
    let truth = Truth::three_of_thirty();
    for windows_max in [80, 100, 150, 250, 400] {
        let mut design = design_of(&truth, 2);
        design.budget.windows = windows_max;
        let answer = run_on(&design, &mut Simulated::new(truth.clone(), 2), &mut Log::in_memory(Vec::new()));
        assert!(windows(&answer) <= windows_max, "{} of {windows_max}", windows(&answer));
        let not_tried = answer.knobs.iter().filter(|knob| matches!(knob.outcome, KnobOutcome::NotTried { .. })).count();
        assert_eq!(not_tried > 0, windows_max < 272, "{windows_max} windows: {not_tried} not tried");
        assert!(answer.windows.contains_key(&Stage::Screen), "{answer:?}");
    }
    let mut design = design_of(&truth, 2);
    design.budget = Budget { windows: 1000, time_ms: Some(10_000) };
    let tools = Tools {
        subject: &mut Simulated::new(truth.clone(), 2),
        log: &mut Log::in_memory(Vec::new()),
        stop: &|| false,
        on_progress: &mut |_| {},
    };
    let message = search(&design, tools).unwrap_err().to_string();
    assert_eq!(
        message,
        "design a trial: the budget gives 9 windows of 1000 ms, each after a settle time of 100 ms; a search takes at least 80, which is 88 s"
    );
}

#[test]
fn a_metric_without_ratios_is_no_metric() {
    struct Zero;
    impl Subject for Zero {
        fn window(&mut self, _: &Arm) -> Result<WindowResult, TrialError> {
            Ok(WindowResult::Measured { value: 0.0, sample: Default::default(), conditions: None })
        }
    }
    let answer = run_on(&design_of(&Truth::three_of_thirty(), 1), &mut Zero, &mut Log::in_memory(Vec::new()));
    assert!(
        matches!(&answer.ended, SearchEnded::Failed { why } if why.contains("lateness_us_p50 was 0, which has no ratio")),
        "{:?}",
        answer.ended
    );
}
