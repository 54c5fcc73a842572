//! `Log`: the state of each transaction, computed from the journal's records.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_host::{Action, Place, Setting, Step};
use evenkeel_hostfs::{Root, RootKind};

use crate::ServiceName;
use crate::loss::Loss;
use crate::outcome::{Kind, SideEffect};
use crate::owner::Owner;
use crate::persist_plan::{Carried, Lasting};
use crate::record::{CommandIntent, Event, FailedStep, FileIntent, Intent, OwnedStep, Until};
use crate::state_error::StateError;

/// This text replaces the boot id if the root is not a running machine.
const IMAGE: &str = "image";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The content of the journal. [`Log::read`] reads a log; an open [`State`](crate::State) also has one.
#[derive(Clone, Debug, Default)]
pub struct Log {
    transactions: BTreeMap<u64, Logged>,
    torn_bytes: u64,
    passed_over: BTreeMap<String, u64>,
    losses: Vec<Loss>,
    left_out: LeftOut,
    /// The length of the records of these transactions, in bytes.
    bytes: u64,
    /// Who held the journal's lock when the journal was read without it.
    pub(crate) holder: Option<String>,
}

/// Closed transactions that the log has dropped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeftOut {
    pub(crate) transactions: u64,
    /// The highest number of any dropped transaction.
    pub(crate) newest: u64,
    /// Whether the journal's file still contains some of the dropped transactions.
    pub(crate) is_unwritten: bool,
}

/// One transaction's records.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) id: u64,
    pub(crate) at_ns: u64,
    /// When evenkeel had written all steps of the transaction.
    pub(crate) committed_at_ns: Option<u64>,
    pub(crate) kind: Kind,
    pub(crate) title: String,
    pub(crate) boot_id: Option<String>,
    pub(crate) steps: Vec<Step>,
    pub(crate) settings: Vec<String>,
    pub(crate) lasting: Option<Lasting>,
    pub(crate) until: Option<Until>,
    pub(crate) owner: Option<Owner>,
    pub(crate) captured: Option<bool>,
    pub(crate) is_confirmed: bool,
    pub(crate) intents: BTreeMap<usize, Intent>,
    pub(crate) files: BTreeMap<usize, FileIntent>,
    pub(crate) commands: BTreeMap<usize, CommandIntent>,
    pub(crate) done: BTreeMap<usize, Done>,
    pub(crate) undone: BTreeSet<usize>,
    pub(crate) already_so: Vec<usize>,
    pub(crate) missed: Vec<FailedStep>,
    pub(crate) owned: Vec<OwnedStep>,
    pub(crate) end: Option<End>,
    /// Whether the first record of the transaction is lost.
    pub(crate) is_headless: bool,
    bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) found: String,
    pub(crate) side_effects: Vec<SideEffect>,
}

#[derive(Clone, Debug)]
pub(crate) enum End {
    Committed,
    RolledBack { failed: Option<FailedStep> },
    Reverted,
    EndedByReboot,
}

/// A file that evenkeel must still restore, and its value after our write, if known.
#[derive(Clone, Debug)]
pub(crate) struct PendingUndo {
    pub(crate) intent: Intent,
    pub(crate) done: Option<Done>,
}

impl Log {
    /// Checks that the changes were made on the machine of this root. A rehearsal changes only a captured machine.
    /// Undoing a rehearsal on a real machine would write values that this machine never had.
    ///
    /// # Errors
    /// [`StateError::Rehearsal`] for a rehearsal's journal on a real machine;
    /// [`StateError::NoRehearsal`] for a real journal on a captured machine.
    pub fn is_about(&self, root: &Root) -> Result<(), StateError> {
        let is_captured = root.kind() == RootKind::Captured;
        match self.transactions.values().any(|logged| logged.captured == Some(!is_captured)) {
            true if is_captured => Err(StateError::NoRehearsal),
            true => Err(StateError::Rehearsal),
            false => Ok(()),
        }
    }

    /// Checks that the journal can be compared with the machine of this root.
    /// The journal of a real machine may be compared with a capture of that machine.
    ///
    /// # Errors
    /// [`StateError::Rehearsal`] for a rehearsal's journal on a real machine.
    pub fn describes(&self, root: &Root) -> Result<(), StateError> {
        if root.kind() == RootKind::Captured { Ok(()) } else { self.is_about(root) }
    }

