//! Implements the host of an agent. The agent runs this program's own commands in the host's root.
//! Each command tolerates a kill at any moment, so the agent does too.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use evenkeel_change::{Owner, Status, WaitsFor};
use evenkeel_fleet::kubernetes::{
    AdvisedGoal, Allow, Applied, Desired, DriftedKnob, GoalOwner, Host, HostError, Journal, OwnedTransaction,
    PendingKnob, SetKnob, Verified,
};
use evenkeel_sys::process;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::labels::labels;
use crate::args::StateArgs;
use crate::exit;
use crate::failure::Failure;
use crate::host_command::HostCommand;

/// The maximum size of a command's answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The maximum time that a command may take.
const COMMAND_MAX: Duration = Duration::from_secs(120);
/// How long a command may take to restore its changes before the agent kills it.
/// A hung kernel file must not stop the agent.
const RESTORE_MAX: Duration = Duration::from_secs(120);
/// How long a killed command may take to end, and how long its output may stay open.
const DYING_MAX: Duration = Duration::from_secs(10);
/// How often to check whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The kernel's file with the id of the current boot, as a path below the root.
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
/// The maximum length of a message in the status of a node.
const MESSAGE_CHARS_MAX: usize = 1000;

/// The host on which this agent runs.
pub(crate) struct ThisHost {
    program: PathBuf,
    /// The root of the host; `None` if the host has the same root as this program.
    root: Option<PathBuf>,
    reboot: Option<HostCommand>,
    state: Vec<OsString>,
}

#[derive(Deserialize)]
struct HistoryAnswer {
    transactions: Vec<HistoryTransaction>,
}

#[derive(Deserialize)]
struct HistoryTransaction {
    id: u64,
    owner: Option<Owner>,
    status: Status,
    steps: Vec<HistoryStep>,
}

#[derive(Deserialize)]
struct HistoryStep {
    knob: String,
    place: String,
    wanted: String,
    outcome: HistoryOutcome,
}

/// Whether a step of a transaction in force is in force itself, or will be after a boot or a start.
#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HistoryOutcome {
    Applied,
    OwnedBy,
    AlreadySo,
    PendingReboot,
    PendingStart,
    #[serde(other)]
    NotSet,
}

#[derive(Deserialize)]
struct VerifyAnswer {
    drift: Vec<VerifyDrift>,
    pending: Vec<VerifyPending>,
}

#[derive(Deserialize)]
struct VerifyDrift {
    knob: String,
    place: String,
    wanted: String,
    found: Value,
    why: String,
    mend: String,
}

#[derive(Deserialize)]
struct VerifyPending {
    knob: String,
    waits_for: WaitsFor,
}

#[derive(Deserialize)]
struct ApplyAnswer {
    plan: ApplyPlan,
    #[serde(default)]
    transaction: Option<Value>,
}

#[derive(Deserialize)]
struct ApplyPlan {
    steps: Vec<ApplyStep>,
}

#[derive(Deserialize)]
struct ApplyStep {
    knob: String,
    place: String,
    wanted: String,
    action: ApplyAction,
    #[serde(default)]
    already_so: bool,
    /// Why the kernel will refuse it.
    blocked: Option<String>,
}

/// Whether this program sets a step.
#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ApplyAction {
    ByHand,
    #[serde(other)]
    Sets,
}

impl HistoryTransaction {
    /// What the transaction set, if it is in force.
    fn settings(&self) -> Vec<SetKnob> {
        let set = self.steps.iter().filter(|step| step.outcome != HistoryOutcome::NotSet);
        let set = set.filter(|_| self.status == Status::InForce);
        set.map(|step| SetKnob { knob: step.knob.clone(), place: step.place.clone(), value: step.wanted.clone() })
            .collect()
    }
}

impl ThisHost {
    /// Creates the host with its root at `root`, or this machine. `reboot` is the command that reboots the host.
    pub(crate) fn new(
        root: Option<&Path>,
        state: &StateArgs,
        reboot: Option<HostCommand>,
    ) -> Result<ThisHost, Failure> {
        let program =
            std::env::current_exe().map_err(|error| Failure::io(exit::NOT_POSSIBLE, "find this program", &error))?;
        let state = state.state.iter().flat_map(|dir| ["--state".into(), dir.into()]).collect();
        Ok(ThisHost { program, root: root.map(Path::to_path_buf), reboot, state })
    }

