//! Tests the steps that follow from goals, labels, releases and journals.

use std::collections::BTreeMap;

use evenkeel_change::Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::jiff::Timestamp;

use super::super::goal::{HostGoalSpec, Rollout};
use super::super::journal::{OwnedTransaction, Verified};
use super::super::state::DriftedKnob;
use super::*;

fn goal(name: &str, settings: &[&str]) -> HostGoal {
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let spec = HostGoalSpec { settings, allow: Allow::Runtime, ..HostGoalSpec::default() };
    let mut goal = HostGoal::new(name, spec);
    goal.metadata.uid = Some(format!("uid-{name}"));
    goal.metadata.generation = Some(1);
    goal
}

fn transaction(id: u64, goal: &HostGoal, generation: i64, status: Status) -> OwnedTransaction {
    let owner = GoalOwner { name: goal.name_any(), uid: goal.uid().unwrap(), generation };
    OwnedTransaction { id, owner, status, settings: Vec::new() }
}

fn journal(transactions: Vec<OwnedTransaction>) -> Journal {
    Journal { transactions, verified: Verified::default() }
}

/// The steps as short texts.
fn steps(goals: &[HostGoal], released: &[Release], journal: &Journal) -> Vec<String> {
    let labels = BTreeMap::from([("pool".to_owned(), "games".to_owned())]);
    let desired = NodeView { labels: &labels, goals, released }.desired(&AdviceOfGoals::new());
    decide(&desired, journal, |_| false, |_| true)
        .into_iter()
        .map(|step| match step {
            Step::Revert { transaction, .. } => format!("revert {transaction}"),
            Step::Apply { goal, heals: false } => format!("apply {}", goal.owner.name),
            Step::Apply { goal, heals: true } => format!("heal {}", goal.owner.name),
            Step::Audit(goal) => format!("audit {}", goal.owner.name),
        })
        .collect()
}

#[test]
fn a_goal_is_applied_kept_changed_and_put_back() {
    let one = goal("one", &["vm.swappiness=10"]);
    assert_eq!(steps(std::slice::from_ref(&one), &[], &journal(vec![])), ["apply one"]);
    let in_force = journal(vec![transaction(3, &one, 1, Status::InForce)]);
    assert!(steps(std::slice::from_ref(&one), &[], &in_force).is_empty());
    let mut newer = one.clone();
    newer.metadata.generation = Some(2);
    assert_eq!(steps(&[newer], &[], &in_force), ["revert 3", "apply one"]);
    assert_eq!(steps(&[], &[], &in_force), ["revert 3"]);
    // A goal that was deleted and created again under the same name has another uid, so it is another goal.
    let mut again = one.clone();
    again.metadata.uid = Some("other".to_owned());
    assert_eq!(steps(&[again], &[], &in_force), ["revert 3", "apply one"]);
    let mut deleting = one.clone();
    deleting.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(steps(&[deleting], &[], &in_force), ["revert 3"]);
    let mut audit = one.clone();
    audit.spec.allow = Allow::Audit;
    assert_eq!(steps(&[audit], &[], &in_force), ["revert 3", "audit one"]);
    let mut elsewhere = one;
    let pool = BTreeMap::from([("pool".to_owned(), "voice".to_owned())]);
    elsewhere.spec.node_selector = Some(LabelSelector { match_labels: Some(pool), match_expressions: None });
    assert_eq!(steps(&[elsewhere], &[], &in_force), ["revert 3"]);
}

#[test]
fn what_was_killed_or_lost_is_put_back_newest_first_and_applied_again() {
    let one = goal("one", &["vm.swappiness=10"]);
    let left = journal(vec![
        transaction(3, &one, 1, Status::EndedByReboot),
        transaction(4, &one, 1, Status::Reverted),
        transaction(5, &one, 1, Status::Interrupted),
        transaction(6, &one, 1, Status::RolledBack),
    ]);
    assert_eq!(steps(&[one], &[], &left), ["revert 5", "revert 3", "apply one"]);
}