    /// The size of the incomplete record that a crash left at the journal's end, in bytes.
    /// The next append moves it to `journal.torn-N`.
    pub fn torn_bytes(&self) -> Option<u64> {
        (self.torn_bytes > 0).then_some(self.torn_bytes)
    }

    /// Records of kinds that only a newer evenkeel can interpret: the number of records of each kind.
    /// They stay in the journal.
    pub fn passed_over(&self) -> &BTreeMap<String, u64> {
        &self.passed_over
    }

    /// The other process that works on this journal, if any: its process number, and the path of the journal.
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// Whether another process works on this transaction.
    /// Only one process at a time holds a journal, and older unfinished transactions may come from killed processes.
    /// So only the newest unfinished transaction counts.
    pub(crate) fn is_under_way(&self, logged: &Logged) -> bool {
        let newest = self.transactions.values().rfind(|logged| !logged.is_closed() && logged.is_unfinished());
        self.holder.is_some() && newest.is_some_and(|newest| newest.id == logged.id)
    }

    /// Whether the log contains transaction `id`.
    pub fn has(&self, id: u64) -> bool {
        self.transactions.contains_key(&id)
    }

    /// How long transaction `id` may wait for confirmation, in seconds. `None` if the transaction has no time limit.
    pub fn seconds_to_confirm(&self, id: u64) -> Option<u64> {
        Some(self.transactions.get(&id)?.until?.seconds)
    }

    /// The missing and unreadable parts of the journal.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// How many closed transactions evenkeel dropped because the journal was too long.
    pub fn left_out(&self) -> u64 {
        self.left_out.transactions
    }

    pub(crate) fn transactions(&self) -> impl DoubleEndedIterator<Item = &Logged> {
        self.transactions.values()
    }

    pub(crate) fn transaction(&self, id: u64) -> Option<&Logged> {
        self.transactions.get(&id)
    }

    /// Returns a transaction that this log certainly contains.
    pub(crate) fn begun(&self, id: u64) -> &Logged {
        &self.transactions[&id]
    }

    /// The settings that must persist over the next boot, the oldest first.
    /// Settings of another server's unit are left out.
    pub fn lasting_settings(&self, unit: Option<&str>) -> Vec<Setting> {
        let in_force = self.transactions.values().filter(|logged| !logged.is_closed() && logged.lasting.is_some());
        let mut settings = Vec::new();
        for logged in in_force {
            let theirs = logged.lasting.as_ref().and_then(|lasting| lasting.unit.as_deref());
            let parsed = logged.settings.iter().filter_map(|text| Setting::parse(text).ok());
            settings.extend(parsed.filter(|setting| setting.knob.place != Place::Process || theirs == unit));
        }
        settings
    }

    /// The kernel arguments that transactions in force have added, as `NAME=VALUE`.
    pub fn own_arguments(&self) -> Vec<String> {
        let in_force = self.transactions.values().filter(|logged| !logged.is_closed() && logged.lasting.is_some());
        let steps = in_force.flat_map(|logged| &logged.steps);
        let arguments = steps.filter_map(|step| match &step.action {
            Action::KernelArgument { argument } => Some(argument.clone()),
            _ => None,
        });
        arguments.collect()
    }

    /// Whether a transaction other than `txn` was killed before its command `argv` had run.
    pub(crate) fn has_pending_command(&self, txn: u64, argv: &[String]) -> bool {
        self.transactions.values().any(|logged| {
            let wants = |lasting: &Lasting| lasting.persist.commands.iter().any(|command| command.argv == argv);
            let has_run = logged.commands.values().any(|ran| ran.argv == argv && logged.done.contains_key(&ran.step));
            logged.id != txn && logged.is_unfinished() && logged.lasting.as_ref().is_some_and(wants) && !has_run
        })
    }

    /// Whether evenkeel must still restore a change of `path` by this step or a later step.
    pub(crate) fn has_pending(&self, path: &str, txn: u64, step: usize) -> bool {
        self.transactions.range(txn..).any(|(id, logged)| {
            let changes = |at: &usize| (*id, *at) >= (txn, step) && !logged.undone.contains(at);
            let of_value = |(at, intent): (&usize, &Intent)| changes(at) && intent.paths().any(|own| own == path);
            let of_file = |(at, file): (&usize, &FileIntent)| changes(at) && file.path == path;
            !logged.is_closed() && (logged.intents.iter().any(of_value) || logged.files.iter().any(of_file))
        })
    }

