//! `Caveat`: the caveats of a session, each with its figures for programs and a sentence for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::arm::ArmName;
use crate::outcome::Outcome;
use crate::words::{as_change, percent};

/// A reason to question an answer, or a limit of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the sentences below say what the figures are")]
pub enum Caveat {
    /// A setting already had the requested value before anything was switched.
    SameAlready { what: String },
    /// The trial failed after `pairs` of `of` pairs.
    Failed { why: String, pairs: usize, of: usize },
    /// The A/A phase claimed a difference.
    ControlClaimed { verdict: Outcome },
    /// The server got no CPU in some windows: `with` of them had the settings, `without` had not.
    NoCpu { with: usize, without: usize },
    /// Some windows of only one arm had no value.
    NoValue { arm: ArmName, windows: usize },
    /// The verdict is *not engaged*. The knob is missing if only one was tried.
    #[serde(alias = "not-at-work")]
    NotEngaged { knob: Option<String>, why: String },
    /// A counter did not change, but the setting may still act in another way.
    MechanismUnseen { knob: Option<String>, why: String },
    /// A knob acts on idle CPUs, and they were busy.
    BusyForIdleKnob { knob: Option<String>, busy_share: f64 },
    /// A guard got worse, so B is rejected.
    GuardWorse { metric: String },
    /// It is unknown whether a guard got worse.
    #[serde(alias = "guard-untold")]
    GuardUnknown { metric: String, harm_ratio: f64 },
    /// An arm left the session because a guard got worse.
    LeftByHarm { guard: String },
    /// The time budget was used up after `pairs` out of `of` pairs.
    OutOfTime { pairs: usize, of: usize },
    /// Too many pairs were dropped, so only `pairs` out of `of` count.
    OutOfSpares { pairs: usize, of: usize },
    /// The user stopped the session.
    Stopped { pairs: usize, of: usize },
    /// The session was killed before its end.
    CutOff { pairs: usize, of: usize },
    /// Many pairs were dropped: `dropped` out of `tried`, counted by reason.
    Dropped { dropped: usize, tried: usize, reasons: BTreeMap<String, usize> },
    /// Another program wrote a setting during the trial.
    Changed { what: String, windows: usize },
    /// There are too few pairs for an interval.
    TooFewPairs { pairs: usize },
    /// The settle time is too short, perhaps because the budget had no room for a longer one.
    Unsettled { settle_ms: u64 },
    /// The settle time is a guess, because it was not measured.
    SettleGuessed { settle_ms: u64, why: String },
    /// Another trial ran at the same time.
    ConcurrentTrial { who: String, windows: usize, of: usize },
    /// Several other trials ran on the machine. The caveats name only some of these.
    ConcurrentTrials { more: usize },
    /// In the median window, the hypervisor took this share of CPU time.
    Steal { share: f64 },
    /// The kernel did not report how long tasks waited for CPUs.
    NoPressure,
    /// In the median window, other processes used this share of the CPU time.
    OthersBusy { share: f64 },
    /// In the median window, tasks waited for a CPU for this share of the time.
    Pressure { share: f64 },
    /// In the median window, the server used all of a CPU, or of all CPUs.
    ServerFull { share: f64 },
    /// The metric has the same value in each window, so it can't show an effect.
    Constant { metric: String, value: f64 },
    /// A quantile is computed from few ticks per window.
    FewTicks { metric: String, ticks: u64 },
    /// The session ended as soon as a difference was clear. The nearest end of the interval is less than half of the estimate.
    StoppedEarly { ratio: f64, nearest_ratio: f64, pairs: usize },
    /// The estimated effect of a claim is smaller than the smallest effect that the run could detect.
    BelowDetectable { ratio: f64, detectable_ratio: f64 },
    /// The noise of single pairs is several times the smallest effect that matters.
    WideNoise { noise_ratio: f64, smallest_effect_ratio: f64 },
    /// Something else, from the workload or the files of the session.
    Other { what: String },
}

fn windows_of(count: usize) -> String {
    format!("{count} {}", if count == 1 { "window" } else { "windows" })
}

fn windows(count: usize, what: &str) -> String {
    format!("{} {what}", windows_of(count))
}

