//! Jobs: the work of a frame in small pieces on a few threads. A job is a function with a context.

mod followed;
mod report;
mod settings;
mod slices;

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use evenkeel_rt::jobs::{Asynchronous, Frame, Handle, JobSettings, Jobs, Queue};

use crate::failure::{self, EvenkeelStatus, Failure, caught, no_function};
use crate::handle::{self, handles};
use crate::structs;
use crate::thread::cpu_list;

pub use report::*;
pub use settings::{EvenkeelJobSettings, EvenkeelWorkerSettings};
pub use slices::*;

use followed::Followed;
use settings::settings;

/// Workers and their queues.
#[derive(Debug)]
pub struct EvenkeelJobs(());

/// Pushes asynchronous jobs, from any thread.
#[derive(Debug)]
pub struct EvenkeelAsynchronous(());

/// An open frame. The library passes a handle to the frame's body and to each job.
/// The handle is valid only on that thread, and only until the body or the job returns.
#[derive(Debug)]
pub struct EvenkeelFrame(());

/// The value behind an [`EvenkeelJobs`].
pub(crate) struct JobSystem {
    /// The part that one thread at a time uses. While a frame is open, that is the frame's thread.
    work: Mutex<Work>,
    /// The CPUs whose slices the job system follows. Any thread may ask for the slices at any time.
    followed: Option<Followed>,
}

/// The part of a job system that one thread at a time uses.
struct Work {
    jobs: Jobs,
    /// Handles of the open frame's jobs, by their numbers, with room for the largest possible count.
    linked: Mutex<Vec<Handle<'static>>>,
}

handles! {
    EvenkeelJobs, 64 of JobSystem;
    EvenkeelAsynchronous, 64 of Mutex<Asynchronous>;
}

/// A job, or the body of a frame. The arguments are the frame (null in an asynchronous job) and the context of the push.
/// The function must return: no exception and no longjmp may leave it.
pub type EvenkeelJob = Option<unsafe extern "C" fn(frame: *mut EvenkeelFrame, context: *mut c_void)>;

/// One step of a loop. Its arguments are the number of the step and the context.
pub type EvenkeelEach = Option<unsafe extern "C" fn(number: usize, context: *mut c_void)>;

fn queue(number: u32) -> Result<Queue, Failure> {
    u8::try_from(number).map(Queue).map_err(|_| EvenkeelStatus::OutOfRange.into())
}

/// An open frame, as seen by the thread that runs one of its functions.
#[derive(Clone, Copy)]
struct Open {
    token: usize,
    frame: *const Frame<'static, 'static>,
    linked: *const Mutex<Vec<Handle<'static>>>,
}

