//! Threads that are pinned to one CPU each, for most processor meters, with the same error messages for all meters.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_sys::{CpuSet, Errno, thread};

use crate::MeterError;

const WAIT: u8 = 0;
const GO: u8 = 1;
const GIVE_UP: u8 = 2;

/// Pins the calling thread to `cpu`.
pub(crate) fn stay_on(cpu: usize) -> Result<(), MeterError> {
    let set: CpuSet = [cpu].into_iter().collect();
    thread::set_affinity(&set).map_err(|errno| not_there(format!("run on CPU {cpu}"), errno))
}

/// The error for a thread that cannot be pinned. The kernel reports EINVAL for a CPU that does not exist or is not allowed.
pub(crate) fn not_there(what: impl Into<String>, errno: Errno) -> MeterError {
    match errno {
        Errno::INVAL => MeterError::not_possible(
            what,
            "it is offline, or not among the CPUs that this process may use; leave it out",
        ),
        errno => MeterError::refused(what, errno),
    }
}

/// The CPUs on which this process may run.
pub(crate) fn allowed() -> Result<Vec<usize>, MeterError> {
    let set = thread::affinity().map_err(|errno| MeterError::refused("read which CPUs we may run on", errno))?;
    Ok(set.iter().collect())
}

/// Runs `body` on a separate thread, pinned to `cpu`, so that the caller keeps its affinity.
pub(crate) fn on_cpu<T: Send>(cpu: usize, body: impl FnOnce() -> T + Send) -> Result<T, MeterError> {
    std::thread::scope(|scope| {
        let inside = move || stay_on(cpu).map(|()| body());
        let thread = std::thread::Builder::new().name("evenkeel-meter".into()).spawn_scoped(scope, inside);
        let thread = thread.map_err(|error| MeterError::refused("start a thread", &error))?;
        thread.join().unwrap_or_else(|_| Err(MeterError::not_possible("measure", "the measuring thread ended early")))
    })
}

/// Runs `body(turn)` on one thread for each of `places` at once. The scheduler chooses the CPU for a place without one.
pub(crate) fn at_once<T: Send>(
    places: &[Option<usize>],
    body: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, MeterError> {
    // No thread begins before all threads are ready. If one thread could not be pinned, the others must not wait for it forever.
    let (gate, arrived) = (AtomicU8::new(WAIT), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(places.len());
        for (turn, place) in places.iter().enumerate() {
            let (gate, arrived, body) = (&gate, &arrived, &body);
            let inside = move || {
                let placed = place.map_or(Ok(()), stay_on);
                if placed.is_err() {
                    gate.store(GIVE_UP, Ordering::Release);
                }
                arrived.fetch_add(1, Ordering::AcqRel);
                placed.map_err(Some)?;
                while gate.load(Ordering::Acquire) == WAIT {
                    std::thread::sleep(Duration::from_micros(100));
                }
                if gate.load(Ordering::Acquire) == GIVE_UP {
                    return Err(None);
                }
                Ok(body(turn))
            };
            match std::thread::Builder::new().name("evenkeel-meter".into()).spawn_scoped(scope, inside) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    gate.store(GIVE_UP, Ordering::Release);
                    return Err(MeterError::refused("start a thread for each CPU", &error));
                }
            }
        }
        while arrived.load(Ordering::Acquire) < threads.len() {
            std::thread::sleep(Duration::from_micros(100));
        }
        // A thread records its refusal before it arrives at the barrier.
        let _ = gate.compare_exchange(WAIT, GO, Ordering::AcqRel, Ordering::Acquire);
        let ended = |_| Err(Some(MeterError::not_possible("measure", "a measuring thread ended early")));
        let said: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect();
        // Report the thread that failed for a reason of its own, not a thread that only waited.
        let why = said.iter().find_map(|said| said.as_ref().err().cloned().flatten());
        said.into_iter().collect::<Result<_, _>>().map_err(|_: Option<MeterError>| {
            why.unwrap_or_else(|| {
                MeterError::not_possible("measure on all CPUs at once", "not all threads could start")
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runs_where_it_is_put() {
        let cpus = allowed().unwrap();
        let last = *cpus.last().unwrap();
        assert_eq!(on_cpu(last, || allowed().unwrap()).unwrap(), [last]);
        let places: Vec<Option<usize>> = cpus.iter().copied().map(Some).chain([None]).collect();
        let seen = at_once(&places, |turn| (turn, allowed().unwrap())).unwrap();
        assert_eq!(seen.len(), cpus.len() + 1);
        assert!(seen.iter().zip(&cpus).all(|((_, on), cpu)| *on == [*cpu]), "{seen:?}");
        assert_eq!(allowed().unwrap(), cpus, "the caller stays where it was");
        assert!(on_cpu(900, || ()).unwrap_err().to_string().starts_with("run on CPU 900: "));
        let one_is_not_there = at_once(&[Some(last), Some(900), Some(last)], |_| panic!("none may begin"));
        let why = one_is_not_there.unwrap_err().to_string();
        assert!(why.starts_with("run on CPU 900: it is offline, or not among the CPUs"), "{why}");
    }
}
