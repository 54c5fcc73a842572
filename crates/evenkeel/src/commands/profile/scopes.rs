//! `evenkeel profile scopes`.

use std::path::{Path, PathBuf};

use evenkeel_profile::scopes::{self, Long, Scopes, Which};
use evenkeel_sys::telemetry::{PageSlices, TelemetryReader, folders, sessions};
use serde::Serialize;

use super::input;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::profile::scopes::{From, Quantum};
use crate::show::{Out, profile};
use crate::view::terminal;

/// The quantum that evenkeel assumes if it is unknown, in nanoseconds.
const ASSUMED_NS: u64 = 4_000_000;

/// Find scopes of a server on evenkeel-rt that keep the CPU for longer than half a quantum
///
/// SCOPES is the output of `chrome_json` (Rust) or `evenkeel_scope_write_chrome_json` (C).
/// Time in which a thread was switched out does not count.
/// This time comes from a recording of the same time (--recording).
/// Without a recording, evenkeel counts scopes with a switch-out but does not judge them.
/// It examines only scopes without inner scopes, unless you give --all.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel profile scopes scopes.json
  evenkeel profile scopes scopes.json --recording perf.data --quantum-ms 4")]
pub(crate) struct Args {
    /// The scopes: JSON that evenkeel-rt wrote
    #[arg(value_name = "SCOPES")]
    scopes: PathBuf,
    /// A recording of the same time with switches, on CLOCK_MONOTONIC (`evenkeel profile record --switches`)
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// How long the hypervisor or quota gives a CPU at a time, in milliseconds [default:
    /// from the server's telemetry, else 4]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    quantum_ms: Option<f64>,
    /// The server's telemetry page [default: the page of the process in SCOPES]
    #[arg(long, value_name = "PAGE", conflicts_with = "quantum_ms")]
    telemetry: Option<PathBuf>,
    /// Also examine scopes that contain other scopes
    #[arg(long)]
    all: bool,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer<'a> {
    #[serde(flatten)]
    quantum: Quantum,
    #[serde(flatten)]
    long: &'a Long,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let ms = crate::times::ms(text).filter(|ms| (0.001..=10_000.0).contains(ms));
    ms.ok_or_else(|| "expected 0.001 to 10000 milliseconds, for example 4 or 4ms".to_owned())
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let tried = || format!("read the scopes {}", args.scopes.display());
    // Refuse a binary file by its first bytes, because JSON has no zero byte.
    let check_head = |head: &[u8]| if head.contains(&0) { scopes::parse(head).map(|_| ()) } else { Ok(()) };
    let whole = input::whole(&args.scopes, &tried(), check_head)?;
    let scopes = scopes::parse(&whole.bytes).map_err(|error| Failure::text(exit::WRONG_USE, tried(), error))?;
    let quantum = quantum(args, &scopes)?;
    let opened = args.recording.as_deref().map(input::open).transpose()?;
    if let (Some(file), Some(opened)) = (&args.recording, &opened) {
        opened.warn(file, out);
    }
    let recording = opened.as_ref().map(|opened| &opened.recording);
    let which = if args.all { Which::All } else { Which::Leaf };
    let long = scopes::long(&scopes, quantum.quantum_ns / 2, which, recording).map_err(|error| {
        let file = args.recording.as_deref().unwrap_or(Path::new(""));
        Failure::text(exit::WRONG_USE, format!("use the recording {} for these scopes", file.display()), error)
    })?;
    out.answer(&Answer { quantum, long: &long }, || terminal::text(&profile::scopes::blocks(&long, quantum)))?;
    Ok(exit::WELL)
}

fn quantum(args: &Args, scopes: &Scopes) -> Result<Quantum, Failure> {
    if let Some(ms) = args.quantum_ms {
        return Ok(Quantum { quantum_ns: (ms * 1e6).round() as u64, quantum_from: From::Given });
    }
    if let Some(page) = &args.telemetry {
        let snapshot = TelemetryReader::open(page).and_then(|reader| reader.read());
        let snapshot = snapshot
            .map_err(|error| Failure::text(exit::WRONG_USE, "read the quantum from the telemetry page", error))?;
        return Ok(quantum_of(snapshot.turns));
    }
    // If evenkeel can read no page, the answer says that the quantum is assumed.
    let found = folders().iter().flat_map(|folder| sessions(folder).unwrap_or_default()).find_map(|session| {
        let snapshot = session.reader.read().ok()?;
        scopes.threads.iter().any(|thread| thread.pid == snapshot.owner.pid).then_some(snapshot.turns)
    });
    Ok(quantum_of(found.unwrap_or_default()))
}

fn quantum_of(turns: PageSlices) -> Quantum {
    match turns {
        PageSlices::Slots { period_ns, share } | PageSlices::Bucket { period_ns, share } => {
            Quantum { quantum_ns: (period_ns as f64 * share).round() as u64, quantum_from: From::Telemetry }
        }
        PageSlices::Whole => Quantum { quantum_ns: ASSUMED_NS, quantum_from: From::Whole },
        PageSlices::Unknown => Quantum { quantum_ns: ASSUMED_NS, quantum_from: From::Assumed },
    }
}
