//! Memory that the settings of a line reserve: huge pages by file or by kernel argument, and the crash kernel.

use super::line::{Ask, Target};
use crate::facts::Facts;
use crate::reserve;

/// The kernel arguments of one line. A page size in the line applies to the arguments after it.
pub(super) struct Reservations<'a> {
    facts: &'a Facts,
    line: usize,
    usual: Option<u64>,
    stated: Option<u64>,
    bytes: u64,
}

impl<'a> Reservations<'a> {
    pub(super) fn new(facts: &'a Facts) -> Reservations<'a> {
        Reservations { facts, line: 0, usual: None, stated: None, bytes: 0 }
    }

    /// Why this machine must not reserve the memory of a setting, together with the reservations of earlier settings of the line.
    pub(super) fn refusal(&mut self, line: usize, ask: &Ask) -> Option<String> {
        if line != self.line {
            *self = Reservations { line, ..Reservations::new(self.facts) };
        }
        match &ask.target {
            Target::Argument(name) => self.argument(name, &ask.value),
            Target::File(path) => {
                let page = page_of(path)?;
                let known = self.facts.memory.huge_pages.known().into_iter().flatten();
                let mut own = known.filter(|size| size.size_bytes == page);
                let present = own.next().and_then(|size| size.count.known().copied()).unwrap_or(0);
                reserve::too_many_pages(self.facts, ask.value.trim().parse().ok()?, page, present)
            }
            _ => None,
        }
    }

    fn argument(&mut self, name: &str, value: &str) -> Option<String> {
        let more = match name {
            "default_hugepagesz" => {
                self.usual = reserve::argument_bytes(value);
                return None;
            }
            "hugepagesz" => {
                self.stated = reserve::argument_bytes(value);
                return None;
            }
            "hugepages" => {
                let of_facts =
                    || reserve::asked_page_bytes(self.facts).or_else(|| reserve::usual_page_bytes(self.facts));
                let page = self.stated.or(self.usual).or_else(of_facts)?;
                pages(value)?.saturating_mul(page)
            }
            "crashkernel" => crash_bytes(value)?,
            _ => return None,
        };
        self.bytes = self.bytes.saturating_add(more);
        reserve::too_many_bytes(self.facts, self.bytes)
    }
}

/// The number of pages in `64`, or in `0:32,1:32` for each node.
fn pages(value: &str) -> Option<u64> {
    let one = |part: &str| part.rsplit(':').next()?.parse::<u64>().ok();
    value.split(',').map(one).try_fold(0_u64, |sum, pages| Some(sum.saturating_add(pages?)))
}

/// The memory of a crash kernel: the largest size in `512M`, `512M@16M`, `1G,high` or `2G-64G:256M,64G-:1G`.
pub(super) fn crash_bytes(value: &str) -> Option<u64> {
    let one = |part: &str| reserve::argument_bytes(part.rsplit(':').next()?.split('@').next()?);
    value.split(',').filter(|part| part.starts_with(|first: char| first.is_ascii_digit())).filter_map(one).max()
}

/// The size of the pages that a file counts. Such a file is `/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`.
fn page_of(path: &str) -> Option<u64> {
    let (_, size) = path.strip_suffix("/nr_hugepages")?.rsplit_once("/hugepages/hugepages-")?;
    size.strip_suffix("kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_the_kernel_reads_them() {
        for (value, expected) in [
            ("20G", Some(20 << 30)),
            ("512M@16M", Some(512 << 20)),
            ("1G,high", Some(1 << 30)),
            ("2G-64G:256M,64G-:1G", Some(1 << 30)),
            ("auto", None),
            ("", None),
        ] {
            assert_eq!(crash_bytes(value), expected, "{value}");
        }
        assert_eq!([pages("64"), pages("0:32,1:32"), pages("0:x"), pages("")], [Some(64), Some(64), None, None]);
        assert_eq!(page_of("/sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages"), Some(1 << 30));
        assert_eq!(page_of("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages"), None);
    }
}
