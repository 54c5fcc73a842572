//! How much memory a machine may reserve for huge pages and for a crash kernel.

use crate::facts::Facts;
use crate::shapes::size;

/// The maximum memory that a machine may reserve, which is three quarters, and the machine's total memory.
/// The remaining quarter must hold everything else.
fn most_bytes(facts: &Facts) -> Option<(u64, u64)> {
    let total = *facts.memory.total_bytes.known()?;
    Some((total / 4 * 3, total))
}

/// Why this machine must not reserve this number of pages of a size. `None` if it may, or if it already has this number.
pub(crate) fn too_many_pages(facts: &Facts, wanted: u64, page: u64, present: u64) -> Option<String> {
    let (most, total) = most_bytes(facts)?;
    let most = most / page.max(1);
    (wanted > most && wanted > present).then(|| {
        format!(
            "{wanted} pages of {} are {}, and this machine has {}: you may reserve at most three quarters of \
                that, {most} pages",
            size(page),
            size(wanted.saturating_mul(page)),
            size(total)
        )
    })
}

/// Why this machine must not reserve this much memory from the boot on.
pub(crate) fn too_many_bytes(facts: &Facts, wanted: u64) -> Option<String> {
    let (most, total) = most_bytes(facts)?;
    (wanted > most).then(|| {
        format!(
            "it reserves {}, and this machine has {}: with less than a quarter left, it may not start",
            size(wanted),
            size(total)
        )
    })
}

/// `2M` or `1G`, as the kernel's `memparse` reads it.
pub(crate) fn argument_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The size of huge pages that the command line requests, if the machine has this size.
pub(crate) fn asked_page_bytes(facts: &Facts) -> Option<u64> {
    let asked = facts.kernel.argument("default_hugepagesz").and_then(argument_bytes)?;
    facts.memory.huge_pages.known()?.iter().any(|size| size.size_bytes == asked).then_some(asked)
}

/// The usual size of huge pages: 2 MiB, or the machine's smallest size.
pub(crate) fn usual_page_bytes(facts: &Facts) -> Option<u64> {
    let sizes = || facts.memory.huge_pages.known().into_iter().flatten().map(|size| size.size_bytes);
    sizes().find(|size| *size == 2 << 20).or_else(|| sizes().min())
}
