//! `evenkeel profile imbalance`.

use std::path::PathBuf;

use evenkeel_profile::imbalance::{Imbalance, imbalance};
use evenkeel_profile::live::{RecordConfig, Switches};
use evenkeel_profile::symbols::NameCoverage;
use evenkeel_sys::thread;
use serde::Serialize;

use super::{input, now};
use crate::exit;
use crate::failure::Outcome;
use crate::show::{Out, profile};
use crate::view::terminal;

/// Show which CPU was full while others idled, and with which threads and functions
///
/// Reads a recording of whole CPUs, or records now.
/// Busy shares are exact if the recording has switches; from samples alone, they have an error, which the page shows.
/// Time that the hypervisor took counts for the thread that had the CPU. `evenkeel measure gaps` separates this time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel profile imbalance --seconds 30
  evenkeel profile imbalance perf.data")]
pub(crate) struct Args {
    /// A recording: a perf.data file [default: record now]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How long to record, such as 10 or 2m
    #[arg(long, value_name = "TIME", default_value_t = 10, conflicts_with = "file", value_parser = crate::times::whole_seconds(1..=3600))]
    seconds: u64,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer<'a> {
    verdict: String,
    #[serde(flatten)]
    imbalance: &'a Imbalance,
    /// Data that evenkeel could not record, and why.
    unseen: Vec<String>,
    /// Code without names, with the reason and a remedy.
    names: &'a NameCoverage,
}

/// Returns the CPUs on which a thread may run; `None` if they are unknown.
type MayRunOn = fn(u32) -> Option<Vec<u32>>;

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let (opened, unseen, may_run_on): (_, _, MayRunOn) = match &args.file {
        // The threads of a recording from a file may have ended, and other threads may now have their thread ids.
        Some(file) => {
            let opened = input::open(file)?;
            opened.warn(file, out);
            (opened, Vec::new(), |_| None)
        }
        None => {
            let now =
                now::record(&RecordConfig { switches: Switches::Records, ..RecordConfig::default() }, args.seconds)?;
            let mut unseen = now.summary.unseen_of(&[]);
            if now.is_cut {
                unseen.push("the end of the recording: its memory (512 MiB) was full".to_owned());
            }
            (now.opened, unseen, may_run_on)
        }
    };
    let seen = imbalance(&opened.recording, &opened.names, &may_run_on);
    let answer =
        Answer { verdict: profile::imbalance::verdict(&seen), imbalance: &seen, unseen, names: &opened.coverage };
    out.answer(&answer, || terminal::text(&profile::imbalance::blocks(&seen, &answer.unseen, &opened.coverage)))?;
    Ok(exit::WELL)
}

/// The CPUs on which a thread may run; `None` if the thread has ended.
fn may_run_on(tid: u32) -> Option<Vec<u32>> {
    let cpus = thread::affinity_of(tid).ok()?;
    cpus.iter().map(|cpu| u32::try_from(cpu).ok()).collect()
}
