//! The kernel's mitigations of processor vulnerabilities, which cost time at each entry to the kernel.

use crate::extras::{CounterPlace, Extras, RiskAt};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const ARGUMENT: &str = "mitigations";

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.mitigations",
    title: "mitigations of processor vulnerabilities",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Words(&["auto", "auto,nosmt", "off"]),
    default: "auto",
    takes_effect: TakesEffect::Reboot,
    mechanism: "Each mitigation costs some time in system calls, interrupts or thread switches, most on old processors. A \
        server with many small packets makes many system calls. off removes all mitigations, and any program on the \
        machine may then read memory that it must not read. A newer instance type has fewer vulnerabilities and needs \
        fewer mitigations.",
    risk: "off: foreign code on the machine, such as a plug-in or an exploited server, may read all other memory",
    shows_in: "/sys/devices/system/cpu/vulnerabilities/*",
    kernels: "since 5.2, and in older kernels of distributions",
    sources: &[
        Source { title: "Linux Documentation/admin-guide/kernel-parameters.txt", says: "mitigations=" },
        Source { title: "Linux Documentation/admin-guide/hw-vuln/", says: "each vulnerability, and its mitigation" },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Folder("/sys/devices/system/cpu/vulnerabilities")],
        dangerous_values: &["off"],
        risk_at: RiskAt::Values(&["off"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let asked = facts.kernel.argument(ARGUMENT);
    let at = |finding: Finding| match asked {
        Some(asked) => finding.at(asked),
        None => finding,
    };
    let all = match &facts.cpus.vulnerabilities {
        Fact::Known(all) => all,
        Fact::Absent { .. } => {
            return Ok(at(Finding::not_here(ARGUMENT, "this kernel does not report vulnerabilities")));
        }
        unknown => return Err(at(Finding::unknown(ARGUMENT, "what the processor is vulnerable to", unknown))),
    };
    let active: Vec<&str> = all.iter().filter(|one| one.mitigation().is_some()).map(|one| one.name.as_str()).collect();
    let reason = match (asked, active.len()) {
        (Some("off"), _) => "mitigations are off: never run foreign code here".to_owned(),
        (_, 0) => format!("no mitigation is active for any of {} known vulnerabilities", all.len()),
        (_, count) => format!(
            "{count} mitigations are active ({}): they cost time in each system call and protect every program \
                here; a newer processor needs fewer",
            active.join(", ")
        ),
    };
    Ok(at(Finding::keep(ARGUMENT, reason)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::facts::Vulnerability;
    use crate::goal::Goal;
    use crate::testing::check;

    fn has(states: &'static [(&str, &str)]) -> impl Fn(&mut Facts) {
        let of =
            |(name, state): &(&str, &str)| Vulnerability { name: (*name).into(), state: Fact::Known((*state).into()) };
        move |facts| facts.cpus.vulnerabilities = Fact::Known(states.iter().map(of).collect())
    }

    #[test]
    fn mitigations_are_listed_and_never_changed() {
        check(
            &KNOB,
            &[
                (
                    "two at work",
                    Goal::Latency,
                    &has(&[
                        ("mds", "Not affected"),
                        ("meltdown", "Mitigation: PTI"),
                        ("spectre_v1", "Mitigation: barriers"),
                    ]),
                ),
                ("none", Goal::Latency, &has(&[("mds", "Not affected")])),
                ("off", Goal::Latency, &|facts| {
                    has(&[("meltdown", "Vulnerable")])(facts);
                    facts.kernel.command_line = Fact::Known(vec!["mitigations=off".into()]);
                }),
                ("old", Goal::Density, &|facts| facts.cpus.vulnerabilities = Fact::absent("no such folder")),
                ("denied", Goal::Density, &|facts| facts.cpus.vulnerabilities = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                two at work (latency)
                  keep mitigations: 2 mitigations are active (meltdown, spectre_v1): they cost time in each system call and protect every program here; a newer processor needs fewer
                none (latency)
                  keep mitigations: no mitigation is active for any of 1 known vulnerabilities
                off (latency)
                  keep mitigations "off": mitigations are off: never run foreign code here
                old (density)
                  not-here mitigations: this kernel does not report vulnerabilities
                denied (density)
                  unknown mitigations: what the processor is vulnerable to is not known: EACCES
            "#]],
        );
    }
}
