//! The dirty share of memory above which writers wait.

use crate::extras::{Counter, CounterPlace, Extras, RiskAt, TunedProfile};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::{AdviceContext, Goal};
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::{one, size};

const PATH: &str = "/proc/sys/vm/dirty_ratio";
const EXCLUSIVE_WITH: &str = "/proc/sys/vm/dirty_bytes";

/// The kernel's default, which Amazon's guide for game servers keeps.
const WANTED: i64 = 20;

pub(super) const KERNEL: Source = Source {
    title: "Linux Documentation/admin-guide/sysctl/vm.rst, dirty_ratio and its like",
    says: "meaning; only one of share and bytes is in use, and the other reads 0",
};
pub(super) const HANDLERS: Source = Source {
    title: "Linux mm/page-writeback.c",
    says: "a write to one sets the other to 0; the bytes cannot be set to 0",
};

pub(super) const KNOB: Knob = Knob {
    id: "vm.dirty_ratio",
    title: "dirty share of memory before writers wait",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: 100, unit: "percent" },
    default: "20",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Data that a program writes to a file stays in memory until the kernel writes it out. The share counts memory \
        that is free or holds files. When this share is dirty, the kernel makes writers wait. It slows them from \
        halfway between vm.dirty_background_ratio and this value. A server that logs from its tick thread waits too. \
        With a lower share the waits start earlier, but less data must be written out. vm.dirty_bytes is the same \
        limit in bytes; a write to one sets the other to 0.",
    risk: "a lower share slows bursts of writing that a higher one would absorb",
    shows_in: "Dirty and Writeback in /proc/meminfo, nr_dirty_threshold in /proc/vmstat",
    kernels: "all",
    sources: &[
        KERNEL,
        HANDLERS,
        Source {
            title: "AWS whitepaper, Optimizing Multiplayer Game Server Performance on AWS (2017)",
            says: "keep the default of 20",
        },
        Source {
            title: "TuneD, profile latency-performance",
            says: "10 % of memory as vm.dirty_bytes, against the other",
        },
        Source { title: "TuneD, profile throughput-performance", says: "40 % of memory" },
    ],
    extras: Extras {
        read_in: &[
            CounterPlace::Table { file: "/proc/vmstat", names: &["nr_dirty_threshold"] },
            CounterPlace::Table { file: "/proc/meminfo", names: &["Dirty", "Writeback"] },
        ],
        // Count written pages, not dirtied pages, because each line in a log dirties a page.
        counter: Some(Counter::WrittenPages),
        side_effects: &[EXCLUSIVE_WITH],
        // A write waits for a disk.
        effect: Some(Effect::Large),
        tuned: &[TunedProfile::NetworkLatency, TunedProfile::LatencyPerformance, TunedProfile::Throughput],
        risk_at: RiskAt::Lower,
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, context: &AdviceContext) -> Vec<Finding> {
    one(decide(facts, context.goal))
}

fn decide(facts: &Facts, goal: Goal) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    if let Some(bytes) = bytes_in_use(facts, EXCLUSIVE_WITH) {
        return Ok(Finding::keep(PATH, format!("vm.dirty_bytes is in use instead, with {}", size(bytes))).at(current));
    }
    let Some(pile) = share_of_memory(facts, current) else {
        return Err(Finding::unknown(PATH, "how much memory there is", &facts.memory.total_bytes).at(current));
    };
    let disk = match facts.disks.root.known() {
        Some(root) if facts.disks.each().count() == 1 => format!(" to {root}, the only disk"),
        _ => String::new(),
    };
    let finding = match goal {
        _ if current == 0 => Finding::set(
            PATH,
            WANTED,
            "every write waits for the disk: neither the share nor the bytes allow dirty memory",
        ),
        Goal::Latency if current > WANTED => Finding::set(
            PATH,
            WANTED,
            format!("up to {pile} may be dirty, and writers wait while the kernel writes it out{disk}"),
        ),
        Goal::Latency => Finding::keep(
            PATH,
            format!(
                "writers wait only when up to {pile} must be written out{disk}; Amazon's guide says 20, TuneD 10 \
                    %: for a server that writes much, run `evenkeel prove vm.dirty_ratio=10` to measure"
            ),
        ),
        Goal::Throughput | Goal::Density => {
            Finding::keep(PATH, format!("programs write bursts of up to {pile} without a wait"))
        }
    };
    Ok(finding.at(current))
}

