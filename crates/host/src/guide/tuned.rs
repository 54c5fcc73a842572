//! TuneD profiles: sections of options, variables, and other profiles that a profile includes.

use std::collections::BTreeMap;

use super::line::{Ask, Bound, Content, Guide, Skip, Target};
use super::{boot, names, settings, tools};

/// How deep profiles may include each other, and how many profiles there may be.
const DEPTH_MAX: usize = 8;
const INCLUDES_MAX: usize = 30;
/// The maximum number of variables.
const VARIABLES_MAX: usize = 1000;
/// Why a text has no value here.
const NEEDS_TUNED: &str = "it needs a variable or a function of TuneD";
/// The longest condition in a reason, in characters.
const CONDITION_CHARS_MAX: usize = 60;
/// The longest value after expansion, in characters.
const VALUE_CHARS_MAX: usize = 2000;

/// Finds the text of an included profile by the name or path that the guide gives.
pub type Include<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Adds the lines of a profile, after the lines of the profiles that it includes.
pub(super) fn read(guide: &mut Guide, text: &str, include: Include<'_>) {
    let mut reader = Reader { include, variables: BTreeMap::new(), included: Vec::new(), said: Vec::new() };
    reader.profile(guide, None, text, 0);
    // A profile can change the units of the profiles that it includes. So the meaning of a line is known only after the last profile.
    let units = Units::from_options(&reader.said);
    for said in &reader.said {
        let content = units.content(said);
        if let Some(line) = guide.lines.get_mut(said.at) {
            line.content = content;
        }
    }
}

struct Reader<'a> {
    include: Include<'a>,
    variables: BTreeMap<String, String>,
    included: Vec<String>,
    said: Vec<Said>,
}

impl Reader<'_> {
    fn profile(&mut self, guide: &mut Guide, file: Option<&str>, text: &str, depth: usize) {
        let (mut section, mut contents, mut before, mut own) = (String::new(), Vec::new(), Vec::new(), Vec::new());
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = header(line) {
                section = name.to_owned();
                contents.push(Content::NotASetting(Skip::Structure));
                continue;
            }
            // A library's guide has settings and no sections.
            if section.is_empty() && option(line).is_some() {
                contents.push(settings::line(line));
                continue;
            }
            match (section.as_str(), option(line)) {
                ("main" | "variables", Some(("include", names))) => {
                    let (content, found) = self.included(names, depth);
                    contents.push(content);
                    before.extend(found);
                }
                ("variables", Some((name, value))) => {
                    self.variable(name, value);
                    contents.push(Content::NotASetting(Skip::Structure));
                }
                (unit, Some((name, value))) => {
                    own.push(Said {
                        at: contents.len(),
                        profile: 0,
                        unit: unit.to_owned(),
                        option: self.expanded(name).unwrap_or_else(|| name.to_owned()),
                        value: self.expanded(value).or_else(|| self.arguments(name, value)),
                    });
                    contents.push(Content::NotASetting(Skip::Structure));
                }
                (_, None) => contents.push(match line.chars().next() {
                    None => Content::NotASetting(Skip::Blank),
                    Some('#' | ';') => Content::NotASetting(Skip::Comment),
                    Some(_) => Content::not("it is not an option of a profile"),
                }),
            }
            // The earlier profiles set the variables that this profile uses.
            for (name, text) in before.drain(..) {
                self.profile(guide, Some(&name), &text, depth + 1);
            }
        }
        let profile = guide.lines.len();
        guide.add_of(file, text, contents);
        self.said.extend(own.into_iter().map(|said| Said { at: said.at + profile, profile, ..said }));
    }

    /// The texts of included profiles, each text once.
    fn included(&mut self, names: &str, depth: usize) -> (Content, Vec<(String, String)>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in names.split([',', ';']).map(str::trim).filter(|name| !name.is_empty()) {
            let Some(name) = self.expanded(name) else {
                missing.push(name.to_owned());
                continue;
            };
            if self.included.contains(&name) {
                continue;
            }
            let may = depth < DEPTH_MAX && self.included.len() < INCLUDES_MAX && !name.contains("..");
            match may.then(|| (self.include)(&name)).flatten() {
                Some(text) => {
                    self.included.push(name.clone());
                    found.push((name, text));
                }
                None => missing.push(name),
            }
        }
        match missing.as_slice() {
            [] => (Content::NotASetting(Skip::Structure), found),
            missing => (Content::not(format!("evenkeel does not find the profile {}", missing.join(", "))), found),
        }
    }

    fn variable(&mut self, name: &str, value: &str) {
        // `a = ${a}` keeps the value from an including profile or a file of variables.
        if let Some(value) = self.expanded(value).filter(|_| self.variables.len() < VARIABLES_MAX) {
            self.variables.insert(name.to_owned(), value);
        }
    }

    /// The kernel arguments of an option, each with its variables. Those that need a function of TuneD stay as they are.
    fn arguments(&self, option: &str, value: &str) -> Option<String> {
        let one = |word: &str| self.expanded(word).unwrap_or_else(|| word.to_owned());
        option.starts_with("cmdline").then(|| value.split_whitespace().map(one).collect::<Vec<_>>().join(" "))
    }

    /// A text with its variables. `None` if it needs a function of TuneD, or a variable that has no value.
    fn expanded(&self, text: &str) -> Option<String> {
        let mut text = text.to_owned();
        for _ in 0..DEPTH_MAX {
            let Some((before, rest)) = text.split_once("${") else { return Some(text) };
            let (name, after) = rest.split_once('}')?;
            let value = self.variables.get(name)?;
            text = format!("{before}{value}{after}");
            if text.chars().count() > VALUE_CHARS_MAX {
                return None;
            }
        }
        None
    }
}

