//! `evenkeel prove report`: prints the result of a stored session.

use std::path::PathBuf;

use evenkeel_host::Facts;
use evenkeel_hostfs::Root;

use super::answer::{self, Answer};
use crate::args::StateArgs;
use crate::experiment;
use crate::failure::Outcome;
use crate::overdue;
use crate::session_files::{self, LAST};
use crate::show::Out;
use crate::workload_args::{WorkloadArgs, workload_of};

/// Print the result of a stored trial again
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel prove report
  evenkeel prove report --report report")]
pub(crate) struct Args {
    /// The file of the session
    #[arg(value_name = "FILE", default_value = LAST)]
    file: PathBuf,
    /// Write report.html and report.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let root = Root::live();
    overdue::settle(&root, &args.state, out);
    let (_, kept) = session_files::read(&args.state, &args.file)?;
    // A report does not need the workload itself.
    // If evenkeel can't parse the workload's arguments, the report does not name them.
    let workload = kept.head.asked.as_ref().and_then(|asked| workload_of(&asked.workload).ok());
    let session = experiment::stored_answer(kept)?;
    let again = answer::again(&workload.unwrap_or_else(WorkloadArgs::default), false, &session);
    // The session may be from another machine, so its report must not contain a capture of this machine.
    let facts = Facts::probe(&root);
    Answer { facts: &facts, capture: None, report: args.report.as_deref(), again, was_kept: true }.print(out, session)
}
