//! A preset whose server answers requests. It starts the server and its load, and returns the values of each window.
//! A preset of one server only has its command line and its protocol.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_stats::Direction;
use evenkeel_sys::{CpuSet, thread};

use crate::caveat::WorkloadCaveat;
use crate::error::WorkloadError;
use crate::kit::full::{Full, Ran};
use crate::kit::place::{Mover, PLACEMENT};
use crate::kit::server::{Plan, Ready, Server, version};
use crate::load::{Loader, Protocol, Settings};
use crate::metric::Metric;
use crate::placement::Placement;
use crate::processes::Used;
use crate::workload::{Sample, Workload};

/// If the load generator is busy for more than this share of the time, it may limit the throughput.
const BUSY_SHARE_MAX: f64 = 0.95;
/// If the load generator sends more than this share of its requests late, the load was not the requested load.
const BEHIND_SHARE_MAX: f64 = 0.01;
/// There is a caveat if more than this share of due requests was never sent.
const UNSENT_SHARE_MAX: f64 = 0.01;

const THROUGHPUT: Metric =
    Metric::new("throughput_per_s", "answered requests a second", "requests/s", Direction::Higher);
const P50: Metric = Metric::us("request_us_p50", "median time of a request");
const P90: Metric = Metric::us("request_us_p90", "90th percentile of the time of a request");
const P99: Metric = Metric::us("request_us_p99", "99th percentile of the time of a request");
const P999: Metric = Metric::us("request_us_p999", "99.9th percentile of the time of a request");
const CPU: Metric = Metric::new("cpu_share", "CPU time of the server in one CPU's", "share", Direction::Lower);
const CPU_EACH: Metric = Metric::us("cpu_us_per_request", "CPU time of the server for one request");

/// Every metric of a server that answers requests, for the documentation.
pub(crate) const METRICS: &[Metric] = CLOSED;
/// The metrics in a closed loop, in which the throughput decides. In an open loop the user gives the rate, so the latencies decide.
const CLOSED: &[Metric] = &[THROUGHPUT, P50, P90, P99, P999, CPU_EACH, CPU];
const OPEN: &[Metric] = &[P99, P50, P90, P999, CPU_EACH, CPU, THROUGHPUT];

/// The preset of a server.
pub(crate) struct Preset {
    /// The name of the preset.
    pub(crate) name: &'static str,
    /// The name of the server's program.
    pub(crate) program: &'static str,
    /// The argument with which the program prints its version.
    pub(crate) version: &'static str,
    /// The command that installs the server.
    pub(crate) install: &'static str,
    /// Writes the server's files into its folder, and returns its arguments.
    pub(crate) arguments: Arguments,
    /// The protocol of the server.
    pub(crate) protocol: Arc<dyn Protocol>,
    /// The settings of the load.
    pub(crate) load: Settings,
    /// A description of the requests for the report: `10000 keys of 30 bytes, …`.
    pub(crate) content: String,
    /// How CPUs are assigned to server and load.
    pub(crate) placement: Placement,
    /// A flag that is set when the user asks to stop.
    pub(crate) stop: Arc<AtomicBool>,
}

/// A function that writes a server's files into its folder, and returns its arguments for this folder and address.
pub(crate) type Arguments = Box<dyn Fn(&Path, SocketAddr) -> std::io::Result<Vec<String>>>;

/// A running server with its load.
pub(crate) struct Serving {
    preset: Preset,
    version: String,
    server: Server,
    loader: Loader,
    server_cpus: CpuSet,
    load_cpus: CpuSet,
    mover: Mover,
    caveats: Vec<WorkloadCaveat>,
}

impl Serving {
    /// Starts the server and opens the load's connections.
    pub(crate) fn start(preset: Preset) -> Result<Serving, WorkloadError> {
        let (server_cpus, load_cpus) = preset.placement.cpus();
        let (server, loader) = run(&preset, &server_cpus, &load_cpus)?;
        let version = version(preset.program, preset.version).unwrap_or_else(|| preset.name.to_owned());
        Ok(Serving {
            preset,
            version,
            server,
            loader,
            server_cpus,
            load_cpus,
            mover: Mover::default(),
            caveats: Vec::new(),
        })
    }

    fn connect(&mut self) -> Result<(), WorkloadError> {
        let loader = connect(&mut self.server, &self.preset, &self.load_cpus)?;
        self.loader = loader;
        Ok(())
    }

