//! `history`: the changes to this host and their outcomes, from the journal.

use evenkeel_host::{Action, Step, TakesEffect};
use evenkeel_hostfs::Root;
use serde::{Deserialize, Serialize};

use crate::deadline::overdue;
use crate::log::{End, Log, Logged, boot_id};
use crate::outcome::{Kind, Outcome};
use crate::owner::Owner;
use crate::persist::HOLDER;
use crate::persist_plan::Lasting;

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transaction {
    /// Its number, from 1, rising.
    pub id: u64,
    /// When the transaction began, by the wall clock, in nanoseconds since 1970 UTC.
    pub at_ns: u64,
    /// A plan or a trial.
    pub kind: Kind,
    /// Its purpose.
    pub title: String,
    /// The trial or the cluster's goal that the transaction belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Its outcome.
    pub status: Status,
    /// The outcome of each step.
    pub steps: Vec<StepReport>,
    /// Each file and command that makes the transaction persist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub persisted: Vec<PersistedReport>,
    /// How long the transaction may wait for confirmation, in seconds from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconfirmed_seconds: Option<u64>,
}

/// One file or command that makes a transaction persist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PersistedReport {
    /// The file's path, or the command.
    pub what: String,
    /// Whether evenkeel wrote the file or ran the command. If not, it was already in place, or must wait.
    pub changed: bool,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The transaction was applied and nobody reverted it.
    InForce,
    /// A person, or the end of the trial, reverted the transaction.
    Reverted,
    /// The transaction failed and was rolled back.
    RolledBack,
    /// The transaction was killed half-way, or could not be restored completely.
    Interrupted,
    /// Another process is working on the transaction right now.
    UnderWay,
    /// The transaction is in force although nobody confirmed it in time, because nothing has reverted it yet.
    Overdue,
    /// The machine has rebooted since the transaction, so the kernel has lost the values.
    EndedByReboot,
}

/// One step and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepReport {
    /// The knob's id.
    pub knob: String,
    /// The place.
    pub place: String,
    /// The wanted value; for a trial, its first value.
    pub wanted: String,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Returns every transaction, the oldest first. `root` shows which boot the machine is in.
pub fn history(root: &Root, log: &Log) -> Vec<Transaction> {
    let boot_id = boot_id(root);
    let overdue = overdue(root, log);
    let status = |logged: &Logged, summed: Status| match summed {
        Status::InForce if overdue.contains(&logged.id) => Status::Overdue,
        Status::Interrupted if log.is_under_way(logged) => Status::UnderWay,
        other => other,
    };
    let summed = log.transactions().map(|logged| (logged, summary(logged, boot_id.as_deref())));
    summed.map(|(logged, summed)| Transaction { status: status(logged, summed.status), ..summed }).collect()
}

/// `boot_id` is the current boot, or `None` if it is known to be the transaction's boot.
pub(crate) fn summary(logged: &Logged, boot_id: Option<&str>) -> Transaction {
    let steps = logged.steps.iter().enumerate().map(|(index, step)| StepReport {
        knob: step.knob.clone(),
        place: step.place.clone(),
        wanted: step.wanted.clone(),
        outcome: outcome(logged, index, step),
    });
    Transaction {
        id: logged.id,
        at_ns: logged.at_ns,
        kind: logged.kind,
        title: logged.title.clone(),
        owner: logged.owner.clone(),
        status: status(logged, boot_id),
        steps: steps.collect(),
        persisted: persisted(logged),
        unconfirmed_seconds: logged.until.filter(|_| logged.awaits_confirmation()).map(|until| until.seconds),
    }
}

fn persisted(logged: &Logged) -> Vec<PersistedReport> {
    let Some(Lasting { persist, .. }) = &logged.lasting else { return Vec::new() };
    let files = persist.files.iter().map(|file| file.path.clone());
    // No command runs in an image; the report says so separately.
    let commands = persist.commands.iter().filter(|_| !logged.is_of_image()).map(|command| command.argv.join(" "));
    let first = logged.steps.len();
    let has = |index: usize| logged.files.contains_key(&index) || logged.commands.contains_key(&index);
    files.chain(commands).zip(first..).map(|(what, index)| PersistedReport { what, changed: has(index) }).collect()
}

