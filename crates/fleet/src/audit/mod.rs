//! Many hosts at once: their settings, facts and advice by group, and the hosts that differ from the rest of their group.

mod answer;
mod asked;
mod diff;
mod difference;
mod hosts;
mod names;
mod observed;
mod report;
mod tally;
#[cfg(test)]
mod tests;

pub use answer::{Trait, Unread, ValueCount};
pub use asked::By;
pub use diff::{FleetDiff, GroupDiff, HostDiff, Mixed, RowDiff};
pub use difference::Difference;
pub use hosts::{Full, Hosts};
pub use observed::Observed;
pub use report::{
    FleetAudit, GroupStates, GroupSummary, KnobStates, LevelCount, Outlier, RowInGroup, RowSummary, StateCount,
};
