//! What to do first: how long a wait a knob can spare a tick at most, and what has to happen before a change counts.

use serde::Serialize;

use crate::knob::{Area, Knob, Place, TakesEffect};

/// The longest wait that a knob can spare a tick, by what its mechanism makes a thread or a packet wait for. It is an
/// expectation that orders advice, no promise: a trial tells what a knob does for one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Milliseconds, or packets that are lost: a disk, a full queue, memory that is moved, CPU time that is withheld.
    Large,
    /// Tens to hundreds of microseconds: a CPU that wakes, a timer or a packet that is held back, work of others on the CPU.
    Medium,
    /// Less, or seldom.
    Small,
}

/// What has to happen before a change counts; the later, the more it takes to try it and to undo it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Nothing.
    AtOnce,
    /// The server opens its sockets anew.
    NewSockets,
    /// The server is started anew.
    ServerRestart,
    /// The machine is started anew.
    Reboot,
    /// Somebody does it: in the cloud's settings, or with a tool of the driver.
    ByHand,
}

/// Knobs whose effect is not that of their area's usual one, each with what a tick would wait for.
const UNUSUAL: &[(&str, Effect)] = &[
    // A full socket buffer or backlog drops the packets of a whole stall.
    ("net.core.rmem_max", Effect::Large),
    ("net.core.netdev_max_backlog", Effect::Large),
    ("net.core.rmem_default", Effect::Large),
    ("net.rings", Effect::Large),
    // What exceeds an allowance is queued for long or dropped.
    ("net.allowances", Effect::Large),
    // A full table drops the packets of new players.
    ("net.netfilter.nf_conntrack_max", Effect::Large),
    // A look-up of every packet, in under a microsecond.
    ("net.ipv4.udp_early_demux", Effect::Small),
    // The real-time throttle takes 50 ms of every second from a thread that spins.
    ("kernel.sched_rt_runtime_us", Effect::Large),
    // One interrupt every few seconds.
    ("kernel.nmi_watchdog", Effect::Small),
    ("kernel.sched_autogroup_enabled", Effect::Small),
    // A page comes back from a disk, or a write waits for one.
    ("vm.swappiness", Effect::Large),
    ("vm.dirty_ratio", Effect::Large),
    ("vm.dirty_bytes", Effect::Large),
    ("vm.dirty_background_ratio", Effect::Large),
    ("vm.dirty_background_bytes", Effect::Large),
    // Memory is moved, or freed, before the thread that asks for it goes on.
    ("thp.defrag", Effect::Large),
    ("vm.compaction_proactiveness", Effect::Large),
    ("vm.min_free_kbytes", Effect::Large),
    ("vm.zone_reclaim_mode", Effect::Large),
    ("kernel.numa_balancing", Effect::Large),
    // A page fault waits while memory is moved and 2 MiB are cleared.
    ("thp.enabled", Effect::Large),
    // A system call in place of a read in user space, at each look at the clock.
    ("clocksource", Effect::Medium),
];

impl Effect {
    /// Every effect, the largest first.
    pub const ALL: [Effect; 3] = [Effect::Large, Effect::Medium, Effect::Small];

    /// What is expected of a knob: as listed, else as usual in its area.
    pub fn of(knob: &Knob) -> Effect {
        let listed = UNUSUAL.iter().find(|(id, _)| *id == knob.id).map(|(_, effect)| *effect);
        listed.unwrap_or(match knob.area {
            Area::Network | Area::Cpu | Area::Process => Effect::Medium,
            Area::Clock | Area::Memory | Area::Disk => Effect::Small,
        })
    }
}

impl When {
    /// Every case, the soonest first.
    pub const ALL: [When; 5] = [When::AtOnce, When::NewSockets, When::ServerRestart, When::Reboot, When::ByHand];

    /// When a change of this knob counts.
    pub fn of(knob: &Knob) -> When {
        match (knob.place, knob.takes_effect) {
            (Place::ByHand { .. } | Place::ByHandEach { .. }, _) => When::ByHand,
            (_, TakesEffect::AtOnce) => When::AtOnce,
            // An interface that is brought up anew cuts the line: no sooner than sockets, and no later than a restart.
            (_, TakesEffect::NewSockets | TakesEffect::NewInterfaces) => When::NewSockets,
            (_, TakesEffect::ProcessStart) => When::ServerRestart,
            (_, TakesEffect::Reboot) => When::Reboot,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::expect;

    use super::*;
    use crate::knobs;

    #[test]
    fn what_is_listed_is_a_knob_and_unusual() {
        let listed: BTreeSet<&str> = UNUSUAL.iter().map(|(id, _)| *id).collect();
        assert_eq!(listed.len(), UNUSUAL.len(), "one is listed twice");
        for (id, effect) in UNUSUAL {
            let knob = knobs::find(id).unwrap();
            let unlisted = Knob { id: "x", ..*knob };
            assert_ne!(Effect::of(&unlisted), *effect, "{id} need not be listed");
        }
    }

    #[test]
    fn large_effects_that_are_easily_undone_come_first() {
        let ids = [
            "net.core.rmem_max",
            "vm.swappiness",
            "clocksource",
            "cpuidle.dma_latency_us",
            "process.timer_slack_ns",
            "cmdline.intel_idle.max_cstate",
        ];
        let mut ranked = ids.map(|id| knobs::find(id).map(|knob| (Effect::of(knob), When::of(knob), id)).unwrap());
        ranked.sort_unstable();
        let told: String = ranked.map(|(effect, when, id)| format!("{effect:?} {when:?} {id}\n")).concat();
        expect![[r#"
            Large AtOnce vm.swappiness
            Large NewSockets net.core.rmem_max
            Medium AtOnce clocksource
            Medium AtOnce cpuidle.dma_latency_us
            Medium ServerRestart process.timer_slack_ns
            Medium Reboot cmdline.intel_idle.max_cstate
        "#]]
        .assert_eq(&told);
    }

    #[test]
    fn what_is_done_by_hand_is_said_to_be() {
        let knob = knobs::find("vm.swappiness").unwrap();
        let by_hand = Knob { place: Place::ByHand { how: "do {}" }, takes_effect: TakesEffect::Reboot, ..*knob };
        assert_eq!((When::of(knob), When::of(&by_hand)), (When::AtOnce, When::ByHand));
        assert!(When::ALL.is_sorted() && Effect::ALL.is_sorted());
    }
}
