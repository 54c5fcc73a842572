//! Tests whether settings are reported as engaged: what each boot stores, and what the report concludes.

use evenkeel_host::{Facts, Plan};
use proptest::prelude::*;

use super::*;
use crate::caveat::Caveat;
use crate::conditions::{Conditions, Watch};
use crate::engaged::Engaged;
use crate::outcome::Outcome;
use crate::session::NetworkPath;

/// The counters of CPUs with this busy share and this mean exit latency of their idle states.
fn idled(busy: f64, exit_us: f64) -> BootCounters {
    let window = Conditions {
        busy_share: Some(busy),
        idle_entries_per_s: Some(9000.0),
        idle_exit_latency_us: Some(exit_us),
        ..Conditions::default()
    };
    BootCounters::from_windows(NetworkPath::Loopback, &[window.clone(), window])
}

/// Four boots with these numbers and counters in A and B. The test stores them and reads them back.
fn seen(settings: &[&str], values: [f64; 2], counted: [Option<BootCounters>; 2]) -> BootsState {
    let settings = settings.iter().map(|text| (*text).to_owned()).collect();
    let mut state = BootsState::begin(BootsDesign { settings, ..design(0) }, 1_700_000_000, "boot-0");
    while let Some((slot, arm)) = state.next_slot() {
        let is_b = usize::from(arm == ArmName::B);
        // Boots of one arm differ slightly.
        let values = vec![values[is_b] + slot as f64 * 0.1; 5];
        let counted = counted[is_b].clone();
        let outcome = BootOutcome::Measured { values, dropped: 0, guards: Default::default(), counted };
        let machine = BootWords::default();
        state.seen.push(SeenBoot { boot_id: format!("r{slot}"), slot, arm, tries: 1, machine, outcome });
    }
    parse(state.text().unwrap().as_bytes()).unwrap()
}

#[test]
fn a_setting_that_was_never_engaged_says_so_and_why() {
    let both = |a, b| [Some(a), Some(b)];
    let busy = "the CPUs were 97 % busy in the median window, so hardly ever idle";
    let report = seen(&[SETTING], [100.0, 100.0], both(idled(0.97, 9.0), idled(0.97, 9.0))).report();
    assert_eq!(report.verdict, format!("not engaged (over 4 boots only: weaker than a trial), because {busy}"));
    assert_eq!(report.outcome, Some(Outcome::NotEngaged));
    assert_eq!(report.caveats, [BootsCaveat::OfTrial(Caveat::NotEngaged { knob: None, why: busy.to_owned() })]);
    assert_eq!(report.mechanism[0].knob, "cmdline.processor.max_cstate");
    // The argument is present, but a driver other than expected provides the idle states.
    let report = seen(&[SETTING], [100.0, 100.0], both(idled(0.1, 9.0), idled(0.1, 9.0))).report();
    assert!(
        report.verdict.ends_with("because both arms used the same idle states: mean exit latency 9.00 us and 9.00 us")
    );
    // The idle states differ between the arms, so the verdict stands.
    let report = seen(&[SETTING], [100.0, 100.0], both(idled(0.1, 9.0), idled(0.1, 1.0))).report();
    assert_eq!(
        (report.verdict.as_str(), report.outcome),
        ("same (over 4 boots only: weaker than a trial)", Some(Outcome::Same))
    );
    assert_eq!(report.mechanism[0].engaged, Engaged::Yes);
    assert!(report.mechanism[0].readings.iter().any(|seen| (seen.a, seen.b) == (Some(9.0), Some(1.0))), "{report:?}");
    assert!(report.caveats.is_empty(), "{report:?}");
}

/// A measured difference is reported even if the counter did not move.
/// A knob that was not engaged explains only a result without a difference.
#[test]
fn a_difference_is_reported_although_the_counter_stood_still() {
    let report = seen(&[SETTING], [100.0, 80.0], [Some(idled(0.97, 9.0)), Some(idled(0.97, 9.0))]).report();
    assert_eq!(report.verdict, "better (over 4 boots only: weaker than a trial)");
    assert!(report.caveats[0].to_string().starts_with("no counter shows that the knob was engaged ("), "{report:?}");
}

