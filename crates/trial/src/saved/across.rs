//! Compares reports of several machines: the result of a setting on each machine, and whether the results agree.
//! An effect on one machine does not predict the effect on the next.
//! So a disagreement is a result, not noise, and nothing is averaged over machines.
//!
//! If the intervals of two machines do not overlap, the effect differs between the machines.
//! Each interval may miss the truth, and with more machines it is more likely that one interval does.
//! So each interval is computed again with its share of the error (Bonferroni).
//! Of equal machines, at most `1 - confidence` of the comparisons then report a difference.
//! If all intervals overlap and the machines have a common effect, the intersection contains that effect with the same confidence.

use evenkeel_stats::Pair;
use serde::{Serialize, Serializer};

use super::{RunReport, TrialEntry};
use crate::comparison::Judge;
use crate::outcome::Outcome;
use crate::report::Report;

/// If a trial has more pairs than this, the comparison uses the reported interval.
/// With more pairs than this, the smaller error hardly changes the interval.
/// This limit also keeps a file of unknown origin from using too much CPU time.
const ANEW_MAX: usize = 2_000;

/// One report among several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// The machine's name in the comparison, which is the name of its file.
    pub name: String,
    /// The cloud or the hypervisor, with the instance type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The release of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// The online CPUs, in the kernel's list form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// When the report was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// The version of the program that made the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evenkeel: Option<String>,
}

impl Machine {
    /// The description of the machine from its report.
    pub fn from_report(name: &str, saved: &RunReport) -> Machine {
        let identity = saved.trials.first().map(|entry| entry.report.identity.clone()).unwrap_or_default();
        let written = |text: String| Some(text).filter(|text| !text.is_empty());
        let known = |path: &str, otherwise: Option<String>| {
            saved.fact(path).or(otherwise).filter(|text| text != "none" && !text.is_empty())
        };
        let cloud = known("/machine/cloud", identity.cloud);
        let host = cloud.or_else(|| known("/machine/hypervisor", identity.hypervisor));
        let instance: Vec<String> =
            host.into_iter().chain(known("/machine/instance_type", identity.instance)).collect();
        Machine {
            name: name.to_owned(),
            instance: (!instance.is_empty()).then(|| instance.join(" ")),
            kernel: known("/kernel/release", identity.kernel),
            processor: known("/cpus/model", identity.processor),
            cpus: known("/cpus/online", identity.cpus),
            taken: saved.taken.clone().or_else(|| written(identity.begun)),
            evenkeel: saved.evenkeel.clone().or_else(|| written(identity.evenkeel)),
        }
    }
}

/// The reports of several machines, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Across {
    /// The machines, in the order in which they were given.
    pub machines: Vec<Machine>,
    /// The questions of all reports, in the order of their first appearance.
    pub asked: Vec<Asked>,
}

/// One question: the effect of a setting on a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Asked {
    /// The setting, as `KNOB=VALUE …`.
    pub knob: String,
    /// Whether both arms were the unchanged machine, as a check of the method.
    pub control: bool,
    /// The metric's name.
    pub metric: String,
    /// The metric's title for people.
    pub title: String,
    /// The largest of the machines' smallest effects that matter. None if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smallest_effect_ratio: Option<f64>,
    /// One cell for each machine that measured this question.
    pub cells: Vec<Cell>,
    /// Whether the machines agree.
    pub agreement: Agreement,
    /// Reasons why the machines can't be compared directly.
    pub caveats: Vec<AcrossCaveat>,
}

/// Why machines can't be compared directly. The JSON form is the sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(from = "String", into = "String"))]
pub enum AcrossCaveat {
    /// The workloads of the machines differ.
    #[error("the workloads differ, which may cause the difference between the machines")]
    Workloads,
    /// The reports have different smallest effects that matter.
    #[error("the reports used different values for the smallest effect that matters")]
    SmallestEffects,
}

impl Serialize for AcrossCaveat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The result of one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// The machine, by its index in [`Across::machines`].
    pub machine: usize,
    /// The machine's verdict.
    pub verdict: Outcome,
    /// The estimated ratio of B to A. None if nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The two ends of the interval. None unless both are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The guard that changed the verdict from *better* to *worse*. None if no guard did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vetoed_by: Option<String>,
    /// The number of counted pairs.
    pub pairs: usize,
    /// The number of caveats in the report.
    pub caveats: usize,
    /// The workload as text.
    pub workload: String,
}

/// Whether machines agree on a setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Fewer than two machines have an interval.
    TooFew,
    /// All intervals overlap. `low` and `high` are the ends of their common range.
    Agree {
        /// The lower end of the common range, as a ratio.
        low: f64,
        /// The upper end of the common range, as a ratio.
        high: f64,
        /// The confidence that this range contains the common effect, if the machines have a common effect.
        confidence: f64,
    },
    /// The effect differs between machines.
    Differ {
        /// The pairs of machines whose intervals do not overlap, by index. The machine with the lower effect comes first.
        apart: Vec<(usize, usize)>,
        /// One minus the probability that a comparison of equal machines reports a difference.
        confidence: f64,
    },
}

