//! Reboots, step by step, and with an agent that dies at any moment.

use proptest::prelude::*;

use super::*;

fn wanted(goal: &str, generation: i64, drain_seconds: u32) -> RebootWanted {
    RebootWanted {
        goal: Release { goal: goal.to_owned(), generation, uid: String::new() },
        policy: RebootPolicy { drain_seconds },
    }
}

fn pod(name: &str, is_managed: bool) -> DrainedPod {
    DrainedPod { name: name.to_owned(), is_managed }
}

fn view<'a>(wanted: &'a [RebootWanted], record: Option<&'a RebootRecord>, now: i64) -> RebootView<'a> {
    RebootView { wanted, not_in_force: &[], record, boot: "one", is_cordoned: false, pods: None, now }
}

fn begun(wanted: &[RebootWanted]) -> RebootRecord {
    match view(wanted, None, 100).next() {
        RebootStep::Begin(record) => record,
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_node_is_drained_rebooted_and_given_back() {
    let goals = [wanted("steady", 3, 600)];
    assert_eq!(view(&[], None, 100).next(), RebootStep::Rest);
    let draining = begun(&goals);
    assert_eq!((draining.phase, draining.since, draining.was_cordoned), (RebootPhase::Draining, 100, false));
    assert!(draining.is_for(&wanted("steady", 3, 60).goal) && !draining.is_for(&wanted("steady", 2, 60).goal));
    let other = Release { uid: "other".to_owned(), ..draining.goals[0].clone() };
    let known = RebootRecord { goals: vec![Release { uid: "one".to_owned(), ..other.clone() }], ..draining.clone() };
    assert!(!known.is_for(&other), "a later goal of this name may reboot the node");
    let look = view(&goals, Some(&draining), 130);
    assert_eq!(look.next(), RebootStep::ListPods);
    let left = [pod("games/a", true), pod("games/b", false)];
    let RebootStep::Evict(waiting) = (RebootView { pods: Some(&left), ..look.clone() }).next() else { panic!() };
    assert_eq!(
        waiting.message,
        "waits for 2 pods: games/b (nothing starts it again elsewhere: delete it yourself), games/a"
    );
    assert_eq!((waiting.phase, waiting.since), (RebootPhase::Draining, 100));
    let RebootStep::Reboot(rebooting) = (RebootView { pods: Some(&[]), ..look }).next() else { panic!() };
    assert_eq!((rebooting.phase, rebooting.since), (RebootPhase::Rebooting, 130));
    assert_eq!(view(&goals, Some(&rebooting), 135).next(), RebootStep::Rest);
    // The agent may have died before it ran the command.
    assert_eq!(view(&goals, Some(&rebooting), 190).next(), RebootStep::Reboot(rebooting.clone()));
    let RebootStep::End(done) = (RebootView { boot: "two", ..view(&[], Some(&rebooting), 200) }).next() else {
        panic!()
    };
    assert_eq!((done.phase, done.message.as_str()), (RebootPhase::Done, ""));
    assert_eq!(
        RebootView { boot: "two", ..view(&goals, Some(&done), 300) }.next(),
        RebootStep::Rest,
        "once a generation"
    );
    let next = [wanted("steady", 4, 600)];
    let RebootStep::Begin(again) = (RebootView { boot: "two", ..view(&next, Some(&done), 300) }).next() else {
        panic!()
    };
    assert_eq!((again.goals.len(), again.boot.as_str()), (1, "two"));
}

#[test]
fn a_drain_that_takes_too_long_fails_and_is_not_tried_again() {
    let goals = [wanted("steady", 1, 600), wanted("other", 1, 60)];
    let draining = begun(&goals);
    let left: Vec<DrainedPod> = (0..5).map(|i| pod(&format!("games/{i}"), true)).collect();
    let at = |now| RebootView { pods: Some(&left), ..view(&goals, Some(&draining), now) }.next();
    assert!(matches!(at(160), RebootStep::Evict(_)));
    let RebootStep::End(failed) = at(161) else { panic!() };
    assert_eq!(failed.phase, RebootPhase::Failed);
    assert_eq!(failed.message, "after 61 s the node still had 5 pods: games/0, games/1, games/2 and 2 more");
    assert_eq!(view(&goals, Some(&failed), 1_000_000).next(), RebootStep::Rest);
}

#[test]
fn what_comes_after_the_boot_decides() {
    let goals = [wanted("steady", 1, 600)];
    for phase in [RebootPhase::Draining, RebootPhase::Rebooting] {
        let record = RebootRecord { phase, ..begun(&goals) };
        let why = ["goal steady is Drifted: x".to_owned()];
        let bad = RebootView { boot: "two", not_in_force: &why, ..view(&goals, Some(&record), 200) };
        let RebootStep::End(failed) = bad.next() else { panic!("{phase:?}") };
        assert_eq!(failed.phase, RebootPhase::Failed);
        assert_eq!(failed.message, "the host has rebooted, and goal steady is Drifted: x");
    }
    let rebooting = RebootRecord { phase: RebootPhase::Rebooting, ..begun(&goals) };
    let RebootStep::End(failed) = view(&goals, Some(&rebooting), 1001).next() else { panic!() };
    assert_eq!(failed.message, "the reboot command ran 901 s ago, and the host is still in the same boot");
}

#[test]
fn a_goal_that_goes_away_ends_the_drain() {
    let goals = [wanted("steady", 1, 600)];
    for was_cordoned in [false, true] {
        for phase in [RebootPhase::Draining, RebootPhase::Rebooting] {
            let record = RebootRecord { phase, was_cordoned, ..begun(&goals) };
            assert_eq!(view(&[], Some(&record), 110).next(), RebootStep::Cancel { was_cordoned });
        }
    }
}

#[test]
fn only_what_an_agent_wrote_is_read() {
    let annotations = |text: &str| BTreeMap::from([(REBOOT.to_owned(), text.to_owned())]);
    assert_eq!(RebootRecord::read(&BTreeMap::new()), Ok(None));
    let record = begun(&[wanted("steady", 1, 600)]);
    assert_eq!(RebootRecord::read(&annotations(&serde_json::to_string(&record).unwrap())), Ok(Some(record)));
    let long = format!("{{\"phase\":\"Done\",\"x\":\"{}\"}}", "x".repeat(100_000));
    for text in ["", "true", "{}", "[", long.as_str()] {
        assert_eq!(RebootRecord::read(&annotations(text)), Err(UnreadableRecord), "{}", text.len());
    }
}

proptest! {
    /// Whatever happens: each generation reboots a node at most once, the command is run only after the last pod has ended,
    /// and a node that its agent cordoned does not stay cordoned.
    #[test]
    fn no_order_of_events_reboots_twice_or_leaves_a_node_cordoned(
        events in proptest::collection::vec((0_usize..6, 1_i64..400, 0_usize..3), 1..80),
        was_cordoned: bool,
    ) {
        let (mut record, mut is_cordoned) = (None::<RebootRecord>, was_cordoned);
        let (mut now, mut boots, mut generation, mut is_pending) = (0, 0, 1, true);
        let mut commands = BTreeMap::<i64, String>::new();
        for (event, wait, left) in events {
            now += wait;
            match event {
                0 => boots += 1,
                1 => generation += 1,
                2 => is_pending = !is_pending,
                _ => {}
            }
            let goals = [wanted("steady", generation, 300)];
            let goals = if is_pending { &goals[..] } else { &[] };
            let pods: Vec<DrainedPod> = (0..left).map(|i| pod(&i.to_string(), true)).collect();
            let boot = boots.to_string();
            let not_in_force: Vec<String> = goals.iter().map(|_| "pending".to_owned()).collect();
            let seen = record.clone();
            let view = RebootView {
                wanted: goals,
                not_in_force: &not_in_force,
                record: seen.as_ref(),
                boot: &boot,
                is_cordoned,
                pods: Some(&pods),
                now,
            };
            match view.next() {
                RebootStep::Rest | RebootStep::ListPods => {}
                RebootStep::Begin(begun) => (record, is_cordoned) = (Some(begun), true),
                RebootStep::Evict(begun) => {
                    prop_assert!(left > 0);
                    record = Some(begun);
                }
                RebootStep::Reboot(begun) => {
                    // The command is run again only if the host has not rebooted since.
                    let first = commands.entry(begun.goals[0].generation).or_insert_with(|| boot.clone());
                    prop_assert_eq!(&*first, &boot);
                    prop_assert!(seen.as_ref().is_some_and(|seen| seen.phase == RebootPhase::Rebooting) || left == 0);
                    prop_assert!(is_cordoned);
                    record = Some(begun);
                }
                RebootStep::End(ended) => {
                    is_cordoned = ended.was_cordoned;
                    prop_assert!(!ended.phase.is_under_way());
                    record = Some(ended);
                }
                RebootStep::Cancel { was_cordoned } => {
                    (record, is_cordoned) = (None, was_cordoned);
                    commands.clear();
                }
            }
            let is_under_way = record.as_ref().is_some_and(|record| record.phase.is_under_way());
            prop_assert_eq!(is_cordoned, is_under_way || was_cordoned);
        }
    }
}
