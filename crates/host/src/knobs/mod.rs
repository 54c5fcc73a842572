//! The table of knobs, with one file and one line for each knob.
//! Tests check that every file is listed, has sources, and is documented.

use crate::finding::shown;
use crate::knob::Knob;
use crate::sysctl;
use crate::value::SettingError;

mod cgroup_cpu_max;
mod cgroup_cpu_max_burst_us;
mod cgroup_cpuset_partition;
mod clock_discipline;
mod clocksource;
mod cloud_t_unlimited;
mod cloud_threads_per_core;
mod cmdline_clocksource;
mod cmdline_idle;
mod cmdline_intel_idle_max_cstate;
mod cmdline_intel_pstate;
mod cmdline_isolcpus;
mod cmdline_maxcpus;
mod cmdline_mitigations;
mod cmdline_nohz_full;
mod cmdline_numa;
mod cmdline_processor_max_cstate;
mod cmdline_rcu_nocbs;
mod cmdline_tsc;
mod cpu_resume_latency_us;
mod cpufreq_boost;
mod cpufreq_epp;
mod cpufreq_governor;
mod cpufreq_no_turbo;
mod cpuidle_dma_latency_us;
mod cpuidle_state_disable;
mod daemon_auditd;
mod daemon_background_timers;
mod daemon_journald_rate;
mod daemon_numad;
mod disk_read_ahead_kb;
mod disk_scheduler;
mod haltpoll_guest_halt_poll_ns;
mod irq_affinity;
mod irqbalance_banned_cpus;
mod kernel_nmi_watchdog;
mod kernel_numa_balancing;
mod kernel_preempt;
mod kernel_sched_autogroup_enabled;
mod kernel_sched_rt_runtime_us;
mod kernel_timer_migration;
mod kernel_watchdog;
mod net_allowances;
mod net_channels;
mod net_coalesce_rx_us;
mod net_core_busy_poll;
mod net_core_busy_read;
mod net_core_default_qdisc;
mod net_core_netdev_budget;
mod net_core_netdev_budget_usecs;
mod net_core_netdev_max_backlog;
mod net_core_rmem_default;
mod net_core_rmem_max;
mod net_core_rps_sock_flow_entries;
mod net_driver;
mod net_enhanced_networking;
mod net_gro_flush_timeout_ns;
mod net_ipv4_udp_early_demux;
mod net_ipv4_udp_mem;
mod net_ipv4_udp_rmem_min;
mod net_napi_defer_hard_irqs;
mod net_netfilter_nf_conntrack_buckets;
mod net_netfilter_nf_conntrack_max;
mod net_netfilter_nf_conntrack_udp_timeout;
mod net_rings;
mod net_rps_cpus;
mod net_rps_flow_cnt;
mod net_rss_hash;
mod net_threaded_napi;
mod net_xps_cpus;
mod process_cpu_affinity;
mod process_glibc_hugetlb;
mod process_memory_lock;
mod process_numa_policy;
mod process_sched_policy;
mod process_sched_slice_ns;
mod process_timer_slack_ns;
mod sched_migration_cost_ns;
mod sched_min_granularity_ns;
mod sched_wakeup_granularity_ns;
mod smt_control;
mod thp_defrag;
mod thp_enabled;
mod thp_size_enabled;
mod vm_compaction_proactiveness;
mod vm_dirty_background_bytes;
mod vm_dirty_background_ratio;
mod vm_dirty_bytes;
mod vm_dirty_ratio;
mod vm_min_free_kbytes;
mod vm_nr_hugepages;
mod vm_stat_interval;
mod vm_swappiness;
mod vm_watermark_boost_factor;
mod vm_watermark_scale_factor;
mod vm_zone_reclaim_mode;
mod workqueue_cpumask;

