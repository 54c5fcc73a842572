//! Decides how a node is drained and rebooted for its goals.
//! The record of the reboot is an annotation of the node, so an agent may die at any time, and the next agent continues.
//!
//! ```text
//! a setting waits for a reboot ─▶ Draining ─ no pod is left ─▶ Rebooting ─ another boot ─▶ Done
//!                                    │                            │                     └▶ Failed: still not in force
//!                                    └ drainSeconds are over      └ no other boot came
//!                                      ▼                            ▼
//!                                    Failed ◀───────────────────────┘
//! ```
//!
//! Each generation of a goal reboots a node once at the most, so no setting can keep a node rebooting.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::goal::RebootPolicy;
use super::names::REBOOT;
use super::state::Release;

/// The maximum time from the command until the next boot's agent has started, in seconds.
pub const REBOOT_SECONDS_MAX: i64 = 900;
/// If the host has not rebooted this many seconds after the record was written, the command is run again.
/// The agent may have died before it ran the command.
const COMMAND_AGAIN_SECONDS: i64 = 60;
/// The maximum number of pod names in a message.
const NAMES_MAX: usize = 3;
/// The maximum size of an annotation that is read, in bytes.
const RECORD_BYTES_MAX: usize = 64 << 10;

/// The last reboot of a node for its goals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RebootRecord {
    /// The phase of the reboot.
    pub phase: RebootPhase,
    /// The goals for which this node was or will be rebooted, each with its generation.
    pub goals: Vec<Release>,
    /// The id of the host's boot before the reboot.
    pub boot: String,
    /// When the phase began, in seconds since 1970.
    pub since: i64,
    /// Whether another user had cordoned the node before. Then it stays cordoned.
    pub was_cordoned: bool,
    /// Why the reboot failed, or what it waits for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The phase of a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebootPhase {
    /// The node takes no new pods, and its pods are evicted.
    Draining,
    /// The command that reboots the host was run.
    Rebooting,
    /// The node has rebooted, and the goals are in force.
    Done,
    /// The node was not rebooted, or the goals are not in force after the reboot.
    Failed,
}

impl RebootPhase {
    /// Whether the node is drained or rebooted now.
    pub fn is_under_way(self) -> bool {
        matches!(self, RebootPhase::Draining | RebootPhase::Rebooting)
    }
}

/// Why an annotation cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the annotation {REBOOT} of this node is not what an agent wrote; remove it, and the node can be rebooted again"
)]
pub struct UnreadableRecord;

impl RebootRecord {
    /// The record in the annotations of a node; none if there is no such annotation.
    ///
    /// # Errors
    /// If the annotation is not what an agent writes.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Option<RebootRecord>, UnreadableRecord> {
        let Some(text) = annotations.get(REBOOT) else { return Ok(None) };
        if text.len() > RECORD_BYTES_MAX {
            return Err(UnreadableRecord);
        }
        serde_json::from_str(text).map(Some).map_err(|_| UnreadableRecord)
    }

    /// Whether the record is about this generation of a goal.
    pub fn is_for(&self, wanted: &Release) -> bool {
        self.goals.iter().any(|known| known.is_of(&wanted.goal, &wanted.uid) && known.generation == wanted.generation)
    }

    fn then(&self, phase: RebootPhase, now: i64, message: String) -> RebootRecord {
        RebootRecord { phase, since: now, message, ..self.clone() }
    }
}

/// A goal for which the node has to reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebootWanted {
    /// The goal, and its generation.
    pub goal: Release,
    /// How the node is drained.
    pub policy: RebootPolicy,
}

/// A pod that must end before the node reboots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainedPod {
    /// The pod's namespace and name.
    pub name: String,
    /// Whether a controller starts the pod again on another node. If not, it is not evicted: the user has to end it.
    pub is_managed: bool,
}

/// The inputs of an agent's decision.
#[derive(Clone, Debug)]
pub struct RebootView<'a> {
    /// The goals whose settings wait for a reboot, and that allow the reboot.
    pub wanted: &'a [RebootWanted],
    /// The goals of the record that are not in force, each with the reason.
    pub not_in_force: &'a [String],
    /// The last reboot.
    pub record: Option<&'a RebootRecord>,
    /// The id of the present boot.
    pub boot: &'a str,
    /// Whether the node takes no new pods.
    pub is_cordoned: bool,
    /// The pods that have to end before the reboot. `None` until they have been listed.
    pub pods: Option<&'a [DrainedPod]>,
    /// The time, in seconds since 1970.
    pub now: i64,
}

