//! `Sliced`: what a job system knows about its CPUs' time slices. It keeps jobs off a CPU that is about to be taken away.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use evenkeel_sys::{clock, thread};

use crate::slices::{Slices, Waiting, begins};

/// After a thread left a job to others, it looks for a job again after this time.
const NAP_NS: u64 = 50_000;
/// The CPU of a thread that has not run on any CPU yet.
const NOWHERE: u32 = u32::MAX;
/// We do not record a job that takes longer than this, because its duration says little about other jobs.
const LONG_NS_MAX: u64 = 5_000_000;
/// The rate per frame at which we forget the longest job of a queue. One outlier counts for some fifty frames.
const MEMORY: u64 = 64;
/// The average job length covers about this many jobs.
const MEAN_MEMORY: u64 = 32;

pub(super) struct Sliced {
    slices: Slices,
    /// The CPU on which each slot last took a job.
    cpus: Box<[AtomicU32]>,
    /// The recent jobs of each queue.
    lengths: Box<[Lengths]>,
}

/// How long the jobs of a queue take, without the gaps. Threads write these fields without a lock, so a measurement may be lost.
#[derive(Default)]
struct Lengths {
    longest_ns: AtomicU64,
    mean_ns: AtomicU64,
}

/// The jobs of a queue, and the slots that take them.
#[derive(Clone, Copy)]
pub(super) struct Offered {
    pub(super) queue: usize,
    /// A bit for each slot that takes from the queue.
    pub(super) takers: u64,
    pub(super) jobs: u64,
}

impl Sliced {
    pub(super) fn new(slices: Slices, slots: usize, queues: usize) -> Sliced {
        Sliced {
            slices,
            cpus: (0..slots).map(|_| AtomicU32::new(NOWHERE)).collect(),
            lengths: (0..queues).map(|_| Lengths::default()).collect(),
        }
    }

    /// Records and returns the CPU that the thread of this slot runs on.
    pub(super) fn is_here(&self, slot: usize) -> usize {
        let cpu = thread::current_cpu();
        if self.cpus[slot].load(Ordering::Relaxed) != cpu as u32 {
            self.cpus[slot].store(cpu as u32, Ordering::Relaxed);
        }
        cpu
    }

    /// Whether the next job of this queue should begin on this slot's CPU now.
    #[inline]
    pub(super) fn begins(&self, slot: usize, offered: Offered) -> bool {
        let cpu = self.is_here(slot);
        let Some(own) = self.slices.cpu(cpu) else { return true };
        let lengths = &self.lengths[offered.queue];
        let [next_ns, mean_ns] = [&lengths.longest_ns, &lengths.mean_ns].map(|ns| ns.load(Ordering::Relaxed));
        let now_ns = clock::monotonic_ns();
        if own.left_ns(now_ns) >= next_ns {
            return true;
        }
        let others = || self.others(cpu, offered.takers & !(1 << slot));
        // Each of the other CPUs may be in the middle of a job: count half of an average job for each.
        let running_ns = others().count() as u64 * mean_ns / 2;
        let waiting = Waiting { next_ns, all_ns: offered.jobs.saturating_mul(mean_ns) + running_ns };
        begins(now_ns, waiting, own, others().map(|cpu| self.slices.cpu(cpu)))
    }

    /// The CPUs of these slots, each CPU once, without the CPU of this slot.
    fn others(&self, own: usize, slots: u64) -> impl Iterator<Item = usize> {
        let of_slot = move |slot: &usize| (slots & 1 << slot != 0).then(|| self.cpus[*slot].load(Ordering::Relaxed));
        let is_first = move |slot: usize, cpu: u32| !(0..slot).any(|before| of_slot(&before) == Some(cpu));
        let cpus = (0..self.cpus.len()).filter_map(move |slot| of_slot(&slot).filter(|cpu| is_first(slot, *cpu)));
        cpus.filter(move |cpu| *cpu != NOWHERE && *cpu as usize != own).map(|cpu| cpu as usize)
    }

    /// Records how long a job of this queue took on this slot. Interrupted jobs do not count.
    pub(super) fn took(&self, slot: usize, queue: usize, took_ns: u64) {
        let own = self.slices.cpu(self.cpus[slot].load(Ordering::Relaxed) as usize);
        if took_ns > LONG_NS_MAX || own.is_some_and(|own| own.was_gone_in(clock::monotonic_ns(), took_ns)) {
            return;
        }
        let Lengths { longest_ns, mean_ns } = &self.lengths[queue];
        if took_ns > longest_ns.load(Ordering::Relaxed) {
            longest_ns.store(took_ns, Ordering::Relaxed);
        }
        let before_ns = mean_ns.load(Ordering::Relaxed);
        mean_ns.store(before_ns - before_ns / MEAN_MEMORY + took_ns / MEAN_MEMORY, Ordering::Relaxed);
    }

