//! The thread that follows the slices of one CPU: a clock whose ticks do no work.
//! The clock searches by itself, and wakes when the CPU should come back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::table::Table;
use crate::quantum::Align;
use crate::thread::{ApplyStatus, ThreadConfig, TickThread};
use crate::tick::{Spinning, TickClock, TickSettings};

/// The tick period. The slice periods of most hypervisors are a part or a multiple of this value.
const PERIOD: Duration = Duration::from_millis(20);

pub(super) fn start(cpu: usize, table: Arc<Table>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("slices-{cpu}")).spawn(move || follow(cpu, &table))
}

fn follow(cpu: usize, table: &Table) {
    let config = ThreadConfig { cpus: Some([cpu].into_iter().collect()), ..ThreadConfig::default() };
    let thread = TickThread::set_up(&config);
    let Some(place) = table.places.get(cpu) else { return };
    let pinned = *place.pinned.get_or_init(|| thread.report().cpus);
    let settings =
        TickSettings { period: PERIOD, spinning: Spinning::Never, align: Align::Measured, ..TickSettings::default() };
    // A thread that is not pinned to this CPU would measure the wrong slices.
    let (ApplyStatus::Active, Ok(mut clock)) = (pinned, TickClock::start(settings)) else { return };
    while !table.stop.load(Ordering::Relaxed) {
        clock.wait();
        clock.done();
        place.write(&clock.aligned().quantum);
    }
}
