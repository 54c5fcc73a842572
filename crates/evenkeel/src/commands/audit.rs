//! `audit`: advice on every knob, ranked.

use clap::ValueEnum;
use evenkeel_host::{Advice, Facts, Goal, Server, State, Wish, advise};
use serde::Serialize;

use crate::args::{GoalArgs, HostArgs, MetadataArgs};
use crate::exit;
use crate::failure::Outcome;
use crate::show::{self, Out};

/// Say which settings would suit the server on this machine, and why
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    goal: GoalArgs,
    /// End with exit code 1 if there are findings at or over LEVEL
    #[arg(long, value_enum, value_name = "LEVEL")]
    fail_on: Option<Level>,
}

/// The findings that somebody may have to act on, the most urgent first; each level includes those before it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    /// Another value would suit better.
    Set,
    /// Another program or file sets it.
    OwnedBy,
    /// It would help, but can't be changed here.
    Blocked,
    /// Not enough is known.
    Unknown,
}

#[derive(Serialize)]
struct Answer<'a> {
    goal: Goal,
    server: Server,
    advice: &'a [Advice],
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let facts = Facts::probe(&args.metadata.open(&args.host)?);
    let wish = args.goal.wish();
    let Wish { goal, server } = wish;
    let advice = advise(&facts, &wish);
    out.answer(&Answer { goal, server, advice: &advice }, || show::advice::page(goal, &advice))?;
    let fails = args.fail_on.is_some_and(|level| advice.iter().any(|advice| advice.state <= level.state()));
    Ok(if fails { exit::NO } else { exit::WELL })
}

impl Level {
    fn state(self) -> State {
        match self {
            Level::Set => State::Set,
            Level::OwnedBy => State::OwnedBy,
            Level::Blocked => State::Blocked,
            Level::Unknown => State::Unknown,
        }
    }
}
