//! This machine during a trial over boots.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_host::Facts;
use evenkeel_hostfs::Root;
use evenkeel_sys::clock;
use evenkeel_trial::boots::{
    BootCounters, BootStatus, BootTransactions, BootWords, BootsDesign, BootsError, BootsState, Machine, Windows, read,
    write,
};
use evenkeel_trial::{ArmName, Measured, NetworkPath, Rules, Watch};
use evenkeel_workload::Workload;

use crate::arms::parse;
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::show::Out;
use crate::times;
use crate::workload_args::workload_of;

/// How long the load runs before the first window.
const WARM_UP: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How many more windows the trial may measure in place of dropped windows, for each requested window.
const SPARE: usize = 1;

/// The id of the machine's current boot.
pub(super) fn boot_id(root: &Root) -> Option<String> {
    let text = root.text("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// This machine, with the state of the trial.
pub(super) struct Live<'a> {
    root: &'a Root,
    hands: BootTransactions<'a>,
    file: PathBuf,
    workload: String,
    folder: String,
    stop: Arc<AtomicBool>,
    out: &'a Out,
}

impl<'a> Live<'a> {
    pub(super) fn new(
        root: &'a Root,
        hands: BootTransactions<'a>,
        file: &Path,
        state: &BootsState,
        stop: Arc<AtomicBool>,
        out: &'a Out,
    ) -> Live<'a> {
        let (workload, folder) = (state.workload.clone(), state.folder.clone());
        Live { root, hands, file: file.to_owned(), workload, folder, stop, out }
    }

    /// Whether the user stopped the trial, by a signal or by `prove boots cancel`.
    fn is_over(&self) -> bool {
        let is_cancelled = || read(&self.file).is_ok_and(|state| state.is_some_and(|state| state.ended.is_some()));
        self.stop.load(Ordering::Relaxed) || is_cancelled()
    }

    /// Waits for this time, or until `is_over` returns true. Returns whether the whole time has passed.
    fn rest(&self, time: Duration, is_over: impl Fn() -> bool) -> bool {
        let end_ns = clock::monotonic_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        while clock::monotonic_ns() < end_ns {
            if is_over() {
                return false;
            }
            std::thread::sleep(LOOK_EVERY.min(Duration::from_nanos(end_ns.saturating_sub(clock::monotonic_ns()))));
        }
        true
    }

    fn windows(&self, workload: &mut dyn Workload, design: &BootsDesign) -> Result<Option<Windows>, BootsError> {
        let plans = parse(&design.settings)
            .and_then(|settings| experiment::plans(&Facts::probe(self.root), &settings))
            .map_err(not_measured)?;
        // Announce this trial to other trials, and warn at once about trials that already run.
        let concurrent = experiment::announce(self.out, "prove boots");
        let watch = Watch::start(self.root, &plans).with_concurrent(&concurrent).of_workload(workload);
        let mut seen = Vec::new();
        let (window, rules) = (Duration::from_millis(design.window_ms), Rules::default());
        let (mut samples, mut dropped, mut settle) = (Vec::new(), 0, WARM_UP);
        while samples.len() < design.windows && dropped <= design.windows * SPARE {
            if self.is_over() {
                return Ok(None);
            }
            let Measured { sample, conditions, .. } = watch
                .measure(workload, settle, window)
                .map_err(|error| BootsError::NotMeasured { why: format!("failed to {error}") })?;
            let sample = sample.unwrap_or_default();
            settle = Duration::ZERO;
            concurrent.news().iter().for_each(|words| self.out.status(words));
            let has_number = sample.get(design.metric.name.as_ref()).is_some_and(|value| value.is_finite());
            if has_number && rules.judge(window, &conditions).is_none() {
                samples.push(sample);
                seen.push(conditions);
            } else {
                dropped += 1;
            }
        }
        if samples.len() * 2 < design.windows {
            let (left, of) = (samples.len(), design.windows);
            return Err(BootsError::NotMeasured {
                why: format!("{dropped} windows were dropped, so only {left} of {of} are left"),
            });
        }
        let network = NetworkPath::from_workload(workload);
        Ok(Some(Windows { samples, dropped, counted: Some(BootCounters::from_windows(network, &seen)) }))
    }
}

