//! Compares the applied settings with the host once a minute, and reads the advice of the audit once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_change::{Log, verify};
use evenkeel_host::{AdviceContext, Facts, advise};
use evenkeel_hostfs::Root;

use crate::sample::{DriftSample, SettingsSample};

/// How often the settings are compared. Reading all facts takes some ten milliseconds.
const VERIFY_EVERY_NS: u64 = 60_000_000_000;
/// The maximum number of drifts to list.
const DRIFTS_MAX: usize = 64;

/// The state of the comparison of the applied settings with the host.
#[derive(Debug)]
pub(super) struct Settings {
    journal: Option<PathBuf>,
    state_option: String,
    findings: BTreeMap<String, usize>,
    last: Option<SettingsSample>,
}

impl Settings {
    pub(super) fn new(facts: &Facts, journal: Option<PathBuf>, state_option: String) -> Settings {
        let mut findings = BTreeMap::new();
        for advice in advise(facts, &AdviceContext::default()) {
            if advice.state.is_finding() {
                *findings.entry(advice.state.name().to_owned()).or_default() += 1;
            }
        }
        Settings { journal, state_option, findings, last: None }
    }

    /// The last comparison, which is at most a minute old. None before the first comparison.
    pub(super) fn read(&mut self, root: &Root, now_ns: u64) -> Option<SettingsSample> {
        let is_fresh = |last: &&SettingsSample| now_ns.saturating_sub(last.verified_ns) < VERIFY_EVERY_NS;
        if self.last.as_ref().filter(is_fresh).is_none() {
            self.last = Some(self.compare(root, now_ns));
        }
        self.last.clone()
    }

    fn compare(&self, root: &Root, now_ns: u64) -> SettingsSample {
        let mut settings =
            SettingsSample { verified_ns: now_ns, findings: self.findings.clone(), ..SettingsSample::default() };
        let Some(journal) = &self.journal else {
            settings.why_unknown = Some("no journal belongs to this root".to_owned());
            return settings;
        };
        let log = match Log::read_noted(journal).and_then(|log| log.describes(root).map(|()| log)) {
            Ok(log) => log,
            Err(error) => {
                settings.why_unknown = Some(error.to_string());
                return settings;
            }
        };
        let found = verify(root, &Facts::probe(root), &log).with_state_option(&self.state_option);
        settings.holds = found.holds;
        settings.drift_beyond = found.drift.len().saturating_sub(DRIFTS_MAX);
        let drifts = found.drift.into_iter().take(DRIFTS_MAX).map(|drift| DriftSample {
            knob: drift.knob,
            place: drift.place,
            wanted: drift.wanted,
            found: drift.found.to_string(),
            mend: drift.mend,
        });
        settings.drift = drifts.collect();
        settings
    }
}
