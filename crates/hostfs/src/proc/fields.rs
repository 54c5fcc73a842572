//! Files with a name and a value on each line: /proc/meminfo, /proc/vmstat, /proc/PID/status, cpu.stat, memory.stat.

use std::collections::BTreeMap;

use super::LINES_MAX;

/// Numbers by name.
pub type Pairs = BTreeMap<String, u64>;

/// The value after `key` and `separator` on the first line with this key, without surrounding white space.
pub fn field<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// The number on the line `NAME: NUMBER`, in bytes if the line's unit is kB (/proc/meminfo, /proc/PID/status, smaps).
pub fn amount(text: &str, name: &str) -> Option<u64> {
    parse_amount(field(text, name, ':')?)
}

/// The number on the line `NAME NUMBER` (/proc/vmstat, cpu.stat, memory.stat).
pub fn count(text: &str, name: &str) -> Option<u64> {
    field(text, name, ' ')?.parse().ok()
}

/// Parses `12`, or `12 kB`, which gives 12,288 bytes.
pub fn parse_amount(value: &str) -> Option<u64> {
    let mut words = value.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    match words.next() {
        None => Some(number),
        Some("kB") => number.checked_mul(1024),
        Some(_) => None,
    }
}

/// All lines `NAME NUMBER`, as [`count`]. Other lines are skipped. `None` if no line has this form.
pub fn parse_pairs(text: &str) -> Option<Pairs> {
    pairs(text, ' ', |number| number.trim().parse().ok())
}

/// All lines `NAME: NUMBER`, as [`amount`]. Other lines are skipped. `None` if no line has this form.
pub fn parse_fields(text: &str) -> Option<Pairs> {
    pairs(text, ':', parse_amount)
}

fn pairs(text: &str, separator: char, parse: fn(&str) -> Option<u64>) -> Option<Pairs> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(separator)?;
        Some((name.to_owned(), parse(value)?))
    };
    let pairs: Pairs = text.lines().take(LINES_MAX).filter_map(pair).collect();
    (!pairs.is_empty()).then_some(pairs)
}

/// How many times a thread stopped running, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// The thread gave up the CPU, for example to sleep.
    pub voluntary: u64,
    /// The kernel gave the CPU to another thread, although this thread was ready to run.
    pub involuntary: u64,
}

/// The switches in /proc/PID/task/TID/status. The file of a process has the switches of the process's first thread.
pub fn parse_switches(status: &str) -> Option<Switches> {
    Some(Switches {
        voluntary: amount(status, "voluntary_ctxt_switches")?,
        involuntary: amount(status, "nonvoluntary_ctxt_switches")?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_key() {
        let text = "model\t\t: 17\nmodel name\t: A B: C\nempty\t:\n";
        let table = [("model", Some("17")), ("model name", Some("A B: C")), ("empty", Some("")), ("name", None)];
        for (key, expected) in table {
            assert_eq!(field(text, key, ':'), expected, "{key}");
        }
    }

    #[test]
    fn amounts_have_a_unit_or_none() {
        let text = "Name:\tcat\nVmSwap:\t 12 kB\nThreads:\t2\nOdd: 3 MB\nHuge: 99999999999999999999 kB\nNone:\n\
                    Most: 18446744073709551615 kB\n";
        assert_eq!(parse_fields(text).unwrap(), Pairs::from([("VmSwap".into(), 12_288), ("Threads".into(), 2)]));
        assert_eq!(parse_fields("Name: x"), None);
        let table = [("VmSwap", Some(12_288)), ("Threads", Some(2)), ("Odd", None), ("Huge", None), ("None", None)];
        for (name, expected) in table.into_iter().chain([("Most", None), ("Swap", None)]) {
            assert_eq!(amount(text, name), expected, "{name}");
        }
        let vmstat = "thp_fault_alloc 39\nthp_fault_alloc_x 5\nrubbish\n";
        assert_eq!(parse_pairs(vmstat).unwrap().len(), 2);
        assert_eq!(parse_pairs(""), None);
        assert_eq!((count(vmstat, "thp_fault_alloc"), count(vmstat, "thp")), (Some(39), None));
    }

    #[test]
    fn switches_are_read() {
        let text = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(parse_switches(text), Some(Switches { voluntary: 150, involuntary: 545 }));
        assert_eq!(parse_switches("voluntary_ctxt_switches:\t150\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "((Name|voluntary_ctxt_switches|:|kB|max|[0-9]{1,22})[ \t\n]{0,2}){0,24}|.{0,40}", key in ".{0,3}") {
            let _ = (parse_pairs(&text), parse_fields(&text), parse_switches(&text), parse_amount(&text));
            let _ = (field(&text, &key, ':'), amount(&text, &key), count(&text, &key));
        }
    }
}
