//! Scheduled work of the distribution, which may start in the middle of a match.

use crate::extras::Extras;
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const PLACE: &str = "daemon.background_timers";

pub(super) const KNOB: Knob = Knob {
    id: "daemon.background_timers",
    title: "timers of the distribution that start background jobs",
    area: Area::Process,
    place: Place::ByHand {
        how: "keep background timers {}: systemctl disable --now NAME.timer for each, or give it its own OnCalendar=",
    },
    values: Values::Words(&["off"]),
    default: "on: each distribution enables some",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Distributions use timers to start upgrades, file indexes, manual page updates, disk trimming and log rotation. \
        Most run once a day at a random minute. Each reads or writes a lot for seconds to minutes, on the server's \
        CPUs and disk. A drop-in with OnCalendar= moves a timer to an hour without players. An image that you replace \
        instead of upgrading needs none of them.",
    risk: "you must schedule security upgrades, trimming and log rotation in another way",
    shows_in: "systemctl list-timers; the journal at the time of a hitch",
    kernels: "all: this is a setting of systemd",
    sources: &[
        Source { title: "systemd.timer(5)", says: "OnCalendar=, RandomizedDelaySec=, Persistent=" },
        Source {
            title: "OpenShift node tuning operator, profile openshift-node-performance",
            says: "stops fwupd-refresh on nodes for low latency",
        },
    ],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let timers = match &facts.daemons.background_timers {
        Fact::Known(timers) => timers,
        unknown => return Err(Finding::unknown(PLACE, "which timers are enabled", unknown)),
    };
    if timers.is_empty() {
        return Ok(Finding::keep(PLACE, "no timer of the distribution that starts heavy work is enabled"));
    }
    let names = timers.join(", ");
    Ok(match goal {
        Goal::Latency => {
            let units: Vec<String> = timers.iter().map(|name| format!("{name}.timer")).collect();
            let reason = format!(
                "these start work whenever it is due ({names}): run `systemctl disable --now {}`, or move each to \
                    an hour without players with OnCalendar= in a drop-in",
                units.join(" ")
            );
            Finding::set(PLACE, "off", reason)
        }
        Goal::Throughput | Goal::Density => {
            Finding::keep(PLACE, format!("seconds to minutes of work a day ({names}) matter little here"))
        }
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::check;

    #[test]
    fn work_by_the_clock_is_named() {
        let enabled = |names: &'static [&'static str]| {
            move |facts: &mut Facts| {
                facts.daemons.background_timers = Fact::Known(names.iter().map(|name| (*name).to_owned()).collect());
            }
        };
        check(
            &KNOB,
            &[
                ("none", Goal::Latency, &|_| {}),
                ("two", Goal::Latency, &enabled(&["apt-daily", "man-db"])),
                ("two", Goal::Throughput, &enabled(&["apt-daily", "man-db"])),
                ("unknown", Goal::Latency, &|facts| facts.daemons.background_timers = Fact::absent("in a container")),
            ],
            expect![[r#"
                none (latency)
                  keep daemon.background_timers: no timer of the distribution that starts heavy work is enabled
                two (latency)
                  set daemon.background_timers ? -> "off": these start work whenever it is due (apt-daily, man-db): run `systemctl disable --now apt-daily.timer man-db.timer`, or move each to an hour without players with OnCalendar= in a drop-in
                two (throughput)
                  keep daemon.background_timers: seconds to minutes of work a day (apt-daily, man-db) matter little here
                unknown (latency)
                  unknown daemon.background_timers: which timers are enabled is not known: in a container
            "#]],
        );
    }
}
