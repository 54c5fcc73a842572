//! A machine for tests: a quiet KVM guest with four CPUs. Each test row changes one property of this guest.

use std::collections::BTreeMap;
use std::fmt::Write;

use evenkeel_sys::CpuSet;
use expect_test::Expect;
use proptest::prelude::*;

use crate::advice::advise_on;
use crate::fact::Fact::{self, Known};
use crate::facts::*;
use crate::goal::{AdviceContext, Goal, Server};
use crate::knob::Knob;

/// A quiet guest: KVM, 4 CPUs in 2 cores of one node, one virtio interface with one queue, no swap, Linux 6.12.
pub(crate) fn base() -> Facts {
    Facts {
        machine: machine(),
        boot: Boot { loader: Known(BootLoader::GrubDropIns), init: Known(Init::Systemd) },
        kernel: kernel(),
        preemption: Preemption {
            model: Known("voluntary".into()),
            dynamic: Known(true),
            on_offer: Known(["none", "voluntary", "full"].map(str::to_owned).into()),
        },
        cpus: cpus(4, 2),
        numa: Numa { nodes: Known(vec![node(0, "0-3")]), balancing: Known(vec![]), zone_reclaim: Known(vec![]) },
        clock: Clock {
            current: Known("tsc".into()),
            available: Known(vec!["tsc".into(), "kvm-clock".into(), "acpi_pm".into()]),
            tsc: Known(TscFlags { constant: true, nonstop: true, reliable: false }),
            arguments: Known(vec![]),
            tsc_log: Fact::absent("tsc is on offer"),
            ptp: Known(vec![]),
        },
        idle: Idle {
            driver: Known("none".into()),
            governor: Known("menu".into()),
            states: Known(vec![]),
            intel_idle_max_cstate: Fact::absent("no intel_idle here"),
            processor_max_cstate: Known(9),
            resume_latency_us: Known("0".into()),
            dma_latency_us: Known(2_000_000_000),
            deepest_allowed: Fact::absent("there is no idle driver"),
            guest_halt_poll_ns: Known(200_000),
        },
        frequency: Frequency {
            driver: Fact::absent("no frequency driver"),
            governor: Fact::absent("no frequency driver"),
            available_governors: Fact::absent("no frequency driver"),
            available_preferences: Fact::absent("no frequency driver"),
            boost: Fact::absent("no frequency driver"),
            no_turbo: Fact::absent("no intel_pstate"),
            policies: Known(vec![]),
        },
        memory: Memory {
            total_bytes: Known(8 << 30),
            thp_enabled: Known("always".into()),
            thp_defrag: Known("madvise".into()),
            khugepaged_defrag: Known(true),
            thp_sizes: Fact::absent("this kernel has no sizes between small and huge"),
            huge_pages: Known(vec![HugePages { size_bytes: 2 << 20, count: Known(0) }]),
            swaps: Known(vec![]),
        },
        disks: Disks {
            disks: Known(vec![disk("vda")]),
            root: Known("vda".into()),
            mounted: Known(vec!["vda".into()]),
            xen_persistent_grants: Fact::absent("no disk is a Xen disk"),
        },
        network: Network { nics: Known(vec![nic("eth0", 1, 24), loopback()]) },
        limits: Limits {
            cpu: Known(CpuLimit::Unlimited),
            cpus_allowed: Known(set("0-3")),
            memory: Known(MemoryLimit::Unlimited),
        },
        owners: owners(),
        daemons: Daemons {
            background_timers: Known(vec![]),
            clock_keepers: Known(vec!["chrony".into()]),
            auditd: Known(false),
        },
        counters: uncounted(),
        sysctls: BTreeMap::from([
            ("/proc/sys/net/core/busy_poll", Known("0".into())),
            ("/proc/sys/net/core/busy_read", Known("0".into())),
            ("/proc/sys/net/core/default_qdisc", Known("pfifo_fast".into())),
            ("/proc/sys/net/core/netdev_budget", Known("300".into())),
            ("/proc/sys/net/core/netdev_budget_usecs", Known("8000".into())),
            ("/proc/sys/net/core/netdev_max_backlog", Known("1000".into())),
            ("/proc/sys/net/core/rmem_default", Known("212992".into())),
            ("/proc/sys/net/core/rmem_max", Known("212992".into())),
            ("/proc/sys/kernel/numa_balancing", Known("0".into())),
            ("/proc/sys/vm/compaction_proactiveness", Known("20".into())),
            ("/proc/sys/vm/dirty_background_bytes", Known("0".into())),
            ("/proc/sys/vm/dirty_background_ratio", Known("10".into())),
            ("/proc/sys/vm/dirty_bytes", Known("0".into())),
            ("/proc/sys/vm/dirty_ratio", Known("20".into())),
            ("/proc/sys/net/core/rps_sock_flow_entries", Known("0".into())),
            ("/proc/sys/net/ipv4/udp_early_demux", Known("1".into())),
            // 3/32, 1/8 and 3/16 of 8 GiB in pages of 4 KiB.
            ("/proc/sys/net/ipv4/udp_mem", Known("196608\t262144\t393216".into())),
            ("/proc/sys/net/ipv4/udp_rmem_min", Known("4096".into())),
            ("/proc/sys/net/netfilter/nf_conntrack_max", Fact::absent("no such file or directory (ENOENT)")),
            ("/proc/sys/vm/min_free_kbytes", Known("67584".into())),
            ("/proc/sys/vm/nr_hugepages", Known("0".into())),
            ("/proc/sys/vm/stat_interval", Known("1".into())),
            ("/proc/sys/vm/swappiness", Known("60".into())),
            ("/proc/sys/vm/watermark_boost_factor", Known("15000".into())),
            ("/proc/sys/vm/watermark_scale_factor", Known("10".into())),
            ("/proc/sys/vm/zone_reclaim_mode", Known("0".into())),
        ]),
    }
}

