//! A table of readings and the expected answers, with a row for each answer of each counter.

use evenkeel_workload::{Metric, Sample};

use super::*;
use crate::arm::Arm;
use crate::conditions::Conditions;
use crate::design::Design;
use crate::session::Window;

fn record(knob: &str, network: NetworkPath, a: Conditions, b: Conditions) -> Record {
    let metric = Metric::us("x_us", "x");
    let design = Design::new(metric, 6, std::time::Duration::from_secs(1), 1);
    let arms = [Arm::as_it_was(1), Arm::planned(1)];
    let mut record = Record::new(&design, arms, vec![knob.to_owned()], network);
    let window =
        |arm, conditions| Window { pair: 0, arm, start_us: 0.0, value: 1.0, sample: Sample::new(), conditions };
    record.windows = vec![window(ArmName::A, a), window(ArmName::B, b)];
    record
}

fn idle(busy: f64, entries: f64, exit_us: f64) -> Conditions {
    Conditions {
        busy_share: Some(busy),
        idle_entries_per_s: Some(entries),
        idle_exit_latency_us: Some(exit_us),
        ..Conditions::default()
    }
}

fn counted(counters: &[(&str, f64)]) -> Conditions {
    let counters = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Conditions { counters, ..Conditions::default() }
}

fn why(record: &Record) -> Option<String> {
    match mechanisms(record).swap_remove(0).engaged {
        Engaged::Yes => Some("yes".to_owned()),
        Engaged::No { why } => Some(why),
        Engaged::Unknown => None,
    }
}

