//! Errors and outdated advice in well-known tuning guides, with one test for each.
//! The tests use only public functions.
//! A test takes a machine of `hosts/`, perhaps with a few readings changed, and checks the resulting advice, refusal or explanation.

use std::path::Path;

use evenkeel_host::{Advice, AdviceContext, Facts, Goal, Knob, Plan, Setting, State, advise, knobs};
use evenkeel_hostfs::{Capture, Root};
use evenkeel_sys::CpuSet;

const C4: &str = "aws-c4.8xlarge-xen-3.14";
const C5N: &str = "aws-c5n.xlarge-nitro-6.1";
const AZURE: &str = "azure-a1-hyperv-1vcpu";
const CPUS_128: &str = "qemu-128cpu-6.1";

/// A machine of `hosts/` with some readings replaced: `PATH = TEXT`, one line each.
fn host(name: &str, otherwise: &[(&str, &str)]) -> Facts {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../hosts/{name}.txt"));
    let mut capture = Capture::load(&file).unwrap();
    for (path, text) in otherwise {
        capture.saw_text(path, Ok(format!("{text}\n")));
    }
    Facts::probe(&Root::captured(capture))
}

/// The advice on a knob for the goal latency.
fn advice(facts: &Facts, knob: &str) -> Vec<Advice> {
    let all = advise(facts, &AdviceContext::from(Goal::Latency));
    let found: Vec<Advice> = all.into_iter().filter(|advice| advice.knob == knob).collect();
    assert!(!found.is_empty(), "{knob} has no advice");
    found
}

/// Checks the state and a part of the reason of the advice on a knob with one place.
#[track_caller]
fn says(facts: &Facts, knob: &str, state: State, reason: &str) -> Advice {
    let found = advice(facts, knob).remove(0);
    assert_eq!(found.state, state, "{knob}: {}", found.reason);
    assert!(found.reason.contains(reason), "{knob}: {}", found.reason);
    found
}

fn knob(id: &str) -> &'static Knob {
    knobs::find(id).unwrap()
}

