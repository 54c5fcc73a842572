//! Runs several sessions at once.
//! Each session is a workload in its own thread, so that all sessions measure the same window.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_stats::Direction;
use evenkeel_workload::{Metric, Sample, Workload, WorkloadError};

use crate::exit;
use crate::failure::Failure;
use crate::workload_args::{WorkloadArgs, workload_of};

/// The placeholder for the number of a session, in the command lines of a server and its load. Numbers start at 0.
const NUMBER: &str = "{session}";
/// The placeholder for the port of a session.
const PORT: &str = "{port}";

/// The times of a window: the wait before it, and its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) settle: Duration,
    pub(super) window: Duration,
}

/// The description of a session that has started.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) describe: String,
    pub(super) metrics: Vec<Metric>,
    pub(super) events_per_s: Option<f64>,
}

/// A request to all sessions at once.
#[derive(Clone, Debug)]
enum Order {
    Window(Times),
    SetProcess { knob: String, value: Option<String> },
    Configure(Vec<(String, Option<String>)>),
    Reopen,
    Restart,
}

/// The answer of a session to a request.
#[derive(Debug)]
enum Answer {
    Sample(Sample),
    InForce(Vec<String>),
    Done,
}

/// A running session. Dropping it ends its server and its load.
struct Session {
    orders: Option<Sender<Order>>,
    answers: Receiver<Result<Answer, WorkloadError>>,
    thread: Option<JoinHandle<()>>,
}

/// The running sessions. They differ only in their session numbers.
pub(super) struct Sessions<'a> {
    line: String,
    first_port: u16,
    seed: u64,
    stop: &'a Arc<AtomicBool>,
    running: Vec<Session>,
    /// The description of the first session; `None` until it has started.
    about: Option<About>,
}

impl<'a> Sessions<'a> {
    pub(super) fn new(asked: &WorkloadArgs, first_port: u16, seed: u64, stop: &'a Arc<AtomicBool>) -> Sessions<'a> {
        Sessions { line: asked.line(), first_port, seed, stop, running: Vec::new(), about: None }
    }

    /// The number of running sessions.
    pub(super) fn count(&self) -> u32 {
        self.running.len() as u32
    }

    /// The description of the first session; `None` until it has started.
    pub(super) fn about(&self) -> Option<&About> {
        self.about.as_ref()
    }

    /// Starts or ends sessions until `wanted` sessions run. Ends the latest sessions first.
    ///
    /// # Errors
    /// If a session does not start.
    pub(super) fn set(&mut self, wanted: u32) -> Result<(), Failure> {
        self.running.truncate(wanted as usize);
        while self.count() < wanted {
            let session = self.start(self.count())?;
            self.running.push(session);
        }
        Ok(())
    }

    fn start(&mut self, number: u32) -> Result<Session, Failure> {
        let port = u32::from(self.first_port) + number;
        let no_port = || Failure::text(exit::WRONG_USE, "start the session", format_args!("there is no port {port}"));
        let port = u16::try_from(port).map_err(|_| no_port().hint("lower --first-port, or --max"))?;
        let line = self.line.replace(NUMBER, &number.to_string()).replace(PORT, &port.to_string());
        let asked = workload_of(&line)?;
        let (seed, stop) = (self.seed.wrapping_add(u64::from(number)), Arc::clone(self.stop));
        let (orders, receive_orders) = channel::<Order>();
        let (send_about, about) = channel::<Result<About, Failure>>();
        let (answer, answers) = channel();
        let body = move || {
            let mut workload = match asked.start(seed, &stop) {
                Ok(workload) => workload,
                Err(failure) => return drop(send_about.send(Err(failure))),
            };
            let _ = send_about.send(Ok(About {
                describe: workload.describe(),
                metrics: workload.metrics().to_vec(),
                events_per_s: workload.events_per_s(),
            }));
            serve(&mut *workload, &receive_orders, &answer);
            workload.stop();
        };
        let spawned = std::thread::Builder::new().name(format!("session {number}")).spawn(body);
        let thread =
            spawned.map_err(|error| Failure::io(exit::NOT_POSSIBLE, "start a thread for a session", &error))?;
        let started =
            about.recv().map_err(|_| Failure::text(exit::NOT_POSSIBLE, "start a session", "its thread ended"))?;
        let session = Session { orders: Some(orders), answers, thread: Some(thread) };
        self.about.get_or_insert(started?);
        Ok(session)
    }

    /// Measures one window in all sessions at once.
    ///
    /// # Errors
    /// The first error of a session that ended or hung. The call ends that session and all with higher numbers.
    pub(super) fn samples(&mut self, times: Times) -> Result<Vec<Sample>, WorkloadError> {
        let answers = self.all(&Order::Window(times))?;
        let sample = |answer| if let Answer::Sample(sample) = answer { Some(sample) } else { None };
        Ok(answers.into_iter().filter_map(sample).collect())
    }

    fn all(&mut self, order: &Order) -> Result<Vec<Answer>, WorkloadError> {
        for session in &self.running {
            // If the session's thread has ended, the `recv` below reports that.
            let _ = session.orders.as_ref().map(|orders| orders.send(order.clone()));
        }
        let gone = || WorkloadError::Program { program: "a session".to_owned(), why: "its thread ended".to_owned() };
        let answers = self.running.iter().map(|session| session.answers.recv().unwrap_or_else(|_| Err(gone())));
        let answers: Vec<Result<Answer, WorkloadError>> = answers.collect();
        let failed = answers.iter().position(Result::is_err);
        if let Some(first) = failed {
            self.running.truncate(first);
        }
        answers.into_iter().collect()
    }

    /// The values in force in the first session.
    /// Each session reads its own values back, and fails if they differ from the requested values.
    fn in_force(&mut self, order: &Order) -> Result<Vec<String>, WorkloadError> {
        match self.all(order)?.into_iter().next() {
            Some(Answer::InForce(values)) => Ok(values),
            _ => Ok(Vec::new()),
        }
    }
}

/// Makes all sessions one workload, so that a trial can switch their settings.
impl Workload for Sessions<'_> {
    fn describe(&self) -> String {
        self.about.as_ref().map_or_else(String::new, |about| about.describe.clone())
    }

