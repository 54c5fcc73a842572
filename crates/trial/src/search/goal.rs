//! `GoalFile`: the set that a search found, as a plan for `evenkeel apply` that includes the evidence.
//! With the goal file, the set can be checked again later, on another machine or another kernel.

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

/// The value of `format` in the evidence.
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
    /// The number of the format.
    pub format: u64,
    /// When the file was written, in UTC.
    pub written: String,
    /// The primary metric, which decided.
    pub metric: Metric,
    /// The smallest effect that matters, as a share.
    pub smallest_effect_ratio: f64,
    /// The confidence of all claims together.
    pub confidence: f64,
    /// Metrics that the set must not make worse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guard>,
    /// The length of a window in milliseconds.
    pub window_ms: u64,
    /// The settle time after each switch, in milliseconds.
    pub settle_ms: u64,
    /// The settle time of each kind of switch. Empty if the user gave the settle time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settles: Vec<ClassSettle>,
    /// The seed of all random orders.
    pub seed: u64,
    /// The server and its load, to run the same workload again.
    pub workload: WorkloadSpec,
    /// The workload in words.
    pub workload_words: String,
    /// The machine on which the set was found.
    pub host: HostWords,
    /// The answer of the search.
    pub answer: Answer,
}

/// A workload with its options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkloadSpec {
    /// The name of the workload.
    pub name: String,
    /// The number of players or connections. None if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub players: Option<u32>,
    /// How CPUs are assigned to server and load: apart, together, or free.
    pub placement: String,
    /// The settings of the workload itself, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// The user's command, if the workload is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The arguments for these options, in shell syntax. Empty if none were given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
}

/// The machine, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostWords {
    /// The release of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The model name of the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// The number of online CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// The name of the hypervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The name of the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    /// The instance type in that cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
}

/// Why a text is not a goal file. Each message but that of `Setting` continues a sentence that begins with "failed to".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// The file is not a plan.
    #[error(transparent)]
    Plan(#[from] PlanFileError),
    /// The file is a plan without evidence, or its evidence is invalid.
    #[error("read the goal: {}", self.cause())]
    Text(String),
    /// A newer version wrote the file.
    #[error("read the goal: {}", self.cause())]
    Format(u64),
    /// The plan names a setting that this program does not know.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl GoalError {
    /// The error without "read a goal file", for callers that name the file themselves.
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
    /// Fails if the text is not a goal file, or has an unknown format.
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
    /// No error is expected, because every field is plain data.
    pub fn text(&self) -> Result<String, GoalError> {
        serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(|error| GoalError::Text(error.to_string()))
    }

    /// The settings of the plan, checked as if a user had entered them.
    ///
    /// # Errors
    /// Returns the first invalid setting.
    pub fn settings(&self) -> Result<Vec<Setting>, GoalError> {
        Ok(self.plan.settings()?)
    }

    /// The differences between `now` and the machine on which the set was found. A fact that is missing in both is no difference.
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

    /// The options to start the workload again. The caller adds the options that the file does not contain.
    ///
    /// # Errors
    /// Fails if the placement is invalid.
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
    /// The description of a machine with these facts.
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
