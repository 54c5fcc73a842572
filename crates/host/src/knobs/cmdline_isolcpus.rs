//! CPUs that the scheduler leaves to pinned threads, from boot on.

use evenkeel_sys::CpuSet;

use crate::extras::{CounterPlace, Extras};
use crate::facts::Facts;
use crate::finding::{Against, Finding, State};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

use crate::cores::{Cores, network_cpus};
use crate::shapes::{cpus, one, usable_cpus};

const ARGUMENT: &str = "isolcpus";

/// On a machine with fewer CPUs, too few CPUs remain for everything else.
const CPUS_MIN: usize = 4;

pub(super) const KNOB: Knob = Knob {
    id: "cmdline.isolcpus",
    title: "CPUs that the scheduler does not use",
    area: Area::Cpu,
    place: Place::KernelArgument { name: ARGUMENT },
    values: Values::Cpus { may_be_empty: false },
    default: "none",
    takes_effect: TakesEffect::Reboot,
    mechanism: "An isolated CPU runs only threads that are pinned to it, and work that the kernel must do on each CPU. The \
        scheduler does not balance load there. If a server pins itself to a set of several isolated CPUs, all its \
        threads stay on one of them. So it must pin each thread separately. irqbalance avoids isolated CPUs. A control \
        group with cpuset.cpus.partition=isolated does the same without a reboot, and you can undo it.",
    risk: "a server with several threads uses one CPU unless it pins each thread; nothing else can use the CPUs until the \
        next reboot",
    shows_in: "/sys/devices/system/cpu/isolated, the gaps that the server sees",
    kernels: "all; cpuset.cpus.partition=isolated since 6.1",
    sources: &[
        Source {
            title: "Linux Documentation/admin-guide/kernel-parameters.txt",
            says: "isolcpus= cannot be undone at runtime: use cpusets",
        },
        Source {
            title: "Linux Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus.partition",
            says: "isolated partitions, without a reboot",
        },
        Source { title: "irqbalance(1)", says: "IRQBALANCE_BANNED_CPULIST; isolated CPUs are excluded by default" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "isolcpus, with a ban for irqbalance; its example writes a mask of CPUs in decimal",
        },
    ],
    extras: Extras { read_in: &[CounterPlace::File("/sys/devices/system/cpu/isolated")], ..Extras::NONE },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context))
}

fn decide(facts: &Facts, context: &AdviceContext) -> Result<Finding, Finding> {
    if let Some(isolated) = facts.cpus.isolated.known().filter(|isolated| !isolated.is_empty()) {
        let reason = format!("pin each thread of the server to one of them; {}", ban(isolated));
        return Ok(Finding::keep(ARGUMENT, reason).at(isolated));
    }
    let Some(count) = usable_cpus(facts) else {
        return Err(Finding::unknown(ARGUMENT, "how many CPUs there are", &facts.cpus.online));
    };
    if count < CPUS_MIN {
        let reason = format!("{}: the remaining CPUs would be too few for everything else", cpus(count));
        return Ok(Finding::not_here(ARGUMENT, reason).against(Against::Every));
    }
    if context.goal != Goal::Latency {
        return Ok(Finding::keep(
            ARGUMENT,
            format!("isolated CPUs are idle while threads wait elsewhere, against the goal {}", context.goal),
        ));
    }
    let Some(needs) = context.server.cpus else {
        return Ok(Finding::keep(ARGUMENT, "the CPUs depend on the server: give `--server cpus=N`"));
    };
    let Some(cores) = Cores::from_facts(facts) else {
        return Err(Finding::new(State::Unknown, ARGUMENT, "evenkeel does not know which CPUs share a core"));
    };
    let needs = usize::try_from(needs).unwrap_or(usize::MAX);
    let Some(apart) = cores.apart(needs, &network_cpus(facts)) else {
        let reason = format!(
            "a server that needs {} leaves no core of {} for other work and the network interrupts",
            cpus(needs),
            cores.len()
        );
        return Ok(Finding::not_here(ARGUMENT, reason).against(Against::Every));
    };
    let reason = format!(
        "whole cores without CPU 0 and the network interrupts, if the server pins each thread; {}{}",
        ban(&apart),
        partition(facts)
    );
    Ok(Finding::set(ARGUMENT, &apart, reason))
}

