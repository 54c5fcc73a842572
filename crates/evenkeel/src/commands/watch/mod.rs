//! `evenkeel watch`: shows each second what the host and its servers do.

mod args;
mod at;
pub(crate) mod dump;
mod headless;
mod outputs;
mod terminal;
mod timeline;

use std::io::{self, IsTerminal};
use std::path::Path;

use evenkeel_hostfs::RootKind;
use evenkeel_watch::store::Replay;
use evenkeel_watch::{Collector, Model};
use serde::Serialize;

pub(crate) use args::Args;
use outputs::Outputs;
use timeline::Timeline;

use crate::exit;
use crate::experiment::stop_flag;
use crate::failure::{Failure, Outcome};
use crate::show::watch::screen::Palette;
use crate::show::{self, Out};
use crate::store_failure::store_failure;

/// The state of the host and its servers between two samples.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    #[serde(flatten)]
    model: Model,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if let Some(dir) = &args.replay {
        return replay(args, dir, out);
    }
    if let Some(dir) = args.watch.dumps.as_ref().filter(|_| args.dump) {
        return dump::run(dir, out);
    }
    let root = args.watch.open()?;
    let is_live = root.kind() != RootKind::Captured;
    let outputs = Outputs::open(args)?;
    let collector = Collector::new(root.clone(), args.watch.options(&root)?);
    match (args.once || !is_live || out.is_json(), is_interactive()) {
        (false, true) => terminal::run(Timeline::live(collector, outputs), palette(out)),
        (false, false) if !outputs.is_empty() || args.watch.dumps.is_some() => headless::run(collector, outputs, out),
        // Print one page if the output is a pipe.
        _ => once(collector, outputs, out),
    }
}

/// Whether a person uses the screen and its keys.
fn is_interactive() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

fn palette(out: &Out) -> Palette {
    Palette { has_colors: out.has_colors() }
}

/// Takes two samples, and prints the answer.
fn once(mut collector: Collector, mut outputs: Outputs, out: &Out) -> Outcome {
    let stop = stop_flag()?;
    let before = collector.sample();
    let mut failures = vec![outputs.store(&before)];
    if before.is_live && !collector.wait(&stop) {
        return Ok(exit::STOPPED);
    }
    let after = collector.sample();
    let model = Model::from_samples(&before, &after);
    failures.extend([outputs.store(&after), outputs.metrics(&model)]);
    if let Some(failure) = failures.into_iter().flatten().next() {
        return Err(Failure::text(exit::NOT_POSSIBLE, "write the samples", failure));
    }
    answer(model, out)
}

/// Shows the state in a store at the time of `--at`, or at its end.
fn replay(args: &Args, dir: &Path, out: &Out) -> Outcome {
    let mut replay = Replay::open(dir).map_err(store_failure)?;
    let failed = |cause: String| Failure::text(exit::WRONG_USE, format_args!("replay {}", dir.display()), cause);
    let nothing = || failed("it has no sample of that time".to_owned());
    let first = replay.first().and_then(|first| Some(replay.sample(first)?.at.realtime_ns));
    let early = || match first {
        Some(first) => failed(format!("it has no sample of that time: it begins at {}", show::change::utc(first))),
        None => nothing(),
    };
    let last = replay.last().ok_or_else(nothing)?;
    let last_ns = replay.sample(last).ok_or_else(nothing)?.at.realtime_ns;
    let position = match args.at {
        Some(at) => at.realtime_ns(last_ns).and_then(|ns| replay.at(ns)).ok_or_else(early)?,
        None => last,
    };
    if !args.once && !out.is_json() && is_interactive() {
        return terminal::run(Timeline::stored(replay, position).ok_or_else(nothing)?, palette(out));
    }
    let (before, after) = replay.pair(position).ok_or_else(nothing)?;
    answer(Model::from_samples(&before, &after), out)
}

fn answer(model: Model, out: &Out) -> Outcome {
    let answer = Answer { model };
    out.answer(&answer, || show::watch::page(&answer.model))?;
    Ok(exit::WELL)
}
