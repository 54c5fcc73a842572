//! `verify`: whether the applied values are still in force, and whether they will be after the next boot.

use std::collections::BTreeMap;

use evenkeel_host::{
    Action, Advice, AdviceContext, Fact, Facts, Owner, ProcessValue, Step, TakesEffect, advise, knobs,
};
use evenkeel_hostfs::Root;
use evenkeel_sys::CpuSet;
use serde::{Deserialize, Serialize};

use crate::apply::is_booted_with;
use crate::deadline::overdue;
use crate::edit;
use crate::history::add_argument;
use crate::log::{End, Log, Logged, boot_id};
use crate::persist::HOLDER;
use crate::persist_plan::PersistedFile;
use crate::place::{EffectiveValue, ReadError, Target, same};
use crate::renumber::renumbered;
use crate::server;
use crate::shell;
use crate::why::culprit;

/// How long after a transaction a process must have started so that it certainly started with the transaction's files.
const START_MARGIN_NS: u64 = 2_000_000_000;

/// The comparison of the host with the values that should be in force according to the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verification {
    /// The number of values in force, plus the number of files with the content that evenkeel wrote.
    pub holds: usize,
    /// Values that are no longer in force, and files whose content differs from the written content.
    pub drift: Vec<Drift>,
    /// The values that wait for a boot, or for a start of the server.
    pub pending: Vec<Pending>,
    /// Transactions that were killed half-way, or could not be restored completely.
    pub interrupted: Vec<u64>,
    /// The transaction that another process works on, such as a trial. `verify` does not judge its settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under_way: Option<UnderWay>,
    /// Transactions that will revert themselves unless the user confirms them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<u64>,
    /// Transactions that were not confirmed in time, and that nothing has reverted yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overdue: Vec<u64>,
    /// Transactions whose values a reboot has reset, and that nobody has reverted since.
    pub ended_by_reboot: Vec<u64>,
}

impl Verification {
    /// Adds `option`, such as ` --state DIR`, to the commands that repair drift,
    /// because they must find the same journal.
    pub fn with_state_option(mut self, option: &str) -> Verification {
        for drift in self.drift.iter_mut().filter(|drift| drift.mend.starts_with("evenkeel ")) {
            drift.mend += option;
        }
        self
    }
}

/// A transaction that another process works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnderWay {
    /// The transaction's number.
    pub transaction: u64,
    /// Its purpose.
    pub title: String,
    /// The process, and the path of its journal.
    pub holder: String,
}

/// A value that was applied and is no longer in force, or a file whose content differs from the written content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drift {
    /// The knob's id. For a file, the id of a knob in the file.
    pub knob: String,
    /// The place.
    pub place: String,
    /// The value applied.
    pub wanted: String,
    /// The value found.
    pub found: Fact<String>,
    /// The cause of the drift, as far as known.
    pub why: String,
    /// The command that applies the value again.
    pub mend: String,
}

/// A value that is written but not in force yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pending {
    /// The knob's id.
    pub knob: String,
    /// The place.
    pub place: String,
    /// The value wanted.
    pub wanted: String,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// What the user must do.
    pub todo: String,
}

/// What something waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// The next boot.
    Reboot,
    /// A start of the server's process, or of the unit that holds a device.
    Start,
    /// An action of the user. The setting was not persisted, so neither a boot nor a start applies it.
    User,
}