    /// The labels of the node that describe its machine. Unknown values give no label.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let inspected = self.run::<Value>(&["inspect"], false).ok();
        labels(inspected.as_ref().map(|(answer, _)| answer), self.root.as_deref().unwrap_or(Path::new("/")))
    }

    fn run<T: DeserializeOwned>(&self, words: &[&str], takes_state: bool) -> Result<(T, u8), HostError> {
        let unreachable = |why: String| HostError::Unreachable { why };
        let mut command = Command::new(&self.program);
        let (name, rest) = words.split_at(1);
        if let Some(root) = &self.root {
            command.args(["helper", "in-root"]).arg(root).arg("--");
        }
        command.arg("--json").args(name);
        if takes_state {
            command.args(&self.state);
        }
        command.args(rest);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| unreachable(error.to_string()))?;
        let (answer, code) = finish(child).map_err(unreachable)?;
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|_| unreachable(format!("no answer from evenkeel {}", words.join(" "))))?;
        if let Some(message) = answer.pointer("/error/message").and_then(Value::as_str) {
            return Err(error_of(code, message));
        }
        let answer = serde_json::from_value(answer).map_err(|error| unreachable(format!("odd answer: {error}")))?;
        Ok((answer, code))
    }

    fn settings<'a>(goal: &'a Desired, words: &mut Vec<&'a str>) {
        match goal.advised {
            Some(advised) => words.extend([
                "--advised",
                "--goal",
                match advised.goal {
                    AdvisedGoal::Latency => "latency",
                    AdvisedGoal::Throughput => "throughput",
                    AdvisedGoal::Density => "density",
                },
            ]),
            None => {
                // After `--`, the command reads no setting as an option.
                words.push("--");
                words.extend(goal.settings.iter().map(String::as_str));
            }
        }
    }
}

/// Waits for a command and reads its answer, within bounds of size and time.
fn finish(child: Child) -> Result<(Vec<u8>, u8), String> {
    finish_within(child, COMMAND_MAX, RESTORE_MAX)
}

fn finish_within(mut child: Child, command_max: Duration, restore_max: Duration) -> Result<(Vec<u8>, u8), String> {
    let answer = read_in_background(child.stdout.take());
    let (until, mut is_asked) = (Instant::now() + command_max, false);
    let killed = until + restore_max;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            // A process that the command has started may hold its output open.
            let bytes = answer.recv_timeout(DYING_MAX).map_err(|_| "its output stays open after its end")?;
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok((bytes, code.ok_or_else(|| format!("it ended by {status}"))?));
        }
        if Instant::now() > until && !is_asked {
            // On this signal, the command restores its changes, and then prints its answer.
            process::ask_to_end(child.id());
            is_asked = true;
        }
        if Instant::now() > killed {
            // Its journal survives a kill, and the next command puts back what is left.
            child.kill().map_err(|error| error.to_string())?;
        }
        if Instant::now() > killed + DYING_MAX {
            // A process that waits for a hung file of the kernel does not even die. The agent must go on.
            return Err(format!(
                "process {} did not end after {} s and a kill",
                child.id(),
                (command_max + restore_max).as_secs()
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Sends what can be read until the end. If reading fails, that is what was read until then.
fn read_in_background(stdout: Option<ChildStdout>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stdout) = stdout {
            let _ = stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
        }
        // The command took too long, and nobody waits any more.
        let _ = sender.send(bytes);
    });
    receiver
}

fn error_of(code: u8, message: &str) -> HostError {
    let why = message.chars().take(MESSAGE_CHARS_MAX).collect();
    if code == exit::NOT_POSSIBLE.code {
        HostError::NotApplicable { why }
    } else if code == exit::NOT_UNDONE.code {
        HostError::NotPutBack { why }
    } else {
        HostError::Refused { why }
    }
}

