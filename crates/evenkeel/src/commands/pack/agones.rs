//! `pack agones`: renders the Agones manifests for a server from the need of a session. It does not contact a cluster.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use evenkeel_fleet::agones::{
    self, Asked, BufferAdvice, BufferError, CpuMode, Demand, DnsLabel, Fleet, FleetAutoscaler, Image, Measured,
    MeasuredError, NodeLabel, NodeRoom, RenderError, Rendered, Scheduling, ServerPort, Size, SizeError,
};
use evenkeel_fleet::{Session, pack};
use evenkeel_hostfs::json_words;
use serde::Serialize;

use super::question::{load, table};
use crate::args::number;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::times;
use crate::user_table;

/// The maximum number of sessions of one process.
const PER_SERVER_MAX: i64 = 10_000;
/// The maximum number of nodes of a cluster.
const NODES_MAX: i64 = 100_000;

/// The end of `--help`.
const EXAMPLES: &str = "\
With one row in the table, or --capacity alone, the row is clear; otherwise --session names it.
The FleetAutoscaler needs --starts-per-minute, --node-start, --nodes-max, and how many sessions fit
on a node. If one of these is not known, evenkeel renders no FleetAutoscaler.
docs/packing.md explains the rules.

Examples:
  evenkeel pack agones sessions.csv --session arena --image registry.example/arena:1.4 --port 7777
  evenkeel pack agones --capacity capacity.json --name arena --image arena:1.4 --starts-per-minute 6 --node-start 90s --nodes-max 20
  evenkeel pack agones sessions.csv --image arena:1.4 --cpus pinned --node-label pool=games";

/// Render an Agones Fleet and its FleetAutoscaler from what a session needs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sessions, as CSV
    #[arg(value_name = "SESSIONS.csv", required_unless_present = "capacity")]
    sessions: Option<PathBuf>,
    /// Read what a session needs, and how many fit on a node, from the answer of `evenkeel capacity --json`
    #[arg(long, value_name = "FILE")]
    capacity: Option<PathBuf>,
    /// The row of the table, by its session name
    #[arg(long, value_name = "NAME", requires = "sessions")]
    session: Option<String>,
    /// Name of the Fleet [default: the session's]
    #[arg(long, value_name = "NAME")]
    name: Option<DnsLabel>,
    /// Namespace of the Fleet [default: kubectl's namespace]
    #[arg(long, value_name = "NAME")]
    namespace: Option<DnsLabel>,
    /// Image of the server
    #[arg(long, value_name = "IMAGE")]
    image: Image,
    /// A port that the server opens: 7777 for UDP, 7777/tcp or 7777/tcpudp. Repeatable
    #[arg(long, value_name = "PORT")]
    port: Vec<ServerPort>,
    /// How many sessions one process runs (high density)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=PER_SERVER_MAX))]
    sessions_per_server: u32,
    /// CPU time of a server: a share of all CPUs (shared), or exclusive CPUs (pinned)
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Cpus::Shared, hide_possible_values = true)]
    cpus: Cpus,
    /// The highest load of a CPU that several sessions share, from 0.05 to 1
    #[arg(long, value_name = "SHARE", default_value_t = pack::LOAD_MAX, value_parser = load)]
    load_max: f64,
    /// Where Agones puts servers: on few nodes (packed), or on all (distributed)
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Nodes::Packed, hide_possible_values = true)]
    scheduling: Nodes,
    /// Only nodes with this label, such as evenkeel.dev/quantum=none.
    /// Repeatable; with several values for a key, any value matches
    #[arg(long, value_name = "KEY=VALUE")]
    node_label: Vec<NodeLabel>,
    /// Only nodes with room for N sessions, according to the label evenkeel.dev/sessions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    node_sessions_min: Option<u32>,
    /// Spread the ticks of all sessions of a node, through a folder that the pods share
    #[arg(long)]
    phases: bool,
    /// CPUs that pods may request on a node [default: the CPUs of the machine of --capacity]
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    node_cpus: Option<f64>,
    /// How many sessions start in a minute at the busiest hour
    #[arg(long, value_name = "N", value_parser = starts)]
    starts_per_minute: Option<f64>,
    /// Time from the request for a node until a server on it is ready, such as 90s
    #[arg(long, value_name = "TIME", value_parser = node_start)]
    node_start: Option<Duration>,
    /// Maximum number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes_max: Option<u32>,
}

/// How a server gets CPU time.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cpus {
    Shared,
    Pinned,
}

/// Where Agones puts servers.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Nodes {
    Packed,
    Distributed,
}

/// The manifests.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct AgonesAnswer {
    /// The table of sessions, or the answer of `evenkeel capacity`.
    file: String,
    /// The session.
    session: String,
    /// How many sessions one process runs.
    sessions_per_server: u32,
    /// What a server requests.
    size: Size,
    /// The buffer of the autoscaler, or the missing information for it.
    buffer: BufferAdvice,
    /// The fleet.
    fleet: Fleet,
    /// The autoscaler of the fleet; `null` if the buffer is unknown.
    autoscaler: Option<FleetAutoscaler>,
    /// What to consider before you use the manifests.
    caveats: Vec<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let measured = args.capacity.as_deref().map(measured).transpose()?;
    let (file, session) = args.session(measured.as_ref())?;
    let source = file.display().to_string();
    let name = args.name(&session)?;
    let asked = args.asked(name, session.clone(), measured.as_ref());
    let rendered = agones::render(&asked).map_err(|error| refused(&file, &error))?;
    let text = rendered
        .yaml(&source)
        .map_err(|error| Failure::text(exit::NOT_POSSIBLE, "write the manifests as JSON", error))?;
    let Rendered { size, buffer, fleet, autoscaler, caveats, .. } = rendered;
    let sessions_per_server = args.sessions_per_server;
    let answer = AgonesAnswer {
        file: source,
        session: session.name,
        sessions_per_server,
        size,
        buffer,
        fleet,
        autoscaler,
        caveats,
    };
    out.answer(&answer, || text)?;
    Ok(exit::WELL)
}

