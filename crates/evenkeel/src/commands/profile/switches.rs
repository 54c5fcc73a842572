//! `evenkeel profile switches`.

use std::path::PathBuf;

use evenkeel_profile::live::{Switches, Targets, Wishes};
use evenkeel_profile::offcpu::{self, table};
use evenkeel_profile::symbols::Doubts;
use serde::Serialize;

use super::input::Opened;
use super::{input, now};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::{Out, blocks, profile};

/// Room of each CPU's ring: a server that switches 70,000 times a second fills a megabyte in a fifth of one.
const RING_BYTES: usize = 8 << 20;

/// Why threads had no CPU: each switch-out by reason and length
///
/// Who took the CPU, which lock, which file a page fault waited for. Of a recording, or of what runs now: then whole CPUs are watched where this
/// user may, so that it is seen who takes them. A recording by perf must have the switches (--switch-events), and for the reasons their stacks (-e
/// context-switches -c 1 -g). A stretch of which one end was not seen is told as open.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recording: a perf.data file [default: record now]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Tell of these processes alone; several with commas
    #[arg(long, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pid: Vec<u32>,
    /// How long to record, in seconds
    #[arg(long, value_name = "S", default_value_t = 5, conflicts_with = "file", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    report: &'a table::Report,
    /// What the kernel counted as stolen from all CPUs while it was recorded; none of a file.
    steal_ns: Option<u64>,
    /// What could not be recorded, a sentence each.
    unseen: Vec<String>,
    /// What has no name, why, and what would give it one.
    names: &'a Doubts,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let (opened, unseen, steal_ns) = match &args.file {
        Some(file) => (input::open(file)?, Vec::new(), None),
        None => recorded(args)?,
    };
    let spells = offcpu::spells(&opened.recording, &opened.names);
    let is_wanted = |pid| args.pid.is_empty() || args.pid.contains(&pid);
    let report = table::report(&opened.recording, &opened.names, &spells, is_wanted);
    let answer = Answer { report: &report, steal_ns, unseen, names: &opened.doubts };
    out.answer(&answer, || blocks::text(&profile::switches::blocks(&report, steal_ns, &answer.unseen)))?;
    Ok(exit::WELL)
}

fn recorded(args: &Args) -> Result<(Opened, Vec<String>, Option<u64>), Failure> {
    let of = |targets| Wishes {
        targets,
        switches: Switches::WithStacks,
        faults: true,
        wakes: true,
        ring_bytes: RING_BYTES,
        ..Wishes::default()
    };
    let before_ns = steal_ns();
    let now = match now::record(&of(Targets::Machine), args.seconds) {
        // Its own processes any user may watch.
        Err(failure) if failure.exit == exit::NOT_ALLOWED && !args.pid.is_empty() => {
            now::record(&of(Targets::Processes(args.pid.clone())), args.seconds)?
        }
        recorded => recorded?,
    };
    let stolen_ns = steal_ns().zip(before_ns).map(|(after_ns, before_ns)| after_ns.saturating_sub(before_ns));
    let mut unseen = now.told.unseen;
    if now.is_cut {
        unseen.push("the recording was cut short: there was no more room for it in memory".to_owned());
    }
    Ok((now.opened, unseen, stolen_ns))
}

/// What the kernel has counted as stolen from all CPUs since the machine was started; none where it does not.
fn steal_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/stat").ok().and_then(|text| parse_steal_ns(&text))
}

/// The same of the text of /proc/stat, which counts hundredths of a second.
fn parse_steal_ns(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    line.split_ascii_whitespace().nth(7)?.parse::<u64>().ok()?.checked_mul(10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number() {
        assert_eq!(parse_steal_ns("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 9\n"), Some(80_000_000));
        assert_eq!(parse_steal_ns("cpu  1 2 3\n"), None);
        assert_eq!(parse_steal_ns("cpu0 1 2 3 4 5 6 7 8\n"), None);
    }
}
