//! The options of `watch` and `serve` that choose what to watch.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_hostfs::{Root, RootKind, Why};
use evenkeel_sys::Errno;
use evenkeel_watch::recorder::RecorderOptions;
use evenkeel_watch::{CollectorOptions, INTERVAL_MAX, INTERVAL_MIN, ServerOptions};

use crate::args::{HostArgs, MetadataArgs, StateArgs};
use crate::exit;
use crate::failure::Failure;
use crate::times;

/// What to watch.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// Time between samples, 100ms to 60s [default: 1s]
    #[arg(long, value_name = "TIME", default_value = "1s", hide_default_value = true, value_parser = interval)]
    interval: Duration,
    /// Watch this process too; repeatable
    #[arg(long = "pid", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pids: Vec<u32>,
    /// Watch processes of this name too; repeatable
    #[arg(long = "comm", value_name = "NAME")]
    comms: Vec<String>,
    /// Find no servers by their sockets
    #[arg(long)]
    no_find: bool,
    /// Limit of a late tick [default: period / 4]
    #[arg(long, value_name = "TIME", value_parser = times::time)]
    late: Option<Duration>,
    /// Keep the last 30 s, and write dumps to DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) dumps: Option<PathBuf>,
    /// Write a dump when a tick is later than this
    #[arg(long, value_name = "TIME", requires = "dumps", value_parser = times::time)]
    dump_over: Option<Duration>,
    /// Hold the newest N dumps [default: 20]
    #[arg(long, value_name = "N", default_value_t = 20, hide_default_value = true, requires = "dumps", value_parser = clap::value_parser!(u32).range(1..=1000))]
    dumps_max: u32,
    /// Measure missing time by CPU, and machine pauses
    #[arg(long)]
    gaps: bool,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    state: StateArgs,
}

impl WatchArgs {
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Opens the host.
    ///
    /// # Errors
    /// If the host can't be read, or does not run a process that the user named.
    pub(crate) fn open(&self) -> Result<Root, Failure> {
        let root = self.metadata.open(&self.host)?;
        if root.kind() != RootKind::Live && (self.gaps || self.dumps.is_some()) {
            return Err(Failure::wrong_use(
                "--gaps and --dumps measure the machine that evenkeel runs on: leave out --host and --root".to_owned(),
            ));
        }
        let is_live = root.kind() != RootKind::Captured;
        for pid in self.pids.iter().filter(|_| is_live) {
            if let Err(refusal) = root.text(&format!("/proc/{pid}/stat")) {
                let is_gone = refusal.why == Why::Errno(Errno::NOENT);
                let why = if is_gone { "there is no such process".to_owned() } else { refusal.to_string() };
                return Err(Failure::text(exit::WRONG_USE, format_args!("watch process {pid}"), why)
                    .hint("`pgrep -a NAME` shows the numbers of processes"));
            }
        }
        Ok(root)
    }

    /// # Errors
    /// If there is no folder for the journal.
    pub(crate) fn options(&self, root: &Root) -> Result<CollectorOptions, Failure> {
        // The journal of this machine does not describe another machine.
        let has_journal = root.kind() == RootKind::Live || self.state.state.is_some();
        let journal: Option<PathBuf> = has_journal.then(|| self.state.path()).transpose()?;
        Ok(CollectorOptions {
            interval: self.interval,
            late_after: self.late,
            servers: ServerOptions {
                pids: self.pids.clone(),
                names: self.comms.clone(),
                finds_servers: !self.no_find,
                telemetry_folders: None,
            },
            gaps: self.gaps,
            recorder: self.dumps.as_ref().map(|dir| RecorderOptions {
                dir: dir.clone(),
                over: self.dump_over,
                dumps_max: self.dumps_max as usize,
            }),
            journal,
            state_option: self.state.absolute()?.again(),
        })
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = times::time(text)?;
    match (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        true => Ok(interval),
        false => Err(format!("samples are {} to {} apart", times::option(INTERVAL_MIN), times::option(INTERVAL_MAX))),
    }
}
