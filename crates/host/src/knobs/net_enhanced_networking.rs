//! Whether packets bypass the hypervisor's software switch.

use crate::extras::Extras;
use crate::facts::{Cloud, Enhancement, Facts, Nic};
use crate::finding::{Finding, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::each_interface;

pub(super) const KNOB: Knob = Knob {
    id: "net.enhanced_networking",
    title: "network access without the hypervisor's software switch",
    area: Area::Network,
    place: Place::ByHandEach {
        device: Device::Interface,
        how: "in the settings of the cloud or of the hypervisor, for {device}: enhanced networking {}",
    },
    values: Values::Words(&["on", "paravirtual"]),
    default: "as the instance was created; on for every Nitro type",
    takes_effect: TakesEffect::Reboot,
    mechanism: "Without it, each packet passes a software switch on a host CPU that other machines also use. That takes \
        longer, and the delay varies. With it, the machine has its own part of the network card (SR-IOV), or the card \
        of its cloud. It is a setting of the instance: you must stop the instance to change it, and the image needs a \
        driver.",
    risk: "a machine without the driver in its image does not come back: make an image first; the host's addresses may \
        change",
    shows_in: "`ethtool -i`: the driver's name",
    kernels: "all that have the driver: ixgbevf, ena, gve, mlx4, mlx5, mana",
    sources: &[
        Source {
            title: "Amazon EC2 User Guide, Enhanced networking",
            says: "82599 functions for C3, C4, D2, I2, M4 and R3; ENA for H1, I3, G3, P2, P3, R4, m4.16xlarge and Nitro; \
                   more packets a second and steadier latency, at no charge",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "nearly every workload should gain; no drawback",
        },
        Source {
            title: "Microsoft Learn, How Accelerated Networking works in Linux and FreeBSD VMs",
            says: "a function of the host's card beside the synthetic interface: lower latency, less CPU time",
        },
        Source {
            title: "Linux Documentation/networking/device_drivers/ethernet/microsoft/netvsc.rst",
            says: "the function is bound to the synthetic interface, which takes over if the function disappears",
        },
    ],
    extras: Extras::NONE,
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    each_interface(facts, KNOB.id, |nic| decide(facts, nic))
}

fn decide(facts: &Facts, nic: &Nic) -> Result<Finding, Finding> {
    let place = &nic.name;
    if nic.enhanced.known().is_none() {
        return Err(Finding::unknown(place, "how its packets travel", &nic.enhanced));
    }
    let enhanced = own(place, &nic.enhanced)?;
    let finding = match enhanced.state {
        Enhancement::On => Finding::keep(place, enhanced.reason),
        Enhancement::Physical => return Err(Finding::not_here(place, enhanced.reason)),
        Enhancement::Paravirtual => Finding::keep(place, enhanced.reason).at("paravirtual"),
        Enhancement::Emulated => {
            let reason = format!(
                "{}: each packet interrupts the CPU several times; the operator of the hypervisor can give the \
                    machine virtio or vmxnet3",
                enhanced.reason
            );
            Finding::set(place, "paravirtual", reason)
        }
        Enhancement::Off => match offered(facts) {
            Ok(how) => Finding::set(place, "on", format!("{}; to change it: {how}", enhanced.reason)).at("off"),
            Err(why) => Finding::not_here(place, format!("{}, and {why}", enhanced.reason)).at("off"),
        },
    };
    Ok(match enhanced.state {
        Enhancement::On => finding.at("on"),
        _ => finding,
    })
}

/// How to enable enhanced networking in this cloud, or why this instance type cannot have it.
fn offered(facts: &Facts) -> Result<&'static str, String> {
    match facts.machine.cloud.known() {
        Some(Cloud::Aws) => of_aws(facts.machine.instance_type.known().map(String::as_str)),
        Some(Cloud::Azure) if facts.cpus.online.known().is_some_and(|online| online.len() == 1) => {
            Err("no size with 1 CPU has it: a larger one does".to_owned())
        }
        Some(Cloud::Azure) => {
            Ok("`az network nic update --accelerated-networking true`, with the machine deallocated, if its \
                                  size has it")
        }
        Some(Cloud::Gcp) => {
            Ok("you select gVNIC when you create an instance (`--network-interface=nic-type=GVNIC`), from an image \
                that has its driver; consider it for the next one")
        }
        _ => Err("evenkeel knows of nothing better here".to_owned()),
    }
}

