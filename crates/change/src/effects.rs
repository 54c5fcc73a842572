//! `Effects`: one root to read, one hand to write, one journal to write first. All that a transaction does goes through it.

use evenkeel_host::Step;
use evenkeel_hostfs::{Hand, Root, WriteError};

use crate::apply::Job;
use crate::log::boot_id;
use crate::outcome::Kind;
use crate::place::{Before, Target};
use crate::record::{Event, Intent};
use crate::state::{State, StateError};

pub(crate) struct Effects<'a> {
    pub(crate) root: &'a Root,
    pub(crate) hand: &'a Hand,
    pub(crate) state: &'a mut State,
}

impl Effects<'_> {
    pub(crate) fn write(&mut self, path: &str, value: &str) -> Result<(), WriteError> {
        self.state.outside.write(self.hand, path, value)
    }

    /// Keeps what a write to `target` changes from every other evenkeel: before its value is read, or it might be another trial's.
    pub(crate) fn claim(&mut self, target: Target<'_>) -> Result<(), StateError> {
        self.state.claim(self.root, target.path)?;
        target.side_effects.iter().try_for_each(|path| self.state.claim(self.root, path))
    }

    pub(crate) fn record(&mut self, event: Event) -> Result<(), StateError> {
        self.state.append(event)
    }

    /// Records that something is as before.
    pub(crate) fn record_undone(&mut self, event: Event) -> Result<(), StateError> {
        self.state.append_undone(event)
    }

    /// Starts a transaction; gives its number.
    pub(crate) fn begin(&mut self, kind: Kind, job: &Job<'_>) -> Result<u64, StateError> {
        let txn = self.state.next_transaction()?;
        self.record(Event::Begin {
            txn,
            kind,
            title: job.title.to_owned(),
            boot_id: boot_id(self.root),
            steps: job.plan.steps.clone(),
            settings: job.settings.to_vec(),
            lasting: job.lasting.cloned(),
            until: job.until,
            owner: job.owner.cloned(),
        })?;
        Ok(txn)
    }

    /// Puts on disk what undoes the write that follows. The registers have it first: whoever is killed in between is found to hold nothing.
    pub(crate) fn intend(&mut self, what: Intended<'_>, before: &Before) -> Result<(), StateError> {
        let Intended { txn, index, step, target, wanted } = what;
        let sides = before.side_effects.iter().map(|side| (side.path.as_str(), side.before.as_str()));
        let own = (target.path, before.value.as_str());
        let is_registered = self.hold((txn, index), std::iter::once(own).chain(sides))?;
        let intent = Intent {
            txn,
            step: index,
            knob: step.knob.clone(),
            place: step.place.clone(),
            path: target.path.to_owned(),
            reading: target.reading,
            wanted: wanted.map(str::to_owned),
            before: before.value.clone(),
            before_text: before.text.clone(),
            side_effects: before.side_effects.clone(),
            undo: String::new(),
            is_registered,
        };
        self.record(Event::Intent(intent.with_undo()))
    }
}

/// A write that is about to happen.
#[derive(Clone, Copy)]
pub(crate) struct Intended<'a> {
    pub(crate) txn: u64,
    pub(crate) index: usize,
    pub(crate) step: &'a Step,
    pub(crate) target: Target<'a>,
    pub(crate) wanted: Option<&'a str>,
}