    fn metrics(&self) -> &[Metric] {
        self.about.as_ref().map_or(&[], |about| &about.metrics)
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        let order = Order::SetProcess { knob: knob.to_owned(), value: value.map(str::to_owned) };
        Ok(self.in_force(&order)?.pop().unwrap_or_default())
    }

    fn configure(&mut self, settings: &[(&str, Option<&str>)]) -> Result<Vec<String>, WorkloadError> {
        let owned = |(name, value): &(&str, Option<&str>)| ((*name).to_owned(), value.map(str::to_owned));
        self.in_force(&Order::Configure(settings.iter().map(owned).collect()))
    }

    fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.all(&Order::Reopen).map(drop)
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.all(&Order::Restart).map(drop)
    }

    /// Returns the value of the worst session for each metric.
    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        begin();
        let samples = self.samples(Times { settle, window })?;
        let worst = |metric: &Metric| {
            let values = samples.iter().filter_map(|sample| sample.get(metric.name.as_ref()).copied());
            let worse = |a: f64, b: f64| if metric.better == Direction::Higher { a.min(b) } else { a.max(b) };
            values.reduce(worse).map(|value| (metric.name.to_string(), value))
        };
        Ok(self.metrics().iter().filter_map(worst).collect())
    }

    fn stop(&mut self) {
        self.running.clear();
    }
}

/// Executes requests until the sender is dropped or a request fails.
fn serve(workload: &mut dyn Workload, orders: &Receiver<Order>, answers: &Sender<Result<Answer, WorkloadError>>) {
    while let Ok(order) = orders.recv() {
        let answer = follow(workload, order);
        let is_over = answer.is_err();
        if answers.send(answer).is_err() || is_over {
            return;
        }
    }
}

fn follow(workload: &mut dyn Workload, order: Order) -> Result<Answer, WorkloadError> {
    match order {
        Order::Window(Times { settle, window }) => workload.window(settle, window, &mut || {}).map(Answer::Sample),
        Order::SetProcess { knob, value } => {
            let found = workload.set_process(&knob, value.as_deref())?;
            if let Some(wanted) = value.filter(|wanted| *wanted != found) {
                let why = format!("the process of a session reads {found} afterwards");
                return Err(WorkloadError::Switch { knob, wanted, why });
            }
            Ok(Answer::InForce(vec![found]))
        }
        Order::Configure(settings) => {
            let settings: Vec<(&str, Option<&str>)> =
                settings.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
            workload.configure(&settings).map(Answer::InForce)
        }
        Order::Reopen => workload.reopen().map(|()| Answer::Done),
        Order::Restart => workload.restart().map(|()| Answer::Done),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Dropping the sender ends the thread.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