thread_local! {
    /// The open frames of this thread, outermost first. There are several if a job runs while its thread waits in another job.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// The next token. Each frame has its own token, so an ended frame is never mistaken for a new one.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Runs a job that the caller wrote, and gives it a handle to the frame.
fn run(job: Called, frame: &Frame<'_, 'static>, linked: *const Mutex<Vec<Handle<'static>>>) {
    struct Closes;
    impl Drop for Closes {
        fn drop(&mut self) {
            let _ = OPEN.try_with(|open| open.borrow_mut().pop());
        }
    }
    // The token is odd, as every handle is.
    let token = NEXT.fetch_add(1, Ordering::Relaxed) << 8 | 0xe3;
    let frame = std::ptr::from_ref(frame).cast();
    let is_open = OPEN.try_with(|open| open.borrow_mut().push(Open { token, frame, linked })).is_ok();
    // If this thread is ending, its thread-locals are gone, so skip the job.
    if is_open {
        let _closes = Closes;
        job.call(std::ptr::without_provenance_mut(token));
    }
}

/// The caller's function and its context, until a thread calls the function.
#[derive(Clone, Copy)]
struct Called {
    job: unsafe extern "C" fn(*mut EvenkeelFrame, *mut c_void),
    context: *mut c_void,
}

// SAFETY: whoever pushes the job promises that its context may be used on another thread. Every push function here documents that promise.
unsafe impl Send for Called {}

impl Called {
    fn new(job: EvenkeelJob, context: *mut c_void) -> Result<Called, Failure> {
        Ok(Called { job: job.ok_or_else(no_function)?, context })
    }

    fn call(self, frame: *mut EvenkeelFrame) {
        // SAFETY: whoever pushed the job promises a function of this type. It accepts this context and stays valid until the frame ends.
        unsafe { (self.job)(frame, self.context) }
    }
}

/// Calls `work` with the part of a job system that one thread at a time uses.
fn alone<R>(jobs: *const EvenkeelJobs, work: impl FnOnce(&mut Work) -> Result<R, Failure>) -> Result<R, Failure> {
    handle::shared(jobs, |system| work(&mut *system.work.try_lock().map_err(handle::refused)?))
}

fn no_frame() -> Failure {
    Failure::new(EvenkeelStatus::BadHandle, "it is not an open frame of this thread")
}

fn no_job() -> Failure {
    Failure::new(EvenkeelStatus::BadHandle, "no job of this frame has this number")
}

/// Calls `work` with the frame that a token names on this thread.
fn within<R>(
    frame: *const EvenkeelFrame,
    work: impl FnOnce(&Frame<'static, 'static>, &Mutex<Vec<Handle<'static>>>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    if frame.is_null() {
        return Err(failure::null::<EvenkeelFrame>());
    }
    let open = OPEN.try_with(|open| open.borrow().iter().rev().find(|open| open.token == frame.addr()).copied());
    let open = open.ok().flatten().ok_or_else(no_frame)?;
    // SAFETY: the frame is on this thread's stack below this call, because `run` removes it from the list before it returns.
    // The lifetimes are sound because jobs borrow nothing from this library. `linked` belongs to the job system, which the frame keeps alive.
    unsafe { work(&*open.frame, &*open.linked) }
}

/// Starts the workers. Allocates all memory of the job system.
/// Returns EVENKEEL_STATUS_BAD_TEXT if EvenkeelJobSettings.slice_cpus is not a list of CPUs, and EVENKEEL_STATUS_OUT_OF_RANGE if it has a CPU above 255.
///
/// Threads: any. Free the handle with evenkeel_jobs_free.
///
/// # Safety
/// `asked` is null or points to a struct prepared by evenkeel_init, and so are the structs that it points to; `jobs` may be written. A null `jobs` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_jobs_new(
    asked: *const EvenkeelJobSettings,
    jobs: *mut *mut EvenkeelJobs,
) -> EvenkeelStatus {
    caught(|| {
        // SAFETY: as this function's caller promises.
        let asked = unsafe { structs::get(asked) }?;
        // SAFETY: as this function's caller promises.
        let (settings, cpus) = unsafe { (settings(asked)?, cpu_list(asked.slice_cpus)?) };
        let make = || {
            let followed = cpus.filter(|cpus| !cpus.is_empty()).map(Followed::start).transpose()?;
            let slices = followed.as_ref().map(Followed::slices);
            let jobs = Jobs::start(&JobSettings { slices, ..settings })?;
            let linked = Mutex::new(Vec::with_capacity(settings.linked_max as usize));
            Ok(JobSystem { work: Mutex::new(Work { jobs, linked }), followed })
        };
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(jobs, make) }
    })
}

/// Runs all asynchronous jobs that were pushed, waits for them, and ends the workers. evenkeel_jobs_discard drops the waiting jobs instead.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while a frame is open.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_jobs_free(jobs: *mut EvenkeelJobs) -> EvenkeelStatus {
    caught(|| handle::take(jobs).map(drop))
}

/// Ends the workers as soon as the running jobs are done. Drops the waiting asynchronous jobs without calling their functions.
/// Writes to `dropped` how many jobs it dropped. Also frees the handle.
///
/// Threads: any. Returns EVENKEEL_STATUS_BUSY while a frame is open.
///
/// # Safety
/// `dropped` may be written. A null `dropped` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_jobs_discard(jobs: *mut EvenkeelJobs, dropped: *mut usize) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(dropped)?;
        let work = handle::take(jobs)?.work.into_inner().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(dropped, work.jobs.discard()) }
    })
}

/// Opens a frame: calls `body`, which pushes jobs, and returns when all of them are done. This thread runs jobs until then.
///
/// Threads: one at a time. `body` runs on the calling thread.
///
/// # Safety
/// `body` is null or a function that takes this context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_jobs_frame(
    jobs: *mut EvenkeelJobs,
    body: EvenkeelJob,
    context: *mut c_void,
) -> EvenkeelStatus {
    caught(|| {
        let body = Called::new(body, context)?;
        alone(jobs, |work| {
            work.linked.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
            let linked = std::ptr::from_ref(&work.linked);
            work.jobs.frame(|frame| run(body, frame, linked));
            Ok(())
        })
    })
}

