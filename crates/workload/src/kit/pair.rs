//! A built-in server and its load, each a separate process (see [`helper`](crate::helper)).
//! This module starts and ends both processes, opens new sockets, moves the processes between CPUs while they run, and reads their values.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_sys::CpuSet;
use serde_json::{Value, json};

use super::child::{Conversation, Program, flatten, sleep};
use super::full::Fullness;
use super::place::{Mover, PLACEMENT};
use crate::caveat::WorkloadCaveat;
use crate::entry::Options;
use crate::error::WorkloadError;
use crate::placement::Placement;
use crate::process_knob::ProcessKnobs;
use crate::workload::Sample;

/// How long an answer may take in addition to the command itself. This is longer than a pause of the machine.
const ANSWER_TIME: Duration = Duration::from_secs(8);

/// The two processes to start.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) programs: PathBuf,
    pub(crate) placement: Placement,
    /// The arguments of the server's helper process.
    pub(crate) server: Vec<String>,
    /// The arguments of the load's helper process, without the server's address. None if there is no load.
    pub(crate) load: Option<Vec<String>>,
}

/// The running helper processes.
#[derive(Debug)]
pub(crate) struct Pair {
    parts: Parts,
    server: Conversation,
    load: Option<Conversation>,
    knobs: ProcessKnobs,
    mover: Mover,
    fullness: Fullness,
}

impl Pair {
    /// Starts the server, and then the load.
    ///
    /// # Errors
    /// Fails if server or load does not start, or does not print its address.
    pub(crate) fn start(parts: Parts) -> Result<Pair, WorkloadError> {
        let (server_cpus, load_cpus) = parts.placement.cpus();
        let (server, ready) = start(&parts, "server", &parts.server, server_cpus)?;
        let mut load = None;
        if let Some(arguments) = &parts.load {
            let mut arguments = arguments.clone();
            arguments.extend(["--to".to_owned(), address(&server, &ready)?]);
            load = Some(start(&parts, "load", &arguments, load_cpus)?.0);
        }
        Ok(Pair {
            parts,
            server,
            load,
            knobs: ProcessKnobs::default(),
            mover: Mover::default(),
            fullness: Fullness::default(),
        })
    }

    /// The CPUs of server and load, as text for the report.
    pub(crate) fn place(&self) -> String {
        let (server, load) = self.parts.placement.cpus();
        match (server.is_empty(), self.load.is_some()) {
            (true, _) => "on whatever CPUs the kernel gives".to_owned(),
            (false, true) => format!("server on CPUs {server}, load on CPUs {load}"),
            (false, false) => format!("on CPUs {server}"),
        }
    }

    /// Opens new sockets for server and load. The load pauses in the meantime.
    pub(crate) fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.send_to_load(&json!({"cmd": "close"}))?;
        let opened = self.server.ask(&json!({"cmd": "open"}), ANSWER_TIME)?;
        let to = address(&self.server, &opened)?;
        self.send_to_load(&json!({"cmd": "open", "to": to}))
    }

    /// Restarts server and load.
    pub(crate) fn restart(&mut self) -> Result<(), WorkloadError> {
        self.stop();
        let fullness = std::mem::take(&mut self.fullness);
        *self = Pair { fullness, ..Pair::start(self.parts.clone())? };
        Ok(())
    }

    fn send_to_load(&mut self, command: &Value) -> Result<(), WorkloadError> {
        match &mut self.load {
            Some(load) => load.ask(command, ANSWER_TIME).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The values of a window from server and load. The load's values keep their names.
    /// The server's values keep theirs too, unless the load has a value of the same name.
    /// The CPU time of each process is a share of one CPU.
    pub(crate) fn window(
        &mut self,
        settle: Duration,
        window: Duration,
        begin: &mut dyn FnMut(),
    ) -> Result<Sample, WorkloadError> {
        sleep(settle);
        self.numbers()?;
        begin();
        sleep(window);
        let sample = self.numbers()?;
        if let Some(load) = &self.load {
            let (load, server) = (load.pid(), self.server.pid());
            self.fullness.note_reported(
                &sample,
                (load, ["load_cpu_us", "load_span_us"]),
                (server, ["cpu_us", "span_us"]),
            );
        }
        Ok(sample)
    }

    /// The caveats of the load.
    pub(crate) fn caveats(&self) -> Vec<WorkloadCaveat> {
        self.fullness.caveat().into_iter().collect()
    }

    fn numbers(&mut self) -> Result<Sample, WorkloadError> {
        let command = json!({"cmd": "window"});
        let mut sample = numbers_of(&mut self.server, &command)?;
        let Some(load) = &mut self.load else { return Ok(sample) };
        for (name, value) in numbers_of(load, &command)? {
            let name = if sample.contains_key(&name) { format!("load_{name}") } else { name };
            sample.insert(name, value);
        }
        Ok(sample)
    }

    /// Sends a command to the server itself.
    pub(crate) fn ask_server(&mut self, command: &Value) -> Result<Value, WorkloadError> {
        self.server.ask(command, ANSWER_TIME)
    }

    pub(crate) fn server_error(&self, why: impl Into<String>) -> WorkloadError {
        self.server.error(why)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        vec![self.server.pid()]
    }

    /// Sets a knob of the server's process, or the placement of server and load.
    pub(crate) fn set(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        let server = self.pids();
        if knob != PLACEMENT {
            return self.knobs.set(&server, knob, value);
        }
        let load: Vec<u32> = self.load.iter().map(Conversation::pid).collect();
        self.mover.set(self.parts.placement, value, &server, &load).map(|(placement, _)| placement)
    }

    pub(crate) fn stop(&mut self) {
        if let Some(load) = &mut self.load {
            load.stop();
        }
        self.server.stop();
    }
}

fn start(
    parts: &Parts,
    name: &'static str,
    arguments: &[String],
    cpus: CpuSet,
) -> Result<(Conversation, Value), WorkloadError> {
    let path = parts.programs.join("evenkeel");
    let arguments = [&["helper".to_owned()], arguments].concat();
    let mut started = Conversation::start(&Program { name, path: &path, arguments, cpus })?;
    let ready = started.hear(ANSWER_TIME)?;
    Ok((started, ready))
}

fn address(server: &Conversation, said: &Value) -> Result<String, WorkloadError> {
    let address = said.get("addr").and_then(Value::as_str).map(str::to_owned);
    address.ok_or_else(|| server.error(format!("it printed {said} instead of its address")))
}

fn numbers_of(helper: &mut Conversation, command: &Value) -> Result<Sample, WorkloadError> {
    let mut sample = Sample::new();
    flatten("", &helper.ask(command, ANSWER_TIME)?, &mut sample);
    if let (Some(cpu_us), Some(span_us)) = (sample.get("cpu_us"), sample.get("span_us")) {
        sample.insert("cpu_share".into(), cpu_us / span_us);
    }
    Ok(sample)
}

/// Makes the description of a workload's processes from the user's options.
pub(crate) fn parts(options: &Options, server: Vec<String>, load: Option<Vec<String>>) -> Parts {
    Parts { programs: options.programs.clone(), placement: options.placement, server, load }
}

/// The command-line arguments of a helper: its role, and these options with values.
pub(crate) fn arguments(role: &str, pairs: &[(&str, u64)]) -> Vec<String> {
    let pairs = pairs.iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]);
    std::iter::once(role.to_owned()).chain(pairs).collect()
}
