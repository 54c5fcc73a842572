//! How long a CPU takes packets from its devices in one round.

use crate::extras::{Counter, CounterPlace, Extras};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/net/core/netdev_budget_usecs";

/// Two jiffies at the lowest timer frequency that a kernel can have (HZ=100).
const DEFAULT_MAX_US: i64 = 20_000;

/// Two jiffies at the highest timer frequency (HZ=1000).
const DEFAULT_MIN_US: i64 = 2000;

pub(super) const KNOB: Knob = Knob {
    id: "net.core.netdev_budget_usecs",
    title: "time that a CPU processes packets in one round",
    area: Area::Network,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: i32::MAX as i64, unit: "us" },
    default: "two jiffies: 2000 with HZ=1000, 8000 with HZ=250, 20000 with HZ=100",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The CPU that serves an interrupt takes packets until it has net.core.netdev_budget of them or this time has \
        passed, whichever comes first. A tick that is due on that CPU waits at most this long for one round of \
        packets.",
    risk: "a longer time delays ticks on the CPU for longer; a shorter one leaves packets in the device's ring",
    shows_in: "column 3 of /proc/net/softnet_stat (time_squeeze, hexadecimal, one line per CPU)",
    kernels: "5.10 and newer; 4.4 does not have it",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/sysctl/net.rst, netdev_budget_usecs",
            says: "the most microseconds of one polling cycle",
        },
        Source { title: "Linux net/core/hotdata.c", says: "two jiffies by default" },
    ],
    extras: Extras {
        read_in: &[CounterPlace::SoftnetColumns(&[3])],
        // A budget that is never used up has no effect.
        counter: Some(Counter::PacketBudget),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let finding = if current < DEFAULT_MIN_US {
        let reason = format!("below the shortest kernel default: a burst stays in the ring after {current} us");
        Finding::set(PATH, DEFAULT_MIN_US, reason)
    } else if current > DEFAULT_MAX_US && goal == Goal::Latency {
        let reason = format!("above the longest kernel default: packets may delay a tick by {current} us");
        Finding::set(PATH, DEFAULT_MAX_US, reason)
    } else {
        let reason = format!(
            "packets may delay a tick by {current} us at most; enough while column 3 of /proc/net/softnet_stat \
                (time_squeeze) does not rise"
        );
        Finding::keep(PATH, reason)
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn it_stays_within_the_kernels_own_defaults() {
        check(
            &KNOB,
            &[
                ("HZ=250", Goal::Latency, &|_| {}),
                ("HZ=100", Goal::Latency, &with_sysctl(PATH, "20000")),
                ("lowered", Goal::Latency, &with_sysctl(PATH, "500")),
                ("raised", Goal::Latency, &with_sysctl(PATH, "50000")),
                ("raised", Goal::Throughput, &with_sysctl(PATH, "50000")),
                ("Linux 4.4", Goal::Latency, &|facts| {
                    facts.sysctls.insert(PATH, Fact::absent("no such file or directory (ENOENT)"));
                }),
            ],
            expect![[r#"
                HZ=250 (latency)
                  keep /proc/sys/net/core/netdev_budget_usecs "8000": packets may delay a tick by 8000 us at most; enough while column 3 of /proc/net/softnet_stat (time_squeeze) does not rise
                HZ=100 (latency)
                  keep /proc/sys/net/core/netdev_budget_usecs "20000": packets may delay a tick by 20000 us at most; enough while column 3 of /proc/net/softnet_stat (time_squeeze) does not rise
                lowered (latency)
                  set /proc/sys/net/core/netdev_budget_usecs "500" -> "2000": below the shortest kernel default: a burst stays in the ring after 500 us
                raised (latency)
                  set /proc/sys/net/core/netdev_budget_usecs "50000" -> "20000": above the longest kernel default: packets may delay a tick by 50000 us
                raised (throughput)
                  keep /proc/sys/net/core/netdev_budget_usecs "50000": packets may delay a tick by 50000 us at most; enough while column 3 of /proc/net/softnet_stat (time_squeeze) does not rise
                Linux 4.4 (latency)
                  not-here /proc/sys/net/core/netdev_budget_usecs: not present here: no such file or directory (ENOENT)
            "#]],
        );
    }
}
