//! Shortens a journal that has grown too long: it drops the oldest transactions that no longer need a restore.

use std::io::BufRead;

use evenkeel_sys::Errno;

use crate::journal::{Journal, RUN_OUT};
use crate::log::{LeftOut, Log};
use crate::outside::Outside;
use crate::record::{Event, Line, decode, encode, renumbered};
use crate::scan::KEPT_BYTES;
use crate::sizes::{MAX_JOURNAL_BYTES, MAX_RECORD_BYTES};
use crate::state_error::StateError;

/// The size limits of a journal, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum size: about 100,000 changes.
    pub(crate) journal: u64,
    /// A journal of at least this size is shortened before the next record is added.
    pub(crate) long: u64,
    /// How many bytes of closed transactions remain after shortening; `history` lists them.
    pub(crate) kept: u64,
    /// The minimum number of droppable bytes that makes a rewrite of the journal worthwhile.
    pub(crate) worth: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        let long = MAX_JOURNAL_BYTES - MAX_RECORD_BYTES as u64;
        Limits { journal: MAX_JOURNAL_BYTES, long, kept: KEPT_BYTES, worth: 4 << 20 }
    }
}

impl Limits {
    /// Whether a rewrite would drop enough bytes.
    /// A journal that lost records stays unchanged, because it is the evidence of the loss.
    pub(crate) fn are_worth_it(&self, log: &Log) -> bool {
        log.losses().is_empty() && (log.what_is_left_out().is_unwritten || log.spare_bytes(self.kept) > self.worth)
    }
}

/// Rewrites the journal with the transactions that stay in `log`.
/// The records get new numbers that continue from the last number.
pub(crate) fn compact(
    journal: &mut Journal,
    out: &mut dyn Outside,
    log: &mut Log,
    kept_bytes: u64,
    at_ns: u64,
) -> Result<(), StateError> {
    log.leave_out_closed(kept_bytes);
    let Some(mut lines) = journal.reader()? else { return Ok(()) };
    let LeftOut { transactions, newest, .. } = log.what_is_left_out();
    let next = |seq: u64| seq.checked_add(1).ok_or_else(|| journal.unwritable(RUN_OUT.to_owned()));
    let mut seq = next(journal.last())?;
    let mut draft = journal.draft()?;
    let head = encode(seq, at_ns, &Event::Compacted { txn: newest, transactions });
    draft.add(out, &head.map_err(|error| journal.unwritable(error.to_string()))?)?;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line);
        if read.map_err(|error| StateError::io("read", &journal.path, Errno::from(&error)))? == 0 {
            break;
        }
        line.pop();
        let stays = match decode(&line) {
            Ok(Line::Known(record)) => log.transaction(record.event.txn()).is_some(),
            // An older program cannot interpret this record, which a newer program wrote.
            Ok(Line::Unknown { .. }) => true,
            Err(_) => return Err(journal.unwritable("it changed during the read".to_owned())),
        };
        if stays && let Some(line) = renumbered(&line, next(seq)?) {
            seq += 1;
            draft.add(out, &line)?;
        }
    }
    journal.replace(out, draft)?;
    journal.set_last(seq);
    log.left_out_is_written();
    Ok(())
}
