//! Tests jobs from outside: each runs once and in order, even if queues are full, jobs panic, or jobs wait for others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_rt::Event;
use evenkeel_rt::jobs::{
    Completion, Frame, Handle, Idling, JobSettings, Jobs, Progress, PushError, Queue, QueueSettings, WhenFull,
    WorkerSettings,
};

use crate::PATIENCE;

const URGENT: Queue = Queue(0);
const FRAME: Queue = Queue(1);
const LATER: Queue = Queue(2);

fn settings(workers: usize) -> JobSettings {
    let queues = vec![QueueSettings::frame(64), QueueSettings::frame(1024), QueueSettings::asynchronous(16)];
    let workers = vec![WorkerSettings::from_queues(&[URGENT, FRAME, LATER]); workers];
    JobSettings { queues, workers, ..JobSettings::default() }
}

fn jobs(workers: usize) -> Jobs {
    Jobs::start(&settings(workers)).unwrap()
}

/// The message of a panic.
fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).unwrap_or_else(|| *panic.downcast().unwrap())
}

/// Waits until another thread has done something. Returns false if that does not happen for a long time.
fn soon(is_so: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
    is_so()
}

#[test]
fn each_job_runs_once_before_the_frame_ends() {
    for workers in [0, 1, 3] {
        for idling in [Idling::AsTheMachineIs, Idling::SleepAtOnce] {
            let mut jobs = Jobs::start(&JobSettings { idling, ..settings(workers) }).unwrap();
            assert_eq!(jobs.workers().len(), workers);
            for frame in 0..200 {
                let mut ran = [0_u32; 900];
                // Some frames have work for several threads, some have no work.
                let spins = if frame % 10 == 0 { 3000 } else { 0 };
                jobs.frame(|frame| {
                    let (one_by_one, batch) = ran.split_at_mut(450);
                    for ran in one_by_one {
                        frame.push(FRAME, move || {
                            (0..spins).for_each(|at| _ = std::hint::black_box(at));
                            *ran += 1;
                        })?;
                    }
                    frame.push_batch(FRAME, batch.iter_mut().map(|ran| || *ran += 1))
                })
                .unwrap();
                assert!(ran.iter().all(|times| *times == 1));
                let counted = jobs.last_frame();
                assert_eq!((counted.jobs, counted.by_caller + counted.by_workers), (900, 900), "{counted:?}");
                assert!(counted.longest_job_ns <= counted.busy_ns && counted.busy_ns > 0, "{counted:?}");
                assert!(workers > 0 || counted.by_workers == 0);
            }
            assert_eq!(jobs.frame(|_| "nothing to do"), "nothing to do");
            assert_eq!(jobs.last_frame().jobs, 0);
        }
    }
}

#[test]
fn workers_take_part_where_there_is_work_for_them() {
    let mut jobs = jobs(1);
    // The caller waits in a job until the worker has run the other job.
    let met = [Event::new(), Event::new()];
    jobs.frame(|frame| {
        for at in 0..2 {
            let met = &met;
            frame
                .push(FRAME, move || {
                    met[at].set();
                    if evenkeel_sys::thread::allowed_cpus() != Ok(1) {
                        met[1 - at].wait();
                    }
                })
                .unwrap();
        }
    });
    if evenkeel_sys::thread::allowed_cpus() != Ok(1) {
        assert_eq!((jobs.last_frame().by_caller, jobs.last_frame().by_workers), (1, 1));
    }
}

#[test]
fn the_more_urgent_queue_comes_first() {
    let mut jobs = jobs(0);
    let order = Mutex::new(Vec::new());
    jobs.frame(|frame| {
        for at in 0..40 {
            let (queue, order) = (if at % 2 == 0 { FRAME } else { URGENT }, &order);
            frame.push(queue, move || order.lock().unwrap().push(queue)).unwrap();
        }
    });
    let order = order.into_inner().unwrap();
    assert_eq!(order, [vec![URGENT; 20], vec![FRAME; 20]].concat());
}

