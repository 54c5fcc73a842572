//! `Caveat`: what a sceptic should know of a session, each with its figures. Everything that decides by one has the figures; people have its sentence.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::arm::ArmName;
use crate::outcome::Outcome;
use crate::words::{as_change, percent};

/// What speaks against believing an answer, or limits what it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the sentences below say what the figures are")]
pub enum Caveat {
    /// A setting was in force before anything was switched.
    SameAlready { what: String },
    /// The trial failed on the way.
    Failed { why: String, pairs: usize, of: usize },
    /// The A/A phase claimed a difference.
    ControlClaimed { verdict: Outcome },
    /// The server was given no CPU in some windows.
    NoCpu { with: usize, without: usize },
    /// Windows of one arm alone had no value.
    NoValue { arm: ArmName, windows: usize },
    /// The verdict is *not engaged*; the knob is missing where there is but one.
    #[serde(rename = "not-at-work")]
    NotEngaged { knob: Option<String>, why: String },
    /// A counter stood still, and another path is not excluded.
    MechanismUnseen { knob: Option<String>, why: String },
    /// A knob acts on idle CPUs, and they were busy.
    BusyForIdleKnob { knob: Option<String>, busy_share: f64 },
    /// A guard got worse.
    GuardWorse { metric: String },
    /// Whether a guard got worse is not known.
    GuardUntold { metric: String, harm_ratio: f64 },
    /// An arm left the session for a guard.
    LeftByHarm { guard: String },
    /// The budget was over.
    OutOfTime { pairs: usize, of: usize },
    /// Too many pairs were dropped.
    OutOfSpares { pairs: usize, of: usize },
    /// The user stopped it.
    Stopped { pairs: usize, of: usize },
    /// It was killed.
    CutOff { pairs: usize, of: usize },
    /// Many pairs were dropped, by what befell them.
    Dropped { dropped: usize, tried: usize, reasons: BTreeMap<String, usize> },
    /// Somebody else wrote a setting.
    Changed { what: String, windows: usize },
    /// No interval can be had of so few pairs.
    TooFewPairs { pairs: usize },
    /// The settle time is too short, or the budget had no room for a longer one.
    Unsettled { settle_ms: u64 },
    /// The settle time is a guess.
    SettleGuessed { settle_ms: u64, why: String },
    /// Another trial ran at the same time.
    ConcurrentTrial { who: String, windows: usize, of: usize },
    /// So many further ones did.
    ConcurrentTrials { more: usize },
    /// The hypervisor took CPU time in the median window.
    Steal { share: f64 },
    /// Waiting for CPUs could not be watched.
    NoPressure,
    /// Other processes kept the CPUs busy in the median window.
    OthersBusy { share: f64 },
    /// Tasks waited for a CPU in the median window.
    Pressure { share: f64 },
    /// The server used all of a CPU, or of all CPUs, in the median window.
    ServerFull { share: f64 },
    /// A quantile of few ticks a window.
    FewTicks { metric: String, ticks: u64 },
    /// It ended as soon as a difference was clear, and the interval reaches to less than half of the estimate.
    StoppedEarly { ratio: f64, nearest_ratio: f64, pairs: usize },
    /// The estimate of a claim is smaller than what the run could detect.
    BelowDetectable { ratio: f64, detectable_ratio: f64 },
    /// Single pairs differ by many times the effect that matters.
    WideNoise { noise_ratio: f64, smallest_effect_ratio: f64 },
    /// Something else, from the workload or the files of the session.
    Other { what: String },
}

fn windows(count: usize, what: &str) -> String {
    format!("{count} {} {what}", if count == 1 { "window" } else { "windows" })
}

fn named(knob: Option<&String>) -> &str {
    knob.map_or("the knob", String::as_str)
}

/// One sentence, without a full stop.
impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of_session().or_else(|| self.of_knobs()).unwrap_or_else(|| self.of_noise()))
    }
}

impl Caveat {
    fn of_session(&self) -> Option<String> {
        Some(match self {
            Caveat::SameAlready { what } | Caveat::Other { what } => what.clone(),
            Caveat::Failed { why, pairs, of } => format!("it failed after {pairs} of {of} pairs: {why}"),
            Caveat::ControlClaimed { verdict } => format!(
                "the machine compared with itself was called {verdict}: something carries over from one window to the next, or the machine \
                 is too unsteady; do not trust this run"
            ),
            Caveat::NoCpu { with, without } => no_cpu(*with, *without),
            Caveat::NoValue { arm, windows } => {
                let with = if *arm == ArmName::A { "without" } else { "with" };
                format!(
                    "{windows} windows {with} the settings had no value to compare, and none of the others: what the settings did there is in no number"
                )
            }
            Caveat::OutOfTime { pairs, of } => format!("the time was over after {pairs} of at most {of} pairs"),
            Caveat::OutOfSpares { pairs, of } => {
                format!("only {pairs} of {of} pairs count: the spare ones were used up")
            }
            Caveat::Stopped { pairs, of } => format!("it was stopped after {pairs} of {of} pairs"),
            Caveat::CutOff { pairs, of } => format!("it was cut off after {pairs} of {of} pairs"),
            Caveat::Dropped { dropped, tried, reasons } => {
                let whys: Vec<String> = reasons.iter().map(|(kind, count)| format!("{kind} in {count}")).collect();
                format!("{dropped} of {tried} pairs were dropped: {}", whys.join("; "))
            }
            Caveat::TooFewPairs { pairs } => format!("{pairs} pairs are too few for an interval at this confidence"),
            Caveat::Unsettled { settle_ms } => format!(
                "{settle_ms} ms after a switch the number still moved: a window may carry something of the other arm; ask for a longer \
                 settle time"
            ),
            Caveat::SettleGuessed { settle_ms, why } => format!("the settle time of {settle_ms} ms is a guess: {why}"),
            _ => return None,
        })
    }