fn machine() -> Machine {
    Machine {
        hypervisor: Known(Hypervisor::Kvm),
        cloud: Known(Cloud::None),
        instance_type: Fact::absent("no cloud"),
        catalogue: Fact::absent("no cloud"),
        vendor: Known("QEMU".into()),
        product: Known("Standard PC".into()),
        container: Known(Container::None),
        has_mark_of_container: false,
        distribution: Known(Distribution { id: "debian".into(), version: Some("13".into()), name: None }),
    }
}

/// A machine without other programs that change settings.
fn owners() -> Owners {
    Owners {
        irqbalance: Known(false),
        irqbalance_version: Fact::absent("irqbalance is not visible"),
        irqbalance_options: Fact::absent("irqbalance is not installed"),
        tuned_profile: Fact::absent("TuneD is not installed"),
        bpftune: Known(false),
        bpftune_enabled: Known(false),
        saptune: Fact::absent("saptune is not installed"),
        google_set_multiqueue: Known(false),
        cni: Known(vec![]),
        cni_plugins: Known(vec![]),
        sysctl_files: Known(SysctlFiles::default()),
    }
}

fn kernel() -> Kernel {
    Kernel {
        release: Known("6.12.3-amd64".into()),
        version: Known(Version { major: 6, minor: 12, patch: 3 }),
        architecture: Known("x86_64".into()),
        command_line: Known(vec!["root=/dev/vda1".into(), "ro".into(), "quiet".into()]),
        lockdown: Known(Lockdown::None),
        timer_hz: Known(250),
        config: Fact::absent("its file does not exist"),
    }
}

/// The counters of a hand-written capture, which contains no counters.
fn uncounted() -> Counters {
    fn none<T>() -> Fact<T> {
        Fact::absent("nobody counted")
    }
    Counters {
        softnet: none(),
        udp: none(),
        udp6: none(),
        udp_memory: none(),
        irqs: none(),
        nodes: none(),
        nics: vec![],
    }
}