/// The next step of a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebootStep {
    /// Do nothing.
    Rest,
    /// Write the record, and cordon the node in the same request.
    Begin(RebootRecord),
    /// List the node's pods, and decide again.
    ListPods,
    /// Evict the node's pods, and write the record if it has changed.
    Evict(RebootRecord),
    /// Write the record, then reboot the host.
    Reboot(RebootRecord),
    /// Write the record, and uncordon the node unless it was cordoned before.
    End(RebootRecord),
    /// Remove the record, and uncordon the node unless it was cordoned before.
    Cancel {
        /// Whether the node was cordoned before.
        was_cordoned: bool,
    },
}

impl RebootView<'_> {
    /// The next step.
    pub fn next(&self) -> RebootStep {
        match self.record {
            Some(record) if record.phase == RebootPhase::Draining => self.drain(record),
            Some(record) if record.phase == RebootPhase::Rebooting => self.after_command(record),
            record => self.begin(record),
        }
    }

    fn begin(&self, record: Option<&RebootRecord>) -> RebootStep {
        let is_new = |wanted: &&RebootWanted| !record.is_some_and(|record| record.is_for(&wanted.goal));
        let new: Vec<&RebootWanted> = self.wanted.iter().filter(is_new).collect();
        if new.is_empty() {
            return RebootStep::Rest;
        }
        // Keep the goals of earlier reboots of this node. Otherwise two goals could reboot it alternately for ever.
        let mut goals: Vec<Release> = record.map(|record| record.goals.clone()).unwrap_or_default();
        goals.retain(|known| !self.wanted.iter().any(|wanted| wanted.goal.goal == known.goal));
        goals.extend(self.wanted.iter().map(|wanted| wanted.goal.clone()));
        RebootStep::Begin(RebootRecord {
            phase: RebootPhase::Draining,
            goals,
            boot: self.boot.to_owned(),
            since: self.now,
            was_cordoned: self.is_cordoned,
            message: String::new(),
        })
    }

    fn drain(&self, record: &RebootRecord) -> RebootStep {
        // Somebody rebooted the host while it was being drained.
        if record.boot != self.boot {
            return self.after_boot(record);
        }
        let Some(policy) = self.wanted.iter().map(|wanted| wanted.policy).min_by_key(|policy| policy.drain_seconds)
        else {
            return RebootStep::Cancel { was_cordoned: record.was_cordoned };
        };
        let Some(pods) = self.pods else { return RebootStep::ListPods };
        if pods.is_empty() {
            return RebootStep::Reboot(record.then(RebootPhase::Rebooting, self.now, String::new()));
        }
        let waited = self.now.saturating_sub(record.since);
        if waited > i64::from(policy.drain_seconds) {
            let message = format!("after {waited} s the node still had {}", names(pods));
            return RebootStep::End(record.then(RebootPhase::Failed, self.now, message));
        }
        let message = format!("waits for {}", names(pods));
        RebootStep::Evict(RebootRecord { message, ..record.clone() })
    }

    fn after_command(&self, record: &RebootRecord) -> RebootStep {
        if record.boot != self.boot {
            return self.after_boot(record);
        }
        if self.wanted.is_empty() {
            return RebootStep::Cancel { was_cordoned: record.was_cordoned };
        }
        match self.now.saturating_sub(record.since) {
            waited if waited > REBOOT_SECONDS_MAX => {
                let message = format!("the reboot command ran {waited} s ago, and the host is still in the same boot");
                RebootStep::End(record.then(RebootPhase::Failed, self.now, message))
            }
            waited if waited >= COMMAND_AGAIN_SECONDS => RebootStep::Reboot(record.clone()),
            _ => RebootStep::Rest,
        }
    }

    fn after_boot(&self, record: &RebootRecord) -> RebootStep {
        match self.not_in_force.first() {
            None => RebootStep::End(record.then(RebootPhase::Done, self.now, String::new())),
            Some(why) => {
                let message = format!("the host has rebooted, and {why}");
                RebootStep::End(record.then(RebootPhase::Failed, self.now, message))
            }
        }
    }
}

/// The names of up to [`NAMES_MAX`] pods. Pods that the user has to end come first.
fn names(pods: &[DrainedPod]) -> String {
    let mut sorted: Vec<&DrainedPod> = pods.iter().collect();
    sorted.sort_by_key(|pod| (pod.is_managed, &pod.name));
    let text = |pod: &&DrainedPod| match pod.is_managed {
        true => pod.name.clone(),
        false => format!("{} (nothing starts it again elsewhere: delete it yourself)", pod.name),
    };
    let shown: Vec<String> = sorted.iter().take(NAMES_MAX).map(text).collect();
    let rest = pods.len().saturating_sub(NAMES_MAX);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    let unit = if pods.len() == 1 { "pod" } else { "pods" };
    format!("{} {unit}: {}{more}", pods.len(), shown.join(", "))
}

#[cfg(test)]
#[path = "reboot_tests.rs"]
mod tests;
