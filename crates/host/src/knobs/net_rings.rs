//! How many packets the ring of a device's receive queue holds.

use crate::extras::{Extras, Lasts};
use crate::facts::{Facts, Nic};
use crate::finding::{Finding, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;

use crate::load::Load;
use crate::shapes::each_interface;

pub(super) const KNOB: Knob = Knob {
    id: "net.rings",
    title: "packets that a receive ring holds",
    area: Area::Network,
    place: Place::ByHandEach { device: Device::Interface, how: "ethtool -G {device} rx {}" },
    values: Values::Number { min: 1, max: 65_536, unit: "packets" },
    default: "set by the driver: 1024 for ENA",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "The device writes packets into this ring. The kernel takes them out when the CPU that serves the interrupt \
        gets to them. If that CPU is busy for longer than the ring lasts, packets are lost before the kernel sees \
        them, and no socket counter shows it. A larger ring uses more memory and cache. The change drops a few packets \
        and renumbers interrupts.",
    risk: "drops during the change; interrupts get new numbers, so you must set their CPUs again; more cache use",
    shows_in: "rx_overruns and the drops of each queue in `ethtool -S`",
    kernels: "depends on the driver; for virtio the host decides",
    sources: &[Source {
        title: "amzn-drivers, ENA_Linux_Best_Practices.rst",
        says: "up to 16K receive descriptors to avoid overruns",
    }],
    extras: Extras {
        // While the server stalls, every packet that no longer fits into the socket buffer or the ring is lost.
        effect: Some(Effect::Large),
        lasts: Some(Lasts::Link { keys: "RxBufferSize={}\n", since: 244 }),
        called: &["ethtool -G rx"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, |nic| decide(context, nic))
}

fn decide(context: &AdviceContext, nic: &Nic) -> Result<Finding, Finding> {
    let rings = own(&nic.name, &nic.rings)?;
    let lasts = match Load::from_server(&context.server) {
        Some(load) => {
            let us = u64::from(rings.rx).saturating_mul(1_000_000) / load.pps.max(1);
            format!(", which last {us} us of {}, all through one queue", load.label)
        }
        None => String::new(),
    };
    let more = if rings.rx < rings.rx_max {
        format!("up to {} if drops in `ethtool -S` rise", rings.rx_max)
    } else {
        "the maximum of the driver".to_owned()
    };
    Ok(Finding::keep(&nic.name, format!("{} packets per queue{lasts}; {more}", rings.rx)).at(rings.rx))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Rings;
    use crate::testing::{check_server, nics};

    #[test]
    fn drops_decide_about_rings() {
        check_server(
            &KNOB,
            &[
                ("", &|_| {}),
                ("pps=64000", &|_| {}),
                ("", &|facts| {
                    nics(facts)[0].rings = Fact::Known(Rings { rx: 256, tx: 256, rx_max: 256, tx_max: 256 });
                }),
                ("", &|facts| nics(facts)[0].rings = Fact::absent("operation not supported (EOPNOTSUPP)")),
            ],
            expect![[r#"
                nothing known
                  keep eth0 "256": 256 packets per queue; up to 1024 if drops in `ethtool -S` rise
                pps=64000
                  keep eth0 "256": 256 packets per queue, which last 4000 us of 64000 packets/s, all through one queue; up to 1024 if drops in `ethtool -S` rise
                nothing known
                  keep eth0 "256": 256 packets per queue; the maximum of the driver
                nothing known
                  not-here eth0: not present here: operation not supported (EOPNOTSUPP)
            "#]],
        );
    }
}
