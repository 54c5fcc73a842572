//! The pools of this process: evenkeel's, rayon, bevy_tasks, and a typical one made of crossbeam's deques.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use anyhow::Context;
use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use evenkeel_rt::jobs::{JobSettings, Jobs, Queue, QueueSettings, WorkerSettings};

use super::{Case, Contender, Frame, JOBS};

pub(super) const ALL: &[(&str, &str, Contender)] = &[
    ("evenkeel-rt", env!("CARGO_PKG_VERSION"), ours),
    ("rayon scope", "1.12.0", rayon_scope),
    ("crossbeam-deque", "0.8.6, a pool of 100 lines that parks", deques),
    ("bevy_tasks scope", "0.20.1", bevy),
];

/// evenkeel's pool as a server would use it: two queues for frames (the more urgent one first), and one queue for long work.
fn ours(case: Case, take: &mut dyn FnMut(Frame<'_>)) -> anyhow::Result<()> {
    const NOW: Queue = Queue(1);
    let queues = vec![QueueSettings::frame(1024), QueueSettings::frame(1024), QueueSettings::asynchronous(64)];
    let worker = WorkerSettings::from_queues(&[Queue(0), NOW, Queue(2)]);
    let workers = vec![worker; case.threads - 1];
    let mut jobs = Jobs::start(&JobSettings { queues, workers, ..JobSettings::default() }).context("start jobs")?;
    let steps = case.work.steps();
    let mut failed = false;
    take(&mut || {
        let pushed =
            jobs.frame(|frame| (0..JOBS).try_for_each(|number| frame.push(NOW, move || case.work.one(number, steps))));
        failed |= pushed.is_err();
    });
    anyhow::ensure!(!failed && jobs.last_frame().jobs == u64::from(JOBS), "{:?}", jobs.last_frame());
    Ok(())
}

fn rayon_scope(case: Case, take: &mut dyn FnMut(Frame<'_>)) -> anyhow::Result<()> {
    // The calling thread belongs to the pool. Otherwise there would be one thread more.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(case.threads).use_current_thread().build()?;
    let steps = case.work.steps();
    take(&mut || {
        rayon::scope(|scope| {
            (0..JOBS).for_each(|number| scope.spawn(move |_| case.work.one(number, steps)));
        });
    });
    drop(pool);
    Ok(())
}

fn bevy(case: Case, take: &mut dyn FnMut(Frame<'_>)) -> anyhow::Result<()> {
    // The thread that opens a scope also runs tasks, so the pool starts one thread less. But it does not start without a thread.
    let threads = (case.threads - 1).max(1);
    let pool = bevy_tasks::TaskPoolBuilder::new().num_threads(threads).build();
    let steps = case.work.steps();
    take(&mut || {
        pool.scope(|scope| {
            (0..JOBS).for_each(|number| scope.spawn(async move { case.work.one(number, steps) }));
        });
    });
    Ok(())
}

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    injector: Injector<Job>,
    stealers: Vec<Stealer<Job>>,
    left: AtomicUsize,
    stop: AtomicBool,
    asleep: AtomicUsize,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Pool {
    fn find(&self, own: &Worker<Job>) -> Option<Job> {
        own.pop().or_else(|| {
            let steal = || {
                let from_all = self.injector.steal_batch_and_pop(own);
                from_all.or_else(|| self.stealers.iter().map(Stealer::steal).collect())
            };
            std::iter::repeat_with(steal).find(|steal| !matches!(steal, Steal::Retry)).and_then(Steal::success)
        })
    }

    fn run(&self, job: Job) {
        job();
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.wake();
        }
    }

    fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.woken.notify_all();
        }
    }

    /// Sleeps until there is work or the pool is over.
    fn park(&self, is_over: impl Fn() -> bool) {
        let Ok(mut guard) = self.lock.lock() else { return };
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while self.injector.is_empty() && !is_over() {
            match self.woken.wait(guard) {
                Ok(again) => guard = again,
                Err(_) => break,
            }
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

fn deques(case: Case, take: &mut dyn FnMut(Frame<'_>)) -> anyhow::Result<()> {
    let owns: Vec<Worker<Job>> = (0..case.threads).map(|_| Worker::new_lifo()).collect();
    let pool = Arc::new(Pool {
        injector: Injector::new(),
        stealers: owns.iter().map(Worker::stealer).collect(),
        left: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        asleep: AtomicUsize::new(0),
        lock: Mutex::new(()),
        woken: Condvar::new(),
    });
    let mut owns = owns.into_iter();
    let own = owns.next().context("no thread")?;
    let work = |own: Worker<Job>| {
        let pool = Arc::clone(&pool);
        std::thread::spawn(move || {
            while !pool.stop.load(Ordering::Acquire) {
                match pool.find(&own) {
                    Some(job) => pool.run(job),
                    None => pool.park(|| pool.stop.load(Ordering::Acquire)),
                }
            }
        })
    };
    let threads: Vec<_> = owns.map(work).collect();
    let steps = case.work.steps();
    take(&mut || {
        pool.left.store(JOBS as usize, Ordering::Release);
        (0..JOBS).for_each(|number| pool.injector.push(Box::new(move || case.work.one(number, steps))));
        pool.wake();
        while pool.left.load(Ordering::Acquire) > 0 {
            match pool.find(&own) {
                Some(job) => pool.run(job),
                None => pool.park(|| pool.left.load(Ordering::Acquire) == 0),
            }
        }
    });
    pool.stop.store(true, Ordering::Release);
    pool.wake();
    threads.into_iter().for_each(|thread| _ = thread.join());
    Ok(())
}
