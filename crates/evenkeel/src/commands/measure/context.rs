//! `Context`: the parts that every meter's command needs:
//! a flag that a signal sets, progress on the terminal, and the output of the answer.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_hostfs::Root;
use evenkeel_hostfs::proc::{CpuTicks, TICK_NS, parse_stat};
use evenkeel_measure::{MeterError, Unit, Watch};
use evenkeel_sys::clock;
use indicatif::{ProgressBar, ProgressStyle};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome, exit_of};
use crate::output_file::{self, refuse_unwritable};
use crate::show::units::{percent, quantity};
use crate::show::{Out, escape, json};
use crate::view::{Block, Text, html, terminal};

/// The number of steps of the progress bar. No terminal has as many columns.
const STEPS: u64 = 1000;

/// The values that a meter needs while it runs.
pub(crate) struct Context<'a> {
    out: &'a Out,
    report: Option<&'a Path>,
    stop: Arc<AtomicBool>,
    observer: Cell<Option<Observer>>,
    others: Cell<Option<f64>>,
}

/// The CPU time that the measurement itself used.
#[derive(Clone, Copy, Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Observer {
    /// The duration of the measurement, in nanoseconds.
    wall_ns: u64,
    /// The CPU time of all threads of the measurement, in nanoseconds.
    cpu_ns: u64,
    /// The CPU time divided by the duration: 1 is one whole CPU.
    cpu_share: f64,
}