    pub(crate) fn next_id(&self) -> Option<u64> {
        let last = self.transactions.last_key_value().map_or(0, |(last, _)| *last);
        last.max(self.left_out.newest).checked_add(1)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn what_is_left_out(&self) -> LeftOut {
        self.left_out
    }

    /// How many bytes of closed transactions exceed `kept_bytes`.
    pub(crate) fn spare_bytes(&self, kept_bytes: u64) -> u64 {
        let closed = self.transactions.values().filter(|logged| logged.is_closed());
        closed.map(|logged| logged.bytes).sum::<u64>().saturating_sub(kept_bytes)
    }

    /// Drops the oldest closed transactions until the closed ones have at most this many bytes.
    pub(crate) fn leave_out_closed(&mut self, kept_bytes: u64) {
        let mut spare = self.spare_bytes(kept_bytes);
        let LeftOut { transactions, newest, is_unwritten } = &mut self.left_out;
        let bytes = &mut self.bytes;
        self.transactions.retain(|id, logged| {
            let stays = spare == 0 || !logged.is_closed();
            if !stays {
                spare = spare.saturating_sub(logged.bytes);
                *bytes -= logged.bytes;
                *transactions += 1;
                *newest = (*newest).max(*id);
                *is_unwritten = true;
            }
            stays
        });
    }

    pub(crate) fn left_out_is_written(&mut self) {
        self.left_out.is_unwritten = false;
    }

    /// Adds a transaction that has no first record, but that other records mention.
    pub(crate) fn begin_without_its_record(&mut self, id: u64) {
        self.transactions.insert(id, Logged { is_headless: true, ..Logged::new(id) });
    }

    /// The steps that cannot be restored because the record of the original value is lost.
    pub(crate) fn lost_befores(&self) -> Vec<Loss> {
        let open = self.transactions.values().filter(|logged| !logged.is_closed());
        open.flat_map(|logged| logged.lost_steps().into_iter().map(|step| logged.lost_before(step))).collect()
    }

    /// The log of a missing journal. `noted` is the number of the last record, from the note.
    pub(crate) fn missing(noted: Option<u64>) -> Log {
        let losses = noted.filter(|last| *last > 0).map(|last| Loss::Records { first: 1, last });
        Log { losses: losses.into_iter().collect(), ..Log::default() }
    }

    pub(crate) fn set_losses(&mut self, losses: Vec<Loss>) {
        self.losses = losses;
    }

    pub(crate) fn pass_over(&mut self, kind: String) {
        *self.passed_over.entry(kind).or_default() += 1;
    }

    pub(crate) fn set_torn(&mut self, bytes: u64) {
        self.torn_bytes = bytes;
    }

    pub(crate) fn clear_torn(&mut self) {
        self.torn_bytes = 0;
    }

    /// Adds a record of this many bytes. Returns the reason if the record cannot follow the earlier records.
    pub(crate) fn absorb(&mut self, at_ns: u64, event: Event, bytes: u64) -> Result<(), String> {
        let id = event.txn();
        match event {
            Event::Compacted { txn, transactions } => {
                self.left_out.transactions += transactions;
                self.left_out.newest = self.left_out.newest.max(txn);
                return Ok(());
            }
            Event::Begin { txn, kind, title, boot_id, steps, settings, lasting, until, owner, captured } => {
                if self.transactions.last_key_value().is_some_and(|(last, _)| *last >= id) {
                    return Err(format!("transaction {id} begins a second time"));
                }
                let owner = owner.or_else(|| Owner::from_title(&title));
                let new = Logged::new(txn);
                let logged =
                    Logged { at_ns, kind, title, boot_id, steps, settings, lasting, until, owner, captured, ..new };
                self.transactions.insert(id, logged);
            }
            event => {
                let logged = self.transactions.get_mut(&id).ok_or_else(|| format!("transaction {id} never began"))?;
                if matches!(event, Event::Commit { .. }) {
                    logged.committed_at_ns = Some(at_ns);
                }
                logged.absorb(event);
            }
        }
        if let Some(logged) = self.transactions.get_mut(&id) {
            logged.bytes += bytes;
            self.bytes += bytes;
        }
        Ok(())
    }
}

impl Logged {
    fn new(id: u64) -> Logged {
        Logged {
            id,
            at_ns: 0,
            committed_at_ns: None,
            kind: Kind::Apply,
            title: "unknown: the record that begins it is missing".to_owned(),
            boot_id: None,
            steps: Vec::new(),
            settings: Vec::new(),
            lasting: None,
            until: None,
            owner: None,
            captured: None,
            is_confirmed: false,
            intents: BTreeMap::new(),
            files: BTreeMap::new(),
            commands: BTreeMap::new(),
            done: BTreeMap::new(),
            undone: BTreeSet::new(),
            already_so: Vec::new(),
            missed: Vec::new(),
            owned: Vec::new(),
            end: None,
            is_headless: false,
            bytes: 0,
        }
    }

