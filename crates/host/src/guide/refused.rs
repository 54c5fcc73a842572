//! Values that the kernel refuses: writes to read-only files, numbers that are too large, names that the kernel does not offer.

use super::lists::{CONGESTION, list_of};
use super::readings::Readings;
use crate::number::kernel_number;

/// Sysctls that nobody can write (mode 0444), by their paths below /proc/sys. A `*` at the end covers everything below a path.
const READ_ONLY: [&str; 28] = [
    "crypto/fips_enabled",
    "dev/cdrom/info",
    "fs/aio-nr",
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-nr",
    "fs/inode-state",
    "fs/quota/*",
    "kernel/arch",
    "kernel/bootloader_type",
    "kernel/bootloader_version",
    "kernel/cap_last_cap",
    "kernel/ngroups_max",
    "kernel/osrelease",
    "kernel/ostype",
    "kernel/pty/nr",
    "kernel/random/boot_id",
    "kernel/random/entropy_avail",
    "kernel/random/poolsize",
    "kernel/random/uuid",
    "kernel/seccomp/actions_avail",
    "kernel/version",
    "net/core/netdev_rss_key",
    "net/ipv4/tcp_available_congestion_control",
    "net/ipv4/tcp_available_ulp",
    "net/ipv4/tcp_ehash_entries",
    "net/netfilter/nf_conntrack_count",
    "vm/nr_pdflush_threads",
];

/// Whether the kernel lets nobody write a sysctl.
pub(super) fn is_read_only(path: &str) -> bool {
    let is_it = |own: &str| own.strip_suffix('*').map_or(own == path, |folder| path.starts_with(folder));
    READ_ONLY.iter().any(|own| is_it(own))
}

/// The sysctls below these paths are signed 32-bit numbers, except [`WIDER`].
const INTEGERS: [&str; 2] = ["net/core/", "net/ipv4/tcp_"];
/// Sysctls that take larger numbers.
const WIDER: [&str; 4] = [
    "net/ipv4/tcp_comp_sack_delay_ns",
    "net/ipv4/tcp_comp_sack_slack_ns",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_notsent_lowat",
];

/// Why the kernel refuses a number that is too large for the sysctl at this path below /proc/sys.
pub(super) fn too_large(path: &str, value: &str) -> Option<String> {
    let is_integer = INTEGERS.iter().any(|begin| path.starts_with(begin)) && !WIDER.contains(&path);
    let is_beyond = |word: &str| {
        let digits = word.strip_prefix('-').unwrap_or(word);
        let is_long = digits.len() > 18 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_long || kernel_number(word).is_some_and(|number| i32::try_from(number).is_err())
    };
    (is_integer && value.split_whitespace().any(is_beyond))
        .then(|| format!("the kernel accepts at most {} there", i32::MAX))
}

/// Why the kernel refuses a name for the file at `path`: its list lacks the name. `None` also if the list is unknown.
pub(super) fn not_offered(readings: &Readings, path: &str, name: &str) -> Option<String> {
    let list = readings.value(&list_of(path)?);
    let offered: Vec<&str> = list.known()?.split_whitespace().collect();
    if offered.is_empty() || offered.contains(&name) {
        return None;
    }
    let small = name.to_ascii_lowercase();
    let more = match offered.contains(&small.as_str()) {
        true => format!("; its name there is {small}"),
        false => String::new(),
    };
    Some(format!("the kernel does not offer it here: it offers {}{more}", offered.join(", ")))
}

/// Whether the kernel may load a module for a name that it does not offer yet, when root writes it to the file at `path`.
pub(super) fn may_load(path: &str, name: &str) -> bool {
    path.ends_with(CONGESTION)
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_report() {
        for (path, expected) in [
            ("fs/file-nr", true),
            ("fs/quota/allocated_dquots", true),
            ("fs/file-max", false),
            ("net/ipv4/tcp_congestion_control", false),
        ] {
            assert_eq!(is_read_only(path), expected, "{path}");
        }
    }

    #[test]
    fn numbers_beyond_the_kernels() {
        for (path, value, expected) in [
            ("net/core/somaxconn", "70000000000", true),
            ("net/core/somaxconn", "0x80000000", true),
            ("net/core/somaxconn", "99999999999999999999", true),
            ("net/core/somaxconn", "2147483647", false),
            ("net/ipv4/tcp_rmem", "4096 87380 70000000000", true),
            ("net/ipv4/tcp_notsent_lowat", "4294967295", false),
            ("net/ipv4/tcp_congestion_control", "bbr", false),
            ("vm/user_reserve_kbytes", "70000000000", false),
        ] {
            assert_eq!(too_large(path, value).is_some(), expected, "{path}={value}");
        }
    }
}
