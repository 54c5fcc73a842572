//! `evenkeel capacity`: how many sessions of a server fit on this machine.

mod compared;
mod log;
mod machine;
mod run;
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use evenkeel_change::State;
use evenkeel_fleet::capacity::{self, CapacityReport, Comparison, Ended, Limit, Search, Subject, Window};
use evenkeel_hostfs::Root;
use evenkeel_stats::Direction;
use serde::Serialize;

use self::compared::Compared;
use self::log::{Head, Log};
use self::run::{Run, Side};
use self::sessions::{About, Sessions};
use crate::args::{StateArgs, named_limit, number};
use crate::exit;
use crate::experiment::{self, stop_flag};
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::overdue;
use crate::report::{self, capacity::Shown};
use crate::session_files::TrialLock;
use crate::show::Out;
use crate::times;
use crate::workload_args::WorkloadArgs;
use crate::workload_settings;

/// The format of the log.
const LOG_FORMAT: u32 = 1;
/// The default limits of every session. A limit applies only if the workload has its metric.
const USUAL_LIMITS: [(&str, f64); 2] = [("tick_lateness_us_p99", 2000.0), ("missed_ticks_share", 0.001)];
/// The minimum number of ticks for a 99th percentile to be meaningful.
const EVENTS_MIN: f64 = 150.0;
const WINDOW_USUAL: Duration = Duration::from_secs(3);
const WINDOW_MAX: Duration = Duration::from_secs(15);

/// The end of `--help`.
const EXAMPLES: &str = "\
evenkeel starts session after session with its load, measures all of them at once, and finds the
highest number with which every session holds the limits in most windows. In your command line and
its load, {session} stands for the number of the session from 0, and {port} for its port. With
settings, it also finds the number with them, in alternate windows, and restores the host.
docs/capacity.md explains every option.

Examples:
  evenkeel capacity --limit tick_lateness_us_p99=1000 --budget 5m
  evenkeel capacity --observe ticks -- ./my-server --port {port}
  sudo evenkeel capacity --goal goal.json --price-per-hour 0.17";

/// Find how many sessions of your server fit on this machine
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "evenkeel capacity [OPTIONS] [KNOB=VALUE]... [-- <CMD>...]",
    after_help = EXAMPLES
)]
pub(crate) struct Args {
    /// A setting to compare with the machine as it is; several are compared together
    #[arg(value_name = "KNOB=VALUE", value_parser = crate::args::Completed(crate::args::settings), hide_possible_values = true)]
    settings: Vec<String>,
    /// Compare the settings of a goal file of `evenkeel tune`
    #[arg(long, value_name = "FILE", conflicts_with = "settings")]
    goal: Option<PathBuf>,
    /// A limit that every session must hold; repeatable [default: tick lateness p99 of 2 ms, 0.1 % of ticks missed]
    #[arg(long, value_name = "METRIC=N", value_parser = limit)]
    limit: Vec<(String, f64)>,
    /// The maximum number of sessions to try
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max: u32,
    /// Maximum time of the whole search
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = times::time)]
    budget: Duration,
    /// Length of a window [default: 3s, or 150 ticks]
    #[arg(long, value_name = "TIME", value_parser = times::window)]
    window: Option<Duration>,
    /// Time before a window after sessions began or ended, or settings changed
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = times::time)]
    settle: Duration,
    /// The port of the first session, for {port}
    #[arg(long, value_name = "PORT", default_value = "27100")]
    first_port: u16,
    /// The price of this machine per hour, in any currency: the answer then has the price of a session
    #[arg(long, value_name = "PRICE", value_parser = price)]
    price_per_hour: Option<f64>,
    /// Write the windows to FILE, so that --continue can continue with them
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Continue the search in the file of --log
    #[arg(long, requires = "log")]
    r#continue: bool,
    /// Write what a session needs to FILE, as CSV for `evenkeel instances`
    #[arg(long, value_name = "FILE")]
    save_need: Option<PathBuf>,
    /// Write report.html, with a chart of the curve, and report.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// The seed of the load
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// How many sessions fit.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    #[serde(flatten)]
    report: CapacityReport,
    /// The comparison with the settings; absent if no settings were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Comparison>,
    /// The seed of the load.
    seed: u64,
    /// The file with the windows; `null` without --log.
    log: Option<String>,
    /// The file of `--save-need`; `null` if evenkeel did not write it.
    need_file: Option<String>,
    /// The page of `--report`; absent without this option.
    #[serde(skip_serializing_if = "Option::is_none")]
    report_file: Option<String>,
}

