//! Limits on the size of a journal and its records.

/// The longest journal, in bytes.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// The longest record, in bytes with its newline: a plan of about 3,000 steps.
pub(crate) const MAX_RECORD_BYTES: usize = 1 << 20;

/// The longest line that is read. It is longer than a new record, because a record of an older program may get a
/// number.
pub(crate) const MAX_LINE_BYTES: u64 = (1 << 20) + 64;
