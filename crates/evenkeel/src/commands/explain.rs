//! `explain`: prints everything about one knob, and the advice for this machine.

use evenkeel_host::{Advice, Facts, Knob, SettingError, advise, knobs};
use serde::Serialize;

use crate::args::{Completed, GoalArgs, HostArgs, knob_ids};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::readings::{self, Reading};
use crate::show::knob::{Handling, KnobLine, KnobView, Known};
use crate::show::{self, Out};

/// Explain one knob: what it does, its values, its risk, and the advice for this machine; or list the knobs
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel explain
  evenkeel explain net.core.busy_poll")]
pub(crate) struct Args {
    /// The knob's id, such as net.core.busy_poll; without it, the knobs are listed
    #[arg(value_parser = Completed(knob_ids), hide_possible_values = true)]
    knob: Option<String>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    goal: GoalArgs,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct ListAnswer {
    knobs: Vec<KnobLine>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct KnobAnswer {
    knob: KnobView,
    advice: Vec<Advice>,
    readings: Vec<Reading>,
    #[serde(flatten)]
    handling: Handling,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.knob {
        None => {
            let knobs: Vec<KnobLine> = knobs::ALL.iter().map(|knob| KnobLine::from_knob(knob)).collect();
            let answer = ListAnswer { knobs };
            out.answer(&answer, || show::knob::list(&answer.knobs))?;
        }
        Some(id) => {
            let knob = knobs::find(id).map_err(|error| unknown(id, &error))?;
            let root = args.host.open()?;
            let facts = Facts::probe(&root);
            let advice = advice_on(knob, args, &facts);
            let handling = Handling::from_advice(knob, &advice);
            let readings = readings::knob_readings(knob, &facts, &root);
            let answer = KnobAnswer { knob: KnobView::from_knob(knob), advice, readings, handling };
            out.answer(&answer, || {
                let KnobAnswer { knob, advice, readings, handling } = &answer;
                show::knob::page(&Known { knob, advice, readings, handling, facts: &facts })
            })?;
        }
    }
    Ok(exit::WELL)
}

/// The failure for a name that is not a knob.
/// If the name is a knob with a place or a value after it, the hint names the command for that knob.
fn unknown(id: &str, error: &SettingError) -> Failure {
    match id.split_once(['@', '=']) {
        Some((knob, _)) if knobs::find(knob).is_ok() => {
            Failure::text(exit::WRONG_USE, format!("explain {id}"), "expected a knob without a place or a value")
                .hint(format!("`evenkeel explain {knob}` shows all its places and values"))
        }
        _ => Failure::text(exit::WRONG_USE, "explain a knob", error),
    }
}

fn advice_on(knob: &Knob, args: &Args, facts: &Facts) -> Vec<Advice> {
    advise(facts, &args.goal.context()).into_iter().filter(|advice| advice.knob == knob.id).collect()
}
