//! /proc/interrupts and /proc/softirqs: a column of counts for each online CPU.

use super::LINES_MAX;

/// A table of counts by CPU.
#[derive(Clone, Debug)]
pub struct PerCpu<'a> {
    /// The CPU of each column.
    pub cpus: Vec<usize>,
    rows: &'a str,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// A number, or letters such as `LOC` or `NET_RX`.
    pub label: &'a str,
    rest: &'a str,
    columns: usize,
}

/// Parses the heading, which names the CPUs. If the text has another form, its rows have no counts.
pub fn parse_per_cpu(text: &str) -> PerCpu<'_> {
    let (heading, rows) = text.split_once('\n').unwrap_or((text, ""));
    let words = heading.split_ascii_whitespace().take(evenkeel_sys::MAX_CPUS);
    PerCpu { cpus: words.map_while(|word| word.strip_prefix("CPU")?.parse().ok()).collect(), rows }
}

impl<'a> PerCpu<'a> {
    /// The lines below the heading.
    pub fn rows(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let columns = self.cpus.len();
        self.rows.lines().take(LINES_MAX).filter_map(move |line| {
            let (label, rest) = line.split_once(':')?;
            Some(Row { label: label.trim(), rest, columns })
        })
    }

    /// The column of a CPU. `None` if the CPU is offline.
    pub fn column(&self, cpu: usize) -> Option<usize> {
        self.cpus.iter().position(|of| *of == cpu)
    }

    /// The count of a CPU in the row with this label. `None` if the row or the CPU is missing.
    pub fn count(&self, label: &str, cpu: usize) -> Option<u64> {
        let column = self.column(cpu)?;
        self.rows().find(|row| row.label == label)?.counts().nth(column)
    }
}

impl<'a> Row<'a> {
    /// The counts, column by column. A row that belongs to no CPU, such as `ERR`, has a single count.
    pub fn counts(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.rest.split_ascii_whitespace().take(self.columns).map_while(|word| word.parse().ok())
    }

    /// The name of the device, or the kernel's explanation of the letters. Empty if the line has neither.
    ///
    /// Whatever columns a kernel and an interrupt controller print, the name comes last, after two spaces.
    /// The kernel function is `show_interrupts` of `kernel/irq/proc.c`.
    pub fn name(&self) -> &'a str {
        let mut words = self.rest.trim();
        for _ in 0..self.columns {
            let (word, after) = words.split_once(' ').unwrap_or((words, ""));
            if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_digit()) {
                break;
            }
            words = after.trim_start();
        }
        words.rsplit_once("  ").map_or(words, |(_, name)| name).trim()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_is_last_in_every_kernels_format() {
        let text = "            CPU0       CPU3       \n \
              38:          5      52702 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n \
              24:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
             267:        634       2789   xen-pirq-msi-x     eth0-TxRx-0\n\
              71:          9          0   xen-dyn-event     eth0-q0-rx\n\
              72:          9          0  xen-dyn    -event     eth0-q0-tx\n\
              26:          9          0   IR-PCI-MSI 1048577-edge      eth0-TxRx-0\n\
              13:          9          0   ITS-MSI 524289 Edge      ena-mgmnt@pci:0000:00:05.0\n\
              11:          9          0   IO-APIC  11-fasteoi   uhci_hcd:usb1, eth1\n\
              30:          0          0   PCI-MSI 49152-edge    \n \
             LOC:    4970506    6527556   Local timer interrupts\nERR:          0\n  NET_RX:     12         13\nodd\n";
        let table = parse_per_cpu(text);
        assert_eq!((&table.cpus[..], table.column(3), table.column(1)), (&[0, 3][..], Some(1), None));
        let lines = table.rows().map(|row| {
            let counts: Vec<u64> = row.counts().collect();
            format!("{} {counts:?} {:?}\n", row.label, row.name())
        });
        expect![[r#"
            38 [5, 52702] "virtio2-input.0"
            24 [1, 0] "ACPI:Ged"
            267 [634, 2789] "eth0-TxRx-0"
            71 [9, 0] "eth0-q0-rx"
            72 [9, 0] "eth0-q0-tx"
            26 [9, 0] "eth0-TxRx-0"
            13 [9, 0] "ena-mgmnt@pci:0000:00:05.0"
            11 [9, 0] "uhci_hcd:usb1, eth1"
            30 [0, 0] "PCI-MSI 49152-edge"
            LOC [4970506, 6527556] "Local timer interrupts"
            ERR [0] ""
            NET_RX [12, 13] ""
        "#]]
        .assert_eq(&lines.collect::<String>());
        let counts = [("LOC", 3), ("LOC", 1), ("CAL", 0), ("ERR", 3)].map(|(label, cpu)| table.count(label, cpu));
        assert_eq!(counts, [Some(6_527_556), None, None, None]);
        assert_eq!(parse_per_cpu("").rows().count(), 0);
    }

    #[test]
    fn two_hundred_cpus_are_read() {
        let mut text = " ".repeat(11);
        (0..200).for_each(|cpu| text.push_str(&format!("CPU{cpu:<7} ")));
        for irq in 0..600 {
            text.push_str(&format!("\n{irq:>4}: "));
            (0..200).for_each(|cpu| text.push_str(&format!("{:>10} ", irq * 1000 + cpu)));
            text.push_str(&format!(" IR-PCI-MSIX-0000:5e:00.0  {irq}-edge  mlx5_comp{irq}@pci:0000:5e:00.0"));
        }
        let table = parse_per_cpu(&text);
        let last = table.rows().last().unwrap();
        assert_eq!((table.rows().count(), last.label, last.name()), (600, "599", "mlx5_comp599@pci:0000:5e:00.0"));
        assert_eq!((table.column(200), last.counts().nth(199)), (None, Some(599_199)));
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,300}", table in "( CPU[0-9]{1,2}){0,4}\n([A-Z0-9]{1,3}:( [0-9é]{1,20}){0,5}( [a-z]*)?\n){0,4}") {
            for text in [&text, &table] {
                for row in parse_per_cpu(text).rows() {
                    prop_assert!(row.counts().count() <= row.columns && row.rest.contains(row.name()));
                }
            }
        }
    }
}
