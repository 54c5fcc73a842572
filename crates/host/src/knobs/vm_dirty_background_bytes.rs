//! The dirty bytes above which the kernel writes in the background: vm.dirty_background_ratio in bytes.

use crate::extras::{Counter, CounterPlace, Extras, TunedProfile};
use crate::facts::Facts;
use crate::finding::Finding;
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::{one, spelled_in_bytes};

use super::vm_dirty_ratio::{HANDLERS, KERNEL};

const PATH: &str = "/proc/sys/vm/dirty_background_bytes";
const EXCLUSIVE_WITH: &str = "/proc/sys/vm/dirty_background_ratio";

pub(super) const KNOB: Knob = Knob {
    id: "vm.dirty_background_bytes",
    title: "dirty bytes before background writing starts",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1, max: i64::MAX, unit: "bytes" },
    default: "0: vm.dirty_background_ratio is in use",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "Above this limit the kernel starts to write dirty data out in the background. It is a number of bytes, while \
        vm.dirty_background_ratio is a share of memory. On a machine with much memory, it allows finer values than 1 \
        %. A write to it sets the share to 0. To go back, write the share: the kernel refuses 0 here (the minimum is \
        1).",
    risk: "with too small a value, every burst of writing waits for the disk",
    shows_in: "Dirty and Writeback in /proc/meminfo",
    kernels: "all",
    sources: &[KERNEL, HANDLERS, Source { title: "TuneD, profile latency-performance", says: "3 % of memory" }],
    extras: Extras {
        read_in: &[CounterPlace::Table { file: "/proc/meminfo", names: &["Dirty", "Writeback"] }],
        // Count written pages, not dirtied pages, because each line in a log dirties a page.
        counter: Some(Counter::WrittenPages),
        side_effects: &[EXCLUSIVE_WITH],
        // A write waits for a disk.
        effect: Some(Effect::Large),
        tuned: &[TunedProfile::NetworkLatency, TunedProfile::LatencyPerformance, TunedProfile::Throughput],
        ..Extras::NONE
    },
    advise,
};

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(spelled_in_bytes(facts, PATH, "vm.dirty_background_ratio"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::goal::Goal;
    use crate::testing::{check, with_sysctl};

    #[test]
    fn the_start_in_bytes_is_only_one_spelling() {
        check(
            &KNOB,
            &[
                ("the share is in use", Goal::Latency, &|_| {}),
                ("bytes are in use", Goal::Latency, &with_sysctl(PATH, "268435456")),
                ("not there", Goal::Latency, &|facts| facts.sysctls.clear()),
            ],
            expect![[r#"
                the share is in use (latency)
                  keep /proc/sys/vm/dirty_background_bytes "0": vm.dirty_background_ratio is in use instead
                bytes are in use (latency)
                  keep /proc/sys/vm/dirty_background_bytes "268435456": this one is in use, with 256 MiB
                not there (latency)
                  not-here /proc/sys/vm/dirty_background_bytes: not present here: the facts do not include /proc/sys/vm/dirty_background_bytes
            "#]],
        );
        assert!(KNOB.check("0").is_err(), "the kernel refuses it");
    }
}