impl Args {
    /// The need of a session, and the file of that need.
    fn session(&self, measured: Option<&Measured>) -> Result<(PathBuf, Session), Failure> {
        let Some(path) = &self.sessions else {
            // The parser requires `SESSIONS.csv` or `--capacity`.
            let path = self.capacity.clone().unwrap_or_default();
            let need = measured.and_then(|measured| measured.need.clone()).ok_or_else(|| {
                wrong(&path, "it does not say what a session needs: only one number of sessions was tried")
                    .hint("name a table of sessions too: evenkeel pack agones SESSIONS.csv --capacity FILE")
            })?;
            return Ok((path, need));
        };
        let sessions = table(path)?;
        let row = match (&self.session, &sessions[..]) {
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
            (Some(name), _) => sessions.iter().find(|session| session.name == *name).cloned(),
        };
        let names = || sessions.iter().take(10).map(|session| session.name.as_str()).collect::<Vec<_>>().join(", ");
        let row = row.ok_or_else(|| {
            let why = match &self.session {
                None => format!("it has {} rows, but a Fleet needs exactly one", sessions.len()),
                Some(name) => format!("no row has the session {name:?}"),
            };
            wrong(path, why).hint(format!("name one with --session: {}", names()))
        })?;
        Ok((path.clone(), row))
    }

    fn name(&self, session: &Session) -> Result<DnsLabel, Failure> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => session.name.parse().map_err(|error| {
                Failure::text(exit::WRONG_USE, format_args!("name the Fleet {:?}", session.name), error)
                    .hint("give it another name with --name")
            }),
        }
    }

    fn asked(&self, name: DnsLabel, session: Session, measured: Option<&Measured>) -> Asked {
        let machine = measured.map(|measured| measured.cpus);
        Asked {
            name,
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            session,
            sessions_per_server: self.sessions_per_server,
            cpus: match self.cpus {
                Cpus::Shared => CpuMode::Shared,
                Cpus::Pinned => CpuMode::Pinned,
            },
            load_max: self.load_max,
            ports: self.port.clone(),
            scheduling: match self.scheduling {
                Nodes::Packed => Scheduling::Packed,
                Nodes::Distributed => Scheduling::Distributed,
            },
            node_labels: self.node_label.clone(),
            node_sessions_min: self.node_sessions_min,
            shares_phases: self.phases,
            node: NodeRoom {
                cpus: self.node_cpus.or(machine),
                sessions: measured.and_then(|measured| measured.sessions),
            },
            is_node_whole: self.node_cpus.is_none(),
            demand: Demand {
                starts_per_minute: self.starts_per_minute,
                node_start_s: self.node_start.map(|time| time.as_secs_f64()),
                nodes_max: self.nodes_max,
            },
        }
    }
}

/// Reads the saved answer of `evenkeel capacity`.
fn measured(path: &Path) -> Result<Measured, Failure> {
    let mut text = String::new();
    let read = user_table::open(path, agones::CAPACITY_BYTES_MAX)?.read_to_string(&mut text);
    read.map_err(|error| Failure::io(exit::WRONG_USE, format_args!("read {}", path.display()), &error))?;
    agones::read_measured(&text).map_err(|error| {
        let why = match &error {
            MeasuredError::Text(why) => {
                format!("it is not an answer of `evenkeel capacity --json`: {}", json_words::plain(why))
            }
            other => other.to_string(),
        };
        Failure::text(exit::WRONG_USE, format_args!("read {}", path.display()), why)
            .hint("`evenkeel capacity --json > FILE` writes such a file")
    })
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::text(exit::WRONG_USE, format_args!("render {} for Agones", path.display()), why)
}

fn refused(path: &Path, error: &RenderError) -> Failure {
    let hint = match error {
        RenderError::Size(SizeError::NoMemory) => "add the column memory_mib, or use --cpus shared",
        RenderError::Size(SizeError::TooLarge(_)) => "lower --sessions-per-server, or raise --load-max",
        RenderError::Buffer(BufferError::AboveNodes { .. }) => "raise --nodes-max, or name nodes that start sooner",
        RenderError::Buffer(BufferError::TooMany(_)) => "lower --nodes-max",
    };
    wrong(path, error).hint(hint)
}

fn cpus(text: &str) -> Result<f64, String> {
    number(text, 0.001..=10_000.0, "a number of CPUs from 0.001 to 10000, such as 3.92")
}

fn starts(text: &str) -> Result<f64, String> {
    number(text, 0.0..=1e6, "a number of sessions a minute from 0 to 1000000, such as 6")
}

/// Parses a duration from one second to one day.
fn node_start(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
    times::time(text)
        .ok()
        .filter(|time| range.contains(time))
        .ok_or_else(|| "a time from 1s to 24h, such as 90s".to_owned())
}
