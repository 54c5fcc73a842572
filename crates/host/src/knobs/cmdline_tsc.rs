//! Whether the kernel trusts the time stamp counter without checking it.

use crate::extras::{Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::{Against, Finding};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const ARGUMENT: &str = "tsc";

/// The values without a check at runtime.
const UNCHECKED: &[&str] = &["reliable", "nowatchdog"];

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.tsc",
    title: "whether the kernel trusts the TSC unchecked",
    area: Area::Clock,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Words(&["reliable", "nowatchdog", "unstable"]),
    default: "checked against another clock, if there is one",
    takes_effect: TakesEffect::Reboot,
    mechanism: "The kernel compares the time stamp counter with another clock and stops using it when they differ. reliable \
        disables this check, at boot and later. If the counter is constant and nonstop, and in use, you save only the \
        check itself. If it is not, nobody notices errors of the clock.",
    risk: "time that jumps or drifts unnoticed, for example after a migration to another host",
    shows_in: "the clock source in force, \"clocksource\" in the kernel's log",
    kernels: "all on x86; nowatchdog since 5.6",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/kernel-parameters.txt",
            says: "tsc=reliable disables the checks at boot and at runtime",
        },
        Source { title: "TuneD, profile network-latency", says: "tsc=reliable" },
    ],
    extras: Extras { risk_at: RiskAt::Values(&["reliable", "nowatchdog"]), ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let asked = facts.kernel.argument(ARGUMENT);
    let finding = match (&facts.clock.tsc, facts.clock.current.known().map(String::as_str)) {
        (Fact::Known(tsc), Some("tsc")) if tsc.constant && tsc.nonstop => Finding::keep(
            ARGUMENT,
            "tsc is in use, constant and nonstop: reliable would only stop the check of it; TuneD sets it",
        ),
        (Fact::Known(tsc), Some(current)) if tsc.constant && tsc.nonstop => Finding::keep(
            ARGUMENT,
            format!(
                "{current} is in use: the knob clocksource selects the source, and reliable would only hide why \
                    tsc is not used"
            ),
        ),
        (Fact::Known(_), Some(_)) => Finding::not_here(
            ARGUMENT,
            "the counter is not constant and nonstop: without the check, nobody notices its errors",
        )
        .against(Against::Values(&UNCHECKED)),
        (Fact::Known(_), None) => {
            return Err(Finding::unknown(ARGUMENT, "the clock source in force", &facts.clock.current));
        }
        (Fact::Absent { .. }, _) => Finding::not_here(ARGUMENT, "this machine shows no time stamp counter"),
        (unknown, _) => return Err(Finding::unknown(ARGUMENT, "whether tsc is invariant", unknown)),
    };
    Ok(match asked {
        Some(asked) => finding.at(asked),
        None => finding,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::facts::TscFlags;
    use crate::goal::Goal;
    use crate::testing::check;

    #[test]
    fn trust_is_not_advised_blindly() {
        check(
            &KNOB,
            &[
                ("in use", Goal::Latency, &|_| {}),
                ("kvm-clock", Goal::Latency, &|facts| facts.clock.current = Fact::Known("kvm-clock".into())),
                ("not invariant", Goal::Latency, &|facts| {
                    facts.clock.tsc = Fact::Known(TscFlags { constant: true, nonstop: false, reliable: false });
                }),
                ("no counter", Goal::Latency, &|facts| facts.clock.tsc = Fact::absent("no flags")),
                ("asked for", Goal::Density, &|facts| {
                    facts.kernel.command_line = Fact::Known(vec!["tsc=reliable".into()])
                }),
            ],
            expect![[r#"
                in use (latency)
                  keep tsc: tsc is in use, constant and nonstop: reliable would only stop the check of it; TuneD sets it
                kvm-clock (latency)
                  keep tsc: kvm-clock is in use: the knob clocksource selects the source, and reliable would only hide why tsc is not used
                not invariant (latency)
                  not-here tsc: the counter is not constant and nonstop: without the check, nobody notices its errors
                no counter (latency)
                  not-here tsc: this machine shows no time stamp counter
                asked for (density)
                  keep tsc "reliable": tsc is in use, constant and nonstop: reliable would only stop the check of it; TuneD sets it
            "#]],
        );
    }
}