/// The set that a list names.
pub(crate) fn set(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

/// `count` CPUs, which are numbered core by core within each half, as on x86 guests.
/// With two threads per core, N and N + `count` / 2 are siblings.
pub(crate) fn cpus(count: usize, threads: usize) -> Cpus {
    let all: CpuSet = (0..count).collect();
    let cores = count / threads;
    let cpu = |cpu: usize| Cpu {
        cpu,
        online: Known(true),
        package: Known(0),
        core: Known((cpu % cores) as i32),
        siblings: Known((0..threads).map(|thread| cpu % cores + thread * cores).collect()),
        resume_latency_us: Known("0".into()),
        caches: vec![],
    };
    Cpus {
        model: Known("Intel Xeon".into()),
        online: Known(all.clone()),
        present: Known(all.clone()),
        possible: Known(all.clone()),
        isolated: Known(CpuSet::default()),
        nohz_full: Known(CpuSet::default()),
        unbound_work: Known(all.clone()),
        vulnerabilities: Known(vec![]),
        smt_control: Known(if threads > 1 { "on" } else { "notsupported" }.into()),
        cpus: all.iter().map(cpu).collect(),
    }
}

/// A memory node.
pub(crate) fn node(node: u32, list: &str) -> Node {
    Node { node, cpus: Known(set(list)), distances: Known(vec![10]), memory_bytes: Known(8 << 30) }
}

/// A hardware interface with this many queue pairs. Its interrupts begin at number `irq`, and CPUs 0, 1, … serve them.
pub(crate) fn nic(name: &str, queues: u32, irq: u32) -> Nic {
    let queue = |index| Queue { index, steering_cpus: Known(CpuSet::default()), flows: None };
    let rx_queue = |index| Queue { flows: Some(Known(0)), ..queue(index) };
    let served = |at: u32| Irq {
        number: irq + at,
        name: format!("{name}-Tx-Rx-{at}"),
        affinity: Known([at as usize].into_iter().collect()),
        effective: Known([at as usize].into_iter().collect()),
    };
    Nic {
        name: name.into(),
        kind: NicKind::Hardware,
        master: Fact::absent("it is not part of another interface"),
        lower: vec![],
        bond_mode: None,
        vlan_id: None,
        enhanced: Known(Enhanced {
            state: Enhancement::Paravirtual,
            reason: "virtio_net: nothing better is known".into(),
        }),
        driver: Known("virtio_net".into()),
        driver_version: Known("1.0.0".into()),
        state: Known("up".into()),
        mtu_bytes: Known(1500),
        numa_node: Known(-1),
        queues: Known(QueueCounts { rx: queues as usize, tx: queues as usize }),
        rx_queues: (0..queues).map(rx_queue).collect(),
        tx_queues: (0..queues).map(queue).collect(),
        napi: Napi { defer_hard_irqs: Known(0), gro_flush_timeout_ns: Known(0), threaded: Known(0) },
        channels: Known(Channels { rx: 0, tx: 0, combined: queues, rx_max: 0, tx_max: 0, combined_max: 8 }),
        rings: Known(Rings { rx: 256, tx: 256, rx_max: 1024, tx_max: 1024 }),
        coalesce: Fact::absent("operation not supported (EOPNOTSUPP)"),
        offloads: Known(Offloads::from([("rx-gro".into(), Offload { on: true, fixed: false })])),
        rss: Fact::absent("operation not supported (EOPNOTSUPP)"),
        irqs_found_by: Known(IrqsFoundBy::Device),
        irqs: (0..queues).map(served).collect(),
    }
}

/// A virtio disk with the kernel's defaults.
pub(crate) fn disk(name: &str) -> Disk {
    Disk {
        name: name.into(),
        kind: DiskKind::Virtio,
        model: Fact::absent("this kind of disk reports no model"),
        scheduler: Known(Scheduler {
            chosen: "mq-deadline".into(),
            available: ["none", "mq-deadline", "kyber", "bfq"].map(str::to_owned).into(),
        }),
        rotational: Known(true),
        read_ahead_kb: Known(128),
        nr_requests: Known(256),
    }
}

/// The disks of a machine.
pub(crate) fn disks(facts: &mut Facts) -> &mut Vec<Disk> {
    match &mut facts.disks.disks {
        Known(disks) => disks,
        _ => panic!("the base machine knows its disks"),
    }
}

fn loopback() -> Nic {
    Nic { kind: NicKind::Loopback, driver: Fact::absent("no driver"), irqs: vec![], ..nic("lo", 1, 0) }
}

/// The interfaces of a machine.
pub(crate) fn nics(facts: &mut Facts) -> &mut Vec<Nic> {
    match &mut facts.network.nics {
        Known(nics) => nics,
        _ => panic!("the base machine knows its interfaces"),
    }
}

/// The given CPUs, one thread per core, all usable.
pub(crate) fn with_cpus(count: usize) -> impl Fn(&mut Facts) {
    move |facts| {
        facts.cpus = cpus(count, 1);
        facts.limits.cpus_allowed = facts.cpus.online.clone();
        facts.numa.nodes = Known(vec![node(0, &format!("0-{}", count - 1))]);
    }
}

/// A c4.8xlarge: 36 CPUs on two nodes. The interface is on node 1, and CPU 23 and CPU 33 serve its two queues.
pub(crate) fn two_nodes(facts: &mut Facts) {
    facts.cpus = cpus(36, 2);
    facts.numa.nodes = Known(vec![node(0, "0-8,18-26"), node(1, "9-17,27-35")]);
    nics(facts)[0] = Nic { numa_node: Known(1), ..nic("eth0", 2, 60) };
    for (irq, cpu) in nics(facts)[0].irqs.iter_mut().zip([23, 33]) {
        irq.affinity = Known([cpu].into_iter().collect());
        irq.effective = irq.affinity.clone();
    }
}

/// A file under /proc/sys holds this text.
pub(crate) fn with_sysctl(path: &'static str, text: &'static str) -> impl Fn(&mut Facts) {
    move |facts| {
        facts.sysctls.insert(path, Known(text.into()));
    }
}

/// A kernel of this version.
pub(crate) fn with_kernel(major: u32, minor: u32) -> impl Fn(&mut Facts) {
    move |facts| facts.kernel.version = Known(Version { major, minor, patch: 0 })
}

/// A change of the base machine: a label, the goal, the alteration.
pub(crate) type Row<'a> = (&'a str, Goal, &'a dyn Fn(&mut Facts));

/// Compares the advice on a knob, one line per finding, with the expected text of each row.
#[track_caller]
pub(crate) fn check(knob: &'static Knob, rows: &[Row<'_>], expected: Expect) {
    let rows =
        rows.iter().map(|(label, goal, alter)| (format!("{label} ({goal})"), AdviceContext::from(*goal), *alter));
    check_contexts(knob, rows.collect(), &expected);
}

