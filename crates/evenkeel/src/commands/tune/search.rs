//! Runs a search, new or resumed, and prints the result.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_change::State;
use evenkeel_host::{Action, Facts, Plan};
use evenkeel_hostfs::Root;
use evenkeel_trial::search::{HostWords, LeftOut, Live, Log, SearchDesign, Tools, Verdict, WorkloadSpec};
use evenkeel_trial::{Rules, Switch, Watch};
use evenkeel_workload::{Workload, WorkloadError};

use super::context::{OutArgs, SearchContext, not_possible};
use super::{goal, lines, log_files};
use crate::args::StateArgs;
use crate::exit;
use crate::experiment;
use crate::failure::{Failure, Outcome};
use crate::output_file;
use crate::overdue;
use crate::session_files::TrialLock;
use crate::show::guide::GuideLog;
use crate::show::tune::SearchResult;
use crate::show::{self, Out, tune as page};
use crate::times;
use crate::view::terminal;
use crate::workload_args::workload_of;

/// A search that is ready to start or to continue.
pub(crate) struct Ready {
    pub(crate) design: SearchDesign,
    pub(crate) plans: Vec<Plan>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) spec: WorkloadSpec,
    pub(crate) workload: Box<dyn Workload>,
    pub(crate) log: Log,
    /// The guide that the search settles.
    pub(crate) guide: Option<GuideLog>,
}

/// The options of a search, new or continued.
pub(crate) struct Asked<'a> {
    /// The command's name.
    pub(crate) title: &'static str,
    pub(crate) out_args: &'a OutArgs,
    /// The folder of the report.
    pub(crate) report: Option<&'a Path>,
    pub(crate) state: &'a StateArgs,
    /// The path of the search's log.
    pub(crate) path: &'a Path,
    /// The command that continues the search.
    pub(crate) resume: String,
}

/// A finished search. evenkeel has written as many of its files as possible.
pub(crate) struct Searched {
    pub(crate) result: SearchResult,
    /// Why evenkeel could not write the goal file or the report.
    pub(crate) unwritten: Option<Failure>,
    /// The guide that the search settles, in its state before the search.
    pub(crate) guide: Option<GuideLog>,
}

