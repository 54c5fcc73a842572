//! How many packets a CPU takes from its devices in one round.

use crate::extras::{Counter, CounterPlace, Extras};
use crate::facts::{Facts, reads};
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/core/netdev_budget";

const DEFAULT: i64 = 300;

pub(super) const KNOB: Knob = Knob {
    id: "net.core.netdev_budget",
    title: "packets that a CPU processes in one round",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: i32::MAX as i64, unit: "packets" },
    default: "300",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The CPU that serves an interrupt takes packets from all its queues until it has this many, or until \
        net.core.netdev_budget_usecs have passed. Then other work gets the CPU. If packets are left at that point, the \
        kernel counts a time squeeze. Until then nothing else runs on that CPU, so a due tick waits.",
    risk: "a larger budget delays ticks on the CPU for longer; a smaller one leaves packets in the device's ring",
    shows_in: "column 3 of /proc/net/softnet_stat (time_squeeze, hexadecimal, one line per CPU)",
    kernels: "all",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/net.rst, netdev_budget",
            says: "the most packets taken from all interfaces in one polling cycle, which netdev_budget_usecs may end \
                   sooner",
        },
        Source { title: "Linux net/core/dev.c, net_rx_action", says: "counts a time_squeeze when either runs out" },
    ],
    extras: Extras {
        read_in: &[CounterPlace::SoftnetColumns(&[3])],
        // A budget that is never used up has no effect.
        counter: Some(Counter::PacketBudget),
        worth_a_trial: &["600"],
        reject_for: Some(reject_for),
        ..Extras::NONE
    },
    advise,
};

/// The number of packets that one queue may deliver in one turn (`NAPI_POLL_WEIGHT`).
const TURN: i64 = 64;

/// Why the budget would be too small.
fn reject_for(_: &Facts, wanted: &str) -> Option<String> {
    wanted.parse::<i64>().is_ok_and(|wanted| wanted < TURN).then(|| {
        format!(
            "evenkeel writes {TURN} or more there: with less, each round ends after one queue, the other queues \
                wait, and under load connections of the whole machine stall"
        )
    })
}

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let finding = if current < DEFAULT {
        let reason = format!("below the kernel's default {DEFAULT}: a burst stays in the device's ring sooner");
        Finding::set(PATH, DEFAULT, reason)
    } else if current > DEFAULT && goal == Goal::Latency {
        let reason = format!(
            "above the kernel's default {DEFAULT}: packets may delay ticks for longer; run `evenkeel prove \
                {}={DEFAULT}` to measure the effect",
            KNOB.id
        );
        Finding::keep(PATH, reason)
    } else {
        let reason = "enough while column 3 of /proc/net/softnet_stat (time_squeeze) does not rise; a larger budget would \
            delay other work for longer";
        Finding::keep(PATH, reason)
    };
    let squeezed = facts.counters.softnet_sum(|cpu| cpu.time_squeeze);
    let as_text = reads(
        "the column",
        squeezed,
        "no CPU ever stopped with packets left",
        "this often, a CPU stopped with packets left",
    );
    Ok(finding.counting(&as_text).at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn the_default_is_enough_until_it_is_squeezed() {
        check(
            &KNOB,
            &[
                ("the default", Goal::Latency, &|_| {}),
                ("lowered", Goal::Throughput, &with_sysctl(PATH, "64")),
                ("raised", Goal::Latency, &with_sysctl(PATH, "600")),
                ("raised", Goal::Throughput, &with_sysctl(PATH, "600")),
                ("no number", Goal::Latency, &with_sysctl(PATH, "")),
                ("not captured", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                the default (latency)
                  keep /proc/sys/net/core/netdev_budget "300": enough while column 3 of /proc/net/softnet_stat (time_squeeze) does not rise; a larger budget would delay other work for longer
                lowered (throughput)
                  set /proc/sys/net/core/netdev_budget "64" -> "300": below the kernel's default 300: a burst stays in the device's ring sooner
                raised (latency)
                  keep /proc/sys/net/core/netdev_budget "600": above the kernel's default 300: packets may delay ticks for longer; run `evenkeel prove net.core.netdev_budget=300` to measure the effect
                raised (throughput)
                  keep /proc/sys/net/core/netdev_budget "600": enough while column 3 of /proc/net/softnet_stat (time_squeeze) does not rise; a larger budget would delay other work for longer
                no number (latency)
                  unknown /proc/sys/net/core/netdev_budget: the value in force is not a whole number: ""
                not captured (latency)
                  not-here /proc/sys/net/core/netdev_budget: not present here: the facts do not include /proc/sys/net/core/netdev_budget
            "#]],
        );
    }

    /// The reason reports past losses, but no decision depends on them, whether zero or not.
    #[test]
    fn the_counter_is_quoted_and_decides_nothing() {
        check(
            &KNOB,
            &[
                ("none", Goal::Latency, &crate::facts::all_counted(0)),
                ("some", Goal::Latency, &crate::facts::all_counted(9)),
            ],
            expect![[r#"
                none (latency)
                  keep /proc/sys/net/core/netdev_budget "300": enough while column 3 of /proc/net/softnet_stat (time_squeeze) does not rise; a larger budget would delay other work for longer; the column reads 0 since boot: no CPU ever stopped with packets left
                some (latency)
                  keep /proc/sys/net/core/netdev_budget "300": enough while column 3 of /proc/net/softnet_stat (time_squeeze) does not rise; a larger budget would delay other work for longer; the column reads 9 since boot: this often, a CPU stopped with packets left
            "#]],
        );
    }
}
