//! A lock that lends the waiter's priority, as the kernel shows that priority. A live check tests how long the waiter waits.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use evenkeel_rt::InheritMutex;
use evenkeel_sys::{sched, thread};

use crate::PATIENCE;

const PRIORITY: u8 = 10;

/// The kernel's priority of one of the test's threads: 20 is ordinary, -2 to -100 are real-time.
fn priority_of(tid: impl std::fmt::Display) -> i64 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.split(' ').nth(15).unwrap().parse().unwrap()
}

#[test]
fn a_holder_has_the_priority_of_a_real_time_waiter_until_it_unlocks() {
    let lock = Arc::new(InheritMutex::new(()));
    let held = lock.lock();
    let (refused, is_refused) = mpsc::channel();
    let waiter = std::thread::spawn({
        let lock = Arc::clone(&lock);
        move || {
            if sched::set_fifo(PRIORITY).is_err() {
                refused.send(()).unwrap();
            }
            drop(lock.lock());
        }
    });
    let holder = thread::id();
    let lent = -1 - i64::from(PRIORITY);
    let end = Instant::now() + PATIENCE;
    while priority_of(holder) != lent {
        if is_refused.try_recv().is_ok() {
            evenkeel_testkit::skipped("this user may have no real-time threads");
            break;
        }
        assert!(Instant::now() < end, "the holder runs at {}", priority_of(holder));
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(held);
    assert!(priority_of(holder) > 0, "nothing is lent any more");
    waiter.join().unwrap();
}