impl Answer {
    fn shown(&self) -> Shown<'_> {
        let saved = self.need_file.iter().map(|file| ("saved", format!("{file}, for `evenkeel instances {file}`")));
        let page = self.report_file.iter().map(|file| ("report", file.clone()));
        Shown { report: &self.report, compared: self.compared.as_ref(), files: saved.chain(page).collect() }
    }
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if let Some(path) = &args.save_need {
        output_file::is_free(path, false)?;
    }
    args.log.as_deref().map_or(Ok(()), output_file::refuse_unwritable)?;
    args.report.as_deref().map_or(Ok(()), output_file::make_folder)?;
    let root = Root::live();
    let compared = Compared::read(&args.settings, args.goal.as_deref(), &root)?;
    if compared.is_some() {
        overdue::settle(&root, &args.state, out);
    }
    let stop = stop_flag()?;
    let _alone = TrialLock::take(&args.state)?;
    let _concurrent = experiment::announce(out, "capacity");
    let seed = args.seed.unwrap_or_else(experiment::fresh_seed);
    let state = compared.as_ref().map(|compared| compared.state(&root, &args.state)).transpose()?.flatten();
    let mut sessions = Sessions::new(&args.workload, args.first_port, seed, &stop);
    sessions.set(1).map_err(|failure| experiment::stopped_or(failure, &stop))?;
    let about = sessions.about().cloned();
    let about =
        about.ok_or_else(|| Failure::text(exit::NOT_POSSIBLE, "start a session", "its thread gave no answer"))?;
    let (limits, window) = (args.limits(&about)?, args.window(&about));
    let head = Head {
        format: LOG_FORMAT,
        workload: args.workload.line(),
        settings: compared.as_ref().map(Compared::texts).unwrap_or_default(),
        limits: limits.clone(),
        window_ms: window.as_millis() as u64,
        seed,
    };
    let (log, windows) = args.open_log(&head)?;
    let subject = Subject {
        workload: about.describe,
        limits: limits.clone(),
        window_ms: head.window_ms,
        machine: machine::machine()?,
        tick_hz: about.events_per_s,
        has_load: !args.workload.is_alone()?,
        price_per_hour: args.price_per_hour,
    };
    let sides = sides(args.max, compared.is_some(), windows, &limits);
    let (settle, notes) = (args.settle, Vec::new());
    let run = Run { out, stop: &stop, sessions, arms: None, sides, limits: &limits, window, settle, log, notes };
    let host = Host { root: &root, compared: compared.as_ref(), state };
    let (sides, notes) = args.search(host, run)?;
    let mut reports = sides.iter().map(|side| side_report(&subject, side, &notes));
    let report = reports.next().ok_or_else(|| Failure::text(exit::NOT_POSSIBLE, "report", "nothing was measured"))?;
    let compared = reports.next().map(|with| Comparison::new(head.settings, &report, with));
    args.answer(out, report, compared, seed)?;
    Ok(if stop.load(Ordering::Relaxed) { exit::STOPPED } else { exit::WELL })
}

/// The host, and the settings that the search switches on it; `None` if no settings are compared.
struct Host<'a> {
    root: &'a Root,
    compared: Option<&'a Compared>,
    /// The journal; `None` if the settings write no file of the host.
    state: Option<State>,
}

/// The sides of the comparison: without the settings and, if the user gave any, with them.
/// Both include the windows of an earlier run.
fn sides(sessions_max: u32, is_compared: bool, windows: Vec<Window>, limits: &[Limit]) -> Vec<Side> {
    let side =
        |with_settings| Side { with_settings, search: Search::new(sessions_max), windows: Vec::new(), ended: None };
    let mut sides: Vec<Side> = std::iter::once(false).chain(is_compared.then_some(true)).map(side).collect();
    for window in windows {
        if let Some(side) = sides.iter_mut().find(|side| side.with_settings == window.with_settings) {
            side.search.add(window.sessions, window.is_held(limits));
            side.windows.push(window);
        }
    }
    sides
}

fn side_report(subject: &Subject, side: &Side, notes: &[String]) -> CapacityReport {
    let ended = side.ended.clone().unwrap_or(Ended::Stopped);
    let mut report = capacity::report(subject.clone(), &side.search, &side.windows, ended);
    report.caveats.extend_from_slice(notes);
    report
}

