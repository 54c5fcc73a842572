//! Frequencies and vulnerabilities on the page of `inspect`. A value that many places share is shown once.

use std::collections::BTreeMap;

use evenkeel_host::facts::{Cpus, Frequency, FrequencyPolicy};

use super::cells::notes;
use crate::show::page::{PLAIN, Page, unknown};

pub(super) fn frequency(page: &mut Page, frequency: &Frequency) {
    page.heading("Frequency");
    page.fact("driver", &frequency.driver);
    page.fact("governor", &frequency.governor);
    page.fact_as("on offer", &frequency.available_governors, |words| words.join(", "));
    let allowed = |allowed: bool| if allowed { "allowed" } else { "not allowed" }.to_owned();
    match frequency.no_turbo.known() {
        Some(no_turbo) => page.row("turbo", PLAIN, &allowed(!no_turbo)),
        None => page.fact_as("boost", &frequency.boost, |boost| allowed(*boost)),
    }
    let Some(policies) = frequency.policies.known() else {
        page.fact_as("policies", &frequency.policies, |_| String::new());
        return;
    };
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    for policy in policies {
        *alike.entry(in_words(policy)).or_default() += 1;
    }
    for (words, count) in alike {
        page.row(&format!("{count} of {} policies", policies.len()), PLAIN, &words);
    }
}

fn in_words(policy: &FrequencyPolicy) -> String {
    let governor = policy.governor.known().map_or("governor unknown", String::as_str);
    match policy.preference.known() {
        Some(preference) => format!("{governor}, prefers {preference}"),
        None => governor.to_owned(),
    }
}

/// The vulnerabilities of the processor, one per row, and the number of others.
pub(super) fn vulnerabilities(page: &mut Page, cpus: &Cpus) {
    let Some(all) = cpus.vulnerabilities.known() else {
        page.fact_as("vulnerabilities", &cpus.vulnerabilities, |_| String::new());
        return;
    };
    let states = all.iter().filter_map(|one| Some((&one.name, one.state.known()?)));
    let (not, has): (Vec<_>, Vec<_>) = states.partition(|(_, state)| state.starts_with("Not affected"));
    for (name, state) in has {
        page.row("vulnerability", PLAIN, &format!("{name}: {state}"));
    }
    page.row("not affected by", PLAIN, &format!("{} of {} known vulnerabilities", not.len(), all.len()));
    notes(page, all.iter().filter(|one| one.state.known().is_none()).map(|one| unknown(&one.state)));
}
