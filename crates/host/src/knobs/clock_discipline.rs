//! Which service corrects the clock, and whether the host offers a better reference clock.

use crate::extras::{CounterPlace, Extras};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const PLACE: &str = "clock.discipline";

pub(super) const KNOB: Knob = Knob {
    id: "clock.discipline",
    title: "the service that keeps the clock correct",
    area: Area::Clock,
    place: Place::ByHand { how: "install {} and enable its service; see the reason for its clock" },
    values: Values::Words(&["chrony"]),
    default: "systemd-timesyncd or chrony, depending on the distribution",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A guest's clock drifts, and it stops while the guest is stopped. A service that slews the clock changes the \
        time of day smoothly. A service that steps it makes the time jump. Jumps disturb a server whose ticks follow \
        the time of day; ticks should use the monotonic clock, which never steps. If the host offers its own clock as \
        a PTP device, chrony can read it without a network: refclock PHC /dev/ptp0 poll 2.",
    risk: "a step during a match: allow makestep only when the service starts",
    shows_in: "chronyc tracking, timedatectl; /sys/class/ptp/ptp0/clock_name",
    kernels: "all; a PTP clock of the host needs ptp_kvm, hv_utils, or the ena driver where it offers one",
    sources: &[
        Source {
            title: "Linux drivers/ptp/ptp_kvm_common.c",
            says: "shows the host's clock to a KVM guest as a PTP clock",
        },
        Source { title: "chrony.conf(5), refclock PHC and makestep", says: "reads a PTP clock; when it may step" },
        Source {
            title: "amzn-drivers, ENA Linux driver README, PTP hardware clock",
            says: "the driver can offer the instance's clock as a PTP device",
        },
    ],
    extras: Extras { read_in: &[CounterPlace::File("/sys/class/ptp/ptp0/clock_name")], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let keepers = match &facts.daemons.clock_keepers {
        Fact::Known(keepers) => keepers,
        unknown => return Err(Finding::unknown(PLACE, "which service keeps the clock", unknown)),
    };
    let clock = match facts.clock.ptp.known().and_then(|names| names.first()) {
        Some(name) => format!("; chrony can read the clock {name:?} without a network (refclock PHC /dev/ptp0)"),
        None => String::new(),
    };
    let chrony = keepers.iter().any(|name| name.starts_with("chrony"));
    Ok(match keepers.as_slice() {
        [] => Finding::set(PLACE, "chrony", format!("no service corrects the clock, so it drifts{clock}")),
        _ if chrony => Finding::keep(PLACE, format!("chrony slews the clock{clock}")),
        [one] => Finding::keep(PLACE, format!("{one} corrects the clock; chrony slews, while others may step{clock}")),
        several => {
            Finding::keep(PLACE, format!("{} correct the clock: one is enough, and two conflict", several.join(", ")))
        }
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn somebody_keeps_the_clock() {
        let kept = |names: &'static [&'static str], ptp: &'static [&'static str]| {
            move |facts: &mut Facts| {
                facts.daemons.clock_keepers = Fact::Known(names.iter().map(|name| (*name).to_owned()).collect());
                facts.clock.ptp = Fact::Known(ptp.iter().map(|name| (*name).to_owned()).collect());
            }
        };
        check(
            &KNOB,
            &[
                ("chrony", Goal::Latency, &kept(&["chrony"], &["KVM virtual PTP"])),
                ("timesyncd", Goal::Latency, &kept(&["systemd-timesyncd"], &[])),
                ("two", Goal::Latency, &kept(&["systemd-timesyncd", "ntpd"], &[])),
                ("none", Goal::Latency, &kept(&[], &["hyperv"])),
                ("unknown", Goal::Latency, &|facts| facts.daemons.clock_keepers = Fact::absent("in a container")),
            ],
            expect![[r#"
                chrony (latency)
                  keep clock.discipline: chrony slews the clock; chrony can read the clock "KVM virtual PTP" without a network (refclock PHC /dev/ptp0)
                timesyncd (latency)
                  keep clock.discipline: systemd-timesyncd corrects the clock; chrony slews, while others may step
                two (latency)
                  keep clock.discipline: systemd-timesyncd, ntpd correct the clock: one is enough, and two conflict
                none (latency)
                  set clock.discipline ? -> "chrony": no service corrects the clock, so it drifts; chrony can read the clock "hyperv" without a network (refclock PHC /dev/ptp0)
                unknown (latency)
                  unknown clock.discipline: which service keeps the clock is not known: in a container
            "#]],
        );
    }
}
