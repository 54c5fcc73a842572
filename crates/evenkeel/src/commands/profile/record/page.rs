//! The progress and the page of `profile record`.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use evenkeel_measure::Unit;
use evenkeel_profile::live::{RecordSummary, Status};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::named::StoredNames;
use crate::progress::Telling;
use crate::show::Out;
use crate::show::units::{bytes, part, percent_to, quantity};
use crate::view::Block;

/// The time between two progress lines in a log.
const LINE_EVERY: Duration = Duration::from_secs(15);

/// Shows the progress of a recording.
pub(super) struct Meanwhile<'a> {
    out: &'a Out,
    bar: ProgressBar,
    telling: Telling,
    seconds: Option<u64>,
    last: Instant,
}

impl<'a> Meanwhile<'a> {
    pub(super) fn new(out: &'a Out, seconds: Option<u64>) -> Meanwhile<'a> {
        let telling = out.telling();
        let bar = if telling == Telling::Drawn { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Meanwhile { out, bar, telling, seconds, last: Instant::now() }
    }

    pub(super) fn show(&mut self, status: &Status) {
        // Four redraws per second cost little compared with the recording.
        if self.telling == Telling::Drawn {
            if self.last.elapsed() >= Duration::from_millis(250) {
                self.last = Instant::now();
                self.bar.set_message(self.words(status));
                self.bar.tick();
            }
        } else if self.telling == Telling::Lines && self.last.elapsed() >= LINE_EVERY {
            self.last = Instant::now();
            self.out.warn(&format!("{}\n", self.words(status)));
        }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn words(&self, status: &Status) -> String {
        let of =
            self.seconds.map_or_else(|| "(Ctrl-C ends the recording)".to_owned(), |seconds| format!("of {seconds} s"));
        let Status { elapsed_ns, samples, lost, .. } = status;
        let lost = if *lost > 0 { format!(", {lost} lost") } else { String::new() };
        format!("{:.0} s {of}: {samples} samples{lost}, {}", *elapsed_ns as f64 / 1e9, bytes(status.bytes))
    }
}

/// The answer.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    /// The file of the recording.
    file: PathBuf,
    /// The files of the windows that evenkeel wrote before the end.
    windows: Vec<PathBuf>,
    /// The event that triggers samples: `cycles` or `cpu-clock`.
    event: Option<String>,
    /// The requested samples a second.
    clock_hz: u32,
    /// How long the recording took, in nanoseconds.
    elapsed_ns: u64,
    /// The processes whose end stopped the recording; empty if something else stopped it.
    ended_with: Vec<u32>,
    /// Why the recording ended, as text; `None` if an exit code shows it.
    #[serde(skip)]
    ended_in_words: Option<String>,
    /// The number of samples of all events.
    samples: u64,
    /// The number of samples of each event.
    samples_of: BTreeMap<String, u64>,
    /// The number of recorded context switches.
    switches: u64,
    /// The number of records that were lost because of a full ring buffer.
    lost: u64,
    /// How often the kernel paused sampling.
    throttled: u64,
    /// The size of the records, in bytes.
    bytes: u64,
    /// The CPU time that this process used, in nanoseconds.
    cpu_ns: u64,
    /// How the command ended: its exit code, or 128 plus the number of the signal. Absent without a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    command_exit: Option<i32>,
    /// Data that evenkeel could not record, and why.
    unseen: Vec<String>,
    /// The function names that evenkeel found at the end; absent with --no-cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) names: Option<StoredNames>,
}

impl Answer {
    pub(super) fn new(
        file: PathBuf,
        clock_hz: u32,
        summary: RecordSummary,
        windows: Vec<PathBuf>,
        ended: Option<Option<ExitStatus>>,
    ) -> Answer {
        // If a command ended, its exit code already shows that.
        let ended_in_words = summary.ended_with().filter(|_| ended.is_none());
        let unseen = summary.unseen_of(&[]);
        let RecordSummary { status, ended_with, clock, events, .. } = summary;
        let Status { elapsed_ns, samples, switches, lost, throttled, bytes } = status;
        let code = |status: ExitStatus| status.code().or_else(|| Some(128 + status.signal()?));
        Answer {
            file,
            windows,
            event: clock,
            clock_hz,
            elapsed_ns,
            ended_with: if ended.is_none() { ended_with } else { Vec::new() },
            ended_in_words,
            samples,
            samples_of: events.into_iter().collect(),
            switches,
            lost,
            throttled,
            bytes,
            cpu_ns: evenkeel_sys::clock::process_cpu_ns(),
            command_exit: ended.flatten().and_then(code),
            unseen,
            names: None,
        }
    }

    pub(super) fn page(&self) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Recording")];
        let event = match self.event.as_deref() {
            Some("cpu-clock") => {
                "cpu-clock (the kernel's clock, because this machine has no hardware counters)".to_owned()
            }
            Some(event) => event.to_owned(),
            None => "none".to_owned(),
        };
        blocks.push(Block::row("sampled", format!("{event}, {} times a second", self.clock_hz)));
        blocks.push(Block::row("time", quantity(self.elapsed_ns, Unit::Ns)));
        blocks.extend(self.ended_in_words.iter().map(|who| Block::row("ended", format!("with {who}"))));
        let of = |(event, samples): (&String, &u64)| match self.samples_of.len() {
            1 => samples.to_string(),
            _ => format!("{samples} of {event}"),
        };
        blocks.push(Block::row("samples", self.samples_of.iter().map(of).collect::<Vec<_>>().join(", ")));
        if self.switches > 0 {
            blocks.push(Block::row("switches", self.switches.to_string()));
        }
        blocks.push(Block::row("lost", self.lost.to_string()));
        if let Some(code) = self.command_exit {
            blocks.push(Block::row("command", format!("exit code {code}")));
        }
        blocks.extend(self.windows.iter().map(|window| Block::row("window", window.display().to_string())));
        blocks.push(Block::row("recording", format!("{}, {}", self.file.display(), bytes(self.bytes))));
        let names = self.names.as_ref().map(StoredNames::words).filter(|words| !words.is_empty());
        blocks.extend(names.map(|words| Block::row("names", words)));
        blocks.extend(self.warnings());
        blocks.push(Block::Note(format!(
            "Recording used {} of CPU time, {} of one CPU.",
            quantity(self.cpu_ns, Unit::Ns),
            percent_to(2, part(self.cpu_ns, self.elapsed_ns))
        )));
        blocks.push(Block::Note(format!("Next: evenkeel profile view {}", self.file.display())));
        blocks
    }

    fn warnings(&self) -> Vec<Block> {
        let mut warnings: Vec<Block> =
            self.unseen.iter().map(|unseen| Block::Warning(format!("Not recorded: {unseen}."))).collect();
        if self.samples == 0 {
            warnings.push(Block::Warning("There are no samples: nothing that you selected ran.".to_owned()));
        }
        if self.lost > 0 {
            warnings.push(Block::Warning(format!(
                "{} records were lost, because they came faster than evenkeel could read them. Use a lower --hz, or record fewer threads.",
                self.lost
            )));
        }
        if self.throttled > 0 {
            warnings.push(Block::Warning(format!(
                "The kernel paused sampling {} times, because it took too much CPU time (kernel.perf_event_max_sample_rate).",
                self.throttled
            )));
        }
        warnings
    }
}