/// The setting for irqbalance. Some versions read the list, and others read the mask.
fn ban(cpus: &CpuSet) -> String {
    format!("irqbalance: IRQBALANCE_BANNED_CPULIST={cpus}, before 1.8 IRQBALANCE_BANNED_CPUS={}", cpus.to_mask(1))
}

fn partition(facts: &Facts) -> &'static str {
    match facts.kernel.is_at_least(6, 1) {
        Some(true) => "; this kernel does it without a reboot by cpuset.cpus.partition=isolated",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Version;
    use crate::goal::Server;
    use crate::testing::{base, check, set, two_nodes, with_cpus};

    #[test]
    fn it_takes_cpus_to_spare() {
        check(
            &KNOB,
            &[
                ("server unknown", Goal::Latency, &|_| {}),
                ("server unknown", Goal::Density, &|_| {}),
                ("2 CPUs", Goal::Latency, &with_cpus(2)),
                ("isolated", Goal::Latency, &|facts| facts.cpus.isolated = Fact::Known(set("2-3"))),
                ("CPUs unknown", Goal::Latency, &|facts| facts.cpus.online = Fact::absent("no such file")),
            ],
            expect![[r#"
                server unknown (latency)
                  keep isolcpus: the CPUs depend on the server: give `--server cpus=N`
                server unknown (density)
                  keep isolcpus: isolated CPUs are idle while threads wait elsewhere, against the goal density
                2 CPUs (latency)
                  not-here isolcpus: 2 CPUs: the remaining CPUs would be too few for everything else
                isolated (latency)
                  keep isolcpus "2-3": pin each thread of the server to one of them; irqbalance: IRQBALANCE_BANNED_CPULIST=2-3, before 1.8 IRQBALANCE_BANNED_CPUS=c
                CPUs unknown (latency)
                  unknown isolcpus: how many CPUs there are is not known: no such file
            "#]],
        );
    }

    #[test]
    fn a_server_gets_whole_cores_away_from_interrupts() {
        let as_text = |alter: &dyn Fn(&mut Facts), cpus| {
            let mut facts = base();
            alter(&mut facts);
            let server = Server { cpus: Some(cpus), ..Server::default() };
            let finding = advise(&facts, &AdviceContext { goal: Goal::Latency, server }).remove(0);
            format!("{:?} {}: {}\n", finding.state, finding.wanted.unwrap_or_default(), finding.reason)
        };
        let sixteen = |facts: &mut Facts| with_cpus(16)(facts);
        let old = |facts: &mut Facts| {
            two_nodes(facts);
            facts.kernel.version = Fact::Known(Version { major: 4, minor: 4, patch: 0 });
        };
        let rows =
            [as_text(&|_| {}, 1), as_text(&|_| {}, 3), as_text(&sixteen, 2), as_text(&sixteen, 14), as_text(&old, 4)];
        expect![[r#"
            Set 1,3: whole cores without CPU 0 and the network interrupts, if the server pins each thread; irqbalance: IRQBALANCE_BANNED_CPULIST=1,3, before 1.8 IRQBALANCE_BANNED_CPUS=a; this kernel does it without a reboot by cpuset.cpus.partition=isolated
            NotHere : a server that needs 3 CPUs leaves no core of 2 for other work and the network interrupts
            Set 14-15: whole cores without CPU 0 and the network interrupts, if the server pins each thread; irqbalance: IRQBALANCE_BANNED_CPULIST=14-15, before 1.8 IRQBALANCE_BANNED_CPUS=c000; this kernel does it without a reboot by cpuset.cpus.partition=isolated
            Set 2-15: whole cores without CPU 0 and the network interrupts, if the server pins each thread; irqbalance: IRQBALANCE_BANNED_CPULIST=2-15, before 1.8 IRQBALANCE_BANNED_CPUS=fffc; this kernel does it without a reboot by cpuset.cpus.partition=isolated
            Set 16-17,34-35: whole cores without CPU 0 and the network interrupts, if the server pins each thread; irqbalance: IRQBALANCE_BANNED_CPULIST=16-17,34-35, before 1.8 IRQBALANCE_BANNED_CPUS=c,00030000
        "#]].assert_eq(&rows.concat());
    }

    #[test]
    fn masks_of_the_white_paper_come_out_right() {
        let all_but_3_and_4 = set("0-15").without(&set("3-4"));
        assert!(ban(&all_but_3_and_4).ends_with("=ffe7"), "{}", ban(&all_but_3_and_4));
    }
}
