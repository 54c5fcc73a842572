//! On other systems than Linux, ticks and locks work. Settings that only Linux has are refused, not ignored. lab/windows.sh runs these tests.

use std::time::Duration;

use crate::memory::MemoryConfig;
use crate::telemetry::{PageError, TelemetryReader, TelemetrySettings, sessions};
use crate::udp::{Udp, UdpSettings};
use crate::{
    ApplyStatus, Errno, Event, InheritMutex, PhaseError, PhaseSettings, Quantum, TickLoop, TickLoopError, scope,
};

const REFUSED: ApplyStatus = ApplyStatus::Refused(Errno::OPNOTSUPP);

#[test]
fn a_loop_ticks_and_reports_what_is_missing() {
    let mut ticks =
        TickLoop::builder().period(Duration::from_millis(5)).memory(MemoryConfig::default()).build().unwrap();
    let first_ns = ticks.next_due_ns();
    for _ in 0..20 {
        let tick = ticks.wait();
        assert!(tick.began_ns >= tick.due_ns);
        assert_eq!(tick.due_ns, first_ns + tick.number * 5_000_000, "no drift");
    }
    assert_eq!(ticks.quantum(), Quantum::Unknown);
    let setup = ticks.setup();
    assert_eq!((setup.thread.unwrap().timer_slack, setup.memory.unwrap().present), (REFUSED, REFUSED));
    assert!(setup.to_string().contains("EOPNOTSUPP"), "{setup}");
}

#[test]
fn features_of_linux_are_refused() {
    let telemetry = TickLoop::builder().telemetry(TelemetrySettings::named("match 7")).build();
    assert!(matches!(telemetry, Err(TickLoopError::Telemetry(PageError::Unsupported))));
    let phases = TickLoop::builder().phases(PhaseSettings::default()).build();
    assert!(matches!(phases, Err(TickLoopError::Phases(PhaseError::Unsupported))));
    assert_eq!(TelemetryReader::open("page".as_ref()).unwrap_err(), PageError::Unsupported);
    assert_eq!(sessions(".".as_ref()).unwrap_err(), Errno::OPNOTSUPP);
    assert_eq!(scope::log_long(Duration::from_millis(2)), Err(scope::ScopeError::Unsupported));
    assert_eq!(Udp::open(UdpSettings::default()).unwrap_err().why, Errno::OPNOTSUPP);
}

#[test]
fn threads_wait_for_locks_and_events() {
    let (sum, over) = (InheritMutex::new(0), Event::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                over.wait();
                (0..10_000).for_each(|_| *sum.lock() += 1);
            });
        }
        over.set();
    });
    assert_eq!(sum.into_inner(), 40_000);
}
