//! `Set`: the knobs with which a search continues.

use crate::arm::{Arm, Level};

/// The knobs that continue, each at the level that looks best.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Set {
    /// The indices of these knobs.
    pub(super) members: Vec<usize>,
    /// The level of each of these knobs; all other knobs keep their original values.
    pub(super) arm: Arm,
}

impl Set {
    /// The set without this knob.
    pub(super) fn without(&self, knob: usize) -> Set {
        let mut set = self.clone();
        set.members.retain(|member| *member != knob);
        set.arm.0[knob] = Level::AsItWas;
        set
    }
}