/// An answer, with the CPU time that its measurement used.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Observed<'a, T> {
    #[serde(flatten)]
    answer: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    observer: Option<Observer>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(out: &'a Out, report: Option<&'a Path>, host: Option<&Path>) -> Result<Context<'a>, Failure> {
        if let Some(host) = host {
            let why = "time does not pass in a captured machine; run it on the machine itself";
            return Err(Failure::text(exit::NOT_POSSIBLE, format!("measure {}", host.display()), why));
        }
        // Refuse the file before the measurement, which may take minutes.
        report.map_or(Ok(()), refuse_another)?;
        Ok(Context { out, report, stop: experiment::stop_flag()?, observer: Cell::new(None), others: Cell::new(None) })
    }

    /// Runs a measurement, and shows its progress on a terminal.
    pub(crate) fn measure<T>(&self, run: impl FnOnce(&Watch<'_>) -> Result<T, MeterError>) -> Result<T, Failure> {
        let bar = if self.out.shows_progress() { ProgressBar::new(STEPS) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        let report = |share: f64, doing: &str| {
            bar.set_position((share * STEPS as f64) as u64);
            bar.set_message(doing.to_owned());
        };
        let (start_ns, start_cpu_ns) = (clock::monotonic_ns(), clock::process_cpu_ns());
        let before = cpu_ticks();
        let measured = run(&Watch::new(&self.stop, &report));
        let after = cpu_ticks();
        let (wall_ns, cpu_ns) = (clock::monotonic_ns() - start_ns, clock::process_cpu_ns() - start_cpu_ns);
        let cpu_share = cpu_ns as f64 / wall_ns.max(1) as f64;
        self.observer.set(Some(Observer { wall_ns, cpu_ns, cpu_share }));
        self.others.set(before.zip(after).and_then(|(before, after)| others_share(&before, &after, cpu_ns)));
        bar.finish_and_clear();
        measured.map_err(failure)
    }

    /// The share of the machine's CPU time that other programs used during the measurement;
    /// `None` if the kernel does not report it.
    pub(crate) fn others(&self) -> Option<f64> {
        self.others.get()
    }

    /// Prints the answer as JSON or as a page, and writes the HTML page if requested.
    pub(crate) fn answer<T: Serialize + JsonSchema>(
        &self,
        title: &str,
        answer: &T,
        page: impl Fn(&T) -> Vec<Block>,
    ) -> Outcome {
        self.answer_in(json::FORMAT, title, answer, page)
    }

    /// Like [`Context::answer`], with a given format number of the JSON.
    pub(crate) fn answer_in<T: Serialize + JsonSchema>(
        &self,
        format: u32,
        title: &str,
        answer: &T,
        page: impl Fn(&T) -> Vec<Block>,
    ) -> Outcome {
        let observer = self.observer.get();
        let page = || -> Vec<Block> { page(answer).into_iter().chain(observer.map(Observer::block)).collect() };
        // Print the measurement even if the page can't be written.
        let written = self.report.map_or(Ok(()), |file| {
            let html = html::page(title, &Text::default(), &page());
            std::fs::write(file, escape::page(&html)).map_err(|error| output_file::failure(file, &error))
        });
        self.out.answer_in(format, &Observed { answer, observer }, || terminal::text(&page()))?;
        written?;
        Ok(if self.stop.load(Ordering::Relaxed) { exit::STOPPED } else { exit::WELL })
    }
}

/// Refuses a file that can't be written, and an existing file that is not a page of an earlier measurement.
fn refuse_another(file: &Path) -> Result<(), Failure> {
    refuse_unwritable(file)?;
    let mut head = [0; PAGE_HEAD.len()];
    let is_regular = std::fs::metadata(file).is_ok_and(|there| there.is_file() && there.len() > 0);
    let mut is_page = || File::open(file).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *PAGE_HEAD;
    if !is_regular || is_page() {
        return Ok(());
    }
    let tried = format!("write {}", file.display());
    Err(Failure::text(exit::WRONG_USE, tried, "it exists already, and is not a page").hint("choose another name"))
}

/// The beginning of every page.
const PAGE_HEAD: &[u8] = b"<!DOCTYPE html>";

type Ticks = BTreeMap<usize, CpuTicks>;

fn cpu_ticks() -> Option<Ticks> {
    Root::live().text("/proc/stat").ok().and_then(|text| parse_stat(&text)).map(|stat| stat.cpus)
}

fn others_share(before: &Ticks, after: &Ticks, own_ns: u64) -> Option<f64> {
    let passed = after.iter().filter_map(|(cpu, after)| Some(after.since(before.get(cpu)?)));
    let (all, used) = passed.fold((0, 0), |(all, used), passed| (all + passed.total(), used + passed.busy()));
    (all > 0).then(|| (used * TICK_NS).saturating_sub(own_ns) as f64 / (all * TICK_NS) as f64)
}

impl Observer {
    fn block(self) -> Block {
        let Observer { wall_ns, cpu_ns, cpu_share } = self;
        let (cpu, wall) = (quantity(cpu_ns, Unit::Ns), quantity(wall_ns, Unit::Ns));
        Block::Note(format!("Measuring took {cpu} of CPU time in {wall}: {} of one CPU.", percent(cpu_share)))
    }
}

/// Converts a meter's error to a failure with its exit code.
pub(crate) fn failure(error: MeterError) -> Failure {
    match &error {
        MeterError::Refused { errno, .. } if errno.is_denial() => {
            Failure::new(exit_of(*errno, exit::NOT_POSSIBLE), error).hint("run it as root (sudo)")
        }
        MeterError::Refused { .. } | MeterError::NotPossible { .. } => Failure::new(exit::NOT_POSSIBLE, error),
        MeterError::WrongUse { .. } => Failure::new(exit::WRONG_USE, error),
        MeterError::NotUndone { .. } => Failure::new(exit::NOT_UNDONE, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_used_is_neither_ours_nor_idle_nor_stolen() {
        let cpu = |user, idle, steal| CpuTicks { user, idle, steal, ..CpuTicks::default() };
        let before = Ticks::from([(0, cpu(5, 5, 5)), (1, cpu(0, 0, 0))]);
        // CPU 2 came online during the measurement, at an unknown time.
        let after = Ticks::from([(0, cpu(55, 35, 25)), (1, cpu(20, 80, 0)), (2, cpu(900, 0, 0))]);
        assert_eq!(others_share(&before, &after, 300_000_000), Some(0.2));
        assert_eq!(others_share(&before, &after, 9_000_000_000), Some(0.0));
        assert_eq!(others_share(&before, &before, 0), None);
    }
}
