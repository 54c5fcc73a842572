//! Finds settings that have no effect on this machine according to its facts. No trial is needed for them.

use evenkeel_host::{Advice, AdviceContext, Facts, Setting, State, advise};

use crate::arms::Arms;

/// If no knob of any arm has an effect here, returns all knobs with the reasons.
/// Empty if at least one knob may have an effect.
pub(super) fn inert_knobs(facts: &Facts, arms: &Arms) -> Vec<(String, String)> {
    let advice = advise(facts, &AdviceContext::default());
    let why = |setting: &Setting| why(&advice, setting).map(|why| (setting.knob.id.to_owned(), why));
    arms.settings.iter().map(why).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Why no value of a knob has an effect at any of its places.
fn why(advice: &[Advice], setting: &Setting) -> Option<String> {
    let of_knob = || advice.iter().filter(|advice| advice.knob == setting.knob.id);
    let all_inert = of_knob().all(|advice| advice.is_inert && advice.state == State::NotHere);
    of_knob().next().filter(|_| all_inert).map(|advice| advice.reason.clone())
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::{Capture, Root};

    use super::*;

    /// The facts of a machine with these swap areas and this idle governor.
    fn facts(swaps: &str, governor: &str) -> Facts {
        let text = format!(
            "evenkeel-capture 1\n/proc/sys/vm/swappiness = 60\n/proc/swaps =\n| Filename Type Size Used Priority\n{swaps}\
             /sys/devices/system/cpu/cpuidle/current_driver = haltpoll\n\
             /sys/devices/system/cpu/cpuidle/current_governor = {governor}\n\
             /sys/module/haltpoll/parameters/guest_halt_poll_ns = 200000\nend\n"
        );
        Facts::probe(&Root::captured(Capture::parse(&text).unwrap()))
    }

    #[test]
    fn only_what_does_nothing_at_all_is_inert() {
        let with_swap = "| /dev/vda2 partition 8388604 0 -2\n";
        let inert = |facts: &Facts, settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
            inert_knobs(facts, &Arms::parse(&settings, &[]).unwrap())
                .into_iter()
                .map(|(knob, _)| knob)
                .collect::<Vec<_>>()
        };
        let (swappiness, poll) = ("vm.swappiness=10", "haltpoll.guest_halt_poll_ns=50000");
        let none = facts("", "menu");
        assert_eq!(inert(&none, &[swappiness]), ["vm.swappiness"]);
        assert_eq!(inert(&none, &[poll]), ["haltpoll.guest_halt_poll_ns"]);
        assert_eq!(inert(&none, &[swappiness, poll]).len(), 2);
        assert!(inert(&none, &[swappiness, "process.timer_slack_ns=1"]).is_empty(), "one of them may");
        assert!(inert(&facts(with_swap, "menu"), &[swappiness]).is_empty());
        assert!(inert(&facts("", "haltpoll"), &[poll]).is_empty());
    }
}
