//! Persists ethtool settings of drivers (queues, rings, coalescing) in `.link` files, which udev applies
//! when an interface appears.
//!
//! On Red Hat, evenkeel does not use `nmcli`.
//! NetworkManager keeps such settings in a connection,
//! which may have any name, come from cloud-init, or apply to no particular interface.
//! udev also applies `.link` files on Red Hat.
//!
//! udev applies only the first `.link` file that matches an interface.
//! So our file must repeat the settings of the distribution's `99-default.link`, or interfaces lose their names.
//! If netplan wrote a file for an interface, our file must not come before it.
//! Then our settings also go into the drop-in folder of netplan's file.

use std::fmt::Write;

use evenkeel_host::facts::Nic;
use evenkeel_host::{Knob, Lasts, Setting, TakesEffect, knobs};

use super::recipe::{HEAD, PersistContext, Recipe, refuse};
use crate::persist_plan::{Carried, Content, PersistPlan, PersistedFile};

const FOLDER: &str = "/etc/systemd/network";

pub(super) const RECIPE: Recipe = Recipe { takes: |setting| row(setting).is_some(), plan };

/// The keys for a setting, with `{}` for the value, and the first systemd that supports them.
fn row(setting: &Setting) -> Option<(&'static str, u32)> {
    match setting.knob.extras.lasts {
        Some(Lasts::Link { keys, since }) => Some((keys, since)),
        _ => None,
    }
}

fn plan(context: &PersistContext<'_>, settings: &[&Setting]) -> PersistPlan {
    let mut plan = PersistPlan::default();
    let nics: Vec<&Nic> = context.facts.network.hardware().collect();
    let (settings, refused): (Vec<&Setting>, Vec<&Setting>) =
        settings.iter().copied().partition(|setting| why_not(context, &nics, setting).is_none());
    for setting in refused {
        let (why, todo) = why_not(context, &nics, setting).unwrap_or_default();
        plan.cannot.push(refuse(setting, why, todo));
    }
    // Interfaces with their own settings come first: their files must match before the files of the driver.
    let alone = |nic: &Nic| settings.iter().any(|setting| setting.place.as_ref() == Some(&nic.name));
    for nic in nics.iter().filter(|nic| alone(nic)) {
        if let Some(name) = name_match(nic) {
            let path = format!("{FOLDER}/90-evenkeel-1-{}.link", nic.name);
            add(context, &mut plan, &path, &name, &keys(&settings, Some(nic)));
        }
    }
    let is_for_all = settings.iter().any(|setting| setting.place.is_none());
    for (name, matching) in drivers(context, &nics).filter(|_| is_for_all) {
        let path = format!("{FOLDER}/90-evenkeel-2-{name}.link");
        add(context, &mut plan, &path, &format!("Driver={matching}"), &keys(&settings, None));
    }
    for nic in nics.iter().filter(|nic| is_for_all || alone(nic)) {
        netplan(context, &mut plan, nic, &keys(&settings, Some(nic)));
    }
    let by = |setting: &Setting| {
        let of_place = setting.place.as_ref().map(|place| format!("{FOLDER}/90-evenkeel-1-{place}.link"));
        of_place
            .or_else(|| plan.files.iter().find(|file| file.path.contains("evenkeel-2-")).map(|file| file.path.clone()))
    };
    let carried = settings.iter().map(|setting| Carried {
        setting: setting.to_string(),
        by: by(setting).unwrap_or_default(),
        takes_effect: TakesEffect::Reboot,
    });
    plan.carried = carried.collect();
    plan
}

/// The file name and match for a driver. An image does not know its interfaces yet.
/// There the file matches any cloud driver, but no software interface, because software interfaces have no rings.
fn drivers<'a>(context: &PersistContext<'_>, nics: &[&'a Nic]) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut drivers: Vec<(&str, &str)> = nics.iter().filter_map(|nic| driver(nic)).map(|name| (name, name)).collect();
    drivers.sort_unstable();
    drivers.dedup();
    if drivers.is_empty() && context.is_image {
        drivers.push(("clouds", "ena gve hv_netvsc iavf ixgbevf mana mlx5_core virtio_net vmxnet3"));
    }
    drivers.into_iter()
}

/// Why a setting has no `.link` file here, and what to do.
fn why_not(context: &PersistContext<'_>, nics: &[&Nic], setting: &Setting) -> Option<(String, String)> {
    let (_, since) = row(setting)?;
    let by_rule = || {
        let how = match setting.knob.place {
            evenkeel_host::Place::ByHandEach { how, .. } => how,
            _ => "set it",
        };
        let command =
            how.replace("{device}", setting.place.as_deref().unwrap_or("DEVICE")).replace("{}", &setting.value);
        format!("run at each boot, in your own udev rule or unit: {command}")
    };
    if let Some(version) = systemd_version(context).filter(|version| *version < since) {
        let why = format!("systemd {version} of this distribution does not support it in .link files; {since} does");
        return Some((why, by_rule()));
    }
    match &setting.place {
        Some(place) => match nics.iter().find(|nic| nic.name == *place) {
            None => Some((format!("there is no interface {place:?} with hardware"), by_rule())),
            Some(nic) if name_match(nic).is_none() => Some((
                format!("nothing permanent distinguishes {place} from other interfaces: somebody chose its name"),
                by_rule(),
            )),
            Some(_) => None,
        },
        None if drivers(context, nics).next().is_none() => {
            Some(("evenkeel knows no interface driver to match".to_owned(), by_rule()))
        }
        None => None,
    }
}

