//! `GoalFile`: the set that a search found, as a plan for `evenkeel apply` that includes the evidence. So it can be checked again later,
//! on another machine or another kernel.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_change::{MAX_PLAN_BYTES, PlanFile, PlanFileError};
use evenkeel_host::{Fact, Facts, Setting, SettingError};
use evenkeel_hostfs::json_words;
use evenkeel_workload::{Metric, Options, Placement};
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::design::SearchDesign;
use super::settling::ClassSettle;
use crate::design::Guard;

/// The number in `format` of the evidence.
pub const GOAL_FORMAT: u64 = 1;

/// A plan with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GoalFile {
    /// The plan, as `evenkeel plan` writes it.
    #[serde(flatten)]
    pub plan: PlanFile,
    /// The evidence.
    pub evidence: Evidence,
}

/// The evidence for a set of knobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The format's number.
    pub format: u64,
    /// When it was written, UTC.
    pub written: String,
    /// The metric that decided.
    pub metric: Metric,
    /// The smallest effect that matters, as a share.
    pub smallest_effect_ratio: f64,
    /// Confidence of every claim.
    pub confidence: f64,
    /// Metrics that the set must not make worse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guard>,
    /// Length of a window in milliseconds.
    pub window_ms: u64,
    /// How long each switch settled, in milliseconds.
    pub settle_ms: u64,
    /// The settle time for each kind of switch; empty if the user gave it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settles: Vec<ClassSettle>,
    /// Seed of every order.
    pub seed: u64,
    /// The server and its load, to start them again.
    pub workload: WorkloadSpec,
    /// The workload in words.
    pub workload_words: String,
    /// The machine.
    pub host: HostWords,
    /// The result.
    pub answer: Answer,
}

/// A workload with its options, as stored in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadSpec {
    /// The metric's name.
    pub name: String,
    /// Players or connections, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub players: Option<u32>,
    /// The CPUs of server and load: apart, together, free.
    pub placement: String,
    /// The settings of the workload itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// The user's command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The arguments for all of this, in shell syntax; empty if none were given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
}

/// The machine, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostWords {
    /// The kernel's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The CPU's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// How many CPUs run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// The hypervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    /// The instance's type there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
}

/// Why a text is not a goal file. Reads well after "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// The file is not a plan.
    #[error(transparent)]
    Plan(#[from] PlanFileError),
    /// The file is a plan without evidence, or its evidence is invalid.
    #[error("read the goal: {}", self.cause())]
    Text(String),
    /// A newer program wrote it.
    #[error("read the goal: {}", self.cause())]
    Format(u64),
    /// The plan names a setting that this program does not know.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl GoalError {
    /// The error without the failed action, for callers that name the file.
    pub fn cause(&self) -> String {
        match self {
            GoalError::Plan(error) => error.cause(),
            GoalError::Text(what) => what.clone(),
            GoalError::Format(other) => {
                format!("format {other} of its evidence is not known to this evenkeel; use the one that wrote it")
            }
            GoalError::Setting(error) => error.to_string(),
        }
    }
}

impl GoalFile {
    /// Reads a goal file's text.
    ///
    /// # Errors
    /// If it is not a goal file, or has an unknown format.
    pub fn parse(text: &str) -> Result<GoalFile, GoalError> {
        if text.len() > MAX_PLAN_BYTES {
            return Err(GoalError::Text(format!("it has more than {MAX_PLAN_BYTES} bytes")));
        }
        let plan = PlanFile::parse(text)?;
        #[derive(Deserialize)]
        struct Outer {
            evidence: Option<serde_json::Value>,
        }
        let bad = |error: serde_json::Error| GoalError::Text(json_words::plain(&error));
        let outer: Outer = serde_json::from_str(text).map_err(bad)?;
        let evidence = outer.evidence.ok_or_else(|| {
            GoalError::Text(
                "it is a plan without evidence, as `evenkeel plan` writes it; `evenkeel tune` writes goals".into(),
            )
        })?;
        match evidence.get("format").and_then(serde_json::Value::as_u64) {
            Some(GOAL_FORMAT) => {}
            Some(other) => return Err(GoalError::Format(other)),
            None => return Err(GoalError::Text("its evidence has no format number".into())),
        }
        Ok(GoalFile { plan, evidence: serde_json::from_value(evidence).map_err(bad)? })
    }

