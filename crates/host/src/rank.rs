//! What to do first: how long a wait a knob can spare a tick at most, and what has to happen before a change counts.

use serde::Serialize;

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

impl Effect {
    /// Every effect, the largest first.
    pub const ALL: [Effect; 3] = [Effect::Large, Effect::Medium, Effect::Small];
}

impl When {
    /// Every case, the soonest first.
    pub const ALL: [When; 5] = [When::AtOnce, When::NewSockets, When::ServerRestart, When::Reboot, When::ByHand];
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::extras::Extras;
    use crate::knob::{Knob, Place, TakesEffect};
    use crate::knobs;

    #[test]
    fn an_effect_is_said_only_where_it_is_unusual() {
        for knob in knobs::ALL.iter().filter(|knob| knob.extras.effect.is_some()) {
            let usual = Knob { extras: Extras::NONE, ..**knob };
            assert_ne!(usual.effect(), knob.effect(), "{} need not say its effect", knob.id);
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
        let mut ranked = ids.map(|id| knobs::find(id).map(|knob| (knob.effect(), knob.when(), id)).unwrap());
        ranked.sort_unstable();
        let as_text: String = ranked.map(|(effect, when, id)| format!("{effect:?} {when:?} {id}\n")).concat();
        expect![[r#"
            Large AtOnce vm.swappiness
            Large NewSockets net.core.rmem_max
            Medium AtOnce clocksource
            Medium AtOnce cpuidle.dma_latency_us
            Medium ServerRestart process.timer_slack_ns
            Medium Reboot cmdline.intel_idle.max_cstate
        "#]]
        .assert_eq(&as_text);
    }

    #[test]
    fn what_is_done_by_hand_is_said_to_be() {
        let knob = knobs::find("vm.swappiness").unwrap();
        let by_hand = Knob { place: Place::ByHand { how: "do {}" }, takes_effect: TakesEffect::Reboot, ..*knob };
        assert_eq!((knob.when(), by_hand.when()), (When::AtOnce, When::ByHand));
        assert!(When::ALL.is_sorted() && Effect::ALL.is_sorted());
    }
}
