//! `Advice`: the recommendation for each knob on one machine, with its reason and its sources.

use serde::Serialize;

use crate::facts::Facts;
use crate::finding::{Against, Finding, State};
use crate::goal::AdviceContext;
use crate::knob::{Knob, Place, Source, TakesEffect};
use crate::knobs;
use crate::others::{container_barrier, lasts, others, tuned_sets, undone_at_boot};
use crate::rank::{Effect, When};

/// Advice on one knob at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// A name for the finding that stays the same over reboots: the knob's id, with `@PLACE` if it has several places.
    /// An interrupt is identified by its name, because its number changes.
    pub id: String,
    /// The knob's id.
    pub knob: &'static str,
    /// Where it would be set.
    pub place: String,
    /// What to do.
    pub state: State,
    /// The value in force, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The value advised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// Why, for this machine.
    pub reason: String,
    /// When a change takes effect.
    pub takes_effect: TakesEffect,
    /// What must happen before a change takes effect.
    pub when: When,
    /// The longest delay of a tick that the knob can prevent.
    pub effect: Effect,
    /// The cost of a change.
    pub risk: &'static str,
    /// Its sources.
    pub sources: &'static [Source],
    /// Whether no value has an effect here. The reason says why.
    #[serde(skip)]
    pub is_inert: bool,
    /// The values that would do harm here, as the reason says.
    #[serde(skip)]
    pub against: Against,
}

/// Advice on every knob, the most useful first.
/// Knobs that need action come first, then larger effects, then easier changes. The others follow in the order of [`knobs::ALL`].
pub fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Advice> {
    let mut advice: Vec<Advice> = knobs::ALL.iter().flat_map(|knob| advise_on(knob, facts, context)).collect();
    advice.sort_by_key(|advice| {
        let needs_action = advice.state.is_finding();
        (advice.state, needs_action.then_some((advice.effect, advice.when)))
    });
    advice
}

/// Advice on one knob, one item per place.
pub(crate) fn advise_on(knob: &'static Knob, facts: &Facts, context: &AdviceContext) -> Vec<Advice> {
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
            against: finding.against,
        }
    };
    (knob.advise)(facts, context).into_iter().map(advice).collect()
}

/// The name of a finding that stays the same over reboots.
fn stable_id(knob: &Knob, facts: &Facts, place: &str) -> String {
    match knob.place {
        // Some findings concern the knob as a whole.
        _ if place == knob.id => knob.id.to_owned(),
        Place::Each { .. } | Place::ByHandEach { .. } => format!("{}@{place}", knob.id),
        Place::EachNetworkIrq => format!("{}@{}", knob.id, interrupt_name(facts, place).unwrap_or(place.to_owned())),
        _ => knob.id.to_owned(),
    }
}

/// The name of the interrupt with this number. A second interrupt of the same name gets `#2`, and so on.
fn interrupt_name(facts: &Facts, number: &str) -> Option<String> {
    let number: u32 = number.parse().ok()?;
    let irqs = || facts.network.hardware().flat_map(|nic| &nic.irqs);
    let name = &irqs().find(|irq| irq.number == number)?.name;
    let earlier = irqs().take_while(|irq| irq.number != number).filter(|irq| irq.name == *name).count();
    Some(if earlier == 0 { name.clone() } else { format!("{name}#{}", earlier + 1) })
}

