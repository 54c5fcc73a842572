//! Reads lists whose names the driver defines: its offloads, its counters, and how it spreads packets over queues.
//! The names come from the running kernel, so the lists are complete and nothing is guessed.

use evenkeel_sys::Errno;
use evenkeel_sys::ethtool::{Question, Room};

use super::field;

const ETH_SS_STATS: u32 = 1;
const ETH_SS_FEATURES: u32 = 4;
const UDP_V4_FLOW: u32 = 0x02;

/// `ETH_GSTRING_LEN`.
const NAME_BYTES: usize = 32;
/// The maximum number of entries that are read from a table of queues. Drivers have up to a few thousand.
const TABLE_MAX: u32 = 1 << 16;
/// The maximum number of counters that are reported. A driver has several for each queue.
const STATS_MAX: usize = 256;
/// Parts of the names of loss counters. evenkeel does not report other counters.
const LOSSES: [&str; 5] = ["allowance", "drop", "overrun", "miss", "error"];

/// Each offload that the kernel knows: `rx-gro=on`, `tx-udp-segmentation=off,fixed`.
pub(crate) fn features(interface: &str) -> Result<String, Errno> {
    let mut room = Room::new()?;
    let names = names(&mut room, interface, ETH_SS_FEATURES)?;
    let blocks = u32::try_from(names.len().div_ceil(32)).map_err(|_| Errno::OVERFLOW)?;
    room.ask(interface, Question::Features, &[blocks])?;
    let mut lines = String::new();
    for (at, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        // `struct ethtool_gfeatures`: two words, then blocks of four words, one bit per feature.
        let mut is_set = |which: usize| {
            let word = room.word(2 + at / 32 * 4 + which);
            word.is_some_and(|word| word >> (at % 32) & 1 == 1)
        };
        let [available, _, active, never_changed] = [0, 1, 2, 3].map(&mut is_set);
        let (on, fixed) = (if active { "on" } else { "off" }, if !available || never_changed { ",fixed" } else { "" });
        lines.push_str(&format!("{name}={on}{fixed}\n"));
    }
    Ok(lines)
}

/// The counters of losses with their current values, one per line.
pub(crate) fn stats(interface: &str) -> Result<String, Errno> {
    let mut room = Room::new()?;
    let names = names(&mut room, interface, ETH_SS_STATS)?;
    room.ask(interface, Question::Counters, &[u32::try_from(names.len()).map_err(|_| Errno::OVERFLOW)?])?;
    if room.word(1).map(|count| count as usize) != Some(names.len()) {
        // The queues changed between the two calls, so the names do not match the counters.
        return Err(Errno::AGAIN);
    }
    let is_loss = |name: &str| LOSSES.iter().any(|loss| name.contains(loss));
    let losses = names.iter().enumerate().filter(|(_, name)| is_loss(name)).take(STATS_MAX);
    let mut lines = String::new();
    for (at, name) in losses {
        let Some(bytes) = room.bytes().get(8 + at * 8..).and_then(|rest| rest.first_chunk::<8>()) else { break };
        lines.push_str(&format!("{name}={}\n", u64::from_ne_bytes(*bytes)));
    }
    Ok(lines)
}

/// How the device spreads packets over receive queues, as far as the driver reports it.
/// The answer has the size of the table, the number of queues in the table, the bytes of the key, and the hash function.
/// The answer also has the hashed fields of UDP packets, in ethtool's letters.
pub(crate) fn rss(interface: &str) -> Result<String, Errno> {
    let mut room = Room::new()?;
    let mut lines = String::new();
    // `struct ethtool_rxfh` without room for table or key. The driver then reports only their sizes.
    let asked = room.ask(interface, Question::Hashing, &[0, 0, 0, 0, 0]);
    if asked.is_ok() {
        let [table, key, functions] = [2, 3, 4].map(|at| room.word(at).unwrap_or_default());
        lines.push_str(&format!("table={table}\nkey_bytes={key}\nfunction={}\n", function(functions.to_ne_bytes()[0])));
        if table > 0 && table <= TABLE_MAX && room.ask(interface, Question::Table, &[table]).is_ok() {
            let mut queues: Vec<u32> = (0..table as usize).filter_map(|at| room.word(2 + at)).collect();
            queues.sort_unstable();
            queues.dedup();
            lines.push_str(&format!("queues={}\n", queues.len()));
        }
    }
    // The first 16 bytes of `struct ethtool_rxnfc`. The kernel reads no more for this command.
    let hashed = room.ask(interface, Question::HashedFields, &[UDP_V4_FLOW, 0, 0]);
    if hashed.is_ok() {
        // All these bits are in the lower half of the 64-bit number.
        let low = if cfg!(target_endian = "little") { 2 } else { 3 };
        lines.push_str(&format!("udp4={}\n", hash_fields(room.word(low).unwrap_or_default())));
    }
    match (asked, hashed) {
        (Err(errno), Err(_)) => Err(errno),
        _ => Ok(lines),
    }
}

/// The strings of a set, in the order of their numbers. Unused strings are empty.
fn names(room: &mut Room, interface: &str, set: u32) -> Result<Vec<String>, Errno> {
    // `struct ethtool_gstrings`: the kernel returns the number of strings, and then the strings.
    room.ask(interface, Question::Strings, &[set, 0])?;
    let count = room.word(2).unwrap_or_default() as usize;
    let strings = room.bytes().get(12..).unwrap_or_default().chunks_exact(NAME_BYTES).take(count);
    Ok(strings.map(|bytes| field(bytes).replace('=', "-")).collect())
}

/// The name of a hash function's bit (`ETH_RSS_HASH_TOP` and similar).
fn function(bits: u8) -> String {
    match bits {
        0 => "none".to_owned(),
        1 => "toeplitz".to_owned(),
        2 => "xor".to_owned(),
        4 => "crc32".to_owned(),
        other => other.to_string(),
    }
}

/// The letters that `ethtool -N … rx-flow-hash` accepts for the fields. `none` if no field is hashed.
fn hash_fields(bits: u32) -> String {
    const LETTERS: [(u32, char); 8] = [(1, 'm'), (2, 'v'), (3, 't'), (4, 's'), (5, 'd'), (6, 'f'), (7, 'n'), (31, 'r')];
    let letters: String = LETTERS.iter().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, letter)| *letter).collect();
    if letters.is_empty() { "none".to_owned() } else { letters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_fields_are_ethtools_letters() {
        let table = [(0, "none"), (0x30, "sd"), (0xf0, "sdfn"), (0x8000_0000, "r"), (0x0e, "mvt"), (1, "none")];
        for (bits, expected) in table {
            assert_eq!(hash_fields(bits), expected, "{bits:#x}");
        }
        assert_eq!([0, 1, 2, 4, 8].map(function), ["none", "toeplitz", "xor", "crc32", "8"]);
    }

    /// Every interface has features, even loopback, and the kernel itself segments and merges packets.
    #[test]
    fn features_have_the_kernels_names() {
        let lo = features("lo").unwrap();
        let value = |name: &str| lo.lines().find_map(|line| line.split_once('=').filter(|(key, _)| *key == name));
        assert!(matches!(value("rx-gro"), Some((_, "on" | "off"))), "{lo}");
        assert!(value("tx-udp-segmentation").is_some(), "{lo}");
        assert!(lo.lines().all(|line| line.ends_with("=on") || line.ends_with("=off") || line.ends_with(",fixed")));
    }
}