/// Pushes a job to a frame.
/// Returns EVENKEEL_STATUS_NO_ROOM if the queue is full and EvenkeelJobSettings.refuses_when_full is set.
/// Returns EVENKEEL_STATUS_OUT_OF_RANGE if the queue does not exist or is asynchronous.
/// Returns EVENKEEL_STATUS_BAD_HANDLE if the frame is not open on this thread.
///
/// Threads: only the thread that received this frame handle.
///
/// # Safety
/// `job` is null, or a function that may be called with `context` on any thread until the frame ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_frame_push(
    frame: *mut EvenkeelFrame,
    queue_number: u32,
    job: EvenkeelJob,
    context: *mut c_void,
) -> EvenkeelStatus {
    caught(|| {
        let job = Called::new(job, context)?;
        within(frame, |frame, linked| {
            let linked = Linked(linked);
            Ok(frame
                .push_with(queue(queue_number)?, move |inner: &Frame<'_, 'static>| run(job, inner, linked.get()))?)
        })
    })
}

/// A pointer to the handles. A job takes the pointer along to the thread that runs it.
#[derive(Clone, Copy)]
struct Linked(*const Mutex<Vec<Handle<'static>>>);

// SAFETY: a `Mutex` may be used on any thread, and this one lives until the frame is over.
unsafe impl Send for Linked {}

impl Linked {
    fn get(self) -> *const Mutex<Vec<Handle<'static>>> {
        self.0
    }
}

/// Pushes a job that starts when `others_count` other jobs are done. Writes the job's number to `number`, so that other jobs can depend on it.
/// Returns EVENKEEL_STATUS_BAD_HANDLE if this frame has no job with one of the numbers in `others`.
/// Returns EVENKEEL_STATUS_NO_ROOM if the frame already has linked_max such jobs.
///
/// Threads: only the thread that received this frame handle.
///
/// # Safety
/// `others` points to `others_count` numbers, or is null if `others_count` is 0; `job` as for evenkeel_frame_push; `number` may be written. A null `number` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_frame_push_after(
    frame: *mut EvenkeelFrame,
    queue_number: u32,
    job: EvenkeelJob,
    context: *mut c_void,
    others: *const u32,
    others_count: usize,
    number: *mut u32,
) -> EvenkeelStatus {
    /// The maximum number of dependencies of one job. A caller with more pushes jobs in between that each wait for some of them.
    const OTHERS_MAX: usize = 64;
    caught(|| {
        structs::puttable(number)?;
        let job = Called::new(job, context)?;
        if others_count > OTHERS_MAX {
            return Err(Failure::new(EvenkeelStatus::OutOfRange, format_args!("more than {OTHERS_MAX} others")));
        }
        let numbers: &[u32] = if others_count == 0 {
            &[]
        } else {
            structs::puttable(others)?;
            // SAFETY: as this function's caller promises; the pointer is neither null nor misaligned.
            unsafe { std::slice::from_raw_parts(others, others_count) }
        };
        let at = within(frame, |frame, linked| {
            let queue = queue(queue_number)?;
            let place = Linked(linked);
            let mut linked = linked.lock().unwrap_or_else(PoisonError::into_inner);
            if linked.len() == linked.capacity() {
                return Err(EvenkeelStatus::NoRoom.into());
            }
            let Some(first) = linked.first().copied() else {
                if !numbers.is_empty() {
                    return Err(no_job());
                }
                let pushed = frame
                    .push_after_with(&[], queue, move |inner: &Frame<'_, 'static>| run(job, inner, place.get()))?;
                linked.push(pushed);
                return Ok(1);
            };
            let mut handles = [first; OTHERS_MAX];
            for (handle, number) in handles.iter_mut().zip(numbers) {
                let known = (*number as usize).checked_sub(1).and_then(|at| linked.get(at));
                *handle = *known.ok_or_else(no_job)?;
            }
            let after = &handles[..numbers.len()];
            let pushed =
                frame.push_after_with(after, queue, move |inner: &Frame<'_, 'static>| run(job, inner, place.get()))?;
            linked.push(pushed);
            Ok(linked.len() as u32)
        })?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(number, at) }
    })
}

/// Runs jobs until the job with this number from evenkeel_frame_push_after is done.
/// Inside a job it returns EVENKEEL_STATUS_WOULD_BLOCK at once if the awaited job is not done.
/// The reason: the awaited job may be on the same stack, below the job that waits. Inside a job, use evenkeel_frame_push_after.
/// Returns EVENKEEL_STATUS_BAD_HANDLE if this frame has no job with this number.
///
/// Threads: only the thread that received this frame handle.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_frame_wait(frame: *mut EvenkeelFrame, number: u32) -> EvenkeelStatus {
    caught(|| {
        within(frame, |frame, linked| {
            let handle = by_number(linked, number)?;
            if frame.wait(handle) { Ok(()) } else { Err(EvenkeelStatus::WouldBlock.into()) }
        })
    })
}

