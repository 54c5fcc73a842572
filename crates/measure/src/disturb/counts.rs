//! Per-CPU counts from /proc/interrupts and /proc/softirqs: a record of a storm that is independent of our own.

use evenkeel_hostfs::Root;

/// The count in the row `label` (such as `LOC`) for `cpu`. None if the row or the column is missing.
pub(super) fn row_count(table: &str, label: &str, cpu: usize) -> Option<u64> {
    let mut lines = table.lines();
    let name = format!("CPU{cpu}");
    let column = lines.next()?.split_ascii_whitespace().position(|title| title == name)?;
    let row = lines.find_map(|line| line.trim_start().strip_prefix(label)?.strip_prefix(':'))?;
    row.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// The current sum of the rows `labels` for each CPU. None for a CPU that has no such row.
pub(super) fn now(file: &str, labels: &[&str], cpus: &[usize]) -> Vec<Option<u64>> {
    let text = Root::live().text(file).unwrap_or_default();
    cpus.iter().map(|cpu| labels.iter().map(|label| row_count(&text, label, *cpu)).sum()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_found_by_row_and_cpu() {
        let table = "           CPU0       CPU2\n  0:         12          0   IO-APIC   2-edge      timer\n\
                     LOC:     345678      90123   Local timer interrupts\nRES:       77   88   Rescheduling interrupts\n\
                     ERR:          0\n";
        assert_eq!(row_count(table, "LOC", 0), Some(345_678));
        assert_eq!(row_count(table, "LOC", 2), Some(90_123));
        assert_eq!(row_count(table, "RES", 2), Some(88));
        assert_eq!(row_count(table, "LOC", 1), None);
        assert_eq!(row_count(table, "CAL", 0), None);
        assert_eq!(row_count(table, "ERR", 2), None);
        assert_eq!(row_count("CPU0 CPU1\n NET_RX:  5  6\n", "NET_RX", 1), Some(6));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in ".{0,200}", cpu in 0_usize..300) {
            let _ = row_count(&text, "LOC", cpu);
            let _ = row_count(&format!("CPU0 CPU1\nLOC: {text}"), "LOC", cpu);
        }
    }
}
