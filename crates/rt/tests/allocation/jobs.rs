//! Frames of jobs allocate nothing after the start.

use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_rt::jobs::{JobSettings, Jobs, Queue, WorkerSettings};

use crate::counted;

const FRAME: Queue = Queue(0);
const LATER: Queue = Queue(1);

#[test]
fn frames_of_jobs_allocate_nothing() {
    let _alone = counted::alone();
    for workers in [0, 2] {
        let workers = vec![WorkerSettings::from_queues(&[FRAME, LATER]); workers];
        let mut jobs = Jobs::start(&JobSettings { workers, ..JobSettings::default() }).unwrap();
        let asynchronous = jobs.asynchronous();
        let sum = AtomicU64::new(0);
        let mut frame = || {
            let add = || _ = sum.fetch_add(1, Ordering::Relaxed);
            jobs.frame(|frame| {
                (0..100).try_for_each(|_| frame.push(FRAME, add))?;
                let first = frame.push_dependency(FRAME, add)?;
                frame.push_after(&[first, first], FRAME, add)?;
                // Push more jobs than the queue holds: a refused job allocates nothing either.
                let _ = asynchronous.push(LATER, || ());
                frame
                    .push_with(FRAME, move |frame| frame.nested(|inner| inner.push(FRAME, add)).unwrap_or_default())?;
                frame.for_each(FRAME, 0..100, 10, |_| add())
            })
        };
        // Run frames first until the threads have started, because the allocations of a start do not belong to a frame.
        (0..50).for_each(|_| frame().unwrap());
        let change = counted::count(|| (0..2_000).for_each(|_| frame().unwrap()));
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
    }
}
