//! Tests whole trials: undisturbed trials, and trials that are killed at each step.

use proptest::prelude::*;

use super::*;

#[test]
fn abba_and_its_mirror_go_through_and_leave_nothing() {
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..8 {
        let mut sim = Sim::begun(seed);
        assert!(sim.is_there(UNIT));
        assert_eq!(sim.play_out(), BootsEnded::Whole);
        let report = sim.state().report();
        orders.insert(report.order.clone());
        assert_eq!(report.verdict, "better (over 4 boots only: weaker than a trial)");
        assert_eq!(report.comparison.unwrap().ratio, 80.2 / 100.2);
        assert_eq!(sim.state().seen.len(), 4);
        // In one of the two orders, the last boot is B's. Then one more boot is needed to restore the running kernel.
        assert_eq!(sim.boots, if report.order == "ABBA" { 4 } else { 5 });
        sim.check_end();
    }
    assert_eq!(orders.into_iter().collect::<Vec<_>>(), ["ABBA", "BAAB"]);
}

/// The number of steps of an undisturbed trial.
fn steps(seed: u64) -> u32 {
    let mut sim = Sim::begun(seed);
    sim.fuse.set(Some(10_000));
    sim.play_out();
    10_000 - sim.fuse.get().unwrap()
}

/// Runs a trial that is killed at this step. `after` then changes the machine.
fn killed_at(step: u32, seed: u64, mut after: impl FnMut(&mut Sim)) -> Sim {
    let mut sim = Sim::begun(seed);
    sim.fuse.set(Some(step));
    loop {
        match sim.start() {
            None => break,
            Some(Ok(Ending::Reboot)) => sim.reboot(),
            other => panic!("it was to be killed at step {step}: {other:?}"),
        }
    }
    after(&mut sim);
    sim
}

#[test]
fn killed_at_every_step_it_goes_on_to_the_same_end() {
    // Test both orders of the arms. After the kill, the unit starts again, either in the same boot or after a power failure.
    for (seed, reboots) in [(0, true), (1, true), (1, false)] {
        let steps = steps(seed);
        assert!(steps > 30, "{steps}");
        for step in 0..steps {
            let mut sim = killed_at(step, seed, |sim| {
                if reboots {
                    sim.reboot();
                }
            });
            let ended = sim.play_out();
            assert_eq!(ended, BootsEnded::Whole, "step {step}, rebooted: {reboots}: {:?}", sim.state());
            assert_eq!(sim.state().measured().count(), 4);
            sim.check_end();
        }
    }
}

/// Somebody reboots while the next boot is being prepared.
/// The shutdown ends the program that writes the boot menu, but the trial must continue.
#[test]
fn a_machine_that_goes_down_while_a_boot_is_got_ready_goes_on() {
    for (seed, turn, is_done) in [(0, 0, false), (0, 0, true), (1, 1, false), (1, 1, true), (1, 2, false), (0, 2, true)]
    {
        let mut sim = Sim::begun(seed);
        for _ in 0..turn {
            assert_eq!(sim.start().unwrap().unwrap(), Ending::Reboot);
            sim.reboot();
        }
        sim.goes_down = Some(is_done);
        let mut stops = 0;
        while sim.goes_down.is_some() {
            match sim.start().unwrap().unwrap() {
                Ending::Stopped => stops += 1,
                Ending::Reboot => {}
                ended @ Ending::Ended { .. } => panic!("{ended:?}"),
            }
            sim.reboot();
        }
        assert_eq!(stops, 1, "seed {seed}, turn {turn}");
        assert_eq!(sim.play_out(), BootsEnded::Whole, "{:?}", sim.state());
        sim.check_end();
    }
}

#[test]
fn after_a_kill_at_every_step_revert_puts_all_back() {
    for reboots in [false, true] {
        for step in 0..steps(1) {
            let mut sim = killed_at(step, 1, |sim| {
                if reboots {
                    sim.reboot();
                }
                sim.revert_all();
            });
            assert!(!sim.is_there(UNIT) && !sim.is_there(WANTS) && !sim.is_there(GRUB), "step {step}");
            // After that, a manual start of the unit changes nothing.
            let mut state = sim.state();
            let ending = go_on(&mut state, &mut sim).unwrap();
            assert!(matches!(ending, Ending::Ended { .. }), "step {step}: {ending:?}");
            sim.check_end();
        }
    }
}

