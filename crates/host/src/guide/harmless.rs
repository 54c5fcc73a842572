//! Values of sysctls that evenkeel never tries, and that do no harm: a higher limit, a wider range of ports. They are left to the user.

use crate::number::kernel_number;

/// Limits that stop only what runs into them, by their paths below /proc/sys. A `*` at the end covers everything below; one in the
/// middle covers one name.
const LIMITS: [&str; 15] = [
    "fs/aio-max-nr",
    "fs/epoll/*",
    "fs/file-max",
    "fs/inotify/*",
    "fs/mount-max",
    "fs/nr_open",
    "fs/pipe-*",
    "kernel/keys/*",
    "kernel/pid_max",
    "kernel/threads-max",
    "net/ipv4/neigh/*/gc_thresh*",
    "net/ipv4/tcp_mem",
    "net/unix/max_dgram_qlen",
    "user/*",
    "vm/max_map_count",
];

const RAISES: &str = "it raises a limit, which changes speed only for a program at the limit";
const PORTS: &str = "it gives outgoing connections more ports; a server that starts later may find its own port in use";
const PROBES: &str = "it helps only on paths that drop large packets silently";

/// What this value does, if it does no harm in place of the present one. `None` if it may do harm.
pub(super) fn why(path: &str, value: &str, present: &str) -> Option<&'static str> {
    match path {
        "net/ipv4/ip_local_port_range" => {
            let ([from, to], [old_from, old_to]) = (pair(value)?, pair(present)?);
            (1 <= from && from <= old_from && old_to <= to && to <= 65_535).then_some(PORTS)
        }
        // 1 probes only after packets were lost.
        "net/ipv4/tcp_mtu_probing" => ["0", "1"].contains(&value.trim()).then_some(PROBES),
        _ => (is_limit(path) && is_raised(value, present)?).then_some(RAISES),
    }
}

fn is_limit(path: &str) -> bool {
    LIMITS.iter().any(|limit| match limit.split_once('*') {
        None => *limit == path,
        Some((before, after)) => {
            let part = after.trim_end_matches('*');
            path.strip_prefix(before).is_some_and(|rest| rest.contains(part))
        }
    })
}

/// Whether every number of the value is at least the present one. `None` if they are not the same number of numbers.
fn is_raised(value: &str, present: &str) -> Option<bool> {
    let (value, present) = (numbers(value)?, numbers(present)?);
    (value.len() == present.len()).then(|| value.iter().zip(&present).all(|(value, present)| value >= present))
}

fn pair(text: &str) -> Option<[i64; 2]> {
    numbers(text)?.try_into().ok()
}

/// The numbers of a text. One that is too large is the largest.
fn numbers(text: &str) -> Option<Vec<i64>> {
    let one = |word: &str| {
        let is_large = word.len() > 18 && word.bytes().all(|byte| byte.is_ascii_digit());
        if is_large { Some(i64::MAX) } else { kernel_number(word) }
    };
    text.split_whitespace().map(one).collect::<Option<Vec<i64>>>().filter(|numbers| !numbers.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_higher_limits_and_wider_ranges_are_harmless() {
        for (path, value, present, expected) in [
            ("fs/file-max", "2097152", "100000", Some(RAISES)),
            ("fs/file-max", "2097152", "9223372036854775807", None),
            ("fs/file-max", "many", "100000", None),
            ("fs/inotify/max_user_watches", "524288", "8192", Some(RAISES)),
            ("net/ipv4/neigh/default/gc_thresh3", "8192", "1024", Some(RAISES)),
            ("net/ipv4/neigh/default/gc_stale_time", "120", "60", None),
            ("net/ipv4/tcp_mem", "786432 1048576 26777216", "1 2 3", Some(RAISES)),
            ("net/ipv4/tcp_mem", "786432 1 26777216", "1 2 3", None),
            ("net/ipv4/tcp_mem", "786432", "1 2 3", None),
            ("vm/max_map_count", "262144", "65530", Some(RAISES)),
            ("vm/overcommit_ratio", "100", "50", None),
            ("net/ipv4/ip_local_port_range", "1024 65535", "32768 60999", Some(PORTS)),
            ("net/ipv4/ip_local_port_range", "40000 65535", "32768 60999", None),
            ("net/ipv4/ip_local_port_range", "65535 1024", "32768 60999", None),
            ("net/ipv4/tcp_mtu_probing", "1", "0", Some(PROBES)),
            ("net/ipv4/tcp_mtu_probing", "2", "0", None),
            ("net/ipv4/tcp_base_mss", "1", "0", None),
        ] {
            assert_eq!(why(path, value, present), expected, "{path}={value}");
        }
    }
}