/// Why a goal was not applied.
/// The command returns the same exit code in three cases: the setting does not exist here,
/// the kernel refuses the value, or another evenkeel holds the journal.
/// If the plan alone is possible, the setting exists, and a rollout must not skip this node.
fn not_applied(error: HostError, is_planned: impl FnOnce() -> bool) -> HostError {
    match error {
        HostError::NotApplicable { why } if is_planned() => HostError::Refused { why },
        error => error,
    }
}

fn found_text(found: &Value) -> String {
    match found {
        Value::String(text) => text.clone(),
        other => other
            .get("unknown")
            .and_then(Value::as_str)
            .map_or_else(|| other.to_string(), |why| format!("unknown: {why}")),
    }
}

impl Host for ThisHost {
    fn journal(&self) -> Result<Journal, HostError> {
        let (history, _) = self.run::<HistoryAnswer>(&["history"], true)?;
        let owned = |transaction: HistoryTransaction| {
            let owner = GoalOwner::from_owner(transaction.owner.as_ref()?)?;
            let settings = transaction.settings();
            Some(OwnedTransaction { id: transaction.id, owner, status: transaction.status, settings })
        };
        let transactions = history.transactions.into_iter().filter_map(owned).collect();
        let (verify, _) = self.run::<VerifyAnswer>(&["verify"], true)?;
        let drifted = |drift: VerifyDrift| DriftedKnob {
            found: found_text(&drift.found),
            knob: drift.knob,
            place: drift.place,
            wanted: drift.wanted,
            why: drift.why,
            mend: drift.mend,
        };
        let pending = verify.pending.into_iter();
        let pending = pending.map(|pending| PendingKnob { knob: pending.knob, waits_for: pending.waits_for }).collect();
        let verified = Verified { drift: verify.drift.into_iter().map(drifted).collect(), pending };
        Ok(Journal { transactions, verified })
    }

    fn apply(&self, goal: &Desired) -> Result<Applied, HostError> {
        let owner = format!("{}/{}/{}", goal.owner.name, goal.owner.uid, goal.owner.generation);
        let mut words = vec!["apply", "--for-goal", &owner];
        if goal.allow == Allow::Reboot {
            words.push("--persist");
        }
        ThisHost::settings(goal, &mut words);
        match self.run::<ApplyAnswer>(&words, true) {
            Ok((answer, _)) => Ok(Applied { already_so: answer.transaction.is_none() }),
            Err(error) => Err(not_applied(error, || self.audit(goal).is_ok())),
        }
    }

    fn audit(&self, goal: &Desired) -> Result<String, HostError> {
        let mut words = vec!["apply", "--plan-only"];
        ThisHost::settings(goal, &mut words);
        let (answer, _) = self.run::<ApplyAnswer>(&words, true)?;
        let missing: Vec<String> = answer
            .plan
            .steps
            .iter()
            .filter(|step| !step.already_so)
            .map(|step| format!("{}={}", step.knob, step.wanted))
            .collect();
        let text = match missing.len() {
            0 => "nothing would change".to_owned(),
            count => format!("{count} would change: {}", missing.join(" ")),
        };
        Ok(text.chars().take(MESSAGE_CHARS_MAX).collect())
    }

    fn advice(&self, goal: &Desired) -> Result<Vec<SetKnob>, HostError> {
        let mut words = vec!["apply", "--plan-only"];
        ThisHost::settings(goal, &mut words);
        let (answer, _) = self.run::<ApplyAnswer>(&words, true)?;
        let set = answer.plan.steps.into_iter();
        let set = set.filter(|step| step.action != ApplyAction::ByHand && step.blocked.is_none());
        Ok(set.map(|step| SetKnob { knob: step.knob, place: step.place, value: step.wanted }).collect())
    }

    fn boot(&self) -> Result<String, HostError> {
        let root = self.root.as_deref().unwrap_or(Path::new("/"));
        let unreachable = |why: &dyn std::fmt::Display| HostError::Unreachable { why: format!("{BOOT_ID}: {why}") };
        let text = std::fs::read_to_string(root.join(BOOT_ID)).map_err(|error| unreachable(&error))?;
        let id = text.trim();
        let is_id = !id.is_empty() && id.len() <= 64 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if is_id { Ok(id.to_owned()) } else { Err(unreachable(&"it is not an id")) }
    }

