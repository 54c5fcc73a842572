//! The hardware clock that the kernel reads.

use crate::extras::{Extras, RiskAt};
use crate::facts::{Cloud, Facts, Hypervisor};
use crate::finding::{Finding, State, own};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Sources that a process reads without entering the kernel, the best first. Each source has a description.
const IN_USER_SPACE: [(&str, &str); 4] = [
    ("tsc", "a process reads it in user space"),
    ("kvm-clock", "a process reads it in user space, like tsc, and KVM corrects it for the host; AWS recommends it"),
    ("hyperv_clocksource_tsc_page", "a process reads it in user space, and Hyper-V corrects it for the host"),
    ("arch_sys_counter", "a process reads it in user space, and ARM has no other source"),
];

/// Sources that need a system call. Some also read a slow device or exit to the hypervisor.
const IN_THE_KERNEL: [&str; 5] = ["hpet", "acpi_pm", "xen", "jiffies", "refined-jiffies"];

pub(super) const KNOB: Knob = Knob {
    id: "clocksource",
    title: "the clock that the kernel reads",
    area: Area::Clock,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Name,
    default: "the source that the kernel rates highest",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A game server reads the clock many times per tick. With tsc, kvm-clock, the Hyper-V page and the ARM counter, \
        a process reads it itself in tens of nanoseconds. With hpet, acpi_pm or xen, each read enters the kernel and \
        may wait for a device or the hypervisor. Since Linux 5.10 the kernel prefers tsc to kvm-clock if the processor \
        guarantees that it counts evenly. Older Azure sizes do not offer tsc.",
    risk: "if the tsc is not invariant, the time is wrong after a frequency change or a live migration",
    shows_in: "the cost of a clock read, which `evenkeel measure` reports",
    kernels: "all",
    sources: &[
        Source {
            title: "Linux arch/x86/kernel/kvmclock.c",
            says: "rates kvm-clock below tsc (299 to 300) where the TSC is constant, nonstop and stable; since 5.10",
        },
        Source {
            title: "Linux drivers/clocksource/hyperv_timer.c",
            says: "rates the page lower where the TSC is invariant",
        },
        Source {
            title: "AWS re:Post Knowledge Center, manage-ec2-linux-clock-source",
            says: "kvm-clock on Nitro, where the kernel since 5.10 takes tsc by itself; tsc on Xen",
        },
        Source {
            title: "AWS, Deep Dive on Amazon EC2 Instances (2016)",
            says: "use tsc instead of xen, whose reads enter the kernel",
        },
        Source {
            title: "redpanda-data/redpanda issue 6290, scylladb/seastar issue 1778",
            says: "Azure offers only Hyper-V's page: you cannot force tsc",
        },
        Source {
            title: "measured on a 2-vCPU KVM guest, Linux 6.18",
            says: "a read takes 18.1 ns from tsc, 22.8 ns from kvm-clock",
        },
    ],
    extras: Extras {
        read_in: &[],
        // No counter shows clock reads. Each switch reads back that the source is in force.
        // A bad source costs a system call for each clock read, instead of a read in user space.
        effect: Some(Effect::Medium),
        risk_at: RiskAt::Values(&["tsc"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own(PATH, &facts.clock.current)?;
    let finding = if let Some((_, why)) = IN_USER_SPACE.iter().find(|(name, _)| *name == current) {
        let offers = |name: &str| facts.clock.offers(name) == Some(true);
        let prove = if current == "kvm-clock" && offers("tsc") && is_invariant(facts) == Some(true) {
            "; since 5.10 the kernel prefers tsc: run `evenkeel prove clocksource=tsc` to compare"
        } else if current == "tsc" && offers("kvm-clock") && is_on_aws(facts) {
            "; AWS recommends kvm-clock on Nitro, against the kernel's order: run `evenkeel prove \
                clocksource=kvm-clock` to compare"
        } else if current == "hyperv_clocksource_tsc_page" && offers("tsc") && is_invariant(facts) == Some(true) {
            "; tsc is also available and invariant: run `evenkeel prove clocksource=tsc` to see which costs less"
        } else {
            ""
        };
        Finding::keep(PATH, format!("{why}{prove}"))
    } else if IN_THE_KERNEL.contains(&current.as_str()) {
        from_the_kernel(facts, &current)
    } else {
        Finding::new(State::Unknown, PATH, format!("evenkeel does not know the clock source {current:?}"))
    };
    Ok(finding.at(current))
}

fn is_invariant(facts: &Facts) -> Option<bool> {
    facts.clock.tsc.known().map(|flags| flags.is_invariant())
}

fn from_the_kernel(facts: &Facts, current: &str) -> Finding {
    let Some(available) = facts.clock.available.known() else {
        return Finding::unknown(PATH, "which clock sources are available", &facts.clock.available);
    };
    let offered = |name: &str| available.iter().any(|offered| offered == name);
    let slow = format!("each read of {current} enters the kernel");
    let on_xen = facts.machine.hypervisor.known() == Some(&Hypervisor::Xen);
    match is_invariant(facts) {
        Some(true) if offered("tsc") => {
            Finding::set(PATH, "tsc", format!("{slow}; tsc is available, constant and nonstop"))
        }
        _ if offered("tsc") && on_xen && is_on_aws(facts) => {
            let reason = format!(
                "{slow}; tsc is available, and Amazon recommends it on Xen, but nothing guarantees that it is \
                    invariant: check the time after the instance has moved"
            );
            Finding::set(PATH, "tsc", reason)
        }
        invariant => match IN_USER_SPACE[1..].iter().find(|(name, _)| offered(name)) {
            Some((name, _)) => {
                Finding::set(PATH, name, format!("{slow}; {name} is available, and a process reads it in user space"))
            }
            None if !offered("tsc") => {
                let why = no_tsc(facts).map_or(String::new(), |why| format!("; {why}"));
                Finding::not_here(
                    PATH,
                    format!("{slow}, but no better source is available: {}{why}", available.join(", ")),
                )
            }
            None if invariant == Some(false) => {
                let missing = missing(facts).join(" and ");
                Finding::keep(
                    PATH,
                    format!(
                        "{slow}, but the available tsc is not invariant ({missing}): do not force it, because the \
                            time would be wrong after a move to another host"
                    ),
                )
            }
            None => Finding::unknown(PATH, "whether tsc is invariant", &facts.clock.tsc),
        },
    }
}

fn is_on_aws(facts: &Facts) -> bool {
    facts.machine.cloud.known() == Some(&Cloud::Aws)
}

/// The guarantees that the processor does not give for its counter.
fn missing(facts: &Facts) -> Vec<&'static str> {
    let Some(tsc) = facts.clock.tsc.known() else { return Vec::new() };
    let flags = [
        (tsc.constant, "constant_tsc is missing: it follows the frequency"),
        (tsc.nonstop, "nonstop_tsc is missing: it halts in idle"),
    ];
    flags.into_iter().filter(|(stands, _)| !stands).map(|(_, flag)| flag).collect()
}

/// Why the counter is not a clock source: an argument, a missing guarantee of the processor, or otherwise the kernel's own message.
fn no_tsc(facts: &Facts) -> Option<String> {
    if let Some(argument) = facts.clock.argument_against_tsc() {
        return Some(format!("{argument} on the kernel command line disables tsc: remove it"));
    }
    let said = facts.clock.tsc_log.known().and_then(|lines| lines.iter().find(|line| line.contains("unstable")));
    if let Some(line) = said {
        let line: String = line.chars().take(120).collect();
        return Some(format!("the kernel stopped using tsc: {line:?}"));
    }
    let missing = missing(facts);
    if !missing.is_empty() {
        return Some(format!("the processor does not guarantee enough for tsc: {}", missing.join(" and ")));
    }
    let tsc = facts.clock.tsc.known()?;
    tsc.is_invariant().then(|| {
        "tsc is invariant, but the kernel stopped using it: `dmesg` (as root) shows the reason under TSC".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::TscFlags;
    use crate::goal::Goal;
    use crate::testing::check;

    fn clock(current: &'static str, available: &'static str, invariant: Option<bool>) -> impl Fn(&mut Facts) {
        move |facts| {
            facts.clock.current = Fact::Known(current.into());
            facts.clock.available = Fact::Known(available.split_whitespace().map(str::to_owned).collect());
            facts.clock.tsc = match invariant {
                Some(nonstop) => Fact::Known(TscFlags { constant: true, nonstop, reliable: false }),
                None => Fact::absent("no flags in /proc/cpuinfo"),
            };
        }
    }

    fn on_xen(current: &'static str, available: &'static str, invariant: Option<bool>) -> impl Fn(&mut Facts) {
        move |facts| {
            clock(current, available, invariant)(facts);
            facts.machine.hypervisor = Fact::Known(Hypervisor::Xen);
        }
    }

    #[test]
    fn it_is_read_in_user_space_where_that_is_on_offer() {
        check(
            &KNOB,
            &[
                ("tsc", Goal::Latency, &|_| {}),
                ("kvm-clock, invariant", Goal::Latency, &clock("kvm-clock", "kvm-clock tsc acpi_pm", Some(true))),
                ("kvm-clock, not invariant", Goal::Latency, &clock("kvm-clock", "kvm-clock tsc", Some(false))),
                ("kvm-clock alone", Goal::Latency, &clock("kvm-clock", "kvm-clock", Some(true))),
                ("Azure", Goal::Latency, &clock(IN_USER_SPACE[2].0, IN_USER_SPACE[2].0, Some(true))),
                ("arm", Goal::Latency, &clock("arch_sys_counter", "arch_sys_counter", None)),
                ("hpet, tsc on offer", Goal::Density, &clock("hpet", "tsc hpet acpi_pm", Some(true))),
                ("hpet, tsc not invariant", Goal::Latency, &clock("hpet", "tsc hpet acpi_pm", Some(false))),
                ("hpet, flags unknown", Goal::Latency, &clock("hpet", "tsc hpet acpi_pm", None)),
                ("hpet, nothing better", Goal::Latency, &clock("hpet", "hpet acpi_pm", Some(true))),
                ("acpi_pm, kvm-clock on offer", Goal::Latency, &clock("acpi_pm", "acpi_pm kvm-clock", Some(false))),
                ("xen", Goal::Latency, &on_xen("xen", "xen tsc hpet acpi_pm", Some(true))),
                ("xen, not invariant", Goal::Latency, &on_xen("xen", "xen tsc hpet acpi_pm", Some(false))),
                ("xen, flags unknown", Goal::Latency, &on_xen("xen", "xen tsc", None)),
                ("xen at Amazon, not invariant", Goal::Latency, &|facts| {
                    on_xen("xen", "xen tsc", Some(false))(facts);
                    facts.machine.cloud = Fact::Known(Cloud::Aws);
                }),
                ("tsc at Amazon", Goal::Latency, &|facts| facts.machine.cloud = Fact::Known(Cloud::Aws)),
                (
                    "Azure, tsc on offer",
                    Goal::Latency,
                    &clock(IN_USER_SPACE[2].0, "hyperv_clocksource_tsc_page tsc", Some(true)),
                ),
                ("notsc", Goal::Latency, &|facts| {
                    clock("hpet", "hpet acpi_pm", Some(true))(facts);
                    facts.clock.arguments = Fact::Known(vec!["notsc".into()]);
                }),
                ("halts in idle", Goal::Latency, &clock("hpet", "hpet acpi_pm", Some(false))),
                ("given up", Goal::Latency, &|facts| {
                    clock("hpet", "hpet acpi_pm", Some(true))(facts);
                    let said =
                        ["tsc: Fast TSC calibration using PIT", "tsc: Marking TSC unstable due to TSC halts in idle"];
                    facts.clock.tsc_log = Fact::Known(said.map(str::to_owned).into());
                }),
                ("xen without tsc", Goal::Latency, &on_xen("xen", "xen", Some(true))),
                ("offer unknown", Goal::Latency, &|facts| {
                    facts.clock.current = Fact::Known("jiffies".into());
                    facts.clock.available = Fact::Denied { why: "EACCES".into() };
                }),
                ("another", Goal::Latency, &clock("riscv_clocksource", "riscv_clocksource", None)),
                ("not there", Goal::Latency, &|facts| facts.clock.current = Fact::absent("no such file")),
            ],
            expect![[r#"
                tsc (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "tsc": a process reads it in user space
                kvm-clock, invariant (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "kvm-clock": a process reads it in user space, like tsc, and KVM corrects it for the host; AWS recommends it; since 5.10 the kernel prefers tsc: run `evenkeel prove clocksource=tsc` to compare
                kvm-clock, not invariant (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "kvm-clock": a process reads it in user space, like tsc, and KVM corrects it for the host; AWS recommends it
                kvm-clock alone (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "kvm-clock": a process reads it in user space, like tsc, and KVM corrects it for the host; AWS recommends it
                Azure (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "hyperv_clocksource_tsc_page": a process reads it in user space, and Hyper-V corrects it for the host
                arm (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "arch_sys_counter": a process reads it in user space, and ARM has no other source
                hpet, tsc on offer (density)
                  set /sys/devices/system/clocksource/clocksource0/current_clocksource "hpet" -> "tsc": each read of hpet enters the kernel; tsc is available, constant and nonstop
                hpet, tsc not invariant (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "hpet": each read of hpet enters the kernel, but the available tsc is not invariant (nonstop_tsc is missing: it halts in idle): do not force it, because the time would be wrong after a move to another host
                hpet, flags unknown (latency)
                  unknown /sys/devices/system/clocksource/clocksource0/current_clocksource "hpet": whether tsc is invariant is not known: no flags in /proc/cpuinfo
                hpet, nothing better (latency)
                  not-here /sys/devices/system/clocksource/clocksource0/current_clocksource "hpet": each read of hpet enters the kernel, but no better source is available: hpet, acpi_pm; tsc is invariant, but the kernel stopped using it: `dmesg` (as root) shows the reason under TSC
                acpi_pm, kvm-clock on offer (latency)
                  set /sys/devices/system/clocksource/clocksource0/current_clocksource "acpi_pm" -> "kvm-clock": each read of acpi_pm enters the kernel; kvm-clock is available, and a process reads it in user space
                xen (latency)
                  set /sys/devices/system/clocksource/clocksource0/current_clocksource "xen" -> "tsc": each read of xen enters the kernel; tsc is available, constant and nonstop
                xen, not invariant (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "xen": each read of xen enters the kernel, but the available tsc is not invariant (nonstop_tsc is missing: it halts in idle): do not force it, because the time would be wrong after a move to another host
                xen, flags unknown (latency)
                  unknown /sys/devices/system/clocksource/clocksource0/current_clocksource "xen": whether tsc is invariant is not known: no flags in /proc/cpuinfo
                xen at Amazon, not invariant (latency)
                  set /sys/devices/system/clocksource/clocksource0/current_clocksource "xen" -> "tsc": each read of xen enters the kernel; tsc is available, and Amazon recommends it on Xen, but nothing guarantees that it is invariant: check the time after the instance has moved
                tsc at Amazon (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "tsc": a process reads it in user space; AWS recommends kvm-clock on Nitro, against the kernel's order: run `evenkeel prove clocksource=kvm-clock` to compare
                Azure, tsc on offer (latency)
                  keep /sys/devices/system/clocksource/clocksource0/current_clocksource "hyperv_clocksource_tsc_page": a process reads it in user space, and Hyper-V corrects it for the host; tsc is also available and invariant: run `evenkeel prove clocksource=tsc` to see which costs less
                notsc (latency)
                  not-here /sys/devices/system/clocksource/clocksource0/current_clocksource "hpet": each read of hpet enters the kernel, but no better source is available: hpet, acpi_pm; notsc on the kernel command line disables tsc: remove it
                halts in idle (latency)
                  not-here /sys/devices/system/clocksource/clocksource0/current_clocksource "hpet": each read of hpet enters the kernel, but no better source is available: hpet, acpi_pm; the processor does not guarantee enough for tsc: nonstop_tsc is missing: it halts in idle
                given up (latency)
                  not-here /sys/devices/system/clocksource/clocksource0/current_clocksource "hpet": each read of hpet enters the kernel, but no better source is available: hpet, acpi_pm; the kernel stopped using tsc: "tsc: Marking TSC unstable due to TSC halts in idle"
                xen without tsc (latency)
                  not-here /sys/devices/system/clocksource/clocksource0/current_clocksource "xen": each read of xen enters the kernel, but no better source is available: xen; tsc is invariant, but the kernel stopped using it: `dmesg` (as root) shows the reason under TSC
                offer unknown (latency)
                  unknown /sys/devices/system/clocksource/clocksource0/current_clocksource "jiffies": which clock sources are available is not known: EACCES
                another (latency)
                  unknown /sys/devices/system/clocksource/clocksource0/current_clocksource "riscv_clocksource": evenkeel does not know the clock source "riscv_clocksource"
                not there (latency)
                  not-here /sys/devices/system/clocksource/clocksource0/current_clocksource: not present here: no such file
            "#]],
        );
    }
}
