//! Makes settings persist over a boot, with one recipe per file.
//! Each recipe takes its own settings and returns files and commands. All recipes are pure.
//! A recipe writes evenkeel's own drop-ins wherever programs read drop-ins.
//! A recipe edits a file of another owner only if no other method exists.
//!
//! No recipe writes `/etc/modprobe.d`. Of all knobs only `haltpoll.guest_halt_poll_ns` is a module parameter.
//! Its module is the idle governor, which Linux always builds in (`bool` in `drivers/cpuidle/Kconfig`).
//! Nothing loads a built-in module, so nothing would read `options haltpoll`.
//! The boot script writes the parameter instead.

mod boot_files;
mod boot_irqs;
mod boot_script;
mod boots_unit;
mod grub_defaults;
mod hold;
mod irqbalance;
mod kernel_line;
mod link;
mod recipe;
mod server_unit;
mod session_units;
mod sysctl_d;
mod units;
mod verify_unit;

#[cfg(test)]
mod tests;

pub use boot_files::boot_files;
pub use boots_unit::boots_unit;
pub(crate) use hold::UNIT as HOLDER;
pub use recipe::{BootFile, PersistContext};
pub use session_units::{SESSION_UNITS_MAX, SessionUnit, UnitLines, has_unit_file, is_session_unit, session_units};

use evenkeel_host::facts::Container;
use evenkeel_host::{Clash, Facts, Place, Setting};

use self::recipe::{Recipe, refuse};
use crate::persist_plan::{Cannot, PersistPlan, PersistedCommand};

/// The plan that makes `settings` persist over a boot.
/// If two settings write the same place, or the kernel resets one setting
/// when the other is set, the later setting counts.
pub fn plan(context: &PersistContext<'_>, settings: &[Setting]) -> PersistPlan {
    let mut plan = PersistPlan::default();
    if !context.is_image && is_of_container(context.facts) {
        let why = "this is the root of a container: a file in it goes with the container, and nothing reads it at the host's boot";
        plan.cannot = settings.iter().map(|setting| refuse(setting, why, "run this command on the host")).collect();
        return plan;
    }
    let (settings, odd): (Vec<&Setting>, Vec<&Setting>) =
        newest(settings).into_iter().partition(|setting| is_plain(setting));
    plan.cannot.extend(odd.into_iter().map(|setting| {
        let why = "its value or its place has characters that could end a line of a file";
        refuse(setting, why, "give it without control characters")
    }));
    for recipe in RECIPES {
        let own: Vec<&Setting> = settings.iter().copied().filter(|setting| (recipe.takes)(setting)).collect();
        if !own.is_empty() {
            plan.add((recipe.plan)(context, &own));
        }
    }
    let orphans = settings.iter().filter(|setting| !RECIPES.iter().any(|recipe| (recipe.takes)(setting)));
    plan.cannot.extend(orphans.map(|setting| cannot(setting)));
    plan.add(verify_unit::plan(context, &plan));
    plan.commands = merged(plan.commands);
    plan
}

/// Whether the root belongs to a container.
/// The agent of a Kubernetes node also runs in a container, but has changed into the root of its host.
/// A container's root is on an overlay of layers; a host's root is on a disk.
fn is_of_container(facts: &Facts) -> bool {
    let machine = &facts.machine;
    let is_in_container = machine.container.known().is_some_and(|container| *container != Container::None);
    is_in_container && machine.has_mark_of_container && facts.disks.root.known().is_none()
}

/// Whether a value has only plain characters. evenkeel checked values when the user typed them.
/// Here they become lines of files that root's programs read, so evenkeel checks them again.
fn is_plain(setting: &Setting) -> bool {
    let plain = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    plain(&setting.value) && setting.place.as_deref().is_none_or(plain)
}

/// Merges equal commands. The merged command runs where the first would, after all files that trigger any of them.
fn merged(commands: Vec<PersistedCommand>) -> Vec<PersistedCommand> {
    let mut once: Vec<PersistedCommand> = Vec::new();
    for command in commands {
        match once.iter_mut().find(|other| other.argv == command.argv && other.undo == command.undo) {
            // This command always runs, even if no file changed.
            Some(first) if first.after.is_empty() || command.after.is_empty() => first.after.clear(),
            Some(first) => {
                let new: Vec<String> = command.after.into_iter().filter(|file| !first.after.contains(file)).collect();
                first.after.extend(new);
            }
            None => once.push(command),
        }
    }
    once
}

/// Every recipe, in the order in which their files are written.
const RECIPES: &[Recipe] = &[
    sysctl_d::RECIPE,
    kernel_line::RECIPE,
    boot_script::RECIPE,
    link::RECIPE,
    irqbalance::RECIPE,
    server_unit::RECIPE,
    hold::RECIPE,
];

fn newest(settings: &[Setting]) -> Vec<&Setting> {
    let is_newest = |(at, setting): &(usize, &Setting)| {
        !settings[at + 1..].iter().any(|later| {
            let clash = Clash::between(setting, later);
            clash.is_some_and(|clash| clash.why.later_replaces_earlier())
        })
    };
    settings.iter().enumerate().filter(is_newest).map(|(_, setting)| setting).collect()
}

fn cannot(setting: &Setting) -> Cannot {
    let (why, todo) = match setting.knob.place {
        Place::ByHand { how } | Place::ByHandEach { how, .. } => {
            ("it is set outside of this machine's files".to_owned(), how.replace("{}", &setting.value))
        }
        _ => ("no recipe is known".to_owned(), format!("set it after each boot: evenkeel apply {setting}")),
    };
    Cannot { setting: setting.to_string(), why, todo }
}
