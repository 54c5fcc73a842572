//! `evenkeel capacity`: how many sessions of a server fit on this machine.

mod log;
mod machine;
mod sessions;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_fleet::capacity::{self, CapacityReport, Ended, Limit, Search, Subject, Window};
use evenkeel_stats::Direction;
use evenkeel_workload::{Sample, WorkloadError};
use serde::Serialize;

use self::log::{Head, Log};
use self::machine::Counters;
use self::sessions::{About, Sessions, Times};
use crate::args::{StateArgs, named_limit};
use crate::exit;
use crate::experiment::{self, stop_flag};
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::session_files::TrialLock;
use crate::show::{self, Out};
use crate::times;
use crate::workload_args::WorkloadArgs;

/// The format of the log.
const LOG_FORMAT: u32 = 1;
/// What every session has to hold if nobody says so, where the workload has these metrics.
const USUAL_LIMITS: [(&str, f64); 2] = [("tick_lateness_us_p99", 2000.0), ("missed_ticks_share", 0.001)];
/// Before a window: after sessions began or ended, and otherwise.
const SETTLE_AFTER_CHANGE: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_millis(100);
/// The fewest ticks of a 99th percentile.
const EVENTS_MIN: f64 = 150.0;
const WINDOW_USUAL: Duration = Duration::from_secs(3);
const WINDOW_MAX: Duration = Duration::from_secs(15);

/// Find how many sessions of your server fit on this machine
///
/// Starts session after session with its load, measures all of them at once, and finds the most with which every session holds the limits
/// in most windows. Ends when the number is proven in both directions, or when the budget is used up, and then ends all sessions. In your
/// command line and its load, {session} stands for the number of the session from 0, and {port} for its port. Nothing on the host is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel capacity --set tick-hz=30 --set work-us=2000
  evenkeel capacity --limit tick_lateness_us_p99=1000 --budget 5m
  evenkeel capacity --observe ticks -- ./my-server --port {port}
  evenkeel capacity --save-need sessions.csv && evenkeel instances sessions.csv")]
pub(crate) struct Args {
    /// A limit that every session has to hold; repeatable [default: tick lateness p99 of 2 ms, 0.1 % of ticks missed]
    #[arg(long, value_name = "METRIC=N", value_parser = limit)]
    limit: Vec<(String, f64)>,
    /// The most sessions to try
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max: u32,
    /// The longest time for all
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = times::time)]
    budget: Duration,
    /// Length of a window [default: 3s, or 150 ticks]
    #[arg(long, value_name = "TIME", value_parser = times::window)]
    window: Option<Duration>,
    /// The port of the first session, for {port}
    #[arg(long, value_name = "PORT", default_value = "27100")]
    first_port: u16,
    /// Keep the windows in FILE, so that --continue can go on with them
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Go on with the search in the file of --log
    #[arg(long, requires = "log")]
    r#continue: bool,
    /// Write what a session takes to FILE, as CSV for `evenkeel instances`
    #[arg(long, value_name = "FILE")]
    save_need: Option<PathBuf>,
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
    /// The seed of the load.
    seed: u64,
    /// The log of the windows, if one was kept.
    log: Option<String>,
    /// The file of `--save-need`, if it was written.
    need_file: Option<String>,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if let Some(path) = &args.save_need {
        output_file::is_free(path, false)?;
    }
    let stop = stop_flag()?;
    let _alone = TrialLock::take(&args.state)?;
    let _concurrent = experiment::announce(out, "capacity");
    let seed = args.seed.unwrap_or_else(experiment::fresh_seed);
    let mut sessions = Sessions::new(&args.workload, args.first_port, seed, &stop);
    sessions.set(1).map_err(|failure| experiment::stopped_or(failure, &stop))?;
    let about = sessions.about().cloned();
    let about =
        about.ok_or_else(|| Failure::text(exit::NOT_POSSIBLE, "start a session", "its thread gave no answer"))?;
    let limits = args.limits(&about)?;
    let window = args.window(&about);
    let head = Head {
        format: LOG_FORMAT,
        workload: args.workload.line(),
        limits: limits.clone(),
        window_ms: window.as_millis() as u64,
        seed,
    };
    let (log, windows) = args.open_log(&head)?;
    let machine = machine::machine()?;
    let mut run = Run { out, stop: &stop, sessions, limits: &limits, window, log, windows, failed: None };
    let mut search = Search::new(args.max);
    run.windows.iter().for_each(|window| search.add(window.sessions, window.is_held(&limits)));
    let ended = run.search(&mut search, Instant::now() + args.budget)?;
    let (windows, failed) = (run.windows, run.failed);
    drop(run.sessions);
    let subject = Subject {
        workload: about.describe,
        limits,
        window_ms: head.window_ms,
        machine,
        tick_hz: about.events_per_s,
        has_load: !args.workload.is_alone()?,
    };
    let mut report = capacity::report(subject, &search, &windows, ended);
    report.caveats.extend(failed.map(|why| format!("a session failed in a window, which counts as broken: {why}")));
    let need_file = args.save_need.as_ref().map(|path| save_need(path, &report)).transpose()?.flatten();
    let log = args.log.as_ref().map(|path| path.display().to_string());
    let answer = Answer { report, seed, log, need_file };
    out.answer(&answer, || show::capacity::page(&answer.report, answer.need_file.as_deref()))?;
    Ok(if stop.load(Ordering::Relaxed) { exit::STOPPED } else { exit::WELL })
}