fn refused(setting: &str) -> String {
    Setting::parse(setting).unwrap_err().to_string()
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

/// All advice for every machine, and the page of the knobs without its sources.
fn all_that_is_said() -> String {
    let mut said: String =
        knobs::ALL.iter().map(|knob| format!("{}\n{}\n{}\n", knob.place, knob.mechanism, knob.risk)).collect();
    for name in [C4, C5N, AZURE, CPUS_128, "aws-m4.xlarge-xen-4.4", "gcp-n2-kvm-swap-5.14"] {
        for advice in advise(&host(name, &[]), &AdviceContext::from(Goal::Latency)) {
            said += &format!("{} {}\n", advice.place, advice.reason);
        }
    }
    said
}

#[test]
fn grub_conf_and_sysctl_conf_are_no_places() {
    let said = all_that_is_said();
    for place in ["grub.conf", "/etc/sysctl.conf", "rc.local", "50-cloudimg-settings", "update-rc.d"] {
        assert!(!said.contains(place), "{place}: Debian 13 reads no sysctl.conf, and GRUB 2 no grub.conf");
    }
}

#[test]
fn dirty_background_ratio_needs_its_vm() {
    let error = refused("dirty_background_ratio=10");
    assert!(error.contains("did you mean \"vm.dirty_background_ratio\""), "{error}");
    assert!(Setting::parse("vm.dirty_background_ratio=10").is_ok());
}

#[test]
fn the_migration_cost_is_500_us_and_not_scaled() {
    assert!(
        knob("sched.migration_cost_ns").default.starts_with("500000"),
        "{}",
        knob("sched.migration_cost_ns").default
    );
    for (name, count) in [(C5N, 4), (CPUS_128, 128)] {
        let facts = host(name, &[("/sys/kernel/debug/sched/migration_cost_ns", "500000")]);
        assert_eq!(facts.cpus.online.known().unwrap().len(), count);
        says(&facts, "sched.migration_cost_ns", State::Keep, "Amazon's guide doubles it");
    }
    // The other two values are scaled: on 8 CPUs or more, the guide's 3 and 4 ms are the kernel's own values.
    let facts = host(CPUS_128, &[]);
    says(&facts, "sched.wakeup_granularity_ns", State::Set, "the default of 4000000 ns");
}

#[test]
fn the_mask_of_all_but_3_and_4_of_16_is_ffe7() {
    assert_eq!(cpus("0-2,5-15").to_mask(1), "ffe7");
    assert_eq!(CpuSet::parse_mask("ffe7"), Some(cpus("0-2,5-15")));
    assert_eq!(CpuSet::parse_mask("FFE7n"), None);
}

#[test]
fn masks_name_the_cpus_that_they_name() {
    let table = [
        ("00000000,00000000,00000000,00800000", "23"),
        ("00000000,00000000,00000002,00000000", "33"),
        ("00000000,00000000,00000000,00000001", "0"),
    ];
    for (mask, list) in table {
        assert_eq!(CpuSet::parse_mask(mask), Some(cpus(list)), "{mask}");
    }
}

#[test]
fn of_udp_mem_only_the_first_number_gates() {
    let facts = host(C5N, &[("/proc/sys/net/ipv4/udp_mem", "247296 1 1")]);
    says(&facts, "net.ipv4.udp_mem", State::Keep, "only the first number applies");
    assert!(knob("net.ipv4.udp_mem").mechanism.contains("but UDP uses only the first"));
}

#[test]
fn the_backlog_is_not_on_the_way_of_a_queue_without_rps() {
    says(
        &host(C5N, &[]),
        "net.core.netdev_max_backlog",
        State::Keep,
        "RPS is off, so only loopback and veth use this queue",
    );
    let steered = host(C5N, &[("/sys/class/net/ens5/queues/rx-0/rps_cpus", "f")]);
    says(&steered, "net.core.netdev_max_backlog", State::Set, "RPS sends packets of ens5/rx-0 through this queue");
}

#[test]
fn busy_read_is_for_new_sockets_only() {
    assert_eq!(knob("net.core.busy_read").takes_effect, evenkeel_host::TakesEffect::NewSockets);
    assert!(knob("net.core.busy_read").mechanism.contains("Open sockets keep their value"));
    assert!(knob("net.core.busy_poll").mechanism.contains("poll"));
}

#[test]
fn the_path_of_the_clock_source_is_its_own() {
    let plan = Plan::from_settings(&host(C4, &[]), &[Setting::parse("clocksource=tsc").unwrap()]).unwrap();
    assert_eq!(plan.steps[0].place, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

#[test]
fn maxcpus_is_64_of_128_and_goes_by_neighbours() {
    let booted = |arguments: &str| format!("console=ttyS0 {arguments}");
    // On this machine, siblings are N and N+1. 63 or 64 CPUs are whole cores, so half of the cores would be lost.
    let line = booted("maxcpus=63");
    says(
        &host(CPUS_128, &[("/proc/cmdline", &line)]),
        "cmdline.maxcpus",
        State::Keep,
        "siblings have adjacent numbers here",
    );
    let refusal = says(&host(CPUS_128, &[]), "cmdline.maxcpus", State::NotHere, "both threads of half of the cores");
    assert_eq!(refusal.wanted, None);
    // On this machine, siblings are N and N+18.
    let line = booted("maxcpus=17");
    let found =
        says(&host(C4, &[("/proc/cmdline", &line)]), "cmdline.maxcpus", State::Set, "one less than half of 36 CPUs");
    assert_eq!(found.wanted.as_deref(), Some("18"));
}

#[test]
fn huge_pages_have_one_path() {
    let files = knob("thp.enabled").place.files();
    assert_eq!(files, ["/sys/kernel/mm/transparent_hugepage/enabled"]);
    let elsewhere = |knob: &&&Knob| knob.place.to_string().contains("redhat_transparent_hugepage");
    assert_eq!(knobs::ALL.iter().find(elsewhere).map(|knob| knob.id), None, "that was Red Hat's kernel 2.6.32 alone");
}

#[test]
fn malloc_gets_huge_pages_by_glibcs_tunable() {
    assert!(knob("process.glibc_hugetlb").mechanism.contains("glibc removed in 2.34"));
    let other = knobs::ALL.iter().filter(|knob| knob.id != "process.glibc_hugetlb");
    for knob in other {
        assert!(!format!("{} {}", knob.place, knob.mechanism).contains("HUGETLB_MORECORE"), "{}", knob.id);
    }
    for advice in advice(&host(C5N, &[]), "process.glibc_hugetlb") {
        assert!(!advice.reason.contains("MORECORE"), "{}", advice.reason);
    }
}

#[test]
fn the_xen_clock_source_is_for_xen() {
    for name in [C5N, AZURE, CPUS_128] {
        for advice in advice(&host(name, &[]), "clocksource") {
            assert!(
                !advice.reason.contains("xen") && advice.wanted.as_deref() != Some("xen"),
                "{name}: {}",
                advice.reason
            );
        }
    }
    says(&host(C4, &[]), "clocksource", State::Set, "each read of xen enters the kernel");
}

#[test]
fn intel_pstate_has_no_enable() {
    let error = refused("cmdline.intel_pstate=enable");
    assert!(error.contains("passive") && error.contains("enable"), "{error}");
    assert!(knob("cmdline.intel_pstate").mechanism.contains("Ubuntu's kernel 3.13 had it as an opt-in"));
    let facts = host(C5N, &[("/proc/cmdline", "ro intel_pstate=enable")]);
    says(&facts, "cmdline.intel_pstate", State::Keep, "the kernel ignores \"enable\"");
}

#[test]
fn reports_that_sources_on_irqbalance_disagree() {
    for id in ["irqbalance.banned_cpus", "irq.affinity"] {
        let said: Vec<&str> = knob(id).sources.iter().map(|source| source.says).collect();
        let has = |words: &str| said.iter().any(|says| says.contains(words));
        assert!(has("stop irqbalance") && has("leave irqbalance running") && has("against the"), "{id}: {said:?}");
    }
}

#[test]
fn the_management_interrupt_is_no_queue() {
    let facts = host(C5N, &[]);
    let nic = facts.network.hardware().next().unwrap();
    let names: Vec<&str> = nic.irqs.iter().map(|irq| irq.name.as_str()).collect();
    assert_eq!(
        names,
        ["ens5-Tx-Rx-0", "ens5-Tx-Rx-1", "ens5-Tx-Rx-2", "ens5-Tx-Rx-3"],
        "the interface is not eth0 either"
    );
}

#[test]
fn siblings_pair_as_the_guide_lists_them() {
    let facts = host(C4, &[]);
    assert_eq!(facts.cpus.cpus.len(), 36);
    for cpu in &facts.cpus.cpus {
        let (low, high) = (cpu.cpu % 18, cpu.cpu % 18 + 18);
        assert_eq!(cpu.siblings.known(), Some(&[low, high].into_iter().collect()), "cpu{}", cpu.cpu);
    }
    let served = facts.network.hardware().flat_map(|nic| &nic.irqs);
    let served: Vec<String> = served.map(|irq| irq.affinity.known().unwrap().to_string()).collect();
    assert_eq!(served, ["23", "33"], "interrupts 267 and 268");
}

#[test]
fn a_governor_is_no_service_to_stop() {
    // Guides stop the service ondemand. evenkeel sets the governor of each policy itself, not only of CPU 0's policy.
    assert!(matches!(knob("cpufreq.governor").place, evenkeel_host::Place::Each { .. }));
    says(&host(C5N, &[]), "cpufreq.governor", State::NotHere, "there is no frequency driver here");
}

/// Harmful advice is not given, and the reason is shown.
#[test]
fn harm_is_refused_with_its_reason() {
    let clock = "/sys/devices/system/clocksource/clocksource0/";
    let (current, available) = (format!("{clock}current_clocksource"), format!("{clock}available_clocksource"));
    let forced = host(CPUS_128, &[(&current, "hpet"), (&available, "hpet acpi_pm")]);
    let flags = "processor\t: 0\nmodel name\t: X\nflags\t\t: fpu tsc constant_tsc";
    let not_invariant =
        host(CPUS_128, &[(&current, "hpet"), (&available, "tsc hpet acpi_pm"), ("/proc/cpuinfo", flags)]);
    // Columns: machine, knob, state, part of the reason.
    let table = [
        (host(CPUS_128, &[]), "cmdline.intel_idle.max_cstate", State::NotHere, "no idle driver"),
        (host(CPUS_128, &[]), "cpuidle.dma_latency_us", State::NotHere, "no idle driver"),
        (host(CPUS_128, &[]), "cpu.resume_latency_us", State::NotHere, "no idle driver"),
        (host(CPUS_128, &[]), "cmdline.maxcpus", State::NotHere, "both threads of half of the cores"),
        (forced, "clocksource", State::NotHere, "no better source is available"),
        (not_invariant.clone(), "clocksource", State::Keep, "nonstop_tsc is missing"),
        (not_invariant, "cmdline.tsc", State::NotHere, "nobody notices its errors"),
        (host(AZURE, &[]), "net.rps_cpus", State::NotHere, "1 CPU"),
        (host(AZURE, &[]), "net.core.busy_poll", State::NotHere, "1 CPU"),
        (host(AZURE, &[]), "clocksource", State::Keep, "Hyper-V corrects it"),
    ];
    for (facts, knob, state, reason) in table {
        let found = says(&facts, knob, state, reason);
        assert_eq!(found.wanted, None, "{knob}: {}", found.reason);
    }
}

/// An old capture shows nothing about a file that evenkeel did not read at that time.
#[test]
fn unread_facts_are_unknown() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../hosts/{C5N}.txt"));
    let text = std::fs::read_to_string(file).unwrap();
    for (id, path) in [
        ("vm.stat_interval", "/proc/sys/vm/stat_interval"),
        ("vm.watermark_boost_factor", "/proc/sys/vm/watermark_boost_factor"),
        ("kernel.timer_migration", "/proc/sys/kernel/timer_migration"),
    ] {
        let older: String = text
            .lines()
            .filter(|line| !line.starts_with(&format!("{path} ")))
            .map(|line| format!("{line}\n"))
            .collect();
        let facts = Facts::probe(&Root::captured(Capture::parse(&older).unwrap()));
        says(&facts, id, State::Unknown, "which is older than this check");
        let fact = serde_json::to_value(facts.sysctl(path)).unwrap();
        assert_eq!(fact["unknown"], "absent", "the meaning in JSON stays");
    }
}

/// A guide's misspelled commands (`sysctrl`, one dash before `physcpubind`, `--mempbind`) fail when a user pastes them.
/// Users also paste our commands, so these must be right.
#[test]
fn commands_are_spelled_as_their_programs_take_them() {
    // The text of `explain`. Another test compares that text with the knobs.
    let page = include_str!("../../../../docs/knobs.md");
    for wrong in ["sysctrl", " -physcpubind", " -cpunodebind", "mempbind", " -membind"] {
        assert!(!page.contains(wrong), "{wrong:?}");
    }
    assert!(page.contains("numactl --"), "the page has commands of numactl to be held against this");
}
