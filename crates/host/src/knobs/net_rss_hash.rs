//! The fields that select the receive queue of a UDP packet.

use crate::extras::{CounterPlace, Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::{Facts, Nic};
use crate::finding::{Finding, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::each_interface;

pub(super) const KNOB: Knob = Knob {
    id: "net.rss_hash",
    title: "the fields that select a UDP packet's queue",
    area: Area::Network,
    place: Place::ByHandEach { device: Device::Interface, how: "ethtool -N {device} rx-flow-hash udp4 {}" },
    values: Values::Words(&["sdfn", "sd"]),
    default: "set by the driver: Intel's drivers hash UDP only by addresses (from memory), others also by ports",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A device with several receive queues computes a hash of each packet's addresses (s, d) and, if configured, of \
        its ports (f, n). The hash selects the queue from a table. With addresses alone, all players behind one \
        address, a load balancer or a relay, share one queue and so one CPU. With the ports, they spread over the \
        queues. Fragments of a large packet carry no ports. They may go to another queue than whole packets and arrive \
        out of order.",
    risk: "fragmented packets arrive out of order or are lost; Azure's host drops many of them: keep packets under the \
        MTU",
    shows_in: "`ethtool -n DEVICE rx-flow-hash udp4`; the interrupts of each queue in /proc/interrupts",
    kernels: "depends on the driver: ENA from Linux 5.9 on and only on newer instances, virtio only if the host offers it",
    sources: &[
        Source {
            title: "Linux Documentation/networking/scaling.rst, RSS",
            says: "the hash covers addresses and ports, and some devices let you configure which",
        },
        Source {
            title: "amzn-drivers, ENA_Linux_Best_Practices.rst",
            says: "key and hash can be set on Nitro v3 with more network and on v4, from Linux 5.9 on",
        },
        Source {
            title: "Linux Documentation/networking/device_drivers/ethernet/microsoft/netvsc.rst",
            says: "the guest sets only the hash of what it sends; Azure loses fragmented UDP when ports are hashed",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/interrupts", names: &[] }],
        called: &["ethtool -N udp4"],
        risk_at: RiskAt::Values(&["sdfn"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, decide)
}

fn decide(nic: &Nic) -> Result<Finding, Finding> {
    let place = &nic.name;
    match &nic.queues {
        Fact::Known(queues) if queues.rx > 1 => {}
        Fact::Known(_) => return Err(Finding::not_here(place, "all packets come through one receive queue")),
        unknown => return Err(Finding::unknown(place, "how many receive queues it has", unknown)),
    }
    let rss = own(place, &nic.rss)?;
    let hashed = own(place, &rss.udp4)?;
    let has = |letter: char| hashed.contains(letter);
    let finding = match () {
        () if hashed == "none" => Finding::not_here(place, "the driver reports that it does not hash UDP packets"),
        () if has('f') && has('n') => {
            Finding::keep(place, "the ports also select the queue, so players behind one address are spread")
        }
        () if nic.driver.known().is_some_and(|driver| driver == "hv_netvsc") => {
            let reason = "only the addresses select the queue, and the host decides that: the guest sets it only for what \
                    it sends";
            Finding::keep(place, reason)
        }
        () => {
            let reason = format!(
                "only the addresses select the queue: all players behind one address share a CPU; run `ethtool -N \
                    {place} rx-flow-hash udp4 sdfn`"
            );
            Finding::set(place, "sdfn", reason)
        }
    };
    Ok(finding.at(hashed))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::facts::Rss;
    use crate::goal::Goal;
    use crate::testing::{check, nic, nics};

    fn with(udp4: Option<&'static str>) -> impl Fn(&mut Facts) {
        move |facts| {
            let rss = Rss {
                table: Fact::Known(128),
                queues: Fact::Known(4),
                key_bytes: Fact::Known(40),
                function: Fact::Known("toeplitz".into()),
                udp4: udp4.map_or(Fact::absent("the driver of eth0 does not report udp4"), |as_text| {
                    Fact::Known(as_text.into())
                }),
            };
            nics(facts)[0] = Nic { rss: Fact::Known(rss), ..nic("eth0", 4, 24) };
        }
    }

    #[test]
    fn ports_spread_players_behind_one_address() {
        check(
            &KNOB,
            &[
                ("one queue", Goal::Latency, &|_| {}),
                ("addresses", Goal::Latency, &with(Some("sd"))),
                ("addresses", Goal::Throughput, &with(Some("sd"))),
                ("ports too", Goal::Latency, &with(Some("sdfn"))),
                ("nothing", Goal::Latency, &with(Some("none"))),
                ("server unknown", Goal::Latency, &with(None)),
                ("Hyper-V", Goal::Latency, &|facts| {
                    with(Some("sd"))(facts);
                    nics(facts)[0].driver = Fact::Known("hv_netvsc".into());
                }),
                ("no hash", Goal::Latency, &|facts| nics(facts)[0] = nic("eth0", 4, 24)),
                ("queues unknown", Goal::Latency, &|facts| {
                    nics(facts)[0].queues = Fact::Denied { why: "EACCES".into() }
                }),
            ],
            expect![[r#"
                one queue (latency)
                  not-here eth0: all packets come through one receive queue
                addresses (latency)
                  set eth0 "sd" -> "sdfn": only the addresses select the queue: all players behind one address share a CPU; run `ethtool -N eth0 rx-flow-hash udp4 sdfn`
                addresses (throughput)
                  set eth0 "sd" -> "sdfn": only the addresses select the queue: all players behind one address share a CPU; run `ethtool -N eth0 rx-flow-hash udp4 sdfn`
                ports too (latency)
                  keep eth0 "sdfn": the ports also select the queue, so players behind one address are spread
                nothing (latency)
                  not-here eth0 "none": the driver reports that it does not hash UDP packets
                server unknown (latency)
                  not-here eth0: not present here: the driver of eth0 does not report udp4
                Hyper-V (latency)
                  keep eth0 "sd": only the addresses select the queue, and the host decides that: the guest sets it only for what it sends
                no hash (latency)
                  not-here eth0: not present here: operation not supported (EOPNOTSUPP)
                queues unknown (latency)
                  unknown eth0: how many receive queues it has is not known: EACCES
            "#]],
        );
    }
}
