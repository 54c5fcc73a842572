//! How much of a machine with sessions is left for the system: the rule of `pack` and of `instances`.

/// CPUs for interrupts, the kernel and other programs: half of the only one, one of up to four, and none of more, where these find gaps.
pub(crate) fn system_cpus(cpus: usize) -> f64 {
    match cpus {
        0 | 1 => 0.5,
        2..=4 => 1.0,
        _ => 0.0,
    }
}

/// The share of memory for page cache, kernel, and what else runs.
pub(crate) const SYSTEM_MEMORY: f64 = 0.1;
