//! The changes that a trial over boots makes to the host: its unit, and the settings of arm B.
//! Each change is a transaction of the journal, found by its owner.
//! The changes are recorded only there, so a damaged state or `evenkeel revert` loses nothing.

use std::path::{Path, PathBuf};

use evenkeel_change::persist::{PersistContext, boots_unit};
use evenkeel_change::{
    BootsPart, Cannot, Job, Lasting, Log, Owner, PlanFile, RevertReport, State, Status, Transaction, Undo, Which,
    carry_out, history, revert,
};
use evenkeel_host::{Action, Facts, Plan, Setting};
use evenkeel_hostfs::{HostWriter, Root};

use super::error::BootsError;
use super::patience::{Wait, patiently};
use crate::arm::ArmName;

/// The title of a transaction of this trial, for people.
fn title(id: &str, what: &str) -> String {
    format!("prove over boots [{id}]: {what}")
}

/// Makes the changes of one trial.
pub struct BootTransactions<'a> {
    root: &'a Root,
    writer: HostWriter,
    dir: PathBuf,
    id: String,
    settings: Vec<Setting>,
}

impl<'a> BootTransactions<'a> {
    /// The changes of trial `id` on the host at `root`, whose journal is in `dir`.
    ///
    /// # Errors
    /// Fails if the root can't be changed.
    pub fn new(
        root: &'a Root,
        dir: &Path,
        id: &str,
        settings: Vec<Setting>,
    ) -> Result<BootTransactions<'a>, BootsError> {
        let writer = root.writer().map_err(|error| BootsError::ReadOnly { why: error.to_string() })?;
        Ok(BootTransactions { root, writer, dir: dir.to_owned(), id: id.to_owned(), settings })
    }

    /// Runs one change with the journal open. If another evenkeel has locked the journal or a file, it retries for a while.
    fn patiently(
        &self,
        wait: &mut Wait<'_>,
        attempt: impl Fn(&mut State) -> Result<(), BootsError>,
    ) -> Result<(), BootsError> {
        patiently(wait, || {
            let mut state = State::open(&self.dir)?;
            attempt(&mut state).map_err(|error| match state.met_another() {
                true => BootsError::Held { why: error.to_string() },
                false => error,
            })
        })
    }

    /// The transactions of this trial that may not be fully reverted, the newest first.
    fn open_ones(&self, log: &Log) -> Vec<Transaction> {
        let is_ours = |owner: &Owner| match owner {
            Owner::Boots { trial, .. } => self.id.is_empty() || *trial == self.id,
            Owner::Goal { .. } => false,
        };
        let mut open = history(self.root, log);
        open.retain(|done| {
            let is_open = matches!(done.status, Status::InForce | Status::Interrupted);
            is_open && done.owner.as_ref().is_some_and(is_ours)
        });
        open.reverse();
        open
    }

    fn is_unit(&self, done: &Transaction) -> bool {
        done.owner.as_ref() == Some(&self.owner(BootsPart::Unit))
    }

    fn owner(&self, part: BootsPart) -> Owner {
        Owner::Boots { trial: self.id.clone(), part }
    }

    /// Makes the plan that persists the settings of arm B. The host is not changed.
    ///
    /// # Errors
    /// Fails if a setting cannot be set on this host, or cannot persist over a boot.
    pub fn plan(root: &Root, log: &Log, settings: &[Setting], title: &str) -> Result<PlanFile, BootsError> {
        let facts = Facts::probe(root);
        let (own_arguments, before) = (log.own_arguments(), log.lasting_settings(None));
        // The plan has no unit that verifies settings after boots. Such a unit would be another difference between the arms.
        let context = PersistContext {
            facts: &facts,
            unit: None,
            program: None,
            is_image: false,
            boot_files: &[],
            own_arguments: &own_arguments,
        };
        let plan = PlanFile::new(root, &facts, settings, title, Some((&context, &before)))?;
        let is_ours = |cannot: &&Cannot| plan.settings.contains(&cannot.setting);
        match plan.persist.as_ref().and_then(|lasting| lasting.persist.cannot.iter().find(is_ours)) {
            Some(Cannot { setting, why, todo }) => {
                let (setting, why, todo) = (setting.clone(), why.clone(), todo.clone());
                Err(BootsError::NotLasting { setting, why, todo })
            }
            None => Ok(plan),
        }
    }

    /// Writes the unit that continues the trial after each boot.
    ///
    /// # Errors
    /// Fails if the unit can't be written. No part of the unit remains then.
    pub fn begin(&self, program: &str, file: &Path, wait: &mut Wait<'_>) -> Result<(), BootsError> {
        let facts = Facts::probe(self.root);
        let persist = boots_unit(&facts, program, &self.dir, file).map_err(|why| BootsError::NoUnit { why })?;
        let lasting = Lasting { unit: None, again: None, persist };
        let (plan, title) = (Plan::default(), title(&self.id, "goes on after a boot"));
        let owner = self.owner(BootsPart::Unit);
        let job = Job { lasting: Some(&lasting), owner: Some(&owner), ..Job::new(&plan, &title) };
        self.patiently(wait, |state| {
            carry_out(self.root, &self.writer, state, &job, |_| Ok(()))?;
            Ok(())
        })
    }

    /// Whether the unit's transaction is in force. If the transaction was reverted, the trial must not continue.
    ///
    /// # Errors
    /// Fails if the journal can't be read.
    pub fn is_licensed(&self) -> Result<bool, BootsError> {
        let log = Log::read(&self.dir)?;
        Ok(self.open_ones(&log).iter().any(|done| self.is_unit(done) && done.status == Status::InForce))
    }

    /// Whether the unit was written and then reverted, which means that the user ended the trial.
    /// False at the beginning, before the transaction exists.
    ///
    /// # Errors
    /// Fails if the journal can't be read.
    pub fn is_put_back(&self) -> Result<bool, BootsError> {
        let log = Log::read(&self.dir)?;
        let ended = |done: &Transaction| matches!(done.status, Status::Reverted | Status::RolledBack);
        Ok(history(self.root, &log).iter().any(|done| self.is_unit(done) && ended(done)))
    }

    /// Prepares the next boot for this arm. If another evenkeel has locked the journal or a file, it retries for a while.
    ///
    /// # Errors
    /// Fails if the boot can't be prepared, or if another evenkeel keeps a file locked for too long.
    pub fn arm(&self, arm: ArmName, anew: bool, wait: &mut Wait<'_>) -> Result<(), BootsError> {
        self.patiently(wait, |state| self.arm_once(state, arm, anew))
    }

    fn arm_once(&self, state: &mut State, arm: ArmName, anew: bool) -> Result<(), BootsError> {
        let open = self.open_ones(state.log());
        if !open.iter().any(|done| self.is_unit(done)) {
            return Err(BootsError::PutBackMeanwhile);
        }
        let (whole, rest): (Vec<_>, Vec<_>) = open
            .into_iter()
            .filter(|done| !self.is_unit(done))
            .partition(|done| arm == ArmName::B && !anew && done.status == Status::InForce);
        for done in &rest {
            self.revert(state, done.id)?;
        }
        if arm == ArmName::A || !whole.is_empty() {
            return Ok(());
        }
        let words: Vec<String> = self.settings.iter().map(ToString::to_string).collect();
        let title = title(&self.id, &words.join(" "));
        let plan = BootTransactions::plan(self.root, state.log(), &self.settings, &title)?;
        let (steps, owned) = (plan.plan(), plan.owned());
        let owner = self.owner(BootsPart::Settings);
        let job = Job {
            settings: &plan.settings,
            lasting: plan.persist.as_ref(),
            owned: &owned,
            owner: Some(&owner),
            ..Job::new(&steps, &plan.title)
        };
        carry_out(self.root, &self.writer, state, &job, |_| Ok(()))?;
        Ok(())
    }

    /// Reverts all changes of this trial. It removes the unit last, because while the unit exists, the next boot can revert the rest.
    /// An empty id restores all trials over boots.
    /// If another evenkeel has locked a file, it retries for a while.
    ///
    /// # Errors
    /// Names what could not be restored, and who has the lock.
    pub fn put_back(&self, wait: &mut Wait<'_>) -> Result<(), BootsError> {
        self.patiently(wait, |state| {
            for done in self.open_ones(state.log()) {
                self.revert(state, done.id)?;
            }
            Ok(())
        })
    }

    fn revert(&self, state: &mut State, id: u64) -> Result<(), BootsError> {
        let report = revert(self.root, &self.writer, state, Which::Transaction(id))?;
        match report.all_undone {
            true => Ok(()),
            false => Err(BootsError::NotPutBack { id, why: failed(&report).map(str::to_owned) }),
        }
    }

    /// Checks that the settings have the values of the arm. In B the settings are active. In A the settings that need a boot are not active.
    ///
    /// # Errors
    /// Returns the first setting that differs.
    pub fn reads_back(&self, arm: ArmName) -> Result<(), BootsError> {
        let facts = Facts::probe(self.root);
        let plan = PlanFile::new(self.root, &facts, &self.settings, "", None)?;
        for planned in &plan.steps {
            let of_boot = matches!(planned.step.action, Action::KernelArgument { .. });
            let setting = format!("{}={}", planned.step.knob, planned.step.wanted);
            match arm {
                ArmName::B if !planned.already_so => return Err(BootsError::NotInForce { setting }),
                ArmName::A if of_boot && planned.already_so => return Err(BootsError::InForce { setting }),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why the first value could not be restored.
fn failed(report: &RevertReport) -> Option<&str> {
    let files = report.transactions.iter().flat_map(|done| &done.files);
    files.into_iter().find_map(|file| match &file.undo {
        Undo::Failed { why } => Some(why.as_str()),
        _ => None,
    })
}
