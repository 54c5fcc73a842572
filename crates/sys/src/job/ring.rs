//! `Ring`: a bounded queue that any number of threads push to and pop from, without a lock and without waiting: each slot tells by a
//! number of its own whose turn it is (after Dmitry Vyukov's bounded queue). A thread that is taken from its CPU in the middle of a push
//! hides what was pushed after it, until it is back; it never makes others wait awake.

use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::primitive::{AtomicU64, Ordering, UnsafeCell};

/// Apart from its neighbours by two cache lines, since processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug)]
struct Apart<T>(T);

/// A queue of a fixed number of values, first in, first out.
pub struct Ring<T> {
    slots: Box<[Slot<T>]>,
    mask: u64,
    /// The number of the next value that is pushed.
    tail: Apart<AtomicU64>,
    /// The number of the next value that is popped.
    head: Apart<AtomicU64>,
}

struct Slot<T> {
    /// N: free for value N. N + 1: holds value N. The value after the next turn of the ring is N + slots.
    turn: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a value is written by the one thread that took its number from `tail`, and read by the one that took it from `head`, after
// the writer's release of `turn`; values move between threads, references to them never do.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// Room for so many values at least: the next power of two, 2 or more. All memory is taken here.
    pub fn new(capacity: usize) -> Ring<T> {
        let slots = capacity.max(2).next_power_of_two() as u64;
        let slot = |turn| Slot { turn: AtomicU64::new(turn), value: UnsafeCell::new(MaybeUninit::uninit()) };
        Ring {
            slots: (0..slots).map(slot).collect(),
            mask: slots - 1,
            tail: Apart(AtomicU64::new(0)),
            head: Apart(AtomicU64::new(0)),
        }
    }

    /// How many values are in it, as far as one thread can tell.
    #[inline]
    pub fn len(&self) -> usize {
        // The head first: it never overtakes the tail, so the difference is no less than 0.
        let head = self.head.0.load(Ordering::Acquire);
        self.tail.0.load(Ordering::Acquire).saturating_sub(head) as usize
    }

    /// Whether it is empty, as far as one thread can tell.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is a value to pop, not counting one that is just being put in.
    #[inline]
    pub fn has_ready(&self) -> bool {
        let number = self.head.0.load(Ordering::Relaxed);
        // Beyond that, somebody has popped meanwhile: there may be another.
        self.slot(number).turn.load(Ordering::Acquire) > number
    }

    fn slot(&self, number: u64) -> &Slot<T> {
        // The mask is one less than the number of slots.
        &self.slots[(number & self.mask) as usize]
    }

    /// Puts a value behind all others.
    ///
    /// # Errors
    /// The value, if there is no room.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let mut number = self.tail.0.load(Ordering::Relaxed);
        let slot = loop {
            let slot = self.slot(number);
            // Acquire: whoever popped the value before has read it.
            let turn = slot.turn.load(Ordering::Acquire);
            if turn == number {
                let next = number + 1;
                match self.tail.0.compare_exchange_weak(number, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => break slot,
                    Err(now) => number = now,
                }
            } else if turn < number {
                return Err(value);
            } else {
                number = self.tail.0.load(Ordering::Relaxed);
            }
        };
        // SAFETY: the number was free for one thread, and is ours now; nobody reads before the store below.
        slot.value.with_mut(|place| unsafe { (*place).write(value) });
        slot.turn.store(number + 1, Ordering::Release);
        Ok(())
    }

    /// Takes the oldest value out; none if there is none, or if it is just being put in.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut number = self.head.0.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(number);
            // Acquire: the value was written before.
            let turn = slot.turn.load(Ordering::Acquire);
            if turn == number + 1 {
                let next = number + 1;
                match self.head.0.compare_exchange_weak(number, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => number = now,
                }
            } else if turn <= number {
                return None;
            } else {
                number = self.head.0.load(Ordering::Relaxed);
            }
        }
        // SAFETY: the value was written, and its number is ours alone.
        Some(unsafe { self.take(number) })
    }

    /// Moves a value out and gives its slot back.
    ///
    /// # Safety
    /// The value with this number was seen to be written, and the number was taken from `head` by the caller, who calls this once.
    #[inline]
    unsafe fn take(&self, number: u64) -> T {
        let slot = self.slot(number);
        // SAFETY: as the caller promises; nobody writes before the store below.
        let value = slot.value.with_mut(|place| unsafe { (*place).assume_init_read() });
        slot.turn.store(number + self.mask + 1, Ordering::Release);
        value
    }
}

