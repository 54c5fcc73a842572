//! Packets that the cloud delayed or dropped because the instance exceeded its allowance.

use std::collections::BTreeMap;

use crate::extras::Extras;
use crate::fact::Fact;
use crate::facts::{Facts, Nic};
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::shapes::each_interface;

/// The suffix of ENA's allowance counters.
const END: &str = "_allowance_exceeded";

pub(super) const KNOB: Knob = Knob {
    id: "net.allowances",
    title: "packets beyond the instance's network allowance",
    area: Area::Network,
    place: Place::ByHandEach {
        device: Device::Interface,
        how: "for {device}, use a larger instance or security groups that track no connections, until {} packets exceed them",
    },
    values: Values::Number { min: 0, max: 0, unit: "packets" },
    default: "depends on the size of the instance",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Amazon limits each instance: bytes and packets per second, tracked connections, and packets per second to the \
        addresses of its own services. Traffic beyond a limit is queued or dropped outside the machine, and no kernel \
        counter shows it. Only ENA reports it. No setting inside the machine changes the limits. A UDP flow is not \
        tracked if the security group's rules allow all addresses in for its port and everything out.",
    risk: "a larger instance costs more; with rules that allow all addresses, the machine must filter by itself",
    shows_in: "the counters that end in _allowance_exceeded in `ethtool -S`, and `evenkeel inspect --counters`",
    kernels: "ENA, from driver 2.2.10 on (from memory)",
    sources: &[
        Source {
            title: "Amazon EC2 User Guide, Monitor network performance for ENA settings",
            says: "what each counter means: packets queued or dropped because an allowance was exceeded",
        },
        Source {
            title: "Amazon EC2 User Guide, Security group connection tracking",
            says: "UDP is untracked only if the rules allow 0.0.0.0/0 in and all traffic out",
        },
        Source { title: "APerf, its rules for ENA", says: "each of the counters is a finding when it rises" },
    ],
    extras: Extras {
        // Traffic beyond an allowance is queued for long or dropped.
        effect: Some(Effect::Large),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, |nic| decide(facts, nic))
}

fn decide(facts: &Facts, nic: &Nic) -> Result<Finding, Finding> {
    let place = &nic.name;
    let is_ena = nic.driver.known().is_some_and(|driver| driver == "ena");
    let not_counted = || Fact::absent("nobody counted");
    let losses = facts.counters.losses_of(place).cloned().unwrap_or_else(not_counted);
    let exceeded: BTreeMap<String, u64> = match losses {
        Fact::Known(losses) => losses.into_iter().filter(|(name, _)| name.ends_with(END)).collect(),
        _ if !is_ena => BTreeMap::new(),
        unknown => return Err(Finding::unknown(place, "how much exceeded its allowances", &unknown)),
    };
    if exceeded.is_empty() {
        return Err(Finding::not_here(place, "its driver does not count allowances; only ENA does"));
    }
    let total = exceeded.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
    let finding = match total {
        0 => Finding::keep(place, "traffic exceeded no allowance since the driver was loaded"),
        _ => {
            let as_text: Vec<String> =
                exceeded.iter().filter(|(_, count)| **count > 0).map(|(name, count)| as_text(name, *count)).collect();
            Finding::set(place, 0, format!("delayed or dropped since the driver was loaded: {}", as_text.join("; ")))
        }
    };
    Ok(finding.at(total))
}

/// A counter with the remedy.
fn as_text(name: &str, count: u64) -> String {
    let helps = match name.strip_suffix(END) {
        Some("bw_in" | "bw_out") => "a larger instance has more bandwidth",
        Some("pps") => "use a larger instance for more packets per second, or send fewer, fuller packets",
        Some("conntrack") => "a security group that allows all addresses in and everything out does not track UDP",
        Some("linklocal") => "query the cloud's DNS, time and metadata services less often, or cache their answers",
        _ => "see the cloud's documentation",
    };
    format!("{count} by {name} ({helps})")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::facts::NicCounters;
    use crate::goal::Goal;
    use crate::testing::{check, nics};

    fn with(counters: &'static [(&str, u64)]) -> impl Fn(&mut Facts) {
        move |facts| {
            nics(facts)[0].driver = Fact::Known("ena".into());
            let losses = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            facts.counters.nics = vec![NicCounters { name: "eth0".into(), losses: Fact::Known(losses) }];
        }
    }

    #[test]
    fn an_exceeded_allowance_is_reported_with_its_remedy() {
        let quiet: &[(&str, u64)] =
            &[("bw_in_allowance_exceeded", 0), ("pps_allowance_exceeded", 0), ("rx_overruns", 5)];
        let loud: &[(&str, u64)] = &[
            ("bw_in_allowance_exceeded", 0),
            ("bw_out_allowance_exceeded", 1),
            ("conntrack_allowance_exceeded", 2),
            ("linklocal_allowance_exceeded", 3),
            ("pps_allowance_exceeded", u64::MAX),
        ];
        check(
            &KNOB,
            &[
                ("virtio", Goal::Latency, &|_| {}),
                ("quiet", Goal::Latency, &with(quiet)),
                ("loud", Goal::Latency, &with(loud)),
                ("an old driver", Goal::Latency, &with(&[("rx_overruns", 5)])),
                ("not captured", Goal::Latency, &|facts| nics(facts)[0].driver = Fact::Known("ena".into())),
                ("refused", Goal::Latency, &|facts| {
                    with(&[])(facts);
                    facts.counters.nics[0].losses = Fact::Denied { why: "EPERM".into() };
                }),
            ],
            expect![[r#"
                virtio (latency)
                  not-here eth0: its driver does not count allowances; only ENA does
                quiet (latency)
                  keep eth0 "0": traffic exceeded no allowance since the driver was loaded
                loud (latency)
                  set eth0 "18446744073709551615" -> "0": delayed or dropped since the driver was loaded: 1 by bw_out_allowance_exceeded (a larger instance has more bandwidth); 2 by conntrack_allowance_exceeded (a security group that allows all addresses in and everything out does not track UDP); 3 by linklocal_allowance_exceeded (query the cloud's DNS, time and metadata services less often, or cache their answers); 18446744073709551615 by pps_allowance_exceeded (use a larger instance for more packets per second, or send fewer, fuller packets)
                an old driver (latency)
                  not-here eth0: its driver does not count allowances; only ENA does
                not captured (latency)
                  unknown eth0: how much exceeded its allowances is not known: nobody counted
                refused (latency)
                  unknown eth0: how much exceeded its allowances is not known: EPERM
            "#]],
        );
    }
}