/// Every knob, in the order in which knobs are shown: network, CPU, clock, memory, disk, process.
pub const ALL: &[&Knob] = &[
    &net_core_rmem_max::KNOB,
    &net_core_rmem_default::KNOB,
    &net_core_busy_poll::KNOB,
    &net_core_busy_read::KNOB,
    &net_core_netdev_max_backlog::KNOB,
    &net_core_netdev_budget::KNOB,
    &net_core_netdev_budget_usecs::KNOB,
    &net_ipv4_udp_mem::KNOB,
    &net_ipv4_udp_rmem_min::KNOB,
    &net_ipv4_udp_early_demux::KNOB,
    &net_netfilter_nf_conntrack_max::KNOB,
    &net_netfilter_nf_conntrack_buckets::KNOB,
    &net_netfilter_nf_conntrack_udp_timeout::KNOB,
    &net_core_default_qdisc::KNOB,
    &net_rps_cpus::KNOB,
    &net_core_rps_sock_flow_entries::KNOB,
    &net_rps_flow_cnt::KNOB,
    &net_xps_cpus::KNOB,
    &net_napi_defer_hard_irqs::KNOB,
    &net_gro_flush_timeout_ns::KNOB,
    &net_threaded_napi::KNOB,
    &irq_affinity::KNOB,
    &irqbalance_banned_cpus::KNOB,
    &net_channels::KNOB,
    &net_rings::KNOB,
    &net_coalesce_rx_us::KNOB,
    &net_rss_hash::KNOB,
    &net_enhanced_networking::KNOB,
    &net_driver::KNOB,
    &net_allowances::KNOB,
    &cmdline_intel_idle_max_cstate::KNOB,
    &cpuidle_dma_latency_us::KNOB,
    &cpu_resume_latency_us::KNOB,
    &cpuidle_state_disable::KNOB,
    &haltpoll_guest_halt_poll_ns::KNOB,
    &cloud_t_unlimited::KNOB,
    &cpufreq_governor::KNOB,
    &cpufreq_epp::KNOB,
    &cpufreq_boost::KNOB,
    &cpufreq_no_turbo::KNOB,
    &cmdline_intel_pstate::KNOB,
    &smt_control::KNOB,
    &kernel_preempt::KNOB,
    &cmdline_maxcpus::KNOB,
    &cmdline_isolcpus::KNOB,
    &cmdline_nohz_full::KNOB,
    &cmdline_rcu_nocbs::KNOB,
    &sched_min_granularity_ns::KNOB,
    &sched_wakeup_granularity_ns::KNOB,
    &sched_migration_cost_ns::KNOB,
    &kernel_sched_autogroup_enabled::KNOB,
    &kernel_timer_migration::KNOB,
    &kernel_nmi_watchdog::KNOB,
    &kernel_watchdog::KNOB,
    &kernel_sched_rt_runtime_us::KNOB,
    &cmdline_mitigations::KNOB,
    &cmdline_idle::KNOB,
    &cmdline_processor_max_cstate::KNOB,
    &workqueue_cpumask::KNOB,
    &cloud_threads_per_core::KNOB,
    &clocksource::KNOB,
    &cmdline_tsc::KNOB,
    &cmdline_clocksource::KNOB,
    &clock_discipline::KNOB,
    &thp_enabled::KNOB,
    &thp_defrag::KNOB,
    &thp_size_enabled::KNOB,
    &vm_swappiness::KNOB,
    &vm_dirty_ratio::KNOB,
    &vm_dirty_bytes::KNOB,
    &vm_dirty_background_ratio::KNOB,
    &vm_dirty_background_bytes::KNOB,
    &kernel_numa_balancing::KNOB,
    &vm_zone_reclaim_mode::KNOB,
    &cmdline_numa::KNOB,
    &daemon_numad::KNOB,
    &vm_min_free_kbytes::KNOB,
    &vm_compaction_proactiveness::KNOB,
    &vm_watermark_boost_factor::KNOB,
    &vm_watermark_scale_factor::KNOB,
    &vm_stat_interval::KNOB,
    &vm_nr_hugepages::KNOB,
    &disk_scheduler::KNOB,
    &disk_read_ahead_kb::KNOB,
    &process_timer_slack_ns::KNOB,
    &process_memory_lock::KNOB,
    &process_numa_policy::KNOB,
    &process_glibc_hugetlb::KNOB,
    &process_sched_slice_ns::KNOB,
    &process_sched_policy::KNOB,
    &process_cpu_affinity::KNOB,
    &cgroup_cpu_max::KNOB,
    &cgroup_cpu_max_burst_us::KNOB,
    &cgroup_cpuset_partition::KNOB,
    &daemon_background_timers::KNOB,
    &daemon_auditd::KNOB,
    &daemon_journald_rate::KNOB,
];

/// The knob with this id. The id of a sysctl without a knob in the list is `sysctl:NAME`.
///
/// # Errors
/// [`SettingError::UnknownKnob`], with the nearest id if one is similar.
pub fn find(id: &str) -> Result<&'static Knob, SettingError> {
    if let Some(key) = id.strip_prefix(sysctl::PREFIX) {
        // If a knob sets the same file, use that knob, because it has more data: its range, its risk, its side effects.
        let own = sysctl::known_path(key).and_then(|path| of_file(&format!("{}{path}", sysctl::FOLDER)));
        return own.map_or_else(|| sysctl::find(key), Ok);
    }
    ALL.iter()
        .copied()
        .find(|knob| knob.id == id)
        .ok_or_else(|| SettingError::UnknownKnob { id: shown(id), nearest: nearest(id) })
}

/// The knob that sets this file in any kernel.
fn of_file(path: &str) -> Option<&'static Knob> {
    ALL.iter().copied().find(|knob| knob.place.files().contains(&path))
}