/// An option of a unit, from one line.
struct Said {
    /// The index of the line in the guide, and the index of the first line of its profile.
    at: usize,
    profile: usize,
    unit: String,
    option: String,
    /// The value. `None` if it needs a variable without a value, or a function of TuneD.
    value: Option<String>,
}

/// The options of a unit that concern the unit itself.
#[derive(Default)]
struct Unit {
    plugin: Option<String>,
    is_off: bool,
    /// An option with which the unit is for some machines only.
    condition: Option<String>,
    devices: Devices,
    /// The first line of the profile that replaces the unit. Settings of earlier profiles no longer apply.
    replaced: usize,
    /// Options that a later profile drops, with the first line of that profile.
    dropped: Vec<(String, usize)>,
}

/// The devices of a unit.
#[derive(Default)]
enum Devices {
    #[default]
    All,
    These(String),
    /// The devices depend on udev, or on a variable without a value.
    Unknown,
}

/// Options of a unit about itself.
const OF_UNIT: [&str; 9] =
    ["type", "enabled", "replace", "priority", "devices", "devices_udev_regex", "drop", CONDITIONS[0], CONDITIONS[1]];
/// Options that limit a unit to machines whose processor or kernel fits.
const CONDITIONS: [&str; 2] = ["cpuinfo_regex", "uname_regex"];
/// Plugins whose settings belong to devices.
const WITH_DEVICES: [&str; 3] = ["cpu", "disk", "net"];
/// Plugins with settings of the kernel.
const PLUGINS: [&str; 9] = ["sysctl", "sysfs", "cpu", "vm", "net", "disk", "bootloader", "irqbalance", "scheduler"];

struct Units(BTreeMap<String, Unit>);