/// Reads every value that should be in force according to the journal, and lists the values that are not.
/// If several transactions set one file, the newest counts. `facts` show which other programs change the host.
pub fn verify(root: &Root, facts: &Facts, log: &Log) -> Verification {
    let boot_id = boot_id(root);
    let overdue = overdue(root, log);
    let mut verification = Verification { overdue: overdue.clone(), ..Verification::default() };
    let mut in_force: BTreeMap<(&str, &str), (u64, usize)> = BTreeMap::new();
    let mut files: BTreeMap<&str, (u64, &PersistedFile)> = BTreeMap::new();
    for logged in log.transactions().filter(|logged| !logged.is_closed()) {
        if !logged.is_of_boot(boot_id.as_deref()) && !logged.outlives_boots() {
            verification.ended_by_reboot.push(logged.id);
            continue;
        }
        if let Some(holder) = log.holder().filter(|_| log.is_under_way(logged)) {
            verification.under_way =
                Some(UnderWay { transaction: logged.id, title: logged.title.clone(), holder: holder.to_owned() });
            // A value that an earlier transaction set may now be anything.
            let switched: Vec<_> = logged.steps.iter().filter_map(|step| key(logged, step)).collect();
            in_force.retain(|set, _| !switched.contains(set));
            continue;
        }
        if is_interrupted(logged) {
            verification.interrupted.push(logged.id);
            continue;
        }
        if logged.awaits_confirmation() && !overdue.contains(&logged.id) {
            verification.unconfirmed.push(logged.id);
        }
        let is_missed = |index: &usize| logged.missed.iter().any(|missed| missed.step == *index);
        let steps = logged.steps.iter().enumerate().filter(|(index, _)| !is_missed(index));
        in_force.extend(steps.filter_map(|(index, step)| Some((key(logged, step)?, (logged.id, index)))));
        let kept = logged.lasting.iter().flat_map(|lasting| &lasting.persist.files);
        files.extend(kept.map(|file| (file.path.as_str(), (logged.id, file))));
    }
    // Sort by the order of application, not by path.
    let mut steps: Vec<(u64, usize)> = in_force.into_values().collect();
    steps.sort_unstable();
    let advice = if steps.is_empty() { Vec::new() } else { advise(facts, &AdviceContext::default()) };
    for (id, index) in steps {
        let logged = log.begun(id);
        let is_this_boot = logged.is_of_boot(boot_id.as_deref());
        Judge { root, facts, advice: &advice, logged, is_this_boot }.judge(&mut verification, &logged.steps[index]);
    }
    for (id, file) in files.into_values() {
        judge_file(&mut verification, root, log.begun(id), file);
    }
    verification
}

/// The transactions that were killed half-way, that could not be restored completely, or that another process works on.
pub fn interrupted(root: &Root, log: &Log) -> Vec<u64> {
    let boot_id = boot_id(root);
    let is_left =
        |logged: &&Logged| !logged.is_closed() && (logged.is_of_boot(boot_id.as_deref()) || logged.outlives_boots());
    log.transactions().filter(is_left).filter(|logged| is_interrupted(logged)).map(|logged| logged.id).collect()
}

fn is_interrupted(logged: &Logged) -> bool {
    logged.is_unfinished() || !matches!(logged.end, Some(End::Committed))
}

/// The key of a step: two steps with the same key set the same thing. `None` for steps that leave nothing on the host.
fn key<'a>(logged: &'a Logged, step: &'a Step) -> Option<(&'a str, &'a str)> {
    let lasts = || logged.lasting.is_some();
    match &step.action {
        Action::Write { path, .. } => Some(("", path)),
        Action::KernelArgument { .. } => Some((&step.knob, &step.place)),
        Action::Hold { .. } | Action::Process if lasts() => Some((&step.knob, &step.place)),
        Action::ByHand { .. } if logged.carrier(step).is_some() => Some((&step.knob, &step.place)),
        Action::Hold { .. } | Action::Process | Action::ByHand { .. } => None,
    }
}

/// Judges a step by the value in force, not by the written file.
struct Judge<'a> {
    root: &'a Root,
    facts: &'a Facts,
    /// The current advice of the knobs.
    /// The advice has the current values of settings that are in files of other programs.
    advice: &'a [Advice],
    logged: &'a Logged,
    is_this_boot: bool,
}