#[test]
fn of_several_settings_all_have_to_stand_still() {
    let counted = |packets: f64| {
        let counters = [("BusyPollRxPackets".to_owned(), packets)].into();
        let window = Conditions { counters, busy_share: Some(0.97), ..Conditions::default() };
        // The counter moved in one window of twenty. Its mean must not be rounded to 0.
        let mut windows = vec![window.clone(); 20];
        windows[1..].iter_mut().for_each(|window| *window.counters.get_mut("BusyPollRxPackets").unwrap() = 0.0);
        Some(BootCounters::from_windows(NetworkPath::Devices, &windows))
    };
    let settings = [SETTING, "net.core.busy_poll=50"];
    let still = seen(&settings, [100.0, 100.0], [counted(0.0), counted(0.0)]).report();
    assert!(still.verdict.contains("because of cmdline.processor.max_cstate, the CPUs were 97 % busy"), "{still:?}");
    assert!(still.verdict.contains("; of net.core.busy_poll, no packet was taken"), "{still:?}");
    assert_eq!(still.caveats.len(), 2);
    let moved = seen(&settings, [100.0, 100.0], [counted(0.0), counted(1.0)]).report();
    assert!(moved.verdict.starts_with("same (over") && moved.caveats.len() == 1, "{moved:?}");
    // The packets of a workload on loopback pass no device, whatever the device's counter reads.
    let local = |packets| counted(packets).map(|counted| BootCounters { network: NetworkPath::Loopback, ..counted });
    let local = seen(&settings, [100.0, 100.0], [local(0.0), local(1.0)]).report();
    assert!(local.verdict.contains("the workload's packets stay on loopback"), "{local:?}");
}

#[test]
fn knobs_without_counts_are_unknown() {
    let both = [Some(idled(0.97, 9.0)), Some(idled(0.97, 9.0))];
    let report = seen(&["cmdline.clocksource=tsc"], [100.0, 100.0], both).report();
    assert_eq!((&report.mechanism[0].engaged, report.outcome), (&Engaged::Unknown, Some(Outcome::Same)));
    // States without counters in one arm or in both arms, such as those from an older version.
    for counted in [[None, None], [Some(idled(0.97, 9.0)), None], [None, Some(idled(0.97, 9.0))]] {
        let report = seen(&[SETTING], [100.0, 100.0], counted).report();
        assert!(report.mechanism.is_empty() && report.verdict.starts_with("same (over"), "{report:?}");
        let json = serde_json::to_value(&report).unwrap();
        assert!(json.get("mechanism").is_none(), "{json}");
    }
}

#[test]
fn a_whole_trial_keeps_what_each_boot_counted() {
    let mut sim = Sim::begun(0);
    sim.counted = [Some(idled(0.1, 9.0)), Some(idled(0.1, 1.0))];
    assert_eq!(sim.play_out(), BootsEnded::Whole);
    let state = sim.state();
    for (boot, _) in state.measured() {
        let BootOutcome::Measured { counted: Some(counted), .. } = &boot.outcome else { panic!("{boot:?}") };
        assert_eq!(counted.idle_exit_latency_us, Some(if boot.arm == ArmName::B { 1.0 } else { 9.0 }));
    }
    assert_eq!(state.report().mechanism[0].engaged, Engaged::Yes);
    sim.check_end();
}

#[test]
fn invalid_counters_are_refused() {
    let mut state = seen(&[SETTING], [100.0, 100.0], [Some(idled(0.1, 9.0)), Some(idled(0.1, 1.0))]);
    let mut with = |change: &dyn Fn(&mut BootCounters)| {
        let BootOutcome::Measured { counted, .. } = &mut state.seen[0].outcome else { panic!("it is measured") };
        let mut bad = idled(0.1, 9.0);
        change(&mut bad);
        *counted = Some(bad);
        parse(state.text().unwrap().as_bytes()).is_ok()
    };
    let named = |name: &str| [(name.to_owned(), 1.0)].into();
    let so_many = |count: usize| (0..count).map(|at| (format!("interrupts_cpu{at}"), 1.0)).collect();
    assert!(with(&|counted| counted.counters = so_many(BOOT_COUNTERS_MAX)));
    assert!(!with(&|counted| counted.counters = so_many(BOOT_COUNTERS_MAX + 1)));
    for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(65)] {
        assert!(!with(&|counted| counted.counters = named(name)), "{name:?}");
    }
    assert!(!with(&|counted| counted.busy_share = Some(-1.0)));
    assert!(!with(&|counted| counted.counters = [("x".to_owned(), -1.0)].into()));
    // A counter whose value is NaN is left out. If there are too many counters, all are left out.
    let counters = [("x".to_owned(), f64::NAN), ("y".to_owned(), f64::MAX), ("z".to_owned(), 2.0)].into();
    let window = Conditions { busy_share: Some(f64::INFINITY), counters, ..Conditions::default() };
    let found = BootCounters::from_windows(NetworkPath::Devices, &[window.clone(), window]);
    assert_eq!((found.busy_share, &found.counters), (None, &[("z".to_owned(), 2.0)].into()));
    let window = Conditions { counters: so_many(BOOT_COUNTERS_MAX + 1), ..Conditions::default() };
    assert!(BootCounters::from_windows(NetworkPath::Devices, &[window]).counters.is_empty());
    // The largest number of boots, with the largest number of counters and windows, fits into a valid state file.
    let most = BootCounters { counters: so_many(BOOT_COUNTERS_MAX), ..BootCounters::default() };
    let text = serde_json::to_string(&most).unwrap().replace("1.0", "12345678.123456789");
    assert!(
        (text.len() + WINDOWS_MAX * 24) * (evenkeel_stats::BOOTS_MAX + EXTRA_BOOTS)
            < super::super::state::BYTES_MAX as usize
    );
}

