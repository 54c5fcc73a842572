//! Other influences on a setting: a container may prevent it, and a file may set another value at boot.
//! Another program may also set the value, and the boot loader may have to persist it. These rules apply to all knobs.

use crate::extras::{Program, TunedProfile};
use crate::fact::Fact;
use crate::facts::{BootLoader, Container, Facts};
use crate::finding::Finding;
use crate::knob::{Knob, Place};

/// Programs that may set the same value, and when.
pub(crate) fn others(facts: &Facts, knob: &Knob, finding: &Finding) -> Vec<String> {
    let owners = &facts.owners;
    let mut notes = Vec::new();
    let is_sysctl = finding.place.starts_with("/proc/sys/");
    if finding.place.starts_with("/proc/sys/net/") {
        if owners.bpftune.known() == Some(&true) {
            notes.push(
                "bpftune runs and sets network sysctls when it decides to: stop it, or leave this setting to it"
                    .to_owned(),
            );
        } else if owners.bpftune_enabled.known() == Some(&true) {
            notes.push("bpftune starts at the next boot and sets network sysctls when it decides to".to_owned());
        }
    }
    if let Some(applied) = owners.saptune.known().filter(|applied| is_sysctl && !applied.is_empty()) {
        notes.push(format!("saptune applies {} at boot and may set this too: set it in saptune", applied.join(", ")));
    }
    for program in knob.extras.set_by {
        match program {
            Program::ContainerNetwork => {
                if let Some(files) = owners.cni.known().filter(|files| !files.is_empty()) {
                    notes.push(format!(
                        "a container network is set up here ({}), and its agents may set this too",
                        files.join(", ")
                    ));
                }
            }
            Program::GoogleMultiqueue if owners.google_set_multiqueue.known() == Some(&true) => notes
                .push("google_set_multiqueue assigns each queue a CPU at every boot: apply this after it".to_owned()),
            Program::GoogleMultiqueue => {}
        }
    }
    let is_own = |profile: &&String| is_sysctl && TunedProfile::named(profile).is_none();
    if let Some(profile) = owners.tuned_profile.known().filter(is_own) {
        notes.push(format!(
            "TuneD's profile {profile} is active, and evenkeel does not know what it sets: check the profile first"
        ));
    }
    notes
}

/// Why evenkeel cannot persist a kernel argument here, and which tool can. `None` if evenkeel can.
pub(crate) fn lasts(facts: &Facts, place: Place) -> Option<String> {
    if !matches!(place, Place::KernelArgument { .. }) {
        return None;
    }
    let why = match &facts.boot.loader {
        Fact::Known(BootLoader::GrubDropIns | BootLoader::Grubby) => return None,
        Fact::Known(BootLoader::Grub) => {
            "GRUB reads no drop-ins here: change GRUB_CMDLINE_LINUX in /etc/default/grub yourself"
        }
        Fact::Known(BootLoader::GrubLegacy) => {
            "a GRUB before version 2 starts this machine, and evenkeel does not change it"
        }
        Fact::Known(BootLoader::SystemdBoot) => {
            "systemd-boot copies /etc/kernel/cmdline when it creates an entry: change that file yourself"
        }
        Fact::Known(BootLoader::Uki) => {
            "evenkeel cannot make it persist: the arguments are part of a signed image (UKI), and whoever builds \
                the image sets them"
        }
        Fact::Known(BootLoader::Ostree) => "ostree manages the arguments: `rpm-ostree kargs --append=` adds one",
        Fact::Known(BootLoader::None) => {
            "evenkeel cannot make it persist: this root has no boot loader, and whoever starts the machine passes \
                the kernel arguments"
        }
        unknown => {
            let why = unknown.unknown_why().unwrap_or_default();
            return Some(format!(
                "evenkeel does not know the boot loader, so it does not know whether it can persist this: {why}"
            ));
        }
    };
    Some(why.to_owned())
}

/// The file that would set another value at boot.
pub(crate) fn undone_at_boot(facts: &Facts, finding: &Finding) -> Option<String> {
    let (file, setting) = facts.owners.sysctl_files.known()?.decides(&finding.place)?;
    let (wanted, value) = (finding.wanted.as_ref()?, setting.value.as_ref()?);
    // The kernel accepts any white space between numbers, and writes tabs.
    if value.split_whitespace().eq(wanted.split_whitespace()) {
        return None;
    }
    let (path, line) = (&file.path, setting.line);
    Some(format!("{path} (line {line}) sets {value} at boot, which would undo the change: change that line too"))
}

/// Why a container may not change this place. A container may change the server's own process.
pub(crate) fn container_barrier(facts: &Facts, place: Place) -> Option<String> {
    let container = match facts.machine.container.known()? {
        Container::None => return None,
        Container::Other(name) => format!("{name} container"),
        Container::Docker => "Docker container".to_owned(),
        Container::Podman => "Podman container".to_owned(),
        Container::Kubernetes => "Kubernetes container".to_owned(),
    };
    match place {
        Place::File { .. } | Place::FileSince { .. } | Place::Each { .. } | Place::EachNetworkIrq => Some(format!(
            "a {container} may not write /proc/sys and /sys, unless it was started with that right: set it on the machine that runs it"
        )),
        Place::KernelArgument { .. } => {
            Some(format!("a {container} does not have its own kernel: set it on the machine that runs the {container}"))
        }
        Place::Held { path } => Some(format!("a {container} has no {path} unless you pass it in")),
        Place::Process | Place::ByHand { .. } | Place::ByHandEach { .. } => None,
    }
}

/// The active TuneD profile, if this profile sets the knob.
pub(crate) fn tuned_sets<'a>(facts: &'a Facts, knob: &Knob) -> Option<&'a str> {
    let profile = facts.owners.tuned_profile.known()?;
    knob.extras.tuned.contains(&TunedProfile::named(profile)?).then_some(profile)
}