#[test]
fn drift_is_healed_only_where_the_goal_says_so_and_it_is_its_own() {
    let mut one = goal("one", &["vm.swappiness=10"]);
    let mut drifted = journal(vec![transaction(3, &one, 1, Status::InForce)]);
    let knob = |knob: &str| DriftedKnob {
        knob: knob.to_owned(),
        place: String::new(),
        wanted: "10".to_owned(),
        found: "60".to_owned(),
        why: String::new(),
        mend: String::new(),
    };
    drifted.verified.drift = vec![knob("vm.swappiness")];
    assert!(steps(std::slice::from_ref(&one), &[], &drifted).is_empty());
    one.spec.on_drift = OnDrift::Heal;
    assert_eq!(steps(std::slice::from_ref(&one), &[], &drifted), ["heal one"]);
    drifted.verified.drift = vec![knob("vm.dirty_ratio")];
    assert!(steps(std::slice::from_ref(&one), &[], &drifted).is_empty());
    // After many heals, the agent reverts all transactions and applies the goal again.
    drifted.verified.drift = vec![knob("vm.swappiness")];
    drifted.transactions = (1..=21).map(|id| transaction(id, &one, 1, Status::InForce)).collect();
    let steps = steps(&[one], &[], &drifted);
    assert_eq!((steps.len(), steps[0].as_str(), steps[21].as_str()), (22, "revert 21", "apply one"));
}

#[test]
fn a_rollout_holds_back_and_withdraws() {
    let mut one = goal("one", &["vm.swappiness=10"]);
    one.metadata.generation = Some(2);
    one.spec.rollout = Some(serde_json::from_str::<Rollout>("{}").unwrap());
    let release = |generation| Release { goal: "one".to_owned(), generation, uid: String::new() };
    let goals = [one.clone()];
    let old = journal(vec![transaction(3, &one, 1, Status::InForce)]);
    assert!(steps(&goals, &[], &journal(vec![])).is_empty(), "not released");
    assert_eq!(steps(&goals, &[release(2)], &journal(vec![])), ["apply one"]);
    let other = Release { uid: "of-a-deleted-goal".to_owned(), ..release(2) };
    assert!(steps(&goals, &[other], &journal(vec![])).is_empty(), "released for another goal of this name");
    // A node of a later wave keeps the released generation.
    assert!(steps(&goals, &[release(1)], &old).is_empty());
    assert_eq!(steps(&goals, &[release(2)], &old), ["revert 3", "apply one"]);
    assert_eq!(steps(&goals, &[], &old), ["revert 3"], "withdrawn");
}

#[test]
fn the_older_of_two_contradicting_goals_holds() {
    let (mut old, mut new) = (goal("z-old", &["vm.swappiness=10"]), goal("a-new", &["vm.swappiness=20"]));
    old.metadata.creation_timestamp = Some(Time(Timestamp::from_second(10).unwrap()));
    new.metadata.creation_timestamp = Some(Time(Timestamp::from_second(20).unwrap()));
    assert_eq!(steps(&[new.clone(), old.clone()], &[], &journal(vec![])), ["apply z-old"]);
    let labels = BTreeMap::new();
    let goals = [new.clone(), old.clone()];
    let desired = NodeView { labels: &labels, goals: &goals, released: &[] }.desired(&AdviceOfGoals::new());
    let Permission::Refused { why } = &desired[1].permission else { panic!("{desired:?}") };
    assert_eq!(why, "vm.swappiness is 10 in the older goal z-old, and 20 here");
    // The same value twice is not a contradiction, and a goal that only audits claims nothing.
    new.spec.settings = vec!["vm.swappiness=10".to_owned()];
    assert_eq!(steps(&[new.clone(), old.clone()], &[], &journal(vec![])), ["apply z-old", "apply a-new"]);
    new.spec.settings = vec!["vm.swappiness=20".to_owned()];
    old.spec.allow = Allow::Audit;
    assert_eq!(steps(&[new, old], &[], &journal(vec![])), ["audit z-old", "apply a-new"]);
    // A setting of all places contradicts another value of one place; different places do not.
    let refused = |old: &str, new: &str| {
        let goals = [goal("a-old", &[old]), goal("b-new", &[new])];
        let desired = NodeView { labels: &labels, goals: &goals, released: &[] }.desired(&AdviceOfGoals::new());
        matches!(desired[1].permission, Permission::Refused { .. })
    };
    assert!(refused("irq.affinity=0", "irq.affinity@24=1") && refused("irq.affinity@24=1", "irq.affinity=0"));
    assert!(!refused("irq.affinity@24=0", "irq.affinity@25=1") && !refused("irq.affinity=0", "irq.affinity@24=0"));
    let wrong = goal("wrong", &["vm.swappines=10"]);
    assert!(steps(&[wrong], &[], &journal(vec![])).is_empty());
}