#[test]
fn a_job_begins_after_those_it_waits_for() {
    for workers in [0, 1, 3] {
        let mut jobs = jobs(workers);
        for round in 0..300_u64 {
            // A random graph: each job waits for up to three earlier jobs.
            let mut chance = round * 2 + 1;
            let mut pick = move |below: usize| {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (chance >> 33) as usize % below.max(1)
            };
            let clock = AtomicU64::new(1);
            let began: Vec<AtomicU64> = (0..200).map(|_| AtomicU64::new(0)).collect();
            let ended: Vec<AtomicU64> = (0..200).map(|_| AtomicU64::new(0)).collect();
            let mut edges = Vec::new();
            jobs.frame(|frame| {
                let mut handles: Vec<Handle<'_>> = Vec::new();
                for at in 0..200 {
                    let others: Vec<usize> = (0..pick(4).min(at)).map(|_| pick(at)).collect();
                    edges.extend(others.iter().map(|other| (*other, at)));
                    let waits_for: Vec<Handle<'_>> = others.iter().map(|other| handles[*other]).collect();
                    let (clock, began, ended) = (&clock, &began[at], &ended[at]);
                    let queue = if at % 3 == 0 { URGENT } else { FRAME };
                    let handle = frame.push_after(&waits_for, queue, move || {
                        began.store(clock.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        ended.store(clock.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                    });
                    handles.push(handle.unwrap());
                }
                if round % 3 == 0 {
                    assert!(frame.wait(handles[100]) && frame.is_done(handles[100]));
                    assert_ne!(ended[100].load(Ordering::SeqCst), 0);
                }
            });
            assert!(ended.iter().all(|at| at.load(Ordering::SeqCst) > 0));
            for (first, second) in edges {
                let (first, second) = (ended[first].load(Ordering::SeqCst), began[second].load(Ordering::SeqCst));
                assert!(first < second, "{first} {second}");
            }
        }
    }
}

#[test]
fn long_chains_and_wide_fans_need_no_stack() {
    let settings = JobSettings { linked_max: 20_000, waits_max: 40_000, ..settings(1) };
    let mut jobs = Jobs::start(&settings).unwrap();
    let count = AtomicUsize::new(0);
    jobs.frame(|frame| {
        let mut last = frame.push_dependency(FRAME, || _ = count.fetch_add(1, Ordering::Relaxed)).unwrap();
        for _ in 0..9_000 {
            last = frame.push_after(&[last], FRAME, || _ = count.fetch_add(1, Ordering::Relaxed)).unwrap();
        }
        let fan: Vec<_> = (0..9_000)
            .map(|_| frame.push_after(&[last], FRAME, || _ = count.fetch_add(1, Ordering::Relaxed)).unwrap())
            .collect();
        frame.push_after(&fan, FRAME, || assert_eq!(count.load(Ordering::Relaxed), 18_001)).unwrap();
    });
    assert_eq!(jobs.last_frame().jobs, 18_002);
}

#[test]
fn handles_of_elsewhere_count_as_done() {
    let (mut one, mut other) = (jobs(0), jobs(0));
    let old = one.frame(|frame| frame.push_dependency(FRAME, || ()).unwrap());
    one.frame(|frame| {
        assert!(frame.is_done(old) && frame.wait(old));
        frame.push_after(&[old], FRAME, || ()).unwrap();
    });
    one.frame(|frame| {
        let foreign = frame.push_dependency(FRAME, || ()).unwrap();
        other.frame(|inner| {
            inner.push_after(&[foreign, foreign], FRAME, || ()).unwrap();
        });
        assert!(!frame.is_done(foreign));
    });
    assert_eq!((one.last_frame().jobs, other.last_frame().jobs), (1, 1));
}

#[test]
fn a_full_queue_does_what_its_settings_say() {
    for (when_full, expected) in [(WhenFull::RunHere, Ok(())), (WhenFull::Refuse, Err(PushError::Full(Queue(0))))] {
        let queue = QueueSettings { when_full, ..QueueSettings::frame(4) };
        let settings = JobSettings { queues: vec![queue], linked_max: 2, waits_max: 1, ..JobSettings::default() };
        let mut jobs = Jobs::start(&settings).unwrap();
        let ran = AtomicUsize::new(0);
        jobs.frame(|frame| {
            let job = || _ = ran.fetch_add(1, Ordering::Relaxed);
            (0..4).for_each(|_| frame.push(Queue(0), job).unwrap());
            assert_eq!(ran.load(Ordering::Relaxed), 0);
            assert_eq!(frame.push(Queue(0), job), expected);
            assert_eq!(frame.push_batch(Queue(0), [job, job]), expected);
            assert_eq!(ran.load(Ordering::Relaxed), if expected.is_ok() { 3 } else { 0 });
        });
        let ran = ran.into_inner() as u64;
        let counted = jobs.last_frame();
        assert_eq!((counted.jobs, counted.full), (ran, if expected.is_ok() { 3 } else { 2 }));
        jobs.frame(|frame| {
            let first = frame.push_dependency(Queue(0), || ()).unwrap();
            let second = frame.push_after(&[first], Queue(0), || ()).unwrap();
            assert_eq!(frame.push_after(&[first], Queue(0), || ()).unwrap_err(), PushError::Links);
            assert_eq!(frame.push_dependency(Queue(0), || ()).unwrap_err(), PushError::Links);
            assert!(frame.wait(second));
        });
        assert_eq!(jobs.last_frame().jobs, 2);
        // The next frame has its full capacity again.
        jobs.frame(|frame| (0..4).try_for_each(|_| frame.push(Queue(0), || ()))).unwrap();
        jobs.frame(|frame| {
            assert_eq!(frame.push(Queue(7), || ()), Err(PushError::WrongQueue(Queue(7))));
            assert!(frame.for_each(Queue(7), 0..3, 1, |_| ()).is_err());
        });
    }
}

#[test]
fn a_panic_reaches_who_opened_the_frame() {
    for workers in [0, 2] {
        let mut jobs = jobs(workers);
        let ran = AtomicUsize::new(0);
        let count = || _ = ran.fetch_add(1, Ordering::Relaxed);
        let frame = |jobs: &mut Jobs, body: &dyn Fn(&Frame<'_, '_>)| {
            said(catch_unwind(AssertUnwindSafe(|| jobs.frame(|frame| body(frame)))).unwrap_err())
        };
        let one = catch_unwind(AssertUnwindSafe(|| {
            jobs.frame(|frame| {
                frame.push(FRAME, || panic!("one job")).unwrap();
                (0..100).for_each(|_| frame.push(FRAME, count).unwrap());
            });
        }));
        assert_eq!((said(one.unwrap_err()).as_str(), ran.swap(0, Ordering::Relaxed)), ("one job", 100));
        assert_eq!((jobs.last_frame().panics, jobs.last_frame().jobs), (1, 101));
        let several = frame(&mut jobs, &|frame| {
            (0..10).for_each(|_| frame.push(FRAME, || panic!("one of several")).unwrap());
        });
        assert_eq!((several.as_str(), jobs.last_frame().panics), ("one of several", 10));
        let opener = frame(&mut jobs, &|frame| {
            frame.push(FRAME, || panic!("a job")).unwrap();
            panic!("the opener");
        });
        assert_eq!((opener.as_str(), jobs.last_frame().jobs), ("the opener", 1));
        let nested = frame(&mut jobs, &|frame| {
            frame
                .push_with(FRAME, |frame| {
                    frame.nested(|inner| inner.push(FRAME, || panic!("from within")).unwrap());
                })
                .unwrap();
        });
        assert_eq!(nested, "from within");
        let each = frame(&mut jobs, &|frame| frame.for_each(FRAME, 0..50, 3, |at| assert_ne!(at, 20, "each")).unwrap());
        assert!(each.contains("each"), "{each}");
        // Everything works again.
        jobs.frame(|frame| frame.push(FRAME, || ())).unwrap();
        assert_eq!((jobs.last_frame().panics, jobs.last_frame().jobs), (0, 1));
    }
}

#[test]
fn jobs_that_depend_on_a_panicked_job_are_dropped() {
    struct Angry;
    impl Drop for Angry {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("a payload that does not want to go");
            }
        }
    }
    let mut jobs = jobs(1);
    let ran = AtomicUsize::new(0);
    let kept = Arc::new(());
    let result = catch_unwind(AssertUnwindSafe(|| {
        jobs.frame(|frame| {
            let count = || _ = ran.fetch_add(1, Ordering::Relaxed);
            let bad = frame.push_dependency(FRAME, || panic!("bad")).unwrap();
            let good = frame.push_dependency(FRAME, count).unwrap();
            let kept = Arc::clone(&kept);
            let after_bad = frame.push_after(&[good, bad], FRAME, move || drop(kept)).unwrap();
            frame.push_after(&[after_bad], FRAME, count).unwrap();
            frame.push_after(&[good], FRAME, count).unwrap();
            frame.push(FRAME, || std::panic::panic_any(Angry)).unwrap();
        });
    }));
    std::mem::forget(result.unwrap_err());
    let counted = jobs.last_frame();
    assert_eq!((ran.into_inner(), counted.dropped, counted.panics, counted.jobs), (2, 2, 2, 4));
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn jobs_push_jobs_and_wait_for_those_of_their_own() {
    fn fibonacci(frame: &Frame<'_, '_>, number: u64) -> u64 {
        if number < 2 {
            return number;
        }
        let (mut one, mut two) = (0, 0);
        frame.nested(|inner| {
            inner.push_with(FRAME, |frame| one = fibonacci(frame, number - 1)).unwrap();
            inner.push_with(FRAME, |frame| two = fibonacci(frame, number - 2)).unwrap();
        });
        one + two
    }
    fn tree<'env>(frame: &Frame<'_, 'env>, depth: u32, leaves: &'env AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for _ in 0..2 {
            // Push more jobs than the queue holds, so that some jobs run at once in the push.
            frame.push_with(URGENT, move |frame| tree(frame, depth - 1, leaves)).unwrap();
        }
    }
    for workers in [0, 1, 3] {
        let mut jobs = jobs(workers);
        assert_eq!(jobs.frame(|frame| fibonacci(frame, 16)), 987);
        let leaves = AtomicUsize::new(0);
        jobs.frame(|frame| tree(frame, 11, &leaves));
        assert_eq!((leaves.into_inner(), jobs.last_frame().jobs), (2048, 4094));
        // Jobs create chains, and one job tries a wait that is not allowed inside a job.
        let done = AtomicUsize::new(0);
        jobs.frame(|frame| {
            for _ in 0..20 {
                frame
                    .push_with(FRAME, |frame| {
                        let first = frame.push_dependency(FRAME, || _ = done.fetch_add(1, Ordering::Relaxed)).unwrap();
                        let second =
                            frame.push_after(&[first], FRAME, || _ = done.fetch_add(1, Ordering::Relaxed)).unwrap();
                        assert!(!frame.wait(second) || frame.is_done(second));
                    })
                    .unwrap();
            }
        });
        assert_eq!(done.into_inner(), 40);
    }
}

