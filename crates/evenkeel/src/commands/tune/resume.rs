//! `evenkeel tune resume`: continues a search with its original options.

use std::path::{Path, PathBuf};

use evenkeel_host::Plan;
use evenkeel_trial::search::{LeftOut, LeftOutReason, Log};

use super::context::{OutArgs, SearchContext, not_possible};
use super::log_files::{Context, FOLDER, LOG, LeftOutWords, again};
use super::search::{Asked, Ready, run_search, start};
use crate::args::StateArgs;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::session_files::{self, LAST};
use crate::show::Out;
use crate::stored_workload::Stored;
use crate::workload_args::WorkloadArgs;
use crate::workload_settings;

/// Continue a search that was stopped or killed, or print a finished one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo evenkeel tune resume
  sudo evenkeel tune resume --out goal.json -- ./my-server --port 7777

A search that `evenkeel guide` began answers line by line. Options cannot change on resume: the log
contains the knobs, the design and the workload. Name the workload again only if FILE starts a
command and is not in evenkeel's own folder.")]
pub(super) struct Args {
    /// The log; logs of earlier searches are in the folder `searches` next to the journal
    #[arg(value_name = "FILE", default_value = LAST)]
    file: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    /// Write report.html and report.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
}

pub(super) fn run(args: &Args, out: &Out) -> Outcome {
    // The workload may start in another folder, where these paths would point to other files.
    let state = args.state.absolute()?;
    let named = Some(args.file.as_path()).filter(|file| *file != Path::new(LAST));
    let path = match named {
        Some(file) => session_files::absolute(file)?,
        None => state.path()?.join(LOG),
    };
    let report = args.report.as_deref().map(session_files::absolute).transpose()?;
    let resume = again(named, &args.state);
    let asked =
        Asked { title: "tune", out_args: &args.out, report: report.as_deref(), state: &state, path: &path, resume };
    run_search(asked, out, |search, _| go_on(search, &args.workload, &path))
}

/// Continues a search, or prints a finished one.
fn go_on(search: &SearchContext<'_>, asked: &WorkloadArgs, path: &Path) -> Result<Ready, Failure> {
    let SearchContext { state, out, facts, .. } = search;
    let (header, log) = Log::open(path)
        .map_err(|error| Failure::new(exit::WRONG_USE, error).hint("`evenkeel tune` begins a new search"))?;
    let bad = |error: serde_json::Error| Failure::text(exit::WRONG_USE, "read the search's log", error);
    let context: Context = serde_json::from_value(header.context).map_err(bad)?;
    let folder = state.path()?;
    let stored = Stored {
        arguments: Some(&context.workload.arguments),
        folder: context.folder.as_deref(),
        describes_itself: &context.workload.name,
        is_ours: path.file_name().is_some_and(|name| name == LOG) && session_files::is_in(path, &folder)
            || session_files::is_in(path, &folder.join(FOLDER)),
        again: search.resume.clone(),
    };
    stored.workload(asked)?;
    let mut plans = Vec::new();
    for candidate in &header.design.candidates {
        let parsed = candidate.settings.iter().map(|text| workload_settings::parse(text));
        let settings = parsed.collect::<Result<Vec<_>, _>>();
        let settings = settings.map_err(|error| Failure::text(exit::WRONG_USE, "read the search's log", error))?;
        plans.push(Plan::from_settings(facts, &settings).map_err(not_possible)?);
    }
    let workload = start(&context.workload, header.design.seed, &search.stop).map_err(not_possible)?;
    out.status(&format!("continuing after {} windows", log.entries().len()));
    let left_out = context
        .left_out
        .into_iter()
        .map(|LeftOutWords { knob, why }| LeftOut { knob, why: LeftOutReason::Logged(why) })
        .collect();
    Ok(Ready { design: header.design, plans, left_out, spec: context.workload, workload, log, guide: context.guide })
}
