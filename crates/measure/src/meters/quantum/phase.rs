//! When the CPUs' slices begin: each slice relative to one reference time, and the slices relative to each other.

use super::report::{Cpu, MS};

/// Phases are compared if the periods differ by less than this share.
const SAME_PERIOD: f64 = 2e-4;

/// Sets when the CPU's slice begins, relative to the reference.
pub(super) fn place(cpu: &mut Cpu, reference_ns: u64) {
    let Some(slots) = cpu.slots else { return };
    cpu.phase_ms = Some((slots.next_start_ns(reference_ns).saturating_sub(reference_ns)) as f64 / MS);
    if slots.seen > 1 {
        let turns = slots.share_start_ns.abs_diff(reference_ns) as f64 / slots.period_ns;
        let error_ns = (slots.spread_ns / (slots.seen as f64).sqrt()).hypot(turns * slots.period_error_ns);
        cpu.phase_error_ms = Some(error_ns / MS);
    }
}

/// The offset between the slices of CPUs with the same period.
/// The offset is computed for the middle between the times of the two CPUs' measurements.
/// Errors of the two periods matter least at that middle.
pub(super) fn compare(cpus: &mut [Cpu]) {
    let Some(first) = cpus.iter().find_map(|cpu| cpu.slots) else { return };
    for cpu in cpus {
        let Some(slots) = cpu.slots else { continue };
        let (one, other) = (first.period_ns, slots.period_ns);
        let unsure_ns = 3.0 * first.period_error_ns.hypot(slots.period_error_ns);
        if (one - other).abs() > SAME_PERIOD * one + unsure_ns {
            continue;
        }
        let half_way_ns = first.share_start_ns / 2 + slots.share_start_ns / 2;
        let later = slots.next_start_ns(half_way_ns) as f64 - first.next_start_ns(half_way_ns) as f64;
        let turns = (later / one).round();
        cpu.offset_ms = Some((later - turns * one) / MS);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_stats::periodicity::Slots;

    use super::*;

    fn cpu(number: usize, period_ns: f64, share_start_ns: u64) -> Cpu {
        let slots = Slots {
            period_ns,
            period_error_ns: 1.0,
            share: 0.4,
            share_start_ns,
            drift_ppm: 0.0,
            spread_ns: 10_000.0,
            seen: 100,
            expected: 100,
        };
        Cpu { slots: Some(slots), ..Cpu::unmeasured(number, "") }
    }

    #[test]
    fn phases_count_from_one_moment_and_against_one_another() {
        const SECOND_NS: u64 = 1_000_000_000;
        let mut cpus = vec![
            Cpu::unmeasured(0, "offline"),
            cpu(1, 10e6, 5 * SECOND_NS + 2_000_000),
            cpu(2, 10.0001e6, 7 * SECOND_NS + 9_000_000),
            cpu(3, 12e6, 9 * SECOND_NS),
        ];
        for cpu in &mut cpus {
            place(cpu, 4 * SECOND_NS);
        }
        compare(&mut cpus);
        assert_eq!((cpus[0].phase_ms, cpus[0].offset_ms), (None, None));
        assert_eq!((cpus[1].phase_ms, cpus[1].offset_ms), (Some(2.0), Some(0.0)));
        assert!((cpus[1].phase_error_ms.unwrap() - 0.001).abs() < 1e-4, "{:?}", cpus[1].phase_error_ms);
        // An offset of 7 ms in 10 equals -3 ms. A hundred periods from the middle, the clock of this CPU is 10 us off.
        assert!((cpus[2].offset_ms.unwrap() + 3.0).abs() < 0.02, "{:?}", cpus[2].offset_ms);
        assert_eq!(cpus[3].offset_ms, None, "phases of different periods are not compared");
    }
}
