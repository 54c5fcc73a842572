//! Keeps a whole process on one CPU.
//! Without this, the scheduler tends to put two programs that talk over loopback on one CPU.
//! A round trip on one CPU never wakes an idle CPU, so most knobs of a host have no effect on it.

use evenkeel_rt::{ApplyStatus, CpuSet, ThreadConfig, TickThread};

/// Pins the calling thread to `cpu`, and so every thread that it starts later.
///
/// # Errors
/// Why the kernel refused, in words: the CPU does not exist, or this process may not run on it.
pub fn stay_on(cpu: usize) -> Result<(), String> {
    let cpus: CpuSet = [cpu].into_iter().collect();
    if !cpus.contains(cpu) {
        return Err(format!("run on CPU {cpu}: no machine has this many CPUs"));
    }
    let config = ThreadConfig { cpus: Some(cpus), slice_ns: None, timer_slack_ns: None, ..ThreadConfig::default() };
    match TickThread::set_up(&config).report().cpus {
        ApplyStatus::Active => Ok(()),
        ApplyStatus::Refused(errno) => Err(format!(
            "run on CPU {cpu}: {errno}; `nproc` prints how many there are, and taskset -p $$ which are allowed"
        )),
        ApplyStatus::NotRequested | ApplyStatus::NoEffect | ApplyStatus::Suspended => {
            Err(format!("run on CPU {cpu}: the kernel accepted the call without effect"))
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn only_cpus_there_are_taken() {
        let before = sched_getaffinity(None).unwrap();
        let cpu = (0..1_024).find(|&cpu| before.is_set(cpu)).unwrap();
        // Run it in a separate thread, so that the affinity ends with that thread.
        let body = move || {
            stay_on(cpu).unwrap();
            let now = sched_getaffinity(None).unwrap();
            assert!(now.count() == 1 && now.is_set(cpu));
            assert!(stay_on(1_023).unwrap_err().starts_with("run on CPU 1023: "));
            assert!(stay_on(1_000_000).unwrap_err().starts_with("run on CPU 1000000: "));
        };
        std::thread::spawn(body).join().unwrap();
    }
}
