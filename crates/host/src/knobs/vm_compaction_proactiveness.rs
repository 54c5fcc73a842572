//! How eagerly the kernel makes memory contiguous in advance.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::one;

const PATH: &str = "/proc/sys/vm/compaction_proactiveness";

pub(super) const KNOB: Knob = Knob {
    id: "vm.compaction_proactiveness",
    title: "moving memory together in advance",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 0, max: 100, unit: "" },
    default: "20",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Background threads move pages, so that free memory is contiguous when a program wants huge pages. They move \
        pages of running processes. A process that touches such a page meanwhile waits in a page fault. Writing a \
        value above 0 starts a round immediately.",
    risk: "at 0, huge pages are found less often, or only after a wait at the fault",
    shows_in: "compact_daemon_wake and compact_migrate_scanned in /proc/vmstat",
    kernels: "since Linux 5.9, where built with CONFIG_COMPACTION",
    sources: &[Source {
        title: "Linux Documentation/admin-guide/sysctl/vm.rst, compaction_proactiveness",
        says: "range, default; moving pages may show as latency spikes in unsuspecting programs; 0 switches it off",
    }],
    extras: Extras {
        read_in: &[CounterPlace::Table {
            file: "/proc/vmstat",
            names: &["compact_daemon_wake", "compact_migrate_scanned"],
        }],
        counter: Some(Counter::Compaction),
        // The kernel moves or frees memory before the requesting thread continues.
        effect: Some(Effect::Large),
        risk_at: RiskAt::Values(&["0"]),
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let finding = match goal {
        _ if current <= 0 => Finding::keep(PATH, "the kernel moves no memory in advance"),
        Goal::Latency => Finding::set(
            PATH,
            0,
            format!(
                "at {current} the kernel may move the server's pages in the background, and a tick that touches \
                    one then waits"
            ),
        ),
        Goal::Throughput | Goal::Density => {
            Finding::keep(PATH, format!("the kernel finds huge pages sooner, and the goal {goal} can pay for that"))
        }
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn no_page_of_the_server_is_moved_ahead_of_need() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &|_| {}),
                ("default", Goal::Throughput, &|_| {}),
                ("off", Goal::Latency, &with_sysctl(PATH, "0")),
                ("an older kernel", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                default (latency)
                  set /proc/sys/vm/compaction_proactiveness "20" -> "0": at 20 the kernel may move the server's pages in the background, and a tick that touches one then waits
                default (throughput)
                  keep /proc/sys/vm/compaction_proactiveness "20": the kernel finds huge pages sooner, and the goal throughput can pay for that
                off (latency)
                  keep /proc/sys/vm/compaction_proactiveness "0": the kernel moves no memory in advance
                an older kernel (latency)
                  not-here /proc/sys/vm/compaction_proactiveness: not present here: the facts do not include /proc/sys/vm/compaction_proactiveness
            "#]],
        );
    }
}
