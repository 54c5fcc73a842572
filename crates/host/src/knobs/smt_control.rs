//! Whether both threads of a core run.

use crate::extras::{Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, State, own};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;

use crate::cores::Cores;
use crate::shapes::{cpus, one};

const PATH: &str = "/sys/devices/system/cpu/smt/control";

pub(super) const KNOB: Knob = Knob {
    id: "smt.control",
    title: "whether all threads of a core run",
    area: Area::Cpu,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Words(&["on", "off"]),
    default: "on",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Two threads of a core share its execution units and its nearest caches, so work on one slows the other. With \
        SMT off, each core runs one thread: a tick takes the same time whatever else runs, and the machine has half as \
        many CPUs. The cloud can do the same before the machine starts (EC2: CpuOptions ThreadsPerCore=1). The kernel \
        then numbers only whole cores from the beginning.",
    risk: "half the CPUs are gone, and you still pay for them; tasks and interrupts of those CPUs move",
    shows_in: "thread_siblings_list of each CPU; the time of a tick while the sibling is busy",
    kernels: "since Linux 4.19; nosmt on the command line does it at boot",
    sources: &[
        Source {
            title: "Linux Documentation/ABI/testing/sysfs-devices-system-cpu, smt/control",
            says: "on, off, forceoff, notsupported, notimplemented",
        },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "performance may improve without hyper-threading",
        },
        Source { title: "Amazon EC2 User Guide, CPU options", says: "ThreadsPerCore=1 when an instance is launched" },
    ],
    extras: Extras {
        read_in: &[],
        // Each switch reads back which CPUs run.
        risk_at: RiskAt::Values(&["off"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    let current = own(PATH, &facts.cpus.smt_control)?;
    let finding = match current.as_str() {
        "on" => of_threads(facts, context),
        "off" => Finding::keep(PATH, "one thread of each core runs"),
        "forceoff" => Finding::keep(PATH, "one thread of each core runs, and only a reboot can change that"),
        "notsupported" => Finding::not_here(PATH, "cores have one thread here: there is nothing to disable"),
        "notimplemented" => Finding::not_here(PATH, "the kernel does not disable threads on this architecture"),
        other => Finding::not_here(PATH, format!("the kernel reports {other:?}, which evenkeel does not know")),
    };
    Ok(finding.at(current))
}

fn of_threads(facts: &Facts, context: &AdviceContext) -> Finding {
    let Some(cores) = Cores::from_facts(facts) else {
        return Finding::new(State::Unknown, PATH, "evenkeel does not know which CPUs share a core");
    };
    let count = cores.len();
    if cores.threads() == 1 {
        return Finding::not_here(PATH, "each core shows one thread: there is nothing to disable");
    }
    if context.goal != Goal::Latency {
        return Finding::keep(
            PATH,
            format!(
                "threads that share {count} cores do more work than {count} threads would, which suits the goal {}",
                context.goal
            ),
        );
    }
    match context.server.cpus {
        // One core stays for the kernel, the interrupts and everything else.
        Some(needs) if needs < count as u64 => Finding::set(
            PATH,
            "off",
            format!(
                "{count} cores are enough for a server that needs {}, and no sibling slows a tick; EC2 does it at \
                    launch with ThreadsPerCore=1; run `evenkeel prove {}=off` to measure the gain",
                cpus(needs as usize),
                KNOB.id
            ),
        ),
        Some(needs) => {
            Finding::keep(PATH, format!("{count} cores are too few for a server that needs {}", cpus(needs as usize)))
        }
        None => Finding::keep(
            PATH,
            format!(
                "off would leave {count} of the CPUs; whether they are enough depends on the server: give \
                    `--server cpus=N`, or run `evenkeel prove {}=off`",
                KNOB.id
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Server;
    use crate::testing::{base, check, with_cpus};

    fn smt(control: &'static str) -> impl Fn(&mut Facts) {
        move |facts| facts.cpus.smt_control = Fact::Known(control.into())
    }

    #[test]
    fn it_depends_on_the_server() {
        check(
            &KNOB,
            &[
                ("on", Goal::Latency, &smt("on")),
                ("on", Goal::Density, &smt("on")),
                ("off", Goal::Latency, &smt("off")),
                ("forceoff", Goal::Latency, &smt("forceoff")),
                ("notsupported", Goal::Latency, &smt("notsupported")),
                ("notimplemented", Goal::Latency, &smt("notimplemented")),
                ("on with one thread a core", Goal::Latency, &|facts| {
                    with_cpus(4)(facts);
                    smt("on")(facts);
                }),
                ("siblings unknown", Goal::Latency, &|facts| {
                    facts.cpus.cpus[0].siblings = Fact::Denied { why: "EACCES".into() };
                }),
                ("before 4.19", Goal::Latency, &|facts| facts.cpus.smt_control = Fact::absent("no such file")),
            ],
            expect![[r#"
                on (latency)
                  keep /sys/devices/system/cpu/smt/control "on": off would leave 2 of the CPUs; whether they are enough depends on the server: give `--server cpus=N`, or run `evenkeel prove smt.control=off`
                on (density)
                  keep /sys/devices/system/cpu/smt/control "on": threads that share 2 cores do more work than 2 threads would, which suits the goal density
                off (latency)
                  keep /sys/devices/system/cpu/smt/control "off": one thread of each core runs
                forceoff (latency)
                  keep /sys/devices/system/cpu/smt/control "forceoff": one thread of each core runs, and only a reboot can change that
                notsupported (latency)
                  not-here /sys/devices/system/cpu/smt/control "notsupported": cores have one thread here: there is nothing to disable
                notimplemented (latency)
                  not-here /sys/devices/system/cpu/smt/control "notimplemented": the kernel does not disable threads on this architecture
                on with one thread a core (latency)
                  not-here /sys/devices/system/cpu/smt/control "on": each core shows one thread: there is nothing to disable
                siblings unknown (latency)
                  unknown /sys/devices/system/cpu/smt/control "on": evenkeel does not know which CPUs share a core
                before 4.19 (latency)
                  not-here /sys/devices/system/cpu/smt/control: not present here: no such file
            "#]],
        );
    }

    #[test]
    fn a_server_that_fits_the_cores_gets_them_whole() {
        let advice = |cpus| {
            let server = Server { cpus: Some(cpus), ..Server::default() };
            let finding = advise(&base(), &AdviceContext { goal: Goal::Latency, server }).remove(0);
            (finding.state, finding.wanted)
        };
        assert_eq!(advice(1), (State::Set, Some("off".into())));
        assert_eq!(advice(2), (State::Keep, None));
    }
}