impl Args {
    /// Runs the search, and restores the host. Returns the sides, and the notes that become caveats.
    fn search<'a>(&self, host: Host<'a>, mut run: Run<'a>) -> Result<(Vec<Side>, Vec<String>), Failure> {
        let Host { root, compared, mut state } = host;
        let writer = root.writer().map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
        let until = Instant::now() + self.budget;
        let Some(compared) = compared else {
            run.search(until)?;
            return Ok((run.sides, run.notes));
        };
        workload_settings::rehearse(&mut run.sessions, &compared.settings)?;
        experiment::explain_signals(run.out, &self.state);
        let mut run = Run { arms: Some(compared.switch(root, &writer, state.as_mut())?), ..run };
        let searched = run.search(until);
        let Run { sides, notes, arms, sessions, .. } = run;
        // Restore the host first, even after a failed search.
        arms.map_or(Ok(()), |arms| arms.end(&self.state))?;
        drop(sessions);
        searched.map(|()| (sides, notes))
    }

    fn answer(
        &self,
        out: &Out,
        report: CapacityReport,
        compared: Option<Comparison>,
        seed: u64,
    ) -> Result<(), Failure> {
        let need_file = self.save_need.as_ref().map(|path| save_need(path, &report)).transpose()?.flatten();
        let log = self.log.as_ref().map(|path| path.display().to_string());
        let report_file = self.report.as_ref().map(|folder| folder.join("report.html").display().to_string());
        let mut answer = Answer { report, compared, seed, log, need_file, report_file };
        let write = |folder: &PathBuf| report::capacity::write(folder, &answer, &answer.shown());
        let written = self.report.as_ref().map_or(Ok(()), write);
        if written.is_err() {
            answer.report_file = None;
        }
        // Print the measurement even if evenkeel could not write the page.
        out.answer(&answer, || report::capacity::text(&answer.shown()))?;
        written
    }

    fn limits(&self, about: &About) -> Result<Vec<Limit>, Failure> {
        let find = |name: &str, value: f64| {
            let metric = about.metrics.iter().find(|metric| metric.name == name)?;
            Some(Limit {
                metric: name.to_owned(),
                unit: metric.unit.to_string(),
                value,
                is_higher_better: metric.better == Direction::Higher,
            })
        };
        let known = || about.metrics.iter().map(|metric| metric.name.as_ref()).collect::<Vec<_>>().join(", ");
        if self.limit.is_empty() {
            let usual: Vec<Limit> = USUAL_LIMITS.iter().filter_map(|(name, value)| find(name, *value)).collect();
            return match usual.is_empty() {
                false => Ok(usual),
                true => {
                    Err(Failure::text(exit::WRONG_USE, "choose the limits", "this workload has no lateness of a tick")
                        .hint(format!("name a limit with --limit METRIC=N; its metrics: {}", known())))
                }
            };
        }
        let asked = self.limit.iter().map(|(name, value)| {
            find(name, *value).ok_or_else(|| {
                Failure::text(exit::WRONG_USE, format_args!("hold --limit {name}"), "this workload has no such metric")
                    .hint(format!("its metrics: {}", known()))
            })
        });
        asked.collect()
    }

    fn window(&self, about: &About) -> Duration {
        let ticks =
            about.events_per_s.filter(|hz| *hz > 0.0).map(|hz| Duration::from_secs_f64(EVENTS_MIN / hz.max(1.0)));
        self.window.unwrap_or_else(|| ticks.unwrap_or_default().clamp(WINDOW_USUAL, WINDOW_MAX))
    }

    fn open_log(&self, head: &Head) -> Result<(Option<Log>, Vec<Window>), Failure> {
        match &self.log {
            None => Ok((None, Vec::new())),
            Some(path) if self.r#continue => {
                Log::resume(path, head, self.max).map(|(log, windows)| (Some(log), windows))
            }
            Some(path) => Log::create(path, head).map(|log| (Some(log), Vec::new())),
        }
    }
}

/// Writes the need of a session as CSV for `evenkeel instances`, and returns the path.
/// Returns `None` if the need is unknown.
fn save_need(path: &Path, report: &CapacityReport) -> Result<Option<String>, Failure> {
    let Some(need) = &report.need else { return Ok(None) };
    let number = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
    // An idle session uses less than a ten-thousandth of a CPU, and 0 would mean that it needs no CPU.
    let cpus = if need.cpus < 0.01 { format!("{:.6}", need.cpus.max(1e-6)) } else { format!("{:.4}", need.cpus) };
    let row = format!("session,{cpus},{},{}\n", number(need.tick_hz), number(need.memory_mib));
    output_file::write(path, format!("session,cpus,tick_hz,memory_mib\n{row}").as_bytes())?;
    Ok(Some(path.display().to_string()))
}

fn limit(text: &str) -> Result<(String, f64), String> {
    named_limit(text, "tick_lateness_us_p99=2000")
}

fn price(text: &str) -> Result<f64, String> {
    number(text, f64::MIN_POSITIVE.., "expected a price above 0, such as 0.17")
}
