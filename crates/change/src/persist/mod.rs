//! How settings outlive a boot: one recipe a file. Each takes the settings that are its own and gives files and commands;
//! all of them are pure. A recipe writes drop-ins of ours wherever programs read such, and edits a file of somebody else only
//! where there is no other way.

mod sysctl_d;

use evenkeel_host::{Facts, Place, Setting};

use crate::keep::{Cannot, Keep};

/// What a recipe needs to know beside the settings.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The machine or the image.
    pub facts: &'a Facts,
    /// The systemd unit of the server, such as `memcached.service`, for settings of its process.
    pub unit: Option<&'a str>,
    /// Where this program stands on the machine, for the unit that verifies after a boot; none where it does not.
    pub program: Option<&'a str>,
    /// Whether the root is not running: then programs of it can't be told anything.
    pub is_image: bool,
}

/// What makes `settings` outlive a boot. Of two settings of one knob and place, the later one counts.
pub fn keep(ground: &Ground<'_>, settings: &[Setting]) -> Keep {
    let settings = newest(settings);
    let mut keep = Keep::default();
    for recipe in RECIPES {
        let own: Vec<&Setting> = settings.iter().copied().filter(|setting| (recipe.takes)(setting)).collect();
        if !own.is_empty() {
            keep.add((recipe.keep)(ground, &own));
        }
    }
    let orphans = settings.iter().filter(|setting| !RECIPES.iter().any(|recipe| (recipe.takes)(setting)));
    keep.cannot.extend(orphans.map(|setting| cannot(setting)));
    keep
}

/// One way in which settings outlive a boot.
struct Recipe {
    /// Whether a setting is its own; no two recipes take the same.
    takes: fn(&Setting) -> bool,
    /// What makes those settings last.
    keep: fn(&Ground<'_>, &[&Setting]) -> Keep,
}

/// Every recipe, in the order in which their files are written.
const RECIPES: &[Recipe] = &[sysctl_d::RECIPE];

fn newest(settings: &[Setting]) -> Vec<&Setting> {
    let same = |one: &Setting, other: &Setting| one.knob.id == other.knob.id && one.place == other.place;
    let is_newest = |(at, setting): &(usize, &Setting)| !settings[at + 1..].iter().any(|later| same(setting, later));
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

/// The first lines of every file of ours: who wrote it, and how it goes away again.
pub(crate) const HEAD: &str =
    "# Written by evenkeel; `evenkeel revert` removes it, `evenkeel apply --persist` writes it anew.\n";
