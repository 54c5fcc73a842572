//! The part of a machine that sessions leave to the system. `pack` and `instances` use the same rule.

/// The CPUs that sessions leave to interrupts, the kernel and other programs: 0.5 of one CPU, 1 of up to four CPUs, and 0 of more.
/// With more CPUs, the system finds enough idle time.
pub(crate) fn system_cpus(cpus: usize) -> f64 {
    match cpus {
        0 | 1 => 0.5,
        2..=4 => 1.0,
        _ => 0.0,
    }
}

/// The share of memory for page cache, kernel and other programs.
pub(crate) const SYSTEM_MEMORY: f64 = 0.1;
