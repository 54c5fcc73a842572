//! `Sampler`: reads the kernel's counters once a second, from files that stay open. Reading allocates nothing.

use evenkeel_sys::cpu_limit::Counters;
use evenkeel_sys::schedstat::{Counted, RunDelay};
use evenkeel_sys::stall::CpuStalls;
use evenkeel_sys::{cpu_limit, thread};

use super::decide::{Hardware, Readings};

/// The last values of the counters.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    own: Option<Counted>,
    pressure_us: Option<u64>,
    group_pressure_us: Option<u64>,
    throttled_ns: Option<u64>,
}

/// The open files. A file that this machine does not have is `None`.
#[derive(Debug)]
pub(super) struct Sampler {
    own: Option<RunDelay>,
    pressure: Option<CpuStalls>,
    group_pressure: Option<CpuStalls>,
    throttled: Counters,
    last: Counts,
}

impl Sampler {
    pub(super) fn of_this_thread() -> Sampler {
        let mut sampler = Sampler {
            own: RunDelay::of_this_thread().ok(),
            pressure: CpuStalls::of_the_system().ok(),
            group_pressure: CpuStalls::of_this_group().ok(),
            throttled: Counters::open(&cpu_limit::all()),
            last: Counts::default(),
        };
        sampler.last = sampler.counts();
        sampler
    }

    /// A sampler without counters.
    #[cfg(test)]
    pub(super) fn of_nothing() -> Sampler {
        let (own, pressure, group_pressure) = (None, None, None);
        Sampler { own, pressure, group_pressure, throttled: Counters::open([]), last: Counts::default() }
    }

    /// The CPUs that the calling thread may use, and the limit on its control group.
    pub(super) fn hardware(&self) -> Hardware {
        Hardware {
            cpus: thread::allowed_cpus().unwrap_or(1),
            cpu_limit: cpu_limit::tightest().map(|limit| limit.cpus()),
        }
    }

    /// Returns how much each counter grew since the last call.
    pub(super) fn read(&mut self, window_ns: u64) -> Readings {
        let now = self.counts();
        let last = std::mem::replace(&mut self.last, now);
        let since = |now: Option<u64>, last: Option<u64>| Some(now?.saturating_sub(last?));
        let us = |us: Option<u64>| us.map(|us| us.saturating_mul(1000));
        Readings {
            window_ns,
            cpu_ns: since(now.own.map(|own| own.cpu_ns), last.own.map(|own| own.cpu_ns)),
            run_wait_ns: since(now.own.map(|own| own.run_delay_ns), last.own.map(|own| own.run_delay_ns)),
            pressure_ns: us(since(now.pressure_us, last.pressure_us)),
            group_pressure_ns: us(since(now.group_pressure_us, last.group_pressure_us)),
            throttled_ns: since(now.throttled_ns, last.throttled_ns),
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            own: self.own.as_ref().and_then(|own| own.read().ok()),
            pressure_us: self.pressure.as_ref().and_then(|file| file.some_us().ok()),
            group_pressure_us: self.group_pressure.as_ref().and_then(|file| file.some_us().ok()),
            throttled_ns: self.throttled.read().ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_counters_are_read() {
        let mut sampler = Sampler::of_this_thread();
        let mut sum = 0_u64;
        for _ in 0..5_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        let readings = sampler.read(10_000_000);
        assert!(readings.cpu_ns.is_none_or(|ns| ns > 0), "{readings:?}");
        assert_eq!(readings.run_wait_ns.is_some(), sampler.own.is_some());
        assert_eq!(readings.pressure_ns.is_some(), sampler.pressure.is_some());
        assert!(sampler.hardware().cpus >= 1);
    }
}
