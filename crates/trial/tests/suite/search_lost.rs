//! Searches with windows that have no value: a knob keeps the CPU from the server, another program writes a setting, a server ends.
//! The file also tests logs of versions that forbade an arm after one end of the server, and whether such searches are over.

use evenkeel_trial::search::simulated::{METRIC, Simulated, Truth};
use evenkeel_trial::search::{
    Answer, Budget, Entry, KnobOutcome, Log, NotNeeded, SearchCaveat, SearchDesign, SearchEnded, Subject, Tools,
    Verdict, WindowResult, is_over, search,
};
use evenkeel_trial::{Arm, DropReason, Level, TrialError};

fn design_of(truth: &Truth, windows: usize) -> SearchDesign {
    let budget = Budget { windows, time_ms: None };
    SearchDesign { smallest_effect_ratio: 0.05, ..SearchDesign::new(truth.candidates(), METRIC, budget, 3) }
}

fn run_on(design: &SearchDesign, subject: &mut dyn Subject, log: &mut Log) -> Answer {
    search(design, Tools { subject, log, stop: &|| false, on_progress: &mut |_| {} }).unwrap()
}

fn dropped(reason: DropReason) -> WindowResult {
    WindowResult::Dropped { why: reason.to_string(), other_trials: Vec::new(), reason: Some(reason) }
}

/// A server whose results are replaced in some windows. The function gets the number of the window, from 1, and the arm of the window.
struct Otherwise<F>(Simulated, usize, F);

impl<F: Fn(usize, &Arm) -> Option<WindowResult>> Subject for Otherwise<F> {
    fn window(&mut self, arm: &Arm) -> Result<WindowResult, TrialError> {
        self.1 += 1;
        let seen = self.0.window(arm)?;
        Ok((self.2)(self.1, arm).unwrap_or(seen))
    }
}

fn truth(knobs: usize) -> Truth {
    Truth { knobs, mains: vec![(4, -0.22)], noise: 0.03, ..Truth::default() }
}

fn is_on(arm: &Arm, knob: usize) -> bool {
    *arm.level(knob) != Level::AsItWas
}

