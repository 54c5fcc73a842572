//! Reads many captures on all CPUs.
//! Each thread holds one capture in memory, and returns only the values for the comparison.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::ValueEnum;
use evenkeel_fleet::audit::{By, Hosts, Observed, Unread};
use evenkeel_host::{AdviceContext, Facts, advise};
use evenkeel_hostfs::{Capture, Root};

use super::files::Wanted;
use crate::args::GoalArgs;
use crate::failure::Failure;

const CAPTURES: Wanted = Wanted {
    noun: "capture",
    extension: "txt",
    made_by: "`evenkeel capture --output FILE` takes a capture on the machine itself",
    max: 100_000,
};
/// The maximum number of threads that read captures. A capture may have up to 32 MiB.
const THREADS_MAX: usize = 64;
/// The number of captures to read before adding their hosts.
/// Hosts are added in order, so the answer does not depend on the timing of the threads.
const BATCH: usize = 256;

/// The captures, the traits of a group, and the contents of the page.
#[derive(Debug, clap::Args)]
pub(crate) struct CaptureArgs {
    /// Captures, or folders with captures (*.txt)
    #[arg(value_name = "FILE|DIR", required = true)]
    captures: Vec<PathBuf>,
    /// A trait that hosts of a group share; repeatable [default: instance, kernel, cpu]
    #[arg(long, value_enum, value_name = "TRAIT")]
    by: Vec<ByTrait>,
    #[command(flatten)]
    goal: GoalArgs,
    /// Show everything on the page
    #[arg(long)]
    pub(super) all: bool,
    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    pub(super) md: bool,
}

/// A trait on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ByTrait {
    /// The instance type
    Instance,
    /// The first two numbers of the kernel's version
    Kernel,
    /// The model of the CPU
    Cpu,
    /// The cloud
    Cloud,
    /// All hosts are one group
    None,
}

impl CaptureArgs {
    /// The goal of the advice, and the user's information about the server.
    pub(super) fn context(&self) -> AdviceContext {
        self.goal.context()
    }

    /// The traits that make a group.
    pub(super) fn by(&self) -> Vec<By> {
        let mut by: Vec<By> = Vec::new();
        for one in self.by.iter().map(|one| match one {
            ByTrait::Instance => By::Instance,
            ByTrait::Kernel => By::Kernel,
            ByTrait::Cpu => By::Cpu,
            ByTrait::Cloud => By::Cloud,
            ByTrait::None => By::None,
        }) {
            if !by.contains(&one) {
                by.push(one);
            }
        }
        // `none` means one group of all hosts, so it has no effect together with another trait.
        if by.len() > 1 {
            by.retain(|one| *one != By::None);
        }
        if by.is_empty() { vec![By::Instance, By::Kernel, By::Cpu] } else { by }
    }
}

/// The hosts, and the files that are not captures.
pub(super) struct ReadHosts {
    pub(super) hosts: Hosts,
    pub(super) unread: Vec<Unread>,
}

/// Reads the captures.
///
/// # Errors
/// If no capture could be read.
pub(super) fn read(args: &CaptureArgs) -> Result<ReadHosts, Failure> {
    let context = &args.context();
    let mut read = ReadHosts { hosts: Hosts::default(), unread: Vec::new() };
    let files: Vec<PathBuf> = CAPTURES.files(&args.captures, &mut read.unread)?.into_iter().collect();
    for batch in files.chunks(BATCH) {
        for (file, observed) in batch.iter().zip(observe_all(batch, context)) {
            let file = file.display().to_string();
            let added = observed
                .and_then(|observed| read.hosts.add(file.clone(), &observed).map_err(|error| error.to_string()));
            if let Err(why) = added {
                read.unread.push(Unread { file, why });
            }
        }
    }
    if read.hosts.is_empty() { Err(CAPTURES.none(&args.captures, &read.unread)) } else { Ok(read) }
}

/// The hosts of these files, in their order.
fn observe_all(files: &[PathBuf], context: &AdviceContext) -> Vec<Result<Observed, String>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX).min(files.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut own = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(at) else { return own };
            own.push((at, observe(file, context)));
        }
    };
    let mut observed = thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for worker in workers {
            match worker.join() {
                Ok(own) => all.extend(own),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    observed.sort_by_key(|(at, _)| *at);
    observed.into_iter().map(|(_, observed)| observed).collect()
}

fn observe(file: &Path, context: &AdviceContext) -> Result<Observed, String> {
    let capture = Capture::load(file).map_err(|error| format!("failed to {error}"))?;
    let facts = Facts::probe(&Root::captured(capture).unrecorded());
    Ok(Observed::new(&facts, &advise(&facts, context)))
}