#[test]
fn a_range_is_gone_through_once() {
    for workers in [0, 2] {
        let mut jobs = jobs(workers);
        for (range, chunk) in [(0..0, 1), (0..1, 0), (5..1000, 7), (0..1000, 5000), (3..4, usize::MAX)] {
            let seen: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
            let each = |at: usize| _ = seen[at].fetch_add(1, Ordering::Relaxed);
            jobs.frame(|frame| frame.for_each(FRAME, range.clone(), chunk, each)).unwrap();
            for (at, times) in seen.iter().enumerate() {
                assert_eq!(times.load(Ordering::Relaxed), usize::from(range.contains(&at)), "{at} of {range:?}");
            }
        }
    }
}

#[test]
fn long_jobs_delay_no_frame() {
    let queues = settings(0).queues;
    let workers = vec![WorkerSettings::from_queues(&[URGENT, FRAME, LATER]), WorkerSettings::from_queues(&[LATER])];
    let mut jobs = Jobs::start(&JobSettings { queues, workers, ..JobSettings::default() }).unwrap();
    let asynchronous = jobs.asynchronous();
    let (go_on, completion) = (Arc::new(Event::new()), Completion::new());
    assert_eq!(completion.progress(), Progress::NotPushed);
    let waits = Arc::clone(&go_on);
    asynchronous.push_with_completion(LATER, &completion, move || waits.wait()).unwrap();
    assert_eq!(asynchronous.push_with_completion(LATER, &completion, || ()), Err(PushError::StillPending));
    for _ in 0..20 {
        jobs.frame(|frame| (0..100).try_for_each(|_| frame.push(FRAME, || ()))).unwrap();
        assert_eq!(jobs.last_frame().jobs, 100);
    }
    assert_eq!(completion.progress(), Progress::Pending);
    go_on.set();
    assert!(soon(|| completion.has_ended()) && completion.progress() == Progress::Done);
    asynchronous.push_with_completion(LATER, &completion, || panic!("later")).unwrap();
    assert!(soon(|| completion.has_ended()) && completion.progress() == Progress::Panicked);
    assert_eq!(jobs.take_panic().map(said).as_deref(), Some("later"));
    assert!(jobs.take_panic().is_none());
    assert_eq!(asynchronous.push(FRAME, || ()), Err(PushError::WrongQueue(FRAME)));
    jobs.frame(|frame| assert_eq!(frame.push(LATER, || ()), Err(PushError::WrongQueue(LATER))));
}