    fn reboot(&self) -> Result<(), HostError> {
        let unreachable = |why: String| HostError::Unreachable { why };
        let Some(HostCommand { program, arguments }) = &self.reboot else {
            return Err(unreachable("this agent was started without --reboot-command".to_owned()));
        };
        let mut command = match &self.root {
            Some(root) => {
                let mut command = Command::new(&self.program);
                command.args(["helper", "in-root", "--program"]).arg(program).arg(root).arg("--");
                command
            }
            None => Command::new(program),
        };
        // Its output is of no use, and a process that it leaves behind could hold it open.
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| unreachable(format!("{}: {error}", program.display())))?;
        match finish(child) {
            Ok((_, 0)) => Ok(()),
            Ok((_, code)) => Err(unreachable(format!("{} ended with exit code {code}", program.display()))),
            Err(why) => Err(unreachable(format!("{}: {why}", program.display()))),
        }
    }

    fn revert(&self, transaction: u64) -> Result<(), HostError> {
        let number = transaction.to_string();
        let (_, code) = self.run::<Value>(&["revert", &number], true)?;
        if code == exit::WELL.code {
            return Ok(());
        }
        Err(HostError::NotPutBack { why: format!("evenkeel revert {number} ended with exit code {code}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_states() {
        let error = |code| error_of(code, "failed to set x");
        assert!(matches!(error(4), HostError::NotApplicable { .. }));
        assert!(matches!(error(6), HostError::NotPutBack { .. }));
        for code in [2, 3, 5] {
            assert!(matches!(error(code), HostError::Refused { .. }), "{code}");
        }
    }

    fn run(script: &str, command_max: Duration) -> Result<(Vec<u8>, u8), String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        finish_within(command.spawn().unwrap(), command_max, Duration::ZERO)
    }

    #[test]
    fn a_command_that_ignores_its_signal_is_killed_and_the_agent_goes_on() {
        let long = Duration::from_secs(60);
        assert_eq!(run("echo answer; exit 7", long), Ok((b"answer\n".to_vec(), 7)));
        let killed = run("trap '' TERM; echo half; while :; do sleep 0.01; done", Duration::ZERO);
        assert!(killed.unwrap_err().starts_with("it ended by signal: "));
    }

    #[test]
    fn a_transaction_in_force_has_the_settings_that_were_set() {
        let text = r#"{"id": 3, "owner": null, "status": "in-force", "steps": [
            {"knob": "a", "place": "p", "wanted": "1", "outcome": "applied", "before": "0"},
            {"knob": "b", "place": "p", "wanted": "2", "outcome": "already-so"},
            {"knob": "c", "place": "p", "wanted": "3", "outcome": "pending-reboot", "todo": "x"},
            {"knob": "d", "place": "p", "wanted": "4", "outcome": "not-applicable", "instead": "x"},
            {"knob": "e", "place": "p", "wanted": "5", "outcome": "refused", "errno": "EINVAL"}]}"#;
        let knobs = |text: &str| {
            let transaction: HistoryTransaction = serde_json::from_str(text).unwrap();
            transaction
                .settings()
                .into_iter()
                .map(|set| format!("{}@{}={}", set.knob, set.place, set.value))
                .collect::<Vec<_>>()
        };
        assert_eq!(knobs(text), ["a@p=1", "b@p=2", "c@p=3"]);
        assert_eq!(knobs(&text.replace("in-force", "reverted")), [""; 0]);
    }

    #[test]
    fn only_a_goal_that_cannot_be_planned_is_not_applicable() {
        let error = |code| error_of(code, "failed to lock the journal");
        assert!(matches!(not_applied(error(4), || false), HostError::NotApplicable { .. }));
        assert!(matches!(not_applied(error(4), || true), HostError::Refused { .. }));
        assert!(matches!(not_applied(error(6), || true), HostError::NotPutBack { .. }));
    }
}