fn of_aws(instance: Option<&str>) -> Result<&'static str, String> {
    const FUNCTIONS: &str = "`aws ec2 modify-instance-attribute --sriov-net-support simple`, with the instance stopped and \
                             ixgbevf in its image";
    const ENA: &str =
        "`aws ec2 modify-instance-attribute --ena-support`, with the instance stopped and ena in its image";
    let Some(instance) = instance else {
        return Ok(
            "stop it and change `sriov-net-support` or `ena-support`, depending on its type, which evenkeel does \
                not know",
        );
    };
    match instance.split_once('.').map_or(instance, |(family, _)| family) {
        _ if instance == "m4.16xlarge" => Ok(ENA),
        "c3" | "c4" | "d2" | "i2" | "m4" | "r3" => Ok(FUNCTIONS),
        "h1" | "i3" | "g3" | "p2" | "p3" | "r4" => Ok(ENA),
        _ => Err(format!("a {instance} has none: any type of Nitro does")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Enhanced;
    use crate::goal::Goal;
    use crate::testing::{check, nics, with_cpus};

    fn with(state: Enhancement, cloud: Cloud, instance: Option<&'static str>) -> impl Fn(&mut Facts) {
        move |facts| {
            facts.machine.cloud = Fact::Known(cloud);
            facts.machine.instance_type =
                instance.map_or(Fact::absent("server unknown"), |name| Fact::Known(name.into()));
            nics(facts)[0].enhanced =
                Fact::Known(Enhanced { state, reason: format!("reported by its driver, in {cloud:?}") });
        }
    }

    #[test]
    fn each_cloud_has_its_own() {
        use Enhancement::{Emulated, Off, On, Physical};
        check(
            &KNOB,
            &[
                ("virtio", Goal::Latency, &|_| {}),
                ("on", Goal::Latency, &with(On, Cloud::Aws, None)),
                ("m4", Goal::Latency, &with(Off, Cloud::Aws, Some("m4.xlarge"))),
                ("m4, the largest", Goal::Throughput, &with(Off, Cloud::Aws, Some("m4.16xlarge"))),
                ("r4", Goal::Latency, &with(Off, Cloud::Aws, Some("r4.large"))),
                ("t2", Goal::Latency, &with(Off, Cloud::Aws, Some("t2.small"))),
                ("server unknown", Goal::Latency, &with(Off, Cloud::Aws, None)),
                ("azure", Goal::Latency, &with(Off, Cloud::Azure, None)),
                ("azure, 1 CPU", Goal::Latency, &|facts| {
                    with(Off, Cloud::Azure, None)(facts);
                    with_cpus(1)(facts);
                }),
                ("google", Goal::Density, &with(Off, Cloud::Gcp, None)),
                ("imitated", Goal::Latency, &with(Emulated, Cloud::None, None)),
                ("no hypervisor", Goal::Latency, &with(Physical, Cloud::None, None)),
                ("unknown", Goal::Latency, &|facts| {
                    nics(facts)[0].enhanced = Fact::absent("the driver x is not known")
                }),
            ],
            expect![[r#"
                virtio (latency)
                  keep eth0 "paravirtual": virtio_net: nothing better is known
                on (latency)
                  keep eth0 "on": reported by its driver, in Aws
                m4 (latency)
                  set eth0 "off" -> "on": reported by its driver, in Aws; to change it: `aws ec2 modify-instance-attribute --sriov-net-support simple`, with the instance stopped and ixgbevf in its image
                m4, the largest (throughput)
                  set eth0 "off" -> "on": reported by its driver, in Aws; to change it: `aws ec2 modify-instance-attribute --ena-support`, with the instance stopped and ena in its image
                r4 (latency)
                  set eth0 "off" -> "on": reported by its driver, in Aws; to change it: `aws ec2 modify-instance-attribute --ena-support`, with the instance stopped and ena in its image
                t2 (latency)
                  not-here eth0 "off": reported by its driver, in Aws, and a t2.small has none: any type of Nitro does
                server unknown (latency)
                  set eth0 "off" -> "on": reported by its driver, in Aws; to change it: stop it and change `sriov-net-support` or `ena-support`, depending on its type, which evenkeel does not know
                azure (latency)
                  set eth0 "off" -> "on": reported by its driver, in Azure; to change it: `az network nic update --accelerated-networking true`, with the machine deallocated, if its size has it
                azure, 1 CPU (latency)
                  not-here eth0 "off": reported by its driver, in Azure, and no size with 1 CPU has it: a larger one does
                google (density)
                  set eth0 "off" -> "on": reported by its driver, in Gcp; to change it: you select gVNIC when you create an instance (`--network-interface=nic-type=GVNIC`), from an image that has its driver; consider it for the next one
                imitated (latency)
                  set eth0 ? -> "paravirtual": reported by its driver, in None: each packet interrupts the CPU several times; the operator of the hypervisor can give the machine virtio or vmxnet3
                no hypervisor (latency)
                  not-here eth0: reported by its driver, in None
                unknown (latency)
                  unknown eth0: how its packets travel is not known: the driver x is not known
            "#]],
        );
    }
}
