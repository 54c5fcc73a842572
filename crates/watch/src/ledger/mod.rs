//! The ledger of late ticks: each late or missed tick of a server that counts its own ticks gets exactly one cause, with the evidence.
//!
//! The evidence is what the kernel and the server counted between two samples. A cause is named only if its own time is long enough for all
//! late ticks and every other cause is too short for a single one. Everything else is unknown: a wrong cause sends people the wrong way.

mod cause;
mod evidence;

use crate::sample::{Cause, LateTicks, LedgerSample, Sample};
pub use cause::{Evidence, LateCount, decide};

/// The most servers with counts.
const SERVERS_MAX: usize = 256;

/// The ledger at `after`: what was late since `before`, and the counts so far.
pub fn entries(before: &Sample, after: &Sample) -> LedgerSample {
    let mut ledger = LedgerSample { new: Vec::new(), totals: before.ledger.totals.clone() };
    for server in &after.servers {
        let Some(evidence) = evidence::of_server(before, after, server) else { continue };
        let (cause, words) = decide(&evidence);
        let count = &evidence.ticks;
        let total = count.late.saturating_add(count.missed);
        let key = LedgerSample::key(&server.name, server.pid);
        if ledger.totals.len() < SERVERS_MAX || ledger.totals.contains_key(&key) {
            let of_cause: &mut u64 = ledger.totals.entry(key).or_default().entry(cause).or_default();
            *of_cause = of_cause.saturating_add(total);
        }
        ledger.new.push(LateTicks {
            server: server.name.clone(),
            pid: server.pid,
            late: count.late,
            missed: count.missed,
            cause,
            evidence: words,
        });
    }
    ledger
}

/// The counts of a server by cause.
pub fn totals_of<'a>(
    sample: &'a Sample,
    server: &str,
    pid: Option<u32>,
) -> impl Iterator<Item = (Cause, u64)> + use<'a> {
    sample
        .ledger
        .totals
        .get(&LedgerSample::key(server, pid))
        .into_iter()
        .flatten()
        .map(|(cause, count)| (*cause, *count))
}