#[test]
fn a_knob_that_leaves_the_server_no_cpu_is_taken_out_and_one_such_window_is_an_accident() {
    let no_cpu = || Some(dropped(DropReason::NoCpu { what: "main (thread 7)".into() }));
    type Rule<'a> = &'a dyn Fn(usize, &Arm) -> Option<WindowResult>;
    let died = || Some(WindowResult::Died { why: "it ended".into() });
    let table: [(&str, Rule<'_>, KnobOutcome); 3] = [
        ("always", &|_, arm| if is_on(arm, 2) { no_cpu() } else { None }, KnobOutcome::Stopped),
        (
            "with and without it, now and then",
            &|at, _| if at % 29 == 0 { no_cpu() } else { None },
            KnobOutcome::NoEffect,
        ),
        (
            "or it ends",
            &|at, arm| match (is_on(arm, 2), at % 2) {
                (false, _) => None,
                (true, 0) => died(),
                (true, _) => no_cpu(),
            },
            KnobOutcome::Stopped,
        ),
    ];
    for (name, rule, outcome) in table {
        let truth = truth(12);
        let mut subject = Otherwise(Simulated::new(truth.clone(), 3), 0, rule);
        let answer = run_on(&design_of(&truth, 600), &mut subject, &mut Log::in_memory(Vec::new()));
        assert_eq!((answer.verdict, &answer.ended), (Verdict::Better, &SearchEnded::Whole), "{name}: {answer:?}");
        assert_eq!((answer.set.len(), &answer.knobs[2].outcome), (1, &outcome), "{name}: {answer:?}");
        let is_no_cpu = |caveat: &SearchCaveat| match caveat {
            SearchCaveat::Dropped { reasons, .. } => reasons.contains_key("the server was given no CPU"),
            _ => false,
        };
        assert!(answer.caveats.iter().any(is_no_cpu), "{name}: {:?}", answer.caveats);
    }
}

#[test]
fn dropped_windows_are_reported_with_their_reasons() {
    let changed = || DropReason::Changed { what: "vm.swappiness: 60, not 10".into() };
    let gap = || DropReason::Gap { gap_us: 9e5 };
    type Rule<'a> = &'a dyn Fn(usize, &Arm) -> Option<WindowResult>;
    let table: [(Rule<'_>, Option<&[&str]>); 4] = [
        (&|at, _| (at == 9).then(|| dropped(gap())), None),
        (&|at, _| (at % 3 == 0).then(|| dropped(gap())), Some(&["windows were dropped: the machine paused in "])),
        (
            &|at, _| (at == 9).then(|| dropped(changed())),
            Some(&["1 of ", "changed a setting of the trial in 1", "(first: vm.swappiness: 60, not 10)"]),
        ),
        (
            &|_, arm| is_on(arm, 2).then(|| dropped(changed())),
            Some(&["changed a setting of the trial in ", "(first: vm.swappiness: 60, not 10)"]),
        ),
    ];
    for (at, (rule, expected)) in table.into_iter().enumerate() {
        let truth = truth(8);
        let mut subject = Otherwise(Simulated::new(truth.clone(), 3), 0, rule);
        let answer = run_on(&design_of(&truth, 150), &mut subject, &mut Log::in_memory(Vec::new()));
        match (expected, &answer.caveats[..]) {
            (None, []) => {}
            (Some(expected), [caveat]) => {
                let caveat = caveat.to_string();
                expected.iter().for_each(|words| assert!(caveat.contains(words), "row {at}: {caveat}"));
            }
            (_, caveats) => panic!("row {at}: {caveats:?}"),
        }
    }
    // The search reads a log of a version that did not store the reason.
    let seen: WindowResult = serde_json::from_str("{\"dropped\":{\"why\":\"the machine paused\"}}").unwrap();
    assert_eq!(
        seen,
        WindowResult::Dropped { why: "the machine paused".into(), other_trials: Vec::new(), reason: None }
    );
}

#[test]
fn a_log_from_before_the_second_death_was_needed_is_replayed_and_continued() {
    let truth = Truth { deadly: vec![2], ..truth(12) };
    let design = design_of(&truth, 600);
    let mut log = Log::in_memory(Vec::new());
    let whole = run_on(&design, &mut Simulated::new(truth.clone(), 3), &mut log);
    assert_eq!((&whole.ended, &whole.knobs[2].outcome), (&SearchEnded::Whole, &KnobOutcome::Stopped));
    let mut old: Vec<Entry> = log.entries().to_vec();
    let is_dead = |entry: &Entry| matches!(entry.seen, WindowResult::Died { .. });
    old.dedup_by(|second, first| is_dead(first) && is_dead(second) && first.arm == second.arm);
    assert!(old.len() < log.entries().len(), "the first end was asked about");
    for kept in [old.len() / 2, old.len()] {
        let mut log = Log::in_memory(old[..kept].to_vec());
        assert_eq!(is_over(&design, &mut log), kept == old.len());
        let again = run_on(&design, &mut Simulated::new(truth.clone(), 3), &mut log);
        assert_eq!(
            (&again.ended, again.verdict, &again.set[0].settings),
            (&SearchEnded::Whole, Verdict::Better, &whole.set[0].settings)
        );
        assert_eq!(again.knobs[2].outcome, KnobOutcome::Stopped);
    }
}

#[test]
fn a_search_that_failed_for_good_is_over_and_one_that_failed_once_is_not() {
    let died = || Some(WindowResult::Died { why: "it ended".into() });
    let gap = || Some(dropped(DropReason::Gap { gap_us: 9e5 }));
    type Rule<'a> = &'a dyn Fn(usize, &Arm) -> Option<WindowResult>;
    let table: [(Rule<'_>, Option<usize>, &str, bool); 3] = [
        (&|_, _| died(), None, "twice in a row on the unchanged machine", true),
        (&|_, _| gap(), None, "windows in a row were dropped, the last since the machine paused", true),
        (&|_, _| None, Some(20), "it can't be started any more", false),
    ];
    for (rule, fails_from, why, over) in table {
        let truth = truth(12);
        let (design, mut log) = (design_of(&truth, 600), Log::in_memory(Vec::new()));
        let mut server = Simulated::new(truth.clone(), 3);
        server.fails_from = fails_from;
        let ended = run_on(&design, &mut Otherwise(server, 0, rule), &mut log).ended;
        assert!(matches!(&ended, SearchEnded::Failed { why: found } if found.contains(why)), "{ended:?}");
        assert_eq!(is_over(&design, &mut log), over, "{why}");
    }
}

#[test]
fn a_knob_that_does_less_than_others_is_not_called_idle() {
    let truth = Truth {
        knobs: 12,
        mains: (0..9).map(|knob| (knob, -0.3)).chain([(9, -0.15)]).collect(),
        named: vec![(9, "net.core.netdev_budget=600")],
        counters: vec![("softnet_time_squeeze", 9, [0.0, 0.0])],
        noise: 0.02,
        ..Truth::default()
    };
    let answer =
        run_on(&design_of(&truth, 400), &mut Simulated::new(truth.clone(), 3), &mut Log::in_memory(Vec::new()));
    assert_eq!(
        answer.knobs[9].outcome,
        KnobOutcome::LeftOut { why: NotNeeded::OthersDoMore { others: 8 } },
        "{:?}",
        answer.knobs[9]
    );
}
