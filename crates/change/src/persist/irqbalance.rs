//! Persists the CPUs that irqbalance avoids: a variable in the file that its unit reads.
//!
//! A package owns the file, and irqbalance has no drop-in folder.
//! So evenkeel adds a block at the end of the file: the last of several assignments in an `EnvironmentFile=` counts.

use evenkeel_host::{Fact, Lasts, Setting, TakesEffect};
use evenkeel_sys::CpuSet;

use super::recipe::{PersistContext, Recipe, refuse};
use crate::persist_plan::{Carried, Content, PersistPlan, PersistedCommand, PersistedFile};

const DEBIAN: &str = "/etc/default/irqbalance";
const RED_HAT: &str = "/etc/sysconfig/irqbalance";

pub(super) const RECIPE: Recipe =
    Recipe { takes: |setting| matches!(setting.knob.extras.lasts, Some(Lasts::IrqbalanceVariables)), plan };

fn plan(context: &PersistContext<'_>, settings: &[&Setting]) -> PersistPlan {
    let mut plan = PersistPlan::default();
    let Some((setting, _)) = settings.split_last() else { return plan };
    let Some(path) = file(context) else {
        let why = "evenkeel does not know where irqbalance of this distribution reads its variables";
        plan.cannot.push(refuse(
            setting,
            why,
            "add --bancpu or the variable to its unit: systemctl edit irqbalance.service",
        ));
        return plan;
    };
    if let Fact::Absent { .. } = context.facts.owners.irqbalance_options {
        let why = format!("{path} does not exist: irqbalance is not installed, so nothing moves interrupts");
        plan.cannot.push(refuse(setting, why, "nothing, unless irqbalance is installed later"));
        return plan;
    }
    let Some(cpus) = CpuSet::parse_list(&setting.value) else {
        plan.cannot.push(refuse(setting, "the value is not a list of CPUs", "give one, such as 2-3"));
        return plan;
    };
    let mut lines = format!("IRQBALANCE_BANNED_CPULIST={cpus}\n");
    if reads_the_mask(context) {
        lines = format!("IRQBALANCE_BANNED_CPUS={}\n{lines}", cpus.to_mask(1));
    }
    let argv = ["systemctl", "try-restart", "irqbalance.service"].map(str::to_owned).to_vec();
    plan.commands.push(PersistedCommand {
        undo: argv.clone(),
        argv,
        after: vec![path.to_owned()],
        why: "irqbalance reads its variables when it starts".to_owned(),
        only_booted: true,
    });
    plan.files.push(PersistedFile { path: path.to_owned(), content: Content::Block { lines } });
    plan.carried.push(Carried { setting: setting.to_string(), by: path.to_owned(), takes_effect: TakesEffect::AtOnce });
    plan
}

fn file(context: &PersistContext<'_>) -> Option<&'static str> {
    let owners = &context.facts.owners;
    match owners.irqbalance_options.known().map(|options| options.file.as_str()) {
        Some(DEBIAN) => return Some(DEBIAN),
        Some(RED_HAT) => return Some(RED_HAT),
        _ => {}
    }
    match context.facts.machine.distribution.known()?.id.as_str() {
        "debian" | "ubuntu" => Some(DEBIAN),
        "rhel" | "centos" | "fedora" | "rocky" | "almalinux" | "ol" | "amzn" => Some(RED_HAT),
        _ => None,
    }
}

/// Whether irqbalance reads the mask.
/// Before 1.8.0, irqbalance read only the mask; since then it warns about the mask and reads the list.
/// A release whose updates crossed that version gets both the mask and the list.
fn reads_the_mask(context: &PersistContext<'_>) -> bool {
    let Some(distribution) = context.facts.machine.distribution.known() else { return false };
    let major = |version: &String| version.split('.').next().unwrap_or_default().parse::<u32>().ok();
    let Some(major) = distribution.version.as_ref().and_then(major) else { return false };
    match distribution.id.as_str() {
        "debian" => major < 12,
        "ubuntu" => major < 22,
        "rhel" | "centos" | "rocky" | "almalinux" | "ol" => major < 9,
        "amzn" => major == 2,
        _ => false,
    }
}
