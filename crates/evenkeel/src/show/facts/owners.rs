//! The part of `inspect` about other owners of knobs: programs, files that are read at boot, and the boot loader.

use evenkeel_host::Facts;
use evenkeel_host::facts::{BootLoader, SysctlFile};

use crate::show::page::{PLAIN, Page, unknown};

pub(super) fn section(page: &mut Page, facts: &Facts) {
    let owners = &facts.owners;
    let runs = |runs: &bool| if *runs { "runs" } else { "does not run" }.to_owned();
    page.heading("Others that change settings");
    page.fact_as("irqbalance", &owners.irqbalance, runs);
    page.fact_as("its options", &owners.irqbalance_options, |options| {
        let pairs: Vec<String> = options.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let said = if pairs.is_empty() { "nothing".to_owned() } else { pairs.join(" ") };
        format!("{said} ({})", options.file)
    });
    if let Some(version) = owners.irqbalance_version.known() {
        page.row("its version", PLAIN, version);
    }
    page.fact("TuneD profile", &owners.tuned_profile);
    page.fact_as("bpftune", &owners.bpftune, runs);
    page.fact_as("queues at boot", &owners.google_set_multiqueue, |is_there| {
        if *is_there { "google_set_multiqueue gives them CPUs" } else { "left alone" }.to_owned()
    });
    page.fact_as("CNI", &owners.cni, |files| if files.is_empty() { "none".to_owned() } else { files.join(", ") });
    page.fact_as("saptune", &owners.saptune, |applied| {
        if applied.is_empty() { "applies nothing".to_owned() } else { format!("applies {}", applied.join(", ")) }
    });
    page.fact_as("timers", &facts.daemons.background_timers, |names| {
        if names.is_empty() { "none that starts heavy work".to_owned() } else { names.join(", ") }
    });
    sysctl_files(page, facts);
}

/// One row for each file that sets a sysctl, and one row for each key in the file that is a knob of evenkeel.
fn sysctl_files(page: &mut Page, facts: &Facts) {
    let Some(files) = facts.owners.sysctl_files.known() else {
        page.fact_as("set at boot", &facts.owners.sysctl_files, |_| String::new());
        return;
    };
    let shown = |file: &SysctlFile| match file.settings.known() {
        Some(settings) if settings.is_empty() => None,
        Some(settings) if settings.len() == 1 => Some(format!("{}: 1 setting", file.path)),
        Some(settings) => Some(format!("{}: {} settings", file.path, settings.len())),
        None => Some(format!("{}: {}", file.path, unknown(&file.settings))),
    };
    let mut label = "set at boot by";
    for row in files.read.iter().filter_map(shown) {
        page.row(label, PLAIN, &row);
        label = "";
    }
    if !label.is_empty() {
        page.row(label, PLAIN, "no file of sysctl.d");
    }
    for path in facts.sysctls.keys() {
        if let Some((file, setting)) = files.decides(path) {
            let (key, value) = (path.trim_start_matches("/proc/sys/").replace('/', "."), setting.value.as_deref());
            let value = value.unwrap_or_default();
            page.row("", PLAIN, &format!("{key} = {value} by {}, line {}", file.path, setting.line));
        }
    }
    if let Some(file) = &files.unread {
        page.row("not read at boot", PLAIN, shown(file).as_deref().unwrap_or(&file.path));
    }
}

/// The name of a boot loader, and the file with its kernel arguments.
pub(super) fn loader(loader: BootLoader) -> &'static str {
    match loader {
        BootLoader::GrubDropIns => "GRUB, arguments in /etc/default/grub.d",
        BootLoader::Grubby => "GRUB, arguments by grubby",
        BootLoader::Grub => "GRUB, arguments in /etc/default/grub",
        BootLoader::GrubLegacy => "GRUB before version 2, arguments in /boot/grub/grub.conf",
        BootLoader::SystemdBoot => "systemd-boot, arguments in the entries of its loader directory",
        BootLoader::Uki => "unified kernel image, arguments inside it",
        BootLoader::Ostree => "ostree, arguments by rpm-ostree kargs or by the image",
        BootLoader::None => "none in this machine: who starts it gives the arguments",
    }
}