    fn of_knobs(&self) -> Option<String> {
        Some(match self {
            Caveat::NotEngaged { knob, why } => format!("{} was not at work: {why}", named(knob.as_ref())),
            Caveat::MechanismUnseen { knob, why } => format!(
                "the mechanism of {} was not seen ({why}); an effect by another path is not excluded",
                named(knob.as_ref())
            ),
            Caveat::BusyForIdleKnob { knob, busy_share } => format!(
                "{} acts where CPUs idle, and they were {:.0} % busy: with less to do it may do more",
                named(knob.as_ref()),
                busy_share * 100.0
            ),
            Caveat::GuardWorse { metric } => format!("{metric} got worse"),
            Caveat::GuardUntold { metric, harm_ratio } => {
                format!("whether {metric} is {:.0} % worse could not be told", harm_ratio * 100.0)
            }
            Caveat::LeftByHarm { guard } => {
                format!("it had no further windows once {guard} was harmed: what it does otherwise was left open")
            }
            Caveat::Changed { what, windows } => format!(
                "somebody else wrote a setting of the trial in {windows} of its windows, first {what}: an agent that keeps settings would undo it for good too"
            ),
            _ => return None,
        })
    }

    fn of_noise(&self) -> String {
        match self {
            Caveat::ConcurrentTrial { who, windows, of } => format!(
                "another trial, {who}, ran at the same time for {windows} of {of} windows: each is noise to the other"
            ),
            Caveat::ConcurrentTrials { more } => {
                format!("{more} further trials ran at the same time for some of the windows")
            }
            Caveat::Steal { share } => {
                format!("{:.0} % of CPU time was stolen by the hypervisor in the median window", share * 100.0)
            }
            Caveat::NoPressure => "/proc/pressure is not readable here: waiting for CPUs was not watched".to_owned(),
            Caveat::OthersBusy { share } => format!(
                "other processes, your load among them, kept the CPUs {:.0} % busy in the median window: what is measured is the server beside them",
                share * 100.0
            ),
            Caveat::Pressure { share } => format!(
                "some task waited for a CPU in {:.0} % of the median window's time (/proc/pressure/cpu): the server may have been one of them",
                share * 100.0
            ),
            Caveat::ServerFull { share } => format!(
                "the server used {:.0} % of a CPU in the median window: at its limit small changes of the machine make large ones of latency",
                share * 100.0
            ),
            Caveat::FewTicks { metric, ticks } => format!(
                "{metric} rests on {ticks} ticks a window: so few have no such tail; use longer windows (--window-ms) or a median"
            ),
            Caveat::StoppedEarly { ratio, nearest_ratio, pairs } => format!(
                "it ended after {pairs} pairs, as soon as a difference was clear: such estimates ({}) are too large on average; {} is what it shows at the least",
                as_change(*ratio),
                as_change(*nearest_ratio)
            ),
            Caveat::BelowDetectable { ratio, detectable_ratio } => format!(
                "the estimate ({}) is below the smallest detectable difference of this run ({}): that there is a difference is shown, its size is not",
                as_change(*ratio),
                percent(*detectable_ratio)
            ),
            Caveat::WideNoise { noise_ratio, smallest_effect_ratio } => format!(
                "single pairs differ by {} from each other, {:.0} times the effect that matters: such noise can hide an effect, or make it look smaller; use a quieter hour or longer windows",
                percent(*noise_ratio),
                noise_ratio.ln_1p() / smallest_effect_ratio.ln_1p()
            ),
            // These have their sentences above: a kind without one does not compile.
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
            | Caveat::GuardUntold { .. }
            | Caveat::LeftByHarm { .. }
            | Caveat::Changed { .. } => String::new(),
        }
    }
}

fn no_cpu(with: usize, without: usize) -> String {
    let (with_words, without_words) = (windows(with, "with the settings"), windows(without, "without them"));
    let told =
        |first: &str, rest: &str| format!("the server was given no CPU in {first} and {rest}, which have no number: ");
    match (with, without) {
        (0, 2..) => {
            told(&windows(without, "without the settings"), "in none with them")
                + "they may be what gave it one, and the windows that are left can't show that they do nothing or harm"
        }
        (2.., 0) => {
            told(&with_words, "in none without them")
                + "they may be what took its CPU, and the windows that are left can't show that they help or do nothing"
        }
        _ => {
            told(&with_words, &without_words) + "somebody else has its CPU at times (`evenkeel measure gaps` tells who)"
        }
    }
}

/// Caveats as answers have them: the kind, the figures, and the sentence as `text`.
pub(crate) fn with_text<S: Serializer>(caveats: &[Caveat], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct WithText<'a> {
        #[serde(flatten)]
        caveat: &'a Caveat,
        text: String,
    }
    serializer.collect_seq(caveats.iter().map(|caveat| WithText { caveat, text: caveat.to_string() }))
}
