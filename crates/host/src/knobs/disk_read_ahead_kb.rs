//! How far the kernel reads ahead in a file that a program reads in order.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, TunedProfile};
use crate::fact::Fact;
use crate::facts::{Disk, Facts};
use crate::finding::Finding;
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Device, Knob, Place, Source, TakesEffect, Values};
use crate::reading::Reading;

/// TuneD raises the read-ahead to at least this number of KiB.
const ENOUGH_KB: u64 = 4096;

pub(super) const KNOB: Knob = Knob {
    id: "disk.read_ahead_kb",
    title: "how far files are read ahead",
    area: Area::Disk,
    place: Place::Each { device: Device::Disk, file: "queue/read_ahead_kb", reading: Reading::Plain },
    values: Values::Number { min: 0, max: 1 << 20, unit: "KiB" },
    default: "128",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "When a program reads a file in order, the kernel reads this much beyond it at once. A larger value loads maps \
        and assets faster from distant storage. But reads in random order then transfer data that nobody uses. It \
        matters while a server loads, not while people play.",
    risk: "the kernel reads more than programs use, which evicts other files from memory; open files keep the old value",
    shows_in: "the time that a server takes to load, pgpgin in /proc/vmstat",
    kernels: "all",
    sources: &[
        Source { title: "Linux Documentation/ABI/stable/sysfs-block, read_ahead_kb", says: "meaning and unit" },
        Source { title: "TuneD, profile throughput-performance", says: "at least 4096" },
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "disks rarely matter for game servers",
        },
    ],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/vmstat", names: &["pgpgin"] }],
        counter: Some(Counter::DiskRequests),
        tuned: &[TunedProfile::Throughput],
        called: &["tuned disk readahead", "blockdev --setra"],
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    let findings: Vec<Finding> = match &facts.disks.disks {
        Fact::Known(_) => facts.disks.each().map(|disk| decide(disk, context.goal)).collect(),
        unknown => vec![Finding::unknown("any disk", "which disks there are", unknown)],
    };
    if findings.is_empty() { vec![Finding::not_here("any disk", "there is no disk here")] } else { findings }
}

fn decide(disk: &Disk, goal: Goal) -> Finding {
    let Fact::Known(kb) = disk.read_ahead_kb else {
        return Finding::unknown(&disk.name, "its read-ahead", &disk.read_ahead_kb);
    };
    let finding = match goal {
        Goal::Throughput if kb < ENOUGH_KB => Finding::keep(
            &disk.name,
            format!(
                "TuneD raises {kb} to 4096; run `evenkeel prove disk.read_ahead_kb=4096` to see whether the \
                    server reads enough to gain"
            ),
        ),
        Goal::Throughput => Finding::keep(&disk.name, "the kernel reads files far ahead"),
        Goal::Latency | Goal::Density => {
            Finding::keep(&disk.name, "it matters while a server loads, not while people play")
        }
    };
    finding.at(kb)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, disk, disks};

    #[test]
    fn it_matters_while_a_server_loads() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &|_| {}),
                ("default", Goal::Throughput, &|_| {}),
                ("far", Goal::Throughput, &|facts| disks(facts)[0].read_ahead_kb = Fact::Known(8192)),
                ("dumb", Goal::Density, &|facts| {
                    disks(facts)[0] = Disk { read_ahead_kb: Fact::odd("/x", "?", "no number"), ..disk("vda") };
                }),
                ("no disk", Goal::Latency, &|facts| disks(facts).clear()),
            ],
            expect![[r#"
                default (latency)
                  keep vda "128": it matters while a server loads, not while people play
                default (throughput)
                  keep vda "128": TuneD raises 128 to 4096; run `evenkeel prove disk.read_ahead_kb=4096` to see whether the server reads enough to gain
                far (throughput)
                  keep vda "8192": the kernel reads files far ahead
                dumb (density)
                  unknown vda: its read-ahead is not known: no number
                no disk (latency)
                  not-here any disk: there is no disk here
            "#]],
        );
    }
}
