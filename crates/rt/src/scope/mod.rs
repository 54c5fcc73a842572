//! `Scope`: shows where the time of a tick goes.
//! A scope costs some tens of nanoseconds: two readings of the cycle counter, and a few words in a ring of its thread.
//! Measuring allocates nothing and takes no lock. Any thread can read the rings at any time.
//!
//! ```
//! use evenkeel_rt::scope::{self, Scope};
//!
//! static MOVE: Scope = Scope::new("move players");
//!
//! scope::start_thread("tick", 4096)?; // before the first tick: it allocates the ring
//! {
//!     let _scope = MOVE.enter();
//!     // … work …
//! }
//! let recording = scope::recording()?;
//! assert_eq!(recording.threads[0].spans[0].name, "move players");
//! let json = recording.chrome_json(); // opens in Perfetto and in chrome://tracing
//! # assert!(json.contains("move players"));
//! # Ok::<(), evenkeel_rt::scope::ScopeError>(())
//! ```
//!
//! | feature | what it adds |
//! |---|---|
//! | `tracing` | `ScopeLayer`: records spans of the crate tracing as scopes |
//! | `puffin` | `Recording::to_puffin`: passes the recording to puffin's viewers |
//! | `tracy` | each scope is also a zone of the Tracy profiler, while the server runs a Tracy client |

mod chrome;
mod error;
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
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_sys::clock::thread_cpu_ns;
use evenkeel_sys::tsc::{self, Scale};

use crate::preempt::Preemptions;
pub use error::ScopeError;
use error::THREADS_MAX;
pub use long::{LongScope, LongScopes, log_long, stop_long, take_long};
use ring::{KeptCpu, Ring};
#[cfg(feature = "tracing")]
pub use spans::ScopeLayer;

/// The maximum number of names and the maximum number of threads. The recorder counts what exceeds them.
const NAMES_MAX: usize = 4096;
/// The maximum number of scopes that a thread's ring holds: 24 MB.
const RING_MAX: usize = 1 << 20;

/// The number of a scope whose name has no number yet, or found no room.
const UNKNOWN: u32 = 0;
const NO_ROOM: u32 = u32::MAX;

/// The length of a thread's ring if the thread did not call [`start_thread`].
const RING_BY_ITSELF: usize = 4096;

/// Whether any thread records. While no thread records, a scope of a thread without a ring costs only this load.
static RECORDS: AtomicBool = AtomicBool::new(false);
static KNOWN: Mutex<Known> = Mutex::new(Known { names: Vec::new(), threads: Vec::new(), refused: 0, first: None });

struct Known {
    names: Vec<&'static str>,
    threads: Vec<Arc<Thread>>,
    /// The number of threads for which there was no room.
    refused: u64,
    /// The cycle counter and the clock when the first thread began to record. `None` before that time.
    first: Option<(u64, u64)>,
}

struct Thread {
    name: String,
    /// The kernel's thread id.
    number: u32,
    ring: Ring,
}

/// The part of a recorder that only the thread itself uses.
struct Own {
    thread: Arc<Thread>,
    /// The thread's count of preemptions. `None` if the kernel does not report preemptions.
    preemptions: Option<Rc<Preemptions>>,
    /// Whether no scope has ended since the last scope began. If so, the last scope is an innermost scope.
    is_innermost: Cell<bool>,
}

thread_local! {
    /// The calling thread's recorder. `Some(None)` if there was no room for this thread.
    static OWN: OnceCell<Option<Own>> = const { OnceCell::new() };
}

/// A block of code to measure. Declare one `static` for each block.
#[derive(Debug)]
pub struct Scope {
    name: &'static str,
    id: AtomicU32,
}

/// A scope that the thread has entered. Dropping this value leaves the scope.
///
/// ```
/// use evenkeel_rt::scope::{Entered, Scope};
///
/// static MOVE: Scope = Scope::new("move players");
///
/// let entered: Entered = MOVE.enter();
/// // … move the players …
/// drop(entered); // the scope ends
/// ```
#[derive(Debug)]
#[must_use = "a scope ends where this is dropped: `let _scope = …`"]
pub struct Entered {
    scope: &'static Scope,
    start_preemptions: u64,
    start_ticks: u64,
    /// The thread's CPU time at the start, or 0 while long scopes are not logged.
    start_cpu_ns: u64,
    /// The thread that entered the scope must leave it, so this type is not `Send`.
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
    /// A scope with this name.
    pub const fn new(name: &'static str) -> Scope {
        Scope { name, id: AtomicU32::new(UNKNOWN) }
    }

