//! How many CPUs the kernel starts at boot. Guides use it to disable second threads.

use crate::extras::{CounterPlace, Extras};
use crate::facts::Facts;
use crate::finding::{Against, Finding, State};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

use crate::cores::Cores;
use crate::shapes::{cpus, one};

const ARGUMENT: &str = "maxcpus";

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.maxcpus",
    title: "how many CPUs the kernel starts at boot",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Number { min: 1, max: 8192, unit: "" },
    default: "all that are present",
    takes_effect: TakesEffect::Reboot,
    mechanism: "The kernel starts the CPUs 0 to N-1 and leaves the others offline, but any program may bring them online \
        later. The argument does not know about cores. Guides that use it to disable second threads assume that the \
        siblings are N and N plus half. If siblings have adjacent numbers, it disables the wrong half: whole cores \
        with both their threads. smt.control works by cores.",
    risk: "udev rules of Hyper-V and Xen guests bring the CPUs online again (Ubuntu 24.04 has 40-vm-hotadd.rules)",
    shows_in: "/sys/devices/system/cpu/online, thread_siblings_list of each CPU",
    kernels: "all",
    sources: &[
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "maxcpus=18 on a c4.8xlarge, whose siblings are N and N+18",
        },
        Source {
            title: "AWS, Deep Dive on Amazon EC2 Instances (2016)",
            says: "maxcpus=63, which is one core too few",
        },
        Source {
            title: "Linux Documentation/admin-guide/kernel-parameters.txt",
            says: "maxcpus= bounds what is started at boot; CPUs can be switched on later",
        },
    ],
    extras: Extras { read_in: &[CounterPlace::File("/sys/devices/system/cpu/online")], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let asked = facts.kernel.argument(ARGUMENT).and_then(|value| value.parse::<usize>().ok());
    let Some(present) = facts.cpus.present.known().map(|present| present.len()) else {
        return Err(Finding::unknown(ARGUMENT, "how many CPUs there are", &facts.cpus.present));
    };
    if let Some(asked) = asked {
        let finding = if Cores::from_facts(facts).is_some_and(|cores| has_neighbours(&cores)) {
            let reason = format!(
                "{} of {present} were started, and siblings have adjacent numbers here: both threads of some \
                    cores run, and none of others; remove it and use `smt.control`, which leaves one thread of each \
                    core",
                cpus(asked.min(present))
            );
            Finding::keep(ARGUMENT, reason)
        } else if 2 * (asked + 1) == present {
            let half = present / 2;
            let reason = format!(
                "{asked} is one less than half of {present} CPUs: with two threads per core, one core is missing"
            );
            Finding::set(ARGUMENT, half, reason)
        } else {
            Finding::keep(
                ARGUMENT,
                format!("{} of {present} were started, as the argument says", cpus(asked.min(present))),
            )
        };
        return Ok(finding.at(asked));
    }
    let Some(cores) = Cores::from_facts(facts) else {
        return Err(Finding::new(State::Unknown, ARGUMENT, "evenkeel does not know which CPUs share a core"));
    };
    if cores.threads() == 1 {
        let reason = "each core has one thread: every CPU left out is one core less";
        return Ok(Finding::not_here(ARGUMENT, reason).against(Against::Every));
    }
    let (count, firsts) = (cores.len(), cores.first_threads());
    if has_neighbours(&cores) {
        let reason = format!(
            "{ARGUMENT}={count} would leave CPUs 0-{}, which are both threads of half of the cores; one thread of \
                each core is {firsts}: `smt.control` disables the others",
            count - 1
        );
        return Ok(Finding::not_here(ARGUMENT, reason).against(Against::Every));
    }
    let reason = match goal {
        Goal::Latency => format!(
            "all threads of {count} cores run; {ARGUMENT}={count} would leave one of each (CPUs {firsts}); \
                `smt.control` does that without a reboot, if the kernel has it"
        ),
        Goal::Throughput | Goal::Density => format!("all threads of {count} cores run, which suits the goal {goal}"),
    };
    Ok(Finding::keep(ARGUMENT, reason))
}

/// Whether first and second threads alternate in the CPU numbers. If so, a number of CPUs does not select only first threads.
fn has_neighbours(cores: &Cores) -> bool {
    cores.first_threads() != (0..cores.len()).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, set, two_nodes, with_cpus};

    /// Makes siblings adjacent on a machine with four CPUs: 0 and 1, 2 and 3.
    fn neighbours(facts: &mut Facts) {
        for cpu in &mut facts.cpus.cpus {
            let first = cpu.cpu / 2 * 2;
            cpu.siblings = Fact::Known([first, first + 1].into_iter().collect());
        }
    }

    fn asked(argument: &'static str, present: &'static str) -> impl Fn(&mut Facts) {
        move |facts| {
            facts.kernel.command_line = Fact::Known(vec![argument.into()]);
            facts.cpus.present = Fact::Known(set(present));
        }
    }

    #[test]
    fn it_knows_nothing_of_cores() {
        check(
            &KNOB,
            &[
                ("N and N+2", Goal::Latency, &|_| {}),
                ("N and N+2", Goal::Density, &|_| {}),
                ("neighbours", Goal::Latency, &neighbours),
                ("c4.8xlarge", Goal::Latency, &two_nodes),
                ("one thread a core", Goal::Latency, &with_cpus(4)),
                ("63 of 128", Goal::Latency, &asked("maxcpus=63", "0-127")),
                ("64 of 128", Goal::Latency, &asked("maxcpus=64", "0-127")),
                ("siblings unknown", Goal::Latency, &|facts| {
                    facts.cpus.cpus[1].siblings = Fact::Denied { why: "EACCES".into() };
                }),
                ("present unknown", Goal::Latency, &|facts| facts.cpus.present = Fact::absent("no such file")),
            ],
            expect![[r#"
                N and N+2 (latency)
                  keep maxcpus: all threads of 2 cores run; maxcpus=2 would leave one of each (CPUs 0-1); `smt.control` does that without a reboot, if the kernel has it
                N and N+2 (density)
                  keep maxcpus: all threads of 2 cores run, which suits the goal density
                neighbours (latency)
                  not-here maxcpus: maxcpus=2 would leave CPUs 0-1, which are both threads of half of the cores; one thread of each core is 0,2: `smt.control` disables the others
                c4.8xlarge (latency)
                  keep maxcpus: all threads of 18 cores run; maxcpus=18 would leave one of each (CPUs 0-17); `smt.control` does that without a reboot, if the kernel has it
                one thread a core (latency)
                  not-here maxcpus: each core has one thread: every CPU left out is one core less
                63 of 128 (latency)
                  set maxcpus "63" -> "64": 63 is one less than half of 128 CPUs: with two threads per core, one core is missing
                64 of 128 (latency)
                  keep maxcpus "64": 64 CPUs of 128 were started, as the argument says
                siblings unknown (latency)
                  unknown maxcpus: evenkeel does not know which CPUs share a core
                present unknown (latency)
                  unknown maxcpus: how many CPUs there are is not known: no such file
            "#]],
        );
    }
}
