//! `Watcher`: a thread of ours that reads the switch records of a server's threads, a few times a second, so that no ring fills at the
//! rates that a tick has. It takes in threads that the server starts meanwhile, and reports what the reading costs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_hostfs::asleep::Sleeper;
use evenkeel_hostfs::timer_files::TimerFiles;
use evenkeel_sys::perf_probe::Probe;
use evenkeel_sys::perf_thread::ThreadSwitches;
use evenkeel_sys::{Errno, clock, thread};

use super::stream::{Asked, Stream, ThreadLog};
use super::threads::tasks;
pub use super::threads::{THREADS_MAX, Watched};
use super::wakes::{HandedOver, Wakes};

/// How often it reads. It is a wake of ours on some CPU each time, and 16,384 records are enough for 60,000 switches a second.
const EVERY: Duration = Duration::from_millis(170);
/// And up to so much later, never the same twice: ticks are often a part of a round time, and would be looked at in the same moment each time.
const LATER_MS_MAX: u32 = 61;
/// Records that fit between two readings: of one thread, and of each of many. Rings of all together stay below 9 MB, which is what an
/// ordinary user may lock (RLIMIT_MEMLOCK and kernel.perf_event_mlock_kb).
const RECORDS_OF_FEW: usize = 1 << 14;
const RECORDS_OF_MANY: usize = 1 << 11;
const FEW: usize = 8;
/// A thread that switches more often than this over one such time is no tick's: it is left alone for the rest of the window. Twice for
/// each of 10,000 wakes.
const SWITCHES_A_SECOND_MAX: u64 = 20_000;
/// How often a window looks what a thread waits for, at the most.
const ASKED_MAX: usize = 256;
/// New threads are looked for at every so many readings, about once a second.
const RESCAN_EVERY: u32 = 5;

/// A function whose entries are recorded: what it is called, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedFunction {
    /// Its name.
    pub name: String,
    /// Its place.
    pub probe: Probe,
}

#[derive(Debug)]
struct OneThread {
    pid: u32,
    tid: u32,
    name: String,
    switches: ThreadSwitches,
    sleeper: Option<Sleeper>,
    wakes: Wakes,
    asked: Vec<Asked>,
    is_too_much: bool,
    is_over: bool,
}

