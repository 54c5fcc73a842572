//! A search that was begun before: gone on with as it was begun, and kept where another one takes its place.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_host::{Goal, Plan, Wish};
use evenkeel_trial::Guard;
use evenkeel_trial::search::{Header, LeftOut, LeftOutReason, Log, SearchDesign, WorkloadSpec, is_over};
use serde::{Deserialize, Serialize};

use super::{Args, BUDGET, Ground, Ready, STOP_AT, WINDOW_MS, not_possible, start, workload_of};
use crate::exit;
use crate::failure::Failure;
use crate::session_files;
use crate::workload_args::WorkloadArgs;
use crate::workload_settings;

/// The search's log, beside the journal.
const LOG: &str = "tune.jsonl";
/// What stands for it behind `--resume`.
pub(super) const LAST: &str = "last";
/// The folder of searches that are not over and that another one took the place of, beside it.
const FOLDER: &str = "searches";
/// What stands for the server with its load among what was asked.
const WORKLOAD: &str = "a workload";

/// What the log has to tell beside the design, for whoever goes on with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Context {
    workload: WorkloadSpec,
    left_out: Vec<LeftOutWords>,
    /// What was asked, by the name of the argument, as it would be typed.
    #[serde(default)]
    asked: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct LeftOutWords {
    knob: String,
    why: String,
}

impl Context {
    /// That of a new search; what nobody asked for is told as it was chosen.
    pub(super) fn new(args: &Args, design: &SearchDesign, workload: WorkloadSpec, left_out: &[LeftOut]) -> Context {
        let chosen = [
            ("--budget", format!("--budget {}s", BUDGET.as_secs())),
            ("--metric", format!("--metric {}", design.metric.name)),
            ("--window-ms", format!("--window-ms {WINDOW_MS}")),
            ("--stop-at", format!("--stop-at {STOP_AT}")),
            ("--seed", format!("--seed {}", design.seed)),
            (WORKLOAD, "the usual workload".to_owned()),
        ];
        let chosen = chosen.into_iter().map(|(name, words)| (name.to_owned(), words));
        let words = |left: &LeftOut| LeftOutWords { knob: left.knob.clone(), why: left.why.to_string() };
        Context { workload, left_out: left_out.iter().map(words).collect(), asked: chosen.chain(asked(args)).collect() }
    }
}

/// What the arguments ask of a search that is fixed when it begins, by name, as it would be typed.
fn asked(args: &Args) -> BTreeMap<String, String> {
    fn one<T: ToString>(value: Option<T>) -> Vec<String> {
        value.into_iter().map(|value| value.to_string()).collect()
    }
    let mut asked: BTreeMap<String, String> = BTreeMap::new();
    let mut take = |name: &str, mut values: Vec<String>| {
        // In which order knobs and guards are named makes no other search.
        values.sort();
        if !values.is_empty() {
            asked.insert(name.to_owned(), format!("{name} {}", values.join(" ")));
        }
    };
    take("--knobs", args.knobs.clone());
    take("--budget", one(args.budget.map(|budget: Duration| format!("{}s", budget.as_secs()))));
    take("--metric", one(args.metric.as_ref()));
    take("--smallest-effect", one(args.smallest_effect.percent()));
    take("--window-ms", one(args.window_ms));
    take("--settle-ms", one(args.settle_ms));
    take("--guard", args.guard.clone());
    take("--stop-at", one(args.stop_at));
    take("--seed", one(args.seed));
    let Wish { goal, server } = args.goal.wish();
    take("--goal", one(Some(goal).filter(|goal| *goal != Goal::default())));
    let known = [("pps", server.pps), ("cpus", server.cpus), ("players", server.players)];
    take("--server", known.iter().filter_map(|(name, number)| Some(format!("{name}={}", (*number)?))).collect());
    if args.network_devices {
        asked.insert("--network-devices".to_owned(), "--network-devices".to_owned());
    }
    let workload = format!("{}{}", args.workload.again(), args.workload.command_again());
    if !workload.is_empty() {
        asked.insert(WORKLOAD.to_owned(), workload.trim().to_owned());
    }
    asked
}

