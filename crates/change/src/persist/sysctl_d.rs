//! Persists settings under `/proc/sys`: a drop-in of `sysctl.d(5)`, which systemd and procps read at boot.
//!
//! `/etc/sysctl.conf` is not used, because Debian 13 does not read it any more.

use std::fmt::Write;

use evenkeel_host::{Place, Setting, TakesEffect};

use super::recipe::{HEAD, PersistContext, Recipe};
use crate::exclusive_pair;
use crate::persist_plan::{Cannot, Carried, Content, PersistPlan, PersistedFile};

const PATH: &str = "/etc/sysctl.d/90-evenkeel.conf";

/// Keys that exist only after a module is loaded, perhaps after systemd read the files.
/// udev then reads the files again, by the rule in `sysctl.d(5)`.
const OF_MODULE: &str = "net/netfilter/";
const MODULE_RULE_PATH: &str = "/etc/udev/rules.d/90-evenkeel-sysctl.rules";
const MODULE_RULE: &str = "ACTION==\"add\", SUBSYSTEM==\"module\", KERNEL==\"nf_conntrack\", \
    RUN+=\"/usr/lib/systemd/systemd-sysctl --prefix=/net/netfilter\"\n";

pub(super) const RECIPE: Recipe = Recipe { takes: |setting| key(setting).is_some(), plan };

/// The setting's name in a `sysctl.d` file. The name has slashes, because an interface's name may contain dots.
fn key(setting: &Setting) -> Option<&'static str> {
    match setting.knob.place {
        Place::File { path, .. } => path.strip_prefix("/proc/sys/"),
        _ => None,
    }
}

fn plan(context: &PersistContext<'_>, settings: &[&Setting]) -> PersistPlan {
    let mut plan = PersistPlan::default();
    let mut text = HEAD.to_owned();
    for setting in settings {
        let Some(key) = key(setting) else { continue };
        // The file whose name sorts later wins, so the next boot would undo our setting.
        if let Some((later, theirs)) = later_owner(context, key) {
            let sets =
                if theirs == key { format!("also sets {key}") } else { format!("sets {theirs}, which resets {key}") };
            plan.cannot.push(Cannot {
                setting: setting.to_string(),
                why: format!("{later} {sets}, and is read after {PATH}"),
                todo: format!("change it in {later}, which evenkeel does not own"),
            });
            continue;
        }
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key} = {}", setting.value);
        plan.carried.push(Carried {
            setting: setting.to_string(),
            by: PATH.to_owned(),
            takes_effect: TakesEffect::AtOnce,
        });
    }
    if !plan.carried.is_empty() {
        let has_module = text.lines().any(|line| line.starts_with(OF_MODULE));
        plan.files.push(PersistedFile { path: PATH.to_owned(), content: Content::Whole { text, mode: 0o644 } });
        if has_module {
            let text = format!("{HEAD}{MODULE_RULE}");
            plan.files.push(PersistedFile {
                path: MODULE_RULE_PATH.to_owned(),
                content: Content::Whole { text, mode: 0o644 },
            });
        }
    }
    plan
}

/// The file that is read after ours and also sets `key`, or a key that resets it. Also returns which key the file sets.
fn later_owner<'a>(context: &'a PersistContext<'_>, key: &'a str) -> Option<(&'a str, &'a str)> {
    let files = context.facts.owners.sysctl_files.known()?;
    let name = |path: &'a str| path.rsplit('/').next().unwrap_or_default();
    let undoes = |theirs: &str| theirs == key || exclusive_pair::partner_key(key) == Some(theirs);
    files.read.iter().filter(|file| name(&file.path) > name(PATH)).find_map(|file| {
        let settings = file.settings.known()?;
        let setting = settings.iter().find(|setting| setting.value.is_some() && undoes(&setting.key))?;
        Some((file.path.as_str(), setting.key.as_str()))
    })
}