    /// The text that [`GoalFile::parse`] reads.
    ///
    /// # Errors
    /// No error is known: every field is plain data.
    pub fn text(&self) -> Result<String, GoalError> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| GoalError::Text(error.to_string()))
    }

    /// Its settings, checked as if a user had typed them.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn settings(&self) -> Result<Vec<Setting>, GoalError> {
        Ok(self.plan.settings()?)
    }

    /// The differences between `now` and the machine on which the goal was found. Facts that both lack do not differ.
    pub fn differences(&self, now: &HostWords) -> Vec<String> {
        let was = &self.evidence.host;
        let word = |name: &str, was: &Option<String>, now: &Option<String>| {
            (was != now).then(|| {
                let known = |word: &Option<String>| word.clone().unwrap_or_else(|| "unknown".to_owned());
                format!("{name}: {} then, {} now", known(was), known(now))
            })
        };
        let cpus = [was, now].map(|host| host.cpus.map(|cpus| cpus.to_string()));
        [
            word("kernel", &was.kernel, &now.kernel),
            word("CPU", &was.cpu_model, &now.cpu_model),
            word("CPUs", &cpus[0], &cpus[1]),
            word("hypervisor", &was.hypervisor, &now.hypervisor),
            word("cloud", &was.cloud, &now.cloud),
            word("instance type", &was.instance_type, &now.instance_type),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Evidence {
    /// The evidence for an answer.
    pub fn new(
        design: &SearchDesign,
        workload: (WorkloadSpec, String),
        host: HostWords,
        answer: Answer,
        written: String,
    ) -> Evidence {
        let (workload, workload_words) = workload;
        Evidence {
            format: GOAL_FORMAT,
            written,
            metric: design.metric.clone(),
            smallest_effect_ratio: design.smallest_effect_ratio,
            confidence: design.confidence,
            guards: design.guards.clone(),
            window_ms: design.window_ms,
            settle_ms: design.settle_ms,
            settles: design.settles.clone(),
            seed: design.seed,
            workload,
            workload_words,
            host,
            answer,
        }
    }
}

impl WorkloadSpec {
    /// The spec of a workload that was started with these options.
    pub fn from_options(name: &str, options: &Options) -> WorkloadSpec {
        let placement = match options.placement {
            Placement::Apart => "apart",
            Placement::Together => "together",
            Placement::Free => "free",
        };
        WorkloadSpec {
            name: name.to_owned(),
            players: options.players,
            placement: placement.to_owned(),
            set: options.set.clone(),
            command: options.command.clone(),
            arguments: String::new(),
        }
    }

    /// The options to start it with again. The caller adds those that the file does not contain.
    ///
    /// # Errors
    /// If its placement is invalid.
    pub fn options(&self, programs: &Path, seed: u64) -> Result<Options, GoalError> {
        let placement = match self.placement.as_str() {
            "apart" => Placement::Apart,
            "together" => Placement::Together,
            "free" => Placement::Free,
            other => return Err(GoalError::Text(format!("placement {other:?}: expected apart, together or free"))),
        };
        Ok(Options {
            programs: programs.to_owned(),
            seed,
            players: self.players,
            placement,
            command: self.command.clone(),
            set: self.set.clone(),
            stop: Default::default(),
            tick_function: None,
            simulated: Default::default(),
        })
    }
}

impl HostWords {
    /// The machine of these facts.
    pub fn from_facts(facts: &Facts) -> HostWords {
        fn word<T: Serialize>(fact: &Fact<T>) -> Option<String> {
            match serde_json::to_value(fact.known()?).ok()? {
                serde_json::Value::String(word) => Some(word),
                other => Some(other.to_string()),
            }
        }
        HostWords {
            kernel: word(&facts.kernel.release),
            cpu_model: word(&facts.cpus.model),
            cpus: facts.cpus.online.known().map(evenkeel_sys::CpuSet::len),
            hypervisor: word(&facts.machine.hypervisor),
            cloud: word(&facts.machine.cloud),
            instance_type: word(&facts.machine.instance_type),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAN: &str = r#"{"format": 1, "evenkeel": "0.1.0", "title": "t", "settings": [], "steps": [], "evidence": "#;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, inner in "[ -~]{0,60}", number: u64) {
            let _ = GoalFile::parse(&text);
            let _ = GoalFile::parse(&format!("{PLAN}{inner}}}"));
            let _ = GoalFile::parse(&format!("{PLAN}{{\"format\": {number}, \"written\": {inner:?}}}}}"));
        }
    }
}
