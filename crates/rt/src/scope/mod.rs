//! `Scope`: where the time of a tick went, for some tens of nanoseconds a scope: two readings of the cycle counter and a few words in a
//! ring of the thread's own. Nothing is allocated, locked or sent where it is measured; somebody else reads the rings when they like.
//!
//! ```
//! use evenkeel_rt::scope::{self, Scope};
//!
//! static MOVE: Scope = Scope::new("move players");
//!
//! scope::start_thread("tick", 4096); // once a thread, before its first tick: takes the ring's memory
//! {
//!     let _scope = MOVE.enter();
//!     // … work …
//! }
//! let recording = scope::recording();
//! assert_eq!(recording.threads[0].spans[0].name, "move players");
//! let json = recording.chrome_json(); // opens in Perfetto and in chrome://tracing
//! # assert!(json.contains("move players"));
//! ```
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | `ScopeLayer`: spans of the crate tracing are recorded as scopes |
//! | `puffin` | `Recording::to_puffin`: hands what was recorded to puffin's viewers |
//! | `tracy` | scopes are zones of the Tracy profiler too, while the server runs a Tracy client |

mod chrome;
mod long;
mod named;
#[cfg(feature = "puffin")]
mod puffin;
mod ring;
#[cfg(feature = "tracing")]
mod spans;

use std::cell::{Cell, OnceCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_sys::clock::thread_cpu_ns;
use evenkeel_sys::tsc::{self, Scale};

use crate::preempt::Preemptions;
pub use long::{LongScope, LongScopes, log_long, stop_long, take_long};
use ring::{Kept, Ring};
#[cfg(feature = "tracing")]
pub use spans::ScopeLayer;

/// The most names that are told apart, and the most threads that record. What is beyond is not recorded, and counted.
const NAMES_MAX: usize = 4096;
const THREADS_MAX: usize = 256;
/// The most scopes that a thread's ring holds: 24 MB.
const RING_MAX: usize = 1 << 20;

/// A name that is not known yet, and one for which there was no room.
const UNKNOWN: u32 = 0;
const NO_ROOM: u32 = u32::MAX;

static KNOWN: Mutex<Known> = Mutex::new(Known { names: Vec::new(), threads: Vec::new(), first: None });

struct Known {
    names: Vec<&'static str>,
    threads: Vec<Arc<Thread>>,
    /// The counter and the clock when the first thread began.
    first: Option<(u64, u64)>,
}

struct Thread {
    name: String,
    /// As the kernel numbers it.
    number: u32,
    ring: Ring,
}

/// What the thread itself knows.
struct Own {
    thread: Arc<Thread>,
    /// None where the kernel does not tell whether the CPU was another's.
    turns: Option<Rc<Preemptions>>,
    /// Whether no scope has ended since the last one began: that one is an innermost one.
    is_innermost: Cell<bool>,
}

thread_local! {
    static OWN: OnceCell<Own> = const { OnceCell::new() };
}

/// A place in the code that is timed: one `static` each.
#[derive(Debug)]
pub struct Scope {
    name: &'static str,
    id: AtomicU32,
}

/// A scope that has been entered; left when this is dropped.
#[derive(Debug)]
#[must_use = "a scope ends where this is dropped: `let _scope = …`"]
pub struct Entered {
    scope: &'static Scope,
    start_turns: u64,
    start_ticks: u64,
    /// 0 while nobody asks for long scopes.
    start_cpu_ns: u64,
    /// It is left where it was entered.
    thread: PhantomData<*mut ()>,
    #[cfg(feature = "tracy")]
    _zone: Zone,
}

/// A zone of the Tracy profiler, while one runs.
#[cfg(feature = "tracy")]
struct Zone(Option<tracy_client::Span>);

#[cfg(feature = "tracy")]
impl std::fmt::Debug for Zone {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Zone").field(&self.0.is_some()).finish()
    }
}

impl Scope {
    /// A scope of this name.
    pub const fn new(name: &'static str) -> Scope {
        Scope { name, id: AtomicU32::new(UNKNOWN) }
    }

    /// Enters it. Where the thread has no ring nothing is recorded, at the cost of a reading of the counter.
    #[inline]
    pub fn enter(&'static self) -> Entered {
        if self.id.load(Ordering::Relaxed) == UNKNOWN {
            self.learn();
        }
        let begin = |own: &OnceCell<Own>| {
            let Some(own) = own.get() else { return (0, 0) };
            own.is_innermost.set(true);
            (own.turns.as_ref().map_or(0, |turns| turns.count()), if long::is_on() { thread_cpu_ns() } else { 0 })
        };
        let (start_turns, start_cpu_ns) = OWN.with(begin);
        Entered {
            scope: self,
            start_turns,
            start_cpu_ns,
            #[cfg(feature = "tracy")]
            _zone: Zone(tracy_client::Client::running().map(|client| client.span_alloc(Some(self.name), "", "", 0, 0))),
            start_ticks: tsc::ticks(),
            thread: PhantomData,
        }
    }

