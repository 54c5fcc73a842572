//! Whether the kernel yields a CPU while it does its own work.

use crate::extras::{Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const ARGUMENT: &str = "preempt";

pub(super) const KNOB: Knob = Knob {
    id: "kernel.preempt",
    title: "when kernel code yields the CPU to a thread",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Words(&["none", "voluntary", "full", "lazy"]),
    default: "set when the kernel was built; lazy since 7.0 where the architecture has it",
    takes_effect: TakesEffect::Reboot,
    mechanism: "A thread wakes while the kernel works for another thread on the same CPU. With none it waits until that work \
        ends. With voluntary it waits until the work reaches a point that yields. With full it interrupts the work. \
        lazy interrupts immediately for real-time threads, and for others at the next timer tick or return to user \
        space. At runtime, /sys/kernel/debug/sched/preempt switches the mode if the kernel's lockdown allows it.",
    risk: "full interrupts work more often, which lowers throughput",
    shows_in: "the wake latency of the server while its CPU is under load",
    kernels: "since 5.12, if built with CONFIG_PREEMPT_DYNAMIC; from 7.0 on, x86 accepts only full and lazy",
    sources: &[
        Source {
            title: "Linux kernel/Kconfig.preempt",
            says: "the purpose of each model; lazy is the default if the architecture has it",
        },
        Source {
            title: "Linux kernel/sched/core.c, sched_dynamic_mode",
            says: "refuses none and voluntary if the architecture has lazy (7.x)",
        },
        Source { title: "AWS APerf, analytics rules", says: "advises preempt=none, which 7.x refuses on x86" },
    ],
    extras: Extras { risk_at: RiskAt::Values(&["full"]), ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let asked = facts.kernel.argument(ARGUMENT);
    let model = facts.preemption.model.known().map(String::as_str);
    let at = |finding: Finding| match asked.or(model) {
        Some(current) => finding.at(current),
        None => finding,
    };
    match (facts.preemption.dynamic.known(), model) {
        (_, Some("rt")) => return Ok(at(Finding::keep(ARGUMENT, "a real-time kernel yields nearly everywhere"))),
        (Some(false), _) => {
            let model = model.unwrap_or("none or voluntary");
            return Ok(Finding::not_here(
                ARGUMENT,
                format!("this kernel was built as {model} and accepts no other model"),
            ));
        }
        (None, _) => {
            return Err(Finding::unknown(
                ARGUMENT,
                "the model that the kernel was built with",
                &facts.preemption.dynamic,
            ));
        }
        (Some(true), _) => {}
    }
    if let Some(word) = asked.filter(|word| is_refused(facts, word)) {
        let reason = format!("this kernel ignores {word} at boot");
        return Ok(at(match goal {
            Goal::Latency => Finding::set(ARGUMENT, "full", reason),
            Goal::Throughput | Goal::Density => Finding::keep(ARGUMENT, format!("{reason}: remove it")),
        }));
    }
    let Some(model) = model else {
        return Err(at(Finding::unknown(ARGUMENT, "the model in force", &facts.preemption.model)));
    };
    Ok(at(match (model, goal) {
        ("full", _) => Finding::keep(ARGUMENT, "kernel code yields to a waking thread"),
        (_, Goal::Throughput | Goal::Density) => {
            Finding::keep(ARGUMENT, format!("{model} interrupts less work, which suits the goal {goal}"))
        }
        ("lazy", Goal::Latency) => Finding::keep(
            ARGUMENT,
            "real-time threads need no more; other threads wait up to a timer tick for a busy CPU, which \
                preempt=full avoids",
        ),
        (_, Goal::Latency) => Finding::set(
            ARGUMENT,
            "full",
            format!("with {model}, a waking thread may wait until kernel work on its CPU reaches a point that yields"),
        ),
    }))
}

/// Whether the kernel does not accept this model.
/// If the architecture has lazy preemption, as x86 does, `sched_dynamic_mode` of 7.x accepts neither none nor voluntary.
fn is_refused(facts: &Facts, word: &str) -> bool {
    if let Some(on_offer) = facts.preemption.on_offer.known() {
        return !on_offer.iter().any(|offered| offered == word);
    }
    let is_x86 = facts.kernel.architecture.known().is_some_and(|name| name == "x86_64");
    matches!(word, "none" | "voluntary") && is_x86 && facts.kernel.is_at_least(7, 0) == Some(true)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Version;
    use crate::testing::check;

    fn offers(text: &'static str, chosen: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            facts.preemption.on_offer = Fact::Known(text.split(' ').map(str::to_owned).collect());
            facts.preemption.model = Fact::Known(chosen.into());
        }
    }

    fn booted(argument: &'static str) -> impl Fn(&mut Facts) {
        move |facts| facts.kernel.command_line = Fact::Known(vec![argument.into()])
    }

    #[test]
    fn it_can_be_chosen_where_the_kernel_was_built_for_it() {
        let locked = |facts: &mut Facts| {
            facts.preemption.on_offer = Fact::Denied { why: "EPERM".into() };
            facts.preemption.model = Fact::absent("chosen at boot, and only debugfs shows which");
        };
        check(
            &KNOB,
            &[
                ("voluntary", Goal::Latency, &|_| {}),
                ("voluntary", Goal::Throughput, &|_| {}),
                ("full", Goal::Latency, &offers("none voluntary full", "full")),
                ("7.3, lazy", Goal::Latency, &offers("full lazy", "lazy")),
                ("7.3, asked for none", Goal::Latency, &|facts| {
                    offers("full lazy", "lazy")(facts);
                    booted("preempt=none")(facts);
                }),
                ("7.3, asked for none under lockdown", Goal::Density, &|facts| {
                    locked(facts);
                    booted("preempt=none")(facts);
                    facts.kernel.version = Fact::Known(Version { major: 7, minor: 3, patch: 0 });
                }),
                ("under lockdown", Goal::Latency, &locked),
                ("built as full", Goal::Latency, &|facts| {
                    facts.preemption.dynamic = Fact::Known(false);
                    facts.preemption.model = Fact::Known("full".into());
                }),
                ("real-time", Goal::Latency, &offers("full lazy", "rt")),
                ("unknown", Goal::Latency, &|facts| facts.preemption.dynamic = Fact::absent("no /proc/version")),
            ],
            expect![[r#"
                voluntary (latency)
                  set preempt "voluntary" -> "full": with voluntary, a waking thread may wait until kernel work on its CPU reaches a point that yields
                voluntary (throughput)
                  keep preempt "voluntary": voluntary interrupts less work, which suits the goal throughput
                full (latency)
                  keep preempt "full": kernel code yields to a waking thread
                7.3, lazy (latency)
                  keep preempt "lazy": real-time threads need no more; other threads wait up to a timer tick for a busy CPU, which preempt=full avoids
                7.3, asked for none (latency)
                  set preempt "none" -> "full": this kernel ignores none at boot
                7.3, asked for none under lockdown (density)
                  keep preempt "none": this kernel ignores none at boot: remove it
                under lockdown (latency)
                  unknown preempt: the model in force is not known: chosen at boot, and only debugfs shows which
                built as full (latency)
                  not-here preempt: this kernel was built as full and accepts no other model
                real-time (latency)
                  keep preempt "rt": a real-time kernel yields nearly everywhere
                unknown (latency)
                  unknown preempt: the model that the kernel was built with is not known: no /proc/version
            "#]],
        );
    }
}
