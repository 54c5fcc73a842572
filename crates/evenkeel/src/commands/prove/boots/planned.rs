//! The plan of `prove boots start`, for people and programs.

use std::time::Duration;

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
use crate::times;

/// The planned trial.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Planned {
    #[serde(serialize_with = "without_what_decides")]
    #[schemars(schema_with = "design_schema")]
    pub(super) design: BootsDesign,
    decides: Decides,
    order: String,
    error: f64,
    pub(super) plan: PlanFile,
}

const IN_DECIDES: [&str; 3] = ["metric", "guards", "smallest_effect_ratio"];

/// The schema of the output of [`without_what_decides`].
fn design_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = <BootsDesign as schemars::JsonSchema>::json_schema(generator);
    if let Some(properties) = schema.get_mut("properties").and_then(|fields| fields.as_object_mut()) {
        properties.retain(|name, _| !IN_DECIDES.contains(&name.as_str()));
    }
    if let Some(required) = schema.get_mut("required").and_then(|names| names.as_array_mut()) {
        required.retain(|name| !IN_DECIDES.iter().any(|of| name == of));
    }
    schema
}

/// Writes the design without the metric and the guards. The field `decides` contains them, if they are known.
fn without_what_decides<S: Serializer>(design: &BootsDesign, serializer: S) -> Result<S::Ok, S::Error> {
    let mut design = serde_json::to_value(design).map_err(S::Error::custom)?;
    if let Some(fields) = design.as_object_mut() {
        fields.retain(|name, _| !IN_DECIDES.contains(&name.as_str()));
    }
    design.serialize(serializer)
}

/// The primary metric and the guards.
/// Before the workload has run, evenkeel knows only the metrics that the options name.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct Decides {
    /// The name of the primary metric; absent if it is the workload's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    /// The smallest effect on the primary metric that matters, as a share.
    smallest_effect_ratio: f64,
    /// The smallest effect that matters if the workload's default metric is a lateness or a jitter.
    /// Absent if one value applies to all metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    smallest_effect_ratio_of_lateness: Option<f64>,
    guards: Vec<MayVeto>,
}

/// A metric that may not get worse.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(crate) struct MayVeto {
    /// The name of the metric. Absent for the tail of the primary metric, which is a guard if the workload measures it.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<String>,
    harm_ratio: f64,
}

impl Decides {
    /// Takes the values from the design of a trial whose workload has run once.
    pub(super) fn from_design(design: &BootsDesign) -> Decides {
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

    /// Takes the values from the options, for a workload that has not run yet.
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

    /// The primary metric and the guards, as lines of text.
    fn words(&self) -> String {
        let what = self.metric.as_deref().unwrap_or("the default metric of the workload (--metric changes it)");
        let of_lateness = self
            .smallest_effect_ratio_of_lateness
            .map_or_else(String::new, |ratio| format!(" ({} for a lateness or jitter)", share(ratio)));
        let mut lines = format!(
            "Deciding metric: {what}. Changes from {}{of_lateness} matter.\n",
            share(self.smallest_effect_ratio)
        );
        for guard in &self.guards {
            let what =
                guard.metric.as_deref().unwrap_or("the p99 of the deciding metric, if the workload measures it,");
            lines += &format!("Guard: {what} must not be {} worse in every boot of B.\n", share(guard.harm_ratio));
        }
        if self.guards.is_empty() {
            lines += "No guard.\n";
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
        let cause = "no setting needs a reboot, and a comparison over boots is far less precise";
        return Err(Failure::text(exit::WRONG_USE, "prove it over boots", cause)
            .hint("`evenkeel prove KNOB=VALUE` compares it without a reboot"));
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
            format!("{}={} is active already, so there is nothing to compare", planned.step.knob, planned.step.wanted);
        return Err(Failure::text(exit::NOT_POSSIBLE, "prove it over boots", cause));
    }
    let order = BootsState::begin(design.clone(), 0, "").order().iter().map(|arm| format!("{arm:?}")).collect();
    Ok(Planned { error: BOOTS_ERROR, order, decides, design, plan })
}

/// The duration of the settling and of the windows of all boots, in minutes.
fn minutes(design: &BootsDesign) -> u64 {
    let a_boot = design.settle_ms + design.windows as u64 * design.window_ms;
    (a_boot * design.boots as u64).div_ceil(60_000)
}

/// The plan and the next steps as text. `again` is the option that selects the same state directory.
pub(super) fn words(planned: &Planned, again: &str) -> String {
    let design = &planned.design;
    let boots = design.boots;
    let who = if design.reboots {
        "This machine reboots automatically, now and after the measurement of each boot."
    } else {
        "After the measurement of each boot, evenkeel waits until you reboot."
    };
    let assumed = match boots {
        BOOTS_BLOCK => " if the noise between boots is normal, and up to 1 in 3 otherwise",
        _ => "",
    };
    format!(
        "{boots} boots in the order {} (seed {}). Each settles for {} and is then measured in {} windows of {}: {} min in total, plus the boots themselves.\n\
         {}{who}\n\
         A verdict from {boots} boots is wrong in up to {:.0} % of trials{assumed}. After at most {} boots, evenkeel restores all settings.\n\
         Progress: evenkeel prove boots status{again}. Cancel: evenkeel prove boots cancel{again}, or evenkeel revert{again}.\n",
        planned.order,
        design.seed,
        times::words(Duration::from_millis(design.settle_ms)),
        design.windows,
        times::words(Duration::from_millis(design.window_ms)),
        minutes(design),
        planned.decides.words(),
        planned.error * 100.0,
        boots + EXTRA_BOOTS,
    )
}