    /// Gives it a number; the same one, if two threads come here at once.
    #[cold]
    fn learn(&'static self) {
        let mut known = known();
        let id = match self.id.load(Ordering::Relaxed) {
            UNKNOWN if known.names.len() < NAMES_MAX => {
                known.names.push(self.name);
                known.names.len() as u32
            }
            UNKNOWN => NO_ROOM,
            id => id,
        };
        self.id.store(id, Ordering::Relaxed);
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        let end_ticks = tsc::ticks();
        OWN.with(|own| {
            let Some(own) = own.get() else { return };
            let kept = match &own.turns {
                Some(turns) if turns.count() == self.start_turns => Kept::Yes,
                Some(_) => Kept::No,
                None => Kept::Unknown,
            };
            own.thread.ring.push(self.scope.id.load(Ordering::Relaxed), kept, self.start_ticks, end_ticks);
            if own.is_innermost.replace(false) && self.start_cpu_ns > 0 {
                long::ended(self.scope.name, thread_cpu_ns().saturating_sub(self.start_cpu_ns));
            }
        });
    }
}

/// Gives the calling thread a ring of the last `scopes` scopes (up to a million; rounded up to a power of two), under a name for those
/// who read it. The first call of a process takes up to 0.3 s: it tries out whether the kernel tells when a thread is switched out. A
/// second call of a thread changes nothing. Gives whether the thread has one.
pub fn start_thread(name: &str, scopes: usize) -> bool {
    OWN.with(|own| {
        if own.get().is_some() {
            return true;
        }
        let turns = Preemptions::of_this_thread();
        let mut known = known();
        if known.threads.len() >= THREADS_MAX {
            return false;
        }
        known.first.get_or_insert_with(tsc::ticks_and_ns);
        let thread = Arc::new(Thread {
            name: name.to_owned(),
            number: evenkeel_sys::thread::id(),
            ring: Ring::new(scopes.clamp(2, RING_MAX)),
        });
        known.threads.push(Arc::clone(&thread));
        own.set(Own { thread, turns, is_innermost: Cell::new(false) }).is_ok()
    })
}

/// What the rings hold now.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Each thread that had a ring, those that have ended included.
    pub threads: Vec<Recorded>,
    /// The two moments of the monotonic clock, in nanoseconds, at which the cycle counter was compared with it: when the first thread
    /// began, and when this was read. Times between them are good to some microseconds, as evenly as the clock went meanwhile. None
    /// of no thread.
    pub compared_ns: Option<(u64, u64)>,
}

/// The scopes of one thread.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// The kernel's number of it, as in `/proc/PID/task`.
    pub thread: u32,
    /// In the order in which they were left: an inner one before that around it.
    pub spans: Vec<Span>,
    /// Older ones that are no longer in the ring.
    pub overwritten: u64,
    /// Scopes beyond the most names that are told apart.
    pub unnamed: u64,
}

/// One time through a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The scope.
    pub name: &'static str,
    /// When it was entered, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// How long it took, in nanoseconds.
    pub length_ns: u64,
    /// Whether another thread had the CPU meanwhile, or the thread slept; none where the kernel does not tell. A length that stands out
    /// without it was taken by the hypervisor, an interrupt, or the work itself.
    pub switched_out: Option<bool>,
}

/// Reads all rings, while their threads go on. What is overwritten meanwhile is left out and counted.
pub fn recording() -> Recording {
    let (names, threads, first) = {
        let known = known();
        (known.names.clone(), known.threads.clone(), known.first)
    };
    let Some(first) = first else { return Recording { threads: Vec::new(), compared_ns: None } };
    let last = tsc::ticks_and_ns();
    let scale = Scale::between(first, last);
    let threads = threads.iter().map(|thread| {
        let read = thread.ring.read();
        let span = |entry: &ring::Entry| {
            Some(Span {
                name: names.get(usize::try_from(entry.id).ok()?.checked_sub(1)?)?,
                start_ns: scale.ns_at(entry.start_ticks),
                length_ns: scale.length_ns(entry.end_ticks.saturating_sub(entry.start_ticks)),
                switched_out: entry.kept.map(|kept| !kept),
            })
        };
        let spans: Vec<Span> = read.entries.iter().filter_map(span).collect();
        let unnamed = (read.entries.len() - spans.len()) as u64;
        Recorded { name: thread.name.clone(), thread: thread.number, spans, overwritten: read.overwritten, unnamed }
    });
    Recording { threads: threads.collect(), compared_ns: Some((first.1, last.1)) }
}