/// The properties of the server (`pps=3840`), which are also the label of the row, and a change of the base machine.
pub(crate) type ServerRow<'a> = (&'a str, &'a dyn Fn(&mut Facts));

/// As [`check`], for the goal latency and a server with known properties.
#[track_caller]
pub(crate) fn check_server(knob: &'static Knob, rows: &[ServerRow<'_>], expected: Expect) {
    let context = |as_text: &str| AdviceContext { goal: Goal::Latency, server: as_text.parse::<Server>().unwrap() };
    check_contexts(
        knob,
        rows.iter()
            .map(|(as_text, alter)| {
                (
                    if as_text.is_empty() { "nothing known".to_owned() } else { (*as_text).to_owned() },
                    context(as_text),
                    *alter,
                )
            })
            .collect(),
        &expected,
    );
}

/// A row with its label, the context and the alteration.
type ContextRow<'a> = (String, AdviceContext, &'a dyn Fn(&mut Facts));

#[track_caller]
fn check_contexts(knob: &'static Knob, rows: Vec<ContextRow<'_>>, expected: &Expect) {
    let mut found = String::new();
    for (label, context, alter) in rows {
        let mut facts = base();
        alter(&mut facts);
        writeln!(found, "{label}").unwrap();
        for advice in advise_on(knob, &facts, &context) {
            let state = serde_json::to_value(advice.state).unwrap();
            let value = |value: &Option<String>| value.as_ref().map_or("?".into(), |value| format!("{value:?}"));
            let change = match (&advice.current, &advice.wanted) {
                (None, None) => String::new(),
                (current, None) => format!(" {}", value(current)),
                (current, wanted) => format!(" {} -> {}", value(current), value(wanted)),
            };
            let state = state.as_str().unwrap();
            writeln!(found, "  {state} {}{change}: {}", advice.place, advice.reason).unwrap();
        }
    }
    expected.assert_eq(&found);
}

/// An idle driver with states of these names and exit latencies, in microseconds.
pub(crate) fn with_idle(driver: &'static str, states: &'static [(&str, u64)]) -> impl Fn(&mut Facts) {
    let state = |(index, (name, exit_us)): (usize, &(&str, u64))| IdleState {
        index: index as u32,
        name: Known((*name).into()),
        exit_latency_us: Known(*exit_us),
        disabled: Known(false),
    };
    move |facts| {
        facts.idle.driver = Known(driver.into());
        facts.idle.states = Known(states.iter().enumerate().map(state).collect());
    }
}

/// Two policies of this driver, with this governor and this preference.
pub(crate) fn with_policies(
    driver: &'static str,
    governor: &'static str,
    preference: Option<&'static str>,
) -> impl Fn(&mut Facts) {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let policy = move |number: usize| FrequencyPolicy {
        name: format!("policy{number}"),
        folder: format!("/sys/devices/system/cpu/cpufreq/policy{number}"),
        governor: Known(governor.into()),
        preference: preference.map_or(Fact::absent("no preferences"), |preference| Known(preference.into())),
        cpus: Known([number].into_iter().collect()),
    };
    move |facts| {
        let frequency = &mut facts.frequency;
        frequency.driver = Known(driver.into());
        frequency.governor = Known(governor.into());
        frequency.available_governors = Known(words(match driver {
            "intel_pstate" => &["performance", "powersave"],
            _ => &["ondemand", "performance", "schedutil"],
        }));
        if preference.is_some() {
            frequency.available_preferences =
                Known(words(&["default", "performance", "balance_performance", "balance_power", "power"]));
        }
        frequency.policies = Known((0..2).map(policy).collect());
    }
}