/// A job system whose only worker is in a job that waits for the event. 16 jobs wait in the queue behind that job.
fn with_waiting_jobs() -> (Jobs, Arc<Event>, Vec<Completion>) {
    let workers = vec![WorkerSettings::from_queues(&[LATER])];
    let jobs = Jobs::start(&JobSettings { workers, ..settings(0) }).unwrap();
    let asynchronous = jobs.asynchronous();
    let (begun, go_on) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let (begins, waits) = (Arc::clone(&begun), Arc::clone(&go_on));
    let completions: Vec<Completion> = (0..17).map(|_| Completion::new()).collect();
    asynchronous
        .push_with_completion(LATER, &completions[0], move || {
            begins.set();
            waits.wait();
        })
        .unwrap();
    begun.wait();
    completions[1..].iter().for_each(|completion| asynchronous.push_with_completion(LATER, completion, || ()).unwrap());
    (jobs, go_on, completions)
}

#[test]
fn dropping_a_job_system_runs_what_waits() {
    let (jobs, go_on, completions) = with_waiting_jobs();
    let asynchronous = jobs.asynchronous();
    let late = Completion::new();
    assert_eq!(asynchronous.push_with_completion(LATER, &late, || ()), Err(PushError::Full(LATER)));
    assert_eq!(late.progress(), Progress::Dropped);
    let ends = std::thread::spawn(move || drop(jobs));
    assert!(soon(|| asynchronous.push(LATER, || ()) == Err(PushError::Ended)));
    go_on.set();
    ends.join().unwrap();
    assert!(completions.iter().all(|completion| completion.progress() == Progress::Done));
}

