//! `explain`: everything known of one knob, and what is advised about it on this machine.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use evenkeel_host::{Advice, Facts, Knob, advise, knobs};
use serde::Serialize;

use crate::args::{GoalArgs, HostArgs};
use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::readings::{self, Reading};
use crate::show::knob::{Handling, KnobLine, KnobView, Known};
use crate::show::{self, Out};

/// Tell everything known of one knob, or list the knobs
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The knob's id, such as net.core.busy_poll; without it, the knobs are listed
    #[arg(value_parser = KnobId, hide_possible_values = true)]
    knob: Option<String>,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    goal: GoalArgs,
}

#[derive(Serialize)]
struct ListAnswer {
    knobs: Vec<KnobLine>,
}

#[derive(Serialize)]
struct KnobAnswer {
    knob: KnobView,
    advice: Vec<Advice>,
    readings: Vec<Reading>,
    #[serde(flatten)]
    handling: Handling,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.knob {
        None => {
            let knobs: Vec<KnobLine> = knobs::ALL.iter().map(|knob| KnobLine::of(knob)).collect();
            let answer = ListAnswer { knobs };
            out.answer(&answer, || show::knob::list(&answer.knobs))?;
        }
        Some(id) => {
            let knob = knobs::find(id).map_err(|error| Failure::text(exit::WRONG_USE, "explain a knob", error))?;
            let root = args.host.open()?;
            let facts = Facts::probe(&root);
            let advice = advice_on(knob, args, &facts);
            let handling = Handling::of(knob, &advice);
            let readings = readings::of(knob, &facts, &root);
            let answer = KnobAnswer { knob: KnobView::of(knob), advice, readings, handling };
            out.answer(&answer, || {
                let KnobAnswer { knob, advice, readings, handling } = &answer;
                show::knob::page(&Known { knob, advice, readings, handling, facts: &facts })
            })?;
        }
    }
    Ok(exit::WELL)
}

fn advice_on(knob: &Knob, args: &Args, facts: &Facts) -> Vec<Advice> {
    advise(facts, &args.goal.context()).into_iter().filter(|advice| advice.knob == knob.id).collect()
}

/// Tells the shell which knobs there are, and takes any text: the refusal of an unknown one is ours, so that it names the
/// nearest instead of all.
#[derive(Clone, Debug)]
struct KnobId;

impl TypedValueParser for KnobId {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(knobs::ALL.iter().map(|knob| PossibleValue::new(knob.id).help(knob.title))))
    }
}
