//! Groups, majorities and outliers, on hosts that these tests define.

use evenkeel_host::{AdviceContext, State};

use super::observed::ObservedRow;
use super::{By, FleetAudit, FleetDiff, Hosts, Observed, Unread};

fn knob(id: &str, state: State, value: &str, wanted: Option<&str>) -> ObservedRow {
    let value = (!value.is_empty()).then(|| value.to_owned());
    let why = (state == State::Unknown).then(|| "no file".to_owned());
    ObservedRow {
        id: id.to_owned(),
        knob: Some(if id.starts_with("thp") { "thp.enabled" } else { "vm.swappiness" }),
        state: Some(state),
        value,
        wanted: wanted.map(str::to_owned),
        why,
    }
}

fn fact(value: &str) -> ObservedRow {
    ObservedRow {
        id: "clock source".to_owned(),
        knob: None,
        state: None,
        value: Some(value.to_owned()),
        wanted: None,
        why: None,
    }
}

fn host(instance: &str, rows: Vec<ObservedRow>) -> Observed {
    let traits = By::ALL.iter().map(|by| if *by == By::Instance { instance } else { "same" }.to_owned()).collect();
    Observed { traits, rows, beyond: 0 }
}

fn hosts(of: Vec<Observed>) -> Hosts {
    let mut hosts = Hosts::default();
    for (at, observed) in of.iter().enumerate() {
        hosts.add(format!("{at}.txt"), observed).unwrap();
    }
    hosts
}

/// Three hosts agree on a value and its advice, one has another value, and one value is unknown.
fn five() -> Hosts {
    let row = || knob("thp.enabled", State::Keep, "madvise", None);
    hosts(vec![
        host("small", vec![row(), fact("tsc")]),
        host("small", vec![row(), fact("tsc")]),
        host("small", vec![row(), fact("tsc")]),
        host("small", vec![knob("thp.enabled", State::Set, "always", Some("madvise")), fact("tsc")]),
        host("small", vec![knob("thp.enabled", State::Unknown, "", None), fact("hpet")]),
    ])
}

#[test]
fn a_host_differs_in_value_advice_or_facts_and_an_unknown_does_not() {
    let diff = FleetDiff::new(&five(), &[By::Instance], Vec::new());
    let seen: Vec<_> = diff.groups[0]
        .differing
        .iter()
        .flat_map(|host| host.differences.iter().map(|row| (host.host.as_str(), row.id.as_str())))
        .collect();
    assert_eq!(seen, [("3.txt", "thp.enabled"), ("4.txt", "clock source")]);
    let thp = &diff.groups[0].differing[0].differences[0].difference;
    assert_eq!((thp.value.as_deref(), thp.usual.as_deref()), (Some("always"), Some("madvise")));
    assert_eq!((thp.state, thp.usual_state), (Some(State::Set), Some(State::Keep)));
    assert_eq!((diff.differing, diff.beyond, diff.caveats.len()), (2, 0, 0));
}

#[test]
fn states_and_values_are_counted() {
    let audit = FleetAudit::new(&five(), &[By::Instance], AdviceContext::default(), Vec::new());
    let states: Vec<_> = audit.knobs[0].groups[0].states.iter().map(|one| (one.state, one.hosts)).collect();
    assert_eq!(states, [(State::Set, 1), (State::Unknown, 1), (State::Keep, 3)]);
    let thp = audit.rows.iter().find(|row| row.id == "thp.enabled").unwrap();
    let values: Vec<_> = thp.groups[0].values.iter().map(|one| (one.value.as_str(), one.hosts)).collect();
    assert_eq!(values, [("madvise", 3), ("always", 1)]);
    assert_eq!((thp.groups[0].unknown[0].value.as_str(), thp.groups[0].unknown[0].hosts), ("no file", 1));
    assert_eq!((audit.findings_at(State::Set), audit.findings_at(State::Unknown)), (1, 2));
    assert_eq!(audit.groups[0].differing, 2);
}

/// A host counts once for a knob with several places, under the state that needs action first.
#[test]
fn the_matrix_counts_hosts_and_not_places() {
    let two = |first, second| {
        host("small", vec![knob("thp.enabled@a", first, "x", None), knob("thp.enabled@b", second, "x", None)])
    };
    let hosts = hosts(vec![two(State::Keep, State::Set), two(State::Keep, State::NotHere)]);
    let audit = FleetAudit::new(&hosts, &[By::None], AdviceContext::default(), Vec::new());
    let states: Vec<_> = audit.knobs[0].groups[0].states.iter().map(|one| (one.state, one.hosts)).collect();
    assert_eq!(states, [(State::Set, 1), (State::Keep, 1)]);
}

#[test]
fn without_a_majority_nobody_differs() {
    let of = |values: &[&str]| {
        let row = |value: &&str| knob("vm.swappiness", State::Keep, value, None);
        hosts(values.iter().map(|value| host("small", vec![row(value)])).collect())
    };
    for values in [&["1", "2"][..], &["1", "1", "2", "3"]] {
        let diff = FleetDiff::new(&of(values), &[By::Instance], Vec::new());
        assert_eq!((diff.differing, diff.groups[0].mixed.len()), (0, 1), "{values:?}");
    }
    let diff = FleetDiff::new(&of(&["1", "1", "2"]), &[By::Instance], Vec::new());
    assert_eq!((diff.differing, diff.groups[0].mixed.len()), (1, 0));
}

/// Two hosts differ if they have the same value but different advice, for example because one machine is larger.
#[test]
fn other_advice_for_the_same_value_differs() {
    let row = |wanted| knob("vm.swappiness", State::Set, "60", Some(wanted));
    let hosts = hosts(["1", "1", "9"].map(|wanted| host("small", vec![row(wanted)])).to_vec());
    let diff = FleetDiff::new(&hosts, &[By::Instance], Vec::new());
    let found = &diff.groups[0].differing[0].differences[0].difference;
    assert_eq!((found.wanted.as_deref(), found.usual_wanted.as_deref()), (Some("9"), Some("1")));
}

#[test]
fn groups_follow_the_traits_and_the_largest_is_first() {
    let row = |value| vec![knob("vm.swappiness", State::Keep, value, None)];
    let hosts = hosts(vec![host("a", row("1")), host("b", row("2")), host("b", row("2"))]);
    let unread = vec![Unread { file: "x.txt".into(), why: "no".into() }];
    let diff = FleetDiff::new(&hosts, &[By::Instance], unread);
    let sizes: Vec<_> = diff.groups.iter().map(|group| (group.traits[0].value.as_str(), group.hosts)).collect();
    assert_eq!(sizes, [("b", 2), ("a", 1)]);
    assert_eq!(
        diff.caveats,
        [
            "this answer is without 1 file that could not be read",
            "1 host without another in the group: use fewer traits (--by) to compare"
        ]
    );
    assert_eq!(FleetDiff::new(&hosts, &[By::None], Vec::new()).differing, 1);
}

/// One host whose value is known is not a majority, however many others are unknown.
#[test]
fn one_host_is_no_majority() {
    let row = |state, value| vec![knob("vm.swappiness", state, value, None)];
    let hosts = hosts(vec![host("a", row(State::Keep, "1")), host("a", row(State::Unknown, ""))]);
    let audit = FleetAudit::new(&hosts, &[By::Instance], AdviceContext::default(), Vec::new());
    assert_eq!((audit.rows[0].groups[0].usual.as_deref(), audit.groups[0].differing), (None, 0));
}
