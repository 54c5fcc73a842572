//! Recognises the format of a guide from its content.

use super::line::GuideFormat;
use super::wide::is_wide;
use super::{config, settings, tuned, unit, words};

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
const COMMANDS: [&str; 32] = [
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
    "blockdev",
    "chrt",
    "cpufreq-set",
    "docker",
    "ifconfig",
    "ionice",
    "ip",
    "kubectl",
    "kubelet",
    "modprobe",
    "nmcli",
    "nsenter",
    "numactl",
    "podman",
    "renice",
    "rpk",
    "ssh",
    "taskset",
    "tc",
    "tuned-adm",
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
    // Terraform has the script of a machine as a here-document.
    let is_terraform = || {
        lines().any(|line| line.strip_prefix("resource").is_some_and(|rest| rest.starts_with(" \"")))
            && lines().any(|line| line.contains("user_data") && line.contains("<<"))
    };
    // A transcript has the commands after a prompt.
    if first.starts_with("#!") || first.starts_with("$ ") || is_dockerfile || is_terraform() {
        return GuideFormat::Shell;
    }
    // A cloud-init configuration may write files, such as units and profiles.
    if first.starts_with("#cloud-config") {
        return GuideFormat::Ansible;
    }
    // Blocks of code are a page, whatever they contain.
    if lines().filter(|line| line.starts_with("```")).count() > 1 {
        return GuideFormat::Markdown;
    }
    if unit::is_one(text) {
        return GuideFormat::Sysctl;
    }
    if is_profile(text) {
        return if is_in_manifest(text) { GuideFormat::Ansible } else { GuideFormat::Tuned };
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
    if is_yaml_text(text) {
        return GuideFormat::Ansible;
    }
    by_majority(lines())
}

fn is_section(line: &str) -> bool {
    tuned::header(line).is_some_and(|name| SECTIONS.contains(&name))
}

/// Whether a text has sections of a TuneD profile.
pub(super) fn is_profile(text: &str) -> bool {
    text.lines().take(LINES_MAX).map(str::trim).any(is_section)
}

/// Whether most lines are YAML: keys with a colon, and items of lists. Two keys begin a line.
fn is_yaml_text(text: &str) -> bool {
    let lines = || text.lines().take(LINES_MAX).filter(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
    let is_key = |line: &str| {
        let (key, rest) = line.split_once(':').unwrap_or_default();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./\"'".contains(&byte);
        !key.is_empty() && key.bytes().all(is_name) && (rest.is_empty() || rest.starts_with(' '))
    };
    // An item with blanks may be a sentence.
    let is_line = |line: &&str| match line.trim_start().strip_prefix("- ") {
        Some(item) => is_key(item) || item.starts_with(['{', '[', '"', '\'']) || !item.trim().contains(' '),
        None => is_key(line.trim_start()),
    };
    // The key of an item may be a sysctl in a list for people.
    let is_own = |line: &&str| match line.strip_prefix("- ") {
        Some(item) => is_key(item) && !item.split(':').next().is_some_and(|key| key.contains('.')),
        None => is_key(line),
    };
    let keys = lines().filter(is_own).count();
    let (all, fit) = (lines().count(), lines().filter(is_line).count());
    keys > 1 && fit * 5 >= all * 4 || all > 2 && fit == all && lines().next().is_some_and(is_key)
}

/// Whether the sections of a profile are only in texts of a manifest of Kubernetes: all are indented, and keys of a manifest are not.
fn is_in_manifest(text: &str) -> bool {
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
        } else if config::line(line).is_some()
            || settings::assignment(line).is_some_and(|ask| !ask.value.contains(is_wide))
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
