//! The CPUs on which the server's threads may run.

use evenkeel_hostfs::proc::field;
use evenkeel_sys::CpuSet;

use crate::extras::{CounterPlace, Extras, Lasts, Owner, Process, ProcessFiles, ProcessValue, ServerUnit};
use crate::facts::Facts;
use crate::finding::{Finding, State};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

use crate::cores::{Cores, network_cpus};
use crate::shapes::{cpus, one, usable_cpus};

/// The place of a manual step is the knob itself.
const PLACE: &str = "process.cpu_affinity";

pub(super) const KNOB: Knob = Knob {
    id: "process.cpu_affinity",
    title: "CPUs that the server's threads run on",
    area: Area::Process,
    place: Place::ByHand { how: "start the server under taskset -c {}, or with CPUAffinity={} in its systemd unit" },
    values: Values::Cpus { may_be_empty: false },
    default: "all that the control group allows",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "A thread that stays on its CPU keeps its caches. On a CPU that serves no network interrupt, no such interrupt \
        disturbs its tick. Whole cores keep other servers off its siblings. systemd sets the CPUs with CPUAffinity= or \
        AllowedCPUs=, and taskset for a single command. Kubernetes assigns whole CPUs with the static policy of its \
        CPU manager.",
    risk: "CPUs that the server does not use stay idle; a server with more threads than CPUs queues",
    shows_in: "se.nr_migrations in /proc/PID/sched, NET_RX in /proc/softirqs",
    kernels: "all; before 6.2, a change of the CPUs of the process's control group or of a group above it resets them",
    sources: &[
        Source {
            title: "sched_setaffinity(2)",
            says: "the kernel ignores CPUs outside the control group's set; if none is left, it returns EINVAL",
        },
        Source {
            title: "Linux, commit 8f9ea86fdf99 (6.2)",
            says: "since then the kernel remembers the CPUs that a process was given when a cpuset changes",
        },
        Source { title: "systemd.exec(5), CPUAffinity=", says: "sets it for a service" },
        Source {
            title: "AWS Compute Blog, Optimizing Network Intensive Workloads on Amazon EC2 A1 Instances",
            says: "interrupts on core 0, the server on the others",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/softirqs", names: &["NET_RX"] }],
        process: Some(Process {
            of: Owner::Server,
            while_it_runs: true,
            has: Some(has),
            reset_by: Some(
                "before Linux 6.2 by the kernel, when the CPUs of its control group or of a group above it change, as \
                    they do with AllowedCPUs= of another service",
            ),
        }),
        lasts: Some(Lasts::ServerUnit(ServerUnit {
            lines: |cpus| Some(format!("CPUAffinity=\nCPUAffinity={cpus}\n")),
            ..ServerUnit::NONE
        })),
        called: &["taskset", "numactl --physcpubind", "systemd CPUAffinity"],
        ..Extras::NONE
    },
    advise,
};

fn has(file: ProcessFiles<'_>, wanted: &str) -> Option<ProcessValue> {
    let status = file("status")?;
    let cpus = CpuSet::parse_list(field(&status, "Cpus_allowed_list", ':')?)?;
    Some(ProcessValue::new(cpus == CpuSet::parse_list(wanted)?, cpus.to_string()))
}

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    let Some(count) = usable_cpus(facts) else {
        return Err(Finding::unknown(PLACE, "how many CPUs there are", &facts.cpus.online));
    };
    if count <= 1 {
        return Ok(Finding::not_here(PLACE, "1 CPU: there is no choice"));
    }
    if context.goal != Goal::Latency {
        return Ok(Finding::keep(
            PLACE,
            format!("threads that may run anywhere leave no CPU idle, which suits the goal {}", context.goal),
        ));
    }
    if let Some(isolated) = facts.cpus.isolated.known().filter(|isolated| !isolated.is_empty()) {
        let reason = "they are isolated, so only pinned threads run there: pin each thread separately, because nothing \
                balances them";
        return Ok(Finding::set(PLACE, isolated, reason));
    }
    let Some(needs) = context.server.cpus else {
        return Ok(Finding::keep(PLACE, "evenkeel does not know how many CPUs it needs: give `--server cpus=N`"));
    };
    let Some(cores) = Cores::from_facts(facts) else {
        return Err(Finding::new(State::Unknown, PLACE, "evenkeel does not know which CPUs share a core"));
    };
    let (needs, busy) = (usize::try_from(needs).unwrap_or(usize::MAX), network_cpus(facts));
    let allowed = |apart: &CpuSet| facts.limits.cpus_allowed.known().is_none_or(|allowed| apart.is_subset(allowed));
    Ok(match cores.apart(needs, &busy) {
        Some(apart) if allowed(&apart) => {
            let reason = match busy.is_empty() {
                true => "whole cores without CPU 0".to_owned(),
                false => {
                    format!("whole cores without CPU 0 and without CPUs {busy}, which serve the network interrupts")
                }
            };
            Finding::set(PLACE, apart, reason)
        }
        Some(apart) => Finding::not_here(
            PLACE,
            format!("CPUs {apart} would suit, but the control group does not allow all of them"),
        ),
        None => Finding::keep(
            PLACE,
            format!("a server that needs {} of {count} leaves no core for other work", cpus(needs)),
        ),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Server;
    use crate::testing::{base, check, set, with_cpus};

    #[test]
    fn it_stays_away_from_interrupts() {
        check(
            &KNOB,
            &[
                ("server unknown", Goal::Latency, &|_| {}),
                ("server unknown", Goal::Throughput, &|_| {}),
                ("1 CPU", Goal::Latency, &with_cpus(1)),
                ("isolated", Goal::Latency, &|facts| facts.cpus.isolated = Fact::Known(set("2-3"))),
            ],
            expect![[r#"
                server unknown (latency)
                  keep process.cpu_affinity: evenkeel does not know how many CPUs it needs: give `--server cpus=N`
                server unknown (throughput)
                  keep process.cpu_affinity: threads that may run anywhere leave no CPU idle, which suits the goal throughput
                1 CPU (latency)
                  not-here process.cpu_affinity: 1 CPU: there is no choice
                isolated (latency)
                  set process.cpu_affinity ? -> "2-3": they are isolated, so only pinned threads run there: pin each thread separately, because nothing balances them
            "#]],
        );
    }

    #[test]
    fn a_server_gets_whole_cores() {
        let as_text = |alter: &dyn Fn(&mut Facts), cpus| {
            let mut facts = base();
            alter(&mut facts);
            let server = Server { cpus: Some(cpus), ..Server::default() };
            let finding = advise(&facts, &AdviceContext { goal: Goal::Latency, server }).remove(0);
            format!("{:?} {}: {}\n", finding.state, finding.wanted.unwrap_or_default(), finding.reason)
        };
        let confined = |facts: &mut Facts| facts.limits.cpus_allowed = Fact::Known(set("0-2"));
        let rows = [as_text(&|_| {}, 1), as_text(&|_| {}, 4), as_text(&confined, 2), as_text(&with_cpus(8), 4)];
        expect![[r#"
            Set 1,3: whole cores without CPU 0 and without CPUs 0, which serve the network interrupts
            Keep : a server that needs 4 CPUs of 4 leaves no core for other work
            NotHere : CPUs 1,3 would suit, but the control group does not allow all of them
            Set 4-7: whole cores without CPU 0 and without CPUs 0, which serve the network interrupts
        "#]]
        .assert_eq(&rows.concat());
    }
}