#[test]
fn a_trial_that_begins_is_not_taken_for_one_that_was_put_back() {
    let sim = Sim::begun(1);
    let flags = |sim: &Sim| (sim.hands().is_licensed().unwrap(), sim.hands().is_put_back().unwrap());
    assert_eq!(flags(&sim), (true, false));
    sim.revert_all();
    assert_eq!(flags(&sim), (false, true));
    let other = folder();
    let beginning = BootTransactions::new(&sim.root, other.path(), &sim.id, Vec::new()).unwrap();
    assert!(!beginning.is_licensed().unwrap() && !beginning.is_put_back().unwrap());
}

/// The trial waits while another evenkeel has locked the journal. If the lock stays, the trial reports it and leaves no change half done.
#[test]
fn a_trial_waits_for_another_evenkeel() {
    let sim = Sim::begun(1);
    let hold = || Some(State::open(sim.dir.path()).unwrap());
    let open = |sim: &Sim| (sim.open_transactions(), sim.is_there(GRUB), sim.is_there(UNIT));
    let mut theirs = hold();
    let mut ends = |why: &str, _| {
        assert!(why.contains(&format!("another evenkeel (process {}", std::process::id())), "{why}");
        theirs.take().is_some()
    };
    sim.hands().arm(ArmName::B, false, &mut ends).unwrap();
    assert_eq!(open(&sim), (2, true, true));
    let theirs = hold();
    let mut pauses = 0;
    let mut stays = |_: &str, _| {
        pauses += 1;
        pauses < 3
    };
    let held = sim.hands().put_back(&mut stays).unwrap_err();
    let why = held.to_string();
    assert!(held.is_held() && why.contains("another evenkeel (process") && pauses == 3, "{why}, {pauses} pauses");
    assert_eq!(open(&sim), (2, true, true));
    drop(theirs);
    let mut theirs = hold();
    let mut ends = |_: &str, _| theirs.take().is_some();
    sim.hands().put_back(&mut ends).unwrap();
    assert_eq!(open(&sim), (0, false, false));
}

#[test]
fn a_transaction_that_was_cut_off_is_put_back_before_the_next() {
    for lines in [1, 2, 3] {
        let mut sim = Sim::begun(1);
        while !sim.is_there(GRUB) {
            let mut state = sim.state();
            // This run only prepares the next boot.
            sim.fuse.set(None);
            assert_eq!(go_on(&mut state, &mut sim).unwrap(), Ending::Reboot);
            if !sim.is_there(GRUB) {
                sim.reboot();
            }
        }
        // The last records of the transaction never reached the disk.
        // The file with their number did not either, because it is written later.
        std::fs::remove_file(sim.dir.path().join("journal.last-record")).unwrap();
        let journal = sim.dir.path().join("journal");
        let text = std::fs::read_to_string(&journal).unwrap();
        let kept: Vec<&str> = text.lines().collect();
        let kept: String = kept[..kept.len() - lines].iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&journal, kept).unwrap();
        let mut state = sim.state();
        state.armed = None;
        write(&sim.file(), &state).unwrap();
        sim.reboot();
        assert_eq!(sim.play_out(), BootsEnded::Whole, "{lines} records lost");
        sim.check_end();
    }
}

#[test]
fn a_machine_that_never_comes_up_as_asked_is_given_up() {
    let mut sim = Sim::begun(0);
    sim.is_deaf = true;
    let ended = sim.play_out();
    let BootsEnded::GivenUp { why } = ended else { panic!("{ended:?}") };
    assert!(why.contains("at most 7 boots"), "{why}");
    assert_eq!(sim.boots, 7);
    let report = sim.state().report();
    assert!(
        report.caveats.iter().any(|caveat| caveat.to_string().contains("is not active in this boot of B")),
        "{report:?}"
    );
    assert_eq!(report.comparison, None);
    sim.check_end();
}

