//! Recognises the format of a guide from its content.

use super::line::GuideFormat;
use super::wide::is_wide;
use super::{settings, tuned, unit, words};

/// The maximum number of lines to look at.
const LINES_MAX: usize = 2000;

/// Sections of TuneD profiles.
const SECTIONS: [&str; 14] = [
    "main",
    "sysctl",
    "sysfs",
    "cpu",
    "vm",
    "net",
    "disk",
    "bootloader",
    "irqbalance",
    "scheduler",
    "variables",
    "modules",
    "script",
    "systemd",
];
/// Options that only perftune has.
const PERFTUNE: [&str; 6] =
    ["irq_cpu_mask:", "cpu_mask:", "tune:", "num_rx_queues:", "cores_per_irq_core:", "write_back_cache:"];
/// Beginnings of Ansible's lists of tasks and of its one-line tasks.
const TASKS: [&str; 3] = ["- hosts:", "sysctl:", "- sysctl:"];
/// Keys of containers, of cloud-init and of systems with one image.
const LISTS: [&str; 5] = ["initContainers:", "containers:", "runcmd:", "extraKernelArgs:", "kernelArguments:"];
/// Commands that begin lines of a script.
const COMMANDS: [&str; 12] = [
    "sysctl",
    "echo",
    "ethtool",
    "cpupower",
    "grubby",
    "sudo",
    "for",
    "tee",
    "cat",
    "printf",
    "systemctl",
    "GRUB_CMDLINE_LINUX",
];

pub(super) fn recognise(text: &str) -> GuideFormat {
    let lines = || text.lines().take(LINES_MAX).map(str::trim).filter(|line| !line.is_empty());
    let first = lines().next().unwrap_or_default();
    if first.starts_with('{') && lines().any(|line| line.contains("\"settings\"")) {
        return GuideFormat::Plan;
    }
    // A Dockerfile is a list of commands.
    let instructions = || lines().filter(|line| !line.starts_with('#'));
    let is_dockerfile = instructions().next().is_some_and(|line| line.starts_with("FROM ") || line.starts_with("ARG "))
        && instructions().any(|line| line.starts_with("RUN "));
    if first.starts_with("#!") || is_dockerfile {
        return GuideFormat::Shell;
    }
    // A cloud-init configuration may write files, such as units and profiles.
    if first.starts_with("#cloud-config") {
        return GuideFormat::Ansible;
    }
    if unit::is_one(text) {
        return GuideFormat::Sysctl;
    }
    let is_section = |line: &str| tuned::header(line).is_some_and(|name| SECTIONS.contains(&name));
    if lines().any(is_section) {
        return if is_in_manifest(text, is_section) { GuideFormat::Ansible } else { GuideFormat::Tuned };
    }
    let begins = |line: &str, tag: &str| line.to_ascii_lowercase().starts_with(tag);
    if lines()
        .any(|line| ["<!doctype", "<html", "<body", "<pre", "<p>", "<div", "<code"].iter().any(|tag| begins(line, tag)))
    {
        return GuideFormat::Html;
    }
    // `- sysctl:NAME=VALUE` is a setting of evenkeel in a list.
    let is_task = |line: &str| {
        let rest = TASKS.iter().find_map(|begin| line.strip_prefix(begin));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let is_yaml = |line: &str| line.ends_with("sysctl:") || line == "sysctls:" || is_task(line);
    // A page may begin with a block of YAML metadata.
    let is_page = || lines().any(|line| line.starts_with("```") || line.starts_with("| ") || line.contains("](http"));
    let is_list = |line: &str| LISTS.contains(&line);
    if lines().any(is_yaml) || (first == "---" || lines().any(is_list)) && !is_page() {
        return GuideFormat::Ansible;
    }
    if lines().filter(|line| PERFTUNE.iter().any(|option| line.starts_with(option))).count() > 0 {
        return GuideFormat::Perftune;
    }
    let markdown = |line: &str| {
        line.starts_with("```") || line.starts_with("## ") || line.starts_with("| ") || line.contains("](http")
    };
    if lines().any(markdown) {
        return GuideFormat::Markdown;
    }
    by_majority(lines())
}

/// Whether only texts inside a Kubernetes manifest contain sections of a profile.
/// In such a manifest, all sections are indented, and keys of the manifest are not.
fn is_in_manifest(text: &str, is_section: impl Fn(&str) -> bool) -> bool {
    let lines = || text.lines().take(LINES_MAX);
    let has = |key: &str| lines().any(|line| line.starts_with(key));
    has("kind:")
        && has("apiVersion:")
        && lines().filter(|line| is_section(line.trim())).all(|line| line.starts_with([' ', '\t']))
}

/// The format of most lines: settings, commands or sentences.
fn by_majority<'a>(lines: impl Iterator<Item = &'a str>) -> GuideFormat {
    let (mut assignments, mut commands, mut others) = (0, 0, 0);
    for line in lines.filter(|line| !line.starts_with(['#', ';'])) {
        let first = words::split(line).into_iter().next().map(|word| word.text).unwrap_or_default();
        if COMMANDS.iter().any(|command| first == *command || first.starts_with("GRUB_CMDLINE")) {
            commands += 1;
        } else if settings::assignment(line).is_some_and(|ask| !ask.value.contains(is_wide))
            || line.split_once('=').is_some_and(|(key, _)| !key.trim().contains(' ') && !line.contains(is_wide))
        {
            assignments += 1;
        } else {
            others += 1;
        }
    }
    match (assignments, commands, others) {
        (_, commands, others) if commands > 0 && others > 2 * (commands + assignments) => GuideFormat::Markdown,
        (assignments, commands, _) if commands > 0 && commands >= assignments => GuideFormat::Shell,
        (assignments, _, others) if assignments > 0 && assignments >= others => GuideFormat::Sysctl,
        (0, 0, 0) => GuideFormat::Sysctl,
        _ => GuideFormat::Markdown,
    }
}
