//! `Ring`: a bounded queue that any number of threads push to and pop from, without a lock and without waiting: each slot tells by a
//! number of its own whose turn it is (after Dmitry Vyukov's bounded queue). A thread that is taken from its CPU in the middle of a push
//! hides what was pushed after it, until it is back; it never makes others wait awake.

use std::fmt;
use std::mem::MaybeUninit;

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
        let slot = loop {
            let slot = self.slot(number);
            // Acquire: the value was written before.
            let turn = slot.turn.load(Ordering::Acquire);
            if turn == number + 1 {
                let next = number + 1;
                match self.head.0.compare_exchange_weak(number, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => break slot,
                    Err(now) => number = now,
                }
            } else if turn <= number {
                return None;
            } else {
                number = self.head.0.load(Ordering::Relaxed);
            }
        };
        // SAFETY: the value was written, and its number is ours alone; the slot is given back below, after the value was moved out.
        let value = slot.value.with_mut(|place| unsafe { (*place).assume_init_read() });
        slot.turn.store(number + self.mask + 1, Ordering::Release);
        Some(value)
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
