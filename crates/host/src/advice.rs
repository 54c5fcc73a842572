//! `Advice`: what is best done about each knob on one machine, with its reason and its sources.

use serde::Serialize;

use crate::facts::Facts;
use crate::goal::Wish;
use crate::knob::{Finding, Knob, Place, Source, TakesEffect};
use crate::knobs;
use crate::others::{container_barrier, lasts, others, tuned_sets, undone_at_boot};
use crate::rank::{Effect, When};

/// What to do about a knob at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Another value would suit the goal better: worth proving and setting.
    Set,
    /// Another program or file sets it; change it there.
    OwnedBy,
    /// It would help, but this machine does not let it be changed.
    Blocked,
    /// Not enough is known to advise.
    Unknown,
    /// It is well as it is.
    Keep,
    /// It does not apply to this machine.
    NotHere,
    /// This kernel no longer has it.
    Removed,
}

/// Advice on one knob at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// A name for the finding that stays the same over reboots: the knob's id, with `@PLACE` where it has several. An interrupt
    /// goes by its name here, since its number changes.
    pub id: String,
    /// The knob's id.
    pub knob: &'static str,
    /// Where it would be set.
    pub place: String,
    /// What to do.
    pub state: State,
    /// The value in force, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The value advised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// Why, for this machine.
    pub reason: String,
    /// When a change would take effect.
    pub takes_effect: TakesEffect,
    /// What has to happen before a change counts.
    pub when: When,
    /// The longest wait that the knob can spare a tick.
    pub effect: Effect,
    /// What a change may cost.
    pub risk: &'static str,
    /// Who says so.
    pub sources: &'static [Source],
    /// Whether no value of it does anything here; the reason tells why.
    #[serde(skip)]
    pub is_inert: bool,
}

/// Advice on every knob: the ones worth acting on first, of these the largest effects, of these what is easiest to try and
/// undo. What needs no action stands in the order of [`knobs::ALL`].
pub fn advise(facts: &Facts, wish: &Wish) -> Vec<Advice> {
    let mut advice: Vec<Advice> = knobs::ALL.iter().flat_map(|knob| advise_on(knob, facts, wish)).collect();
    advice.sort_by_key(|advice| {
        let needs_action = advice.state <= State::Unknown;
        (advice.state, needs_action.then_some((advice.effect, advice.when)))
    });
    advice
}

/// Advice on one knob, a piece for each of its places.
pub(crate) fn advise_on(knob: &'static Knob, facts: &Facts, wish: &Wish) -> Vec<Advice> {
    let advice = |finding: Finding| {
        let finding = if finding.state == State::Set { as_far_as_we_may(knob, facts, finding) } else { finding };
        Advice {
            id: stable_id(knob, facts, &finding.place),
            knob: knob.id,
            place: finding.place,
            state: finding.state,
            current: finding.current,
            wanted: finding.wanted,
            reason: finding.reason,
            takes_effect: knob.takes_effect,
            when: knob.when(),
            effect: knob.effect(),
            risk: knob.risk,
            sources: knob.sources,
            is_inert: finding.is_inert,
        }
    };
    (knob.advise)(facts, wish).into_iter().map(advice).collect()
}

/// The name of a finding that reboots do not change.
fn stable_id(knob: &Knob, facts: &Facts, place: &str) -> String {
    match knob.place {
        // Some findings are about the knob as a whole.
        _ if place == knob.id => knob.id.to_owned(),
        Place::Each { .. } | Place::ByHandEach { .. } => format!("{}@{place}", knob.id),
        Place::EachNetworkIrq => format!("{}@{}", knob.id, interrupt_name(facts, place).unwrap_or(place.to_owned())),
        _ => knob.id.to_owned(),
    }
}

/// The name of the interrupt with this number; the second of the same name has `#2` behind it, and so on.
fn interrupt_name(facts: &Facts, number: &str) -> Option<String> {
    let number: u32 = number.parse().ok()?;
    let irqs = || facts.network.hardware().flat_map(|nic| &nic.irqs);
    let name = &irqs().find(|irq| irq.number == number)?.name;
    let earlier = irqs().take_while(|irq| irq.number != number).filter(|irq| irq.name == *name).count();
    Some(if earlier == 0 { name.clone() } else { format!("{name}#{}", earlier + 1) })
}

