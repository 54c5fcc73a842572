//! The log of a search next to the journal: its context, and its new path when another search begins.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use evenkeel_trial::search::{Header, LeftOut, Log, WorkloadSpec, is_over};
use serde::{Deserialize, Serialize};

use super::context::{SearchContext, not_possible};
use crate::args::StateArgs;
use crate::exit;
use crate::failure::Failure;
use crate::session_files;
use crate::show::guide::GuideLog;

/// The file name of the search's log, next to the journal.
pub(crate) const LOG: &str = "tune.jsonl";
/// The folder of unfinished earlier searches, next to the journal.
pub(crate) const FOLDER: &str = "searches";

/// The data that a resume needs besides the design.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct Context {
    pub(crate) workload: WorkloadSpec,
    pub(crate) left_out: Vec<LeftOutWords>,
    /// The folder in which the workload was started; `None` if an older version began the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<String>,
    /// The guide that the search settles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guide: Option<GuideLog>,
}

#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct LeftOutWords {
    pub(crate) knob: String,
    pub(crate) why: String,
}

impl Context {
    /// The head of a new search.
    pub(crate) fn new(workload: WorkloadSpec, left_out: &[LeftOut], guide: Option<GuideLog>) -> Context {
        let words = |left: &LeftOut| LeftOutWords { knob: left.knob.clone(), why: left.why.to_string() };
        let folder = std::env::current_dir().ok().and_then(|folder| folder.to_str().map(str::to_owned));
        Context { workload, left_out: left_out.iter().map(words).collect(), folder, guide }
    }
}

/// The command that continues a search, for use in a sentence.
pub(crate) fn again(file: Option<&Path>, state: &StateArgs) -> String {
    let file = file.map_or_else(String::new, |file| format!(" {}", file.display()));
    format!("evenkeel tune resume{file}{}", state.again())
}

/// Why a search can't begin or continue, with advice about the interrupted search, if any.
pub(crate) fn after_a_kill(failure: Failure, again: &str, path: &Path) -> Failure {
    match &failure.hint {
        Some(hint) if !is_done_with(path) => {
            let hint = format!("{hint}; `{again}` then continues the interrupted search");
            failure.hint(hint)
        }
        _ => failure,
    }
}

/// Begins the log of a new search. Keeps and reports the log of an interrupted search.
pub(crate) fn begin(search: &SearchContext<'_>, path: &Path, header: &Header) -> Result<Log, Failure> {
    if !is_done_with(path) {
        let kept = keep(path)?;
        let again = again(Some(&kept), search.state);
        search.out.warn(&format!("the previous search is not finished; `{again}` continues it\n"));
    }
    Log::create(path, header).map_err(not_possible)
}

/// Whether a log is no longer needed: it is missing or empty, or its search is finished.
/// An unreadable log may be needed.
fn is_done_with(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Ok(metadata) if metadata.len() == 0 => true,
        _ => {
            Log::open(path).is_ok_and(|(header, mut log)| log.entries().is_empty() || is_over(&header.design, &mut log))
        }
    }
}

/// Moves a log to the folder of previous searches. Returns its new path.
fn keep(path: &Path) -> Result<PathBuf, Failure> {
    let folder = path.with_file_name(FOLDER);
    let failed = |error: std::io::Error| {
        let tried = format!("move the previous search {} to {}", path.display(), folder.display());
        Failure::io(exit::NOT_POSSIBLE, tried, &error)
    };
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    session_files::forget_old(&folder);
    let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let kept = folder.join(format!("{stamp}-{}.jsonl", std::process::id()));
    std::fs::rename(path, &kept).map_err(failed)?;
    Ok(kept)
}