#[test]
fn discarding_a_job_system_drops_what_waits_and_counts_it() {
    let (jobs, go_on, completions) = with_waiting_jobs();
    let asynchronous = jobs.asynchronous();
    let ends = std::thread::spawn(move || jobs.discard());
    assert!(soon(|| asynchronous.push(LATER, || ()) == Err(PushError::Ended)));
    go_on.set();
    assert_eq!(ends.join().unwrap(), 16);
    assert_eq!(completions[0].progress(), Progress::Done, "a job that runs is waited for");
    assert!(completions[1..].iter().all(|completion| completion.progress() == Progress::Dropped));
}

/// The test pushes while the job system ends. Any thread may run an accepted job, before or after `drop` returns.
#[test]
fn no_job_is_lost_while_a_job_system_ends() {
    for _ in 0..50 {
        let jobs = jobs(1);
        let asynchronous = jobs.asynchronous();
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        let pushes = std::thread::spawn(move || {
            let mut taken = 0;
            loop {
                let counts = Arc::clone(&counted);
                match asynchronous.push(LATER, move || _ = counts.fetch_add(1, Ordering::Relaxed)) {
                    Ok(()) => taken += 1,
                    Err(PushError::Ended) => return taken,
                    Err(_) => std::thread::yield_now(),
                }
            }
        });
        assert!(soon(|| ran.load(Ordering::Relaxed) > 0));
        drop(jobs);
        assert_eq!(pushes.join().unwrap(), ran.load(Ordering::Relaxed));
    }
}

