//! The interrupts and deferred work of one CPU, from /proc/interrupts and /proc/softirqs.
//! The meter reads these files rarely, because the kernel writes a column for every CPU each time.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use evenkeel_hostfs::proc::{Row, parse_per_cpu};
use serde::Serialize;

/// The maximum number of bytes to read of either file. It is enough for 512 CPUs and 1,000 interrupts.
const BYTES_MAX: usize = 8 << 20;

/// How often each source interrupted, by name.
pub(super) type Counts = BTreeMap<String, u64>;

/// A source of interrupts or deferred work, and its count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// The kernel's name of the source: `LOC Local timer interrupts`, `38 virtio2-input.0`, `softirq NET_RX`.
    pub name: String,
    /// How often this source interrupted the CPU.
    pub count: u64,
}

/// The two files of one CPU, which stay open.
#[derive(Debug)]
pub(super) struct Files {
    cpu: usize,
    files: Vec<(File, &'static str)>,
    bytes: Vec<u8>,
}

impl Files {
    /// Opens the files for this CPU. A container may hide both.
    pub(super) fn of_cpu(cpu: usize) -> Files {
        let open = |(path, prefix): (&str, &'static str)| Some((File::open(path).ok()?, prefix));
        let files = [("/proc/interrupts", ""), ("/proc/softirqs", "softirq ")].into_iter().filter_map(open).collect();
        Files { cpu, files, bytes: vec![0; 16 << 10] }
    }

    /// Reads both files into reused memory, and adds up the counts of this CPU. None if there is nothing to read.
    pub(super) fn read(&mut self) -> Option<Counts> {
        let mut counts = Counts::new();
        for (file, prefix) in &self.files {
            let length = read_whole(file, &mut self.bytes)?;
            let text = String::from_utf8_lossy(&self.bytes[..length]);
            for (name, count) in of_cpu(&text, self.cpu)? {
                counts.insert(format!("{prefix}{name}"), count);
            }
        }
        (!counts.is_empty()).then_some(counts)
    }
}

fn read_whole(file: &File, bytes: &mut Vec<u8>) -> Option<usize> {
    let mut length = 0;
    loop {
        let read = file.read_at(&mut bytes[length..], length as u64).ok()?;
        if read == 0 {
            return Some(length);
        }
        length += read;
        if bytes.len() - length < 4096 {
            if bytes.len() >= BYTES_MAX {
                return None;
            }
            bytes.resize(bytes.len() * 2, 0);
        }
    }
}

/// The name of each line and its count for `cpu`. None if the header does not name this CPU.
fn of_cpu(text: &str, cpu: usize) -> Option<Vec<(String, u64)>> {
    let table = parse_per_cpu(text);
    let column = table.column(cpu)?;
    let named = |row: Row<'_>| match row.name() {
        "" => row.label.to_owned(),
        name => format!("{} {name}", row.label),
    };
    Some(table.rows().filter_map(|row| Some((named(row), row.counts().nth(column)?))).collect())
}

/// The increase between two readings, with the most frequent source first.
pub(super) fn between(before: &Counts, after: &Counts) -> Vec<Source> {
    let grown = |(name, now): (&String, &u64)| {
        let count = now.saturating_sub(before.get(name).copied().unwrap_or(0));
        (count > 0).then(|| Source { name: name.clone(), count })
    };
    let mut sources: Vec<Source> = after.iter().filter_map(grown).collect();
    sources.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.name.cmp(&other.name)));
    sources
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU3
 38:          7      52734 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
LOC:    4977643    6534105   Local timer interrupts
ERR:          0
";

    #[test]
    fn a_column_is_found_by_its_cpu() {
        let softirqs = "                    CPU0       CPU3\n          HI:          0          9\n";
        let read = |text, cpu| of_cpu(text, cpu).map(|found| format!("{found:?}"));
        expect![[r#"[("38 virtio2-input.0", 52734), ("LOC Local timer interrupts", 6534105)]"#]]
            .assert_eq(&read(INTERRUPTS, 3).unwrap());
        expect![[r#"[("HI", 9)]"#]].assert_eq(&read(softirqs, 3).unwrap());
        assert_eq!(read(INTERRUPTS, 1), None, "it is offline");
    }

    #[test]
    fn only_what_moved_is_told() {
        let counts =
            |list: &[(&str, u64)]| list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Counts>();
        let moved =
            between(&counts(&[("a", 5), ("b", 5), ("d", 9)]), &counts(&[("a", 6), ("b", 9), ("c", 1), ("d", 1)]));
        let moved: Vec<_> = moved.iter().map(|source| (source.name.as_str(), source.count)).collect();
        assert_eq!(moved, [("b", 4), ("a", 1), ("c", 1)]);
    }

    #[test]
    fn this_machine_has_some_memory() {
        let cpu = evenkeel_sys::thread::affinity().unwrap().first().unwrap();
        match Files::of_cpu(cpu).read() {
            Some(counts) => assert!(counts.values().any(|count| *count > 0)),
            None => println!("skipped: /proc/interrupts is hidden here"),
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(CPU[0-9] ){0,3}\n(\\PC{0,40}\n){0,5}", cpu in 0_usize..10) {
            let _ = of_cpu(&text, cpu);
        }
    }
}