/// The id that the user probably meant: an id that contains the input, or that has at least two thirds of its letters.
fn nearest(given: &str) -> Option<&'static str> {
    const PART_BYTES_MIN: usize = 3;
    const GIVEN_BYTES_MAX: usize = 64;
    if given.len() > GIVEN_BYTES_MAX {
        return None;
    }
    let given = given.to_lowercase().replace('/', ".");
    let distance = |id: &str| strsim::osa_distance(&given, id);
    let is_part = |id: &str| given.len() >= PART_BYTES_MIN && id.contains(&given);
    let near = |id: &&str| is_part(id) || distance(id) * 3 <= id.len();
    ALL.iter().map(|knob| knob.id).filter(near).min_by_key(|id| distance(id))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;
    use crate::advice::advise_on;
    use crate::extras::CounterPlace;
    use crate::fact::Fact;
    use crate::facts::{Facts, Swap};
    use crate::finding::State;
    use crate::goal::Goal;
    use crate::knob::Values;
    use crate::plan::Plan;
    use crate::setting::Setting;
    use crate::testing::{base, cpus, knocked, nic, nics, set};

    #[test]
    fn a_misspelt_knob_gets_the_nearest_name() {
        let given = [
            "net.core.busy_poll",
            "net.core.busypoll",
            "net/core/busy_poll",
            "busy_poll",
            "max_cstate",
            "Clocksource",
            "clock",
            "thp",
            "swapiness",
            "vm.swapines",
            "timer_slack",
            "net.core",
            "",
            "e",
            "kernel.sched_latency_ns",
            "$(reboot)",
        ];
        let as_text = |id: &str| match find(id) {
            Ok(knob) => format!("{id}: {}\n", knob.id),
            Err(error) => format!("{error}\n"),
        };
        expect![[r#"
            net.core.busy_poll: net.core.busy_poll
            unknown knob "net.core.busypoll": did you mean "net.core.busy_poll"? `evenkeel explain` lists the knobs
            unknown knob "net/core/busy_poll": did you mean "net.core.busy_poll"? `evenkeel explain` lists the knobs
            unknown knob "busy_poll": did you mean "net.core.busy_poll"? `evenkeel explain` lists the knobs
            unknown knob "max_cstate": did you mean "cmdline.processor.max_cstate"? `evenkeel explain` lists the knobs
            unknown knob "Clocksource": did you mean "clocksource"? `evenkeel explain` lists the knobs
            unknown knob "clock": did you mean "clocksource"? `evenkeel explain` lists the knobs
            unknown knob "thp": did you mean "thp.defrag"? `evenkeel explain` lists the knobs
            unknown knob "swapiness": did you mean "vm.swappiness"? `evenkeel explain` lists the knobs
            unknown knob "vm.swapines": did you mean "vm.swappiness"? `evenkeel explain` lists the knobs
            unknown knob "timer_slack": did you mean "process.timer_slack_ns"? `evenkeel explain` lists the knobs
            unknown knob "net.core": did you mean "net.core.rmem_max"? `evenkeel explain` lists the knobs
            unknown knob "": `evenkeel explain` lists the knobs
            unknown knob "e": `evenkeel explain` lists the knobs
            unknown knob "kernel.sched_latency_ns": `evenkeel explain` lists the knobs
            unknown knob "$(reboot)": `evenkeel explain` lists the knobs
        "#]]
        .assert_eq(&given.map(as_text).concat());
        let long = "é".repeat(1 << 20);
        let Err(SettingError::UnknownKnob { id, nearest: None }) = find(&long) else { panic!("unknown") };
        assert_eq!(id.chars().count(), 100);
    }

    /// Texts in tables and lists are fragments. Only the mechanism consists of sentences.
    #[test]
    fn every_text_is_there_and_of_its_kind() {
        for knob in ALL {
            let fragments = [knob.title, knob.default, knob.risk, knob.shows_in, knob.kernels];
            let of_sources = knob.sources.iter().flat_map(|source| [source.title, source.says]);
            for text in fragments.into_iter().chain(of_sources) {
                let trimmed = text.trim();
                assert!(!text.is_empty() && text == trimmed && !text.ends_with('.'), "{}: {text:?}", knob.id);
                assert!(!text.contains("  ") && !text.contains('\n'), "{}: {text:?}", knob.id);
            }
            assert!(knob.title.split(' ').count() < 10, "{}: {:?}", knob.id, knob.title);
            assert!(knob.mechanism.ends_with('.') && !knob.mechanism.contains("  "), "{}", knob.id);
            assert!(!knob.sources.is_empty(), "{} has no source", knob.id);
        }
    }

    /// The text of `shows_in` names every counter that `explain` reads.
    #[test]
    fn counters_that_are_read_stand_in_the_text() {
        for knob in ALL {
            let words: Vec<String> = knob
                .extras
                .read_in
                .iter()
                .flat_map(|place| match place {
                    CounterPlace::Table { file, names } => {
                        names.iter().chain([file]).map(|name| (*name).to_owned()).collect()
                    }
                    CounterPlace::SoftnetColumns(columns) => columns.iter().map(|at| format!("column {at} ")).collect(),
                    CounterPlace::IdleUsage => vec!["/cpuidle/state".to_owned()],
                    CounterPlace::File(path) => vec![(*path).to_owned()],
                    CounterPlace::Folder(path) => vec![format!("{path}/*")],
                })
                .collect();
            for word in words {
                assert!(knob.shows_in.contains(&word), "{}: {word} is read, and not in {:?}", knob.id, knob.shows_in);
            }
        }
    }

    /// Checks the requirements for every finding on every machine.
    fn assert_sound(facts: &Facts) {
        for (knob, goal) in ALL.iter().copied().flat_map(|knob| Goal::ALL.map(|goal| (knob, goal))) {
            let advice = advise_on(knob, facts, &goal.into());
            assert!(!advice.is_empty(), "{} has no advice", knob.id);
            for advice in advice {
                let as_text = format!("{} {}: {}", knob.id, advice.place, advice.reason);
                assert!(!advice.place.is_empty() && !advice.reason.is_empty(), "{as_text}");
                assert!(!advice.reason.ends_with('.') && !advice.reason.contains('\n'), "{as_text}");
                let Some(wanted) = advice.wanted else {
                    assert!(!matches!(advice.state, State::Set | State::Blocked), "{as_text}");
                    continue;
                };
                assert_eq!(knob.check(&wanted).as_ref(), Ok(&wanted), "{as_text}");
                assert_ne!(Some(&wanted), advice.current.as_ref(), "{as_text}");
                let setting = Setting { knob, place: Some(advice.place.clone()), value: wanted };
                let steps = Plan::from_settings(facts, &[setting]).map(|plan| plan.steps.len());
                assert_eq!(steps, Ok(1), "{as_text}");
            }
        }
    }

    #[test]
    fn advice_can_be_planned() {
        assert_sound(&base());
    }

    fn machine() -> impl Strategy<Value = Facts> {
        let word = |words: &'static [&'static str]| prop::sample::select(words).prop_map(str::to_owned);
        let number = prop_oneof![any::<i64>().prop_map(|number| number.to_string()), "[0-9]{1,6}", "\\PC{0,20}"];
        let clocks = word(&["tsc", "kvm-clock", "hpet", "xen", "jiffies", "sun dial"]);
        (
            (1_usize..40, 1_usize..3, 0_u32..5, prop::collection::vec(number, 16)),
            (clocks.clone(), prop::collection::vec(clocks, 0..4)),
            word(&["none", "haltpoll", "intel_idle", "acpi_idle", "x"]),
            word(&["always", "madvise", "never", "x"]),
            prop::collection::vec((any::<prop::sample::Index>(), 0_usize..4), 0..6),
        )
            .prop_map(|((cores, threads, queues, sysctls), (clock, clocks), driver, thp, holes)| {
                let mut facts = base();
                facts.cpus = cpus(cores * threads, threads);
                facts.limits.cpus_allowed = facts.cpus.online.clone();
                nics(&mut facts)[0] = nic("eth0", queues, 30);
                for (fact, text) in facts.sysctls.values_mut().zip(sysctls) {
                    *fact = Fact::Known(text);
                }
                facts.clock.current = Fact::Known(clock);
                facts.clock.available = Fact::Known(clocks);
                facts.idle.driver = Fact::Known(driver);
                facts.memory.thp_enabled = Fact::Known(thp);
                let swap = Swap { path: "/swap".into(), kind: "file".into(), size_bytes: 1 };
                facts.memory.swaps = Fact::Known(vec![swap; threads - 1]);
                for queue in nics(&mut facts)[0].rx_queues.iter_mut().skip(1) {
                    queue.steering_cpus = Fact::Known(set("0-1"));
                }
                holes.into_iter().for_each(|(which, how)| knocked(&mut facts, which, how));
                facts
            })
    }

    proptest! {
        #[test]
        fn advice_is_sound_on_any_machine(facts in machine()) {
            assert_sound(&facts);
        }

        #[test]
        fn no_text_makes_check_panic(text in "\\PC*") {
            for knob in ALL {
                if let Ok(value) = knob.check(&text) {
                    prop_assert_eq!(knob.check(&value), Ok(value.clone()), "{} spells {} in two ways", knob.id, text);
                    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_,+ ".contains(&byte);
                    prop_assert!(value.bytes().all(plain), "{} takes {value:?}", knob.id);
                    let may_be_empty = matches!(knob.values, Values::Cpus { may_be_empty: true });
                    prop_assert!(may_be_empty || !value.is_empty(), "{} takes nothing", knob.id);
                }
            }
        }
    }
}
