//! Compares the facts of each guest of the lab with its configuration.
//! `lab/machines.sh` sets the command line, the clock, the devices and the topology, so the expected facts are known.

use std::path::Path;

use evenkeel_host::{Facts, Goal, State, advise};
use evenkeel_hostfs::{Capture, Root};
use evenkeel_sys::CpuSet;

/// A number for each name in a list.
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
    // Columns: guest, online, present, isolated, SMT control.
    let table = [
        ("4cpu-6.1", "0-3", "0-3", "", "on"),
        ("4cpu-5.10", "0-3", "0-3", "", "on"),
        ("4cpu-6.12", "0-3", "0-3", "", "on"),
        ("4cpu-7.3", "0-3", "0-3", "", "on"),
        ("arm64-4cpu-6.1", "0-3", "0-3", "", "notimplemented"),
        ("arm64-2-nodes-6.12", "0-7", "0-7", "", "notimplemented"),
        ("1cpu-6.1", "0", "0", "", "notsupported"),
        ("as-bare-metal-2-nodes-6.1", "0-15", "0-15", "", "on"),
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
    // Columns: guest, CPU, socket, siblings, CPUs that share its last cache.
    let table = [
        ("4cpu-6.1", 2, 0, "2-3", "0-3"),
        ("nosmt-6.1", 2, 0, "2", "0,2,4,6"),
        ("4-nodes-6.1", 5, 1, "4-5", "4-7"),
        ("4-nodes-6.1", 0, 0, "0-1", "0-3"),
        ("128cpu-6.1", 33, 1, "32-33", "32-63"),
        ("128cpu-6.1", 127, 3, "126-127", "96-127"),
        ("as-bare-metal-2-nodes-6.1", 9, 1, "8-9", "8-15"),
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
    // Columns: guest, CPUs of each node, distances of node 0.
    let table: [(&str, &[&str], &[u32]); 6] = [
        ("4cpu-6.1", &["0-3"], &[10]),
        ("numa-off-6.1", &["0-7"], &[10]),
        ("4-nodes-6.1", &["0-1", "2-3", "4-5", "6-7"], &[10, 12, 21, 21]),
        ("128cpu-6.1", &["0-31", "32-63", "64-95", "96-127"], &[10, 20, 20, 20]),
        ("arm64-2-nodes-6.12", &["0-3", "4-7"], &[10, 20]),
        ("as-bare-metal-2-nodes-6.1", &["0-7", "8-15"], &[10, 21]),
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
    // Columns: guest, current source, whether the fast source may be chosen.
    // On acpi-idle, the firmware offers C2, so the kernel drops the TSC.
    let table = [
        ("hpet-6.1", "hpet", true),
        ("notsc-6.1", "hpet", false),
        ("acpi-idle-6.1", "hpet", false),
        ("arm64-4cpu-6.1", "arch_sys_counter", false),
    ];
    for (name, current, tsc) in table {
        let facts = guest(name).clock;
        assert_eq!(facts.current.known().map(String::as_str), Some(current), "{name}");
        let available = facts.available.known().unwrap();
        assert_eq!(available.iter().any(|source| source == "tsc"), tsc, "{name}: {available:?}");
    }
}

#[test]
fn idle_states_are_those_of_the_table() {
    // Columns: guest, driver, states with their exit latency in us.
    let table: [(&str, &str, Named<u64>); 3] = [
        ("acpi-idle-6.1", "acpi_idle", &[("POLL", 0), ("C1", 2), ("C2", 400_000), ("C3", 800_000)]),
        ("max-cstate-6.1", "acpi_idle", &[("POLL", 0), ("C1", 2)]),
        ("as-bare-metal-2-nodes-6.1", "acpi_idle", &[("POLL", 0), ("C1", 2), ("C2", 400_000), ("C3", 800_000)]),
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
    // Columns: guest, driver of each NIC with the number of its receive queues, number of interrupts of the first NIC.
    let table: [(&str, Named<usize>, usize); 6] = [
        ("4cpu-5.10", &[("virtio_net", 1)], 2),
        ("4cpu-6.12", &[("virtio_net", 1)], 2),
        ("4-queues-6.1", &[("virtio_net", 4)], 8),
        ("e1000e-6.1", &[("e1000e", 1), ("e1000e", 1)], 2),
        ("arm64-4cpu-6.1", &[("virtio_net", 1)], 2),
        ("bond-vlan-6.1", &[("virtio_net", 1), ("virtio_net", 1)], 2),
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
fn dmi_gives_the_cloud_and_cpuid_the_hypervisor() {
    // Columns: guest, vendor, cloud, hypervisor.
    let table = [
        ("4cpu-6.1", "QEMU", "none", "tcg"),
        ("as-c5n.xlarge-6.1", "Amazon EC2", "aws", "tcg"),
        ("as-azure-6.1", "Microsoft Corporation", "azure", "tcg"),
        ("as-gce-6.12", "Google", "gcp", "tcg"),
        ("as-bare-metal-2-nodes-6.1", "Dell Inc.", "none", "none"),
    ];
    for (name, vendor, cloud, hypervisor) in table {
        let machine = serde_json::to_value(guest(name).machine).unwrap();
        let found =
            ["vendor", "cloud", "hypervisor"].map(|field| machine[field].as_str().unwrap_or_default().to_owned());
        assert_eq!(found, [vendor, cloud, hypervisor], "{name}");
    }
    // Arm has no CPUID, and without UEFI, QEMU gives an Arm guest no DMI. So the hypervisor is unknown, not missing.
    let arm = guest("arm64-4cpu-6.1").machine;
    assert!(arm.hypervisor.is_absent() && arm.vendor.is_absent(), "{arm:?}");
}

#[test]
fn a_kernel_that_does_not_take_preempt_none_says_what_it_runs() {
    for name in ["4cpu-7.3", "preempt-none-7.3"] {
        let facts = guest(name);
        let preemption = serde_json::to_value(&facts.preemption).unwrap();
        assert_eq!(
            (&preemption["model"], preemption["on_offer"].to_string().as_str()),
            (&"lazy".into(), r#"["full","lazy"]"#)
        );
    }
    assert_eq!(guest("preempt-none-7.3").kernel.argument("preempt"), Some("none"));
}

#[test]
fn huge_pages_and_swap_are_as_configured() {
    let memory = guest("swap-hugepages-6.12").memory;
    let swaps = memory.swaps.known().unwrap().iter().map(|swap| (swap.path.as_str(), swap.kind.as_str()));
    let expected = [("/dev/zram0", "partition"), ("/dev/vda", "partition"), ("/mnt/swapfile", "file")];
    assert_eq!(swaps.collect::<Vec<_>>(), expected);
    let pages = memory.huge_pages.known().unwrap();
    let huge = pages.iter().find(|pages| pages.size_bytes == 2 << 20).unwrap();
    assert_eq!(huge.count.known(), Some(&64));
    assert_eq!(memory.thp_enabled.known().map(String::as_str), Some("always"));
}

#[test]
fn a_bond_and_its_vlan_are_no_cards() {
    let network = guest("bond-vlan-6.1").network;
    let names: Vec<_> = network.nics.known().unwrap().iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["bond0", "bond0.7", "eth0", "eth1", "lo"]);
    assert_eq!(network.hardware().map(|nic| nic.name.as_str()).collect::<Vec<_>>(), ["eth0", "eth1"]);
}

#[test]
fn advice_heeds_what_is_in_force() {
    // Columns: guest, knob, state.
    let table = [
        ("acpi-idle-6.1", "cpuidle.dma_latency_us", State::Set),
        ("max-cstate-6.1", "cpuidle.dma_latency_us", State::Keep),
        ("acpi-idle-6.1", "cmdline.intel_idle.max_cstate", State::NotHere),
        ("4cpu-6.1", "cpuidle.dma_latency_us", State::NotHere),
        // On acpi-idle, the kernel itself dropped the TSC, because the TSC halts in C2.
        ("acpi-idle-6.1", "clocksource", State::NotHere),
        ("max-cstate-6.1", "clocksource", State::Keep),
        ("notsc-6.1", "clocksource", State::NotHere),
        ("4cpu-6.12", "thp.enabled", State::Set),
        ("mitigations-off-6.12", "thp.enabled", State::Keep),
        ("4cpu-6.1", "net.core.busy_poll", State::Set),
        ("maxcpus-6.1", "net.core.busy_poll", State::Keep),
        ("e1000e-6.1", "irq.affinity", State::Keep),
        ("1cpu-6.1", "irq.affinity", State::NotHere),
        ("1cpu-6.1", "net.core.busy_poll", State::NotHere),
        ("arm64-4cpu-6.1", "cmdline.intel_idle.max_cstate", State::NotHere),
        ("as-bare-metal-2-nodes-6.1", "cpufreq.governor", State::Set),
        ("swap-hugepages-6.12", "vm.swappiness", State::Set),
        ("swap-hugepages-6.12", "process.memory_lock", State::Set),
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

#[test]
fn the_readme_of_the_hosts_lists_each_of_them() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts");
    let readme = std::fs::read_to_string(dir.join("README.md")).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "txt") {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(readme.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
