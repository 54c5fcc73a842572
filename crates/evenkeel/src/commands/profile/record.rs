//! `evenkeel profile record`.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use evenkeel_profile::live::{self, FileSink, LiveError, Status, Targets, Told, Wishes};
use evenkeel_sys::CpuSet;
use serde::Serialize;

use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome, exit_of};
use crate::show::Out;
use crate::show::blocks::{self, Block};

/// Record what runs, with its stacks, into a perf.data file
///
/// Of the whole machine, unless told otherwise. Hardware cycles are counted where the machine has counters, else the kernel's clock is used.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the recording to FILE, which `evenkeel profile view` and `perf report` open
    #[arg(long, short, value_name = "FILE", default_value = "perf.data")]
    output: PathBuf,
    /// Of these processes, their threads, and what they start
    #[arg(long, short, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_194_304), group = "whom")]
    pid: Vec<u32>,
    /// Of these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = cpus, group = "whom")]
    cpu: Option<CpuSet>,
    /// Of the control group in this folder, and those below it
    #[arg(long, value_name = "FOLDER", group = "whom")]
    group: Option<PathBuf>,
    /// Of the threads of this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cpu", "group"])]
    thread: Option<String>,
    /// Samples a second
    #[arg(long, value_name = "N", default_value_t = live::CLOCK_HZ, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hz: u32,
    /// How long to record [default: until it is interrupted]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
}

fn cpus(text: &str) -> Result<CpuSet, String> {
    CpuSet::parse_list(text).filter(|cpus| !cpus.is_empty()).ok_or_else(|| "no list of CPUs such as 0-3,8".to_owned())
}

impl Args {
    fn wishes(&self) -> Wishes {
        let targets = match (&self.thread, &self.cpu, &self.group) {
            (Some(name), ..) => Targets::Threads { name: name.clone(), pids: self.pid.clone() },
            (None, Some(cpus), _) => Targets::Cpus(cpus.clone()),
            (None, None, Some(group)) => Targets::Group(group.clone()),
            (None, None, None) if !self.pid.is_empty() => Targets::Processes(self.pid.clone()),
            (None, None, None) => Targets::Machine,
        };
        Wishes { targets, clock_hz: Some(self.hz), ..Wishes::default() }
    }
}

/// What was recorded, for `--json`.
#[derive(Debug, Serialize)]
struct Answer {
    /// The recording.
    file: PathBuf,
    /// What was counted: `cpu-clock`, `cycles`.
    event: Option<String>,
    /// How long it took, in nanoseconds.
    elapsed_ns: u64,
    samples: u64,
    switches: u64,
    lost: u64,
    throttled: u64,
    bytes: u64,
    unseen: Vec<String>,
}

impl Answer {
    fn of(file: &Path, told: Told) -> Answer {
        let Told { status, clock, unseen } = told;
        let Status { elapsed_ns, samples, switches, lost, throttled, bytes } = status;
        Answer { file: file.to_owned(), event: clock, elapsed_ns, samples, switches, lost, throttled, bytes, unseen }
    }

    fn page(&self) -> Vec<Block> {
        vec![Block::row("samples", self.samples.to_string()), Block::row("recording", self.file.display().to_string())]
    }
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let stop = experiment::stop_flag()?;
    let tried = || format!("write the recording {}", args.output.display());
    let not_written = |error: std::io::Error| Failure::io(exit::WRONG_USE, tried(), &error);
    let folder = args.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Whole or not at all.
    let file = tempfile::NamedTempFile::new_in(folder).map_err(not_written)?;
    let mut sink = FileSink::begin(BufWriter::new(file.as_file())).map_err(not_written)?;
    let limit_ns = args.seconds.map_or(u64::MAX, |seconds| seconds * 1_000_000_000);
    let mut until = |status: &Status| !stop.load(Ordering::Relaxed) && status.elapsed_ns < limit_ns;
    let told = live::record(&args.wishes(), &mut until, &mut sink).map_err(failure)?;
    drop(sink);
    file.persist(&args.output).map_err(|error| not_written(error.error))?;
    let answer = Answer::of(&args.output, told);
    out.answer(&answer, || blocks::text(&answer.page()))?;
    Ok(exit::WELL)
}

fn failure(error: LiveError) -> Failure {
    match &error {
        LiveError::Denied { mend, .. } => {
            let hint = mend.clone();
            Failure::new(exit::NOT_ALLOWED, error).hint(hint)
        }
        LiveError::NotThere { .. } | LiveError::WrongUse { .. } => Failure::new(exit::WRONG_USE, error),
        LiveError::Refused { errno, .. } | LiveError::Write(errno) => {
            Failure::new(exit_of(*errno, exit::NOT_POSSIBLE), error)
        }
    }
}