/// What a search decides by of all that can be asked, as it would be typed: whoever says that, says nothing else than it was begun with.
fn decided(design: &SearchDesign) -> [(&'static str, String); 4] {
    // As people write them: a share of 0.07 is not 7.000000000000001 per cent.
    let percent = |ratio: f64| (ratio * 1e8).round() / 1e6;
    let guard = |guard: &Guard| format!("{}={}", guard.metric.name, percent(guard.harm_ratio));
    let mut guards: Vec<String> = design.guards.iter().map(guard).collect();
    guards.sort();
    if guards.is_empty() {
        guards.push("none".to_owned());
    }
    let mut knobs: Vec<&str> =
        design.candidates.iter().flat_map(|candidate| &candidate.settings).map(String::as_str).collect();
    knobs.sort_unstable();
    [
        ("--knobs", format!("--knobs {}", knobs.join(" "))),
        ("--smallest-effect", format!("--smallest-effect {}", percent(design.smallest_effect_ratio))),
        ("--settle-ms", format!("--settle-ms {}", design.settle_ms)),
        ("--guard", format!("--guard {}", guards.join(" "))),
    ]
}

/// Refuses what the search was not begun with: its windows were measured by what it was.
fn refuse_other(args: &Args, design: &SearchDesign, context: &Context) -> Result<(), Failure> {
    let decided = decided(design);
    for (name, now) in asked(args) {
        let then = match context.asked.get(&name) {
            // What is compared is what is started, whatever else the file tells.
            _ if name == WORKLOAD => match context.workload.arguments.as_str() {
                "" => "with the usual workload".to_owned(),
                then if *then == now => continue,
                then => format!("with {then}"),
            },
            Some(then) if *then == now => continue,
            Some(then) => format!("with {then}"),
            None if decided.iter().any(|(of, then)| *of == name && *then == now) => continue,
            None => format!("without {name}"),
        };
        let cause = format!("it was begun {then}, and this says {now}: it decides by what it was begun with");
        return Err(Failure::text(exit::WRONG_USE, "go on with the search", cause)
            .hint("leave it out, and the search goes on as it was begun; without --resume a new one begins"));
    }
    Ok(())
}

/// Refuses to run the command of a log that nobody but its writer vouches for: a file can come from anywhere. Who names the same command
/// has seen it.
fn refuse_command_of_a_file(args: &Args, workload: &WorkloadSpec, path: &Path) -> Result<(), Failure> {
    let WorkloadArgs { command, of_command, .. } = workload_of(&workload.arguments)?;
    let runs_command = !command.is_empty() || !of_command.is_empty();
    if !runs_command || asked(args).contains_key(WORKLOAD) || is_ours(path, &args.state.path()?) {
        return Ok(());
    }
    let cause = "its workload is a command, which is not run because a file says so";
    Err(Failure::text(exit::WRONG_USE, format!("go on with the search {}", path.display()), cause).hint(format!(
        "look at it, and name it yourself: {} {}",
        again(args),
        workload.arguments
    )))
}

/// Whether a log is one that evenkeel keeps in the folder of its state.
fn is_ours(path: &Path, folder: &Path) -> bool {
    let (Ok(path), Ok(folder)) = (path.canonicalize(), folder.canonicalize()) else { return false };
    path == folder.join(LOG) || path.parent() == Some(&folder.join(FOLDER))
}

/// The log of a new search, or of the one that is gone on with.
pub(super) fn log_of(args: &Args) -> Result<PathBuf, Failure> {
    match &args.resume {
        Some(file) if file != Path::new(LAST) => Ok(file.clone()),
        _ => Ok(args.state.path()?.join(LOG)),
    }
}

/// The command that goes on with the search, as it stands in a sentence.
pub(super) fn again(args: &Args) -> String {
    let file = args.resume.as_deref().filter(|file| *file != Path::new(LAST));
    let file = file.map_or_else(String::new, |file| format!(" {}", file.display()));
    format!("evenkeel tune --resume{file}{}", args.state.again())
}

/// Goes on with a search, or tells it again where it is over.
pub(super) fn go_on(ground: &Ground<'_>, path: &Path) -> Result<Ready, Failure> {
    let Ground { args, out, facts, .. } = ground;
    let (header, log) = Log::open(path)
        .map_err(|error| Failure::new(exit::WRONG_USE, error).hint("without --resume a new search begins"))?;
    let bad = |error: serde_json::Error| Failure::text(exit::WRONG_USE, "read the search's log", error);
    let context: Context = serde_json::from_value(header.context).map_err(bad)?;
    refuse_other(args, &header.design, &context)?;
    refuse_command_of_a_file(args, &context.workload, path)?;
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
pub(super) fn after_a_kill(failure: Failure, args: &Args, path: &Path) -> Failure {
    match &failure.hint {
        Some(hint) if !is_done_with(path) => {
            let hint = format!("{hint}; `{}` then goes on with the search that was cut off", again(args));
            failure.hint(hint)
        }
        _ => failure,
    }
}

/// Begins the log of a new search. One that was cut off before it was over is kept, and said to be.
pub(super) fn begin(ground: &Ground<'_>, path: &Path, header: &Header) -> Result<Log, Failure> {
    if !is_done_with(path) {
        let kept = keep(path)?;
        let state = ground.args.state.again();
        ground.out.aside(&format!(
            "the search before is not over, and kept: `evenkeel tune --resume {}{state}` goes on with it\n",
            kept.display()
        ));
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
