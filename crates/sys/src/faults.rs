//! `Faults`: what the kernel counts of the calling thread beside its time: page faults, and how often it gave its CPU up (getrusage(2)).

/// Counts since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Page faults that found their page in memory.
    pub minor_faults: u64,
    /// Page faults that had to read.
    pub major_faults: u64,
    /// How often it slept.
    pub slept: u64,
    /// How often the CPU was taken from it.
    pub preempted: u64,
}

/// Of the calling thread. All 0 where the kernel does not tell, which no Linux since 2.6.26 does.
pub fn of_this_thread() -> Faults {
    // SAFETY: every bit pattern of the struct, which is numbers, is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one struct at this address, and keeps no pointer.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
        return Faults::default();
    }
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    Faults {
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        slept: count(usage.ru_nvcsw),
        preempted: count(usage.ru_nivcsw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_sleeps_are_counted() {
        let before = of_this_thread();
        crate::clock::sleep_until_ns(crate::clock::monotonic_ns() + 100_000);
        let pages = vec![1_u8; 16 << 20];
        let after = of_this_thread();
        assert!(std::hint::black_box(&pages).len() == 16 << 20);
        assert!(after.slept > before.slept);
        assert!(after.minor_faults > before.minor_faults);
    }
}
