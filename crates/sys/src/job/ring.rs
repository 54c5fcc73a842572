//! `Ring`: a bounded queue that any number of threads push to and pop from, without a lock and without waiting.
//! Each slot has a number that shows whether the slot is free or full (after Dmitry Vyukov's bounded queue).
//! If a thread loses its CPU during a push, later values are hidden until the thread runs again. Other threads never spin meanwhile.

use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::primitive::{AtomicU64, Ordering, UnsafeCell};

/// Keeps values two cache lines apart, because processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Debug)]
struct Apart<T>(T);

/// A queue of a fixed number of values, first in, first out.
pub struct Ring<T> {
    slots: Box<[Slot<T>]>,
    mask: u64,
    /// The number of the next value to push.
    tail: Apart<AtomicU64>,
    /// The number of the next value to pop.
    head: Apart<AtomicU64>,
}

struct Slot<T> {
    /// N means that the slot is free for value N. N + 1 means that the slot holds value N. The slot's next value has number N + slots.
    turn: AtomicU64,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: only the thread that took a value's number from `tail` writes the value.
// Only the thread that took the number from `head` reads it, after the writer's release of `turn`.
// Values move between threads, but references to them never do.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// Allocates room for at least this many values: the next power of two, 2 or more.
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

    /// The number of values, as far as one thread can see.
    #[inline]
    pub fn len(&self) -> usize {
        // Read the head first. The head never overtakes the tail, so the difference is at least 0.
        let head = self.head.0.load(Ordering::Acquire);
        self.tail.0.load(Ordering::Acquire).saturating_sub(head) as usize
    }

    /// Whether the queue is empty, as far as one thread can see.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is a value to pop. A value whose push has not ended does not count.
    #[inline]
    pub fn has_ready(&self) -> bool {
        let number = self.head.0.load(Ordering::Relaxed);
        // If another thread has popped meanwhile, there may be another value.
        self.slot(number).turn.load(Ordering::Acquire) > number
    }

    fn slot(&self, number: u64) -> &Slot<T> {
        // The mask is one less than the number of slots.
        &self.slots[(number & self.mask) as usize]
    }

    /// Adds a value at the end.
    ///
    /// # Errors
    /// The value, if the queue is full.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let mut number = self.tail.0.load(Ordering::Relaxed);
        let slot = loop {
            let slot = self.slot(number);
            // Acquire: the thread that popped the slot's previous value has read it.
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
        // SAFETY: the number was free for one thread, and now this thread owns it. No thread reads the value before the store below.
        slot.value.with_mut(|place| unsafe { (*place).write(value) });
        slot.turn.store(number + 1, Ordering::Release);
        Ok(())
    }

    /// Removes the oldest value. `None` if the queue is empty, or if the push of that value has not ended.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut number = self.head.0.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(number);
            // Acquire: makes the written value visible.
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
        // SAFETY: the value was written, and only this thread has its number.
        Some(unsafe { self.take(number) })
    }

    /// Moves a value out and frees its slot.
    ///
    /// # Safety
    /// The caller saw that the value with this number was written, took the number from `head`, and calls this function once.
    #[inline]
    unsafe fn take(&self, number: u64) -> T {
        let slot = self.slot(number);
        // SAFETY: as the caller promises. No thread writes the value before the store below.
        let value = slot.value.with_mut(|place| unsafe { (*place).assume_init_read() });
        slot.turn.store(number + self.mask + 1, Ordering::Release);
        value
    }
}

/// The pushing end for a single thread, which therefore needs no atomic operation. Any number of threads pop from the [`Sink`].
#[derive(Debug)]
pub struct Source<T> {
    ring: Arc<Ring<T>>,
    /// The number of the next value.
    next: Cell<u64>,
}

/// The popping end of one [`Source`], for any number of threads.
#[derive(Debug)]
pub struct Sink<T> {
    ring: Arc<Ring<T>>,
}

/// Makes both ends of a queue with room for at least this many values, as in [`Ring::new`].
pub fn one_to_many<T>(capacity: usize) -> (Source<T>, Sink<T>) {
    let ring = Arc::new(Ring::new(capacity));
    (Source { ring: Arc::clone(&ring), next: Cell::new(0) }, Sink { ring })
}

impl<T> Source<T> {
    /// The number of values, as far as one thread can see. It is never too low.
    #[inline]
    pub fn len(&self) -> usize {
        self.next.get().saturating_sub(self.ring.head.0.load(Ordering::Relaxed)) as usize
    }

    /// Whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a value at the end.
    ///
    /// # Errors
    /// The value, if the queue is full.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let number = self.next.get();
        let slot = self.ring.slot(number);
        if slot.turn.load(Ordering::Acquire) != number {
            return Err(value);
        }
        // SAFETY: the slot is free for this number. Only this source assigns numbers, and it is neither cloned nor `Sync`.
        slot.value.with_mut(|place| unsafe { (*place).write(value) });
        self.next.set(number + 1);
        // This store is for threads that read the length. Threads that pop use the slot's number.
        self.ring.tail.0.store(number + 1, Ordering::Relaxed);
        slot.turn.store(number + 1, Ordering::Release);
        Ok(())
    }
}

/// Values that one step removed from a [`Sink`], to be moved out one by one. Dropping this drops the remaining values.
#[derive(Debug)]
pub struct Claim<T> {
    ring: Arc<Ring<T>>,
    next: u64,
    end: u64,
}

