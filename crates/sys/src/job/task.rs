//! `Task`: a closure of a few words, stored in place, that runs once or is dropped. The type of a task does not show its borrows.
//! A [`JobScope`](super::JobScope) makes the task, and a thread waits until the task is gone.

use std::cell::Cell;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

use super::ledger::Ledger;

const WORDS: usize = 6;

/// The maximum size of a closure's captures, in bytes: six references. A closure with more data should borrow it as a whole.
pub const CAPTURED_BYTES_MAX: usize = WORDS * size_of::<usize>();

pub(super) type Words = MaybeUninit<[usize; WORDS]>;

/// Moves the closure out of the words, and calls it. If there is no slot, drops it instead.
type Call<S, D> = unsafe fn(*mut Words, Option<&S>, *const Ledger<D>);

/// A closure that either runs once, on a thread that passes its slot `S`, or is dropped. The waiting thread holds data `D`.
pub struct Task<S, D> {
    words: Words,
    call: Call<S, D>,
    /// The ledger that counts this task. Null if nothing waits for the task.
    ledger: *const Ledger<D>,
    label: u32,
}

// SAFETY: the closure was `Send` when it was stored. The ledger has `Sync` data and lives until this task is gone.
// The task only reads the ledger and counts in it.
unsafe impl<S, D: Sync> Send for Task<S, D> {}

impl<S, D> Task<S, D> {
    /// A task that borrows nothing, and that no thread waits for.
    #[inline]
    pub fn free<F: FnOnce(&S) + Send + 'static>(label: u32, job: F) -> Task<S, D> {
        // SAFETY: the task borrows nothing, and `call_free` takes an `F` out.
        unsafe { Task::holding(label, job, call_free::<F, S, D>, ptr::null()) }
    }

    /// # Safety
    /// `call` must take an `F` out of the words. The ledger and all data that `job` borrows must live until this task is run or dropped.
    #[inline]
    pub(super) unsafe fn holding<F>(label: u32, job: F, call: Call<S, D>, ledger: *const Ledger<D>) -> Task<S, D> {
        const {
            assert!(size_of::<F>() <= CAPTURED_BYTES_MAX, "the closure captures more than 48 bytes: let it borrow");
            assert!(
                align_of::<F>() <= align_of::<Words>(),
                "the closure captures data that is aligned to more than a word"
            );
        }
        let mut words = Words::uninit();
        // SAFETY: the assertions above show that the closure fits and is aligned.
        unsafe { words.as_mut_ptr().cast::<F>().write(job) };
        Task { words, call, ledger, label }
    }

    /// The task's label.
    #[inline]
    pub fn label(&self) -> u32 {
        self.label
    }

    /// Whether no thread waits for this task.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.ledger.is_null()
    }

    /// Changes the task's label.
    pub fn set_label(&mut self, label: u32) {
        self.label = label;
    }

    /// Runs the task, and counts it as gone, even if it panics.
    #[inline]
    pub fn run(self, slot: &S, tally: &Tally<D>) {
        self.end(Some(slot), tally);
    }

    /// Drops the task without running it, and counts it as gone.
    pub fn discard(self, tally: &Tally<D>) {
        self.end(None, tally);
    }

    #[inline]
    fn end(self, slot: Option<&S>, tally: &Tally<D>) {
        let mut task = ManuallyDrop::new(self);
        // Report first: a thread that waits for the earlier tasks must not wait for this task too.
        tally.turn_to(task.ledger);
        let _gone = Gone { ledger: task.ledger, tally };
        // SAFETY: the closure is in the words. This task is not dropped, so nothing takes the closure out again.
        // The ledger lives until the task is counted as gone, which `Gone` does last.
        unsafe { (task.call)(&mut task.words, slot, task.ledger) };
    }
}

impl<S, D> Drop for Task<S, D> {
    fn drop(&mut self) {
        let tally = Tally::new();
        let _gone = Gone { ledger: self.ledger, tally: &tally };
        // SAFETY: as in `end`. No other place takes the closure out, and both places own the task.
        unsafe { (self.call)(&mut self.words, None, self.ledger) };
    }
}

impl<S, D> fmt::Debug for Task<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("label", &self.label).finish_non_exhaustive()
    }
}

/// # Safety
/// The words hold an `F`, which this function takes out of them.
unsafe fn call_free<F: FnOnce(&S), S, D>(words: *mut Words, slot: Option<&S>, _: *const Ledger<D>) {
    // SAFETY: as the caller promises.
    let job = unsafe { words.cast::<F>().read() };
    if let Some(slot) = slot {
        job(slot);
    }
}

/// Counts a task as gone when it is dropped.
struct Gone<'a, D> {
    ledger: *const Ledger<D>,
    tally: &'a Tally<D>,
}

impl<D> Drop for Gone<'_, D> {
    #[inline]
    fn drop(&mut self) {
        if !self.ledger.is_null() {
            self.tally.add(self.ledger);
        }
    }
}

/// Tasks that one thread ended but has not yet reported to the waiting threads.
/// Reporting each task separately would cost an atomic operation per task.
pub struct Tally<D> {
    /// The ledger of these tasks. The ledger is alive because the tasks are not reported yet. Null if no task is counted.
    ledger: Cell<*const Ledger<D>>,
    count: Cell<u64>,
    /// A bit for the slot of each waiter that no longer has to wait.
    released: Cell<u64>,
}

impl<D> Tally<D> {
    /// An empty tally.
    pub const fn new() -> Tally<D> {
        Tally { ledger: Cell::new(ptr::null()), count: Cell::new(0), released: Cell::new(0) }
    }

    /// If the counted tasks have another ledger than this one, reports them first.
    #[inline]
    fn turn_to(&self, ledger: *const Ledger<D>) {
        if !ptr::eq(self.ledger.get(), ledger) {
            self.report();
        }
    }

    #[inline]
    fn add(&self, ledger: *const Ledger<D>) {
        // Report again, because the task may have run tasks of other ledgers.
        self.turn_to(ledger);
        self.ledger.set(ledger);
        self.count.set(self.count.get() + 1);
    }

    /// Reports the ended tasks to the waiting threads. Call it often, because these threads wait for it.
    #[inline]
    pub fn report(&self) {
        let (ledger, count) = (self.ledger.replace(ptr::null()), self.count.replace(0));
        if count > 0 {
            // SAFETY: the counted tasks are not reported yet. So the opener waits, and the ledger lives.
            let waiter = unsafe { Ledger::gone(ledger, count) };
            self.released.set(self.released.get() | waiter.unwrap_or(0));
        }
    }

    /// The number of tasks that are not reported yet.
    #[inline]
    pub fn unreported(&self) -> u64 {
        self.count.get()
    }

    /// A bit for the slot of each waiter that became free since the last call. The caller must wake these waiters.
    #[inline]
    pub fn take_released(&self) -> u64 {
        self.released.replace(0)
    }
}

// SAFETY: a tally holds only the right to count in a ledger, whose data are `Sync`.
unsafe impl<D: Sync> Send for Tally<D> {}

impl<D> Default for Tally<D> {
    fn default() -> Tally<D> {
        Tally::new()
    }
}

impl<D> Drop for Tally<D> {
    fn drop(&mut self) {
        self.report();
    }
}

impl<D> fmt::Debug for Tally<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("uncounted", &self.count.get()).finish_non_exhaustive()
    }
}
