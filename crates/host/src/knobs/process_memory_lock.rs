//! Whether the server's memory stays in RAM.

use crate::extras::{Extras, Lasts, Owner, Process, ProcessFiles, ProcessValue, RiskAt, ServerUnit, UnitLimit};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};

const PLACE: &str = "process.memory_lock";

/// The name of the line in /proc/PID/limits.
const LIMIT: &str = "Max locked memory";

pub(super) const KNOB: Knob = Knob {
    id: "process.memory_lock",
    title: "locking the server's memory in RAM",
    area: Area::Process,
    place: Place::ByHand {
        how: "call mlockall(MCL_CURRENT | MCL_FUTURE) when the server starts, for {} of its memory, with LimitMEMLOCK=infinity in its unit",
    },
    values: Values::Words(&["all", "none"]),
    default: "none",
    takes_effect: TakesEffect::ProcessStart,
    mechanism: "Locked memory is faulted in immediately. The kernel neither swaps it out nor drops file pages of it, so no \
        tick waits for a page. Without swap that still matters for the server's code and mapped files. Memory that the \
        server allocates later is faulted in at that moment, so allocate arenas at the start.",
    risk: "everything that is mapped uses memory, whether used or not; a server that outgrows the machine is killed",
    shows_in: "VmLck in /proc/PID/status, major faults in /proc/PID/stat",
    kernels: "all",
    sources: &[
        Source { title: "mlock(2)", says: "what is locked, and that RLIMIT_MEMLOCK limits it without CAP_IPC_LOCK" },
        Source { title: "systemd.exec(5), LimitMEMLOCK=", says: "sets that limit for a service" },
    ],
    extras: Extras {
        process: Some(Process { of: Owner::Server, while_it_runs: false, has: Some(has), reset_by: None }),
        lasts: Some(Lasts::ServerUnit(ServerUnit {
            lines: |which| (which == "all").then(|| "LimitMEMLOCK=infinity\n".to_owned()),
            without_lines: Some(UnitLimit {
                why: "a server locks nothing unless it asks for it",
                todo: Some("do not call mlockall in the server"),
            }),
            only_permits: Some(UnitLimit {
                why: "a program's memory is locked by the program itself",
                todo: Some("the server calls mlockall(MCL_CURRENT | MCL_FUTURE) when it starts"),
            }),
            ..ServerUnit::NONE
        })),
        risk_at: RiskAt::Values(&["all"]),
        ..Extras::NONE
    },
    advise,
};

fn has(file: ProcessFiles<'_>, wanted: &str) -> Option<ProcessValue> {
    let limits = file("limits")?;
    let limit = limits.lines().find_map(|line| line.strip_prefix(LIMIT))?;
    let limit = limit.split_whitespace().next()?;
    Some(ProcessValue::new((limit == "unlimited") == (wanted == "all"), format!("at most {limit} bytes")))
}

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    let Some(swaps) = facts.memory.swaps.known() else {
        return vec![Finding::unknown(PLACE, "whether there is swap", &facts.memory.swaps)];
    };
    vec![match (context.goal, swaps.first()) {
        (Goal::Latency, Some(swap)) => Finding::set(
            PLACE,
            "all",
            format!("there is swap ({:?}): a page of the server may be swapped out when a tick needs it", swap.path),
        ),
        (Goal::Latency, None) => Finding::keep(
            PLACE,
            "there is no swap: the kernel can only drop code and mapped files, which shows as major faults of the \
                server",
        ),
        (goal, _) => {
            Finding::keep(PLACE, format!("others cannot use memory that is locked but idle, against the goal {goal}"))
        }
    }]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::facts::Swap;
    use crate::testing::check;

    fn swap(facts: &mut Facts) {
        let swap = Swap { path: "/swapfile".into(), kind: "file".into(), size_bytes: 1 << 30 };
        facts.memory.swaps = Fact::Known(vec![swap]);
    }

    #[test]
    fn it_matters_most_where_there_is_swap() {
        check(
            &KNOB,
            &[
                ("no swap", Goal::Latency, &|_| {}),
                ("swap", Goal::Latency, &swap),
                ("swap", Goal::Density, &swap),
                ("unknown", Goal::Latency, &|facts| facts.memory.swaps = Fact::absent("no /proc/swaps")),
            ],
            expect![[r#"
                no swap (latency)
                  keep process.memory_lock: there is no swap: the kernel can only drop code and mapped files, which shows as major faults of the server
                swap (latency)
                  set process.memory_lock ? -> "all": there is swap ("/swapfile"): a page of the server may be swapped out when a tick needs it
                swap (density)
                  keep process.memory_lock: others cannot use memory that is locked but idle, against the goal density
                unknown (latency)
                  unknown process.memory_lock: whether there is swap is not known: no /proc/swaps
            "#]],
        );
    }
}
