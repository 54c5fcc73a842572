//! Reads many captures on all CPUs. Only as many captures are in memory as threads read them; of each host, only what is compared stays.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::ValueEnum;
use evenkeel_fleet::audit::{By, Hosts, Observed, Unread};
use evenkeel_host::{AdviceContext, Facts, advise};
use evenkeel_hostfs::{Capture, Root};

use crate::exit;
use crate::failure::Failure;

/// The most captures.
const CAPTURES_MAX: usize = 100_000;
/// The most threads that read captures, each of which may have 32 MiB.
const THREADS_MAX: usize = 64;
/// The captures that are read before their hosts are added in order, so that the answer does not depend on which thread was first.
const BATCH: usize = 256;

/// Which captures, and what makes a group.
#[derive(Debug, clap::Args)]
pub(crate) struct CaptureArgs {
    /// Captures, or folders with captures (*.txt)
    #[arg(value_name = "FILE|DIR", required = true)]
    captures: Vec<PathBuf>,
    /// A trait that hosts of a group share; repeatable [default: instance, kernel, cpu]
    #[arg(long, value_enum, value_name = "TRAIT")]
    by: Vec<ByTrait>,
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
        if by.is_empty() { vec![By::Instance, By::Kernel, By::Cpu] } else { by }
    }
}

/// The hosts that were read, and the files that are no captures.
pub(super) struct ReadHosts {
    pub(super) hosts: Hosts,
    pub(super) unread: Vec<Unread>,
}

/// Reads the captures. Fails if there is none.
pub(super) fn read(args: &CaptureArgs, context: &AdviceContext) -> Result<ReadHosts, Failure> {
    let mut read = ReadHosts { hosts: Hosts::default(), unread: Vec::new() };
    let files: Vec<PathBuf> = files(&args.captures, &mut read.unread)?.into_iter().collect();
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
    if read.hosts.is_empty() {
        let why = read
            .unread
            .first()
            .map_or_else(|| "there is no file *.txt".to_owned(), |one| format!("{}: {}", one.file, one.why));
        return Err(Failure::text(exit::NOT_POSSIBLE, "find a capture", why)
            .hint("`evenkeel capture --output FILE` takes a capture on the machine itself"));
    }
    Ok(read)
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

/// The files that are named, and the *.txt of the folders that are named.
fn files(named: &[PathBuf], unread: &mut Vec<Unread>) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut files = BTreeSet::new();
    for path in named {
        if !path.is_dir() {
            files.insert(path.clone());
        } else {
            match of_folder(path) {
                Ok(captures) => files.extend(captures),
                Err(error) => unread.push(Unread {
                    file: path.display().to_string(),
                    why: format!("failed to read the folder: {}", evenkeel_sys::Errno::from(&error)),
                }),
            }
        }
        if files.len() > CAPTURES_MAX {
            let why = format!("more than {CAPTURES_MAX} files");
            return Err(Failure::text(exit::WRONG_USE, "read the captures", why));
        }
    }
    Ok(files)
}

fn of_folder(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut captures = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            captures.push(path);
        }
        if captures.len() > CAPTURES_MAX {
            break;
        }
    }
    Ok(captures)
}
