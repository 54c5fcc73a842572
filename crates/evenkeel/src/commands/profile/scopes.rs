//! `evenkeel profile scopes`.

use std::path::{Path, PathBuf};

use evenkeel_profile::scopes::{self, Long, Scopes, Which};
use evenkeel_sys::telemetry::{PageSlices, TelemetryReader, folders, sessions};
use serde::Serialize;

use super::input;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::profile::scopes::{From, Quantum};
use crate::show::{Out, blocks, profile};

/// The quantum where nobody knows it.
const ASSUMED_NS: u64 = 4_000_000;

/// Scopes of a server on evenkeel-rt that keep the CPU for longer than half a quantum: where, how often, how long
///
/// SCOPES is what `chrome_json` (Rust) or `evenkeel_scope_write_chrome_json` (C) wrote. A recording of the same time tells how long the threads were
/// switched out, which does not count; without one, scopes in which a thread was switched out can't be judged, and are counted. Only scopes with
/// no other one inside are looked at, unless told otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scopes: JSON that evenkeel-rt wrote
    #[arg(value_name = "SCOPES")]
    scopes: PathBuf,
    /// A recording of the same time, with the switches of the server's threads, on the monotonic clock
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// The time for which a CPU is given, in milliseconds [default: what the server's telemetry tells; else 4]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    quantum_ms: Option<f64>,
    /// The server's page of telemetry, in place of the one that is found by its process
    #[arg(long, value_name = "PAGE", conflicts_with = "quantum_ms")]
    telemetry: Option<PathBuf>,
    /// Look at scopes around others, too
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    quantum: Quantum,
    #[serde(flatten)]
    long: &'a Long,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let ms: f64 = text.parse().map_err(|_| "a number of milliseconds is needed".to_owned())?;
    if (0.001..=10_000.0).contains(&ms) { Ok(ms) } else { Err("it has to be from 0.001 to 10000".to_owned()) }
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let tried = || format!("read the scopes {}", args.scopes.display());
    // No JSON has a byte of zero in it: what comes after one need not be read.
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
        Failure::text(exit::WRONG_USE, format!("put the recording {} beside the scopes", file.display()), error)
    })?;
    out.answer(&Answer { quantum, long: &long }, || blocks::text(&profile::scopes::blocks(&long, quantum)))?;
    Ok(exit::WELL)
}

fn quantum(args: &Args, scopes: &Scopes) -> Result<Quantum, Failure> {
    if let Some(ms) = args.quantum_ms {
        return Ok(Quantum { quantum_ns: (ms * 1e6).round() as u64, quantum_from: From::Given });
    }
    if let Some(page) = &args.telemetry {
        let snapshot = TelemetryReader::open(page).and_then(|reader| reader.read());
        let snapshot = snapshot.map_err(|error| Failure::text(exit::WRONG_USE, "learn the quantum", error))?;
        return Ok(told(snapshot.turns));
    }
    // A page that can't be read tells nothing: the answer says that the quantum is assumed.
    let found = folders().iter().flat_map(|folder| sessions(folder).unwrap_or_default()).find_map(|session| {
        let snapshot = session.reader.read().ok()?;
        scopes.threads.iter().any(|thread| thread.pid == snapshot.owner.pid).then_some(snapshot.turns)
    });
    Ok(told(found.unwrap_or_default()))
}

fn told(turns: PageSlices) -> Quantum {
    match turns {
        PageSlices::Slots { period_ns, share } | PageSlices::Bucket { period_ns, share } => {
            Quantum { quantum_ns: (period_ns as f64 * share).round() as u64, quantum_from: From::Telemetry }
        }
        PageSlices::Whole => Quantum { quantum_ns: ASSUMED_NS, quantum_from: From::Whole },
        PageSlices::Unknown => Quantum { quantum_ns: ASSUMED_NS, quantum_from: From::Assumed },
    }
}
