//! Rules of udev: what they write into files of devices, and the commands that they run.

use super::line::{Ask, Content, Skip};
use super::shell::Script;
use super::{config, names};

/// How rules of udev begin.
const RULES: [&str; 9] = ["ACTION", "ATTR{", "ATTRS{", "DEVPATH", "DRIVERS", "ENV{", "KERNEL", "SUBSYSTEM", "TAG"];
/// The maximum number of conditions and assignments of a rule.
const PARTS_MAX: usize = 60;

/// One condition or assignment of a rule: `KERNEL=="vd*"`, `ATTR{queue/scheduler}="none"`.
struct Part<'a> {
    key: &'a str,
    is_condition: bool,
    value: &'a str,
}

/// A rule of udev: what it writes into files of devices, and the commands that it runs.
pub(super) fn line(line: &str) -> Option<Content> {
    if !RULES.iter().any(|begin| line.starts_with(begin)) || !line.contains("==\"") {
        return None;
    }
    let parts = parts(line)?;
    let of = |name: &str| parts.iter().find(|part| part.is_condition && part.key == name).map(|part| part.value);
    let device = of("KERNEL").unwrap_or("*").replace('|', ",");
    let (mut asks, mut unclear) = (Vec::new(), Vec::new());
    for part in parts.iter().filter(|part| !part.is_condition) {
        let inner = |name: &str| part.key.strip_prefix(name)?.strip_suffix('}');
        if let Some(file) = inner("ATTR{") {
            let folder = match of("SUBSYSTEM") {
                Some("net") => "/sys/class/net",
                Some("cpu") => "/sys/devices/system/cpu",
                None | Some("block") if file.starts_with("queue/") => "/sys/block",
                _ => {
                    asks.push(config::whole(&format!("udev ATTR{{{file}}}={}", part.value)));
                    continue;
                }
            };
            asks.extend(names::by_file(&format!("{folder}/{device}/{file}"), part.value));
        } else if let Some(key) = inner("SYSCTL{") {
            asks.extend(names::by_key(key, part.value));
        } else if part.key.starts_with("RUN") {
            let command = part.value.replace("%k", &device).replace("$kernel", &device).replace("$name", &device);
            match Script::default().line(&command) {
                Some(Content::Settings(found)) => asks.extend(found),
                Some(Content::NotUnderstood(why)) => unclear.push(why),
                _ => {}
            }
        }
    }
    asks.extend(unclear.into_iter().map(Ask::not_understood));
    Some(if asks.is_empty() { Content::NotASetting(Skip::Elsewhere) } else { Content::settings(asks) })
}

/// The parts of a rule. `None` if it has another form.
fn parts(line: &str) -> Option<Vec<Part<'_>>> {
    let (mut found, mut rest) = (Vec::new(), line.trim());
    while !rest.is_empty() {
        let (before, after) = rest.split_once('"')?;
        let (value, after) = after.split_once('"')?;
        let key = before.trim_end_matches(['=', '+', ':', '-', '!', ' ']).trim();
        let is_condition = before.ends_with("==") || before.ends_with("!=");
        if key.is_empty() || found.len() >= PARTS_MAX {
            return None;
        }
        found.push(Part { key, is_condition, value });
        rest = after.trim_start_matches([',', ' ', '\t', '\\']);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let table = [
            (
                "ACTION==\"add|change\", KERNEL==\"sd[a-z]|vd*\", ATTR{queue/rotational}==\"0\", ATTR{queue/scheduler}=\"none\"",
                "disk.scheduler@sd[a-z],vd*=none",
            ),
            (
                "SUBSYSTEM==\"net\", KERNEL==\"eth*\", RUN+=\"/usr/sbin/ethtool -G %k rx 4096\", ATTR{tx_queue_len}=\"10000\"",
                "net.rings@eth*=4096 + /sys/class/net/eth*/tx_queue_len=10000",
            ),
            ("KERNEL==\"rtc0\", GROUP=\"audio\"", "(Elsewhere)"),
            ("KERNEL==\"rtc0", "none"),
            ("ACTION=add", "none"),
        ];
        for (text, expected) in table {
            let found = line(text).map_or_else(|| "none".to_owned(), |content| content.in_words());
            assert_eq!(found, expected, "{text}");
        }
    }
}
