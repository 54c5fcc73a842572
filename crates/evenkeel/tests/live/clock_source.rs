//! `Switchable`: the clock source of this host, and a second source to which checks may switch for a while.

use std::fs;

use evenkeel_testkit::live;

use crate::faults::CLOCK_SOURCE;

const OFFERED: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// The current clock source, and a second one. Dropping this value selects the first source again.
pub(crate) struct Switchable {
    pub(crate) before: String,
    pub(crate) other: String,
}

impl Switchable {
    /// `None` if this user may not change the source, or the host has only one source. Then the check is skipped.
    pub(crate) fn find() -> Option<Switchable> {
        let before = source();
        let offered = fs::read_to_string(OFFERED).unwrap_or_default();
        let other = offered.split_ascii_whitespace().find(|name| *name != before);
        let found = other.filter(|_| fs::write(CLOCK_SOURCE, &before).is_ok());
        if found.is_none() {
            live::not_judged(format_args!("this user can't change the clock source {before}; offered: {offered}"));
        }
        Some(Switchable { other: found?.to_owned(), before })
    }

    /// Selects the other source.
    pub(crate) fn switch(&self) {
        fs::write(CLOCK_SOURCE, &self.other).unwrap();
    }

    /// Selects the original source.
    pub(crate) fn switch_back(&self) {
        fs::write(CLOCK_SOURCE, &self.before).unwrap();
    }
}

impl Drop for Switchable {
    fn drop(&mut self) {
        let _ = fs::write(CLOCK_SOURCE, &self.before);
    }
}

/// The current source.
pub(crate) fn source() -> String {
    fs::read_to_string(CLOCK_SOURCE).unwrap_or_default().trim().to_owned()
}