#[test]
fn a_full_disk_or_too_long_a_time_ends_it() {
    let mut sim = Sim::begun(0);
    assert_eq!(sim.start().unwrap().unwrap(), Ending::Reboot);
    sim.reboot();
    sim.is_full = true;
    // The end of the trial cannot be stored either, and the trial reports this. The host is restored nevertheless.
    assert!(matches!(sim.start().unwrap(), Err(BootsError::File(BootsFileError::Io { .. }))));
    assert_eq!(sim.open_transactions(), 0);
    assert!(!sim.is_there(UNIT) && !sim.is_there(GRUB));

    let mut sim = Sim::begun(0);
    assert_eq!(sim.start().unwrap().unwrap(), Ending::Reboot);
    sim.reboot();
    sim.now_s += 2000;
    assert!(matches!(sim.play_out(), BootsEnded::GivenUp { why } if why.contains("longer than 1000 s")));
    sim.check_end();
}

#[test]
fn a_machine_whose_boots_all_have_one_id_does_not_reboot_for_ever() {
    let mut sim = Sim::begun(0);
    let mut reboots = 0;
    let ended = loop {
        match sim.start().unwrap() {
            // The machine starts again with the same boot id.
            Ok(Ending::Reboot) => reboots += 1,
            Ok(Ending::Ended { ended, .. }) => break ended,
            other => panic!("{other:?}"),
        }
        assert!(reboots < 20);
    };
    assert!(matches!(ended, BootsEnded::GivenUp { why } if why.contains("asked for 9 reboots")));
    assert_eq!((reboots, sim.measured.len()), (8, 0));
    sim.check_end();
}

#[test]
fn persistent_settings_of_others_stay() {
    let mut sim = Sim::begun(0);
    // Somebody persists another argument during the trial. Both arguments are in one file.
    assert_eq!(sim.start().unwrap().unwrap(), Ending::Reboot);
    let other = Setting::parse("cmdline.tsc=reliable").unwrap();
    {
        let mut journal = State::open(sim.dir.path()).unwrap();
        let plan = BootTransactions::plan(&sim.root, journal.log(), &[other], "theirs").unwrap();
        let (steps, writer) = (plan.plan(), sim.root.writer().unwrap());
        let job = evenkeel_change::Job {
            settings: &plan.settings,
            lasting: plan.persist.as_ref(),
            ..evenkeel_change::Job::new(&steps, &plan.title)
        };
        evenkeel_change::carry_out(&sim.root, &writer, &mut journal, &job, |_| Ok(())).unwrap();
    }
    sim.reboot();
    let mut state = sim.state();
    // The trial always ends. It reports another trial's values that prevent the removal of its own values.
    for _ in 0..20 {
        match go_on(&mut state, &mut sim) {
            Ok(Ending::Reboot) => sim.reboot(),
            Ok(Ending::Ended { .. }) => break,
            Ok(Ending::Stopped) => panic!("nobody stopped it"),
            Err(error) => {
                assert!(error.to_string().contains("revert"), "{error}");
                break;
            }
        }
    }
    sim.revert_all();
    assert!(sim.is_as_before());
}

/// Events that can happen to a machine.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The unit starts, and is killed after this many steps if it still runs.
    Start(u32),
    Reboot,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_events_leave_the_host_as_before(
        seed in 0_u64..4,
        deaf in prop::bool::weighted(0.1),
        events in prop::collection::vec(
            prop_oneof![3 => (0_u32..30).prop_map(Event::Start), 1 => Just(Event::Reboot)],
            0..30,
        ),
    ) {
        let mut sim = Sim::begun(seed);
        sim.is_deaf = deaf;
        for event in events {
            match event {
                Event::Reboot => sim.reboot(),
                Event::Start(steps) => {
                    sim.fuse.set(Some(steps));
                    if let Some(Ok(Ending::Reboot)) = sim.start() {
                        sim.reboot();
                    }
                    sim.fuse.set(None);
                }
            }
        }
        let ended = sim.play_out();
        prop_assert!(deaf || ended == BootsEnded::Whole || matches!(ended, BootsEnded::GivenUp { .. }), "{:?}", ended);
        sim.check_end();
    }
}
