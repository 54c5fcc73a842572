//! How long a journal and its records may be.

/// The longest journal, in bytes.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 64 << 20;

/// The longest record, in bytes with its newline: a plan of about 3,000 steps.
pub(crate) const MAX_RECORD_BYTES: usize = 1 << 20;

/// The longest line that is read: one of an older program may have got a number.
pub(crate) const MAX_LINE_BYTES: u64 = (1 << 20) + 64;
