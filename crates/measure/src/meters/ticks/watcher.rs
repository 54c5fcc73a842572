//! `Watcher`: a thread of ours that reads the switch records of one of the server's, a few times a second, so that the ring never fills at
//! the rates that a tick has; and what it costs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_sys::asleep::Sleeper;
use evenkeel_sys::perf_thread::ThreadSwitches;
use evenkeel_sys::{Errno, clock};

use super::account::Asked;
use super::wakes::{Unseen, Wake, Wakes};

/// How often it reads. It is a wake of ours on some CPU each time, and 16,384 records are enough for 60,000 switches a second.
const EVERY: Duration = Duration::from_millis(170);
/// And up to so much later, never the same twice: ticks are often a part of a round time, and would be looked at in the same moment each time.
const LATER_MS_MAX: u32 = 61;
const RECORDS: usize = 1 << 14;
/// A thread that switches more often than this over one such time is no tick's: it is left alone for the rest of the window. Twice for
/// each of 10,000 wakes.
const SWITCHES_A_SECOND_MAX: u64 = 20_000;
/// How often a window looks what the thread waits for, at the most.
const ASKED_MAX: usize = 256;

/// What was seen of a thread in a window.
#[derive(Clone, Debug)]
pub struct Window {
    /// When it began, on the monotonic clock.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// The wakes that ended in it.
    pub wakes: Vec<Wake>,
    /// What the thread was seen to wait for.
    pub asked: Vec<Asked>,
    /// Switches that were seen.
    pub switches: u64,
    /// What was not seen.
    pub unseen: Unseen,
    /// Whether the thread switched so often that it was not watched on.
    pub is_too_much: bool,
    /// Whether the thread has ended.
    pub is_over: bool,
    /// What reading took of a CPU, in nanoseconds.
    pub reader_cpu_ns: u64,
}

#[derive(Debug)]
struct Inner {
    switches: ThreadSwitches,
    sleeper: Option<Sleeper>,
    wakes: Wakes,
    asked: Vec<Asked>,
    from_ns: u64,
    read_at_ns: u64,
    is_too_much: bool,
    is_over: bool,
    is_ended: bool,
}

/// Watches one thread until it is dropped.
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

impl Inner {
    fn read(&mut self) {
        let now_ns = clock::monotonic_ns();
        let (wakes, switches) = (&mut self.wakes, &mut self.switches);
        if switches.is_full() {
            wakes.overflowed();
        }
        let before = wakes.switches();
        switches.drain(|record| wakes.take(record));
        let since_ns = now_ns.saturating_sub(self.read_at_ns).max(1);
        let seen = wakes.switches() - before;
        // A short moment of many switches says nothing.
        if !self.is_too_much
            && since_ns > 50_000_000
            && seen.saturating_mul(1_000_000_000) / since_ns > SWITCHES_A_SECOND_MAX
        {
            self.is_too_much = self.switches.pause().is_ok();
        }
        self.is_over |= self.switches.is_over();
        self.read_at_ns = now_ns;
    }

    fn ask(&mut self) {
        let Some(sleeper) = self.sleeper.as_ref().filter(|_| self.asked.len() < ASKED_MAX) else { return };
        let at_ns = clock::monotonic_ns();
        match sleeper.wait() {
            Ok(wait) => self.asked.push(Asked { at_ns, wait }),
            // It has ended, or may not be looked into: no need to ask again.
            Err(_) => self.sleeper = None,
        }
    }
}

impl Watcher {
    /// Watches thread `tid` from now on.
    ///
    /// # Errors
    /// What the kernel said: `EACCES` or `EPERM` without the right, `ESRCH` if the thread has ended; `EAGAIN` if no thread can be started.
    pub fn of(tid: u32) -> Result<Watcher, Errno> {
        let now_ns = clock::monotonic_ns();
        let inner = Inner {
            switches: ThreadSwitches::of_thread(tid, RECORDS)?,
            sleeper: Sleeper::of(tid).ok(),
            wakes: Wakes::default(),
            asked: Vec::new(),
            from_ns: now_ns,
            read_at_ns: now_ns,
            is_too_much: false,
            is_over: false,
            is_ended: false,
        };
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
                took.store(clock::thread_cpu_ns(), Ordering::Relaxed);
                // Steps of 23 go round 61 through all of it.
                nth = (nth + 23) % LATER_MS_MAX;
                let waited = shared.1.wait_timeout(inner, EVERY + Duration::from_millis(u64::from(nth)));
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
        drop(inner.wakes.hand_over());
        inner.asked.clear();
        if inner.is_too_much && inner.switches.resume().is_ok() {
            inner.is_too_much = false;
        }
        inner.from_ns = clock::monotonic_ns();
        self.cpu_before_ns = self.cpu_ns.load(Ordering::Relaxed);
    }

    /// The window ends, and the next one begins.
    pub fn end(&mut self) -> Window {
        let mut inner = locked(&self.inner.0);
        inner.read();
        let to_ns = clock::monotonic_ns();
        let (mut wakes, unseen, switches) = inner.wakes.hand_over();
        let from_ns = inner.from_ns;
        // One that began before the window is not of it.
        wakes.retain(|wake| wake.start_ns >= from_ns);
        let cpu_ns = self.cpu_ns.load(Ordering::Relaxed);
        let window = Window {
            from_ns,
            to_ns,
            wakes,
            asked: std::mem::take(&mut inner.asked),
            switches,
            unseen,
            is_too_much: inner.is_too_much,
            is_over: inner.is_over,
            reader_cpu_ns: cpu_ns - self.cpu_before_ns,
        };
        inner.from_ns = to_ns;
        self.cpu_before_ns = cpu_ns;
        window
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