/// The keys for one interface, or for all interfaces of a driver.
/// If one knob has several settings, the last one counts.
fn keys(settings: &[&Setting], nic: Option<&Nic>) -> String {
    let is_meant = |setting: &&&Setting| match (&setting.place, nic) {
        (None, _) => true,
        (Some(place), Some(nic)) => nic.name == *place,
        (Some(_), None) => false,
    };
    let of_knob = |knob: &&Knob| {
        let last = settings.iter().rev().filter(|setting| setting.knob.id == knob.id).find(is_meant)?;
        row(last).map(|(keys, _)| keys.replace("{}", &last.value))
    };
    // The order of these files never changes, so evenkeel does not rewrite an equal file.
    knobs::ALL.iter().rev().filter_map(of_knob).collect()
}

fn add(context: &PersistContext<'_>, plan: &mut PersistPlan, path: &str, matching: &str, keys: &str) {
    if keys.is_empty() {
        return;
    }
    let text = format!("{HEAD}[Match]\n{matching}\n\n[Link]\n{}{keys}", defaults(context));
    plan.files.push(PersistedFile { path: path.to_owned(), content: Content::Whole { text, mode: 0o644 } });
}

/// Netplan's file for an interface comes before ours,
/// and netplan recreates it at each boot (cloud-init uses netplan on Debian and Ubuntu).
/// The drop-in folder of netplan's file adds to that file. If netplan's file does not exist, nothing reads the folder.
fn netplan(context: &PersistContext<'_>, plan: &mut PersistPlan, nic: &Nic, keys: &str) {
    let id = context.facts.machine.distribution.known().map(|distribution| distribution.id.as_str());
    if keys.is_empty() || !matches!(id, Some("debian" | "ubuntu")) || !is_name(&nic.name) {
        return;
    }
    let path = format!("{FOLDER}/10-netplan-{}.link.d/90-evenkeel.conf", nic.name);
    let text = format!("{HEAD}[Link]\n{keys}");
    plan.files.push(PersistedFile { path, content: Content::Whole { text, mode: 0o644 } });
}

/// The content of the distribution's `99-default.link`. Under both address policies, hardware addresses stay the same.
fn defaults(context: &PersistContext<'_>) -> String {
    let mut text =
        "NamePolicy=keep kernel database onboard slot path\nAlternativeNamesPolicy=database onboard slot path"
            .to_owned();
    // The content in systemd 255 and newer. This program has a copy and does not read the file.
    // Without this line, a program may not find an interface by its alternative name.
    if systemd_version(context).is_some_and(|version| version >= 255) {
        text.push_str(" mac");
    }
    let _ = writeln!(text, "\nMACAddressPolicy=persistent");
    text
}

/// The match line for one interface.
/// A capture contains no addresses, so the place in the machine identifies an interface.
/// The predictable name comes from that place, and udev knows the place before it applies `.link` files.
/// A kernel name is the name from the start.
fn name_match(nic: &Nic) -> Option<String> {
    let name = nic.name.as_str();
    if !is_name(name) {
        return None;
    }
    let numbered = |prefix: &str| {
        let rest = name.strip_prefix(prefix);
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if numbered("eth") {
        return Some(format!("OriginalName={name}"));
    }
    // `ens5`, `enp0s31f6`, `enP2s1`, `eno1`, `enx…`, as systemd.net-naming-scheme(7) builds them.
    let rest = name.strip_prefix("en")?;
    let rest = match rest.strip_prefix('P') {
        Some(domain) => domain.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => rest,
    };
    let property = match rest.bytes().next()? {
        b'o' => "ONBOARD",
        b's' => "SLOT",
        b'p' => "PATH",
        b'x' => "MAC",
        _ => return None,
    };
    Some(format!("Property=ID_NET_NAME_{property}={name}"))
}

/// Whether a name is safe. Names become parts of paths and lines, so allow only harmless characters.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=15).contains(&name.len()) && name.bytes().all(plain)
}

fn driver(nic: &Nic) -> Option<&str> {
    let driver = nic.driver.known()?.as_str();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    ((1..=64).contains(&driver.len()) && driver.bytes().all(plain)).then_some(driver)
}

/// The systemd version of a distribution's release, from a list in this program;
/// `None` for a release that is not listed.
fn systemd_version(context: &PersistContext<'_>) -> Option<u32> {
    let distribution = context.facts.machine.distribution.known()?;
    let major: u32 = distribution.version.as_ref()?.split('.').next()?.parse().ok()?;
    match (distribution.id.as_str(), major) {
        ("debian", 11) => Some(247),
        ("debian", 12) => Some(252),
        ("debian", 13) => Some(257),
        ("ubuntu", 20) => Some(245),
        ("ubuntu", 22) => Some(249),
        ("ubuntu", 24) => Some(255),
        ("rhel" | "centos" | "rocky" | "almalinux" | "ol", 8) => Some(239),
        ("rhel" | "centos" | "rocky" | "almalinux" | "ol", 9) | ("amzn", 2023) => Some(252),
        ("rhel" | "centos" | "rocky" | "almalinux" | "ol", 10) => Some(257),
        ("amzn", 2) => Some(219),
        _ => None,
    }
}