impl Judge<'_> {
    fn judge(&self, verification: &mut Verification, step: &Step) {
        let found = match &step.action {
            Action::Write { .. } => self.write(step),
            Action::KernelArgument { argument } => self.argument(step, argument),
            Action::Hold { .. } => self.hold(step),
            Action::Process => self.process(step),
            Action::ByHand { .. } => match owner(step) {
                Some(Owner::Server) => self.process(step),
                Some(Owner::Service(unit)) => self.has(step, unit),
                None => self.found_in_facts(step),
            },
        };
        match found {
            Found::Holds => verification.holds += 1,
            Found::Pending(pending) => verification.pending.push(pending),
            Found::Drift(drift) => verification.drift.push(drift),
        }
    }

    fn write(&self, step: &Step) -> Found {
        if self.is_this_boot {
            return self.value(step);
        }
        match renumbered(self.facts, step) {
            Some(step) => self.value(&step),
            None => {
                let why = "this boot has no interrupt of that name, or several".to_owned();
                Found::Drift(self.drift(step, Fact::absent(why.clone()), why))
            }
        }
    }

    fn value(&self, step: &Step) -> Found {
        let Some(target) = Target::from_step(step) else { return Found::Holds };
        let id = self.logged.id;
        let (found, why) = match target.effective(self.root, &step.wanted) {
            Ok(EffectiveValue::Holds) => return Found::Holds,
            Ok(EffectiveValue::Other { found, read_from }) => {
                let mut why = match target.path == read_from {
                    _ if !self.is_this_boot => {
                        format!("after the boot, {read_from} does not have the value of transaction {id}")
                    }
                    true => format!("somebody changed {read_from} after transaction {id}"),
                    false => format!("{read_from} does not follow the value that was set after transaction {id}"),
                };
                if let Some(culprit) = culprit(self.facts, step, &found) {
                    why += &format!("; {culprit}");
                }
                (Fact::Known(found), why)
            }
            Err(ReadError::Odd { text, why }) => (Fact::Known(text), why),
            Err(ReadError::Refused(refusal)) => {
                let why = format!("evenkeel can no longer read what transaction {id} set: {refusal}");
                (Fact::from(refusal), why)
            }
        };
        Found::Drift(self.drift(step, found, why))
    }

    fn argument(&self, step: &Step, argument: &str) -> Found {
        if is_booted_with(self.root, argument) {
            return Found::Holds;
        }
        let carrier = self.logged.carrier(step);
        match carrier {
            // The machine has rebooted, and the boot did not set the value.
            Some(by) if !self.is_this_boot => {
                let line = self.root.text("/proc/cmdline").unwrap_or_default();
                let why = format!(
                    "the machine booted without it, although {by} has it: the boot loader's configuration was not \
                        regenerated, or another boot loader started the machine"
                );
                Found::Drift(self.drift(step, Fact::Known(line.trim().to_owned()), why))
            }
            Some(_) => Found::Pending(pending(step, WaitsFor::Reboot, "reboot".to_owned())),
            None => Found::Pending(pending(step, WaitsFor::User, add_argument(argument))),
        }
    }

    fn process(&self, step: &Step) -> Found {
        let (Some(unit), Some(carried)) = (self.logged.unit_of(step), self.logged.carried(step)) else {
            let todo = format!("start the server with {}={}", step.knob, step.wanted);
            return Found::Pending(pending(step, WaitsFor::User, todo));
        };
        match carried.takes_effect {
            TakesEffect::AtOnce => self.in_group(step, unit, &carried.by),
            _ => self.has(step, unit),
        }
    }

    /// Whether the process of a unit runs only on the CPUs of the unit's control group.
    fn in_group(&self, step: &Step, unit: &str, by: &str) -> Found {
        let Some(pid) = server::main_process(self.root, unit) else {
            return Found::Pending(pending(step, WaitsFor::Start, format!("systemctl start {unit}")));
        };
        let wanted = CpuSet::parse_list(&step.wanted).unwrap_or_default();
        match server::cpus(self.root, pid) {
            // The server may restrict itself to some of the allowed CPUs.
            Some(cpus) if cpus.is_subset(&wanted) => Found::Holds,
            Some(cpus) => {
                let why = format!("process {pid} of {unit} may run on other CPUs than {by} allows");
                let drift = self.drift(step, Fact::Known(cpus.to_string()), why);
                Found::Drift(Drift { mend: "systemctl daemon-reload".to_owned(), ..drift })
            }
            None => {
                let todo = format!("systemctl daemon-reload; evenkeel cannot read the CPUs of process {pid}");
                Found::Pending(pending(step, WaitsFor::Start, todo))
            }
        }
    }

    /// Whether the process of a unit has the value, or started before the unit contained the value.
    fn has(&self, step: &Step, unit: &str) -> Found {
        let Some(pid) = server::main_process(self.root, unit) else {
            return Found::Pending(pending(step, WaitsFor::Start, format!("systemctl start {unit}")));
        };
        let knob = knobs::find(&step.knob).ok();
        let restart = format!("systemctl restart {unit}");
        match knob.and_then(|knob| server::has(self.root, pid, knob, &step.wanted)) {
            Some(ProcessValue::Wanted) => Found::Holds,
            Some(ProcessValue::Other(found)) if self.is_started_with(pid) => {
                let mut why = format!(
                    "process {pid} of {unit} was started with this value, which was changed since: by the program itself"
                );
                if let Some(other) = knob.and_then(|knob| knob.extras.process?.reset_by) {
                    why += &format!(", or {other}");
                }
                Found::Drift(Drift { mend: restart, ..self.drift(step, Fact::Known(found), why) })
            }
            Some(ProcessValue::Other(_)) => Found::Pending(pending(step, WaitsFor::Start, restart)),
            None => {
                let todo = format!("{restart}; evenkeel cannot read whether process {pid} already has it");
                Found::Pending(pending(step, WaitsFor::Start, todo))
            }
        }
    }

    /// Whether a process started after the transaction had written the files of its unit.
    fn is_started_with(&self, pid: u32) -> bool {
        let started_at_ns = server::started_at_ns(self.root, pid);
        // The journal and the process both have wall-clock times. The kernel gives the time of boot in whole seconds.
        let written = self.logged.committed_at_ns.map(|at_ns| at_ns.saturating_add(START_MARGIN_NS));
        !self.is_this_boot || written.zip(started_at_ns).is_some_and(|(written, started)| started > written)
    }

    /// Finds settings in a file that belongs to another program, judged by the current facts.
    fn found_in_facts(&self, step: &Step) -> Found {
        let at_place = |advice: &&Advice| advice.knob == step.knob && advice.place == step.place;
        let current = self.advice.iter().find(at_place).and_then(|advice| advice.current.clone());
        match current {
            Some(current) if same(&current, &step.wanted) => Found::Holds,
            Some(current) if !self.is_this_boot => {
                let why = "the boot did not set it".to_owned();
                Found::Drift(self.drift(step, Fact::Known(current), why))
            }
            Some(_) => Found::Pending(pending(step, WaitsFor::Reboot, "reboot".to_owned())),
            None => {
                let todo = "reboot; evenkeel cannot read here whether it is already in force".to_owned();
                Found::Pending(pending(step, WaitsFor::Reboot, todo))
            }
        }
    }

    fn hold(&self, step: &Step) -> Found {
        match self.logged.carrier(step) {
            None => {
                let todo = "let the server keep the device open, or apply with --persist".to_owned();
                Found::Pending(pending(step, WaitsFor::User, todo))
            }
            Some(_) if server::main_process(self.root, HOLDER).is_some() => Found::Holds,
            Some(_) => Found::Pending(pending(step, WaitsFor::Start, format!("systemctl start {HOLDER}"))),
        }
    }

    fn drift(&self, step: &Step, found: Fact<String>, why: String) -> Drift {
        let Step { knob, place, wanted, .. } = step.clone();
        let persist = if self.logged.lasting.is_some() { "--persist " } else { "" };
        // The place of a kernel argument is its own name, so leave it out to keep the command short.
        let setting = match step.action {
            Action::Write { .. } => format!("{knob}@{place}={wanted}"),
            _ => format!("{knob}={wanted}"),
        };
        Drift { mend: format!("evenkeel apply {persist}{}", shell::word(&setting)), knob, place, wanted, found, why }
    }
}

