//! CPUs whose timer tick stops while one thread runs there.

use crate::extras::{CounterPlace, Extras};
use crate::fact::Fact;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::shapes::one;

const ARGUMENT: &str = "nohz_full";

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.nohz_full",
    title: "CPUs without a timer tick while one thread runs",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Cpus { may_be_empty: false },
    default: "none",
    takes_effect: TakesEffect::Reboot,
    mechanism: "The kernel interrupts a busy CPU 100 to 1000 times a second for its accounting. On these CPUs it does not, as \
        long as only one thread can run there. It also moves RCU callbacks to other CPUs (rcu_nocbs). In return, every \
        entry to the kernel and every exit does its own accounting. A thread that computes without pause gains. A \
        server that sleeps between its ticks enters the kernel all the time, and an idle CPU has no timer tick anyway.",
    risk: "system calls cost more on these CPUs, other CPUs do their housekeeping, and scheduling statistics are less \
        exact",
    shows_in: "LOC in /proc/interrupts by CPU",
    kernels: "with CONFIG_NO_HZ_FULL, which not every distribution enables",
    sources: &[
        Source { title: "Linux Documentation/timers/no_hz.rst", says: "when the timer tick stops, and what it costs" },
        Source {
            title: "Linux Documentation/admin-guide/kernel-parameters.txt",
            says: "nohz_full=, which includes rcu_nocbs for its CPUs",
        },
        Source { title: "TuneD, profile cpu-partitioning", says: "nohz_full and rcu_nocbs for the isolated cores" },
    ],
    extras: Extras { read_in: &[CounterPlace::Table { file: "/proc/interrupts", names: &["LOC"] }], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let set = match &facts.cpus.nohz_full {
        Fact::Known(set) => set,
        Fact::Absent { .. } => {
            return Ok(Finding::not_here(ARGUMENT, "this kernel is built without CONFIG_NO_HZ_FULL"));
        }
        unknown => return Err(Finding::unknown(ARGUMENT, "which CPUs have no tick", unknown)),
    };
    if set.is_empty() {
        let reason = "only a thread that never sleeps and is alone on its CPU gains; a server that sleeps between ticks pays \
            for each system call";
        return Ok(Finding::keep(ARGUMENT, reason));
    }
    let reason = match facts.cpus.isolated.known() {
        Some(isolated) if !set.is_subset(isolated) => format!(
            "CPUs {} of them are not isolated: if more than one thread can run there, the timer tick continues",
            set.without(isolated)
        ),
        _ => "the timer tick stops while one thread runs; system calls cost more".to_owned(),
    };
    Ok(Finding::keep(ARGUMENT, reason).at(set))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, set};

    #[test]
    fn it_is_for_threads_that_never_sleep() {
        let without_tick = |facts: &mut Facts| facts.cpus.nohz_full = Fact::Known(set("2-3"));
        check(
            &KNOB,
            &[
                ("none", Goal::Latency, &|_| {}),
                ("not isolated", Goal::Latency, &without_tick),
                ("isolated", Goal::Latency, &|facts| {
                    without_tick(facts);
                    facts.cpus.isolated = Fact::Known(set("1-3"));
                }),
                ("not built in", Goal::Latency, &|facts| facts.cpus.nohz_full = Fact::absent("no such file")),
                ("odd", Goal::Latency, &|facts| facts.cpus.nohz_full = Fact::odd("/sys/x", "x", "no list")),
            ],
            expect![[r#"
                none (latency)
                  keep nohz_full: only a thread that never sleeps and is alone on its CPU gains; a server that sleeps between ticks pays for each system call
                not isolated (latency)
                  keep nohz_full "2-3": CPUs 2-3 of them are not isolated: if more than one thread can run there, the timer tick continues
                isolated (latency)
                  keep nohz_full "2-3": the timer tick stops while one thread runs; system calls cost more
                not built in (latency)
                  not-here nohz_full: this kernel is built without CONFIG_NO_HZ_FULL
                odd (latency)
                  unknown nohz_full: which CPUs have no tick is not known: no list
            "#]],
        );
    }
}
