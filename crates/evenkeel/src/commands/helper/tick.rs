//! The helper that ticks. It uses the clock of evenkeel-rt, or clock_nanosleep or a timerfd as most servers do.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_rt::{Align, Spinning, ThreadConfig, TickClock, TickSettings, TickThread};
use evenkeel_stats::Histogram;
use evenkeel_sys::timer_fd::Alarm;
use evenkeel_sys::{Errno, clock, thread};
use evenkeel_workload::helper::{Helper, HelperError, Since, quantiles};
use serde_json::{Map, Value, json};

/// The time limit for the loop to answer a request. The loop checks for requests in each tick.
const ANSWER_TIME: Duration = Duration::from_secs(5);
const NO_SOCKET: &str = "a tick loop has no socket";

/// How to tick.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Settings {
    /// Ticks a second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// How long a tick is busy, in microseconds
    #[arg(long)]
    work_us: u32,
    /// How it waits
    #[arg(long, value_enum)]
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum How {
    Steady,
    Nanosleep,
    Timerfd,
}

/// A thread that ticks until the process ends.
#[derive(Debug)]
pub(super) struct Tick {
    counts: Arc<Mutex<TickCounts>>,
    asks: Sender<Ask>,
    since: Since,
}

#[derive(Debug)]
struct TickCounts {
    lateness_ns: Histogram,
    due_to_done_ns: Histogram,
    missed: u64,
}

impl TickCounts {
    fn new() -> TickCounts {
        TickCounts { lateness_ns: Histogram::new(), due_to_done_ns: Histogram::new(), missed: 0 }
    }
}

/// A request to the thread to set its own timer slack. Without privileges, no other thread can set it.
struct Ask {
    slack_ns: Option<u64>,
    answer: SyncSender<Result<u64, Errno>>,
}

impl Tick {
    pub(super) fn start(settings: Settings) -> io::Result<Tick> {
        let counts = Arc::new(Mutex::new(TickCounts::new()));
        let (asks, asked) = channel();
        let (sender, receiver) = sync_channel(1);
        let shared = Arc::clone(&counts);
        std::thread::Builder::new().name("tick".to_owned()).spawn(move || {
            let beat = Beat::start(settings);
            // If the clock can't be started, only the starter gets the error: this loop never returns an error.
            match beat {
                Ok(beat) => {
                    let _ = sender.send(Ok(()));
                    tick(beat, settings.work_us, &shared, &asked);
                }
                Err(errno) => {
                    let _ = sender.send(Err(errno));
                }
            }
        })?;
        let begun = receiver.recv().map_err(io::Error::other)?;
        begun.map_err(|errno| io::Error::other(errno.to_string()))?;
        Ok(Tick { counts, asks, since: Since::now() })
    }
}

impl Helper for Tick {
    fn window(&mut self) -> Map<String, Value> {
        // Create the new counts before taking the lock, so that the loop never waits for the allocation.
        let fresh = TickCounts::new();
        let counts = std::mem::replace(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner), fresh);
        let mut numbers = self.since.turn();
        numbers.insert("ticks".into(), json!(counts.lateness_ns.count()));
        numbers.insert("missed".into(), json!(counts.missed));
        numbers.insert("tick_lateness_us".into(), quantiles(&counts.lateness_ns));
        numbers.insert("due_to_done_us".into(), quantiles(&counts.due_to_done_ns));
        numbers
    }

    fn close(&mut self) -> Result<(), HelperError> {
        Err(NO_SOCKET.into())
    }

    fn open(&mut self, _to: Option<SocketAddr>) -> Result<Map<String, Value>, HelperError> {
        Err(NO_SOCKET.into())
    }

    fn timer_slack_ns(&mut self, value: Option<u64>) -> Result<u64, HelperError> {
        let (answer, answered) = sync_channel(1);
        self.asks.send(Ask { slack_ns: value, answer }).map_err(|_| "the loop has ended")?;
        let read_back = answered.recv_timeout(ANSWER_TIME).map_err(|_| "the loop does not tick")?;
        read_back.map_err(|errno| format!("set the timer slack: {errno}").into())
    }
}

fn tick(mut beat: Beat, work_us: u32, counts: &Mutex<TickCounts>, asked: &Receiver<Ask>) {
    loop {
        let (due_ns, missed) = beat.wait();
        let began_ns = clock::monotonic_ns();
        let busy_until_ns = began_ns + u64::from(work_us) * 1000;
        while clock::monotonic_ns() < busy_until_ns {
            std::hint::spin_loop();
        }
        beat.done();
        let done_ns = clock::monotonic_ns();
        {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.lateness_ns.record(began_ns.saturating_sub(due_ns));
            counts.due_to_done_ns.record(done_ns.saturating_sub(due_ns));
            counts.missed += missed;
        }
        if let Ok(ask) = asked.try_recv() {
            let set = match ask.slack_ns {
                Some(ns) => thread::set_timer_slack_ns(std::num::NonZeroU64::new(ns)),
                None => Ok(()),
            };
            // The thread that sent the request may no longer wait for the answer.
            let _ = ask.answer.send(set.and_then(|()| thread::timer_slack_ns()));
        }
    }
}

/// The source of the ticks.
enum Beat {
    /// The clock of evenkeel-rt, on a thread that is prepared for ticks.
    Steady(Box<TickClock>),
    /// Deadlines one period apart. The loop waits for each deadline with a sleep or an alarm.
    /// Deadlines that have already passed count as missed ticks.
    Plain { due_ns: u64, period_ns: u64, alarm: Option<Alarm> },
}

impl Beat {
    fn start(settings: Settings) -> Result<Beat, Errno> {
        let period_ns = 1_000_000_000 / u64::from(settings.hz.max(1));
        let alarm = match settings.how {
            How::Steady => {
                let thread = TickThread::set_up(&ThreadConfig::default());
                let period = Duration::from_nanos(period_ns);
                let spinning = Spinning::WhereThereIsRoom;
                let settings = TickSettings { period, spinning, align: Align::Measured, ..TickSettings::default() };
                let clock = TickClock::start(settings).map_err(|_| Errno::INVAL)?;
                return Ok(Beat::Steady(Box::new(clock.on(thread))));
            }
            How::Nanosleep => None,
            How::Timerfd => Some(Alarm::new()?),
        };
        Ok(Beat::Plain { due_ns: clock::monotonic_ns() + period_ns, period_ns, alarm })
    }

    /// Waits for the next tick. Returns the time at which the tick was due, and the number of missed ticks before it.
    fn wait(&mut self) -> (u64, u64) {
        match self {
            Beat::Steady(clock) => {
                let tick = clock.wait();
                (tick.due_ns, tick.missed)
            }
            Beat::Plain { due_ns, period_ns, alarm } => {
                let now_ns = clock::monotonic_ns();
                let missed = now_ns.saturating_sub(*due_ns) / *period_ns;
                let due = *due_ns + missed * *period_ns;
                *due_ns = due + *period_ns;
                // Do not sleep if the deadline has passed: even such a sleep can take as long as the timer slack.
                if now_ns < due {
                    match alarm {
                        None => clock::sleep_until_ns(due),
                        // Setting an existing timer can't fail.
                        // If it failed anyway, the meter would count the tick as late.
                        Some(alarm) => drop(alarm.set(due).and_then(|()| alarm.wait())),
                    }
                }
                (due, missed)
            }
        }
    }

    fn done(&mut self) {
        if let Beat::Steady(clock) = self {
            clock.done();
        }
    }
}