    /// How full the load's CPUs were in the window of this sample. None if unknown.
    fn full(&self, sample: &Sample) -> Option<Full> {
        let (cpus, threads) = self.loader.runs_on();
        // A load that is not pinned may run on all CPUs of this process.
        let on = if cpus.is_empty() { thread::affinity().ok()? } else { cpus.clone() };
        let load = Ran { cpus: sample.get("load_cpu_share")? * threads as f64, on };
        let on = thread::affinity_of(self.server.pid()).unwrap_or_default();
        let server = Ran { cpus: sample.get("cpu_share").copied().unwrap_or(0.0), on };
        Full::new(&load, &server)
    }

    fn note_caveats(&mut self, sample: &Sample, full: Option<Full>) {
        let (server, connections) = (self.preset.name, self.preset.load.connections);
        let over = |name: &str, most: f64| sample.get(name).copied().filter(|share| *share > most);
        let busy = over("load_cpu_share", BUSY_SHARE_MAX)
            .map(|share| WorkloadCaveat::GeneratorBusy { share, server })
            .or_else(|| full.and_then(|full| full.caveat()));
        let late = over("load_behind_share", BEHIND_SHARE_MAX).map(|share| WorkloadCaveat::GeneratorLate { share });
        let unsent =
            over("unsent_share", UNSENT_SHARE_MAX).map(|share| WorkloadCaveat::Unsent { share, server, connections });
        // Only the caveats of the first window with any caveat are stored.
        if self.caveats.is_empty() {
            self.caveats = busy.into_iter().chain(late).chain(unsent).collect();
        }
    }
}

fn run(preset: &Preset, server_cpus: &CpuSet, load_cpus: &CpuSet) -> Result<(Server, Loader), WorkloadError> {
    let mut server = Server::start(&Plan {
        name: preset.name,
        program: preset.program,
        install: preset.install,
        cpus: server_cpus,
        ready: Ready::Tcp,
        stop: &preset.stop,
        arguments: &*preset.arguments,
    })?;
    let loader = connect(&mut server, preset, load_cpus)?;
    Ok((server, loader))
}

fn connect(server: &mut Server, preset: &Preset, load_cpus: &CpuSet) -> Result<Loader, WorkloadError> {
    Loader::connect(server.address(), &preset.protocol, &preset.load.shape(), load_cpus)
        .map_err(|fault| server.error(&fault.to_string()))
}

impl Workload for Serving {
    fn describe(&self) -> String {
        let place = match self.server_cpus.is_empty() {
            true => "server and load on whatever CPUs the kernel gives them".to_owned(),
            false => format!("server on CPUs {}, load on CPUs {}", self.server_cpus, self.load_cpus),
        };
        let Preset { name, content, load, .. } = &self.preset;
        format!("{name} ({}): {}, {content}, loopback; {place}", self.version, load.pace_in_words())
    }

    fn metrics(&self) -> &[Metric] {
        if self.preset.load.rate_per_s == 0 { CLOSED } else { OPEN }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn pids(&self) -> Vec<u32> {
        vec![self.server.pid()]
    }

    fn set_process(&mut self, knob: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        if knob != PLACEMENT {
            return self.server.set_process(knob, value);
        }
        let (placement, load_cpus) = self.mover.set(self.preset.placement, value, &[self.server.pid()], &[])?;
        // The threads of the load start anew with each window, so pin them from the next window on.
        self.loader.run_on(load_cpus);
        Ok(placement)
    }

    fn reopen(&mut self) -> Result<(), WorkloadError> {
        self.connect()
    }

    fn restart(&mut self) -> Result<(), WorkloadError> {
        self.server.stop();
        let (server, loader) = run(&self.preset, &self.server_cpus, &self.load_cpus)?;
        self.server = server;
        self.loader = loader;
        // After the restart, thread numbers may belong to other threads, so forget their earlier CPUs.
        self.mover = Mover::default();
        Ok(())
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        let (mut before, mut after) = (Used::default(), Used::default());
        let server = &self.server;
        let sample = self.loader.window(
            settle,
            window,
            &mut || {
                begin();
                before = server.used();
            },
            &mut || after = server.used(),
        );
        let mut sample = sample.map_err(|fault| self.server.error(&fault.to_string()))?;
        after.put_since(&before, &mut sample);
        let (cpu_share, rate) = (sample.get("cpu_share").copied(), sample.get("throughput_per_s").copied());
        if let Some((cpu_share, rate)) = cpu_share.zip(rate).filter(|(_, rate)| *rate > 0.0) {
            sample.insert("cpu_us_per_request".to_owned(), cpu_share * 1e6 / rate);
        }
        let full = self.full(&sample);
        sample.extend(full.map(|full| ("load_cpus_used_share".to_owned(), full.share())));
        self.note_caveats(&sample, full);
        Ok(sample)
    }

    fn caveats(&self) -> Vec<WorkloadCaveat> {
        self.caveats.clone()
    }

    fn stop(&mut self) {
        self.server.stop();
    }
}