fn named(knob: Option<&String>) -> &str {
    knob.map_or("the knob", String::as_str)
}

/// Prints one sentence, without a full stop.
impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of_session().or_else(|| self.of_knobs()).unwrap_or_else(|| self.of_noise()))
    }
}

impl Caveat {
    fn of_session(&self) -> Option<String> {
        Some(match self {
            Caveat::SameAlready { what } | Caveat::Other { what } => what.clone(),
            Caveat::Failed { why, pairs, of } => format!("the trial failed after {pairs} of {of} pairs: {why}"),
            Caveat::ControlClaimed { verdict } => format!(
                "the A/A check reported {verdict}: one window affects the next, or this machine is too noisy; do not trust this run"
            ),
            Caveat::NoCpu { with, without } => no_cpu(*with, *without),
            Caveat::NoValue { arm, windows } => {
                let with = if *arm == ArmName::A { "without" } else { "with" };
                format!(
                    "{windows} windows {with} the settings have no value, and every other window has one: the estimate leaves out what the settings did there"
                )
            }
            Caveat::OutOfTime { pairs, of } => format!("the budget ended after {pairs} of at most {of} pairs"),
            Caveat::OutOfSpares { pairs, of } => {
                format!("only {pairs} of {of} pairs count: too many pairs were dropped")
            }
            Caveat::Stopped { pairs, of } => format!("stopped after {pairs} of {of} pairs"),
            Caveat::CutOff { pairs, of } => format!("killed after {pairs} of {of} pairs"),
            Caveat::Dropped { dropped, tried, reasons } => {
                let whys: Vec<String> = reasons.iter().map(|(kind, count)| format!("{kind} in {count}")).collect();
                format!("{dropped} of {tried} pairs were dropped: {}", whys.join("; "))
            }
            Caveat::TooFewPairs { pairs } => format!("{pairs} pairs are too few for a confidence interval"),
            Caveat::Unsettled { settle_ms } => format!(
                "the metric still moved {settle_ms} ms after a switch, so the previous arm may affect a window; use a longer --settle"
            ),
            Caveat::SettleGuessed { settle_ms, why } => format!("the settle time of {settle_ms} ms is a guess: {why}"),
            _ => return None,
        })
    }

    fn of_knobs(&self) -> Option<String> {
        Some(match self {
            Caveat::NotEngaged { knob, why } => format!("{} was not engaged: {why}", named(knob.as_ref())),
            Caveat::MechanismUnseen { knob, why } => format!(
                "no counter shows that {} was engaged ({why}); it may still act in another way",
                named(knob.as_ref())
            ),
            Caveat::BusyForIdleKnob { knob, busy_share } => format!(
                "{} acts on idle CPUs, and the CPUs were {:.0} % busy: under less load its effect may be larger",
                named(knob.as_ref()),
                busy_share * 100.0
            ),
            Caveat::GuardWorse { metric } => format!("the guard {metric} got worse"),
            Caveat::GuardUnknown { metric, harm_ratio } => {
                format!("too little data to check the guard {metric} (limit {:.0} % worse)", harm_ratio * 100.0)
            }
            Caveat::LeftByHarm { guard } => {
                format!(
                    "this arm left the trial when the guard {guard} got worse: its effect on the metric stays undecided"
                )
            }
            Caveat::Changed { what, windows } => format!(
                "another program changed a setting of the trial in {} (first: {what}); it would also undo the setting after the trial",
                windows_of(*windows)
            ),
            _ => return None,
        })
    }