fn status(logged: &Logged, boot_id: Option<&str>) -> Status {
    match &logged.end {
        Some(End::Reverted) => Status::Reverted,
        Some(End::RolledBack { .. }) => Status::RolledBack,
        Some(End::EndedByReboot) => Status::EndedByReboot,
        _ if !logged.is_of_boot(boot_id) && !logged.outlives_boots() => Status::EndedByReboot,
        _ if logged.is_unfinished() => Status::Interrupted,
        _ => Status::InForce,
    }
}

fn outcome(logged: &Logged, index: usize, step: &Step) -> Outcome {
    let rolled_back = match &logged.end {
        Some(End::RolledBack { failed }) => Some(failed),
        _ => None,
    };
    if let Some(Some(failed)) = rolled_back
        && failed.step == index
    {
        return Outcome::Missed(failed.error.clone());
    }
    if let Some(missed) = logged.missed.iter().find(|missed| missed.step == index) {
        return Outcome::Missed(missed.error.clone());
    }
    let Some(intent) = logged.intents.get(&index) else {
        return unwritten(logged, index, step);
    };
    let before = intent.before.clone();
    match (logged.kind, logged.done.get(&index)) {
        (Kind::Trial, _) => Outcome::Tried { before },
        _ if rolled_back.is_some() => Outcome::RolledBack { before },
        (_, Some(done)) => match logged.owned.iter().find(|owned| owned.step == index) {
            Some(owned) => Outcome::Owned { before, side_effects: done.side_effects.clone(), by: owned.by.clone() },
            None => Outcome::Applied { before, side_effects: done.side_effects.clone() },
        },
        (_, None) => Outcome::Interrupted { before },
    }
}

/// The outcome of a step that wrote nothing.
fn unwritten(logged: &Logged, index: usize, step: &Step) -> Outcome {
    let setting = format!("{}={}", step.knob, step.wanted);
    if logged.already_so.contains(&index) {
        return Outcome::AlreadySo;
    }
    let is_carried = logged.carrier(step).is_some() && matches!(logged.end, Some(End::Committed));
    match &step.action {
        Action::Write { .. } if logged.is_of_image() => Outcome::PendingReboot { todo: "boot the image".to_owned() },
        Action::Write { .. } => Outcome::NotReached,
        Action::KernelArgument { .. } if is_carried => Outcome::PendingReboot { todo: "reboot".to_owned() },
        Action::KernelArgument { argument } => Outcome::PendingReboot { todo: add_argument(argument) },
        Action::Hold { .. } if is_carried => Outcome::PendingStart { todo: format!("systemctl start {HOLDER}") },
        Action::Hold { path } => Outcome::NotApplicable {
            instead: format!("it lasts only while a process keeps {path} open, as `evenkeel prove {setting}` does"),
        },
        Action::ByHand { .. } if is_carried => Outcome::PendingReboot { todo: "reboot".to_owned() },
        Action::ByHand { todo } => Outcome::NotApplicable { instead: todo.clone() },
        Action::Process if is_carried => {
            let unit = logged.unit_of(step).unwrap_or("the server");
            if logged.carried(step).is_some_and(|carried| carried.takes_effect == TakesEffect::AtOnce) {
                let todo = format!("systemctl start {unit}, if it does not run; `evenkeel verify` shows its CPUs");
                return Outcome::PendingStart { todo };
            }
            Outcome::PendingStart { todo: format!("systemctl restart {unit}") }
        }
        Action::Process => Outcome::NotApplicable {
            instead: format!(
                "the server sets it when it starts (prctl, or TimerSlackNSec= of its systemd unit); `evenkeel \
                    prove {setting}` tests it"
            ),
        },
    }
}

pub(crate) fn add_argument(argument: &str) -> String {
    format!("add {argument} to the kernel command line in the boot loader's configuration, and reboot")
}