/// The trial reads the counter in boots of both arms, whether or not the argument is on the kernel's command line.
#[test]
fn the_counter_of_a_kernel_argument_is_read_in_both_arms() {
    for line in ["BOOT_IMAGE=/vmlinuz quiet", "BOOT_IMAGE=/vmlinuz quiet processor.max_cstate=1"] {
        let host = format!(
            "evenkeel-capture 1\n/proc/cmdline = {line}\n/sys/devices/system/cpu/cpu0/online = 1\n\
             /sys/devices/system/cpu/cpuidle/current_driver = none\nend\n"
        );
        let root = Root::captured(Capture::parse(&host).unwrap());
        let plan = Plan::from_settings(&Facts::probe(&root), &[Setting::parse(SETTING).unwrap()]).unwrap();
        let watch = Watch::start(&root, &[plan]);
        let counted = BootCounters::from_windows(NetworkPath::Loopback, &[watch.end_window(&watch.begin_window())]);
        assert_eq!(counted.counters.get("idle_states"), Some(&0.0), "{line}: {counted:?}");
        let why = seen(&[SETTING], [100.0, 100.0], [Some(counted.clone()), Some(counted)]).report().verdict;
        assert!(why.ends_with("there is no idle driver here: the kernel has no idle state to choose"), "{why}");
    }
}

proptest! {
    /// Any counts can be stored in a state and read again.
    #[test]
    fn any_counts_are_read_again(
        numbers in prop::collection::vec((any::<f64>(), any::<f64>(), "\\PC{0,70}"), 0..6),
    ) {
        let window = |(share, count, name): &(f64, f64, String)| Conditions {
            cpu_pressure_share: Some(*share),
            idle_entries_per_s: Some(*count),
            counters: [(name.clone(), *count)].into(),
            ..Conditions::default()
        };
        let windows: Vec<Conditions> = numbers.iter().map(window).collect();
        let counted = BootCounters::from_windows(NetworkPath::Devices, &windows);
        let state = seen(&[SETTING], [100.0, 90.0], [Some(counted.clone()), Some(counted)]);
        let _ = state.report();
    }
}

/// An argument may remove the idle driver. The removal is an effect of the argument, so the knob was engaged.
#[test]
fn a_driver_that_only_one_arm_has_was_engaged() {
    let with = |states: f64| {
        let counters = [("idle_states".to_owned(), states)].into();
        let idles = if states > 0.0 { Some(9000.0) } else { None };
        let window = Conditions { busy_share: Some(0.1), idle_entries_per_s: idles, counters, ..Conditions::default() };
        Some(BootCounters::from_windows(NetworkPath::Loopback, &[window]))
    };
    let report = |a, b| seen(&[SETTING], [100.0, 100.0], [with(a), with(b)]).report();
    assert_eq!(report(4.0, 0.0).mechanism[0].engaged, Engaged::Yes);
    assert_eq!(report(4.0, 0.0).outcome, Some(Outcome::Same));
    assert_eq!(report(0.0, 0.0).outcome, Some(Outcome::NotEngaged));
}

#[test]
fn a_claim_before_all_boots_are_measured_has_a_caveat() {
    let report = |boots: usize, b| {
        let mut state = seen(&[SETTING], [100.0, b], [None, None]);
        state.design.boots = boots;
        state.report().caveats
    };
    let early = BootsCaveat::Early { boots: 4, of: 8 };
    assert_eq!(report(8, 50.0).iter().filter(|caveat| **caveat == early).count(), 1);
    assert!(report(4, 50.0).iter().chain(&report(8, 100.0)).all(|caveat| *caveat != early));
    assert!(
        early.to_string().starts_with("only 4 of 8 boots are compared: a result before the last boot is"),
        "{early}"
    );
}
