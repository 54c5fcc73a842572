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

mod chrome;
mod named;
mod ring;

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_sys::tsc::{self, Scale};

pub use named::Named;
use ring::Ring;

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
    ring: Ring,
}

thread_local! {
    static OWN: OnceCell<Arc<Thread>> = const { OnceCell::new() };
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
    id: u32,
    start_ticks: u64,
}

impl Scope {
    /// A scope of this name.
    pub const fn new(name: &'static str) -> Scope {
        Scope { name, id: AtomicU32::new(UNKNOWN) }
    }

    /// Enters it. Where the thread has no ring nothing is recorded, at the cost of a reading of the counter.
    #[inline]
    pub fn enter(&'static self) -> Entered {
        let id = match self.id.load(Ordering::Relaxed) {
            UNKNOWN => self.learn(),
            id => id,
        };
        Entered { id, start_ticks: tsc::ticks() }
    }

    /// Gives it a number; the same one, if two threads come here at once.
    #[cold]
    fn learn(&'static self) -> u32 {
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
        id
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        left(self.id, self.start_ticks);
    }
}

#[inline]
fn left(id: u32, start_ticks: u64) {
    let end_ticks = tsc::ticks();
    OWN.with(|own| {
        if let Some(thread) = own.get() {
            thread.ring.push(id, start_ticks, end_ticks);
        }
    });
}

/// Gives the calling thread a ring of the last `scopes` scopes (up to a million; rounded up to a power of two), under a name for those
/// who read it. A second call changes nothing. Gives whether the thread has one.
pub fn start_thread(name: &str, scopes: usize) -> bool {
    OWN.with(|own| {
        if own.get().is_some() {
            return true;
        }
        let mut known = known();
        if known.threads.len() >= THREADS_MAX {
            return false;
        }
        known.first.get_or_insert_with(tsc::ticks_and_ns);
        let thread = Arc::new(Thread { name: name.to_owned(), ring: Ring::new(scopes.clamp(2, RING_MAX)) });
        known.threads.push(Arc::clone(&thread));
        own.set(thread).is_ok()
    })
}

/// What the rings hold now.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Each thread that had a ring, those that have ended included.
    pub threads: Vec<Recorded>,
}

/// The scopes of one thread.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its name.
    pub name: String,
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
}

/// Reads all rings, while their threads go on. What is overwritten meanwhile is left out and counted.
pub fn recording() -> Recording {
    let (names, threads, first) = {
        let known = known();
        (known.names.clone(), known.threads.clone(), known.first)
    };
    let Some(first) = first else { return Recording { threads: Vec::new() } };
    let scale = Scale::between(first, tsc::ticks_and_ns());
    let threads = threads.iter().map(|thread| {
        let read = thread.ring.read();
        let span = |entry: &ring::Entry| {
            Some(Span {
                name: names.get(usize::try_from(entry.id).ok()?.checked_sub(1)?)?,
                start_ns: scale.ns_at(entry.start_ticks),
                length_ns: scale.length_ns(entry.end_ticks.saturating_sub(entry.start_ticks)),
            })
        };
        let spans: Vec<Span> = read.entries.iter().filter_map(span).collect();
        let unnamed = (read.entries.len() - spans.len()) as u64;
        Recorded { name: thread.name.clone(), spans, overwritten: read.overwritten, unnamed }
    });
    Recording { threads: threads.collect() }
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
}
