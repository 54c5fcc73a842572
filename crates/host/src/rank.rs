//! Orders advice: by the longest delay of a tick that a knob can prevent, then by the effort of a change.

use serde::Serialize;

/// The longest delay of a tick that a knob can prevent, judged by the mechanism that makes threads or packets wait.
/// The effect orders advice. An effect is not a promise: a trial measures the effect for one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Milliseconds, or lost packets: a disk, a full queue, memory that moves, CPU time that is withheld.
    Large,
    /// Tens to hundreds of microseconds: a CPU that wakes, a delayed timer or packet, other work on the CPU.
    Medium,
    /// Less, or rarely.
    Small,
}

/// What must happen before a change takes effect, the easiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Nothing.
    AtOnce,
    /// The server must open its sockets again.
    NewSockets,
    /// The server must restart.
    ServerRestart,
    /// The machine must reboot.
    Reboot,
    /// A person must do it: in the cloud's settings, or with a tool of the driver.
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
    fn manual_steps_are_marked() {
        let knob = knobs::find("vm.swappiness").unwrap();
        let by_hand = Knob { place: Place::ByHand { how: "do {}" }, takes_effect: TakesEffect::Reboot, ..*knob };
        assert_eq!((knob.when(), by_hand.when()), (When::AtOnce, When::ByHand));
        assert!(When::ALL.is_sorted() && Effect::ALL.is_sorted());
    }
}
