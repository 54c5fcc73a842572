//! `Watcher`: our thread that reads the switch records of a server's threads.
//! The thread reads a few times per second, so that no ring fills at the rates of a tick.
//! The watcher includes threads that the server starts in the meantime, and reports the cost of reading.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_hostfs::proc::{self, ProcessStat};
use evenkeel_hostfs::sleep_deadline::Sleeper;
use evenkeel_hostfs::timer_files::TimerFiles;
use evenkeel_sys::perf_probe::Probe;
use evenkeel_sys::perf_thread::ThreadSwitches;
use evenkeel_sys::perf_wakers::{WakerRecord, Wakers, Woken};
use evenkeel_sys::{Errno, clock, thread};

use super::stream::{Asked, Stream, ThreadLog};
use super::threads::tasks;
pub use super::threads::{THREADS_MAX, Watched};
use super::wakes::{HandedOver, Wakes};

/// The interval between reads. Each read wakes our thread on some CPU. The 16,384 records of a ring suffice for 60,000 switches per second.
const EVERY: Duration = Duration::from_millis(170);
/// Each read is delayed by a varying number of milliseconds below this limit.
/// Tick periods often divide round times, so reads at fixed intervals would always come at the same phase.
const LATER_MS_MAX: u32 = 61;
/// How often a slow watch reads. Such a watch may last as long as the server, and fewer reads cost less.
const SLOWLY: Duration = Duration::from_millis(1_500);
/// The ring of a slow watch, in records. It takes 256 KiB and suffices for 4,000 switches per second.
const RECORDS_SLOWLY: usize = 1 << 13;
/// Ring sizes in records: for one thread, and for each of many threads.
/// A ring holds the records between two reads.
/// All rings together stay below 9 MB, which an ordinary user may lock (RLIMIT_MEMLOCK and kernel.perf_event_mlock_kb).
const RECORDS_OF_FEW: usize = 1 << 14;
const RECORDS_OF_MANY: usize = 1 << 11;
const FEW: usize = 8;
/// A thread that switches more often than this between two reads does not tick.
/// The watcher ignores the thread for the rest of the window.
/// The limit is two switches for each of 10,000 wakes.
const SWITCHES_A_SECOND_MAX: u64 = 20_000;
/// The maximum number of checks per window of what a thread waits for.
const ASKED_MAX: usize = 256;
/// The maximum number of wake-ups between two windows to hold.
const WOKEN_MAX: usize = 1 << 14;
/// How many reads pass between searches for new threads. The watcher searches about once a second.
const RESCAN_EVERY: u32 = 5;

/// A function whose entries are recorded, with the probe at its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedFunction {
    /// The function's name.
    pub name: String,
    /// The probe at the function's first instruction.
    pub probe: Probe,
}

/// How often a watcher reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// The watcher reads often enough to see what the threads wait for.
    Frequent,
    /// The watcher reads only as often as necessary to keep the rings from filling.
    Slow,
}

#[derive(Debug)]
struct OneThread {
    pid: u32,
    tid: u32,
    name: String,
    switches: ThreadSwitches,
    sleeper: Option<Sleeper>,
    /// Who wakes the thread. None unless this is a slow watch of one thread, and the kernel shows this to the user.
    wakers: Option<Wakers>,
    woken: Vec<Woken>,
    lost_woken: bool,
    wakes: Wakes,
    asked: Vec<Asked>,
    is_too_much: bool,
    is_over: bool,
    /// The thread's CPU time when the window began. It is 0 for a younger thread.
    cpu_before_ns: u64,
}

#[derive(Debug)]
struct Inner {
    threads: Vec<OneThread>,
    /// The timerfds of each process.
    timers: BTreeMap<u32, TimerFiles>,
    /// The function whose entries are also recorded.
    function: Option<ProbedFunction>,
    /// Processes to search for new threads.
    growing: Vec<u32>,
    /// The CPU time of these processes when the window began.
    cpu_before_ns: u64,
    known: BTreeSet<u32>,
    unwatched: usize,
    pace: Pace,
    /// When the first window began.
    begun_ns: u64,
    from_ns: u64,
    read_at_ns: u64,
    is_ended: bool,
}

/// Watches threads until it is dropped.
#[derive(Debug)]
pub struct Watcher {
    inner: Arc<(Mutex<Inner>, Condvar)>,
    cpu_ns: Arc<AtomicU64>,
    cpu_before_ns: u64,
    reader: Option<JoinHandle<()>>,
}