impl Units {
    fn from_options(all: &[Said]) -> Units {
        let mut units: BTreeMap<String, Unit> = BTreeMap::new();
        for said in all.iter().filter(|said| said.option == "replace" && said.is_true()) {
            units.entry(said.unit.clone()).or_default().replaced = said.profile;
        }
        for said in all {
            let unit = units.entry(said.unit.clone()).or_default();
            if said.at < unit.replaced {
                continue;
            }
            match (said.option.as_str(), said.value.as_deref()) {
                ("type", Some(plugin)) => unit.plugin = Some(plugin.to_owned()),
                ("enabled", _) => unit.is_off = !said.is_true(),
                (name, value) if CONDITIONS.contains(&name) => {
                    let condition = format!("{name}={}", value.unwrap_or("…"));
                    unit.condition = Some(condition.chars().take(CONDITION_CHARS_MAX).collect());
                }
                ("devices", Some(devices)) => unit.devices = Devices::parse(devices),
                ("devices", None) | ("devices_udev_regex", _) => unit.devices = Devices::Unknown,
                ("drop", Some(names)) => unit.dropped.extend(
                    names.split([',', ';', ' ']).map(|name| (name.trim().to_owned(), said.profile)).take(VARIABLES_MAX),
                ),
                _ => {}
            }
        }
        Units(units)
    }

    fn content(&self, said: &Said) -> Content {
        let Some(unit) = self.0.get(&said.unit) else { return Content::NotASetting(Skip::Structure) };
        if OF_UNIT.contains(&said.option.as_str()) {
            return Content::NotASetting(Skip::Structure);
        }
        let is_dropped = || unit.dropped.iter().any(|(name, from)| *name == said.option && said.at < *from);
        if unit.is_off || said.at < unit.replaced || is_dropped() {
            return Content::NotASetting(Skip::SwitchedOff);
        }
        let plugin = unit.plugin.as_deref().unwrap_or(&said.unit);
        let Some(value) = &said.value else {
            return match PLUGINS.contains(&plugin) {
                true => Content::not(NEEDS_TUNED),
                false => Content::NotASetting(Skip::Elsewhere),
            };
        };
        let (bound, plain) = bounded(value);
        let devices = match &unit.devices {
            Devices::All => None,
            Devices::These(devices) => Some(devices.as_str()).filter(|_| WITH_DEVICES.contains(&plugin)),
            Devices::Unknown if WITH_DEVICES.contains(&plugin) => {
                return Content::not("evenkeel can't tell which devices the unit means");
            }
            Devices::Unknown => None,
        };
        match asks(plugin, &said.option, plain, devices) {
            None => Content::NotASetting(Skip::Elsewhere),
            Some(_) if unit.condition.is_some() => {
                let condition = unit.condition.as_deref().unwrap_or_default();
                Content::not(format!(
                    "its section is for some machines only: {condition}, which evenkeel does not test"
                ))
            }
            Some(asks) if asks.is_empty() => Content::not("evenkeel does not understand its value"),
            Some(asks) => Content::settings(asks.into_iter().map(|ask| Ask { bound, ..at(ask, devices) }).collect()),
        }
    }
}

impl Said {
    /// Whether TuneD reads the value as true. It reads every unknown word as false.
    fn is_true(&self) -> bool {
        self.value.as_deref().is_some_and(|value| ["true", "True", "1"].contains(&value))
    }
}

impl Devices {
    /// A list of names and patterns, separated by spaces or commas. `!` excludes a device.
    fn parse(text: &str) -> Devices {
        let rules: Vec<&str> = text
            .split(|letter: char| letter == ',' || letter.is_whitespace())
            .filter(|rule| !rule.is_empty())
            .collect();
        match rules.as_slice() {
            [] | ["*"] => Devices::All,
            rules => Devices::These(rules.join(",")),
        }
    }
}

/// The setting, at the devices of its unit.
fn at(mut ask: Ask, devices: Option<&str>) -> Ask {
    let Some(devices) = devices else { return ask };
    match &mut ask.target {
        Target::Knob { id, place } if names::has_places(id) => *place = Some(devices.to_owned()),
        Target::Tool(words) if !words.contains(devices) => *words += &format!(" for {devices}"),
        _ => {}
    }
    ask
}

/// The name of a section, which may have a comment after it.
pub(super) fn header(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix('[')?.split_once(']')?;
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with(['#', ';'])).then(|| name.trim())
}

/// `option=value`; also `option=>value`, where the `>` belongs to the value.
fn option(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=').filter(|_| !line.starts_with(['#', ';']))?;
    Some((name.trim(), value.trim())).filter(|(name, _)| !name.is_empty())
}

