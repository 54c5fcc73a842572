//! Limits on the size of a journal and its records.

/// The longest journal, in bytes.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// The longest record, in bytes with its newline: a plan of about 3,000 steps.
pub(crate) const MAX_RECORD_BYTES: usize = 1 << 20;

/// The longest line that evenkeel reads.
/// The limit exceeds that of a new record,
/// because a record of an older program may get a number, which makes it longer.
pub(crate) const MAX_LINE_BYTES: u64 = (1 << 20) + 64;
