//! `evenkeel profile imbalance`.

use std::path::PathBuf;

use evenkeel_profile::imbalance::{Imbalance, imbalance};
use evenkeel_profile::live::{Switches, Wishes};
use evenkeel_profile::symbols::Doubts;
use evenkeel_sys::thread;
use serde::Serialize;

use super::{input, now};
use crate::exit;
use crate::failure::Outcome;
use crate::show::{Out, blocks, profile};

/// Which CPU was full, by which threads and functions, beside those that idled
///
/// Of a recording of whole CPUs, or of what runs now. With every switch in it busy shares are exact; from samples alone they have an error, which is
/// told. What a hypervisor took is counted to the thread that had the CPU: `evenkeel measure gaps` tells that apart.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recording: a perf.data file [default: record now]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// How long to record, in seconds
    #[arg(long, value_name = "S", default_value_t = 10, conflicts_with = "file", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
}

#[derive(Serialize)]
struct Answer<'a> {
    verdict: String,
    #[serde(flatten)]
    imbalance: &'a Imbalance,
    /// What could not be recorded, a sentence each.
    unseen: Vec<String>,
    /// What has no name, why, and what would give it one.
    names: &'a Doubts,
}

/// Where a thread may run, as far as anybody knows.
type MayRunOn = fn(u32) -> Option<Vec<u32>>;

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let (opened, unseen, may_run_on): (_, _, MayRunOn) = match &args.file {
        // Threads of a recording may have ended, and their numbers may be others' by now.
        Some(file) => {
            let opened = input::open(file)?;
            opened.warn(file, out);
            (opened, Vec::new(), |_| None)
        }
        None => {
            let now = now::record(&Wishes { switches: Switches::Records, ..Wishes::default() }, args.seconds)?;
            let mut unseen = now.told.unseen_of(&[]);
            if now.is_cut {
                unseen.push("the recording was cut short: there was no more room for it in memory".to_owned());
            }
            (now.opened, unseen, may_run_on)
        }
    };
    let seen = imbalance(&opened.recording, &opened.names, &may_run_on);
    let answer =
        Answer { verdict: profile::imbalance::verdict(&seen), imbalance: &seen, unseen, names: &opened.doubts };
    out.answer(&answer, || blocks::text(&profile::imbalance::blocks(&seen, &answer.unseen, &opened.doubts)))?;
    Ok(exit::WELL)
}

/// None of a thread that has ended.
fn may_run_on(tid: u32) -> Option<Vec<u32>> {
    let cpus = thread::affinity_of(tid).ok()?;
    cpus.iter().map(|cpu| u32::try_from(cpu).ok()).collect()
}
