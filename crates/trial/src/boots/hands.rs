//! The changes to the host that a trial over boots makes. Each is a transaction of the journal, found by its owner: the unit, and the
//! settings of arm B. There is no other memory of them, so that `evenkeel revert` and a damaged state lose nothing.

use std::path::{Path, PathBuf};

use evenkeel_change::persist::{Ground, boots_unit};
use evenkeel_change::{
    BootsPart, Cannot, Job, Lasting, Log, Owner, PlanFile, RevertReport, State, Status, Transaction, Undo, Which,
    carry_out, history, revert,
};
use evenkeel_host::{Action, Facts, Plan, Setting};
use evenkeel_hostfs::{Hand, Root};

use super::patience::{Wait, patiently};
use crate::arm::ArmName;

/// The title of one of a trial's transactions, for people.
fn title(id: &str, what: &str) -> String {
    format!("prove over boots [{id}]: {what}")
}

/// The hands of one trial.
pub struct Hands<'a> {
    root: &'a Root,
    hand: Hand,
    dir: PathBuf,
    id: String,
    settings: Vec<Setting>,
}

impl<'a> Hands<'a> {
    /// Those of the trial `id` on the host at `root`, whose journal is in `dir`.
    ///
    /// # Errors
    /// If the root can't be changed.
    pub fn new(root: &'a Root, dir: &Path, id: &str, settings: Vec<Setting>) -> Result<Hands<'a>, String> {
        let hand = root.hand().map_err(|error| error.to_string())?;
        Ok(Hands { root, hand, dir: dir.to_owned(), id: id.to_owned(), settings })
    }

    fn open(&self) -> Result<State, String> {
        State::open(&self.dir).map_err(|error| error.to_string())
    }

    /// The transactions of this trial of which something may be left, the newest first.
    fn open_ones(&self, log: &Log) -> Vec<Transaction> {
        let is_ours = |owner: &Owner| match owner {
            Owner::Boots { trial, .. } => self.id.is_empty() || *trial == self.id,
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

    /// What would make arm B last, as a plan; nothing is changed.
    ///
    /// # Errors
    /// If a setting has no place here, or nothing carries it over a boot.
    pub fn plan(
        root: &Root,
        log: &Log,
        settings: &[Setting],
        title: &str,
    ) -> Result<PlanFile, (String, Option<String>)> {
        let facts = Facts::probe(root);
        let (own_arguments, before) = (log.own_arguments(), log.lasting_settings(None));
        // No unit that verifies after boots: it would be one more thing that differs between the arms.
        let ground = Ground {
            facts: &facts,
            unit: None,
            program: None,
            is_image: false,
            boot_files: &[],
            own_arguments: &own_arguments,
        };
        let plan = PlanFile::of(root, &facts, settings, title, Some((&ground, &before)))
            .map_err(|error| (error.to_string(), None))?;
        let is_ours = |cannot: &&Cannot| plan.settings.contains(&cannot.setting);
        match plan.keep.as_ref().and_then(|lasting| lasting.keep.cannot.iter().find(is_ours)) {
            Some(Cannot { setting, why, todo }) => {
                Err((format!("make {setting} outlive a boot: {why}"), Some(todo.clone())))
            }
            None => Ok(plan),
        }
    }

    /// Writes the unit that goes on after each boot.
    ///
    /// # Errors
    /// If it can't be written; nothing of it is left then.
    pub fn begin(&self, program: &str, file: &Path, wait: &mut Wait<'_>) -> Result<(), String> {
        let facts = Facts::probe(self.root);
        let keep = boots_unit(&facts, program, &self.dir, file)?;
        let lasting = Lasting { unit: None, keep };
        let (plan, title) = (Plan::default(), title(&self.id, "goes on after a boot"));
        let owner = self.owner(BootsPart::Unit);
        let job = Job { lasting: Some(&lasting), owner: Some(&owner), ..Job::of(&plan, &title) };
        patiently(wait, || {
            let mut state = self.open()?;
            carry_out(self.root, &self.hand, &mut state, &job, |_| Ok(())).map_err(|error| error.to_string())?;
            Ok(())
        })
    }

    /// Whether the unit's transaction stands: what was reverted is not to go on.
    ///
    /// # Errors
    /// If the journal can't be read.
    pub fn is_licensed(&self) -> Result<bool, String> {
        let log = Log::read(&self.dir).map_err(|error| error.to_string())?;
        Ok(self.open_ones(&log).iter().any(|done| self.is_unit(done) && done.status == Status::InForce))
    }

    /// Whether the unit was written once and has been put back since: somebody ended it. Right at its beginning it is not yet licensed, and
    /// not this either.
    ///
    /// # Errors
    /// If the journal can't be read.
    pub fn is_put_back(&self) -> Result<bool, String> {
        let log = Log::read(&self.dir).map_err(|error| error.to_string())?;
        let ended = |done: &Transaction| matches!(done.status, Status::Reverted | Status::RolledBack);
        Ok(history(self.root, &log).iter().any(|done| self.is_unit(done) && ended(done)))
    }

    /// Brings about that the next boot is of this arm. Where another evenkeel holds the journal or what has to be written, it is asked again
    /// for a while.
    ///
    /// # Errors
    /// If it can't be; also who holds it for too long.
    pub fn arm(&self, arm: ArmName, anew: bool, wait: &mut Wait<'_>) -> Result<(), String> {
        patiently(wait, || self.arm_once(arm, anew))
    }

    /// The journal is opened anew each time, so that it is free for others in between.
    fn arm_once(&self, arm: ArmName, anew: bool) -> Result<(), String> {
        let mut state = self.open()?;
        let open = self.open_ones(state.log());
        if !open.iter().any(|done| self.is_unit(done)) {
            return Err("it was put back by `evenkeel revert` meanwhile".to_owned());
        }
        let (whole, rest): (Vec<_>, Vec<_>) = open
            .into_iter()
            .filter(|done| !self.is_unit(done))
            .partition(|done| arm == ArmName::B && !anew && done.status == Status::InForce);
        for done in &rest {
            self.revert(&mut state, done.id)?;
        }
        if arm == ArmName::A || !whole.is_empty() {
            return Ok(());
        }
        let words: Vec<String> = self.settings.iter().map(ToString::to_string).collect();
        let title = title(&self.id, &words.join(" "));
        let plan = Hands::plan(self.root, state.log(), &self.settings, &title).map_err(|(why, _)| why)?;
        let (steps, owned) = (plan.plan(), plan.owned());
        let owner = self.owner(BootsPart::Settings);
        let job = Job {
            settings: &plan.settings,
            lasting: plan.keep.as_ref(),
            owned: &owned,
            owner: Some(&owner),
            ..Job::of(&steps, &plan.title)
        };
        carry_out(self.root, &self.hand, &mut state, &job, |_| Ok(())).map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Puts everything of this trial back, the settings before the unit: as long as the unit is there, a boot finds what is left. With an
    /// empty id, everything of every trial over boots. What another evenkeel holds is asked for again for a while.
    ///
    /// # Errors
    /// What is left; also who holds it for too long.
    pub fn put_back(&self, wait: &mut Wait<'_>) -> Result<(), String> {
        patiently(wait, || {
            let mut state = self.open()?;
            for done in self.open_ones(state.log()) {
                self.revert(&mut state, done.id)?;
            }
            Ok(())
        })
    }

    fn revert(&self, state: &mut State, id: u64) -> Result<(), String> {
        let report = revert(self.root, &self.hand, state, Which::Transaction(id)).map_err(|error| error.to_string())?;
        if report.all_undone {
            return Ok(());
        }
        let why = failed(&report).map_or_else(String::new, |why| format!(" ({why})"));
        Err(format!("put transaction {id} back{why}; `evenkeel revert` tells what is left, and tries again"))
    }

    /// Whether the settings read as the arm wants them: in force in B, and what takes a boot not in force in A.
    ///
    /// # Errors
    /// What reads otherwise.
    pub fn reads_back(&self, arm: ArmName) -> Result<(), String> {
        let facts = Facts::probe(self.root);
        let plan = PlanFile::of(self.root, &facts, &self.settings, "", None).map_err(|error| error.to_string())?;
        for planned in &plan.steps {
            let of_boot = matches!(planned.step.action, Action::KernelArgument { .. });
            let setting = format!("{}={}", planned.step.knob, planned.step.wanted);
            match arm {
                ArmName::B if !planned.already_so => return Err(format!("{setting} is not in force in this boot")),
                ArmName::A if of_boot && planned.already_so => {
                    return Err(format!("{setting} is in force in this boot, which was to be without"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Why the first value that was not put back was not.
fn failed(report: &RevertReport) -> Option<&str> {
    let files = report.transactions.iter().flat_map(|done| &done.files);
    files.into_iter().find_map(|file| match &file.undo {
        Undo::Failed { why } => Some(why.as_str()),
        _ => None,
    })
}
