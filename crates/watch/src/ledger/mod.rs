//! The ledger of late ticks: each late or missed tick of a watched server gets exactly one cause, with the evidence.
//!
//! The evidence is what the kernel and the server counted between two samples. For ticks observed from outside, it is also what their own
//! thread did when they were due. A cause is named only if its own time is long enough for all late ticks and every other cause is too
//! short for a single one. The sum of many short waits is no evidence for a late tick. Otherwise the cause is unknown, because a wrong cause
//! misleads people.

mod cause;
mod evidence;
mod judged;
mod outside;
mod usual;

use std::collections::BTreeSet;

use crate::sample::{Cause, LateTicks, LedgerSample, Sample, ServerSample};
pub use cause::{Evidence, LateCount, decide};
use judged::Judged;
pub use usual::{Usual, UsualTimes};

/// The maximum number of servers with counts. It is larger than the number of servers that are watched at a time.
const SERVERS_MAX: usize = 256;

/// The ledger at `after`: the late ticks since `before`, and the counts so far. `usual` has the earlier intervals.
pub fn entries(before: &Sample, after: &Sample, usual: &Usual) -> LedgerSample {
    let mut ledger = LedgerSample { new: Vec::new(), totals: before.ledger.totals.clone() };
    for server in &after.servers {
        let judged = match (evidence::of_server((before, after), server, usual), &server.outside) {
            (Some(evidence), _) => vec![by_page(&evidence, server)],
            (None, Some(Ok(_))) => outside::judged((before, after), server, usual),
            (None, _) => continue,
        };
        for one in judged {
            let total = one.late.saturating_add(one.missed);
            let key = LedgerSample::key(&server.name, server.pid);
            if ledger.totals.len() >= SERVERS_MAX && !ledger.totals.contains_key(&key) {
                forget_ended(&mut ledger, after);
            }
            if ledger.totals.len() < SERVERS_MAX || ledger.totals.contains_key(&key) {
                let of_cause: &mut u64 = ledger.totals.entry(key).or_default().entry(one.cause).or_default();
                *of_cause = of_cause.saturating_add(total);
            }
            ledger.new.push(LateTicks {
                server: server.name.clone(),
                pid: server.pid,
                late: one.late,
                missed: one.missed,
                cause: one.cause,
                evidence: one.words,
                due_realtime_ns: one.due_ns.map(|due_ns| realtime_ns(after, due_ns)),
            });
        }
    }
    ledger
}

/// Drops the counts of servers that ended. A host that starts a process for each match has a new server every few minutes.
/// The counts of ended servers would fill the table, and late ticks of new servers would not be counted.
fn forget_ended(ledger: &mut LedgerSample, after: &Sample) {
    let there: BTreeSet<String> =
        after.servers.iter().map(|server| LedgerSample::key(&server.name, server.pid)).collect();
    ledger.totals.retain(|key, _| there.contains(key));
}

fn by_page(evidence: &Evidence, server: &ServerSample) -> Judged {
    let (cause, mut words) = decide(evidence);
    let page = server.telemetry.as_ref().and_then(|page| page.as_ref().ok());
    if let Some(whose) = page.filter(|_| cause == Cause::Lock).and_then(evidence::lock_words) {
        words = format!("{words}, {whose}");
    }
    Judged { late: evidence.ticks.late, missed: evidence.ticks.missed, cause, words, due_ns: None }
}

/// A moment of the monotonic clock as time of day.
fn realtime_ns(sample: &Sample, at_ns: u64) -> u64 {
    sample.at.realtime_ns.saturating_sub(sample.at.monotonic_ns.saturating_sub(at_ns))
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