impl Machine for Live<'_> {
    fn status(&mut self) -> Result<BootStatus, BootsError> {
        let facts = Facts::probe(self.root);
        let is = experiment::identity(&facts);
        let line = self.root.text("/proc/cmdline").ok().map(|line| line.trim().to_owned());
        Ok(BootStatus {
            boot_id: boot_id(self.root).ok_or(BootsError::UnknownBoot)?,
            now_s: clock::realtime_ns() / 1_000_000_000,
            is_licensed: self.hands.is_licensed()?,
            machine: BootWords { kernel: is.kernel, processor: is.processor, cpus: is.cpus, command_line: line },
        })
    }

    fn keep(&mut self, state: &BootsState) -> Result<(), BootsError> {
        let ended = read(&self.file).ok().flatten().filter(|kept| kept.id == state.id).and_then(|kept| kept.ended);
        if ended.is_some() && state.ended.is_none() {
            return Err(BootsError::EndedMeanwhile);
        }
        Ok(write(&self.file, state)?)
    }

    fn reads_back(&mut self, arm: ArmName) -> Result<(), BootsError> {
        self.hands.reads_back(arm)
    }

    fn measure(&mut self, design: &BootsDesign) -> Result<Option<Windows>, BootsError> {
        self.out.status(&format!(
            "waiting {} for this boot to settle",
            times::words(Duration::from_millis(design.settle_ms))
        ));
        if !self.rest(Duration::from_millis(design.settle_ms), || self.is_over()) {
            return Ok(None);
        }
        std::env::set_current_dir(&self.folder)
            .map_err(|error| BootsError::NotMeasured { why: format!("enter the folder {}: {error}", self.folder) })?;
        let mut workload = workload_of(&self.workload)
            .and_then(|workload| workload.start(design.seed, &self.stop))
            .map_err(not_measured)?;
        self.out.status(&format!("measuring {} windows of {}", design.windows, workload.describe()));
        let measured = self.windows(workload.as_mut(), design);
        workload.stop();
        measured
    }

    fn arm(&mut self, arm: ArmName, anew: bool) -> Result<(), BootsError> {
        self.out.status(match arm {
            ArmName::A => "the next boot is A, the current configuration",
            _ => "the next boot is B, with the settings",
        });
        let rest = |time| self.rest(time, || self.is_over());
        self.hands.arm(arm, anew, &mut waiting(self.out, rest))
    }

    fn is_stopped(&mut self) -> bool {
        self.is_over()
    }

    fn put_back(&mut self) -> Result<(), BootsError> {
        // A cancelled trial also has to wait for the lock. Only a signal ends the wait.
        let rest = |time| self.rest(time, || self.stop.load(Ordering::Relaxed));
        self.hands.put_back(&mut waiting(self.out, rest))
    }
}

fn not_measured(failure: Failure) -> BootsError {
    BootsError::NotMeasured { why: failure.message() }
}

/// Returns a function that waits with `rest` while another evenkeel holds the lock.
/// The function prints the reason once.
pub(super) fn waiting(out: &Out, mut rest: impl FnMut(Duration) -> bool) -> impl FnMut(&str, Duration) -> bool {
    let mut is_announced = false;
    move |why, time| {
        if !is_announced {
            out.warn(&format!("failed to {why}; trying again for a while\n"));
        }
        is_announced = true;
        rest(time)
    }
}

/// Sleeps for the whole time, and returns true.
pub(super) fn sleep(time: Duration) -> bool {
    std::thread::sleep(time);
    true
}

/// Asks systemd for a reboot. The state is already on disk.
pub(super) fn reboot(out: &Out) -> Outcome {
    out.status("rebooting");
    let mut command = Command::new("systemctl");
    command.arg("reboot").stdin(Stdio::null()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    match command.status() {
        Ok(status) if status.success() => Ok(exit::WELL),
        Ok(status) => Err(Failure::text(exit::NOT_POSSIBLE, "reboot by systemctl", status).hint("reboot it yourself")),
        Err(error) => Err(Failure::io(exit::NOT_POSSIBLE, "reboot by systemctl", &error).hint("reboot it yourself")),
    }
}
