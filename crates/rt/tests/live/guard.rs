//! A real-time tick takes nearly all of its CPU, until the guard makes its thread an ordinary one.

use std::time::Duration;

use evenkeel_rt::{ApplyStatus, ThreadConfig, TickClock, TickSettings, TickThread};
use evenkeel_sys::{clock, sched};
use evenkeel_testkit::HostLock;

use crate::stage::may_be_real_time;

#[test]
fn a_real_time_tick_that_takes_everything_is_made_ordinary() {
    let _host = HostLock::take();
    if !may_be_real_time() {
        return;
    }
    let body = || {
        let thread = TickThread::set_up(&ThreadConfig { fifo: Some(1), ..ThreadConfig::default() });
        let settings = TickSettings { period: Duration::from_millis(10), ..TickSettings::default() };
        let mut clock = TickClock::start(settings).unwrap().on(thread);
        // This limit allows for several windows of a second before and after the change.
        // A window starts anew whenever the machine keeps the thread from being busy.
        let give_up_ns = clock::monotonic_ns() + 60_000_000_000;
        while clock.thread().unwrap().fifo == ApplyStatus::Active && clock::monotonic_ns() < give_up_ns {
            let tick = clock.wait();
            // Count from the start of the tick. If a timer is late by a tenth of the period, less than nine tenths of the period are left.
            while clock::monotonic_ns() < tick.began_ns + 9_900_000 {}
            clock.done();
        }
        assert_eq!(clock.thread().unwrap().fifo, ApplyStatus::Suspended);
        assert_eq!(sched::policy(), Ok(sched::Policy::Other));
        while clock.thread().unwrap().fifo == ApplyStatus::Suspended && clock::monotonic_ns() < give_up_ns {
            clock.wait();
            clock.done();
        }
        assert_eq!(sched::policy(), Ok(sched::Policy::Fifo));
    };
    std::thread::spawn(body).join().unwrap();
}
