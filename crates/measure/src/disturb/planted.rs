//! `Planted`: a real-time thread that takes one CPU away for a list of stretches.
//! Tests compare the gaps meter with the thread's record, so the thread does all its own work within the recorded stretches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use evenkeel_sys::timer_fd::Alarm;
use evenkeel_sys::{CpuSet, clock, sched, thread};

use crate::error::MeterError;
use crate::pinned::not_there;

/// One stretch in which the thread takes the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When the stretch begins, on the monotonic clock.
    pub at_ns: u64,
    /// The length of the stretch, in nanoseconds.
    pub busy_ns: u64,
}

/// A stretch in which the thread had the CPU, by the thread's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planting {
    /// When the thread began to run.
    pub start_ns: u64,
    /// When the thread released the CPU.
    pub end_ns: u64,
    /// CPU time that the thread used outside its records, by its thread clock:
    /// since the previous stretch or until the next, whichever is more.
    /// The value is the cost to fall asleep and to wake, with the interrupts in between.
    /// The record may be off by this amount.
    pub unrecorded_ns: u64,
}

/// The running thread. It ends when this value is dropped.
#[derive(Debug)]
pub struct Planted {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Planting>>>,
}

impl Planted {
    /// Takes `cpu` for each stretch, with this real-time priority.
    ///
    /// # Errors
    /// Fails if the thread may not be real-time, may not run there, or two stretches overlap.
    pub fn start(cpu: usize, priority: u8, stretches: Vec<Stretch>) -> Result<Planted, MeterError> {
        if let Some(pair) = stretches.windows(2).find(|pair| pair[0].at_ns + pair[0].busy_ns >= pair[1].at_ns) {
            let why = format!(
                "a stretch of {} ns from {} on leaves no time before the next one at {}",
                pair[0].busy_ns, pair[0].at_ns, pair[1].at_ns
            );
            return Err(MeterError::wrong_use("take a CPU away", why));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let stopped = Arc::clone(&stop);
        let body = move || match get_ready(cpu, priority) {
            Ok(alarm) => {
                let _ = ready.send(Ok(()));
                take(&stretches, &alarm, &stopped)
            }
            Err(error) => {
                let _ = ready.send(Err(error));
                Vec::new()
            }
        };
        let thread = std::thread::Builder::new().name("evenkeel-rt-hog".into()).spawn(body);
        let thread = thread.map_err(|error| MeterError::refused("start the real-time thread", &error))?;
        let planted = Planted { stop, thread: Some(thread) };
        match is_ready.recv() {
            Ok(made) => made.map(|()| planted),
            Err(_) => Err(MeterError::not_possible("start the real-time thread", "its thread ended at once")),
        }
    }

    /// Ends the thread at its next stretch and returns the stretches that it took.
    pub fn stop(mut self) -> Vec<Planting> {
        self.end()
    }

    fn end(&mut self) -> Vec<Planting> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        self.end();
    }
}

fn get_ready(cpu: usize, priority: u8) -> Result<Alarm, MeterError> {
    let only: CpuSet = [cpu].into_iter().collect();
    thread::set_affinity(&only).map_err(|errno| not_there(format!("run the real-time thread on CPU {cpu}"), errno))?;
    sched::set_fifo(priority).map_err(|errno| MeterError::refused("make the thread real-time", errno))?;
    Alarm::new().map_err(|errno| MeterError::refused("make the timer of the real-time thread", errno))
}

fn take(stretches: &[Stretch], alarm: &Alarm, stop: &AtomicBool) -> Vec<Planting> {
    let mut taken: Vec<Planting> = Vec::with_capacity(stretches.len());
    let (mut cpu_ns, mut was_taken) = (clock::thread_cpu_ns(), false);
    let Some(first) = stretches.first() else { return taken };
    let mut is_set = alarm.set(first.at_ns);
    for (at, stretch) in stretches.iter().enumerate() {
        if is_set.and_then(|()| alarm.wait()).is_err() || stop.load(Ordering::Relaxed) {
            break;
        }
        let start_ns = clock::monotonic_ns();
        let unrecorded_ns = clock::thread_cpu_ns().saturating_sub(cpu_ns);
        // Set the timer while the thread has the CPU. A later setting would take the CPU for some microseconds more than the record shows.
        is_set = stretches.get(at + 1).map_or(Ok(()), |next| alarm.set(next.at_ns));
        let end_ns = stretch.at_ns + stretch.busy_ns;
        while clock::monotonic_ns() < end_ns {
            std::hint::spin_loop();
        }
        cpu_ns = clock::thread_cpu_ns();
        if let Some(before) = taken.last_mut().filter(|_| was_taken) {
            before.unrecorded_ns = before.unrecorded_ns.max(unrecorded_ns);
        }
        was_taken = start_ns < end_ns;
        if was_taken {
            taken.push(Planting { start_ns, end_ns: clock::monotonic_ns(), unrecorded_ns });
        }
    }
    // A thread takes 100 us or more to end. An end right after a stretch would make the stretch longer than its record.
    if was_taken && alarm.set(clock::monotonic_ns() + 1_000_000).and_then(|()| alarm.wait()).is_ok() {
        let unrecorded_ns = clock::thread_cpu_ns().saturating_sub(cpu_ns);
        if let Some(last) = taken.last_mut() {
            last.unrecorded_ns = last.unrecorded_ns.max(unrecorded_ns);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_overlap_are_refused() {
        let stretches = vec![Stretch { at_ns: 5, busy_ns: 10 }, Stretch { at_ns: 15, busy_ns: 1 }];
        let refused = Planted::start(0, 50, stretches).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "take a CPU away: a stretch of 10 ns from 5 on leaves no time before the next one at 15"
        );
    }

    #[test]
    fn it_takes_what_is_listed() {
        let cpu = thread::affinity().unwrap().first().unwrap();
        let at_ns = clock::monotonic_ns() + 2_000_000;
        let stretches =
            vec![Stretch { at_ns, busy_ns: 300_000 }, Stretch { at_ns: at_ns + 2_000_000, busy_ns: 200_000 }];
        match Planted::start(cpu, 50, stretches) {
            Ok(planted) => {
                clock::sleep_until_ns(at_ns + 10_000_000);
                let taken = planted.stop();
                assert!(taken.len() <= 2 && taken.iter().all(|taken| taken.start_ns >= at_ns), "{taken:?}");
            }
            Err(MeterError::Refused { errno, .. }) if errno.is_denial() => {
                println!("skipped: this user may not have real-time threads");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
