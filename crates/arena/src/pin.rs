//! Keeps a whole process on one CPU. Left alone, the scheduler tends to put two programs that talk over loopback on one
//! CPU, where a round trip never wakes an idle one, and most knobs of a host have nothing to act on.

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

/// One more than the largest CPU number that can be asked for.
pub const MAX_CPUS: usize = CpuSet::MAX_CPU;

/// Puts the calling thread on `cpu`, and with it every thread it starts from now on.
///
/// # Errors
/// `EINVAL` if there is no such CPU, or this process may not run on it.
pub fn pin_to(cpu: usize) -> Result<(), Errno> {
    if cpu >= MAX_CPUS {
        return Err(Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn only_cpus_there_are_taken() {
        let before = sched_getaffinity(None).unwrap();
        let cpu = (0..MAX_CPUS).find(|&cpu| before.is_set(cpu)).unwrap();
        // In a thread of its own, which takes its affinity with it when it ends.
        std::thread::spawn(move || {
            pin_to(cpu).unwrap();
            let now = sched_getaffinity(None).unwrap();
            assert!(now.count() == 1 && now.is_set(cpu));
            assert_eq!(pin_to(MAX_CPUS), Err(Errno::INVAL));
            assert_eq!(pin_to(MAX_CPUS - 1), Err(Errno::INVAL));
        })
        .join()
        .unwrap();
    }
}