/// `>4096` raises a value, `<4096` lowers it.
fn bounded(value: &str) -> (Bound, &str) {
    match (value.strip_prefix('>'), value.strip_prefix('<')) {
        (Some(value), _) => (Bound::AtLeast, value.trim()),
        (_, Some(value)) => (Bound::AtMost, value.trim()),
        _ => (Bound::Exactly, value),
    }
}

/// The settings of an option. `None` if the option has no meaning outside TuneD.
fn asks(plugin: &str, option: &str, value: &str, devices: Option<&str>) -> Option<Vec<Ask>> {
    let first = value.split('|').next().unwrap_or(value).trim();
    let called = |value: &str| {
        names::by_called(&format!("tuned {plugin} {option}"), None, value).into_iter().collect::<Vec<_>>()
    };
    let tool = || vec![Ask::new(Target::Tool(format!("TuneD's [{plugin}] {option}={value}")), "")];
    Some(match (plugin, option) {
        ("sysctl", key) => {
            let value = settings::plain_value(value)?;
            names::by_key(key, value).into_iter().collect()
        }
        ("sysfs", path) => names::by_file(path, value).into_iter().collect(),
        ("cpu", "force_latency") => {
            // The latency of a C-state cannot be looked up here, so use the number after its name.
            let number = value.split('|').map(str::trim).find(|part| part.parse::<u32>().is_ok());
            number.map(called).unwrap_or_default()
        }
        ("cpu", "energy_perf_bias" | "min_perf_pct" | "max_perf_pct") => tool(),
        ("vm", "dirty_bytes" | "dirty_ratio" | "dirty_background_bytes" | "dirty_background_ratio") => {
            dirty(option, first)
        }
        ("net", "txqueuelen" | "mtu") => tool(),
        ("net", "coalesce" | "ring" | "channels" | "features" | "pause") => {
            tools::network_option(option, value, devices)?
        }
        ("disk", "readahead") => match first.strip_suffix('s').map(|sectors| sectors.trim().parse::<u64>()) {
            Some(sectors) => sectors.map(|sectors| called(&(sectors / 2).to_string())).unwrap_or_default(),
            None => called(first),
        },
        ("bootloader", option) if option.starts_with("cmdline") && value.starts_with('-') => {
            vec![boot::without(value.trim_start_matches('-'))]
        }
        ("bootloader", option) if option.starts_with("cmdline") => {
            let value = value.trim_start_matches('+').trim_matches(['"', '\'']);
            let (unknown, known): (Vec<&str>, Vec<&str>) =
                value.split_whitespace().partition(|word| word.contains("${"));
            let unclear = |word: &&str| Ask::not_understood(format!("{NEEDS_TUNED}: {word}"));
            names::by_arguments(&known.join(" ")).into_iter().chain(unknown.iter().map(unclear)).collect()
        }
        ("scheduler", name) if name.starts_with("sched_") || name == "numa_balancing" => {
            names::by_key(&format!("kernel.{name}"), value).into_iter().collect()
        }
        ("scheduler", "isolated_cores" | "default_irq_smp_affinity") => tool(),
        ("scheduler", option) if option.starts_with("group.") => tool(),
        ("uncore" | "acpi", _) => tool(),
        ("systemd", "cpu_affinity") | ("modules" | "service" | "rtentsk", _) => tool(),
        _ => Some(called(first)).filter(|asks| !asks.is_empty())?,
    })
}

/// `dirty_bytes=10%` sets the ratio.
fn dirty(option: &str, value: &str) -> Vec<Ask> {
    let kind = if option.contains("background") { "vm.dirty_background_" } else { "vm.dirty_" };
    let (unit, value) = match value.strip_suffix('%') {
        Some(percent) => ("ratio", percent.trim()),
        None if option.ends_with("ratio") => ("ratio", value),
        None => ("bytes", value),
    };
    names::by_key(&format!("{kind}{unit}"), value).into_iter().collect()
}