/// What would be set, unless a container keeps us from it or another program sets it: rules of all knobs alike.
fn as_far_as_we_may(knob: &Knob, facts: &Facts, finding: Finding) -> Finding {
    if let Some(barrier) = container_barrier(facts, knob.place) {
        let reason = format!("{barrier}; there: {}", finding.reason);
        return Finding { state: State::Blocked, reason, ..finding };
    }
    if let Some(profile) = tuned_sets(facts, knob) {
        let reason = format!("TuneD's profile {profile} sets it: change it there; {}", finding.reason);
        return Finding { state: State::OwnedBy, reason, ..finding };
    }
    let notes = undone_at_boot(facts, &finding).into_iter().chain(others(facts, knob, &finding));
    let reason =
        notes.chain(lasts(facts, knob.place)).fold(finding.reason.clone(), |all, note| format!("{all}; {note}"));
    Finding { reason, ..finding }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::{BootLoader, Container, SysctlFile, SysctlFiles, SysctlSetting};
    use crate::goal::Goal;
    use crate::testing::{base, check, nic, nics, with_idle};

    fn within(container: Container) -> impl Fn(&mut Facts) {
        move |facts| facts.machine.container = Fact::Known(container.clone())
    }

    #[test]
    fn a_container_may_not_change_the_machine() {
        let knob = |id| knobs::find(id).unwrap();
        check(
            knob("net.core.rmem_max"),
            &[
                ("no container", Goal::Latency, &within(Container::None)),
                ("docker", Goal::Latency, &within(Container::Docker)),
                ("lxc, nothing to set", Goal::Latency, &|facts| {
                    within(Container::Other("lxc".into()))(facts);
                    facts.sysctls.insert("/proc/sys/net/core/rmem_max", Fact::Known("4194304".into()));
                }),
                ("unknown", Goal::Latency, &|facts| facts.machine.container = Fact::absent("no /proc/1")),
            ],
            expect![[r#"
                no container (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                docker (latency)
                  blocked /proc/sys/net/core/rmem_max "212992" -> "4194304": in a Docker container /proc/sys and /sys are read only: set it on the machine that runs it; there: the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                lxc, nothing to set (latency)
                  keep /proc/sys/net/core/rmem_max "4194304": a server that asks for it gets room for 10082 small packets, 2625 ms of 64 players who send 60/s each
                unknown (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
            "#]],
        );
        let deep = with_idle("intel_idle", &[("C6", 133)]);
        let deep_in_a_pod = |facts: &mut Facts| {
            deep(facts);
            within(Container::Kubernetes)(facts);
        };
        check(
            knob("cmdline.intel_idle.max_cstate"),
            &[("pod", Goal::Latency, &deep_in_a_pod)],
            expect![[r#"
            pod (latency)
              blocked intel_idle.max_cstate ? -> "1": a Kubernetes container has no kernel of its own: set it on the machine that runs it; there: C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs
        "#]],
        );
        check(
            knob("cpuidle.dma_latency_us"),
            &[("pod", Goal::Latency, &deep_in_a_pod)],
            expect![[r#"
                pod (latency)
                  blocked /dev/cpu_dma_latency "2000000000" -> "2": a Kubernetes container has no /dev/cpu_dma_latency unless it is passed in; there: C6 of intel_idle takes 133 us to leave
            "#]],
        );
        check(
            knob("process.timer_slack_ns"),
            &[("pod", Goal::Latency, &deep_in_a_pod)],
            expect![[r#"
            pod (latency)
              set server ? -> "1": unless the server is started otherwise its sleeps end up to 50000 ns late; real-time threads and timerfd have no slack
        "#]],
        );
    }

    #[test]
    fn what_tuned_sets_is_changed_in_tuned() {
        let profile =
            |name: &'static str| move |facts: &mut Facts| facts.owners.tuned_profile = Fact::Known(name.into());
        check(
            knobs::find("thp.enabled").unwrap(),
            &[
                ("sets it", Goal::Latency, &profile("network-latency")),
                ("does not", Goal::Latency, &profile("virtual-guest")),
                ("one's own", Goal::Latency, &profile("game")),
            ],
            expect![[r#"
                sets it (latency)
                  owned-by /sys/kernel/mm/transparent_hugepage/enabled "always" -> "madvise": TuneD's profile network-latency sets it: change it there; any page fault may have to clear 2 MiB, and khugepaged moves memory together in the background; TuneD says never, rpk always: `evenkeel prove thp.enabled=madvise` settles it
                does not (latency)
                  set /sys/kernel/mm/transparent_hugepage/enabled "always" -> "madvise": any page fault may have to clear 2 MiB, and khugepaged moves memory together in the background; TuneD says never, rpk always: `evenkeel prove thp.enabled=madvise` settles it
                one's own (latency)
                  set /sys/kernel/mm/transparent_hugepage/enabled "always" -> "madvise": any page fault may have to clear 2 MiB, and khugepaged moves memory together in the background; TuneD says never, rpk always: `evenkeel prove thp.enabled=madvise` settles it
            "#]],
        );
    }

    #[test]
    fn a_file_that_would_undo_it_at_boot_is_named() {
        let file = |key: &'static str, value: &'static str| {
            move |facts: &mut Facts| {
                let setting = SysctlSetting { key: key.into(), value: Some(value.into()), line: 3 };
                let path = "/etc/sysctl.d/60-net.conf".into();
                let read = vec![SysctlFile { path, settings: Fact::Known(vec![setting]) }];
                facts.owners.sysctl_files = Fact::Known(SysctlFiles { read, unread: None });
            }
        };
        check(
            knobs::find("net.core.rmem_max").unwrap(),
            &[
                ("another value", Goal::Latency, &file("net/core/rmem_max", "212992")),
                ("the same value", Goal::Latency, &file("net/core/rmem_max", "4194304")),
                ("by a pattern", Goal::Latency, &file("net/core/rmem_*", "16777216")),
                ("another key", Goal::Latency, &file("net/core/wmem_max", "212992")),
                ("not known", Goal::Latency, &|facts| facts.owners.sysctl_files = Fact::absent("not looked at")),
                ("kept", Goal::Latency, &|facts| {
                    file("net/core/rmem_max", "212992")(facts);
                    facts.sysctls.insert("/proc/sys/net/core/rmem_max", Fact::Known("4194304".into()));
                }),
            ],
            expect![[r#"
                another value (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; /etc/sysctl.d/60-net.conf (line 3) sets 212992 at boot, which would undo it: change it there too
                the same value (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                by a pattern (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; /etc/sysctl.d/60-net.conf (line 3) sets 16777216 at boot, which would undo it: change it there too
                another key (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                not known (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                kept (latency)
                  keep /proc/sys/net/core/rmem_max "4194304": a server that asks for it gets room for 10082 small packets, 2625 ms of 64 players who send 60/s each
            "#]],
        );
    }

    #[test]
    fn who_else_may_set_it_is_named() {
        let owned = |alter: fn(&mut Facts)| move |facts: &mut Facts| alter(facts);
        let names = |list: &[&str]| Fact::Known(list.iter().map(|name| (*name).to_owned()).collect());
        check(
            knobs::find("net.core.rmem_max").unwrap(),
            &[
                ("bpftune", Goal::Latency, &owned(|facts| facts.owners.bpftune = Fact::Known(true))),
                (
                    "bpftune from the next boot on",
                    Goal::Latency,
                    &owned(|facts| facts.owners.bpftune_enabled = Fact::Known(true)),
                ),
                ("saptune", Goal::Latency, &|facts| facts.owners.saptune = names(&["HANA", "941735"])),
                ("saptune without a solution", Goal::Latency, &|facts| facts.owners.saptune = names(&[])),
            ],
            expect![[r#"
                bpftune (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; bpftune runs and sets network sysctls whenever it sees cause: stop it, or leave this to it
                bpftune from the next boot on (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; bpftune starts at the next boot and sets network sysctls whenever it sees cause
                saptune (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; saptune applies HANA, 941735 at boot and may set this too: set it there
                saptune without a solution (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": the most a server can ask for is room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
            "#]],
        );
        let small_table = |facts: &mut Facts| {
            facts.owners.cni = names(&["10-aws.conflist"]);
            facts.sysctls.insert("/proc/sys/net/netfilter/nf_conntrack_buckets", Fact::Known("16384".into()));
            facts.sysctls.insert("/proc/sys/net/netfilter/nf_conntrack_max", Fact::Known("262144".into()));
        };
        check(
            knobs::find("net.netfilter.nf_conntrack_buckets").unwrap(),
            &[("container networks", Goal::Latency, &small_table)],
            expect![[r#"
                container networks (latency)
                  set /proc/sys/net/netfilter/nf_conntrack_buckets "16384" -> "65536": 16384 buckets for 262144 flows: in a full table each packet goes through 16 entries; a container network is set up here (10-aws.conflist), whose agents may set this too
            "#]],
        );
    }

    #[test]
    fn what_makes_a_kernel_argument_last_depends_on_the_loader() {
        let loader = |loader: BootLoader| {
            let deep = with_idle("intel_idle", &[("C6", 133)]);
            move |facts: &mut Facts| {
                deep(facts);
                facts.boot.loader = Fact::Known(loader);
            }
        };
        let unknown = with_idle("intel_idle", &[("C6", 133)]);
        check(
            knobs::find("cmdline.intel_idle.max_cstate").unwrap(),
            &[
                ("drop-ins", Goal::Latency, &loader(BootLoader::GrubDropIns)),
                ("grubby", Goal::Latency, &loader(BootLoader::Grubby)),
                ("GRUB alone", Goal::Latency, &loader(BootLoader::Grub)),
                ("old GRUB", Goal::Latency, &loader(BootLoader::GrubLegacy)),
                ("systemd-boot", Goal::Latency, &loader(BootLoader::SystemdBoot)),
                ("UKI", Goal::Latency, &loader(BootLoader::Uki)),
                ("ostree", Goal::Latency, &loader(BootLoader::Ostree)),
                ("none", Goal::Latency, &loader(BootLoader::None)),
                ("unknown", Goal::Latency, &|facts| {
                    unknown(facts);
                    facts.boot.loader = Fact::Denied { why: "/boot: permission denied (EACCES)".into() };
                }),
            ],
            expect![[r#"
                drop-ins (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs
                grubby (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs
                GRUB alone (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs; GRUB reads no drop-ins here: GRUB_CMDLINE_LINUX of /etc/default/grub has to be changed by hand
                old GRUB (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs; a GRUB before version 2 starts this machine, which evenkeel does not change
                systemd-boot (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs; systemd-boot takes it from /etc/kernel/cmdline when an entry is made: by hand
                UKI (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs; it can't be made to last from here: the arguments are part of a signed image (UKI), and who builds that sets them
                ostree (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs; ostree keeps the arguments: `rpm-ostree kargs --append=` adds one
                none (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs; it can't be made to last from here: no boot loader is in this root, and who starts the machine gives its kernel the arguments
                unknown (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; `evenkeel prove cpuidle.dma_latency_us=2` tells without a reboot what that costs; whether it can be made to last is not known, since the boot loader is not: /boot: permission denied (EACCES)
            "#]],
        );
    }

    #[test]
    fn what_is_worth_acting_on_comes_first() {
        let advice = advise(&base(), &Goal::Latency.into());
        let told: String =
            advice.iter().map(|advice| format!("{:?} {} {}\n", advice.state, advice.knob, advice.place)).collect();
        expect![[r#"
            Set thp.enabled /sys/kernel/mm/transparent_hugepage/enabled
            Set vm.compaction_proactiveness /proc/sys/vm/compaction_proactiveness
            Set net.core.rmem_max /proc/sys/net/core/rmem_max
            Set net.core.busy_poll /proc/sys/net/core/busy_poll
            Set net.core.busy_read /proc/sys/net/core/busy_read
            Set process.timer_slack_ns server
            Set kernel.preempt preempt
            Set process.sched_slice_ns process.sched_slice_ns
            Set vm.watermark_boost_factor /proc/sys/vm/watermark_boost_factor
            Set vm.stat_interval /proc/sys/vm/stat_interval
            Keep net.core.rmem_default /proc/sys/net/core/rmem_default
            Keep net.core.netdev_max_backlog /proc/sys/net/core/netdev_max_backlog
            Keep net.core.netdev_budget /proc/sys/net/core/netdev_budget
            Keep net.core.netdev_budget_usecs /proc/sys/net/core/netdev_budget_usecs
            Keep net.ipv4.udp_mem /proc/sys/net/ipv4/udp_mem
            Keep net.ipv4.udp_rmem_min /proc/sys/net/ipv4/udp_rmem_min
            Keep net.ipv4.udp_early_demux /proc/sys/net/ipv4/udp_early_demux
            Keep net.core.default_qdisc /proc/sys/net/core/default_qdisc
            Keep net.rps_cpus eth0/rx-0
            Keep net.core.rps_sock_flow_entries /proc/sys/net/core/rps_sock_flow_entries
            Keep net.rps_flow_cnt eth0/rx-0
            Keep net.napi_defer_hard_irqs eth0
            Keep net.gro_flush_timeout_ns eth0
            Keep net.threaded_napi eth0
            Keep irq.affinity 24
            Keep net.channels eth0
            Keep net.rings eth0
            Keep net.enhanced_networking eth0
            Keep smt.control /sys/devices/system/cpu/smt/control
            Keep cmdline.maxcpus maxcpus
            Keep cmdline.isolcpus isolcpus
            Keep cmdline.nohz_full nohz_full
            Keep cmdline.rcu_nocbs rcu_nocbs
            Keep cmdline.mitigations mitigations
            Keep workqueue.cpumask /sys/devices/virtual/workqueue/cpumask
            Keep clocksource /sys/devices/system/clocksource/clocksource0/current_clocksource
            Keep cmdline.tsc tsc
            Keep cmdline.clocksource clocksource
            Keep clock.discipline clock.discipline
            Keep thp.defrag /sys/kernel/mm/transparent_hugepage/defrag
            Keep vm.dirty_ratio /proc/sys/vm/dirty_ratio
            Keep vm.dirty_bytes /proc/sys/vm/dirty_bytes
            Keep vm.dirty_background_ratio /proc/sys/vm/dirty_background_ratio
            Keep vm.dirty_background_bytes /proc/sys/vm/dirty_background_bytes
            Keep cmdline.numa cmdline.numa
            Keep vm.min_free_kbytes /proc/sys/vm/min_free_kbytes
            Keep vm.watermark_scale_factor /proc/sys/vm/watermark_scale_factor
            Keep vm.nr_hugepages /proc/sys/vm/nr_hugepages
            Keep disk.scheduler vda
            Keep disk.read_ahead_kb vda
            Keep process.memory_lock process.memory_lock
            Keep process.glibc_hugetlb process.glibc_hugetlb
            Keep process.sched_policy process.sched_policy
            Keep process.cpu_affinity process.cpu_affinity
            Keep cgroup.cpu_max cgroup.cpu_max
            Keep cgroup.cpuset_partition cgroup.cpuset_partition
            Keep daemon.background_timers daemon.background_timers
            Keep daemon.journald_rate daemon.journald_rate
            NotHere net.netfilter.nf_conntrack_max /proc/sys/net/netfilter/nf_conntrack_max
            NotHere net.netfilter.nf_conntrack_buckets /proc/sys/net/netfilter/nf_conntrack_buckets
            NotHere net.netfilter.nf_conntrack_udp_timeout /proc/sys/net/netfilter/nf_conntrack_udp_timeout
            NotHere net.xps_cpus eth0/tx-0
            NotHere irqbalance.banned_cpus irqbalance.banned_cpus
            NotHere net.coalesce_rx_us eth0
            NotHere net.rss_hash eth0
            NotHere net.driver eth0
            NotHere net.allowances eth0
            NotHere cmdline.intel_idle.max_cstate intel_idle.max_cstate
            NotHere cpuidle.dma_latency_us /dev/cpu_dma_latency
            NotHere cpu.resume_latency_us cpu.resume_latency_us
            NotHere cpuidle.state_disable cpuidle.state_disable
            NotHere haltpoll.guest_halt_poll_ns /sys/module/haltpoll/parameters/guest_halt_poll_ns
            NotHere cloud.t_unlimited cloud.t_unlimited
            NotHere cpufreq.governor cpufreq.governor
            NotHere cpufreq.epp cpufreq.epp
            NotHere cpufreq.boost /sys/devices/system/cpu/cpufreq/boost
            NotHere cpufreq.no_turbo /sys/devices/system/cpu/intel_pstate/no_turbo
            NotHere cmdline.intel_pstate intel_pstate
            NotHere sched.min_granularity_ns /sys/kernel/debug/sched/base_slice_ns
            NotHere sched.migration_cost_ns /sys/kernel/debug/sched/migration_cost_ns
            NotHere kernel.sched_autogroup_enabled /proc/sys/kernel/sched_autogroup_enabled
            NotHere kernel.timer_migration /proc/sys/kernel/timer_migration
            NotHere kernel.nmi_watchdog /proc/sys/kernel/nmi_watchdog
            NotHere kernel.watchdog /proc/sys/kernel/watchdog
            NotHere kernel.sched_rt_runtime_us /proc/sys/kernel/sched_rt_runtime_us
            NotHere cmdline.idle idle
            NotHere cmdline.processor.max_cstate processor.max_cstate
            NotHere cloud.threads_per_core cloud.threads_per_core
            NotHere thp.size_enabled thp.size_enabled
            NotHere vm.swappiness /proc/sys/vm/swappiness
            NotHere kernel.numa_balancing /proc/sys/kernel/numa_balancing
            NotHere vm.zone_reclaim_mode /proc/sys/vm/zone_reclaim_mode
            NotHere daemon.numad daemon.numad
            NotHere process.numa_policy process.numa_policy
            NotHere cgroup.cpu_max_burst_us cgroup.cpu_max_burst_us
            NotHere daemon.auditd daemon.auditd
            Removed sched.wakeup_granularity_ns sched.wakeup_granularity_ns
        "#]]
        .assert_eq(&told);
    }

    #[test]
    fn ids_outlive_a_reboot() {
        let ids = |first_irq: u32| -> Vec<String> {
            let mut facts = base();
            nics(&mut facts)[0] = nic("eth0", 2, first_irq);
            nics(&mut facts)[0].irqs[1].name = nics(&mut facts)[0].irqs[0].name.clone();
            advise(&facts, &Goal::Latency.into()).into_iter().map(|advice| advice.id).collect()
        };
        assert_eq!(ids(24), ids(90));
        let of = |knob: &str| ids(24).into_iter().filter(|id| id.starts_with(knob)).collect::<Vec<_>>().join(" ");
        expect!["net.rps_cpus@eth0/rx-0 net.rps_cpus@eth0/rx-1"].assert_eq(&of("net.rps_cpus"));
        expect!["irq.affinity@eth0-Tx-Rx-0 irq.affinity@eth0-Tx-Rx-0#2"].assert_eq(&of("irq.affinity"));
        expect!["thp.enabled thp.defrag thp.size_enabled"].assert_eq(&of("thp"));
        let mut without = base();
        nics(&mut without).clear();
        let advice = advise(&without, &Goal::Latency.into());
        assert!(advice.iter().any(|advice| advice.id == "irq.affinity"), "a finding about all of them");
    }

    #[test]
    fn each_finding_has_an_id_of_its_own() {
        let mut facts = base();
        nics(&mut facts).push(nic("ens6", 8, 40));
        let advice = advise(&facts, &Goal::Latency.into());
        let ids: std::collections::BTreeSet<&str> = advice.iter().map(|advice| advice.id.as_str()).collect();
        assert_eq!(ids.len(), advice.len());
    }
}
