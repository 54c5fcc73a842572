//! The load of a session on its CPUs, in whole numbers: one rule for `pack` and for `instances`.

/// One CPU, in the unit of loads: millionths.
pub(crate) const CPU: u32 = 1_000_000;

/// If a product of decimal fractions is this close to a whole number, it counts as that number.
const ROUNDING: f64 = 1e-3;

/// The load that one session adds to each of its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CpuLoad {
    /// The number of CPUs that the session gets.
    pub(crate) width: u32,
    /// The session's load on each of its CPUs, in millionths of a CPU.
    pub(crate) load: u32,
    /// Whether the session alone loads a CPU above the bound, and so gets its own CPU.
    pub(crate) is_exclusive: bool,
}

impl CpuLoad {
    /// The load of a session that uses this number of CPUs. `load_max` is the bound of a CPU that several sessions share, in millionths.
    pub(crate) fn new(cpus: f64, load_max: u32) -> CpuLoad {
        let total = needed(cpus);
        // A session that uses up to one CPU has one busy thread: a second CPU would not help it.
        let width = if total <= u64::from(CPU) { 1 } else { total.div_ceil(u64::from(load_max.max(1))) };
        let load = total.div_ceil(width) as u32;
        CpuLoad { width: width as u32, load, is_exclusive: load > load_max }
    }
}

/// CPU time in millionths of a CPU, rounded up.
pub(crate) fn needed(cpus: f64) -> u64 {
    ((cpus * f64::from(CPU) - ROUNDING).ceil() as u64).max(1)
}

/// A part of a CPU that sessions may use, in millionths, rounded down.
pub(crate) fn usable(share: f64) -> u32 {
    (share * f64::from(CPU) + ROUNDING) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_fractions_are_the_numbers_that_they_mean() {
        for (cpus, width, load, is_exclusive) in [
            (0.07, 1, 70_000, false),
            (0.7, 1, 700_000, false),
            (0.71, 1, 710_000, true),
            (1.0, 1, 1_000_000, true),
            (1.001, 2, 500_500, false),
            // In binary, 2.1 / 3 and 16.1 / 23 are not exactly 0.7.
            (2.1, 3, 700_000, false),
            (16.1, 23, 700_000, false),
            (1e-300, 1, 1, false),
        ] {
            assert_eq!(CpuLoad::new(cpus, 700_000), CpuLoad { width, load, is_exclusive }, "{cpus}");
        }
        for thousandths in 1..=1000_u32 {
            let share = f64::from(thousandths) / 1000.0;
            assert_eq!((usable(share), needed(share)), (thousandths * 1000, u64::from(thousandths * 1000)), "{share}");
        }
    }
}