#[test]
fn an_idle_knob_is_engaged_only_if_its_states_were_entered() {
    let table = [
        (idle(0.1, 9000.0, 1.0), idle(0.1, 12000.0, 0.2), "yes"),
        // memcached with sixteen connections on two CPUs: the CPUs hardly idle, and always in the polling state.
        (idle(0.965, 1376.0, 1.0), idle(0.975, 3136.0, 0.018), "yes"),
        (
            idle(0.99, 900.0, 1.0),
            idle(0.99, 900.0, 0.97),
            "the CPUs were 99 % busy in the median window, so hardly ever idle",
        ),
        (idle(0.5, 20.0, 1.0), idle(0.5, 30.0, 0.2), "CPUs went idle only 25 times a second"),
        (
            idle(0.1, 9000.0, 1.0),
            idle(0.1, 9000.0, 0.99),
            "both arms used the same idle states: mean exit latency 1.00 us and 0.99 us",
        ),
        (
            counted(&[(IDLE_STATES, 0.0)]),
            counted(&[(IDLE_STATES, 0.0)]),
            "there is no idle driver here: the kernel has no idle state to choose",
        ),
    ];
    for (a, b, expected) in table {
        let record = record("haltpoll.guest_halt_poll_ns", NetworkPath::Loopback, a, b);
        assert_eq!(why(&record).as_deref(), Some(expected));
    }
    let caveats_of = |a, b| {
        let seen = mechanisms(&record("haltpoll.guest_halt_poll_ns", NetworkPath::Loopback, a, b));
        caveats(&seen, Outcome::NotEngaged).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let busy = "the knob acts on idle CPUs, and the CPUs were 96 % busy: under less load its effect may be larger";
    assert_eq!(caveats_of(idle(0.96, 1376.0, 1.0), idle(0.975, 3136.0, 0.018)), [busy]);
    assert_eq!(caveats_of(idle(0.1, 9000.0, 1.0), idle(0.95, 12000.0, 0.2)), [""; 0]);
    let mut nothing =
        record("haltpoll.guest_halt_poll_ns", NetworkPath::Loopback, idle(0.1, 1.0, 1.0), idle(0.1, 1.0, 1.0));
    nothing.windows.clear();
    assert_eq!(why(&nothing), None, "nothing seen says nothing");
}

#[test]
fn each_counter_shows_engaged_and_not_engaged() {
    use NetworkPath::{Devices, Loopback};
    type Counted = &'static [(&'static str, f64)];
    let table: &[(&str, NetworkPath, Counted, Counted, &str)] = &[
        ("net.core.busy_poll", Loopback, &[], &[], "the workload's packets stay on loopback"),
        (
            "net.core.busy_poll",
            Devices,
            &[("BusyPollRxPackets", 0.0)],
            &[("BusyPollRxPackets", 0.0)],
            "no packet was taken",
        ),
        ("net.core.busy_poll", Devices, &[("BusyPollRxPackets", 0.0)], &[("BusyPollRxPackets", 71.0)], "yes"),
        ("net.rps_cpus", Devices, &[("softnet_received_rps", 0.0)], &[("softnet_received_rps", 9.0)], "yes"),
        ("net.core.netdev_max_backlog", Loopback, &[("softnet_processed", 9.0)], &[("softnet_processed", 9.0)], "yes"),
        (
            "net.core.netdev_max_backlog",
            Devices,
            &[("softnet_received_rps", 0.0)],
            &[("softnet_dropped", 0.0)],
            "packets of a network device pass the queue",
        ),
        (
            "net.core.netdev_budget",
            Loopback,
            &[("softnet_time_squeeze", 0.0)],
            &[("softnet_time_squeeze", 0.0)],
            "no CPU ever",
        ),
        ("net.core.rmem_max", Loopback, &[("udp_rcvbuf_errors", 900.0)], &[("udp_rcvbuf_errors", 0.0)], "yes"),
        (
            "net.core.rmem_max",
            Loopback,
            &[("udp_rcvbuf_errors", 0.0)],
            &[("udp_rcvbuf_errors", 0.0)],
            "no datagram found",
        ),
        (
            "irq.affinity",
            Devices,
            &[("interrupts_cpu0", 90.0), ("interrupts_cpu1", 0.0)],
            &[("interrupts_cpu0", 1.0), ("interrupts_cpu1", 99.0)],
            "yes",
        ),
        (
            "irq.affinity",
            Devices,
            &[("interrupts_cpu0", 90.0)],
            &[("interrupts_cpu0", 70.0)],
            "the interrupts went to the same",
        ),
        (
            "irq.affinity",
            Devices,
            &[("interrupts_cpu0", 0.0)],
            &[("interrupts_cpu0", 0.0)],
            "the interrupts did not come",
        ),
        ("thp.enabled", Loopback, &[("thp_fault_alloc", 0.0)], &[("thp_fault_alloc", 3.0)], "yes"),
        (
            "thp.enabled",
            Loopback,
            &[("thp_fault_alloc", 0.0)],
            &[("thp_fault_alloc", 0.0)],
            "nobody was given a huge page",
        ),
        ("vm.swappiness", Loopback, &[("pgscan_kswapd", 0.0)], &[("pgscan_kswapd", 0.0)], "memory was never short"),
        (
            "process.timer_slack_ns",
            Loopback,
            &[("process.timer_slack_ns", 50000.0)],
            &[("process.timer_slack_ns", 1.0)],
            "yes",
        ),
        (
            "process.timer_slack_ns",
            Loopback,
            &[("process.timer_slack_ns", 1.0)],
            &[("process.timer_slack_ns", 1.0)],
            "the server read the same",
        ),
        ("clocksource", Loopback, &[], &[], ""),
        ("thp.enabled", Loopback, &[], &[], ""),
    ];
    for (knob, network, a, b, expected) in table {
        let record = record(knob, *network, counted(a), counted(b));
        let text = why(&record).unwrap_or_default();
        assert!(
            text.starts_with(expected) && text.is_empty() == expected.is_empty(),
            "{knob}: {text:?}, not {expected:?}"
        );
    }
}

#[test]
fn two_arms_that_are_the_same_have_nothing_to_engage() {
    let mut record = record("net.core.busy_poll", NetworkPath::Loopback, counted(&[]), counted(&[]));
    record.arms[1] = record.arms[0].clone();
    assert_eq!(why(&record), None);
}
