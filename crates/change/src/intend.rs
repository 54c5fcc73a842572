//! Records what a step is about to change: first in the file's register, then in the journal.

use evenkeel_host::Step;

use crate::effects::Effects;
use crate::place::{Before, Target};
use crate::record::{Event, Intent};
use crate::state_error::StateError;

/// A write that evenkeel is about to make.
#[derive(Clone, Copy)]
pub(crate) struct Intended<'a> {
    pub(crate) txn: u64,
    pub(crate) index: usize,
    pub(crate) step: &'a Step,
    pub(crate) target: Target<'a>,
    pub(crate) wanted: Option<&'a str>,
}

impl Effects<'_> {
    /// Writes the undo data of the next write to disk, first to the registers and then to the journal.
    /// If the process is killed in between, the register lists a journal with nothing to undo.
    /// The next process finds that out.
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
