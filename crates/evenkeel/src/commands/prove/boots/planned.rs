//! What `prove boots start` would do, for people and programs, before anything is done.

use evenkeel_change::{Log, PlanFile, PlannedStep};
use evenkeel_host::TakesEffect;
use evenkeel_hostfs::Root;
use evenkeel_stats::{BOOTS_BLOCK, BOOTS_ERROR, Direction};
use evenkeel_trial::boots::{BootTransactions, BootsDesign, BootsState, EXTRA_BOOTS};
use evenkeel_workload::Metric;
use serde::ser::Error;
use serde::{Serialize, Serializer};

use super::start_args::StartArgs;
use crate::arms::parse;
use crate::commands::prove::design::{DecisionArgs, named_guard};
use crate::exit;
use crate::experiment::{TAIL_HARM_RATIO, tail_of};
use crate::failure::Failure;
use crate::report::words::share;

/// What would be done.
#[derive(Serialize)]
pub(super) struct Planned {
    #[serde(serialize_with = "without_what_decides")]
    pub(super) design: BootsDesign,
    decides: Decides,
    order: String,
    error: f64,
    pub(super) plan: PlanFile,
}

/// What decides is told once, and as far as it is known.
fn without_what_decides<S: Serializer>(design: &BootsDesign, serializer: S) -> Result<S::Ok, S::Error> {
    let mut design = serde_json::to_value(design).map_err(S::Error::custom)?;
    if let Some(fields) = design.as_object_mut() {
        fields.retain(|name, _| !["metric", "guards", "smallest_effect_ratio"].contains(&name.as_str()));
    }
    design.serialize(serializer)
}

/// What decides and what may veto. Which numbers a workload measures it tells when it runs; before that only what was asked for is known.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Decides {
    /// The number's name; none where it is the workload's usual one, whichever that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    /// The smallest effect on it that matters, as a share.
    smallest_effect_ratio: f64,
    /// The same if it turns out to be a lateness or a jitter, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    smallest_effect_ratio_of_lateness: Option<f64>,
    guards: Vec<MayVeto>,
}

/// A number that may not get worse.
#[derive(Debug, PartialEq, Serialize)]
struct MayVeto {
    /// Its name; none where it is the tail of what decides, if the workload measures one.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    harm_ratio: f64,
}

impl Decides {
    /// As the design of a workload that was tried has it.
    pub(super) fn of(design: &BootsDesign) -> Decides {
        let may_veto = |guard: &evenkeel_trial::Guard| MayVeto {
            metric: Some(guard.metric.name.to_string()),
            harm_ratio: guard.harm_ratio,
        };
        Decides {
            metric: Some(design.metric.name.to_string()),
            smallest_effect_ratio: design.smallest_effect_ratio,
            smallest_effect_ratio_of_lateness: None,
            guards: design.guards.iter().map(may_veto).collect(),
        }
    }

    /// As it was asked for, of a workload that was not tried.
    pub(super) fn asked(asked: &DecisionArgs) -> Result<Decides, Failure> {
        let ratio =
            |name: &str| asked.smallest_effect.ratio(&Metric::named(name.to_owned(), String::new(), Direction::Lower));
        let smallest_effect_ratio = ratio(asked.metric.as_deref().unwrap_or_default());
        let of_lateness = ratio("lateness");
        let named = |text: &String| {
            let (name, harm_ratio) = named_guard(text)?;
            Ok(MayVeto { metric: Some(name.to_owned()), harm_ratio })
        };
        let usual = |metric| MayVeto { metric, harm_ratio: TAIL_HARM_RATIO };
        let guards = match (asked.guard.as_slice(), &asked.metric) {
            ([], None) => vec![usual(None)],
            ([], Some(metric)) => tail_of(metric).map(|tail| usual(Some(tail))).into_iter().collect(),
            ([none], _) if none == "none" => Vec::new(),
            (guards, _) => guards.iter().map(named).collect::<Result<_, _>>()?,
        };
        Ok(Decides {
            smallest_effect_ratio_of_lateness: Some(of_lateness)
                .filter(|ratio| asked.metric.is_none() && *ratio != smallest_effect_ratio),
            metric: asked.metric.clone(),
            smallest_effect_ratio,
            guards,
        })
    }