/// Compares reports. Each report comes with the name of its machine.
pub fn across(reports: &[(String, RunReport)]) -> Across {
    let machines = reports.iter().map(|(name, saved)| Machine::from_report(name, saved)).collect();
    let mut groups: Vec<Vec<(usize, &TrialEntry)>> = Vec::new();
    for (machine, (_, saved)) in reports.iter().enumerate() {
        for trial in &saved.trials {
            match groups.iter_mut().find(|group| is_one_question(group[0].1, trial)) {
                Some(group) => group.push((machine, trial)),
                None => groups.push(vec![(machine, trial)]),
            }
        }
    }
    Across { machines, asked: groups.iter().map(|group| asked(group)).collect() }
}

fn is_one_question(one: &TrialEntry, other: &TrialEntry) -> bool {
    one.control == other.control
        && one.knob == other.knob
        && one.report.metric.name == other.report.metric.name
        && one.report.metric.better == other.report.metric.better
}

fn asked(group: &[(usize, &TrialEntry)]) -> Asked {
    let first = group[0].1;
    let lines = group.iter().map(|(_, trial)| trial.report.design.smallest_effect_ratio);
    Asked {
        knob: first.knob.clone(),
        control: first.control,
        metric: first.report.metric.name.to_string(),
        title: first.report.metric.title.to_string(),
        smallest_effect_ratio: lines.reduce(f64::max),
        cells: group.iter().map(|(machine, trial)| cell(*machine, trial)).collect(),
        agreement: agreement(group),
        caveats: caveats(group),
    }
}

fn cell(machine: usize, trial: &TrialEntry) -> Cell {
    Cell {
        machine,
        verdict: trial.report.verdict,
        ratio: trial.report.effect.map(|effect| effect.ratio),
        interval: trial.report.effect.and_then(|effect| effect.ends()),
        vetoed_by: trial.report.vetoed_by.clone(),
        pairs: trial.report.pairs,
        caveats: trial.report.caveats.len(),
        workload: trial.report.workload.clone(),
    }
}

/// If a setting was never engaged on a machine, the machine's result shows nothing about the setting.
/// So such a machine neither agrees nor differs.
fn agreement(group: &[(usize, &TrialEntry)]) -> Agreement {
    let heard: Vec<(usize, &TrialEntry)> =
        group.iter().filter(|(_, trial)| trial.report.verdict != Outcome::NotEngaged).copied().collect();
    let mut intervals = Vec::new();
    let mut error = 0.0;
    for (machine, trial) in &heard {
        let Some((interval, missed)) = interval(trial, heard.len()) else { continue };
        intervals.push((*machine, interval));
        error += missed;
    }
    if intervals.len() < 2 {
        return Agreement::TooFew;
    }
    let confidence = (1.0 - error).max(0.0);
    let mut apart = Vec::new();
    for (one, (_, high)) in &intervals {
        let above = intervals.iter().filter(|(_, (low, _))| low > high);
        apart.extend(above.map(|(other, _)| (*one, *other)));
    }
    match apart.is_empty() {
        // If all pairs of intervals overlap, all intervals have a point in common.
        true => {
            let low = intervals.iter().map(|(_, (low, _))| *low).fold(0.0, f64::max);
            let high = intervals.iter().map(|(_, (_, high))| *high).fold(f64::INFINITY, f64::min);
            Agreement::Agree { low, high, confidence }
        }
        false => Agreement::Differ { apart, confidence },
    }
}

/// The interval of a trial with its share of the error, and the error of that interval.
/// The interval is computed from the trial's windows if possible. Otherwise it is taken from the report with the report's own error.
fn interval(trial: &TrialEntry, among: usize) -> Option<((f64, f64), f64)> {
    let effect = trial.report.effect?;
    let share = (1.0 - effect.confidence) / among.max(1) as f64;
    let anew = anew(trial, 1.0 - share);
    match anew.filter(|(low, high)| *low > 0.0 && high.is_finite()) {
        Some(interval) => Some((interval, share)),
        None => Some((effect.ends()?, 1.0 - effect.confidence)),
    }
}

/// Computes the interval from the trial's pairs again. It uses the test that the trial used: one test at the end, or a test after every pair.
fn anew(trial: &TrialEntry, confidence: f64) -> Option<(f64, f64)> {
    let Report { metric, design, pairs, .. } = &trial.report;
    let all = trial.report.pairs_of_windows();
    let ratios = all.iter().filter(|pair| pair.ratio().is_some()).take(ANEW_MAX + 1);
    let mut judge = Judge::new(metric, 0.05, confidence, design.stop).ok()?;
    for pair in ratios {
        judge.add(Pair { a: pair.a.value, b: pair.b.value }).ok()?;
    }
    let seen = judge.look().filter(|_| judge.pairs() == *pairs && *pairs <= ANEW_MAX)?;
    Some((seen.low, seen.high))
}

fn caveats(group: &[(usize, &TrialEntry)]) -> Vec<AcrossCaveat> {
    let first = group[0].1;
    let line = first.report.design.smallest_effect_ratio;
    let workloads = group.iter().any(|(_, trial)| trial.report.workload != first.report.workload);
    let lines = group.iter().any(|(_, trial)| trial.report.design.smallest_effect_ratio != line);
    let all = [(workloads, AcrossCaveat::Workloads), (lines, AcrossCaveat::SmallestEffects)];
    all.into_iter().filter_map(|(is_so, caveat)| is_so.then_some(caveat)).collect()
}