    /// Enters the scope. Dropping the result leaves the scope.
    ///
    /// Once any thread of the process records ([`start_thread`]), every other thread starts to record at its first scope.
    /// That first scope allocates a ring of 4,096 scopes, under the thread's own name.
    /// While no thread records, a scope costs little more than reading the cycle counter.
    #[inline]
    pub fn enter(&'static self) -> Entered {
        if self.id.load(Ordering::Relaxed) == UNKNOWN {
            self.learn();
        }
        let begin = |own: &OnceCell<Option<Own>>| {
            let own = match own.get() {
                Some(own) => own.as_ref(),
                None if RECORDS.load(Ordering::Relaxed) => start_by_itself(own),
                None => None,
            };
            let Some(own) = own else { return (0, 0) };
            own.is_innermost.set(true);
            (
                own.preemptions.as_ref().map_or(0, |preemptions| preemptions.count()),
                if long::is_on() { thread_cpu_ns() } else { 0 },
            )
        };
        let (start_preemptions, start_cpu_ns) = OWN.with(begin);
        Entered {
            scope: self,
            start_preemptions,
            start_cpu_ns,
            #[cfg(feature = "tracy")]
            _zone: Zone(tracy_client::Client::running().map(|client| client.span_alloc(Some(self.name), "", "", 0, 0))),
            start_ticks: tsc::ticks(),
            thread: PhantomData,
        }
    }

    /// Assigns the scope's number. If two threads call this at once, both get the same number.
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
            let Some(Some(own)) = own.get() else { return };
            let kept = match &own.preemptions {
                Some(preemptions) if preemptions.count() == self.start_preemptions => KeptCpu::Yes,
                Some(_) => KeptCpu::No,
                None => KeptCpu::Unknown,
            };
            own.thread.ring.push(self.scope.id.load(Ordering::Relaxed), kept, self.start_ticks, end_ticks);
            if own.is_innermost.replace(false) && self.start_cpu_ns > 0 {
                long::ended(self.scope.name, thread_cpu_ns().saturating_sub(self.start_cpu_ns));
            }
        });
    }
}

/// Starts to record the calling thread under a name for readers. Allocates a ring for the thread's last `scopes` scopes.
/// `scopes` may be up to a million, and is rounded up to a power of two.
/// The first call of a process takes up to 0.3 s, because it tests whether the kernel reports when a thread is switched out.
/// A second call with the same name changes nothing: the ring keeps its length.
///
/// # Errors
/// If 256 threads record already, or if this thread records under another name.
pub fn start_thread(name: &str, scopes: usize) -> Result<(), ScopeError> {
    OWN.with(|own| match own.get_or_init(|| new_ring(name, scopes)) {
        Some(known) if known.thread.name == name => Ok(()),
        Some(_) => Err(ScopeError::OtherName),
        None => Err(ScopeError::TooManyThreads),
    })
}

/// Starts to record a thread that did not call [`start_thread`] and enters a scope while other threads record.
#[cold]
fn start_by_itself(own: &OnceCell<Option<Own>>) -> Option<&Own> {
    let thread = std::thread::current();
    own.get_or_init(|| new_ring(thread.name().unwrap_or("without a name"), RING_BY_ITSELF)).as_ref()
}

fn new_ring(name: &str, scopes: usize) -> Option<Own> {
    let preemptions = Preemptions::of_this_thread();
    let mut known = known();
    if known.threads.len() >= THREADS_MAX {
        known.refused += 1;
        return None;
    }
    known.first.get_or_insert_with(tsc::ticks_and_ns);
    let thread = Arc::new(Thread {
        name: name.to_owned(),
        number: evenkeel_sys::thread::id(),
        ring: Ring::new(scopes.clamp(2, RING_MAX)),
    });
    known.threads.push(Arc::clone(&thread));
    RECORDS.store(true, Ordering::Relaxed);
    Some(Own { thread, preemptions, is_innermost: Cell::new(false) })
}

/// The contents of all rings.
///
/// ```
/// use evenkeel_rt::scope::{self, Recorded, Recording, Scope, Span};
///
/// static MOVE: Scope = Scope::new("move players");
///
/// scope::start_thread("tick", 64)?;
/// drop(MOVE.enter());
/// let Recording { threads, .. } = scope::recording()?;
/// let Recorded { name, spans, .. } = &threads[0];
/// let Span { length_ns, switched_out, .. } = spans[0];
/// println!("{name}: {length_ns} ns, switched out: {switched_out:?}");
/// # Ok::<(), evenkeel_rt::scope::ScopeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recording {
    /// Each thread that recorded, including threads that have ended.
    pub threads: Vec<Recorded>,
    /// When we compared the cycle counter with the monotonic clock, in nanoseconds.
    /// The first value is when the first thread began to record, the second is the time of this reading.
    /// Times between the two are accurate to some microseconds.
    pub compared_ns: Option<(u64, u64)>,
    /// How many threads entered scopes but are not in [`threads`](Recording::threads), because the recorder has room for 256.
    pub threads_refused: u64,
}

