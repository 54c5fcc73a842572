//! `Gate`: who of a few threads sleeps, and how one of them is woken. A thread says that it is about to sleep, looks once more whether
//! there is something to do, and then sleeps; who has made something to do looks who sleeps. One of the two sees the other.

use super::primitive::{AtomicU32, AtomicU64, Ordering, fence, relax, wait, wake};

/// The most threads that a gate has seats for: a bit each.
pub const SEATS_MAX: usize = 64;

const AWAKE: u32 = 0;
const CALLED: u32 = 1;
const ASLEEP: u32 = 2;

/// Threads, each with a number below [`SEATS_MAX`], that sleep until they are woken.
#[derive(Debug)]
pub struct Gate {
    /// Those that sleep, or are about to.
    idle: AtomicU64,
    words: Box<[Word]>,
}

/// In a cache line of its own: its thread may look at it for a moment.
#[repr(align(64))]
#[derive(Debug)]
struct Word(AtomicU32);

impl Gate {
    /// For so many threads, at most [`SEATS_MAX`].
    pub fn new(seats: usize) -> Gate {
        let words = (0..seats.min(SEATS_MAX)).map(|_| Word(AtomicU32::new(AWAKE))).collect();
        Gate { idle: AtomicU64::new(0), words }
    }

    /// A bit for each thread that sleeps or is about to, as far as one can tell without a fence.
    #[inline]
    pub fn idle(&self) -> u64 {
        self.idle.load(Ordering::Relaxed)
    }

    /// The thread with this number is about to sleep. It has to look once more for what it would sleep through, and then either
    /// [`stay`](Gate::stay) or [`sleep`](Gate::sleep).
    pub fn about_to_sleep(&self, seat: usize) {
        self.idle.fetch_or(bit(seat), Ordering::Relaxed);
        // Either our bit is seen by who has just made something to do, or what he made is seen by our second look.
        fence(Ordering::SeqCst);
    }

    /// It does not sleep after all.
    pub fn stay(&self, seat: usize) {
        self.idle.fetch_and(!bit(seat), Ordering::Relaxed);
    }

    /// It sleeps until it is called; before, it looks for a call so many times. May end without a call.
    pub fn sleep(&self, seat: usize, looks: u32) {
        let Some(Word(word)) = self.words.get(seat) else { return };
        for _ in 0..looks {
            if word.load(Ordering::Relaxed) == CALLED {
                break;
            }
            relax();
        }
        while word.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed) != Err(CALLED) {
            wait(word, ASLEEP);
        }
        // Acquire: what the caller did before is seen.
        word.swap(AWAKE, Ordering::Acquire);
        self.stay(seat);
    }

    /// Wakes one of those whose bits are given, the lowest first; gives its number, or none if all are awake.
    pub fn wake_one(&self, of: u64) -> Option<usize> {
        fence(Ordering::SeqCst);
        let mut idle = self.idle.load(Ordering::Relaxed);
        loop {
            let seat = match idle & of {
                0 => return None,
                some => some.trailing_zeros() as usize,
            };
            let without = idle & !bit(seat);
            match self.idle.compare_exchange_weak(idle, without, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.call(seat);
                    return Some(seat);
                }
                Err(now) => idle = now,
            }
        }
    }

    /// Calls this one, whether or not it sleeps.
    fn call(&self, seat: usize) {
        let Some(Word(word)) = self.words.get(seat) else { return };
        if word.swap(CALLED, Ordering::Release) == ASLEEP {
            wake(word);
        }
    }
}

fn bit(seat: usize) -> u64 {
    1_u64.checked_shl(u32::try_from(seat).unwrap_or(u32::MAX)).unwrap_or(0)
}
