//! `evenkeel tune`: a search for the smallest set of knobs that helps one server on this machine.

use std::path::{Path, PathBuf};

use evenkeel_change::State;
use evenkeel_host::Action;
use evenkeel_sys::process;
use evenkeel_trial::search::{Header, LeftOut, LeftOutReason, Offer, Wanted, WorkloadSpec, offer, restarts};

use crate::args::StateArgs;
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::selection;
use crate::show::Out;
use crate::show::guide::GuideLog;
use crate::workload_args::WorkloadArgs;
use crate::workload_settings;

pub(crate) mod context;
pub(crate) mod design;
mod goal;
pub(crate) mod lines;
pub(crate) mod log_files;
mod resume;
pub(crate) mod search;

use context::{OutArgs, SearchContext, not_possible};
use design::PlanArgs;
use log_files::Context;
use search::{Asked, Ready, run_search};

/// The end of `--help`.
const EXAMPLES: &str = "\
Every window of the search tests all knobs at once, each on or off by a design. evenkeel then tries
other values of the knobs that changed the metric, drops those that are not needed, and proves the
rest against the current configuration. Ctrl-C stops the search. All settings are restored at the end.

Examples:
  evenkeel tune --workload tick --budget 2min
  sudo evenkeel tune --budget 20min --out goal.json --observe ticks -- ./my-server --port 7777
  sudo evenkeel tune resume        # continue the last search";

/// Search for the smallest set of knobs that helps your server, then restore all settings
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "evenkeel tune [OPTIONS] [-- <CMD>...]\n       evenkeel tune <COMMAND>",
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    search: SearchArgs,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Resume(resume::Args),
}

/// The request of a new search.
#[derive(Debug, clap::Args)]
struct SearchArgs {
    #[command(flatten)]
    out: OutArgs,
    /// Write report.html and report.json into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    state: StateArgs,
    /// Try only these knobs [default: all that work on this machine]
    #[arg(long, value_name = "KNOB[=VALUE]", num_args = 1.., help_heading = "Search")]
    knobs: Vec<String>,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.what {
        Some(What::Resume(args)) => resume::run(args, out),
        None => {
            let SearchArgs { out: out_args, report, state, knobs, plan, workload } = &args.search;
            let wanted = wanted(knobs, plan)?;
            let path = state.path()?.join(log_files::LOG);
            let resume = log_files::again(None, state);
            let asked = Asked { title: "tune", out_args, report: report.as_deref(), state, path: &path, resume };
            run_search(asked, out, |search, state| {
                begin(search, &Begin { wanted, plan, asked: workload, path: &path, guide: None }, state)
            })
        }
    }
}

/// The knobs that the search may try, as requested.
fn wanted(knobs: &[String], args: &PlanArgs) -> Result<Wanted, Failure> {
    let bad = |error: evenkeel_host::SettingError| selection::wrong_setting("read --knobs", error);
    let mut named = Vec::new();
    for text in knobs {
        named.push(match text.contains('=') {
            true => workload_settings::parse(text).map(|setting| (setting.knob, Some(setting))).map_err(bad)?,
            false => (workload_settings::find(text).map_err(bad)?, None),
        });
    }
    Ok(match (named.is_empty(), args.network_devices) {
        (false, _) => Wanted::Named(named),
        (true, true) => Wanted::AllAndNetwork,
        (true, false) => Wanted::All,
    })
}

/// The starting state of a new search.
pub(crate) struct Begin<'a> {
    pub(crate) wanted: Wanted,
    pub(crate) plan: &'a PlanArgs,
    pub(crate) asked: &'a WorkloadArgs,
    pub(crate) path: &'a Path,
    /// The guide that contains all candidates. The search first tests all candidates together.
    pub(crate) guide: Option<GuideLog>,
}

/// Starts the workload, and prepares a new search.
pub(crate) fn begin(search: &SearchContext<'_>, new: &Begin<'_>, state: &mut State) -> Result<Ready, Failure> {
    let SearchContext { root, facts, .. } = search;
    let Begin { wanted, plan, asked, path, guide } = new;
    let mut offer = offer(root, facts, &plan.goal.context(), wanted);
    keep_what_is_allowed(&mut offer);
    let seed = plan.seed.unwrap_or_else(experiment::fresh_seed);
    let mut workload = asked.start(seed, &search.stop)?;
    offer.keep_what_reaches(&mut *workload);
    let Offer { candidates, plans, left_out } = offer;
    if candidates.is_empty() {
        workload.stop();
        return Err(nothing_to_try(&left_out));
    }
    let mut design = design::asked(plan, &*workload, candidates, seed, guide.is_some())?;
    design.restarts = restarts(&plans);
    if plan.settle.asked().is_none() && design::settle(search, state, &mut design, &plans, &mut *workload)? {
        workload.stop();
        workload = asked.start(seed, &search.stop)?;
    }
    let spec = WorkloadSpec::from_options(asked.entry()?.name, &asked.options(seed)?);
    let spec = WorkloadSpec { arguments: asked.line(), ..spec };
    let context = Context::new(spec.clone(), &left_out, guide.clone());
    let context = serde_json::to_value(context).map_err(not_possible)?;
    let log = log_files::begin(search, path, &Header::new(design.clone(), context))?;
    Ok(Ready { design, plans, left_out, spec, workload, log, guide: guide.clone() })
}

/// Leaves out settings that need root, for users who are not root.
fn keep_what_is_allowed(offer: &mut Offer) {
    if process::is_root() {
        return;
    }
    for at in (0..offer.plans.len()).rev() {
        if offer.plans[at].steps.iter().any(|step| step.action != Action::Process) {
            let knob = offer.plans.remove(at).steps.first().map(|step| step.knob.clone()).unwrap_or_default();
            offer.candidates.remove(at);
            offer.left_out.push(LeftOut { knob, why: LeftOutReason::NeedsRoot });
        }
    }
}

fn nothing_to_try(left_out: &[LeftOut]) -> Failure {
    let needs_root = left_out.iter().any(|left| left.why == LeftOutReason::NeedsRoot);
    let code = if needs_root { exit::NOT_ALLOWED } else { exit::NOT_POSSIBLE };
    let whys: Vec<String> = left_out.iter().map(|LeftOut { knob, why }| format!("{knob}: {why}")).collect();
    Failure::text(code, "find a knob to try on this machine", whys.join("; "))
}
