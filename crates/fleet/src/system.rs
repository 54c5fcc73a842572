//! The part of a machine that sessions leave to the system. `pack` and `instances` use the same rule.

/// CPUs for interrupts, the kernel and other programs: 0.5 of one CPU, 1 of up to four, and 0 of more. On more CPUs they find enough idle
/// time.
pub(crate) fn system_cpus(cpus: usize) -> f64 {
    match cpus {
        0 | 1 => 0.5,
        2..=4 => 1.0,
        _ => 0.0,
    }
}

/// The share of memory for page cache, kernel, and what else runs.
pub(crate) const SYSTEM_MEMORY: f64 = 0.1;
