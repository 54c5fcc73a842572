//! The clock source that the kernel uses from boot on. The argument persists the choice of the knob `clocksource`.

use crate::extras::{CounterPlace, Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const ARGUMENT: &str = "clocksource";
const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.clocksource",
    title: "the clock source that the kernel selects at boot",
    area: Area::Clock,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Name,
    default: "none: the kernel selects the source that it rates highest",
    takes_effect: TakesEffect::Reboot,
    mechanism: "The kernel uses the named source if it is available at boot, and silently ignores one that is not. The knob \
        clocksource selects a source while the machine runs. It needs no reboot, and trials use it. This argument \
        makes a proven choice persist. It does not bring back a source that another argument (notsc, tsc=unstable) or \
        the kernel's own checks removed.",
    risk: "if the tsc is not invariant, the time is wrong after a frequency change or a live migration",
    shows_in: "/sys/devices/system/clocksource/clocksource0/current_clocksource after the boot",
    kernels: "all",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/kernel-parameters.txt, clocksource=",
            says: "overrides the default clock source; falls back where the named one is not available",
        },
        Source {
            title: "AWS, Deep Dive on Amazon EC2 Instances (2016)",
            says: "clocksource=tsc on the kernel's command line, on Xen",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::File(CURRENT)],
        along: Some(|value| Some((CURRENT, value))),
        risk_at: RiskAt::Values(&["tsc"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    if facts.kernel.command_line.known().is_none() {
        return Err(Finding::unknown(ARGUMENT, "the kernel's command line", &facts.kernel.command_line));
    }
    let Some(asked) = facts.kernel.argument(ARGUMENT) else {
        return Ok(Finding::keep(
            ARGUMENT,
            "the kernel selects the source; the knob clocksource changes it without a reboot, and this argument \
                makes it persist",
        ));
    };
    let current = match &facts.clock.current {
        Fact::Known(current) => current,
        unknown => return Err(Finding::unknown(ARGUMENT, "the clock source in force", unknown).at(asked)),
    };
    let finding = match facts.clock.offers(asked) {
        _ if current == asked => Finding::keep(ARGUMENT, "it is in use, as the argument says"),
        Some(false) => {
            let why = match facts.clock.argument_against_tsc() {
                Some(argument) if asked == "tsc" => format!("{argument} disables it: remove that argument"),
                _ => "the kernel ignored it: remove it".to_owned(),
            };
            Finding::keep(ARGUMENT, format!("{asked} is not available, and {current} is in use; {why}"))
        }
        Some(true) => {
            Finding::keep(ARGUMENT, format!("{asked} is available, but somebody selected {current} since the boot"))
        }
        None => {
            return Err(
                Finding::unknown(ARGUMENT, "which clock sources are available", &facts.clock.available).at(asked)
            );
        }
    };
    Ok(finding.at(asked))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn an_argument_brings_no_source_back() {
        let booted = |line: &'static str, current: &'static str, offered: &'static str| {
            move |facts: &mut Facts| {
                let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
                facts.clock.arguments = Fact::Known(arguments.clone());
                facts.kernel.command_line = Fact::Known(arguments);
                facts.clock.current = Fact::Known(current.into());
                facts.clock.available = Fact::Known(offered.split(' ').map(str::to_owned).collect());
            }
        };
        check(
            &KNOB,
            &[
                ("none", Goal::Latency, &|_| {}),
                ("in use", Goal::Latency, &booted("clocksource=tsc", "tsc", "tsc hpet")),
                ("not on offer", Goal::Latency, &booted("clocksource=tsc", "hpet", "hpet acpi_pm")),
                ("taken away", Goal::Latency, &booted("clocksource=tsc notsc", "hpet", "hpet acpi_pm")),
                ("changed since", Goal::Latency, &booted("clocksource=hpet", "tsc", "tsc hpet")),
                ("line unknown", Goal::Latency, &|facts| facts.kernel.command_line = Fact::Denied { why: "no".into() }),
            ],
            expect![[r#"
                none (latency)
                  keep clocksource: the kernel selects the source; the knob clocksource changes it without a reboot, and this argument makes it persist
                in use (latency)
                  keep clocksource "tsc": it is in use, as the argument says
                not on offer (latency)
                  keep clocksource "tsc": tsc is not available, and hpet is in use; the kernel ignored it: remove it
                taken away (latency)
                  keep clocksource "tsc": tsc is not available, and hpet is in use; notsc disables it: remove that argument
                changed since (latency)
                  keep clocksource "hpet": hpet is available, but somebody selected tsc since the boot
                line unknown (latency)
                  unknown clocksource: the kernel's command line is not known: no
            "#]],
        );
    }
}