#[test]
fn a_queue_that_nobody_serves_takes_no_job() {
    let jobs = Jobs::start(&JobSettings::default()).unwrap();
    let refused = jobs.asynchronous().push(Queue(1), || ()).unwrap_err();
    assert_eq!(refused, PushError::NoWorker(Queue(1)));
    let text = "push a job to queue 1: no worker takes from it; add a worker for it, or set caller_runs_asynchronous";
    assert!(refused.to_string().starts_with(text), "{refused}");
}

#[test]
fn without_workers_the_tick_runs_what_it_has_time_for() {
    let mut jobs = Jobs::start(&JobSettings { caller_runs_asynchronous: true, ..settings(0) }).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let ran = Arc::clone(&ran);
        jobs.asynchronous().push(LATER, move || _ = ran.fetch_add(1, Ordering::Relaxed)).unwrap();
    }
    jobs.frame(|frame| frame.push(FRAME, || ())).unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 0, "a frame runs none of them");
    assert_eq!((jobs.run_asynchronous(4), jobs.run_asynchronous(100)), (4, 6));
    assert_eq!(ran.load(Ordering::Relaxed), 10);
    let counts = Arc::clone(&ran);
    jobs.asynchronous().push(LATER, move || _ = counts.fetch_add(1, Ordering::Relaxed)).unwrap();
    drop(jobs);
    assert_eq!(ran.load(Ordering::Relaxed), 11, "dropping it runs what is left");
}

#[test]
fn frames_and_asynchronous_jobs_from_many_threads() {
    let mut jobs = jobs(3);
    let stop = AtomicBool::new(false);
    let (pushed, ran) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (asynchronous, ran) = (jobs.asynchronous(), Arc::clone(&ran));
            let (stop, pushed) = (&stop, &pushed);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let counts = Arc::clone(&ran);
                    match asynchronous.push(LATER, move || _ = counts.fetch_add(1, Ordering::Relaxed)) {
                        Ok(()) => _ = pushed.fetch_add(1, Ordering::Relaxed),
                        Err(refused) => {
                            assert_eq!(refused, PushError::Full(LATER));
                            std::thread::sleep(Duration::from_micros(100));
                        }
                    }
                }
            });
        }
        for _ in 0..300 {
            let sum = AtomicUsize::new(0);
            jobs.frame(|frame| {
                frame.push_batch(
                    FRAME,
                    (0..50).map(|at| {
                        let sum = &sum;
                        move || _ = sum.fetch_add(at, Ordering::Relaxed)
                    }),
                )?;
                frame.for_each(URGENT, 0..50, 4, |at| _ = sum.fetch_add(at, Ordering::Relaxed))
            })
            .unwrap();
            assert_eq!(sum.into_inner(), 2 * 49 * 50 / 2);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(soon(|| ran.load(Ordering::Relaxed) == pushed.load(Ordering::Relaxed)), "no wake was lost");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let ok = settings(0);
    let table = [
        (JobSettings { queues: vec![], ..ok.clone() }, "0 queues: name 1 to 64"),
        (
            JobSettings { queues: vec![QueueSettings::frame(0)], ..ok.clone() },
            "queue 0 has a capacity of 0: set 1 to 1048576",
        ),
        (
            JobSettings { queues: vec![QueueSettings::frame(usize::MAX)], ..ok.clone() },
            "queue 0 has a capacity of 18446744073709551615",
        ),
        (JobSettings { linked_max: u32::MAX, ..ok.clone() }, "4294967295 jobs with dependencies"),
        (
            JobSettings { workers: vec![WorkerSettings::from_queues(&[FRAME]); 64], ..ok.clone() },
            "64 workers: a job system can have 63",
        ),
        (JobSettings { workers: vec![WorkerSettings::default()], ..ok.clone() }, "worker 0 takes from []"),
        (
            JobSettings { workers: vec![WorkerSettings::from_queues(&[Queue(200)])], ..ok.clone() },
            "worker 0 takes from [Queue(200)]",
        ),
        (
            JobSettings { workers: vec![WorkerSettings::from_queues(&[FRAME, FRAME])], ..ok },
            "worker 0 takes from [Queue(1), Queue(1)]",
        ),
    ];
    for (settings, expected) in table {
        let error = Jobs::start(&settings).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