    fn of_noise(&self) -> String {
        match self {
            Caveat::ConcurrentTrial { who, windows, of } => {
                format!("another trial ({who}) ran during {windows} of {of} windows: each disturbs the other")
            }
            Caveat::ConcurrentTrials { more } => {
                format!("{more} more trials ran during some of the windows")
            }
            Caveat::Steal { share } => {
                format!("the hypervisor took {:.0} % of the CPU time in the median window (steal)", share * 100.0)
            }
            Caveat::NoPressure => {
                "/proc/pressure is not readable here, so evenkeel could not watch how long tasks waited for a CPU"
                    .to_owned()
            }
            Caveat::OthersBusy { share } => format!(
                "other processes, including your load, kept the CPUs {:.0} % busy in the median window: the result holds for the server next to them",
                share * 100.0
            ),
            Caveat::Pressure { share } => format!(
                "tasks waited for a CPU during {:.0} % of the median window (/proc/pressure/cpu), perhaps the server too",
                share * 100.0
            ),
            Caveat::ServerFull { share } => format!(
                "the server used {:.0} % of a CPU in the median window: near its limit, small changes of the machine cause large changes of latency",
                share * 100.0
            ),
            Caveat::Constant { metric, value } => format!(
                "{metric} is {value} in every window, whatever the settings: it may not follow the server, or its steps may be too coarse; check where it comes from, or choose another with --metric"
            ),
            Caveat::FewTicks { metric, ticks } => format!(
                "{metric} has only {ticks} ticks per window, too few for this quantile; use longer windows (--window) or a median"
            ),
            Caveat::StoppedEarly { ratio, nearest_ratio, pairs } => format!(
                "the trial stopped after {pairs} pairs, as soon as a difference was clear: the estimate ({}) is probably too large; the end of the confidence interval next to no effect is {}",
                as_change(*ratio),
                as_change(*nearest_ratio)
            ),
            Caveat::BelowDetectable { ratio, detectable_ratio } => format!(
                "the estimate ({}) is below the smallest detectable difference of this run ({}): there is a difference, but its size is uncertain",
                as_change(*ratio),
                percent(*detectable_ratio)
            ),
            Caveat::WideNoise { noise_ratio, smallest_effect_ratio } => format!(
                "single pairs differ by {}, {:.0} times the smallest effect that matters: an effect can be hidden or look smaller; measure at a quieter time, or use longer windows",
                percent(*noise_ratio),
                noise_ratio / smallest_effect_ratio
            ),
            // The sentences of these kinds are printed above. This list makes the compiler report a kind without a sentence.
            Caveat::SameAlready { .. }
            | Caveat::Other { .. }
            | Caveat::Failed { .. }
            | Caveat::ControlClaimed { .. }
            | Caveat::NoCpu { .. }
            | Caveat::NoValue { .. }
            | Caveat::OutOfTime { .. }
            | Caveat::OutOfSpares { .. }
            | Caveat::Stopped { .. }
            | Caveat::CutOff { .. }
            | Caveat::Dropped { .. }
            | Caveat::TooFewPairs { .. }
            | Caveat::Unsettled { .. }
            | Caveat::SettleGuessed { .. }
            | Caveat::NotEngaged { .. }
            | Caveat::MechanismUnseen { .. }
            | Caveat::BusyForIdleKnob { .. }
            | Caveat::GuardWorse { .. }
            | Caveat::GuardUnknown { .. }
            | Caveat::LeftByHarm { .. }
            | Caveat::Changed { .. } => String::new(),
        }
    }
}

fn no_cpu(with: usize, without: usize) -> String {
    let (with_words, without_words) = (windows(with, "with the settings"), windows(without, "without them"));
    let words = |first: &str, rest: &str| {
        format!("the server got no CPU in {first} and {rest}, so these windows have no value: ")
    };
    match (with, without) {
        (0, 2..) => {
            words(&windows(without, "without the settings"), "in none with them")
                + "the settings may have given it CPU time, so the other windows can't show that the settings do nothing or harm"
        }
        (2.., 0) => {
            words(&with_words, "in none without them")
                + "the settings may have taken its CPU time, so the other windows can't show that the settings help or do nothing"
        }
        _ => {
            words(&with_words, &without_words)
                + "something else uses its CPU at times (`evenkeel measure gaps` shows what)"
        }
    }
}

/// The JSON of a caveat: its figures and its sentence.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct WithText<'a> {
    #[serde(flatten)]
    caveat: &'a Caveat,
    text: String,
}

/// Caveats in answers: the kind, the figures, and the sentence as `text`.
pub(crate) fn with_text<S: Serializer>(caveats: &[Caveat], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(caveats.iter().map(|caveat| WithText { caveat, text: caveat.to_string() }))
}
