//! What was asked of each guest of the lab, against what its facts tell: its command line, its clock, its devices and its shape
//! were chosen by hand in `lab/machines.sh`, so what must be seen is known.

#![expect(clippy::unwrap_used, reason = "clippy takes the helpers of an integration test for product code")]

use std::path::Path;

use evenkeel_host::{Facts, Goal, State, advise};
use evenkeel_sys::{Capture, CpuSet, Root};

/// A figure for each of several names.
type Named<T> = &'static [(&'static str, T)];

fn guest(name: &str) -> Facts {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../hosts/qemu-{name}.txt"));
    Facts::probe(&Root::captured(Capture::load(&file).unwrap()))
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

#[test]
fn cpus_that_run_are_those_that_may() {
    // Guest, online, present, isolated, SMT control.
    let table = [
        ("4cpu-6.1", "0-3", "0-3", "", "on"),
        ("4cpu-5.10", "0-3", "0-3", "", "on"),
        ("4cpu-6.12", "0-3", "0-3", "", "on"),
        ("nosmt-6.1", "0,2,4,6", "0-7", "", "off"),
        ("maxcpus-6.1", "0-1", "0-3", "", "on"),
        ("isolcpus-6.1", "0-3", "0-3", "2-3", "on"),
        ("acpi-idle-6.1", "0-1", "0-1", "", "notsupported"),
        ("4-nodes-6.1", "0-7", "0-7", "", "on"),
        ("128cpu-6.1", "0-127", "0-127", "", "on"),
    ];
    for (name, online, present, isolated, smt) in table {
        let facts = guest(name).cpus;
        assert_eq!(facts.online.known(), Some(&cpus(online)), "{name}: online");
        assert_eq!(facts.present.known(), Some(&cpus(present)), "{name}: present");
        assert_eq!(facts.isolated.known(), Some(&cpus(isolated)), "{name}: isolated");
        assert_eq!(facts.smt_control.known().map(String::as_str), Some(smt), "{name}: SMT");
        for cpu in &facts.cpus {
            assert_eq!(cpu.online.known(), Some(&cpus(online).contains(cpu.cpu)), "{name}: cpu{}", cpu.cpu);
        }
    }
}

#[test]
fn threads_share_a_core_and_sockets_have_their_own() {
    // Guest, CPU, socket, siblings, CPUs that share its last cache.
    let table = [
        ("4cpu-6.1", 2, 0, "2-3", "0-3"),
        ("nosmt-6.1", 2, 0, "2", "0,2,4,6"),
        ("4-nodes-6.1", 5, 1, "4-5", "4-7"),
        ("4-nodes-6.1", 0, 0, "0-1", "0-3"),
        ("128cpu-6.1", 33, 1, "32-33", "32-63"),
        ("128cpu-6.1", 127, 3, "126-127", "96-127"),
    ];
    for (name, number, socket, siblings, sharing) in table {
        let facts = guest(name);
        let cpu = facts.cpus.cpus.iter().find(|cpu| cpu.cpu == number).unwrap();
        assert_eq!(cpu.package.known(), Some(&socket), "{name}: cpu{number}");
        assert_eq!(cpu.siblings.known(), Some(&cpus(siblings)), "{name}: cpu{number}");
        let last = cpu.caches.last().unwrap();
        assert_eq!(
            (last.level.known(), last.shared_by.known()),
            (Some(&3), Some(&cpus(sharing))),
            "{name}: cpu{number}"
        );
    }
}

#[test]
fn memory_is_as_far_as_the_firmware_says() {
    // Guest, CPUs of each node, distances of node 0.
    let table: [(&str, &[&str], &[u32]); 4] = [
        ("4cpu-6.1", &["0-3"], &[10]),
        ("numa-off-6.1", &["0-7"], &[10]),
        ("4-nodes-6.1", &["0-1", "2-3", "4-5", "6-7"], &[10, 12, 21, 21]),
        ("128cpu-6.1", &["0-31", "32-63", "64-95", "96-127"], &[10, 20, 20, 20]),
    ];
    for (name, of_nodes, distances) in table {
        let nodes = guest(name).numa.nodes.known().unwrap().clone();
        let found: Vec<_> = nodes.iter().map(|node| node.cpus.known().unwrap().clone()).collect();
        assert_eq!(found, of_nodes.iter().map(|list| cpus(list)).collect::<Vec<_>>(), "{name}");
        assert_eq!(nodes[0].distances.known().map(Vec::as_slice), Some(distances), "{name}");
    }
}

#[test]
fn the_clock_is_the_one_that_was_ordered() {
    // Guest, current source, whether the fast one may be chosen. Firmware that offers C2 costs acpi-idle its TSC.
    let table = [("hpet-6.1", "hpet", true), ("notsc-6.1", "hpet", false), ("acpi-idle-6.1", "hpet", false)];
    for (name, current, tsc) in table {
        let facts = guest(name).clock;
        assert_eq!(facts.current.known().map(String::as_str), Some(current), "{name}");
        let available = facts.available.known().unwrap();
        assert_eq!(available.iter().any(|source| source == "tsc"), tsc, "{name}: {available:?}");
    }
}

#[test]
fn idle_states_are_those_of_the_table() {
    // Guest, driver, states with their exit latency in us.
    let table: [(&str, &str, Named<u64>); 2] = [
        ("acpi-idle-6.1", "acpi_idle", &[("POLL", 0), ("C1", 2), ("C2", 400_000), ("C3", 800_000)]),
        ("max-cstate-6.1", "acpi_idle", &[("POLL", 0), ("C1", 2)]),
    ];
    for (name, driver, states) in table {
        let facts = guest(name);
        assert_eq!(facts.idle.driver.known().map(String::as_str), Some(driver), "{name}");
        let found = facts.idle.states.known().unwrap().iter();
        let found: Vec<_> = found
            .map(|state| (state.name.known().unwrap().as_str(), *state.exit_latency_us.known().unwrap()))
            .collect();
        assert_eq!(found, states, "{name}");
        assert_eq!(facts.frequency.driver.known().map(String::as_str), Some("acpi-cpufreq"), "{name}");
    }
}

#[test]
fn cards_have_the_queues_that_they_were_given() {
    // Guest, driver of each NIC with its receive queues, interrupts of the first.
    let table: [(&str, Named<usize>, usize); 4] = [
        ("4cpu-5.10", &[("virtio_net", 1)], 2),
        ("4cpu-6.12", &[("virtio_net", 1)], 2),
        ("4-queues-6.1", &[("virtio_net", 4)], 8),
        ("e1000e-6.1", &[("e1000e", 1), ("e1000e", 1)], 2),
    ];
    for (name, cards, irqs) in table {
        let facts = guest(name);
        let nics: Vec<_> = facts.network.hardware().collect();
        let found: Vec<_> =
            nics.iter().map(|nic| (nic.driver.known().unwrap().as_str(), nic.queues.known().unwrap().rx)).collect();
        assert_eq!(found, cards, "{name}");
        assert_eq!(nics[0].irqs.len(), irqs, "{name}: {:?}", nics[0].irqs);
    }
}

#[test]
fn advice_heeds_what_is_in_force() {
    // Guest, knob, state.
    let table = [
        ("acpi-idle-6.1", "cpuidle.dma_latency_us", State::Set),
        ("max-cstate-6.1", "cpuidle.dma_latency_us", State::Keep),
        ("acpi-idle-6.1", "cmdline.intel_idle.max_cstate", State::NotHere),
        ("4cpu-6.1", "cpuidle.dma_latency_us", State::NotHere),
        // The kernel itself gave up the TSC of acpi-idle, because it halts in C2.
        ("acpi-idle-6.1", "clocksource", State::NotHere),
        ("max-cstate-6.1", "clocksource", State::Keep),
        ("notsc-6.1", "clocksource", State::NotHere),
        ("4cpu-6.12", "thp.enabled", State::Set),
        ("mitigations-off-6.12", "thp.enabled", State::Keep),
        ("4cpu-6.1", "net.core.busy_poll", State::Set),
        ("maxcpus-6.1", "net.core.busy_poll", State::Keep),
        ("e1000e-6.1", "irq.affinity", State::Keep),
    ];
    for (name, knob, state) in table {
        let advice = advise(&guest(name), &Goal::Latency.into());
        let of_knob: Vec<_> = advice.iter().filter(|advice| advice.knob == knob).collect();
        assert!(!of_knob.is_empty(), "{name}: {knob}");
        for advice in of_knob {
            assert_eq!(advice.state, state, "{name}: {knob}: {}", advice.reason);
        }
    }
}
