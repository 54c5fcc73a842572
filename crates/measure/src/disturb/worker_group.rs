//! `WorkerGroup`: threads that disturb, each with its own CPUs and scheduling class.
//! A flag or the clock ends them all together. They belong to the process that reports on them, so no disturbance outlives that process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use evenkeel_hostfs::Root;
use evenkeel_sys::{CpuSet, Errno, clock, process, sched, thread};

use crate::error::MeterError;
use crate::pinned::not_there;

/// The maximum time in which a sleeping thread notices that it must end.
const STEP_NS: u64 = 20_000_000;

/// The maximum number of threads of one group.
pub(crate) const THREADS_MAX: usize = 1024;

/// The scheduling class of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// An ordinary thread with this nice value.
    Ordinary { nice: i32 },
    /// A real-time thread where the system allows it, otherwise an ordinary thread. This is for work that should be on time but may be late.
    FifoIfAllowed { priority: u8 },
}

/// Where and how a thread runs.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    /// The CPUs to run on. An empty list allows all CPUs.
    pub(crate) cpus: CpuSet,
    pub(crate) class: Class,
}

/// The condition that ends a group: a time or a flag.
#[derive(Clone, Debug)]
pub(crate) struct End {
    stop: Arc<AtomicBool>,
    until_ns: u64,
}

impl End {
    pub(crate) fn new(until_ns: u64) -> End {
        End { stop: Arc::default(), until_ns }
    }

    /// Whether this reading of the monotonic clock is past the end, or the group was stopped.
    pub(crate) fn is_at(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns || self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn is_now(&self) -> bool {
        self.is_at(clock::monotonic_ns())
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Sleeps until this time, or until the group ends.
    pub(crate) fn sleep_until_ns(&self, at_ns: u64) {
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= at_ns || self.is_at(now_ns) {
                return;
            }
            clock::sleep_until_ns(at_ns.min(self.until_ns).min(now_ns + STEP_NS));
        }
    }
}

/// Running threads. Dropping the group stops them.
#[derive(Debug)]
pub(crate) struct WorkerGroup<T> {
    end: End,
    threads: Vec<JoinHandle<T>>,
}

impl<T: Send + 'static> WorkerGroup<T> {
    /// Starts one thread per post. `body` receives the index of the post and must return soon after the end.
    ///
    /// # Errors
    /// Fails if a thread cannot start or cannot be set up. Then no thread continues to run.
    pub(crate) fn start<F>(name: &str, posts: &[Post], end: &End, body: F) -> Result<WorkerGroup<T>, MeterError>
    where
        F: Fn(usize, &End) -> T + Send + Sync + 'static,
    {
        if posts.len() > THREADS_MAX {
            let why = format!("{} are more than {THREADS_MAX}", posts.len());
            return Err(MeterError::wrong_use("start the threads", why));
        }
        let body = Arc::new(body);
        let mut workers = WorkerGroup { end: end.clone(), threads: Vec::with_capacity(posts.len()) };
        for (at, post) in posts.iter().enumerate() {
            let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
            let (body, end, post) = (Arc::clone(&body), workers.end.clone(), post.clone());
            let run = move || {
                let made = take_post(&post);
                if made.is_err() {
                    end.stop();
                }
                let _ = ready.send(made);
                body(at, &end)
            };
            let thread = std::thread::Builder::new().name(format!("evenkeel-{name}")).spawn(run);
            workers
                .threads
                .push(thread.map_err(|error| MeterError::refused(format!("start the thread {name}"), &error))?);
            let made = is_ready.recv();
            made.map_err(|_| MeterError::not_possible(format!("start the thread {name}"), "it ended at once"))??;
        }
        Ok(workers)
    }

    /// Stops the threads and returns the result of each `body`.
    pub(crate) fn stop(mut self) -> Vec<T> {
        self.end.stop();
        std::mem::take(&mut self.threads).into_iter().filter_map(|thread| thread.join().ok()).collect()
    }
}

