//! Who keeps the clock right, and whether the host offers a better clock to keep it by.

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
    title: "which service keeps the clock right",
    area: Area::Clock,
    place: Place::ByHand { how: "install {} and enable its service; see the reason for its clock" },
    values: Values::Words(&["chrony"]),
    default: "systemd-timesyncd or chrony, by the distribution",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A guest's clock drifts, and stands still while the guest does. A service that slews it keeps the time of day even; \
                one that steps it makes the time jump, which a server feels whose ticks go by the time of day (ticks belong \
                on the monotonic clock, which never steps). Where the host offers its own clock as a PTP device, \
                chrony reads it without any network: refclock PHC /dev/ptp0 poll 2.",
    risk: "a clock that is stepped during a match: makestep should be allowed at the start of the service only",
    shows_in: "chronyc tracking, timedatectl; /sys/class/ptp/ptp0/clock_name",
    kernels: "all; a PTP clock of the host with ptp_kvm, hv_utils, or the ena driver where it offers one",
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
        Some(name) => format!("; the clock {name:?} is there to be read without a network (refclock PHC /dev/ptp0)"),
        None => String::new(),
    };
    let chrony = keepers.iter().any(|name| name.starts_with("chrony"));
    Ok(match keepers.as_slice() {
        [] => Finding::set(PLACE, "chrony", format!("no service keeps the clock, which drifts{clock}")),
        _ if chrony => Finding::keep(PLACE, format!("chrony slews the clock{clock}")),
        [one] => Finding::keep(PLACE, format!("{one} keeps the clock; chrony slews where others may step{clock}")),
        several => Finding::keep(PLACE, format!("{} keep the clock: one is enough, and two fight", several.join(", "))),
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
                  keep clock.discipline: chrony slews the clock; the clock "KVM virtual PTP" is there to be read without a network (refclock PHC /dev/ptp0)
                timesyncd (latency)
                  keep clock.discipline: systemd-timesyncd keeps the clock; chrony slews where others may step
                two (latency)
                  keep clock.discipline: systemd-timesyncd, ntpd keep the clock: one is enough, and two fight
                none (latency)
                  set clock.discipline ? -> "chrony": no service keeps the clock, which drifts; the clock "hyperv" is there to be read without a network (refclock PHC /dev/ptp0)
                unknown (latency)
                  unknown clock.discipline: which service keeps the clock is not known: in a container
            "#]],
        );
    }
}
