//! TuneD profiles: sections of options, variables, and other profiles that they include.

use std::collections::BTreeMap;

use super::line::{Ask, Bound, Content, Guide, Skip, Target};
use super::{names, settings, tools};

/// How deep profiles may include each other, and how many there may be.
const DEPTH_MAX: usize = 8;
const INCLUDES_MAX: usize = 30;
/// The most variables.
const VARIABLES_MAX: usize = 1000;
/// The longest value after expansion, in characters.
const VALUE_CHARS_MAX: usize = 2000;

/// Finds the text of an included profile by the name or path that the guide gives.
pub type Include<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Adds the lines of a profile, after those of the profiles that it includes.
pub(super) fn read(guide: &mut Guide, text: &str, include: Include<'_>) {
    let mut reader = Reader { include, variables: BTreeMap::new(), included: Vec::new() };
    reader.profile(guide, None, text, 0);
}

struct Reader<'a> {
    include: Include<'a>,
    variables: BTreeMap<String, String>,
    included: Vec<String>,
}

impl Reader<'_> {
    fn profile(&mut self, guide: &mut Guide, file: Option<&str>, text: &str, depth: usize) {
        let plugins = plugins(text);
        let (mut section, mut contents, mut before) = (String::new(), Vec::new(), Vec::new());
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = header(line) {
                section = name.to_owned();
                contents.push(Content::NotASetting(Skip::Structure));
                continue;
            }
            let plugin = plugins.get(&section).map_or(section.as_str(), String::as_str);
            // A library's guide has settings and no sections.
            if section.is_empty() && option(line).is_some() {
                contents.push(settings::line(line));
                continue;
            }
            match (plugin, option(line)) {
                ("main" | "variables", Some(("include", names))) => {
                    let (content, found) = self.included(names, depth);
                    contents.push(content);
                    before.extend(found);
                }
                ("variables", Some((name, value))) => {
                    self.variable(name, value);
                    contents.push(Content::NotASetting(Skip::Structure));
                }
                (plugin, _) => contents.push(self.line(plugin, line)),
            }
            // The profiles before this one set the variables that it uses.
            for (name, text) in before.drain(..) {
                self.profile(guide, Some(&name), &text, depth + 1);
            }
        }
        guide.add_of(file, text, contents);
    }

    /// The texts of included profiles, each once.
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
        // `a = ${a}` keeps what an including profile or a file of variables said.
        if let Some(value) = self.expanded(value).filter(|_| self.variables.len() < VARIABLES_MAX) {
            self.variables.insert(name.to_owned(), value);
        }
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

    fn line(&self, plugin: &str, line: &str) -> Content {
        match line.chars().next() {
            None => return Content::NotASetting(Skip::Blank),
            Some('#' | ';') => return Content::NotASetting(Skip::Comment),
            Some(_) => {}
        }
        let Some((option, value)) = option(line) else { return Content::not("it is no option of a profile") };
        if ["type", "enabled", "replace", "priority", "devices", "devices_udev_regex", "drop"].contains(&option) {
            return Content::NotASetting(Skip::Structure);
        }
        let (option, Some(value)) = (self.expanded(option).unwrap_or_else(|| option.to_owned()), self.expanded(value))
        else {
            return match plugin {
                "sysctl" | "sysfs" | "cpu" | "vm" | "net" | "disk" | "bootloader" | "irqbalance" | "scheduler" => {
                    Content::not("it needs a variable or a function of TuneD")
                }
                _ => Content::NotASetting(Skip::Elsewhere),
            };
        };
        let (bound, plain) = bounded(&value);
        let asks = asks(plugin, &option, plain);
        match asks {
            None => Content::NotASetting(Skip::Elsewhere),
            Some(asks) if asks.is_empty() => Content::not("its value is none that evenkeel understands"),
            Some(asks) => Content::settings(asks.into_iter().map(|ask| Ask { bound, ..ask }).collect()),
        }
    }
}

/// The plugin of each section: its `type`, otherwise its name.
fn plugins(text: &str) -> BTreeMap<String, String> {
    let (mut section, mut plugins) = (String::new(), BTreeMap::new());
    for line in text.lines().map(str::trim) {
        match header(line) {
            Some(name) => section = name.to_owned(),
            None => {
                if let Some(("type", plugin)) = option(line) {
                    plugins.insert(section.clone(), plugin.to_owned());
                }
            }
        }
    }
    plugins
}

/// The name of a section, which may have a comment behind it.
pub(super) fn header(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix('[')?.split_once(']')?;
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with(['#', ';'])).then(|| name.trim())
}

/// `option=value`, also of `option=>value`.
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

/// The settings of an option. `None` if it has no meaning outside TuneD.
fn asks(plugin: &str, option: &str, value: &str) -> Option<Vec<Ask>> {
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
            // A C-state can't be looked up here, so the number behind it counts.
            let number = value.split('|').map(str::trim).find(|part| part.parse::<u32>().is_ok());
            number.map(called).unwrap_or_default()
        }
        ("cpu", "energy_perf_bias" | "min_perf_pct" | "max_perf_pct") => tool(),
        ("vm", "dirty_bytes" | "dirty_ratio" | "dirty_background_bytes" | "dirty_background_ratio") => {
            dirty(option, first)
        }
        ("net", "txqueuelen" | "mtu") => tool(),
        ("net", "coalesce" | "ring" | "channels" | "features" | "pause") => tools::network_option(option, value)?,
        ("disk", "readahead") => match first.strip_suffix('s').map(|sectors| sectors.trim().parse::<u64>()) {
            Some(sectors) => sectors.map(|sectors| called(&(sectors / 2).to_string())).unwrap_or_default(),
            None => called(first),
        },
        ("bootloader", option) if option.starts_with("cmdline") && value.starts_with('-') => {
            vec![Ask::new(Target::Tool(format!("without the kernel argument {}", value.trim_start_matches('-'))), "")]
        }
        ("bootloader", option) if option.starts_with("cmdline") => {
            names::by_arguments(value.trim_start_matches('+').trim_matches(['"', '\'']))
        }
        ("scheduler", name) if name.starts_with("sched_") || name == "numa_balancing" => {
            names::by_key(&format!("kernel.{name}"), value).into_iter().collect()
        }
        ("scheduler", "isolated_cores" | "default_irq_smp_affinity") => tool(),
        ("systemd", "cpu_affinity") | ("modules" | "service" | "rtentsk", _) => tool(),
        _ => Some(called(first)).filter(|asks| !asks.is_empty())?,
    })
}

/// `dirty_bytes=10%` is a ratio.
fn dirty(option: &str, value: &str) -> Vec<Ask> {
    let kind = if option.contains("background") { "vm.dirty_background_" } else { "vm.dirty_" };
    let (unit, value) = match value.strip_suffix('%') {
        Some(percent) => ("ratio", percent.trim()),
        None if option.ends_with("ratio") => ("ratio", value),
        None => ("bytes", value),
    };
    names::by_key(&format!("{kind}{unit}"), value).into_iter().collect()
}
