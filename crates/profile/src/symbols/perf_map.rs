//! `PerfMap`: the functions that a just-in-time compiler generated, from `/tmp/perf-PID.map`.
//! Another process wrote that file, so the file is not trusted.

use std::collections::BTreeMap;

/// The maximum number of functions that are read.
const FUNCTIONS_MAX: usize = 4_000_000;
/// The maximum number of bytes of a name. The rest is cut off.
const NAME_MAX: usize = 1024;
/// The maximum number of nested functions to examine at an address.
const NESTED_MAX: usize = 16;

/// The functions of one process, by their first address. Each has its end and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerfMap(BTreeMap<u64, (u64, String)>);

/// Parses the map: `START SIZE NAME` in each line, with both numbers in base 16. Invalid lines are left out.
/// If two functions have one address, the later line counts, because a compiler reuses memory.
pub fn parse_perf_map(text: &str) -> PerfMap {
    let mut found = PerfMap::default();
    for line in text.lines().take(FUNCTIONS_MAX) {
        let mut parts = line.trim_start().splitn(3, ' ');
        let number = |word: Option<&str>| {
            let word = word?;
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
        };
        let (Some(start), Some(size), Some(name)) = (number(parts.next()), number(parts.next()), parts.next()) else {
            continue;
        };
        let (Some(end), name) = (start.checked_add(size), name.trim()) else { continue };
        if size > 0 && !name.is_empty() {
            found.0.insert(start, (end, name.chars().take(NAME_MAX).collect()));
        }
    }
    found
}

impl PerfMap {
    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<&str> {
        let mut before = self.0.range(..=address).rev().take(NESTED_MAX);
        before.find(|(_, (end, _))| address < *end).map(|(_, (_, name))| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_functions() {
        let map = parse_perf_map(
            "1000 20 LazyCompile:~tick game.js:1\n0x2000 10 old\n2000 8 new\nx y z\n3000 0 none\nffffffffffffffff 9 far\n",
        );
        let rows = [
            (0x1000, Some("LazyCompile:~tick game.js:1")),
            (0x101f, Some("LazyCompile:~tick game.js:1")),
            (0x1020, None),
            (0x2004, Some("new")),
            (0x200c, None),
            (0x3000, None),
            (u64::MAX, None),
        ];
        for (address, name) in rows {
            assert_eq!(map.at(address), name, "{address:x}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([0-9a-fx]{0,17} [0-9a-f]{0,17} ?.{0,9}\n){0,9}", address in any::<u64>()) {
            let _ = parse_perf_map(&text).at(address);
        }
    }
}