impl<T> Drop for WorkerGroup<T> {
    fn drop(&mut self) {
        self.end.stop();
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

fn take_post(post: &Post) -> Result<(), MeterError> {
    if !post.cpus.is_empty() {
        let set = thread::set_affinity(&post.cpus);
        set.map_err(|errno| not_there(format!("run on CPU {}", post.cpus), errno))?;
    }
    match post.class {
        Class::Ordinary { nice: 0 } => Ok(()),
        Class::Ordinary { nice } => {
            thread::set_nice(nice).map_err(|errno| MeterError::refused(format!("run with nice {nice}"), errno))
        }
        Class::FifoIfAllowed { priority } => match sched::set_fifo(priority) {
            Err(errno) if !errno.is_denial() => Err(MeterError::refused("become real-time", errno)),
            _ => Ok(()),
        },
    }
}

/// Whether the kernel has moved the calling thread off its CPU, as it does when a CPU goes offline.
/// Then the thread must stop, because it would disturb another CPU.
pub(crate) fn is_off(cpu: usize) -> bool {
    thread::current_cpu() != cpu
}

/// Checks that `cpus` exist and that this process may run on them.
///
/// # Errors
/// Returns the first CPU that fails a check, and why.
pub fn check_cpus(cpus: &CpuSet) -> Result<(), MeterError> {
    let online = Root::live().text("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|text| CpuSet::parse_list(&text));
    let allowed = thread::affinity().map_err(|errno| MeterError::refused("ask for our CPUs", errno))?;
    refuse_cpus(cpus, online.as_ref(), &allowed)
}

/// All CPUs that this process may run on.
///
/// # Errors
/// Returns the kernel's error.
pub fn all_cpus() -> Result<CpuSet, MeterError> {
    thread::affinity().map_err(|errno| MeterError::refused("ask for our CPUs", errno))
}

fn refuse_cpus(cpus: &CpuSet, online: Option<&CpuSet>, allowed: &CpuSet) -> Result<(), MeterError> {
    if cpus.is_empty() {
        return Err(MeterError::wrong_use("choose CPUs", "the list is empty"));
    }
    for cpu in cpus.iter() {
        let tried = format!("disturb CPU {cpu}");
        match online {
            Some(online) if !online.contains(cpu) => {
                return Err(MeterError::wrong_use(tried, format!("this machine has CPU {online} online")));
            }
            _ if !allowed.contains(cpu) => {
                let why =
                    format!("this process may run on CPU {allowed} only (its cpuset or affinity); start it elsewhere");
                return Err(MeterError::not_possible(tried, why));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Explains why the kernel refused a real-time thread. The kernel refuses root too if root's control group has no real-time share.
pub(crate) fn no_real_time(what: &str, errno: Errno) -> MeterError {
    if errno == Errno::PERM && process::is_root() {
        let why = "root may not either: its control group has no real-time share (cpu.rt_runtime_us), or CAP_SYS_NICE is missing";
        return MeterError::not_possible(what, why);
    }
    MeterError::refused(what, errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    #[test]
    fn missing_and_disallowed_cpus_are_refused() {
        let table = [
            ("0-1", Some("0-3"), "0-3", "well"),
            ("", Some("0-3"), "0-3", "choose CPUs: the list is empty"),
            ("7", Some("0-1"), "0-1", "disturb CPU 7: this machine has CPU 0-1 online"),
            (
                "1",
                Some("0-1"),
                "0",
                "disturb CPU 1: this process may run on CPU 0 only (its cpuset or affinity); start it elsewhere",
            ),
            ("1", None, "0-1", "well"),
        ];
        for (cpus, online, allowed, expected) in table {
            let checked = refuse_cpus(&set(cpus), online.map(set).as_ref(), &set(allowed));
            assert_eq!(checked.map_or_else(|error| error.to_string(), |()| "well".to_owned()), expected);
        }
    }

    #[test]
    fn a_worker_group_ends_by_the_clock_and_by_its_flag() {
        let post = Post { cpus: CpuSet::default(), class: Class::Ordinary { nice: 1 } };
        let sleep = |at: usize, end: &End| {
            end.sleep_until_ns(u64::MAX);
            at
        };
        let by_clock = End::new(clock::monotonic_ns() + 3_000_000);
        let workers = WorkerGroup::start("test", &[post.clone(), post.clone()], &by_clock, sleep).unwrap();
        while workers.threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::yield_now();
        }
        assert!(by_clock.is_now());
        assert_eq!(workers.stop(), [0, 1]);
        let by_flag = End::new(u64::MAX);
        let workers = WorkerGroup::start("test", &[post], &by_flag, sleep).unwrap();
        assert!(!by_flag.is_now());
        assert_eq!(workers.stop(), [0]);
        let nowhere = Post { cpus: set("8000"), class: Class::Ordinary { nice: 0 } };
        assert!(WorkerGroup::start("test", &[nowhere], &End::new(u64::MAX), sleep).is_err());
    }
}