/// Runs the search that `ready` prepares, and prints the result.
pub(crate) fn run_search(
    asked: Asked<'_>,
    out: &Out,
    ready: impl FnOnce(&SearchContext<'_>, &mut State) -> Result<Ready, Failure>,
) -> Outcome {
    let report = asked.report;
    let Searched { mut result, mut unwritten, guide } = searched(asked, out, ready)?;
    if let Some(guide) = guide {
        let exit = exit_of(&result);
        let (answer, unwritten) = lines::settled(guide, result, unwritten, report);
        out.answer(&answer, || terminal::text(&show::guide::blocks(&answer)) + &lines::closing(&answer))?;
        return lines::outcome(out, exit, unwritten);
    }
    if let (Some(folder), None) = (report, &unwritten) {
        match crate::report::search::write(folder, &result, &result, Vec::new()) {
            Ok(note) => result.notes.push(note),
            Err(failure) => unwritten = Some(failure),
        }
    }
    match unwritten {
        Some(failure) => unwritten_answer(out, result, failure),
        None => {
            out.answer(&result, || page::page(&result))?;
            Ok(exit_of(&result))
        }
    }
}

/// The exit code of a search.
pub(crate) fn exit_of(result: &SearchResult) -> exit::Exit {
    match (&result.answer.ended, result.answer.verdict) {
        (_, Verdict::Better) => exit::WELL,
        (evenkeel_trial::search::SearchEnded::Failed { .. }, _) => exit::UNDONE,
        (evenkeel_trial::search::SearchEnded::Stopped, _) => exit::STOPPED,
        _ => exit::NO,
    }
}

/// Runs the search that `ready` prepares.
pub(crate) fn searched(
    asked: Asked<'_>,
    out: &Out,
    ready: impl FnOnce(&SearchContext<'_>, &mut State) -> Result<Ready, Failure>,
) -> Result<Searched, Failure> {
    let Asked { title, out_args, report, state: state_args, path, resume } = asked;
    let root = Root::live();
    let here = std::env::current_dir().unwrap_or_default();
    overdue::settle(&root, state_args, out);
    let facts = Facts::probe(&root);
    // Report a write error now, not after twenty minutes of search.
    out_args.out.as_deref().map_or(Ok(()), output_file::refuse_unwritable)?;
    if let Some(folder) = report {
        output_file::make_folder(folder)?;
    }
    let stop = experiment::stop_flag()?;
    experiment::explain_signals(out, state_args);
    // Open the journal and take the lock before the server starts,
    // so that missing rights or another trial fail at once.
    let mut state = state_args.open()?;
    experiment::refuse_if_interrupted(&root, &state, state_args)
        .map_err(|failure| log_files::after_a_kill(failure, &resume, path))?;
    let _alone = TrialLock::take(state_args)?;
    let concurrent = experiment::announce(out, title);
    let search =
        SearchContext { out_args, state: state_args, resume, out, root: &root, facts: &facts, stop, concurrent };
    let mut ready = ready(&search, &mut state).map_err(|failure| experiment::stopped_or(failure, &search.stop))?;
    let guide = ready.guide.take();
    let before = readings(&root, &ready.plans);
    let (design, plans, spec) = (ready.design.clone(), ready.plans.clone(), ready.spec.clone());
    let mut result = measure(&search, &mut state, ready)?;
    result.all_as_before = readings(&root, &plans) == before;
    drop(state);
    let mut unwritten = None;
    if let (Some(file), Verdict::Better) = (&out_args.out, result.answer.verdict) {
        let evidence = (&design, spec, HostWords::from_facts(&facts));
        // The workload may start in another folder, where the path would point to another file.
        let is_here = std::env::current_dir().is_ok_and(|folder| folder == here);
        let file = &if is_here { file.clone() } else { here.join(file) };
        match goal::write(&search, file, evidence, &result) {
            Ok(written) => {
                result.goal_applies = written.file.is_some().then_some(written.applies);
                (result.goal_file, result.notes) = (written.file, written.notes);
            }
            Err(failure) => unwritten = Some(failure.hint(goal::again(&search, file))),
        }
    } else if let Some(file) = &out_args.out {
        result
            .notes
            .push(format!("{} is not written: no setting is proved to be better than no change", file.display()));
    }
    Ok(Searched { result, unwritten, guide })
}

/// The outcome if evenkeel can't write a file. It prints the result in any case.
fn unwritten_answer(out: &Out, mut result: SearchResult, failure: Failure) -> Outcome {
    if !out.is_json() {
        out.answer(&result, || page::page(&result))?;
        return Err(failure);
    }
    // The answer is the only document on standard output, so it also has to name the missing file.
    result.notes.push(format!("{}; {}", failure.message(), failure.hint.as_deref().unwrap_or_default()));
    out.answer(&result, String::new)?;
    out.warn(&format!("evenkeel: {}\n", result.notes.concat()));
    Ok(failure.exit)
}

/// Starts the workload of the log, also as a replacement for a workload that died.
pub(crate) fn start(
    spec: &WorkloadSpec,
    seed: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn Workload>, WorkloadError> {
    let why = |failure: Failure| WorkloadError::Start { program: spec.name.clone(), why: failure.message() };
    workload_of(&spec.arguments).and_then(|workload| workload.start(seed, stop)).map_err(why)
}

/// Runs the search. When it returns, the host is restored, or the error names the values that are not.
fn measure(search: &SearchContext<'_>, state: &mut State, ready: Ready) -> Result<SearchResult, Failure> {
    let Ready { design, plans, left_out, spec, workload, mut log, .. } = ready;
    let described = workload.describe();
    let knobs = design.candidates.len();
    let at_most = times::words(Duration::from_millis(design.budget.time_ms.unwrap_or_default()));
    search.out.status(&format!(
        "{described}\n{knobs} knob{}, at most {at_most}, metric {}",
        if knobs == 1 { "" } else { "s" },
        design.metric.name
    ));
    let writer = search.root.writer().map_err(not_possible)?;
    let title = format!("tune {} by {}", spec.name, design.metric.name);
    let mut switch = Switch::begin(search.root, &writer, Some(state), &title, &plans).map_err(not_possible)?;
    let watch = Watch::start(search.root, &plans).with_concurrent(&search.concurrent).of_workload(workload.as_ref());
    let bar = page::bar(search.out.shows_progress());
    let revive = || start(&spec, design.seed, &search.stop);
    let mut live = Live {
        design: &design,
        plans: &plans,
        switch: &mut switch,
        workload,
        revive: &revive,
        watch: &watch,
        rules: Rules::default(),
        revivals: 0,
    };
    let answer = evenkeel_trial::search::search(
        &design,
        Tools {
            subject: &mut live,
            log: &mut log,
            stop: &|| search.stop.load(Ordering::Relaxed),
            on_progress: &mut |progress| {
                search
                    .concurrent
                    .news()
                    .iter()
                    .for_each(|words| bar.suspend(|| search.out.warn(&format!("{words}\n"))));
                page::show(&bar, progress);
            },
        },
    );
    bar.finish_and_clear();
    live.workload.stop();
    drop(live);
    switch.end().map_err(|error| {
        Failure::new(exit::NOT_UNDONE, error).hint(format!("{} tries again", search.state.revert()))
    })?;
    let answer = answer.map_err(not_possible)?;
    Ok(SearchResult {
        answer,
        design,
        workload: described,
        not_tried: left_out,
        all_as_before: false,
        goal_file: None,
        goal_applies: None,
        notes: Vec::new(),
        resume: search.resume.clone(),
        revert: search.state.revert(),
    })
}

/// The current content of every file that the plans write.
fn readings(root: &Root, plans: &[Plan]) -> BTreeMap<String, Option<String>> {
    let files = plans.iter().flat_map(|plan| &plan.steps).filter_map(|step| match &step.action {
        Action::Write { path, .. } => Some(path.clone()),
        _ => None,
    });
    files.map(|path| (path.clone(), root.text(&path).ok())).collect()
}
