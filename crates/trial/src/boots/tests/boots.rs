//! Tests the action that is chosen in each boot, as a table.

use super::*;

fn status(boot: &str) -> BootStatus {
    BootStatus {
        boot_id: boot.to_owned(),
        now_s: 1_700_000_100,
        is_licensed: true,
        machine: BootWords { kernel: Some("6.1".into()), ..BootWords::default() },
    }
}

fn abba() -> BootsState {
    let seed = (0..).find(|seed| BootsState::begin(design(*seed), 0, "").order()[0] == ArmName::A).unwrap();
    BootsState::begin(design(seed), 1_700_000_000, "boot-0")
}

fn measured(state: &mut BootsState, value: f64) {
    state.seen.last_mut().unwrap().outcome =
        BootOutcome::Measured { values: vec![value; 5], dropped: 0, guards: Default::default(), counted: None };
}

fn armed(state: &mut BootsState, slot: usize, boot: &str) {
    state.armed = Some(Armed { slot, boot_id: boot.to_owned() });
}

#[test]
fn a_trial_from_boot_to_boot() {
    let mut state = abba();
    let arm = |slot, arm| Action::Arm { slot, arm, anew: false };
    assert_eq!(next(&mut state, &status("boot-0")), arm(0, ArmName::A));
    armed(&mut state, 0, "boot-0");
    // The boot in which the next boot was prepared is never measured, however often the unit starts in that boot.
    for _ in 0..3 {
        assert_eq!(next(&mut state, &status("boot-0")), Action::Reboot);
    }
    for (slot, name) in [ArmName::A, ArmName::B, ArmName::B, ArmName::A].into_iter().enumerate() {
        let boot = format!("boot-{}", slot + 1);
        assert_eq!(next(&mut state, &status(&boot)), Action::Measure { arm: name });
        measured(&mut state, 1.0);
        let following = state.next_slot();
        match following {
            Some((slot, name)) => {
                assert_eq!(next(&mut state, &status(&boot)), arm(slot, name));
                armed(&mut state, slot, &boot);
                assert_eq!(next(&mut state, &status(&boot)), Action::Reboot, "nothing is measured twice");
            }
            None => assert_eq!(next(&mut state, &status(&boot)), Action::End(BootsEnded::Whole)),
        }
    }
    assert_eq!(state.seen.len(), 4);
    assert_eq!(state.seen[0].machine.kernel.as_deref(), Some("6.1"));
}

#[test]
fn a_boot_that_nobody_got_ready_is_not_measured() {
    let mut state = abba();
    // The power failed before the first boot was prepared.
    assert_eq!(next(&mut state, &status("x")), Action::Arm { slot: 0, arm: ArmName::A, anew: false });
    assert_eq!(state.seen[0].outcome, BootOutcome::Passed);
    armed(&mut state, 0, "x");
    assert_eq!(next(&mut state, &status("y")), Action::Measure { arm: ArmName::A });
    measured(&mut state, 1.0);
    // After this boot was measured, the next one is prepared.
    assert_eq!(next(&mut state, &status("z")), Action::Arm { slot: 1, arm: ArmName::B, anew: false });
    assert_eq!(state.seen.last().unwrap().outcome, BootOutcome::Passed);
}

#[test]
fn a_boot_that_was_cut_off_is_tried_again_in_the_next() {
    let mut state = abba();
    armed(&mut state, 0, "boot-0");
    assert_eq!(next(&mut state, &status("a")), Action::Measure { arm: ArmName::A });
    assert_eq!(next(&mut state, &status("b")), Action::Measure { arm: ArmName::A });
    assert_eq!(state.seen[0].outcome, BootOutcome::CutOff);
    // A measurement is begun at most three times in one boot.
    assert_eq!(next(&mut state, &status("b")), Action::Measure { arm: ArmName::A });
    assert_eq!(next(&mut state, &status("b")), Action::Measure { arm: ArmName::A });
    assert_eq!(next(&mut state, &status("b")), Action::Arm { slot: 0, arm: ArmName::A, anew: false });
    assert_eq!(state.seen[1].outcome, BootOutcome::CutOff);
}

#[test]
fn a_boot_with_other_values_is_prepared_again() {
    let mut state = abba();
    armed(&mut state, 0, "boot-0");
    next(&mut state, &status("a"));
    state.seen[0].outcome = BootOutcome::Missed { why: "w".into() };
    assert_eq!(next(&mut state, &status("a")), Action::Arm { slot: 0, arm: ArmName::A, anew: true });
}

#[test]
fn it_ends_when_it_is_over_reverted_or_too_much() {
    let mut state = abba();
    let mut unlicensed = status("a");
    unlicensed.is_licensed = false;
    assert_eq!(next(&mut state, &unlicensed), Action::End(BootsEnded::Cancelled));
    let mut late = status("a");
    late.now_s = 1_700_001_001;
    assert!(matches!(next(&mut state, &late), Action::End(BootsEnded::GivenUp { .. })));
    state.ended = Some(BootsEnded::Whole);
    assert_eq!(next(&mut state, &status("a")), Action::End(BootsEnded::Whole));

    // If the machine goes down in every boot, there are at most seven boots.
    let mut state = abba();
    armed(&mut state, 0, "boot-0");
    for boot in 0..7 {
        let action = next(&mut state, &status(&format!("b{boot}")));
        assert_eq!(action, Action::Measure { arm: ArmName::A }, "boot {boot}");
    }
    assert!(matches!(next(&mut state, &status("b7")), Action::End(BootsEnded::GivenUp { .. })));
    assert_eq!(state.seen.len(), 7);
}

#[test]
fn the_report_says_what_it_rests_on() {
    let mut state = abba();
    let mut see = |arm: usize, value: f64| {
        let (slot, name) = state.next_slot().unwrap();
        let boot = SeenBoot {
            boot_id: format!("r{arm}"),
            slot,
            arm: name,
            tries: 1,
            machine: BootWords { kernel: Some(if arm == 3 { "6.2" } else { "6.1" }.into()), ..BootWords::default() },
            outcome: BootOutcome::Measured {
                values: vec![value, value * 1.1, value * 0.9],
                dropped: if arm == 1 { 2 } else { 0 },
                guards: Default::default(),
                counted: None,
            },
        };
        state.seen.push(boot);
        state.report()
    };
    let first = see(0, 100.0);
    assert_eq!((first.verdict.as_str(), first.comparison), ("nothing is known yet", None));
    see(1, 99.0);
    see(2, 120.0);
    let report = see(3, 101.0);
    assert_eq!(report.verdict, "undecided (over 4 boots only: weaker than a trial)");
    assert_eq!(report.arms[0].boots, [100.0, 101.0]);
    assert!((report.arms[0].between_boots_share.unwrap() - 0.00995).abs() < 1e-4, "{report:?}");
    assert!((report.arms[1].within_boot_share.unwrap() - 0.1).abs() < 1e-9, "{report:?}");
    assert_eq!(
        sentences(&report),
        [
            "2 of 5 windows of boot 2 were dropped: the machine was disturbed",
            "the boots had different kernels: 6.1, 6.2"
        ]
    );
}
