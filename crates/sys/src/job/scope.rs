//! `open`: lends borrowing tasks to other threads, and returns only when all tasks are gone (run or dropped).
//! If a task is leaked, `open` waits for ever. So a task's type need not contain the borrow.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use super::ledger::Ledger;
use super::primitive::{AtomicU64, Ordering};
use super::task::{Task, Words};

/// A number of tasks that nobody can ever lend. It is part of the count until the opener has reported how many tasks it lent itself.
/// While the count includes this number, it cannot reach 0, and the opener lends tasks without an atomic operation.
const OPEN: u64 = 1 << 62;

/// Makes tasks that may borrow for `'env`. It is used on the thread that opened the scope, or in one of the scope's tasks.
pub struct JobScope<'env, D> {
    ledger: *const Ledger<D>,
    /// The number of tasks that the opener has lent. `None` on other threads, and in tasks.
    own: Option<Cell<u64>>,
    /// Makes the type invariant in `'env`.
    borrows: PhantomData<Cell<&'env ()>>,
}

impl<'env, D> JobScope<'env, D> {
    /// # Safety
    /// The ledger must live as long as this scope. At least one of its tasks must stay pending for that time.
    unsafe fn within(ledger: *const Ledger<D>) -> JobScope<'env, D> {
        JobScope { ledger, own: None, borrows: PhantomData }
    }

    /// Makes a task that may borrow.
    #[inline]
    pub fn task<S, F>(&self, label: u32, job: F) -> Task<S, D>
    where
        F: FnOnce(&S, &JobScope<'env, D>) + Send + 'env,
        D: Sync + 'env,
    {
        match &self.own {
            Some(own) => own.set(own.get() + 1),
            // SAFETY: the ledger lives as long as this scope. Relaxed suffices: the count includes the current task, so it is not near 0.
            None => _ = unsafe { &*self.ledger }.pending.fetch_add(1, Ordering::Relaxed),
        }
        // SAFETY: `call_lent` takes an `F` out. `'env` outlives the call of `open`, which waits until the task is gone.
        unsafe { Task::holding(label, job, call_lent::<F, S, D>, self.ledger) }
    }

    /// The data that the opener shares with all of its tasks.
    #[inline]
    pub fn data(&self) -> &D {
        // SAFETY: the ledger lives as long as this scope.
        &unsafe { &*self.ledger }.data
    }
}

/// # Safety
/// The words hold an `F`, which this function takes out of them, and the ledger lives.
unsafe fn call_lent<'env, F, S, D>(words: *mut Words, slot: Option<&S>, ledger: *const Ledger<D>)
where
    F: FnOnce(&S, &JobScope<'env, D>),
    D: 'env,
{
    // SAFETY: as the caller promises.
    let job = unsafe { words.cast::<F>().read() };
    if let Some(slot) = slot {
        // SAFETY: the ledger lives until this task is counted as gone. That happens after this call.
        job(slot, &unsafe { JobScope::within(ledger) });
    }
}

impl<D> fmt::Debug for JobScope<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobScope").finish_non_exhaustive()
    }
}

/// The number of lent tasks that still exist, for the thread that waits for them.
pub struct Left<'a>(&'a AtomicU64);

impl Left<'_> {
    /// Whether all lent tasks are gone.
    #[inline]
    pub fn is_nothing(&self) -> bool {
        // Acquire: makes the tasks' writes visible.
        self.0.load(Ordering::Acquire) == 0
    }
}

impl fmt::Debug for Left<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Left").field(&self.is_nothing()).finish()
    }
}

/// Calls `body`, which may make tasks that borrow for `'env`, and returns when all tasks are gone. Also returns `data`.
/// While tasks are left, this function calls `settle` repeatedly.
/// `settle` should run tasks, or sleep until a [`Tally`](super::Tally) releases the bit `waiter`.
/// If `body` panics, this function still waits for the tasks. If `settle` panics, the process ends.
pub fn open<'env, D, R>(
    waiter: u64,
    data: D,
    settle: impl FnMut(&Left<'_>),
    body: impl FnOnce(&JobScope<'env, D>) -> R,
) -> (R, D) {
    let ledger = Ledger { pending: AtomicU64::new(OPEN), waiter, data };
    let scope = JobScope { ledger: &raw const ledger, own: Some(Cell::new(0)), borrows: PhantomData };
    let settling = Settling { scope, pending: &ledger.pending, settle };
    let result = body(&settling.scope);
    drop(settling);
    (result, ledger.data)
}

/// Waits for the tasks when it is dropped.
struct Settling<'env, 'l, D, F: FnMut(&Left<'_>)> {
    scope: JobScope<'env, D>,
    pending: &'l AtomicU64,
    settle: F,
}

impl<D, F: FnMut(&Left<'_>)> Drop for Settling<'_, '_, D, F> {
    fn drop(&mut self) {
        // If `settle` unwinds, we can neither continue nor return while tasks still borrow. So the process must end.
        let ends_the_process = EndOnDrop;
        let own = self.scope.own.as_ref().map_or(0, Cell::get);
        self.pending.fetch_add(own.wrapping_sub(OPEN), Ordering::Relaxed);
        let left = Left(self.pending);
        while !left.is_nothing() {
            (self.settle)(&left);
        }
        std::mem::forget(ends_the_process);
    }
}

struct EndOnDrop;

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        std::process::abort();
    }
}