    /// Lets the recorded longest jobs decay. Call it after each frame.
    pub(super) fn forget(&self) {
        for Lengths { longest_ns, .. } in &self.lengths {
            let ns = longest_ns.load(Ordering::Relaxed);
            longest_ns.store(ns - ns / MEMORY, Ordering::Relaxed);
        }
    }

    /// Waits [`NAP_NS`] for other threads to take a job.
    pub(super) fn nap() {
        clock::sleep_until_ns(clock::monotonic_ns() + NAP_NS);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::jobs::{JobSettings, Jobs, Queue, WorkerSettings};
    use crate::slices::CpuSlice;

    /// The test assumes that its threads run on CPUs below this number.
    const CPUS: usize = 256;
    const ELSEWHERE: u32 = 300;

    /// Slices for a machine on which every CPU is taken away for the next two seconds.
    fn gone() -> Slices {
        let slice =
            CpuSlice { start_ns: clock::monotonic_ns() - 2_000_000_000, period_ns: 4_000_000_000, share_ns: 1000 };
        Slices::given(&[Some(slice); CPUS])
    }

    #[test]
    fn a_job_is_left_to_a_cpu_that_is_available() {
        const TO_BOTH: u64 = 0b11;
        let body = || {
            let here = thread::affinity().unwrap().first().unwrap();
            thread::set_affinity(&[here].into_iter().collect()).unwrap();
            let sliced = Sliced::new(gone(), 2, 1);
            let begins = |takers| sliced.begins(0, Offered { queue: 0, takers, jobs: 1 });
            // We do not know the CPU of this slot yet, so the job does not count as interrupted.
            sliced.took(0, 0, 100_000);
            assert!(begins(TO_BOTH), "the second thread has not run on any CPU yet");
            sliced.cpus[1].store(ELSEWHERE, Ordering::Relaxed);
            assert!(!begins(TO_BOTH), "CPU {ELSEWHERE} is always available");
            assert!(begins(0b01), "nobody else takes it");
            sliced.cpus[1].store(here as u32, Ordering::Relaxed);
            assert!(begins(TO_BOTH), "both threads are on the same CPU");
        };
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn jobs_that_were_interrupted_and_very_long_ones_do_not_count() {
        let sliced = Sliced::new(gone(), 1, 1);
        let lengths =
            || [&sliced.lengths[0].longest_ns, &sliced.lengths[0].mean_ns].map(|ns| ns.load(Ordering::Relaxed));
        sliced.took(0, 0, 64_000);
        assert_eq!(lengths(), [64_000, 2000]);
        sliced.is_here(0);
        sliced.took(0, 0, 100_000);
        assert_eq!(lengths(), [64_000, 2000], "the CPU was gone");
        sliced.cpus[0].store(ELSEWHERE, Ordering::Relaxed);
        sliced.took(0, 0, LONG_NS_MAX + 1);
        assert_eq!(lengths(), [64_000, 2000]);
        sliced.forget();
        assert_eq!(lengths(), [63_000, 2000]);
    }

    /// The recorded slices may be wrong. Frames must end nevertheless.
    #[test]
    fn frames_end_whatever_is_known_of_the_cpus() {
        let available = Slices::given(&[]);
        let mut one_gone = vec![None; CPUS];
        one_gone[thread::current_cpu()] = gone().cpu(0);
        for slices in [gone(), available, Slices::given(&one_gone)] {
            let workers = vec![WorkerSettings::from_queues(&[Queue(0)]); 2];
            let settings = JobSettings { workers, slices: Some(slices.clone()), ..JobSettings::default() };
            let mut jobs = Jobs::start(&settings).unwrap();
            let ran = AtomicU64::new(0);
            for _ in 0..20 {
                jobs.frame(|frame| {
                    for _ in 0..50 {
                        frame.push(Queue(0), || _ = ran.fetch_add(1, Ordering::Relaxed)).unwrap();
                    }
                });
            }
            assert_eq!(ran.load(Ordering::Relaxed), 1000, "{slices:?}");
        }
    }
}