fn locked(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    // The lock may be poisoned, but a reader that panicked left only complete data.
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OneThread {
    fn start(pid: u32, tid: u32, records: usize, function: Option<&ProbedFunction>) -> Result<OneThread, Errno> {
        let switches = ThreadSwitches::of_thread(tid, records)?;
        let switches = match function {
            Some(function) => switches.with_entries(tid, &function.probe)?,
            None => switches,
        };
        Ok(OneThread {
            pid,
            tid,
            name: thread::name_of(tid).unwrap_or_default(),
            switches,
            sleeper: Sleeper::open(tid).ok(),
            wakers: None,
            woken: Vec::new(),
            lost_woken: false,
            wakes: Wakes::default(),
            asked: Vec::new(),
            is_too_much: false,
            is_over: false,
            cpu_before_ns: 0,
        })
    }

    fn read(&mut self, since_ns: u64) {
        if self.is_over {
            return;
        }
        let (wakes, switches) = (&mut self.wakes, &mut self.switches);
        if switches.is_full() {
            wakes.overflowed();
        }
        let before = wakes.switches();
        switches.drain(|record| wakes.take(record));
        let seen = wakes.switches() - before;
        // A short moment of many switches does not count.
        if !self.is_too_much
            && since_ns > 50_000_000
            && seen.saturating_mul(1_000_000_000) / since_ns > SWITCHES_A_SECOND_MAX
        {
            self.is_too_much = self.switches.pause().is_ok();
        }
        self.is_over |= self.switches.is_over();
        let (woken, lost) = (&mut self.woken, &mut self.lost_woken);
        if let Some(wakers) = &mut self.wakers {
            wakers.drain(|record| match record {
                WakerRecord::Woken(one) if woken.len() < WOKEN_MAX => woken.push(one),
                WakerRecord::Woken(_) | WakerRecord::Lost(_) => *lost = true,
                WakerRecord::Other => {}
            });
        }
    }

    /// The wake-ups of the thread since the last call, and whether all of them were recorded.
    fn take_woken(&mut self) -> (Vec<Woken>, bool) {
        let mut woken = std::mem::take(&mut self.woken);
        let is_whole = !std::mem::take(&mut self.lost_woken);
        // Each CPU has its own ring.
        woken.sort_unstable_by_key(|woken| woken.at_ns);
        (woken, is_whole && self.wakers.is_some())
    }

    fn ask(&mut self, timers: &mut BTreeMap<u32, TimerFiles>) {
        let Some(sleeper) = self.sleeper.as_ref().filter(|_| self.asked.len() < ASKED_MAX) else { return };
        let at_ns = clock::monotonic_ns();
        let timers = timers.entry(self.pid).or_insert_with(|| TimerFiles::new(self.pid));
        match sleeper.sleep_call_with(|file| timers.due_ns(file)) {
            Ok(sleep) => self.asked.push(Asked { at_ns, sleep }),
            // The thread has ended, or we may not examine it, so do not ask again.
            Err(_) => self.sleeper = None,
        }
    }

    fn begin(&mut self) {
        drop(self.wakes.hand_over());
        self.asked.clear();
        if self.is_too_much && self.switches.resume().is_ok() {
            self.is_too_much = false;
        }
    }
}

impl Inner {
    /// The CPU time that the processes used since the last call, and the part of it in threads that are not watched.
    /// A slow watch must cost little, so it does not read these times.
    fn cpu_since_last(&mut self) -> (u64, u64) {
        if self.pace == Pace::Slow || self.growing.is_empty() {
            return (0, 0);
        }
        let cpu_ns = |stat: Option<ProcessStat>| stat.map_or(0, |stat| stat.cpu_ticks.saturating_mul(proc::TICK_NS));
        let now_ns: u64 = self.growing.iter().map(|pid| cpu_ns(ProcessStat::read(*pid))).sum();
        let mut watched_ns = 0_u64;
        for one in &mut self.threads {
            let now_ns = cpu_ns(ProcessStat::read_thread(one.pid, one.tid).map(|(stat, _)| stat));
            watched_ns += now_ns.saturating_sub(one.cpu_before_ns);
            one.cpu_before_ns = now_ns;
        }
        let all_ns = now_ns.saturating_sub(self.cpu_before_ns);
        self.cpu_before_ns = now_ns;
        (all_ns, all_ns.saturating_sub(watched_ns))
    }

    fn read(&mut self) {
        let now_ns = clock::monotonic_ns();
        let since_ns = now_ns.saturating_sub(self.read_at_ns).max(1);
        self.threads.iter_mut().for_each(|one| one.read(since_ns));
        self.read_at_ns = now_ns;
    }

    fn ask(&mut self) {
        let Inner { threads, timers, .. } = self;
        threads.iter_mut().for_each(|one| one.ask(timers));
    }

    fn take_in_new(&mut self) {
        let mut unwatched = 0;
        let found: Vec<(u32, u32)> = self.growing.iter().flat_map(|pid| tasks(*pid)).collect();
        // Forget threads that have ended.
        // A server that starts a thread for each request would otherwise fill `known` without end,
        // and the kernel reuses thread numbers.
        // Keep watched threads even if one read of the list misses them, so that no thread is watched twice.
        let mut there: BTreeSet<u32> = found.iter().map(|(_, tid)| *tid).collect();
        there.extend(self.threads.iter().filter(|one| !one.is_over).map(|one| one.tid));
        self.known.retain(|tid| there.contains(tid));
        for (pid, tid) in found {
            if self.known.contains(&tid) {
                continue;
            }
            if self.threads.len() >= THREADS_MAX {
                unwatched += 1;
                continue;
            }
            self.known.insert(tid);
            // If the new thread has already ended, nothing is lost.
            self.threads.extend(OneThread::start(pid, tid, RECORDS_OF_MANY, self.function.as_ref()));
        }
        self.unwatched = self.unwatched.max(unwatched);
    }
}

impl Watcher {
    /// Watches threads and their entries of `function` from now on. Threads that have already ended are left out.
    ///
    /// # Errors
    /// Fails if no thread may be watched, the kernel's error for the first thread:
    /// `EACCES` or `EPERM` without the privilege, `ESRCH` if all threads have ended.
    /// `EAGAIN` if our thread cannot be started.
    pub fn start(watched: &Watched, function: Option<ProbedFunction>) -> Result<Watcher, Errno> {
        Watcher::at_pace(watched, function, Pace::Frequent)
    }

    /// Watches threads as [`start`](Watcher::start) does, but without an end.
    /// This watcher reads every 1.5 s, and does not examine what the threads wait for.
    /// If there is only one thread, it also records who wakes the thread, where the kernel shows that.
    ///
    /// # Errors
    /// Fails as [`Watcher::start`] does.
    pub fn start_slow(watched: &Watched) -> Result<Watcher, Errno> {
        Watcher::at_pace(watched, None, Pace::Slow)
    }

    fn at_pace(watched: &Watched, function: Option<ProbedFunction>, pace: Pace) -> Result<Watcher, Errno> {
        let (list, is_growing) = match watched {
            Watched::Threads(list) => (list, false),
            Watched::Growing(list) => (list, true),
        };
        let records = match pace {
            _ if list.len() > FEW => RECORDS_OF_MANY,
            Pace::Frequent => RECORDS_OF_FEW,
            Pace::Slow => RECORDS_SLOWLY,
        };
        let mut refusal = None;
        let mut threads = Vec::new();
        for (pid, tid) in list.iter().take(THREADS_MAX) {
            match OneThread::start(*pid, *tid, records, function.as_ref()) {
                Ok(one) => threads.push(one),
                Err(errno) => refusal = refusal.filter(|before| *before != Errno::SRCH).or(Some(errno)),
            }
        }
        if threads.is_empty() {
            return Err(refusal.unwrap_or(Errno::SRCH));
        }
        if let ([one], Pace::Slow, false) = (&mut threads[..], pace, is_growing) {
            one.wakers = Wakers::of_thread(one.tid).ok();
        }
        let now_ns = clock::monotonic_ns();
        let growing: BTreeSet<u32> = list.iter().filter(|_| is_growing).map(|(pid, _)| *pid).collect();
        let mut inner = Inner {
            threads,
            timers: BTreeMap::new(),
            function,
            growing: growing.into_iter().collect(),
            cpu_before_ns: 0,
            known: list.iter().map(|(_, tid)| *tid).collect(),
            unwatched: list.len().saturating_sub(THREADS_MAX),
            pace,
            begun_ns: now_ns,
            from_ns: now_ns,
            read_at_ns: now_ns,
            is_ended: false,
        };
        inner.cpu_since_last();
        Watcher::spawn(inner)
    }

    fn spawn(inner: Inner) -> Result<Watcher, Errno> {
        let inner = Arc::new((Mutex::new(inner), Condvar::new()));
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let (shared, took) = (Arc::clone(&inner), Arc::clone(&cpu_ns));
        let reader = std::thread::Builder::new().name("evenkeel-ticks".to_owned()).spawn(move || {
            let mut inner = locked(&shared.0);
            let mut nth = 0_u32;
            while !inner.is_ended {
                // First check what the thread waits for, so that the wake that ends its current sleep comes after this check.
                if inner.pace == Pace::Frequent {
                    inner.ask();
                }
                inner.read();
                nth = nth.wrapping_add(1);
                if nth.is_multiple_of(RESCAN_EVERY) {
                    inner.take_in_new();
                }
                took.store(clock::thread_cpu_ns(), Ordering::Relaxed);
                // Steps of 23 visit all of 61.
                let later_ms = u64::from(nth.wrapping_mul(23) % LATER_MS_MAX);
                let every = if inner.pace == Pace::Frequent { EVERY } else { SLOWLY };
                let waited = shared.1.wait_timeout(inner, every + Duration::from_millis(later_ms));
                inner = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        });
        let reader = reader.map_err(|error| Errno::from(&error))?;
        Ok(Watcher { inner, cpu_ns, cpu_before_ns: 0, reader: Some(reader) })
    }

    /// Begins a window: earlier data does not count.
    pub fn begin(&mut self) {
        let mut inner = locked(&self.inner.0);
        inner.read();
        inner.threads.iter_mut().for_each(OneThread::begin);
        inner.cpu_since_last();
        inner.from_ns = clock::monotonic_ns();
        inner.begun_ns = inner.from_ns;
        self.cpu_before_ns = self.cpu_ns.load(Ordering::Relaxed);
    }

    /// Ends the window, and begins the next one. A wake that lies in both windows belongs to neither.
    pub fn end(&mut self) -> Stream {
        let from_ns = locked(&self.inner.0).from_ns;
        self.wakes_since(from_ns)
    }

    /// Ends the window, and begins the next one. A wake that lies in both windows belongs to the next one, so that no wake is lost.
    pub fn go_on(&mut self) -> Stream {
        let begun_ns = locked(&self.inner.0).begun_ns;
        self.wakes_since(begun_ns)
    }

    /// Ends the window. Returns the wakes that began at `since_ns` or later.
    fn wakes_since(&mut self, since_ns: u64) -> Stream {
        let mut inner = locked(&self.inner.0);
        inner.read();
        let (from_ns, to_ns) = (inner.from_ns, clock::monotonic_ns());
        let mut stream = Stream { from_ns, to_ns, unwatched: inner.unwatched, ..Stream::default() };
        (stream.cpu_ns, stream.unwatched_cpu_ns) = inner.cpu_since_last();
        stream.function = inner.function.as_ref().map(|function| function.name.clone());
        for one in &mut inner.threads {
            let HandedOver { mut wakes, mut entries, unseen, switches } = one.wakes.hand_over();
            wakes.retain(|wake| wake.start_ns >= since_ns);
            entries.retain(|entered_ns| *entered_ns >= since_ns);
            stream.unseen = stream.unseen.and(unseen);
            let (woken, is_whole) = one.take_woken();
            // Many threads get their name only after their start.
            if let Some(name) = thread::name_of(one.tid) {
                one.name = name;
            }
            stream.threads.push(ThreadLog {
                pid: one.pid,
                tid: one.tid,
                name: one.name.clone(),
                wakes,
                asked: std::mem::take(&mut one.asked),
                entries,
                woken,
                woken_from_ns: is_whole.then_some(from_ns),
                switches,
                is_too_much: one.is_too_much,
                is_over: one.is_over,
            });
        }
        // The kernel no longer lists an ended thread, so its CPU time looked like the time of unwatched threads.
        let ended = stream.threads.iter().filter(|thread| thread.is_over);
        let ended_ns = ended.fold(0_u64, |sum, thread| sum.saturating_add(thread.ran_ns()));
        stream.unwatched_cpu_ns = stream.unwatched_cpu_ns.saturating_sub(ended_ns);
        // An ended thread is reported only once.
        inner.threads.retain(|one| !one.is_over);
        let cpu_ns = self.cpu_ns.load(Ordering::Relaxed);
        stream.reader_cpu_ns = cpu_ns - self.cpu_before_ns;
        inner.from_ns = to_ns;
        self.cpu_before_ns = cpu_ns;
        stream
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        locked(&self.inner.0).is_ended = true;
        self.inner.1.notify_all();
        if let Some(reader) = self.reader.take() {
            // A panic in the reader appears as missing wakes, so its message is not needed.
            let _ = reader.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_have_ended_are_forgotten() {
        let own = std::process::id();
        // No thread has such a number, because the kernel's largest is 4,194,304.
        let ended = 5_000_000..5_100_000;
        let mut inner = Inner {
            threads: Vec::new(),
            timers: BTreeMap::new(),
            function: None,
            growing: vec![own],
            cpu_before_ns: 0,
            known: ended.chain([own]).collect(),
            unwatched: 0,
            pace: Pace::Slow,
            begun_ns: 0,
            from_ns: 0,
            read_at_ns: 0,
            is_ended: false,
        };
        inner.take_in_new();
        let there: BTreeSet<u32> = inner.known.clone();
        assert!(there.contains(&own) && there.iter().all(|tid| *tid < 5_000_000), "{} known", there.len());
        assert!(inner.threads.iter().all(|one| one.tid != own), "it was known before");
    }
}