#[derive(Debug)]
struct Inner {
    threads: Vec<OneThread>,
    /// The timers of each process that it reads as files.
    timers: BTreeMap<u32, TimerFiles>,
    /// The function whose entries are recorded too.
    function: Option<ProbedFunction>,
    /// Processes that new threads are looked for in.
    growing: Vec<u32>,
    known: BTreeSet<u32>,
    unwatched: usize,
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
    // A reader that panicked left nothing half done that would matter.
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OneThread {
    fn of(pid: u32, tid: u32, records: usize, function: Option<&ProbedFunction>) -> Result<OneThread, Errno> {
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
            sleeper: Sleeper::of(tid).ok(),
            wakes: Wakes::default(),
            asked: Vec::new(),
            is_too_much: false,
            is_over: false,
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
        // A short moment of many switches says nothing.
        if !self.is_too_much
            && since_ns > 50_000_000
            && seen.saturating_mul(1_000_000_000) / since_ns > SWITCHES_A_SECOND_MAX
        {
            self.is_too_much = self.switches.pause().is_ok();
        }
        self.is_over |= self.switches.is_over();
    }

    fn ask(&mut self, timers: &mut BTreeMap<u32, TimerFiles>) {
        let Some(sleeper) = self.sleeper.as_ref().filter(|_| self.asked.len() < ASKED_MAX) else { return };
        let at_ns = clock::monotonic_ns();
        let timers = timers.entry(self.pid).or_insert_with(|| TimerFiles::of(self.pid));
        match sleeper.asleep_by(|file| timers.due_ns(file)) {
            Ok(asleep) => self.asked.push(Asked { at_ns, asleep }),
            // It has ended, or may not be looked into: no need to ask again.
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
        for (pid, tid) in found {
            if self.known.contains(&tid) {
                continue;
            }
            if self.threads.len() >= THREADS_MAX {
                unwatched += 1;
                continue;
            }
            self.known.insert(tid);
            // One that has ended already is no loss.
            self.threads.extend(OneThread::of(pid, tid, RECORDS_OF_MANY, self.function.as_ref()));
        }
        self.unwatched = self.unwatched.max(unwatched);
    }
}

impl Watcher {
    /// Watches threads from now on, and when they enter `function`. Those that have ended meanwhile are left out.
    ///
    /// # Errors
    /// What the kernel said of the first, where none may be watched: `EACCES` or `EPERM` without the right, `ESRCH` if all have ended;
    /// `EAGAIN` if no thread can be started.
    pub fn of(watched: &Watched, function: Option<ProbedFunction>) -> Result<Watcher, Errno> {
        let (list, is_growing) = match watched {
            Watched::Threads(list) => (list, false),
            Watched::Growing(list) => (list, true),
        };
        let records = if list.len() > FEW { RECORDS_OF_MANY } else { RECORDS_OF_FEW };
        let mut refusal = None;
        let mut threads = Vec::new();
        for (pid, tid) in list.iter().take(THREADS_MAX) {
            match OneThread::of(*pid, *tid, records, function.as_ref()) {
                Ok(one) => threads.push(one),
                Err(errno) => refusal = refusal.filter(|before| *before != Errno::SRCH).or(Some(errno)),
            }
        }
        if threads.is_empty() {
            return Err(refusal.unwrap_or(Errno::SRCH));
        }
        let now_ns = clock::monotonic_ns();
        let growing: BTreeSet<u32> = list.iter().filter(|_| is_growing).map(|(pid, _)| *pid).collect();
        let inner = Inner {
            threads,
            timers: BTreeMap::new(),
            function,
            growing: growing.into_iter().collect(),
            known: list.iter().map(|(_, tid)| *tid).collect(),
            unwatched: list.len().saturating_sub(THREADS_MAX),
            from_ns: now_ns,
            read_at_ns: now_ns,
            is_ended: false,
        };
        Watcher::start(inner)
    }

    fn start(inner: Inner) -> Result<Watcher, Errno> {
        let inner = Arc::new((Mutex::new(inner), Condvar::new()));
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let (shared, took) = (Arc::clone(&inner), Arc::clone(&cpu_ns));
        let reader = std::thread::Builder::new().name("evenkeel-ticks".to_owned()).spawn(move || {
            let mut inner = locked(&shared.0);
            let mut nth = 0_u32;
            while !inner.is_ended {
                // Asked first: what it sleeps for now is answered by a wake that is still to come.
                inner.ask();
                inner.read();
                nth = nth.wrapping_add(1);
                if nth.is_multiple_of(RESCAN_EVERY) {
                    inner.take_in_new();
                }
                took.store(clock::thread_cpu_ns(), Ordering::Relaxed);
                // Steps of 23 go round 61 through all of it.
                let later_ms = u64::from(nth.wrapping_mul(23) % LATER_MS_MAX);
                let waited = shared.1.wait_timeout(inner, EVERY + Duration::from_millis(later_ms));
                inner = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        });
        let reader = reader.map_err(|error| Errno::from(&error))?;
        Ok(Watcher { inner, cpu_ns, cpu_before_ns: 0, reader: Some(reader) })
    }

    /// A window begins: what was seen until now does not count.
    pub fn begin(&mut self) {
        let mut inner = locked(&self.inner.0);
        inner.read();
        inner.threads.iter_mut().for_each(OneThread::begin);
        inner.from_ns = clock::monotonic_ns();
        self.cpu_before_ns = self.cpu_ns.load(Ordering::Relaxed);
    }

    /// The window ends, and the next one begins.
    pub fn end(&mut self) -> Stream {
        let mut inner = locked(&self.inner.0);
        inner.read();
        let (from_ns, to_ns) = (inner.from_ns, clock::monotonic_ns());
        let mut stream = Stream { from_ns, to_ns, unwatched: inner.unwatched, ..Stream::default() };
        stream.function = inner.function.as_ref().map(|function| function.name.clone());
        for one in &mut inner.threads {
            let HandedOver { mut wakes, mut entries, unseen, switches } = one.wakes.hand_over();
            // One that began before the window is not of it.
            wakes.retain(|wake| wake.start_ns >= from_ns);
            entries.retain(|entered_ns| *entered_ns >= from_ns);
            stream.unseen = stream.unseen.and(unseen);
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
                switches,
                is_too_much: one.is_too_much,
                is_over: one.is_over,
            });
        }
        // What has ended is reported once.
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
            // A panic in it has nothing to say that the missing wakes do not.
            let _ = reader.join();
        }
    }
}
