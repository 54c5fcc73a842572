//! `evenkeel tune resume`: a search that was begun before continues as it was begun, and is kept where another one takes its place.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use evenkeel_host::Plan;
use evenkeel_trial::search::{Header, LeftOut, LeftOutReason, Log, WorkloadSpec, is_over};
use serde::{Deserialize, Serialize};

use super::{Asked, Ground, OutArgs, Ready, not_possible, run_search, start};
use crate::args::StateArgs;
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::session_files::{self, LAST};
use crate::show::Out;
use crate::stored_workload::Stored;
use crate::workload_args::WorkloadArgs;
use crate::workload_settings;

/// The search's log, beside the journal.
pub(super) const LOG: &str = "tune.jsonl";
/// The folder of searches that are not over and that another one took the place of, beside it.
const FOLDER: &str = "searches";

/// Continue a search that was stopped or killed, or report one that is over
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The log has the knobs, the design and the workload, and none of them can change. Name the workload
again only where FILE is not one that evenkeel keeps itself and would start a command.")]
pub(super) struct Args {
    /// The log; one that another search took the place of is in `searches` beside the journal
    #[arg(value_name = "FILE", default_value = LAST)]
    file: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// What the log has to tell beside the design, for whoever goes on with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Context {
    workload: WorkloadSpec,
    left_out: Vec<LeftOutWords>,
    /// The folder that the workload was started in; none where an older version began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct LeftOutWords {
    knob: String,
    why: String,
}

impl Context {
    /// That of a new search.
    pub(super) fn new(workload: WorkloadSpec, left_out: &[LeftOut]) -> Context {
        let words = |left: &LeftOut| LeftOutWords { knob: left.knob.clone(), why: left.why.to_string() };
        let folder = std::env::current_dir().ok().and_then(|folder| folder.to_str().map(str::to_owned));
        Context { workload, left_out: left_out.iter().map(words).collect(), folder }
    }
}

pub(super) fn run(args: &Args, out: &Out) -> Outcome {
    // The workload may have to be started in another folder, where these would be other files.
    let state = args.state.absolute()?;
    let named = Some(args.file.as_path()).filter(|file| *file != Path::new(LAST));
    let path = match named {
        Some(file) => session_files::absolute(file)?,
        None => state.path()?.join(LOG),
    };
    let asked = Asked { out_args: &args.out, state: &state, path: &path, resume: again(named, &args.state) };
    run_search(asked, out, |ground, _| go_on(ground, &args.workload, &path))
}

/// The command that continues a search, as it stands in a sentence.
pub(super) fn again(file: Option<&Path>, state: &StateArgs) -> String {
    let file = file.map_or_else(String::new, |file| format!(" {}", file.display()));
    format!("evenkeel tune resume{file}{}", state.again())
}

/// Continues a search, or tells it again where it is over.
fn go_on(ground: &Ground<'_>, asked: &WorkloadArgs, path: &Path) -> Result<Ready, Failure> {
    let Ground { state, out, facts, .. } = ground;
    let (header, log) = Log::open(path).map_err(|error| {
        Failure::new(exit::WRONG_USE, error).hint("`evenkeel tune` without `resume` begins a new search")
    })?;
    let bad = |error: serde_json::Error| Failure::text(exit::WRONG_USE, "read the search's log", error);
    let context: Context = serde_json::from_value(header.context).map_err(bad)?;
    let folder = state.path()?;
    let stored = Stored {
        arguments: Some(&context.workload.arguments),
        folder: context.folder.as_deref(),
        describes_itself: &context.workload.name,
        is_ours: path.file_name().is_some_and(|name| name == LOG) && session_files::is_in(path, &folder)
            || session_files::is_in(path, &folder.join(FOLDER)),
        again: ground.resume.clone(),
    };
    stored.workload(asked)?;
    let mut plans = Vec::new();
    for candidate in &header.design.candidates {
        let parsed = candidate.settings.iter().map(|text| workload_settings::parse(text));
        let settings = parsed.collect::<Result<Vec<_>, _>>();
        let settings = settings.map_err(|error| Failure::text(exit::WRONG_USE, "read the search's log", error))?;
        plans.push(Plan::of(facts, &settings).map_err(not_possible)?);
    }
    let workload = start(&context.workload, header.design.seed, &ground.stop).map_err(not_possible)?;
    out.say(&format!("going on after {} windows", log.entries().len()));
    let left_out = context
        .left_out
        .into_iter()
        .map(|LeftOutWords { knob, why }| LeftOut { knob, why: LeftOutReason::Logged(why) })
        .collect();
    Ok(Ready { design: header.design, plans, left_out, spec: context.workload, workload, log })
}

/// Why a search can't begin or go on, with what to do about the search that was cut off, where there is one.
pub(super) fn after_a_kill(failure: Failure, again: &str, path: &Path) -> Failure {
    match &failure.hint {
        Some(hint) if !is_done_with(path) => {
            let hint = format!("{hint}; `{again}` then continues the search that was cut off");
            failure.hint(hint)
        }
        _ => failure,
    }
}

/// Begins the log of a new search. One that was cut off before it was over is kept, and said to be.
pub(super) fn begin(ground: &Ground<'_>, path: &Path, header: &Header) -> Result<Log, Failure> {
    if !is_done_with(path) {
        let kept = keep(path)?;
        let again = again(Some(&kept), ground.state);
        ground.out.aside(&format!("the search before is not over, and kept: `{again}` continues it\n"));
    }
    Log::create(path, header).map_err(not_possible)
}

/// Whether nobody would miss a log: there is none, it has no windows, or its search is over. What can't be read may be missed.
fn is_done_with(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Ok(metadata) if metadata.len() == 0 => true,
        _ => {
            Log::open(path).is_ok_and(|(header, mut log)| log.entries().is_empty() || is_over(&header.design, &mut log))
        }
    }
}

/// Moves a log to those that are kept; its new path.
fn keep(path: &Path) -> Result<PathBuf, Failure> {
    let folder = path.with_file_name(FOLDER);
    let failed = |error: std::io::Error| {
        let tried = format!("keep the search before, {}, in {}", path.display(), folder.display());
        Failure::io(exit::NOT_POSSIBLE, tried, &error)
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    session_files::forget_old(&folder);
    let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let kept = folder.join(format!("{stamp}-{}.jsonl", std::process::id()));
    std::fs::rename(path, &kept).map_err(failed)?;
    Ok(kept)
}