/// Where one thread alone pushes: that takes it no atomic step. Any number of threads pop from the [`Sink`].
#[derive(Debug)]
pub struct Source<T> {
    ring: Arc<Ring<T>>,
    /// The number of the next value.
    next: Cell<u64>,
}

/// Where any number of threads pop what comes from one [`Source`].
#[derive(Debug)]
pub struct Sink<T> {
    ring: Arc<Ring<T>>,
}

/// Both ends of a queue with room for so many values at least, as [`Ring::new`] has it.
pub fn one_to_many<T>(capacity: usize) -> (Source<T>, Sink<T>) {
    let ring = Arc::new(Ring::new(capacity));
    (Source { ring: Arc::clone(&ring), next: Cell::new(0) }, Sink { ring })
}

impl<T> Source<T> {
    /// How many values are in the queue, as far as one thread can tell: never fewer than there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.next.get().saturating_sub(self.ring.head.0.load(Ordering::Relaxed)) as usize
    }

    /// Whether it is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a value behind all others.
    ///
    /// # Errors
    /// The value, if there is no room.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let number = self.next.get();
        let slot = self.ring.slot(number);
        if slot.turn.load(Ordering::Acquire) != number {
            return Err(value);
        }
        // SAFETY: the slot is free for this number, and numbers are given by this source alone, which is one and not `Sync`.
        slot.value.with_mut(|place| unsafe { (*place).write(value) });
        self.next.set(number + 1);
        // For those who ask how long the queue is; who pops goes by the turn.
        self.ring.tail.0.store(number + 1, Ordering::Relaxed);
        slot.turn.store(number + 1, Ordering::Release);
        Ok(())
    }
}

/// Some values of a [`Sink`] that were taken out in one step, and are moved out one by one. What is left is dropped with it.
#[derive(Debug)]
pub struct Claim<T> {
    ring: Arc<Ring<T>>,
    next: u64,
    end: u64,
}

impl<T> Claim<T> {
    /// How many are left.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.next) as usize
    }

    /// Whether none is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next == self.end
    }

    /// The oldest that is left.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let number = self.next;
        self.next += 1;
        // SAFETY: `claim` saw that the value was written and took its number, which is given out once, here.
        Some(unsafe { self.ring.take(number) })
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

impl<T> Sink<T> {
    /// Takes up to so many values out at once; none if there is none.
    #[inline]
    pub fn claim(&self, most: u64) -> Option<Claim<T>> {
        let ring = &self.ring;
        let mut number = ring.head.0.load(Ordering::Relaxed);
        loop {
            let mut end = number;
            // Acquire: the values were written before.
            while end - number < most && ring.slot(end).turn.load(Ordering::Acquire) == end + 1 {
                end += 1;
            }
            if end == number {
                let now = ring.head.0.load(Ordering::Relaxed);
                if now == number {
                    return None;
                }
                number = now;
                continue;
            }
            match ring.head.0.compare_exchange_weak(number, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(Claim { ring: Arc::clone(ring), next: number, end }),
                Err(now) => number = now,
            }
        }
    }

    /// As [`Ring::pop`].
    #[inline]
    pub fn pop(&self) -> Option<T> {
        self.ring.pop()
    }

    /// As [`Ring::len`].
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// As [`Ring::is_empty`].
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// As [`Ring::has_ready`].
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.ring.has_ready()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}
