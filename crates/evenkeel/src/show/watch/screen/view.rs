//! What the screen shows.

use evenkeel_watch::Model;

use super::parts::{Palette, Sparks};

/// A tab of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Overview,
    Cpus,
    Ticks,
    Network,
    Settings,
}

impl Tab {
    pub(crate) const ALL: [Tab; 5] = [Tab::Overview, Tab::Cpus, Tab::Ticks, Tab::Network, Tab::Settings];

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Overview => "overview",
            Tab::Cpus => "CPUs",
            Tab::Ticks => "ticks",
            Tab::Network => "network",
            Tab::Settings => "settings",
        }
    }

    /// The tab that is `by` tabs to the right, or to the left if `by` is negative.
    pub(crate) fn moved(self, by: isize) -> Tab {
        let at = Tab::ALL.iter().position(|tab| *tab == self).unwrap_or(0);
        let at = (at as isize + by).rem_euclid(Tab::ALL.len() as isize);
        Tab::ALL.get(at as usize).copied().unwrap_or(self)
    }
}

/// What the screen shows.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) model: &'a Model,
    /// The lateness of each server's ticks in the last samples.
    pub(crate) sparks: &'a Sparks,
    pub(crate) tab: Tab,
    /// The first visible line of the tab.
    pub(crate) scroll: usize,
    /// The shown moment as text, such as `live` or `12 s ago`.
    pub(crate) moment: &'a str,
    /// A warning; empty without a warning.
    pub(crate) warning: &'a str,
    pub(crate) palette: Palette,
}