impl<T> Claim<T> {
    /// The number of values left.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.next) as usize
    }

    /// Whether no value is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next == self.end
    }

    /// Moves out the oldest value left.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let number = self.next;
        self.next += 1;
        // SAFETY: `claim` saw that the value was written, and took its number. Only this line uses that number, and only once.
        Some(unsafe { self.ring.take(number) })
    }
}

impl<T> Drop for Claim<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

impl<T> Sink<T> {
    /// Removes up to `most` values at once. `None` if the queue is empty.
    #[inline]
    pub fn claim(&self, most: u64) -> Option<Claim<T>> {
        let ring = &self.ring;
        let mut number = ring.head.0.load(Ordering::Relaxed);
        loop {
            let mut end = number;
            // Acquire: makes the written values visible.
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

    /// The same as [`Ring::pop`].
    #[inline]
    pub fn pop(&self) -> Option<T> {
        self.ring.pop()
    }

    /// The same as [`Ring::len`].
    #[inline]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// The same as [`Ring::is_empty`].
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// The same as [`Ring::has_ready`].
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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn values_that_do_not_fit_come_back() {
        let ring = Ring::new(3);
        assert!(ring.is_empty() && !ring.has_ready() && ring.pop().is_none());
        for turn in 0..5 {
            (0..4).for_each(|value| ring.push(Box::new(turn * 4 + value)).unwrap());
            assert_eq!((ring.push(Box::new(99)), ring.len(), ring.has_ready()), (Err(Box::new(99)), 4, true));
            (0..4).for_each(|value| assert_eq!(ring.pop(), Some(Box::new(turn * 4 + value))));
        }
        ring.push(Box::new(7)).unwrap();
    }

    #[test]
    fn a_claim_keeps_its_values_and_their_places() {
        let (source, sink) = one_to_many(4);
        (0..4).for_each(|value| source.push(Box::new(value)).unwrap());
        let mut claim = sink.claim(3).unwrap();
        assert_eq!((claim.len(), sink.len(), source.len(), source.is_empty()), (3, 1, 1, false));
        assert_eq!(claim.pop(), Some(Box::new(0)));
        source.push(Box::new(4)).unwrap();
        assert_eq!(source.push(Box::new(5)), Err(Box::new(5)), "two places are claimed");
        drop(claim);
        source.push(Box::new(5)).unwrap();
        assert_eq!(std::iter::from_fn(|| sink.pop()).collect::<Vec<_>>(), [3, 4, 5].map(Box::new));
        assert!(sink.claim(8).is_none() && sink.claim(0).is_none() && sink.is_empty());
    }

    #[test]
    fn each_value_is_popped_once() {
        const EACH: usize = if cfg!(miri) { 50 } else { 50_000 };
        let ring = Ring::new(16);
        let (source, sink) = one_to_many(16);
        let seen: Vec<AtomicUsize> = (0..3 * EACH).map(|_| AtomicUsize::new(0)).collect();
        let popped = AtomicUsize::new(0);
        let saw = |value: Box<usize>| {
            seen[*value].fetch_add(1, Ordering::Relaxed);
            popped.fetch_add(1, Ordering::Relaxed);
        };
        let keep = |push: &dyn Fn(Box<usize>) -> Result<(), Box<usize>>, value| {
            let mut value = Box::new(value);
            while let Err(back) = push(value) {
                value = back;
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            let (ring, sink, saw, popped, keep) = (&ring, &sink, &saw, &popped, &keep);
            for thread in 0..2 {
                scope.spawn(move || {
                    (0..EACH).for_each(|at| keep(&|value| ring.push(value), thread * EACH + at));
                });
                scope.spawn(move || {
                    while popped.load(Ordering::Relaxed) < 3 * EACH {
                        ring.pop().into_iter().for_each(saw);
                        if let Some(mut claim) = sink.claim(3) {
                            std::iter::from_fn(|| claim.pop()).for_each(saw);
                        }
                        std::thread::yield_now();
                    }
                });
            }
            scope.spawn(move || (0..EACH).for_each(|at| keep(&|value| source.push(value), 2 * EACH + at)));
        });
        assert!(seen.iter().all(|times| times.load(Ordering::Relaxed) == 1));
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::thread;

    use super::*;

    #[test]
    fn two_push_and_two_pop() {
        loom::model(|| {
            let ring = loom::sync::Arc::new(Ring::new(2));
            let pushers = [1, 2].map(|value| {
                let ring = loom::sync::Arc::clone(&ring);
                thread::spawn(move || ring.push(Box::new(value)).is_ok())
            });
            let mut sum: i32 = ring.pop().map_or(0, |value| *value);
            for pusher in pushers {
                assert!(pusher.join().unwrap(), "there is room for both");
            }
            sum += std::iter::from_fn(|| ring.pop()).map(|value| *value).sum::<i32>();
            assert_eq!(sum, 3);
        });
    }

    #[test]
    fn a_place_is_not_written_before_it_was_read() {
        loom::model(|| {
            let (source, sink) = one_to_many(2);
            (0..2).for_each(|value| source.push(Box::new(value)).unwrap());
            let sink = loom::sync::Arc::new(sink);
            let other = loom::sync::Arc::clone(&sink);
            let popper = thread::spawn(move || {
                other
                    .claim(2)
                    .map_or(0, |mut claim| std::iter::from_fn(|| claim.pop()).map(|value| *value).sum::<i32>())
            });
            let pushed = source.push(Box::new(10)).is_ok();
            let own = sink.pop().map_or(0, |value| *value);
            let sum = own + popper.join().unwrap() + std::iter::from_fn(|| sink.pop()).map(|value| *value).sum::<i32>();
            assert_eq!(sum, if pushed { 11 } else { 1 });
        });
    }
}