    fn absorb(&mut self, event: Event) {
        match event {
            Event::Begin { .. } | Event::Compacted { .. } => {}
            Event::Intent(intent) => {
                self.intents.insert(intent.step, intent);
            }
            Event::File(intent) => {
                self.files.insert(intent.step, intent);
            }
            Event::Command(intent) => {
                self.commands.insert(intent.step, intent);
            }
            Event::Confirmed { .. } => self.is_confirmed = true,
            Event::Done { step, found, side_effects, .. } => {
                self.done.insert(step, Done { found, side_effects });
            }
            Event::Commit { already_so, missed, owned, .. } => {
                self.already_so = already_so;
                self.missed = missed;
                self.owned = owned;
                self.end = Some(End::Committed);
            }
            Event::Undone { step, .. } => {
                self.undone.insert(step);
            }
            Event::RolledBack { failed, .. } => self.end = Some(End::RolledBack { failed }),
            Event::Reverted { .. } => self.end = Some(End::Reverted),
            Event::EndedByReboot { .. } => self.end = Some(End::EndedByReboot),
        }
    }

    /// The applied steps without a record of the original value. Files and commands are numbered after the steps.
    pub(crate) fn lost_steps(&self) -> BTreeSet<usize> {
        let has_intent = |step: &usize| {
            self.intents.contains_key(step) || self.files.contains_key(step) || self.commands.contains_key(step)
        };
        let mut lost: BTreeSet<usize> = self.done.keys().copied().collect();
        if matches!(self.end, Some(End::Committed)) {
            let is_missed = |step: usize| self.missed.iter().any(|missed| missed.step == step);
            let persist = self.lasting.as_ref().map(|lasting| &lasting.persist);
            let persisted = persist.map_or(0, |persist| persist.files.len() + persist.commands.len());
            let writes = |(index, step): (usize, &Step)| {
                (matches!(step.action, Action::Write { .. }) && !self.is_of_image()).then_some(index)
            };
            let written = self.steps.iter().enumerate().filter_map(writes);
            let all = written.chain((0..persisted).map(|index| self.steps.len() + index));
            lost.extend(all.filter(|index| !self.already_so.contains(index) && !is_missed(*index)));
        }
        lost.retain(|step| !has_intent(step) && !self.undone.contains(step));
        lost
    }

    pub(crate) fn lost_before(&self, index: usize) -> Loss {
        let transaction = self.id;
        if let Some(Step { knob, place, wanted, .. }) = self.steps.get(index) {
            let (knob, place, wanted) = (Some(knob.clone()), Some(place.clone()), Some(wanted.clone()));
            return Loss::Before { transaction, knob, place, wanted };
        }
        let persist = self.lasting.as_ref().map(|lasting| &lasting.persist);
        let files = persist.iter().flat_map(|persist| &persist.files).map(|file| file.path.clone());
        let commands = persist.iter().flat_map(|persist| &persist.commands).map(|command| command.argv.join(" "));
        let knob = index.checked_sub(self.steps.len()).and_then(|at| files.chain(commands).nth(at));
        Loss::Before { transaction, knob, place: None, wanted: None }
    }

    /// The file or command that persists a step over a boot.
    pub(crate) fn carrier(&self, step: &Step) -> Option<&str> {
        self.carried(step).map(|carried| carried.by.as_str())
    }