/// Makes one fact unknown: absent, denied, not in the capture, or not parseable.
pub(crate) fn knocked(facts: &mut Facts, which: prop::sample::Index, how: usize) {
    fn hole<T>(fact: &mut Fact<T>, how: usize) {
        *fact = match how {
            0 => Fact::absent("it was omitted"),
            1 => Fact::Denied { why: "EACCES".into() },
            2 => Fact::Unseen { why: "it is not in the capture".into() },
            _ => Fact::odd("/sys/x", "12 monkeys", "no number"),
        };
    }
    let mut holes: Vec<Box<dyn FnMut() + '_>> = Vec::new();
    macro_rules! may_be_unknown {
        ($($fact:expr),* $(,)?) => { $( let fact = &mut $fact; holes.push(Box::new(move || hole(fact, how))); )* };
    }
    may_be_unknown![
        facts.machine.hypervisor,
        facts.machine.cloud,
        facts.machine.instance_type,
        facts.machine.container,
        facts.kernel.version,
        facts.kernel.architecture,
        facts.kernel.command_line,
        facts.cpus.online,
        facts.cpus.isolated,
        facts.cpus.nohz_full,
        facts.cpus.unbound_work,
        facts.cpus.vulnerabilities,
        facts.cpus.smt_control,
        facts.cpus.present,
        facts.preemption.model,
        facts.preemption.dynamic,
        facts.preemption.on_offer,
        facts.frequency.driver,
        facts.frequency.available_governors,
        facts.frequency.available_preferences,
        facts.frequency.boost,
        facts.frequency.no_turbo,
        facts.frequency.policies,
        facts.idle.processor_max_cstate,
        facts.idle.resume_latency_us,
        facts.numa.nodes,
        facts.clock.current,
        facts.clock.available,
        facts.clock.tsc,
        facts.idle.driver,
        facts.idle.governor,
        facts.idle.states,
        facts.idle.guest_halt_poll_ns,
        facts.memory.thp_enabled,
        facts.memory.thp_defrag,
        facts.memory.swaps,
        facts.memory.total_bytes,
        facts.memory.huge_pages,
        facts.limits.cpu,
        facts.limits.cpus_allowed,
        facts.owners.irqbalance,
        facts.owners.tuned_profile,
        facts.owners.sysctl_files,
        facts.idle.intel_idle_max_cstate,
        facts.idle.dma_latency_us,
        facts.clock.arguments,
        facts.clock.tsc_log,
        facts.clock.ptp,
        facts.memory.thp_sizes,
        facts.boot.loader,
        facts.daemons.background_timers,
        facts.daemons.clock_keepers,
        facts.daemons.auditd,
        facts.owners.irqbalance_options,
        facts.owners.irqbalance_version,
        facts.owners.bpftune,
        facts.owners.saptune,
        facts.owners.cni,
    ];
    for cpu in &mut facts.cpus.cpus {
        may_be_unknown![cpu.siblings, cpu.resume_latency_us];
    }
    if let Known(disks) = &mut facts.disks.disks {
        for disk in disks {
            may_be_unknown![disk.scheduler, disk.read_ahead_kb];
        }
    }
    for fact in facts.sysctls.values_mut() {
        may_be_unknown![*fact];
    }
    if let Known(nics) = &mut facts.network.nics {
        for nic in nics {
            may_be_unknown![nic.numa_node, nic.irqs_found_by, nic.channels, nic.rings, nic.coalesce];
            may_be_unknown![nic.driver, nic.driver_version, nic.enhanced, nic.offloads, nic.rss];
            may_be_unknown![nic.napi.defer_hard_irqs, nic.napi.gro_flush_timeout_ns, nic.napi.threaded];
            for queue in nic.rx_queues.iter_mut().chain(&mut nic.tx_queues) {
                may_be_unknown![queue.steering_cpus];
                queue.flows.iter_mut().for_each(|flows| holes.push(Box::new(|| hole(flows, how))));
            }
            for irq in &mut nic.irqs {
                may_be_unknown![irq.affinity, irq.effective];
            }
        }
    }
    // The last index means the list of interfaces itself, which contains some of the holes above.
    let at = which.index(holes.len() + 1);
    match holes.get_mut(at) {
        Some(make) => make(),
        None => {
            drop(holes);
            hole(&mut facts.network.nics, how);
        }
    }
}
