//! How much memory the kernel keeps free for allocations that cannot wait.

use crate::extras::{Counter, Extras, RiskAt};
use crate::facts::Facts;
use crate::finding::{Finding, own_number};
use crate::goal::AdviceContext;
use crate::knob::{Area, Knob, Place, Source, TakesEffect, Values};
use crate::rank::Effect;
use crate::reading::Reading;
use crate::shapes::{one, size};

const PATH: &str = "/proc/sys/vm/min_free_kbytes";

/// The largest share of memory that the advice accepts, in percent.
/// The kernel's own reserve for huge pages is smaller, so a larger share is an error.
const PERCENT_MAX: i64 = 5;

/// From this share of memory on, evenkeel refuses a setting, in percent.
/// Nobody recommends as much, and the kernel reclaims the missing memory at once.
const PERCENT_REFUSED: u64 = 10;

pub(super) const KNOB: Knob = Knob {
    id: "vm.min_free_kbytes",
    title: "memory reserved for allocations that cannot wait",
    area: Area::Memory,
    place: Place::File { path: PATH, reading: Reading::Plain },
    values: Values::Number { min: 1024, max: i32::MAX as i64, unit: "KiB" },
    default: "computed: four times the square root of memory in KiB, and more with transparent huge pages",
    takes_effect: TakesEffect::AtOnce,
    mechanism: "A network driver that needs a buffer in an interrupt cannot wait until memory is free. It uses this reserve, \
        and drops the packet if the reserve is empty. All reclaim watermarks rise with it. When you switch transparent \
        huge pages, the kernel computes it again, unless you set it yourself.",
    risk: "nobody else may use this memory; with far too much of it, the kernel kills processes immediately",
    shows_in: "page allocation failure in the kernel log, rx_nobuf counters of the driver",
    kernels: "all",
    sources: &[
        Source {
            title: "amzn-drivers, ENA_Linux_Best_Practices.rst",
            says: "1 to 3 % of memory on machines with much traffic",
        },
        Source {
            title: "Linux Documentation/admin-guide/sysctl/vm.rst, min_free_kbytes",
            says: "below 1024 the machine is subtly broken; with too high a value it runs out of memory",
        },
        Source {
            title: "Linux mm/page_alloc.c, calculate_min_free_kbytes",
            says: "four times the square root of the memory in KiB, within 128 KiB and 256 MiB",
        },
    ],
    extras: Extras {
        read_in: &[],
        // A watermark is engaged when the kernel reclaims because of it.
        counter: Some(Counter::Reclaim),
        // The kernel moves or frees memory before the requesting thread continues.
        effect: Some(Effect::Large),
        reject_for: Some(reject_for),
        risk_at: RiskAt::Higher,
        ..Extras::NONE
    },
    advise,
};

/// Why the machine cannot keep this much memory free. The kernel would end programs to free it.
fn reject_for(facts: &Facts, wanted: &str) -> Option<String> {
    let (wanted_kb, total): (u64, u64) = (wanted.parse().ok()?, *facts.memory.total_bytes.known()?);
    let most_kb = total / 100 * PERCENT_REFUSED / 1024;
    // If somebody has set a larger value by other means, evenkeel allows a smaller one.
    let is_less = own_number(facts, PATH).is_ok_and(|current| u64::try_from(current).is_ok_and(|now| wanted_kb <= now));
    (wanted_kb > most_kb && !is_less).then(|| {
        format!(
            "{} of {} may not be used by any program then; at most {PERCENT_REFUSED} % is accepted, {most_kb} KiB",
            size(wanted_kb.saturating_mul(1024)),
            size(total)
        )
    })
}

fn advise(facts: &Facts, _: &AdviceContext) -> Vec<Finding> {
    one(decide(facts))
}

fn decide(facts: &Facts) -> Result<Finding, Finding> {
    let current = own_number(facts, PATH)?;
    let Some(total) = facts.memory.total_bytes.known() else {
        return Err(Finding::unknown(PATH, "how much memory there is", &facts.memory.total_bytes).at(current));
    };
    // The value is at most 2^64 / 1024 / 100, so it cannot overflow.
    let percent_kb = (total / 1024 / 100) as i64;
    let finding = match facts.network.hardware().next() {
        _ if percent_kb > 0 && current > percent_kb * PERCENT_MAX => {
            let kept = size((current as u64).saturating_mul(1024));
            let reason = format!(
                "{kept} is more than {PERCENT_MAX} % of memory, and nobody else may use it; sources recommend 3 % \
                    at most"
            );
            Finding::set(PATH, (percent_kb * 3).clamp(1024, i64::from(i32::MAX)), reason)
        }
        Some(_) if current >= percent_kb => {
            Finding::keep(PATH, "at least one percent of memory is reserved for drivers that cannot wait")
        }
        Some(nic) => Finding::keep(
            PATH,
            format!(
                "if the kernel log shows page allocation failures, {}'s driver needs more: Amazon's driver guide \
                    says 1 to 3 % of memory, which is {percent_kb} to {} KiB here",
                nic.name,
                percent_kb * 3
            ),
        ),
        None => Finding::keep(PATH, "no interface has hardware whose driver could need more"),
    };
    Ok(finding.at(current))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::fact::Fact;
    use crate::goal::Goal;
    use crate::testing::{check, nics, with_sysctl};

    #[test]
    fn more_than_a_tenth_of_memory_is_refused() {
        let facts = crate::testing::base();
        let total_kb = *facts.memory.total_bytes.known().unwrap() / 1024;
        assert_eq!(reject_for(&facts, &(total_kb / 11).to_string()), None);
        let why = reject_for(&facts, "999999999").unwrap();
        assert!(why.starts_with("953.7 GiB of") && why.contains("at most 10 %"), "{why}");
        let mut raised = crate::testing::base();
        with_sysctl(PATH, "999999999")(&mut raised);
        assert_eq!(reject_for(&raised, "999999998"), None, "less than now");
    }

    #[test]
    fn drivers_have_a_reserve_and_not_all_of_memory() {
        check(
            &KNOB,
            &[
                ("default", Goal::Latency, &|_| {}),
                ("raised", Goal::Latency, &with_sysctl(PATH, "167772")),
                ("far too much", Goal::Density, &with_sysctl(PATH, "2097152")),
                ("loopback only", Goal::Latency, &|facts| nics(facts).retain(|nic| nic.name == "lo")),
                ("memory unknown", Goal::Latency, &|facts| facts.memory.total_bytes = Fact::absent("no /proc/meminfo")),
            ],
            expect![[r#"
                default (latency)
                  keep /proc/sys/vm/min_free_kbytes "67584": if the kernel log shows page allocation failures, eth0's driver needs more: Amazon's driver guide says 1 to 3 % of memory, which is 83886 to 251658 KiB here
                raised (latency)
                  keep /proc/sys/vm/min_free_kbytes "167772": at least one percent of memory is reserved for drivers that cannot wait
                far too much (density)
                  set /proc/sys/vm/min_free_kbytes "2097152" -> "251658": 2.0 GiB is more than 5 % of memory, and nobody else may use it; sources recommend 3 % at most
                loopback only (latency)
                  keep /proc/sys/vm/min_free_kbytes "67584": no interface has hardware whose driver could need more
                memory unknown (latency)
                  unknown /proc/sys/vm/min_free_kbytes "67584": how much memory there is is not known: no /proc/meminfo
            "#]],
        );
    }
}
