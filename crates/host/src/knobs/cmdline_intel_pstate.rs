//! How Intel processors select their frequency, from boot on. Guides also name a value that the mainline kernel never had.

use crate::extras::{CounterPlace, Extras};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const ARGUMENT: &str = "intel_pstate";
const WORDS: &[&str] = &[
    "disable",
    "passive",
    "active",
    "force",
    "no_hwp",
    "hwp_only",
    "support_acpi_ppc",
    "per_cpu_perf_limits",
    "no_cas",
];

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.intel_pstate",
    title: "how Intel processors select their frequency",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Words(WORDS),
    default: "active if the processor selects by itself (HWP), else passive",
    takes_effect: TakesEffect::Reboot,
    mechanism: "active lets the driver or the processor select the frequency. passive makes it one driver among others under \
        the general governors. disable leaves the frequency to acpi-cpufreq. A server needs the governor performance \
        with either driver: cpufreq.governor sets it immediately, and cpufreq.default_governor= sets it at boot. \
        enable is not a value: Ubuntu's kernel 3.13 had it as an opt-in, and other kernels ignore it. Nearly all \
        virtual machines have no frequency driver.",
    risk: "the driver is not the one that the distribution tested",
    shows_in: "/sys/devices/system/cpu/intel_pstate/status, scaling_driver of each policy",
    kernels: "all on x86; the accepted words depend on the kernel",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/kernel-parameters.txt, intel_pstate=",
            says: "the words; enable is not among them",
        },
        Source { title: "Linux Documentation/admin-guide/pm/intel_pstate.rst", says: "active and passive mode" },
        Source {
            title: "notes on C-states and P-states of the c4.8xlarge under Ubuntu 14.04 (2015)",
            says: "intel_pstate=enable, which only that kernel knew",
        },
    ],
    extras: Extras { read_in: &[CounterPlace::File("/sys/devices/system/cpu/intel_pstate/status")], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    if let Some(asked) = facts.kernel.argument(ARGUMENT) {
        let finding = match WORDS.iter().find(|word| asked == **word) {
            Some(_) => Finding::keep(
                ARGUMENT,
                "somebody selected it; with either driver, a server needs the right cpufreq.governor",
            ),
            None => {
                let given: String = asked.chars().take(32).collect();
                let reason = format!("the kernel ignores {given:?}, which it does not know: remove it");
                Finding::keep(ARGUMENT, reason)
            }
        };
        return Ok(finding.at(asked));
    }
    match &facts.frequency.driver {
        Fact::Known(driver) if driver.starts_with("intel") => {
            Ok(Finding::keep(ARGUMENT, "the kernel selected the mode; a server needs the governor performance in it"))
        }
        Fact::Known(driver) => {
            Ok(Finding::not_here(ARGUMENT, format!("{driver} sets the frequency, not intel_pstate")))
        }
        Fact::Absent { .. } => Ok(Finding::not_here(
            ARGUMENT,
            "there is no frequency driver here: the hypervisor or the firmware controls the frequency",
        )),
        unknown => Err(Finding::unknown(ARGUMENT, "the frequency driver", unknown)),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_policies};

    #[test]
    fn enable_is_no_word() {
        let booted = |argument: &'static str| {
            move |facts: &mut Facts| facts.kernel.command_line = Fact::Known(vec![argument.into()])
        };
        check(
            &KNOB,
            &[
                ("a guest", Goal::Latency, &|_| {}),
                ("ubuntu's old word", Goal::Latency, &booted("intel_pstate=enable")),
                ("passive", Goal::Latency, &booted("intel_pstate=passive")),
                ("intel", Goal::Latency, &with_policies("intel_pstate", "powersave", None)),
                ("another driver", Goal::Latency, &with_policies("acpi-cpufreq", "ondemand", None)),
                ("unknown", Goal::Latency, &|facts| facts.frequency.driver = Fact::Denied { why: "EACCES".into() }),
            ],
            expect![[r#"
                a guest (latency)
                  not-here intel_pstate: there is no frequency driver here: the hypervisor or the firmware controls the frequency
                ubuntu's old word (latency)
                  keep intel_pstate "enable": the kernel ignores "enable", which it does not know: remove it
                passive (latency)
                  keep intel_pstate "passive": somebody selected it; with either driver, a server needs the right cpufreq.governor
                intel (latency)
                  keep intel_pstate: the kernel selected the mode; a server needs the governor performance in it
                another driver (latency)
                  not-here intel_pstate: acpi-cpufreq sets the frequency, not intel_pstate
                unknown (latency)
                  unknown intel_pstate: the frequency driver is not known: EACCES
            "#]],
        );
        assert!(KNOB.check("enable").is_err());
    }
}
