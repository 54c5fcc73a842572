//! `telemetry`: a running server that has a telemetry page of evenkeel-rt, with its real load. evenkeel only reads the page.
//! The server ran before and continues afterwards.

use std::time::Duration;

use crate::entry::{Entry, Options, unknown};
use crate::error::WorkloadError;
use crate::kit::child::sleep;
use crate::metric::Metric;
use crate::source::Source;
use crate::source::telemetry::{METRICS, Telemetry};
use crate::workload::{Sample, Workload};

const NAME: &str = "telemetry";

/// The registry entry of the workload.
pub(super) const ENTRY: Entry = Entry {
    name: NAME,
    title: "a server that runs already and keeps a page of evenkeel-rt's telemetry",
    install: None,
    settings: &[("session=", "its name, or its process number; may be omitted if only one runs")],
    metrics: &[METRICS],
    start: |options| Ok(Box::new(Attached::start(options)?)),
};

struct Attached {
    telemetry: Telemetry,
}

impl Attached {
    fn start(options: &Options) -> Result<Attached, WorkloadError> {
        let mut session = None;
        for (name, value) in &options.set {
            match name.as_str() {
                "session" => session = Some(value.as_str()).filter(|name| !name.is_empty()),
                _ => return Err(unknown(&ENTRY, name)),
            }
        }
        Ok(Attached { telemetry: Telemetry::open(session)? })
    }
}

impl Workload for Attached {
    fn describe(&self) -> String {
        format!("{}; it runs already, with the load that it has", self.telemetry.describe())
    }

    fn metrics(&self) -> &[Metric] {
        METRICS
    }

    /// We do not know whether the players' packets pass a network device. So the trial judges a knob of devices by its effect.
    fn passes_network_devices(&self) -> bool {
        true
    }

    fn pids(&self) -> Vec<u32> {
        self.telemetry.pid().into_iter().collect()
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        let why = "the server was not started by us: if we were killed, nothing would put it back; let `evenkeel prove … -- \
                   COMMAND` start it";
        let wanted = value.unwrap_or("what it was").to_owned();
        Err(WorkloadError::Switch { knob: knob.to_owned(), wanted, why: why.to_owned() })
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        sleep(settle);
        self.telemetry.begin()?;
        begin();
        sleep(window);
        self.telemetry.end()
    }

    fn stop(&mut self) {}
}