    /// Like [`carrier`](Logged::carrier), with the time at which the file or command takes effect.
    pub(crate) fn carried(&self, step: &Step) -> Option<&Carried> {
        let lasting = self.lasting.as_ref()?;
        let name = |setting: &'_ str| setting.split_once('=').map_or(setting, |(name, _)| name).to_owned();
        let is_its = |setting: &str| name(setting).split('@').next() == Some(&*step.knob);
        let is_of_place = |setting: &str| name(setting).split_once('@') == Some((&*step.knob, &*step.place));
        let find = |is_wanted: &dyn Fn(&str) -> bool| {
            lasting.persist.carried.iter().find(|carried| is_wanted(&carried.setting))
        };
        find(&is_of_place).or_else(|| find(&is_its))
    }

    /// The service whose process has a step's property.
    /// The step's place may name the service; otherwise it is the transaction's service.
    pub(crate) fn unit_of<'a>(&'a self, step: &'a Step) -> Option<&'a str> {
        let place = Some(step.place.as_str()).filter(|place| place.parse::<ServiceName>().is_ok());
        place.or_else(|| self.lasting.as_ref()?.unit.as_deref())
    }

    /// Whether the transaction was made in an image that had never been booted.
    pub(crate) fn is_of_image(&self) -> bool {
        self.boot_id.as_deref() == Some(IMAGE)
    }

    /// Whether no part of the transaction needs a restore, according to the records.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.end, Some(End::RolledBack { .. } | End::Reverted | End::EndedByReboot))
    }

    /// Whether the program was killed in the middle of the transaction, or still works on the transaction.
    pub(crate) fn is_unfinished(&self) -> bool {
        // A step that failed restored itself, so it does not count as a partial restore.
        let is_missed = |step: &usize| self.missed.iter().any(|missed| missed.step == *step);
        self.end.is_none()
            || (matches!(self.end, Some(End::Committed)) && self.undone.iter().any(|step| !is_missed(step)))
    }

    pub(crate) fn is_of_boot(&self, boot_id: Option<&str>) -> bool {
        // A captured machine may lack its boot id. Then assume that there was no reboot.
        self.boot_id.as_deref().zip(boot_id).is_none_or(|(then, now)| then == now)
    }

    /// The changes that evenkeel must restore, the last change first.
    pub(crate) fn pending(&self) -> Vec<PendingUndo> {
        let pending = |(step, intent): (&usize, &Intent)| PendingUndo {
            intent: intent.clone(),
            done: self.done.get(step).cloned(),
        };
        self.intents.iter().rev().filter(|(step, _)| !self.undone.contains(step)).map(pending).collect()
    }

    /// The configuration files that evenkeel must restore, the last change first.
    pub(crate) fn pending_files(&self) -> Vec<FileIntent> {
        self.files.iter().rev().filter(|(step, _)| !self.undone.contains(step)).map(|(_, file)| file.clone()).collect()
    }

    /// Commands that evenkeel must undo after it has restored the files, in the order in which the commands ran.
    pub(crate) fn pending_commands(&self) -> Vec<CommandIntent> {
        let pending = self.commands.iter().filter(|(step, _)| !self.undone.contains(step));
        pending.map(|(_, command)| command.clone()).collect()
    }

    /// Whether the transaction changed configuration files or ran commands, so
    /// that a reboot does not undo it completely.
    pub(crate) fn outlives_boots(&self) -> bool {
        !self.files.is_empty() || !self.commands.is_empty()
    }

    /// Whether the transaction reverts itself unless the user confirms it.
    pub(crate) fn awaits_confirmation(&self) -> bool {
        self.until.is_some() && !self.is_confirmed && !self.is_closed()
    }

    /// Every file that the transaction changes, side effects included.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let values = self.intents.values().flat_map(Intent::paths);
        values.chain(self.files.values().map(|file| file.path.as_str()))
    }
}

/// The id of the machine's boot; `None` if a captured machine does not record it.
pub(crate) fn boot_id(root: &Root) -> Option<String> {
    if root.kind() == RootKind::Mounted {
        return Some(IMAGE.to_owned());
    }
    root.text(BOOT_ID).ok().map(|text| text.trim().to_owned())
}