/// The scopes of one thread.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The thread's name.
    pub name: String,
    /// The kernel's thread id, as in `/proc/PID/task`.
    pub thread: u32,
    /// The passes through scopes, in the order in which they ended: inner scopes come before outer scopes.
    pub spans: Vec<Span>,
    /// The number of older passes that are no longer in the ring.
    pub overwritten: u64,
    /// The number of passes through scopes without a name, because the recorder has room for 4,096 names.
    pub unnamed: u64,
}

/// One pass through a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The scope's name.
    pub name: &'static str,
    /// When the scope was entered, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// How long the scope took, in nanoseconds.
    pub length_ns: u64,
    /// Whether the thread was preempted or slept in the scope. `None` if the kernel does not report that.
    /// If a scope is unusually long and this is false, the cause is the hypervisor, an interrupt, or the work itself.
    pub switched_out: Option<bool>,
}

/// Reads all rings while their threads continue. Omits and counts entries that were overwritten during the read.
///
/// # Errors
/// If no thread records.
pub fn recording() -> Result<Recording, ScopeError> {
    let (names, threads, threads_refused, first) = {
        let known = known();
        (known.names.clone(), known.threads.clone(), known.refused, known.first.ok_or(ScopeError::NotStarted)?)
    };
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
    Ok(Recording { threads: threads.collect(), compared_ns: Some((first.1, last.1)), threads_refused })
}

fn known() -> std::sync::MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    static OUTER: Scope = Scope::new("outer");
    static INNER: Scope = Scope::new("inner");

    fn recorded(name: &str) -> Recorded {
        recording().unwrap().threads.into_iter().find(|thread| thread.name == name).unwrap()
    }

    #[test]
    fn scopes_nest_and_are_read_while_they_go_on() {
        let body = || {
            start_thread("nesting", 64).unwrap();
            start_thread("nesting", 64).unwrap();
            let outer = OUTER.enter();
            let _ = std::hint::black_box(INNER.enter());
            std::thread::sleep(std::time::Duration::from_millis(2));
            drop(outer);
        };
        std::thread::spawn(body).join().unwrap();
        let recorded = recorded("nesting");
        let names: Vec<&str> = recorded.spans.iter().map(|span| span.name).collect();
        assert_eq!((names, recorded.overwritten, recorded.unnamed), (vec!["inner", "outer"], 0, 0));
        let [inner, outer] = recorded.spans[..] else { panic!("{recorded:?}") };
        assert!(outer.length_ns >= 2_000_000 && inner.length_ns < outer.length_ns, "{recorded:?}");
        assert!(outer.start_ns <= inner.start_ns, "{recorded:?}");
    }

    #[test]
    fn a_thread_without_a_ring_starts_to_record_once_another_one_does() {
        std::thread::spawn(|| start_thread("the first", 64)).join().unwrap().unwrap();
        let thread = std::thread::Builder::new().name("by itself".to_owned());
        let body = || (0..3).for_each(|_| drop(OUTER.enter()));
        thread.spawn(body).unwrap().join().unwrap();
        assert_eq!(recorded("by itself").spans.len(), 3);
    }

    #[test]
    fn overwritten_scopes_are_counted() {
        let body = || {
            start_thread("small", 10).unwrap();
            (0..100).for_each(|_| drop(INNER.enter()));
        };
        std::thread::spawn(body).join().unwrap();
        let recorded = recorded("small");
        assert_eq!(recorded.spans.len() as u64 + recorded.overwritten, 100);
        assert!((15..=16).contains(&recorded.spans.len()), "{}", recorded.spans.len());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_scope_in_which_the_thread_slept_says_so() {
        let body = || {
            start_thread("switched", 64).unwrap();
            for _ in 0..20 {
                let _scope = OUTER.enter();
                let _inner = INNER.enter();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            (0..20).for_each(|_| drop(INNER.enter()));
            crate::preempt::Preemptions::of_this_thread().is_some()
        };
        let is_known = std::thread::spawn(body).join().unwrap();
        let spans = recorded("switched").spans;
        if !is_known {
            evenkeel_testkit::skipped("the kernel does not report a thread's preemptions here");
            assert!(spans.iter().all(|span| span.switched_out.is_none()));
            return;
        }
        let (slept, empty) = spans.split_at(40);
        let count = |spans: &[Span]| spans.iter().filter(|span| span.switched_out == Some(true)).count();
        // Outer and inner scopes both count. Sometimes the kernel may return to the thread at once.
        assert!(count(slept) >= 20, "{slept:?}");
        assert!(count(empty) <= 5, "{empty:?}");
    }

    #[cfg(target_os = "linux")]
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
            start_thread("long", 64).unwrap();
            log_long(std::time::Duration::from_millis(2)).unwrap();
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
        // The log may also have scopes of other tests in this process.
        let taken = take_long();
        let ours = taken.scopes.iter().filter(|long| long.thread == thread);
        let (asleep, others): (Vec<&LongScope>, Vec<&LongScope>) = ours.partition(|long| long.name == ASLEEP.name);
        // If a pause of the machine comes right before or after a sleep, the kernel counts it as CPU time. That does not happen three times.
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
