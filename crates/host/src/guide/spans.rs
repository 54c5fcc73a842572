//! Commands in sentences: those between marks of code are read, those without a mark are only named.

use super::line::{Ask, Content, Target};
use super::prompt;
use super::shell::Script;
use super::wide;

/// A setting, or why evenkeel does not understand it, and where it begins.
pub(super) type Placed = (usize, Result<Ask, String>);

/// Commands that sentences have between marks of code.
const COMMANDS: [&str; 26] = [
    "blockdev",
    "chrt",
    "cpufreq-set",
    "cpupower",
    "docker",
    "echo",
    "ethtool",
    "grubby",
    "ifconfig",
    "ionice",
    "ip",
    "modprobe",
    "nice",
    "nmcli",
    "numactl",
    "podman",
    "printf",
    "renice",
    "rpk",
    "rpm-ostree",
    "swapoff",
    "sysctl",
    "systemctl",
    "taskset",
    "tc",
    "tuned-adm",
];
/// The maximum number of commands of a sentence.
const SPANS_MAX: usize = 40;

/// The settings of the commands between marks of code, with the place of each command, and the text without these commands. Every other
/// letter keeps its place.
pub(super) fn commands(part: &str) -> (Vec<Placed>, String) {
    let (mut found, mut rest, mut from, mut count) = (Vec::new(), String::with_capacity(part.len()), 0, 0);
    for (at, text) in part.split('`').enumerate() {
        if at > 0 {
            rest.push('`');
        }
        // Every second part of the text is code.
        let content = (at % 2 == 1 && count < SPANS_MAX).then(|| read(text)).flatten();
        match content {
            Some(content) => {
                count += 1;
                let place = from + text.len() - text.trim_start().len();
                found.extend(said(content).into_iter().map(|said| (place, said)));
                // The command is one word of the sentence.
                let after = text.len() - text.trim_end().len();
                rest.extend(std::iter::repeat_n(' ', place - from));
                rest.extend(std::iter::repeat_n('_', text.trim().len()));
                rest.extend(std::iter::repeat_n(' ', after));
            }
            None => rest.push_str(text),
        }
        from += text.len() + 1;
    }
    (found, rest)
}

/// The content of a command. `None` if the code is no command.
fn read(code: &str) -> Option<Content> {
    Script::default().line(command(code)?)
}

/// The command of a text, without its prompt. `None` if the text begins with no command that is known here, or has no word after it.
pub(super) fn command(text: &str) -> Option<&str> {
    let text = text.trim();
    let text = prompt::command(text).or_else(|| prompt::after_hash(text)).unwrap_or(text);
    let mut words = text.split_whitespace().skip_while(|word| *word == "sudo");
    let name = words.next()?.rsplit('/').next()?;
    (COMMANDS.contains(&name) && words.next().is_some()).then_some(text)
}

fn said(content: Content) -> Vec<Result<Ask, String>> {
    match content {
        Content::Settings(asks) => {
            let one = |ask: Ask| match ask.target {
                Target::Unclear(why) => Err(why),
                _ => Ok(ask),
            };
            asks.into_iter().map(one).collect()
        }
        Content::NotUnderstood(why) => vec![Err(why)],
        Content::NotASetting(_) => Vec::new(),
    }
}

/// Commands that sentences name without marks of code. Each has options, or one of its own words after it.
const NAMED: [&str; 9] =
    ["chrt", "cpupower", "ethtool", "ionice", "numactl", "renice", "taskset", "tuned-adm", "x86_energy_perf_policy"];
const OWN: [&str; 6] = ["frequency-set", "idle-set", "off", "performance", "profile", "set"];

/// The first command that a sentence names with an option.
pub(super) fn named(part: &str) -> Option<&'static str> {
    let words = wide::words(part);
    let plain = |(_, word): &(usize, &str)| word.trim_matches(['(', '"', '\'', ',']).to_owned();
    let of = |pair: &[(usize, &str)]| {
        let (own, next) = (plain(&pair[0]), plain(&pair[1]));
        let name = NAMED.iter().find(|name| own == **name)?;
        (next.starts_with('-') && next.len() > 1 || OWN.contains(&next.as_str())).then_some(*name)
    };
    words.windows(2).find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_where_they_stand() {
        let (found, rest) = commands("Run `echo never > /sys/kernel/mm/transparent_hugepage/enabled` or `x=1`.");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 5);
        assert_eq!(found[0].1.as_ref().map(ToString::to_string), Ok("thp.enabled=never".to_owned()));
        assert!(rest.ends_with("` or `x=1`.") && rest.len() == 72, "{rest}");
        assert!(commands("`sysctl` and `echo` and `ip a`").0.is_empty());
        assert_eq!(commands("`sysctl -w net.core.rmem_max=$X`").0.len(), 1);
    }

    #[test]
    fn commands_without_marks_are_named() {
        for (text, expected) in [
            ("run the server with chrt -f 99 and taskset -c 2-3.", Some("chrt")),
            ("use (cpupower frequency-set -g performance)", Some("cpupower")),
            ("tuned-adm switches profiles", None),
            ("ethtool - a tool", None),
            ("nothing here", None),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }
}