/// Writes to `is_done` whether the job with this number is done: 1 or 0. Returns EVENKEEL_STATUS_BAD_HANDLE if this frame has no job with this number.
///
/// Threads: only the thread that received this frame handle.
///
/// # Safety
/// `is_done` may be written. A null `is_done` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_frame_is_done(
    frame: *mut EvenkeelFrame,
    number: u32,
    is_done: *mut u32,
) -> EvenkeelStatus {
    caught(|| {
        let found = within(frame, |frame, linked| Ok(frame.is_done(by_number(linked, number)?)))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(is_done, found.into()) }
    })
}

/// The handle with this number in the open frame. This function releases the lock before any wait, because other jobs push meanwhile.
fn by_number(linked: &Mutex<Vec<Handle<'static>>>, number: u32) -> Result<Handle<'static>, Failure> {
    let linked = linked.lock().unwrap_or_else(PoisonError::into_inner);
    let known = (number as usize).checked_sub(1).and_then(|at| linked.get(at));
    known.copied().ok_or_else(no_job)
}

/// Calls `each` with every number from 0 to `count` (not included), in chunks, on this thread and on workers that take from the queue.
/// Returns when all calls have returned.
///
/// Threads: only the thread that received this frame handle.
///
/// # Safety
/// `each` is null, or a function that may be called with `context` on several threads at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_frame_for_each(
    frame: *mut EvenkeelFrame,
    queue_number: u32,
    count: usize,
    chunk: usize,
    each: EvenkeelEach,
    context: *mut c_void,
) -> EvenkeelStatus {
    struct Shared(*mut c_void);
    // SAFETY: as this function's caller promises.
    unsafe impl Sync for Shared {}
    impl Shared {
        fn get(&self) -> *mut c_void {
            self.0
        }
    }
    caught(|| {
        let each = each.ok_or_else(no_function)?;
        let context = Shared(context);
        within(frame, |frame, _| {
            // SAFETY: as this function's caller promises.
            let call = |number| unsafe { each(number, context.get()) };
            Ok(frame.for_each(queue(queue_number)?, 0..count, chunk, call)?)
        })
    })
}

/// Creates a handle that pushes asynchronous jobs.
///
/// Threads: any, but not while a frame is open. Free the handle with evenkeel_asynchronous_free.
///
/// # Safety
/// `asynchronous` may be written. A null `asynchronous` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_asynchronous_new(
    jobs: *mut EvenkeelJobs,
    asynchronous: *mut *mut EvenkeelAsynchronous,
) -> EvenkeelStatus {
    caught(|| {
        let made = alone(jobs, |work| Ok(work.jobs.asynchronous()))?;
        // SAFETY: as this function's caller promises.
        unsafe { handle::give(asynchronous, || Ok(Mutex::new(made))) }
    })
}

/// Pushes an asynchronous job, which no frame waits for.
/// Returns EVENKEEL_STATUS_NO_ROOM if the queue is full, and EVENKEEL_STATUS_REFUSED if the job system was freed.
/// Returns EVENKEEL_STATUS_NO_WORKER if no worker takes from the queue and EvenkeelJobSettings.caller_runs_asynchronous is not set.
///
/// Threads: any, at any time, also in jobs.
///
/// # Safety
/// `job` is null, or a function that may be called with `context` on any thread until the job system is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_asynchronous_push(
    asynchronous: *const EvenkeelAsynchronous,
    queue_number: u32,
    job: EvenkeelJob,
    context: *mut c_void,
) -> EvenkeelStatus {
    caught(|| {
        let job = Called::new(job, context)?;
        handle::shared(asynchronous, |asynchronous| {
            let asynchronous = asynchronous.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(asynchronous.push(queue(queue_number)?, move || job.call(std::ptr::null_mut()))?)
        })
    })
}

/// Frees the handle. Jobs that were pushed still run.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn evenkeel_asynchronous_free(asynchronous: *mut EvenkeelAsynchronous) -> EvenkeelStatus {
    caught(|| handle::take(asynchronous).map(drop))
}

/// Runs up to `at_most` asynchronous jobs of queues that no worker takes from, and writes to `ran` how many it ran.
/// A server without workers calls this function in the time that a tick has left.
/// Set EvenkeelJobSettings.caller_runs_asynchronous to allow such jobs.
///
/// Threads: one at a time.
///
/// # Safety
/// `ran` may be written. A null `ran` is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evenkeel_jobs_run_asynchronous(
    jobs: *mut EvenkeelJobs,
    at_most: usize,
    ran: *mut usize,
) -> EvenkeelStatus {
    caught(|| {
        structs::puttable(ran)?;
        let count = alone(jobs, |work| Ok(work.jobs.run_asynchronous(at_most)))?;
        // SAFETY: as this function's caller promises.
        unsafe { structs::put(ran, count) }
    })
}