    /// In lines.
    fn words(&self) -> String {
        let what = self.metric.as_deref().unwrap_or("the workload's usual number (--metric names another)");
        let of_lateness = self
            .smallest_effect_ratio_of_lateness
            .map_or_else(String::new, |ratio| format!(", {} of a lateness or jitter,", share(ratio)));
        let mut lines = format!(
            "Decided by {what}: a change of {}{of_lateness} or more matters.\n",
            share(self.smallest_effect_ratio)
        );
        for guard in &self.guards {
            let what = guard.metric.as_deref().unwrap_or("The tail of what decides, where it is measured,");
            lines += &format!("{what} may not be {} worse in every boot of B.\n", share(guard.harm_ratio));
        }
        if self.guards.is_empty() {
            lines += "No guard: nothing else is looked at.\n";
        }
        lines
    }
}

pub(super) fn plan(
    args: &StartArgs,
    root: &Root,
    log: &Log,
    design: BootsDesign,
    decides: Decides,
) -> Result<Planned, Failure> {
    let settings = parse(&args.settings)?;
    if !settings.iter().any(|setting| setting.knob.takes_effect == TakesEffect::Reboot) {
        let cause = "nothing of it takes a reboot, and over boots it is known far less well";
        return Err(Failure::text(exit::WRONG_USE, "prove it over boots", cause)
            .hint("evenkeel prove KNOB=VALUE compares it while this machine runs"));
    }
    let plan = BootTransactions::plan(root, log, &settings, &args.settings.join(" ")).map_err(|error| {
        let failure = Failure::text(exit::NOT_POSSIBLE, "prove it over boots", &error);
        match error.todo() {
            Some(todo) => failure.hint(todo),
            None => failure,
        }
    })?;
    let of_boot = |planned: &&PlannedStep| planned.takes_effect == TakesEffect::Reboot;
    if let Some(planned) = plan.steps.iter().filter(of_boot).find(|planned| planned.already_so) {
        let cause =
            format!("{}={} is in force already: there is nothing to compare", planned.step.knob, planned.step.wanted);
        return Err(Failure::text(exit::NOT_POSSIBLE, "prove it over boots", cause));
    }
    let order = BootsState::begin(design.clone(), 0, "").order().iter().map(|arm| format!("{arm:?}")).collect();
    Ok(Planned { error: BOOTS_ERROR, order, decides, design, plan })
}

/// How long the measuring alone takes, in minutes.
fn minutes(design: &BootsDesign) -> u64 {
    let a_boot = design.settle_ms + design.windows as u64 * design.window_ms;
    (a_boot * design.boots as u64).div_ceil(60_000)
}

/// What is going to happen; `again` is what the command line needs to find the same state.
pub(super) fn words(planned: &Planned, again: &str) -> String {
    let design = &planned.design;
    let boots = design.boots;
    let who = if design.reboots {
        "This machine reboots by itself, now and after each boot's measuring."
    } else {
        "Nothing reboots by itself: after each boot's measuring it waits until you reboot."
    };
    let assumed = match boots {
        BOOTS_BLOCK => ", if what a boot does to the number by chance is normal, and 1 in 3 if it has another shape",
        _ => "",
    };
    format!(
        "{boots} boots, {} (seed {}); each is left alone for {} s and then measured in {} windows of {} ms: {} min, and the boots themselves.\n\
         {}{who}\n\
         A claim over {boots} boots is wrong up to {:.0} times in 100{assumed}. At most {} boots in all; then everything is put back.\n\
         How far it is: evenkeel prove boots status{again}. End it: evenkeel prove boots cancel{again}, or evenkeel revert{again}.\n",
        planned.order,
        design.seed,
        design.settle_ms / 1000,
        design.windows,
        design.window_ms,
        minutes(design),
        planned.decides.words(),
        planned.error * 100.0,
        boots + EXTRA_BOOTS,
    )
}