/// The limit in bytes, if the knob in bytes is in use.
pub(super) fn bytes_in_use(facts: &Facts, path: &str) -> Option<u64> {
    facts.sysctl(path).known()?.parse().ok().filter(|bytes| *bytes > 0)
}

/// A share of all memory, as text. The kernel counts only memory that is free or holds files, so the text is an upper limit.
pub(super) fn share_of_memory(facts: &Facts, percent: i64) -> Option<String> {
    let percent = u64::try_from(percent).unwrap_or(0).min(100);
    Some(size(facts.memory.total_bytes.known()? / 100 * percent))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::testing::{check, disk, disks, with_sysctl};

    #[test]
    fn writers_wait_for_a_pile_that_is_named() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &|_| {}),
                ("default, two disks", Goal::Latency, &|facts| disks(facts).push(disk("vdb"))),
                ("default", Goal::Throughput, &|_| {}),
                ("TuneD's 40", Goal::Latency, &with_sysctl(PATH, "40")),
                ("TuneD's 40", Goal::Throughput, &with_sysctl(PATH, "40")),
                ("neither", Goal::Density, &with_sysctl(PATH, "0")),
                ("in bytes", Goal::Latency, &|facts| {
                    with_sysctl(PATH, "0")(facts);
                    with_sysctl(EXCLUSIVE_WITH, "268435456")(facts);
                }),
                ("memory unknown", Goal::Latency, &|facts| facts.memory.total_bytes = Fact::absent("no /proc/meminfo")),
            ],
            expect![[r#"
                default (latency)
                  keep /proc/sys/vm/dirty_ratio "20": writers wait only when up to 1.6 GiB must be written out to vda, the only disk; Amazon's guide says 20, TuneD 10 %: for a server that writes much, run `evenkeel prove vm.dirty_ratio=10` to measure
                default, two disks (latency)
                  keep /proc/sys/vm/dirty_ratio "20": writers wait only when up to 1.6 GiB must be written out; Amazon's guide says 20, TuneD 10 %: for a server that writes much, run `evenkeel prove vm.dirty_ratio=10` to measure
                default (throughput)
                  keep /proc/sys/vm/dirty_ratio "20": programs write bursts of up to 1.6 GiB without a wait
                TuneD's 40 (latency)
                  set /proc/sys/vm/dirty_ratio "40" -> "20": up to 3.2 GiB may be dirty, and writers wait while the kernel writes it out to vda, the only disk
                TuneD's 40 (throughput)
                  keep /proc/sys/vm/dirty_ratio "40": programs write bursts of up to 3.2 GiB without a wait
                neither (density)
                  set /proc/sys/vm/dirty_ratio "0" -> "20": every write waits for the disk: neither the share nor the bytes allow dirty memory
                in bytes (latency)
                  keep /proc/sys/vm/dirty_ratio "0": vm.dirty_bytes is in use instead, with 256 MiB
                memory unknown (latency)
                  unknown /proc/sys/vm/dirty_ratio "20": how much memory there is is not known: no /proc/meminfo
            "#]],
        );
    }

    #[test]
    fn the_keys_are_those_of_the_kernel() {
        use crate::setting::Setting;
        assert!(Setting::parse("vm.dirty_ratio=20").is_ok() && Setting::parse("vm.dirty_background_ratio=10").is_ok());
        let error = Setting::parse("dirty_background_ratio=10").unwrap_err().to_string();
        assert!(error.contains("did you mean \"vm.dirty_background_ratio\""), "{error}");
        assert!(Setting::parse("vm.dirty_bytes=0").is_err(), "the kernel refuses it");
    }
}
