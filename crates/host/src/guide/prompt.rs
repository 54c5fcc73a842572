//! Prompts of shells, which pages show before a command: `[root@db ~]# `, `root@host:/etc# `, `user@host:~$ `.

/// Commands that may follow a root's prompt, which looks like a comment or a heading.
pub(super) const COMMANDS: [&str; 26] = [
    "sysctl",
    "echo",
    "ethtool",
    "cpupower",
    "grubby",
    "tee",
    "sh -c",
    "for ",
    "sudo ",
    "blockdev --",
    "chrt -",
    "cpufreq-set -",
    "docker run ",
    "ip link ",
    "ionice -",
    "nmcli connection ",
    "nmcli con ",
    "numactl -",
    "podman run ",
    "renice -",
    "rpm-ostree kargs ",
    "sed -i",
    "systemctl ",
    "taskset -",
    "tc qdisc ",
    "tuned-adm ",
];

/// The command after a prompt: `$ …`, `user@host:~$ …`.
pub(super) fn command(line: &str) -> Option<&str> {
    ["$ ", "% "].iter().find_map(|mark| line.strip_prefix(mark)).or_else(|| stripped(line)).map(str::trim)
}

/// The command after a root's prompt.
pub(super) fn after_hash(line: &str) -> Option<&str> {
    line.strip_prefix("# ").filter(|rest| COMMANDS.iter().any(|command| rest.starts_with(command)))
}

/// The command after a prompt that names a user and a host.
pub(super) fn stripped(line: &str) -> Option<&str> {
    let (prompt, rest) = match line.strip_prefix('[') {
        Some(rest) => {
            let (prompt, rest) = rest.split_once(']')?;
            (prompt, rest.strip_prefix(['#', '$', '%'])?)
        }
        None => {
            let (first, rest) = line.split_once(' ')?;
            let prompt = first.strip_suffix(['#', '$', '%']).filter(|prompt| prompt.contains(':'))?;
            (prompt, rest)
        }
    };
    let (user, _) = prompt.split_once('@')?;
    let is_user = !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let rest = rest.trim_start();
    (is_user && !rest.is_empty()).then_some(rest)
}

/// What crontabs and files of network interfaces have before a command.
const BEFORE: [&str; 5] = ["@reboot root ", "@reboot ", "post-up ", "pre-up ", "up "];
/// Commands that may follow it.
const AFTER: [&str; 9] = ["sysctl", "echo", "ethtool", "ip", "tc", "ifconfig", "sudo", "cpupower", "renice"];

/// The line without the prompt, or without the word before the command, if it has one.
pub(super) fn without(line: &str) -> &str {
    let is_command = |rest: &&str| {
        let name = rest.split_whitespace().next().and_then(|name| name.rsplit('/').next());
        name.is_some_and(|name| AFTER.contains(&name))
    };
    let bare = || BEFORE.iter().find_map(|before| line.strip_prefix(before).map(str::trim_start).filter(is_command));
    stripped(line).or_else(bare).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_with_a_user_and_a_host() {
        for (line, expected) in [
            ("[root@db ~]# echo 1", Some("echo 1")),
            ("[me@db.example /etc]$ ls", Some("ls")),
            ("root@host:~# ethtool -G eth0 rx 4096", Some("ethtool -G eth0 rx 4096")),
            ("root@0a1b:/# x", Some("x")),
            ("user@host:~$ x", Some("x")),
            ("[root@db ~]#", None),
            ("[main] # x", None),
            ("me@example.org wrote: x", None),
            ("a@b# x", None),
            ("@b:c# x", None),
        ] {
            assert_eq!(stripped(line), expected, "{line}");
        }
    }
}
