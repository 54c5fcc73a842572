//! `Layout`: which fields the records of an event have, from `struct perf_event_attr`.
//! The kernel and `perf.data` files use the same struct.

use super::bytes::{Cursor, Malformed};

/// `sample_type`: the fields of a sample, one bit per field (`PERF_SAMPLE_*`).
pub mod sample {
    #![expect(
        missing_docs,
        reason = "they are the kernel's own names, less the prefix; perf_event_open(2) describes each"
    )]

    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// `flags`: `sample_id_all`, so each record has its thread and time.
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
/// `flags`: `freq`, so the period is a rate.
const FLAG_FREQUENCY: u64 = 1 << 10;
/// `flags`: `use_clockid`, so times are of the named clock.
const FLAG_CLOCK: u64 = 1 << 25;
/// The size of the struct in its first version. No version is shorter.
pub const SMALLEST_BYTES: usize = 64;
/// `PERF_SAMPLE_BRANCH_HW_INDEX`.
const BRANCH_HW_INDEX: u64 = 1 << 17;

/// `PERF_SAMPLE_BRANCH_COUNTERS`.
const BRANCH_COUNTERS: u64 = 1 << 19;

/// An event, and the fields of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// `PERF_TYPE_*`: 0 is a hardware event, 1 a software event of the kernel, 2 a tracepoint.
    pub kind: u32,
    /// The number of the event among the events of its kind.
    pub config: u64,
    /// Samples per second, or the number of events between two samples: see [`Layout::is_rate`].
    pub period: u64,
    /// The fields of a sample: see [`sample`].
    pub sample_type: u64,
    /// The format of a counter's value.
    pub read_format: u64,
    /// The flags of the kernel's struct.
    pub flags: u64,
    /// The contents of branch records.
    pub branch_type: u64,
    /// The registers of user mode in each sample, with one bit for each register.
    pub user_registers: u64,
    /// The maximum number of bytes of the user's stack in a sample.
    pub user_stack_bytes: u32,
    /// The clock of the timestamps, as a `clockid_t` of clock_gettime(2).
    pub clock: i32,
}

impl Layout {
    /// Reads a `struct perf_event_attr` of any version. Fields of versions after the fifth are not needed.
    ///
    /// # Errors
    /// If the bytes are shorter than the first version.
    pub fn parse(bytes: &[u8], offset: u64) -> Result<Layout, Malformed> {
        let mut at = Cursor::new(bytes, offset);
        if bytes.len() < SMALLEST_BYTES {
            return Err(at.malformed("an event's attributes are shorter than they ever were"));
        }
        let kind = at.u32()?;
        let _size = at.u32()?;
        let (config, period, sample_type) = (at.u64()?, at.u64()?, at.u64()?);
        let (read_format, flags) = (at.u64()?, at.u64()?);
        let _wakeup_and_breakpoint = (at.u64()?, at.u64()?);
        // A later version of the format added each of these fields.
        let mut later = |bytes: usize| if at.left() >= bytes { at.u64() } else { Ok(0) };
        let (_config2, branch_type, user_registers) = (later(8)?, later(8)?, later(8)?);
        let stack_and_clock = later(8)?;
        Ok(Layout {
            kind,
            config,
            period,
            sample_type,
            read_format,
            flags,
            branch_type,
            user_registers,
            user_stack_bytes: stack_and_clock as u32,
            clock: (stack_and_clock >> 32) as i32,
        })
    }

    /// The length of the attributes, from their first eight bytes. 0 means the length of the first version.
    pub(super) fn written_bytes(first: &[u8]) -> usize {
        let size = first.get(4..8).and_then(|size| size.try_into().ok()).map_or(0, u32::from_ne_bytes);
        usize::try_from(size).unwrap_or(usize::MAX)
    }

    /// Whether a record of this kind has a time.
    pub(super) fn says_when(&self, kind: u32) -> bool {
        self.has(sample::TIME) && (kind == super::kind::SAMPLE || self.is_sample_id_all())
    }

    /// Whether a sample has this field.
    pub fn has(&self, field: u64) -> bool {
        self.sample_type & field != 0
    }

    /// Whether records other than samples have a thread and a time.
    pub fn is_sample_id_all(&self) -> bool {
        self.flags & FLAG_SAMPLE_ID_ALL != 0
    }

    /// The clock of the timestamps, as a `clockid_t` of clock_gettime(2). None means perf's default clock.
    pub fn clock_id(&self) -> Option<i32> {
        (self.flags & FLAG_CLOCK != 0).then_some(self.clock)
    }

    /// Whether `period` is a number of samples per second.
    pub fn is_rate(&self) -> bool {
        self.flags & FLAG_FREQUENCY != 0
    }

    /// The position of the event ID in a sample, in words after the header. None if a sample has no ID.
    pub fn id_word(&self) -> Option<usize> {
        if self.has(sample::IDENTIFIER) {
            return Some(0);
        }
        let before = [sample::IP, sample::TID, sample::TIME, sample::ADDR];
        self.has(sample::ID).then(|| before.iter().filter(|field| self.has(**field)).count())
    }

    /// The position of the event ID in other records, counted in words from the end: 1 is the last word.
    pub fn id_word_from_end(&self) -> Option<usize> {
        if !self.is_sample_id_all() {
            return None;
        }
        if self.has(sample::IDENTIFIER) {
            return Some(1);
        }
        let behind = [sample::STREAM_ID, sample::CPU];
        self.has(sample::ID).then(|| 1 + behind.iter().filter(|field| self.has(**field)).count())
    }

    /// Whether the weights of samples are times, because the event is a clock.
    pub fn is_clock(&self) -> bool {
        self.kind == 1 && self.config <= 1
    }

    /// The weight of a sample without a period field: a number of events, or nanoseconds of a clock.
    pub fn weight(&self) -> u64 {
        match (self.is_rate(), self.is_clock()) {
            (false, _) => self.period.max(1),
            (true, true) => 1_000_000_000 / self.period.max(1),
            (true, false) => 1,
        }
    }

    /// Whether a branch stack begins with an index.
    pub(crate) fn has_branch_index(&self) -> bool {
        self.branch_type & BRANCH_HW_INDEX != 0
    }

    /// Whether a branch stack ends with an additional word for each branch.
    pub(crate) fn has_branch_counters(&self) -> bool {
        self.branch_type & BRANCH_COUNTERS != 0
    }

    /// The event's name, for the kernel's own events and the processor's general counters.
    pub fn name(&self) -> Option<&'static str> {
        const HARDWARE: &[&str] =
            &["cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles"];
        const SOFTWARE: &[&str] = &[
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
            "cgroup-switches",
        ];
        let of = match self.kind {
            0 => HARDWARE,
            1 => SOFTWARE,
            _ => return None,
        };
        of.get(usize::try_from(self.config).ok()?).copied()
    }
}
