//! `evenkeel prove resume`: continues a stored session with its own design.

use std::path::{Path, PathBuf};

use evenkeel_host::Facts;
use evenkeel_hostfs::Root;

use super::trial::{Begins, Session};
use crate::args::StateArgs;
use crate::arms::Arms;
use crate::experiment;
use crate::failure::Outcome;
use crate::needs::Needs;
use crate::overdue;
use crate::session_files::{self, LAST, TrialLock};
use crate::show::Out;
use crate::stored_workload::Stored;
use crate::workload_args::WorkloadArgs;

/// Continue a trial that was stopped or killed
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel prove resume
  evenkeel prove resume --report report -- ./my-server --port 7777

Options cannot change on resume: the session contains the settings, the design and the workload.
Name the workload again only if an older version began the session, or if FILE starts a command and
is not in evenkeel's own folder.")]
pub(crate) struct Args {
    /// The file of the session
    #[arg(value_name = "FILE", default_value = LAST)]
    file: PathBuf,
    /// Write report.html and report.json into DIR [default: the folder given at the start]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = Root::live();
    overdue::settle(&root, &args.state, out);
    let facts = Facts::probe(&root);
    // The workload may change the current folder, so make these paths absolute first.
    let state = args.state.absolute()?;
    let asked_report = args.report.as_deref().map(session_files::absolute).transpose()?;
    let _alone = TrialLock::take(&state)?;
    let (file, kept) = session_files::read(&state, &args.file)?;
    let file = session_files::absolute(&file)?;
    let is_ours = session_files::is_ours(&file, &state)?;
    let arms = Arms::of_head(&kept.head)?;
    let needs = Needs::from_settings(&facts, &arms.settings)?;
    needs.refuse_without_root("prove", &arms.settings)?;
    let asked = kept.head.asked.as_ref();
    let stored = Stored {
        arguments: asked.map(|asked| asked.workload.as_str()),
        folder: asked.and_then(|asked| asked.folder.as_deref()),
        describes_itself: &kept.head.titles.workload,
        is_ours,
        again: again(args),
    };
    let workload = stored.workload(&args.workload)?;
    let kept_report = asked.filter(|_| is_ours).and_then(|asked| asked.report.as_deref()).map(Path::new);
    let session = Session {
        out,
        root: &root,
        facts: &facts,
        arms: &arms,
        needs,
        control: experiment::is_control(&kept.head.arms),
        workload: &workload,
        anyway: false,
        report: asked_report.as_deref().or(kept_report),
        state: &state,
        begins: Begins::After(&file, &kept),
    };
    session.run()
}

/// The command that continues the session, as the user typed it.
fn again(args: &Args) -> String {
    let file = match args.file == Path::new(LAST) {
        true => String::new(),
        false => format!(" {}", args.file.display()),
    };
    let report = args.report.as_ref().map_or_else(String::new, |folder| format!(" --report {}", folder.display()));
    format!("evenkeel prove resume{file}{report}{}", args.state.again())
}
