//! The number of queues of a network device. Each queue has its own interrupt.

use crate::extras::{CounterPlace, Extras, Lasts};
use crate::facts::{Facts, Nic};
use crate::finding::{Finding, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::{cpus, each_interface, usable_cpus};

pub(super) const KNOB: Knob = Knob {
    id: "net.channels",
    title: "queues of a network device",
    area: Area::Network,
    place: Place::ByHandEach { device: Device::Interface, how: "ethtool -L {device} combined {}" },
    values: Values::Number { min: 1, max: 4096, unit: "queues" },
    default: "set by the driver: as many as CPUs for ENA, up to 8 or 32",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Each queue has an interrupt, and each interrupt takes time from a CPU. As many queues as CPUs spread the \
        packets over all CPUs, and no CPU runs only ticks. Fewer queues keep the other CPUs free. The change stops the \
        device briefly (less than 1 ms on ENA) and renumbers interrupts.",
    risk: "a short stop; interrupts get new numbers, so you must set their CPUs again; too few queues saturate their CPUs",
    shows_in: "`ethtool -l`; /proc/interrupts by CPU",
    kernels: "depends on the driver",
    sources: &[
        Source {
            title: "amzn-drivers, ENA_Linux_Best_Practices.rst",
            says: "as many queues as CPUs, up to 8 or 32; keep other work off the CPUs that serve interrupts",
        },
        Source {
            title: "Linux Documentation/networking/scaling.rst, RSS",
            says: "as few queues as work without overflow, for fewer interrupts",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/interrupts", names: &[] }],
        lasts: Some(Lasts::Link { keys: "CombinedChannels={}\n", since: 239 }),
        called: &["ethtool -L combined", "perftune num_rx_queues"],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, |nic| decide(facts, context, nic))
}

fn decide(facts: &Facts, context: &AdviceContext, nic: &Nic) -> Result<Finding, Finding> {
    let channels = own(&nic.name, &nic.channels)?;
    let Some(usable) = usable_cpus(facts) else {
        return Err(Finding::unknown(&nic.name, "how many CPUs there are", &facts.cpus.online));
    };
    let place = &nic.name;
    if channels.combined == 0 {
        let reason = format!(
            "{} receive and {} transmit queues, which the driver counts separately: `ethtool -L {place} rx N tx N`",
            channels.rx, channels.tx
        );
        return Ok(Finding::keep(place, reason));
    }
    let (current, most) = (channels.combined as usize, channels.combined_max as usize);
    let here = format!("{current} of {most} queues for {}", cpus(usable));
    let needed = context.server.cpus.and_then(|needed| usize::try_from(needed).ok());
    let spare = needed.map(|needed| (needed, usable.saturating_sub(needed)));
    let finding = match spare {
        Some((needed, spare)) if spare > 0 && current > spare => {
            let reason = format!(
                "{here}: with {spare}, their interrupts leave the server the {needed} that it needs; run `ethtool \
                    -L {place} combined {spare}`"
            );
            Finding::set(place, spare, reason)
        }
        Some((needed, 0)) => {
            Finding::keep(place, format!("{here}, and the server's {needed} leave no CPU for interrupts"))
        }
        Some((needed, _)) => Finding::keep(place, format!("{here}: enough remain for the server's {needed}")),
        None if context.goal == Goal::Throughput && current < most.min(usable) => {
            let reason = format!("{here}: more would spread the packets over more CPUs");
            Finding::set(place, most.min(usable), reason)
        }
        None => Finding::keep(
            place,
            format!("{here}; with `--server cpus=N` evenkeel checks whether enough CPUs remain for the server"),
        ),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Channels;
    use crate::testing::{check, check_server, nics, with_cpus};

    fn with(combined: u32, combined_max: u32) -> impl Fn(&mut Facts) {
        move |facts| {
            let channels = Channels { rx: 0, tx: 0, combined, rx_max: 0, tx_max: 0, combined_max };
            nics(facts)[0].channels = Fact::Known(channels);
        }
    }

    #[test]
    fn queues_leave_the_server_its_cpus() {
        check_server(
            &KNOB,
            &[
                ("", &with(4, 4)),
                ("cpus=2", &with(4, 4)),
                ("cpus=2", &with(2, 4)),
                ("cpus=4", &with(4, 4)),
                ("cpus=9", &with(4, 4)),
            ],
            expect![[r#"
                nothing known
                  keep eth0 "4": 4 of 4 queues for 4 CPUs; with `--server cpus=N` evenkeel checks whether enough CPUs remain for the server
                cpus=2
                  set eth0 "4" -> "2": 4 of 4 queues for 4 CPUs: with 2, their interrupts leave the server the 2 that it needs; run `ethtool -L eth0 combined 2`
                cpus=2
                  keep eth0 "2": 2 of 4 queues for 4 CPUs: enough remain for the server's 2
                cpus=4
                  keep eth0 "4": 4 of 4 queues for 4 CPUs, and the server's 4 leave no CPU for interrupts
                cpus=9
                  keep eth0 "4": 4 of 4 queues for 4 CPUs, and the server's 9 leave no CPU for interrupts
            "#]],
        );
    }

    #[test]
    fn throughput_wants_as_many_as_there_are_cpus() {
        check(
            &KNOB,
            &[
                ("1 of 8, 4 CPUs", Goal::Throughput, &|_| {}),
                ("1 of 8, 4 CPUs", Goal::Latency, &|_| {}),
                ("8 of 8, 4 CPUs", Goal::Throughput, &with(8, 8)),
                ("1 of 8, 36 CPUs", Goal::Throughput, &with_cpus(36)),
                ("counted on their own", Goal::Throughput, &|facts| {
                    let channels = Channels { rx: 4, tx: 4, combined: 0, rx_max: 4, tx_max: 4, combined_max: 0 };
                    nics(facts)[0].channels = Fact::Known(channels);
                }),
                ("server unknown", Goal::Throughput, &|facts| nics(facts)[0].channels = Fact::absent("EOPNOTSUPP")),
            ],
            expect![[r#"
                1 of 8, 4 CPUs (throughput)
                  set eth0 "1" -> "4": 1 of 8 queues for 4 CPUs: more would spread the packets over more CPUs
                1 of 8, 4 CPUs (latency)
                  keep eth0 "1": 1 of 8 queues for 4 CPUs; with `--server cpus=N` evenkeel checks whether enough CPUs remain for the server
                8 of 8, 4 CPUs (throughput)
                  keep eth0 "8": 8 of 8 queues for 4 CPUs; with `--server cpus=N` evenkeel checks whether enough CPUs remain for the server
                1 of 8, 36 CPUs (throughput)
                  set eth0 "1" -> "8": 1 of 8 queues for 36 CPUs: more would spread the packets over more CPUs
                counted on their own (throughput)
                  keep eth0: 4 receive and 4 transmit queues, which the driver counts separately: `ethtool -L eth0 rx N tx N`
                server unknown (throughput)
                  not-here eth0: not present here: EOPNOTSUPP
            "#]],
        );
    }
}
