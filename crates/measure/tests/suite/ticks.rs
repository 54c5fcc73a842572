//! Tests that the watcher of a tick's thread notices the thread's end, and that the error for a missing process names it.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::ticks::choice::Wanted;
use evenkeel_measure::meters::ticks::watcher::{Watched, Watcher};
use evenkeel_measure::meters::ticks::{Settings, record};
use evenkeel_sys::thread;
use evenkeel_testkit::{skipped, wait_until};

#[test]
fn a_thread_that_ends_in_the_middle_is_reported() {
    let (say, hear) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let waits = std::thread::spawn(move || {
        say.send(thread::id()).unwrap();
        let _ = ended.recv();
    });
    let tid = hear.recv().unwrap();
    let watched = Watched::Threads(vec![(std::process::id(), tid)]);
    match Watcher::start(&watched, None) {
        Ok(mut watcher) => {
            watcher.begin();
            assert!(!watcher.end().threads[0].is_over);
            drop(end);
            waits.join().unwrap();
            wait_until("the end of the thread", || watcher.end().threads.iter().any(|thread| thread.is_over));
            wait_until("a thread that has ended to be gone", || Watcher::start(&watched, None).is_err());
        }
        Err(errno) => {
            skipped(format_args!("this user may not see a thread's switches ({errno})"));
            drop(end);
            waits.join().unwrap();
        }
    }
}

#[test]
fn a_missing_process_is_named() {
    let settings = Settings { pids: vec![4_194_303], wanted: Wanted::default(), for_ns: 1 };
    let why = record(&settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap_err().to_string();
    assert_eq!(
        why,
        "watch the threads of process 4194303: there is no such process; was it started, and is this its number?"
    );
}