/// What two goals in the order of their age say about each other. The settings of an advised goal are what the audit advises for it.
fn second_of(old: (&str, bool), new: (&str, bool)) -> Permission {
    let make = |name: &str, (setting, is_advised): (&str, bool)| {
        let mut goal = goal(name, if is_advised { &[] } else { std::slice::from_ref(&setting) });
        goal.spec.advised = is_advised.then(Default::default);
        let (knob, value) = setting.split_once('=').unwrap();
        let set = SetKnob { knob: knob.to_owned(), place: "/proc/x".to_owned(), value: value.to_owned() };
        (goal, vec![set])
    };
    let (first, first_set) = make("a-old", old);
    let (second, second_set) = make("b-new", new);
    let advice = AdviceOfGoals::from([("uid-a-old".to_owned(), first_set), ("uid-b-new".to_owned(), second_set)]);
    // The order of the list does not matter.
    let goals = [second, first];
    let desired = NodeView { labels: &BTreeMap::new(), goals: &goals, released: &[] }.desired(&advice);
    assert_eq!((desired[0].owner.name.as_str(), &desired[0].permission), ("a-old", &Permission::Free));
    desired[1].permission.clone()
}

#[test]
fn what_goals_set_by_advice_is_compared_too() {
    let refused = |why: &str| Permission::Refused { why: why.to_owned() };
    let (ten, twenty) = ("vm.swappiness=10", "vm.swappiness=20");
    let rows = [
        ((ten, true), (twenty, false), "vm.swappiness is 10 by the advice of the older goal a-old, and 20 here"),
        ((ten, false), (twenty, true), "vm.swappiness is 10 in the older goal a-old, and 20 by the advice here"),
        (
            (ten, true),
            (twenty, true),
            "vm.swappiness is 10 by the advice of the older goal a-old, and 20 by the advice here",
        ),
        ((ten, false), (twenty, false), "vm.swappiness is 10 in the older goal a-old, and 20 here"),
        (
            ("vm.dirty_ratio=10", false),
            ("vm.dirty_bytes=1000000", false),
            "vm.dirty_ratio=10 and vm.dirty_bytes=1000000 exclude each other: the kernel resets one when it gets the \
             other; the older goal a-old sets the first",
        ),
    ];
    for (old, new, why) in rows {
        assert_eq!(second_of(old, new), refused(why));
    }
    for (old, new) in [((ten, true), (ten, false)), ((ten, true), (ten, true)), ((ten, false), (ten, true))] {
        assert_eq!(second_of(old, new), Permission::Free, "the same value");
    }
    assert_eq!(second_of((ten, true), ("vm.dirty_ratio=10", true)), Permission::Free);
}

#[test]
fn only_drift_of_what_advice_set_is_drift_of_its_goal() {
    let mut advised = goal("advised", &[]);
    advised.spec.advised = Some(Default::default());
    let set = |knob: &str| SetKnob { knob: knob.to_owned(), place: String::new(), value: "10".to_owned() };
    let advice = AdviceOfGoals::from([("uid-advised".to_owned(), vec![set("vm.swappiness")])]);
    let goals = [advised];
    let desired = NodeView { labels: &BTreeMap::new(), goals: &goals, released: &[] }.desired(&advice);
    let drifted = |knob: &str| DriftedKnob {
        knob: knob.to_owned(),
        place: String::new(),
        wanted: "10".to_owned(),
        found: "60".to_owned(),
        why: String::new(),
        mend: String::new(),
    };
    let found = [drifted("vm.swappiness"), drifted("vm.dirty_ratio")];
    let drift = desired[0].drift(&found);
    assert_eq!(drift.iter().map(|drifted| drifted.knob.as_str()).collect::<Vec<_>>(), ["vm.swappiness"]);
}