fn known() -> std::sync::MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    static OUTER: Scope = Scope::new("outer");
    static INNER: Scope = Scope::new("inner");

    fn of(name: &str) -> Recorded {
        recording().threads.into_iter().find(|thread| thread.name == name).unwrap()
    }

    #[test]
    fn scopes_nest_and_are_read_while_they_go_on() {
        let body = || {
            assert!(start_thread("nesting", 64) && start_thread("nesting", 64));
            let outer = OUTER.enter();
            let _ = std::hint::black_box(INNER.enter());
            std::thread::sleep(std::time::Duration::from_millis(2));
            drop(outer);
        };
        std::thread::spawn(body).join().unwrap();
        let recorded = of("nesting");
        let names: Vec<&str> = recorded.spans.iter().map(|span| span.name).collect();
        assert_eq!((names, recorded.overwritten, recorded.unnamed), (vec!["inner", "outer"], 0, 0));
        let [inner, outer] = recorded.spans[..] else { panic!("{recorded:?}") };
        assert!(outer.length_ns >= 2_000_000 && inner.length_ns < outer.length_ns, "{recorded:?}");
        assert!(outer.start_ns <= inner.start_ns, "{recorded:?}");
    }

    #[test]
    fn a_thread_without_a_ring_records_nothing() {
        std::thread::spawn(|| drop(OUTER.enter())).join().unwrap();
    }

    #[test]
    fn what_a_ring_has_lost_is_counted() {
        let body = || {
            start_thread("small", 10);
            (0..100).for_each(|_| drop(INNER.enter()));
        };
        std::thread::spawn(body).join().unwrap();
        let recorded = of("small");
        assert_eq!(recorded.spans.len() as u64 + recorded.overwritten, 100);
        assert!((15..=16).contains(&recorded.spans.len()), "{}", recorded.spans.len());
    }

    #[test]
    fn a_scope_in_which_the_thread_slept_says_so() {
        let body = || {
            start_thread("switched", 64);
            for _ in 0..20 {
                let _scope = OUTER.enter();
                let _inner = INNER.enter();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            (0..20).for_each(|_| drop(INNER.enter()));
            crate::preempt::Preemptions::of_this_thread().is_some()
        };
        let is_told = std::thread::spawn(body).join().unwrap();
        let spans = of("switched").spans;
        if !is_told {
            evenkeel_testkit::skipped("the kernel does not report a thread's preemptions here");
            assert!(spans.iter().all(|span| span.switched_out.is_none()));
            return;
        }
        let (slept, empty) = spans.split_at(40);
        let count = |spans: &[Span]| spans.iter().filter(|span| span.switched_out == Some(true)).count();
        // Outer and inner alike; the kernel may have come back to the thread at once now and then.
        assert!(count(slept) >= 20, "{slept:?}");
        assert!(count(empty) <= 5, "{empty:?}");
    }

    #[test]
    fn long_innermost_scopes_are_logged_less_the_time_switched_out() {
        static AROUND: Scope = Scope::new("around a long one");
        static LONG: Scope = Scope::new("a long one");
        static ASLEEP: Scope = Scope::new("one that sleeps");
        let work = |ns: u64| {
            let until_ns = thread_cpu_ns() + ns;
            while thread_cpu_ns() < until_ns {
                std::hint::spin_loop();
            }
        };
        let body = move || {
            start_thread("long", 64);
            log_long(std::time::Duration::from_millis(2));
            {
                let _around = AROUND.enter();
                let _long = LONG.enter();
                work(3_000_000);
            }
            for _ in 0..3 {
                let _asleep = ASLEEP.enter();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            stop_long();
            let again = LONG.enter();
            work(3_000_000);
            drop(again);
            evenkeel_sys::thread::id()
        };
        let thread = std::thread::spawn(body).join().unwrap();
        // Other tests' scopes of this process may be there too.
        let taken = take_long();
        let ours = taken.scopes.iter().filter(|long| long.thread == thread);
        let (asleep, others): (Vec<&LongScope>, Vec<&LongScope>) = ours.partition(|long| long.name == ASLEEP.name);
        // A pause of the machine is CPU time to the kernel if it comes in the moment before or after a sleep: not three times.
        assert!(asleep.len() < 3, "{taken:?}");
        let [long] = others[..] else { panic!("{taken:?}") };
        assert!(long.name == "a long one" && long.cpu_ns >= 3_000_000, "{long:?}");
    }

    #[cfg(feature = "tracy")]
    #[test]
    fn a_zone_is_open_while_a_client_runs() {
        let entered = OUTER.enter();
        let before = format!("{:?}", entered._zone);
        drop(entered);
        tracy_client::Client::start();
        let entered = OUTER.enter();
        assert_eq!((before.as_str(), format!("{:?}", entered._zone).as_str()), ("Zone(false)", "Zone(true)"));
        drop(entered);
    }
}
