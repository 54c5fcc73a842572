//! The smallest values that evenkeel writes to sysctls without a knob.

use crate::number::kernel_number;

/// The smallest values that evenkeel writes to sysctls without a knob, for files where the kernel accepts smaller values.
/// Each is far below the kernel's default, and below every guide's value.
const LEAST: &[(&str, i64, &str)] = &[
    ("net/core/dev_weight", 8, CUT_BELOW),
    ("net/core/dev_weight_rx_bias", 1, CUT_BELOW),
    ("net/core/dev_weight_tx_bias", 1, CUT_BELOW),
    ("net/core/max_skb_frags", 4, CUT_BELOW),
    ("net/core/optmem_max", 4096, REFUSE_BELOW),
    ("net/core/somaxconn", 16, REFUSE_BELOW),
    ("net/ipv4/tcp_fin_timeout", 1, REFUSE_BELOW),
    ("net/ipv4/tcp_keepalive_probes", 2, CUT_BELOW),
    ("net/ipv4/tcp_keepalive_time", 10, CUT_BELOW),
    ("net/ipv4/tcp_max_orphans", 1024, REFUSE_BELOW),
    ("net/ipv4/tcp_max_syn_backlog", 16, REFUSE_BELOW),
    ("net/ipv4/tcp_max_tw_buckets", 1024, REFUSE_BELOW),
    ("net/ipv4/tcp_notsent_lowat", 1024, CUT_BELOW),
    ("net/ipv4/tcp_pacing_ca_ratio", 50, CUT_BELOW),
    ("net/ipv4/tcp_pacing_ss_ratio", 50, CUT_BELOW),
    ("net/ipv4/tcp_reordering", 1, CUT_BELOW),
    ("net/ipv4/tcp_rmem", 4096, CUT_BELOW),
    ("net/ipv4/tcp_wmem", 4096, CUT_BELOW),
    ("vm/vfs_cache_pressure", 1, "at 0 the kernel never frees some of its caches, and runs out of memory"),
];

const CUT_BELOW: &str = "with less, connections of the whole machine stall or end";
const REFUSE_BELOW: &str = "with less, the kernel refuses or ends connections of other programs";

/// Why a sysctl without a knob must not have this value. `None` if it may have the value. The path may begin with /proc/sys.
pub(crate) fn too_little(path: &str, value: &str) -> Option<String> {
    let path = path.strip_prefix("/proc/sys/").unwrap_or(path);
    let (_, least, why) = LEAST.iter().find(|(own, ..)| *own == path)?;
    let is_less = |word: &str| kernel_number(word).is_some_and(|number| number < *least);
    value.split_whitespace().any(is_less).then(|| format!("evenkeel writes {least} or more there: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::never;

    #[test]
    fn values_that_stop_others_are_refused() {
        let table = [
            ("net/core/dev_weight", "0", true),
            ("net/core/dev_weight", "600", false),
            ("net/core/dev_weight", "0x1", true),
            ("net/ipv4/tcp_max_orphans", "-5", true),
            ("net/ipv4/tcp_rmem", "1 87380 16777216", true),
            ("net/ipv4/tcp_rmem", "4096 87380 16777216", false),
            ("net/ipv4/tcp_sack", "0", false),
        ];
        for (path, value, expected) in table {
            assert_eq!(too_little(path, value).is_some(), expected, "{path}={value}");
        }
        for (path, ..) in LEAST {
            assert_eq!(never::reason(path), None, "{path} is never written anyway");
            let own = format!("/proc/sys/{path}");
            assert!(!crate::knobs::ALL.iter().any(|knob| knob.place.files().contains(&own.as_str())), "{path}");
        }
    }
}