#[cfg(all(test, not(loom)))]
#[expect(clippy::unwrap_used, reason = "helpers of tests: a panic is how a test says that it can't go on")]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    use super::super::Tally;
    use super::*;

    type Held = Mutex<Vec<Task<u32, ()>>>;

    /// Runs the held tasks on this thread.
    fn run_all(held: &Held) {
        let tally = Tally::new();
        let next = || held.lock().unwrap().pop();
        while let Some(task) = next() {
            let _ = catch_unwind(AssertUnwindSafe(|| task.run(&5, &tally)));
        }
        tally.report();
        assert!(tally.unreported() == 0 && tally.take_released() & !3 == 0);
    }

    #[test]
    fn tasks_borrow_and_make_others() {
        let held = Held::default();
        let mut numbers = [0; 4];
        let (result, ()) = open(
            1,
            (),
            |_| run_all(&held),
            |scope| {
                for number in &mut numbers {
                    let held = &held;
                    let task = scope.task(0, move |slot: &u32, scope: &JobScope<'_, ()>| {
                        *number += *slot;
                        held.lock()
                            .unwrap()
                            .push(scope.task(1, move |slot: &u32, _: &JobScope<'_, ()>| *number += *slot));
                    });
                    held.lock().unwrap().push(task);
                }
                "given back"
            },
        );
        assert_eq!((numbers, result), ([10; 4], "given back"));
    }

    #[test]
    fn other_threads_are_waited_for() {
        let (gives, gets) = std::sync::mpsc::channel::<Task<u32, ()>>();
        let worker = std::thread::spawn(move || {
            let tally = Tally::new();
            for task in gets {
                std::thread::sleep(std::time::Duration::from_micros(100));
                task.run(&1, &tally);
                tally.report();
            }
        });
        for _ in 0..if cfg!(miri) { 3 } else { 100 } {
            let mut sums = [0; 3];
            open(
                1,
                (),
                |_| std::thread::yield_now(),
                |scope| {
                    for sum in &mut sums {
                        gives.send(scope.task(0, move |slot: &u32, _: &JobScope<'_, ()>| *sum += *slot)).unwrap();
                    }
                },
            );
            assert_eq!(sums, [1; 3]);
        }
        drop(gives);
        worker.join().unwrap();
    }

    #[test]
    fn an_opener_that_panics_waits_too() {
        let held = Held::default();
        let mut ran = false;
        let opened = catch_unwind(AssertUnwindSafe(|| {
            open(
                1,
                (),
                |_| run_all(&held),
                |scope| {
                    held.lock().unwrap().push(scope.task(0, |_: &u32, _: &JobScope<'_, ()>| ran = true));
                    panic!("the opener");
                },
            )
        }));
        assert!(opened.is_err() && ran);
    }

    #[test]
    fn dropped_and_panicking_tasks_are_gone_too() {
        let held = Held::default();
        let alive = std::sync::Arc::new(());
        open(
            1,
            (),
            |_| run_all(&held),
            |scope| {
                let tasks = [(); 3].map(|()| {
                    let alive = std::sync::Arc::clone(&alive);
                    scope.task(0, move |_: &u32, _: &JobScope<'_, ()>| {
                        let _alive = alive;
                        panic!("a task");
                    })
                });
                let [dropped, discarded, run] = tasks;
                drop(dropped);
                discarded.discard(&Tally::new());
                held.lock().unwrap().push(run);
            },
        );
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
        let mut free = Task::<u32, ()>::free(9, move |_| drop(alive));
        assert!(free.is_free() && free.label() == 9);
        free.set_label(10);
        assert!(format!("{free:?}").contains("10"));
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    use super::super::{Ring, Tally};
    use super::*;

    #[test]
    fn a_waiter_sees_the_tasks_writes() {
        loom::model(|| {
            let ring = Arc::new(Ring::<Task<(), ()>>::new(2));
            let done = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let other = Arc::clone(&ring);
            let worker = thread::spawn(move || {
                let tally = Tally::new();
                while let Some(task) = other.pop() {
                    task.run(&(), &tally);
                }
            });
            let settle = |_: &Left<'_>| {
                let tally = Tally::new();
                match ring.pop() {
                    Some(task) => task.run(&(), &tally),
                    None => thread::yield_now(),
                }
            };
            open(1, (), settle, |scope| {
                for at in 0..2 {
                    let done = Arc::clone(&done);
                    let task =
                        scope.task(0, move |&(): &(), _: &JobScope<'_, ()>| done[at].store(1, Ordering::Relaxed));
                    assert!(ring.push(task).is_ok());
                }
            });
            assert_eq!([0, 1].map(|at| done[at].load(Ordering::Relaxed)), [1, 1]);
            worker.join().unwrap();
        });
    }
}
