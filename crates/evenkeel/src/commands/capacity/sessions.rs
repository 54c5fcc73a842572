//! Sessions that run at once. Each is a workload in a thread of its own, so that all measure the same window.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_workload::{Metric, Sample, Workload, WorkloadError};

use crate::exit;
use crate::failure::Failure;
use crate::workload_args::{WorkloadArgs, workload_of};

/// What stands for the number of a session, from 0, in the command line of a server and its load.
const NUMBER: &str = "{session}";
/// What stands for its port.
const PORT: &str = "{port}";

/// A window: the time before it, and its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) settle: Duration,
    pub(super) window: Duration,
}

/// A session that has started: its workload.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) describe: String,
    pub(super) metrics: Vec<Metric>,
    pub(super) events_per_s: Option<f64>,
}

/// A running session. Dropping it ends its server and its load.
struct Session {
    orders: Option<Sender<Times>>,
    answers: Receiver<Result<Sample, WorkloadError>>,
    thread: Option<JoinHandle<()>>,
}

/// Sessions that are equal but for their numbers.
pub(super) struct Sessions<'a> {
    line: String,
    first_port: u16,
    seed: u64,
    stop: &'a Arc<AtomicBool>,
    running: Vec<Session>,
    /// That of the first session.
    about: Option<About>,
}

impl<'a> Sessions<'a> {
    pub(super) fn new(asked: &WorkloadArgs, first_port: u16, seed: u64, stop: &'a Arc<AtomicBool>) -> Sessions<'a> {
        Sessions { line: asked.line(), first_port, seed, stop, running: Vec::new(), about: None }
    }

    /// How many run.
    pub(super) fn count(&self) -> u32 {
        self.running.len() as u32
    }

    /// The workload of the first session.
    pub(super) fn about(&self) -> Option<&About> {
        self.about.as_ref()
    }

    /// Starts or ends sessions until `wanted` run. The last ones end first.
    ///
    /// # Errors
    /// If one does not start.
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
        let (orders, receive_orders) = channel::<Times>();
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
    /// The first error of a session, if one ended or hung. It and those after it no longer run.
    pub(super) fn window(&mut self, times: Times) -> Result<Vec<Sample>, WorkloadError> {
        for session in &self.running {
            // A session whose thread is gone answers so below.
            let _ = session.orders.as_ref().map(|orders| orders.send(times));
        }
        let gone = || WorkloadError::Program { program: "a session".to_owned(), why: "its thread ended".to_owned() };
        let answers = self.running.iter().map(|session| session.answers.recv().unwrap_or_else(|_| Err(gone())));
        let answers: Vec<Result<Sample, WorkloadError>> = answers.collect();
        let failed = answers.iter().position(Result::is_err);
        if let Some(first) = failed {
            self.running.truncate(first);
        }
        answers.into_iter().collect()
    }
}

/// Measures windows until the other side is gone.
fn serve(workload: &mut dyn Workload, orders: &Receiver<Times>, answers: &Sender<Result<Sample, WorkloadError>>) {
    while let Ok(Times { settle, window }) = orders.recv() {
        let answer = workload.window(settle, window, &mut || {});
        let is_over = answer.is_err();
        if answers.send(answer).is_err() || is_over {
            return;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The thread ends when nobody can give it an order.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