/// Turns advice to set a value into "blocked" if a container prevents the change, or into "owned by" if TuneD sets the knob.
/// Otherwise adds notes about other owners to the reason. These rules apply to all knobs.
fn as_far_as_we_may(knob: &Knob, facts: &Facts, finding: Finding) -> Finding {
    if let Some(barrier) = container_barrier(facts, knob.place) {
        let reason = format!("{barrier}; there: {}", finding.reason);
        return Finding { state: State::Blocked, reason, ..finding };
    }
    if let Some(profile) = tuned_sets(facts, knob) {
        let reason = format!("TuneD's profile {profile} sets it: change it in TuneD; {}", finding.reason);
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
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                docker (latency)
                  blocked /proc/sys/net/core/rmem_max "212992" -> "4194304": a Docker container may not write /proc/sys and /sys, unless it was started with that right: set it on the machine that runs it; there: a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                lxc, nothing to set (latency)
                  keep /proc/sys/net/core/rmem_max "4194304": a server that requests it gets room for 10082 small packets, 2625 ms of 64 players who send 60/s each
                unknown (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
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
                  blocked intel_idle.max_cstate ? -> "1": a Kubernetes container does not have its own kernel: set it on the machine that runs the Kubernetes container; there: C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot
            "#]],
        );
        check(
            knob("cpuidle.dma_latency_us"),
            &[("pod", Goal::Latency, &deep_in_a_pod)],
            expect![[r#"
                pod (latency)
                  blocked /dev/cpu_dma_latency "2000000000" -> "2": a Kubernetes container has no /dev/cpu_dma_latency unless you pass it in; there: C6 of intel_idle takes 133 us to leave
            "#]],
        );
        check(
            knob("process.timer_slack_ns"),
            &[("pod", Goal::Latency, &deep_in_a_pod)],
            expect![[r#"
                pod (latency)
                  set server ? -> "1": by default the server's sleeps end up to 50000 ns late; real-time threads and timerfd have no slack
            "#]],
        );
    }

    #[test]
    fn settings_of_tuned_are_changed_in_tuned() {
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
                  owned-by /sys/kernel/mm/transparent_hugepage/enabled "always" -> "madvise": TuneD's profile network-latency sets it: change it in TuneD; any page fault may have to clear 2 MiB, and khugepaged moves memory together in the background; TuneD recommends never, rpk always: run `evenkeel prove thp.enabled=madvise` to measure
                does not (latency)
                  set /sys/kernel/mm/transparent_hugepage/enabled "always" -> "madvise": any page fault may have to clear 2 MiB, and khugepaged moves memory together in the background; TuneD recommends never, rpk always: run `evenkeel prove thp.enabled=madvise` to measure
                one's own (latency)
                  set /sys/kernel/mm/transparent_hugepage/enabled "always" -> "madvise": any page fault may have to clear 2 MiB, and khugepaged moves memory together in the background; TuneD recommends never, rpk always: run `evenkeel prove thp.enabled=madvise` to measure
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
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; /etc/sysctl.d/60-net.conf (line 3) sets 212992 at boot, which would undo the change: change that line too
                the same value (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                by a pattern (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; /etc/sysctl.d/60-net.conf (line 3) sets 16777216 at boot, which would undo the change: change that line too
                another key (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                not known (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
                kept (latency)
                  keep /proc/sys/net/core/rmem_max "4194304": a server that requests it gets room for 10082 small packets, 2625 ms of 64 players who send 60/s each
            "#]],
        );
    }

    #[test]
    fn other_owners_are_named() {
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
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; bpftune runs and sets network sysctls when it decides to: stop it, or leave this setting to it
                bpftune from the next boot on (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; bpftune starts at the next boot and sets network sysctls when it decides to
                saptune (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets; saptune applies HANA, 941735 at boot and may set this too: set it in saptune
                saptune without a solution (latency)
                  set /proc/sys/net/core/rmem_max "212992" -> "4194304": a server can request at most room for 512 small packets, 133 ms of 64 players who send 60/s each: a longer stall drops packets
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
                  set /proc/sys/net/netfilter/nf_conntrack_buckets "16384" -> "65536": 16384 buckets for 262144 flows: in a full table each packet searches 16 entries; a container network is set up here (10-aws.conflist), and its agents may set this too
            "#]],
        );
    }

    #[test]
    fn the_loader_decides_how_a_kernel_argument_persists() {
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
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot
                grubby (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot
                GRUB alone (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot; GRUB reads no drop-ins here: change GRUB_CMDLINE_LINUX in /etc/default/grub yourself
                old GRUB (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot; a GRUB before version 2 starts this machine, and evenkeel does not change it
                systemd-boot (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot; systemd-boot copies /etc/kernel/cmdline when it creates an entry: change that file yourself
                UKI (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot; evenkeel cannot make it persist: the arguments are part of a signed image (UKI), and whoever builds the image sets them
                ostree (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot; ostree manages the arguments: `rpm-ostree kargs --append=` adds one
                none (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot; evenkeel cannot make it persist: this root has no boot loader, and whoever starts the machine passes the kernel arguments
                unknown (latency)
                  set intel_idle.max_cstate ? -> "1": C6 takes 133 us to leave; run `evenkeel prove cpuidle.dma_latency_us=2` to measure its cost without a reboot; evenkeel does not know the boot loader, so it does not know whether it can persist this: /boot: permission denied (EACCES)
            "#]],
        );
    }

    #[test]
    fn what_is_worth_acting_on_comes_first() {
        let advice = advise(&base(), &Goal::Latency.into());
        let (worth, rest) = advice.split_at(advice.partition_point(|advice| advice.state.is_finding()));
        let as_text: String =
            worth.iter().map(|advice| format!("{:?} {} {}\n", advice.state, advice.knob, advice.place)).collect();
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
        "#]]
        .assert_eq(&as_text);
        let as_listed = |advice: &Advice| knobs::ALL.iter().position(|knob| knob.id == advice.knob);
        assert!(rest.is_sorted_by_key(|advice| (advice.state, as_listed(advice))), "{rest:?}");
        assert!(rest.iter().any(|advice| advice.state == State::Keep) && rest.len() > worth.len());
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
