//! Finds why a value is not in force: which file sets it at boot, and which other program changes it at runtime.

use evenkeel_host::{Facts, Knob, Lasts, Step, knobs};

use crate::place::{Target, same};

/// Why the value is `found`, as text that follows "because"; `None` if no cause is known.
pub(crate) fn culprit(facts: &Facts, step: &Step, found: &str) -> Option<String> {
    let path = Target::from_step(step)?.path;
    sysctl_file(facts, path, &step.wanted, found)
        .or_else(|| irqbalance(facts, path))
        .or_else(|| multiqueue(facts, path))
        .or_else(|| tuned(facts))
        .or_else(|| bpftune(facts, path))
}

fn sysctl_file(facts: &Facts, path: &str, wanted: &str, found: &str) -> Option<String> {
    let key = path.strip_prefix("/proc/sys/")?;
    let files = facts.owners.sysctl_files.known()?;
    let settings = files.read.iter().filter_map(|file| Some((file, file.settings.known()?)));
    let mut all = settings.flat_map(|(file, settings)| settings.iter().map(move |setting| (file, setting)));
    let (file, last) = all.rfind(|(_, setting)| setting.key == key && setting.value.is_some())?;
    let value = last.value.as_deref().unwrap_or_default();
    (same(value, found) && !same(value, wanted)).then(|| {
        format!("{} sets it to {value} in line {}, at each boot and each `sysctl --system`", file.path, last.line)
    })
}

fn irqbalance(facts: &Facts, path: &str) -> Option<String> {
    let runs = facts.owners.irqbalance.known() == Some(&true);
    let keeps_off = |knob: &&&Knob| matches!(knob.extras.lasts, Some(Lasts::IrqbalanceVariables));
    let knob = knobs::ALL.iter().find(keeps_off).filter(|_| runs && path.starts_with("/proc/irq/"))?;
    Some(format!("irqbalance runs, and moves interrupts within ten seconds; see {}", knob.id))
}

fn multiqueue(facts: &Facts, path: &str) -> Option<String> {
    let is_there = facts.owners.google_set_multiqueue.known() == Some(&true);
    let is_its = path.starts_with("/proc/irq/") || path.ends_with("/xps_cpus");
    (is_there && is_its).then(|| "google_set_multiqueue assigns each queue a CPU at boot".to_owned())
}

fn tuned(facts: &Facts) -> Option<String> {
    let profile = facts.owners.tuned_profile.known()?;
    Some(format!("TuneD runs with the profile {profile}, which may set it: `tuned-adm profile_info {profile}`"))
}

fn bpftune(facts: &Facts, path: &str) -> Option<String> {
    let runs = facts.owners.bpftune.known() == Some(&true);
    (runs && path.starts_with("/proc/sys/")).then(|| "bpftune runs, and changes sysctls when it decides to".to_owned())
}