impl Args {
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

/// A search under way.
struct Run<'a> {
    out: &'a Out,
    stop: &'a Arc<AtomicBool>,
    sessions: Sessions<'a>,
    limits: &'a [Limit],
    window: Duration,
    log: Option<Log>,
    windows: Vec<Window>,
    /// The last error of a session.
    failed: Option<String>,
}

impl Run<'_> {
    fn search(&mut self, search: &mut Search, until: Instant) -> Result<Ended, Failure> {
        while let Some(wanted) = search.next() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            if Instant::now() >= until {
                return Ok(Ended::Budget);
            }
            let changed = self.sessions.count() != wanted;
            if let Err(failure) = self.sessions.set(wanted) {
                let session = self.sessions.count() + 1;
                return match (self.stop.load(Ordering::Relaxed), session) {
                    (true, _) => Ok(Ended::Stopped),
                    (false, 1) => Err(failure),
                    (false, session) => Ok(Ended::NoStart { session, why: failure.message() }),
                };
            }
            let settle = if changed { SETTLE_AFTER_CHANGE } else { SETTLE };
            let Some(window) = self.measure(wanted, settle)? else { return Ok(Ended::Stopped) };
            search.add(wanted, window.is_held(self.limits));
            self.show(&window, search);
            if let Some(log) = &mut self.log {
                log.add(&window)?;
            }
            self.windows.push(window);
        }
        Ok(Ended::Proven)
    }

    /// A window of all sessions; none if the user stopped it.
    fn measure(&mut self, sessions: u32, settle: Duration) -> Result<Option<Window>, Failure> {
        let before = Counters::read()?;
        let samples = self.sessions.window(Times { settle, window: self.window });
        let machine = Counters::read()?.since(&before);
        let samples = match samples {
            Ok(samples) => samples,
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(None),
            Err(error) if sessions == 1 => return Err(of_workload(error)),
            Err(error) => {
                self.failed = Some(error.to_string());
                Vec::new()
            }
        };
        let worst = self.limits.iter().map(|limit| worst(limit, &samples)).collect();
        let cpus: Option<Vec<f64>> = samples.iter().map(|sample| sample.get("cpu_share").copied()).collect();
        let session_cpus =
            cpus.filter(|cpus| !cpus.is_empty()).map(|cpus| cpus.iter().sum::<f64>() / cpus.len() as f64);
        Ok(Some(Window { sessions, worst, session_cpus, machine }))
    }

    fn show(&self, window: &Window, search: &Search) {
        if !self.out.is_json() {
            self.out.warn(&show::capacity::progress(window, self.limits, search));
        }
    }
}

fn of_workload(error: WorkloadError) -> Failure {
    Failure::new(exit::NOT_POSSIBLE, error)
}

/// The worst session's value; none if one has none.
fn worst(limit: &Limit, samples: &[Sample]) -> Option<f64> {
    let values: Option<Vec<f64>> = samples.iter().map(|sample| sample.get(&limit.metric).copied()).collect();
    values?.into_iter().reduce(|a, b| limit.worse(a, b))
}

/// Writes what a session takes; none if that is not known.
fn save_need(path: &std::path::Path, report: &CapacityReport) -> Result<Option<String>, Failure> {
    let Some(need) = &report.need else { return Ok(None) };
    let number = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
    let row = format!("session,{:.4},{},{}\n", need.cpus, number(need.tick_hz), number(need.memory_mib));
    output_file::write(path, format!("session,cpus,tick_hz,memory_mib\n{row}").as_bytes())?;
    Ok(Some(path.display().to_string()))
}

fn limit(text: &str) -> Result<(String, f64), String> {
    named_limit(text, "tick_lateness_us_p99=2000")
}