/// The process whose property a step sets.
fn owner(step: &Step) -> Option<Owner> {
    Some(knobs::find(&step.knob).ok()?.extras.process?.of)
}

enum Found {
    Holds,
    Pending(Pending),
    Drift(Drift),
}

fn pending(step: &Step, waits_for: WaitsFor, todo: String) -> Pending {
    let Step { knob, place, wanted, .. } = step.clone();
    Pending { knob, place, wanted, waits_for, todo }
}

/// Judges a file by its text, because the settings in a file take effect only from the next boot on.
fn judge_file(verification: &mut Verification, root: &Root, logged: &Logged, file: &PersistedFile) {
    let looked = root.tree().map_err(|error| error.to_string());
    let looked = looked.and_then(|tree| tree.look(&file.path).map_err(|error| error.to_string()));
    let (found, why) = match looked {
        Ok(now) if edit::with(&now, &file.content).is_ok_and(|wanted| wanted == now) => {
            verification.holds += 1;
            return;
        }
        Ok(evenkeel_hostfs::Entry::Absent) => {
            let why = format!("somebody removed the file that transaction {} wrote", logged.id);
            (Fact::absent("the file does not exist"), why)
        }
        Ok(_) => {
            let why = format!("somebody changed the file that transaction {} wrote", logged.id);
            (Fact::Known("another text".to_owned()), why)
        }
        Err(why) => (Fact::absent(why.clone()), why),
    };
    let carried = logged.lasting.iter().flat_map(|lasting| &lasting.persist.carried);
    let carried = carried.filter(|carried| carried.by == file.path).map(|carried| carried.setting.as_str()).next();
    let knob = carried.and_then(|setting| setting.split(['=', '@']).next()).unwrap_or("persist").to_owned();
    let unit = logged.lasting.as_ref().and_then(|lasting| lasting.unit.as_ref());
    let unit = unit.map_or_else(String::new, |unit| format!("--unit {} ", shell::word(unit)));
    let settings: Vec<String> = logged.settings.iter().map(|setting| shell::word(setting)).collect();
    let again = logged.lasting.as_ref().and_then(|lasting| lasting.again.clone());
    verification.drift.push(Drift {
        knob,
        place: file.path.clone(),
        wanted: format!("as transaction {} wrote it", logged.id),
        found,
        why,
        mend: again.unwrap_or_else(|| format!("evenkeel apply --persist {unit}{}", settings.join(" "))),
    });
}
