//! `Record`: one record of perf_event_open(2), in the format of the kernel's ring and of `perf.data` files. Parsing copies nothing.

use super::bytes::{Cursor, Malformed};
use super::layout::{Layout, sample};

pub use super::kind;

/// The length of the header of each record: kind, `misc` and length.
pub const HEAD_BYTES: usize = 8;

/// `misc`: the CPU was in user mode (`PERF_RECORD_MISC_USER`).
pub const MISC_USER: u16 = 2;
/// `misc`: the three lowest bits are the mode of the CPU.
pub const MISC_MODE: u16 = 7;
/// `misc`: the CPU was in the kernel (`PERF_RECORD_MISC_KERNEL`).
pub const MISC_KERNEL: u16 = 1;
/// `misc`: the CPU ran a guest's kernel (`PERF_RECORD_MISC_GUEST_KERNEL`). The next number means a guest's user mode.
pub const MISC_GUEST_KERNEL: u16 = 4;
/// `misc`: exec changed the name.
pub const MISC_COMM_EXEC: u16 = 1 << 13;
/// `misc`: a switch-out.
pub const MISC_SWITCH_OUT: u16 = 1 << 13;
/// `misc`: the thread was runnable.
pub const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// `misc`: the record has a build ID.
pub const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// The thread and time of a record. Fields that the event does not record are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Id {
    /// The process; 0 for idle.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The time on the event's clock.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// The event's ID.
    pub id: u64,
}

/// A sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The thread and time of the sample.
    pub id: Id,
    /// Whether the CPU was in user mode.
    pub is_user: bool,
    /// Whether the CPU ran a guest, whose code is unknown here.
    pub is_guest: bool,
    /// The instruction pointer.
    pub ip: u64,
    /// The address to which the event refers, such as the address of a page fault.
    pub address: u64,
    /// The sample's weight in the event's unit.
    pub period: u64,
    /// The call chain, innermost first, as 8-byte words, including the kernel's markers (`PERF_CONTEXT_*`).
    pub chain: &'a [u8],
    /// A tracepoint's data.
    pub raw: &'a [u8],
    /// The user's registers, in the order of the bits of [`Layout::user_registers`]. Empty if the sample has none.
    pub registers: &'a [u8],
    /// The top of the user's stack, from the stack pointer on.
    pub stack: &'a [u8],
}

/// A new mapping, of a file or of anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped<'a> {
    /// The process of the mapping. `u32::MAX` means the kernel.
    pub pid: u32,
    /// The thread that mapped it.
    pub tid: u32,
    /// The first address.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The offset in the file at which the mapping begins.
    pub file_offset: u64,
    /// The file's build ID, if recorded.
    pub build_id: Option<&'a [u8]>,
    /// The file or pseudo-file (`[vdso]`, `//anon`).
    pub path: &'a [u8],
    /// Whether the mapping belongs to the kernel.
    pub is_kernel: bool,
}

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A file was mapped.
    Mapped(Mapped<'a>),
    /// A thread has a new name.
    Named {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The new name.
        name: &'a [u8],
        /// Whether the process called exec, which removes all mappings.
        is_exec: bool,
    },
    /// A new thread.
    Forked {
        /// The process of the new thread.
        pid: u32,
        /// The process of the thread that created the new thread.
        parent_pid: u32,
        /// The new thread.
        tid: u32,
        /// The thread that created the new thread.
        parent_tid: u32,
    },
    /// A thread has ended.
    Ended {
        /// The process of the thread.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// A switch-in or switch-out of the thread of [`Record::id`].
    Switched {
        /// Whether the thread lost the CPU. If false, the thread got the CPU.
        is_out: bool,
        /// Whether the thread was still runnable when it lost the CPU.
        is_preempted: bool,
        /// The process and thread that ran before or that runs next. None unless whole CPUs are recorded.
        other: Option<(u32, u32)>,
    },
    /// The number of records that were not read in time.
    Lost(u64),
    /// The number of samples that the hardware or the kernel lost.
    LostSamples(u64),
    /// The kernel paused sampling, because sampling took too much CPU time, or resumed it.
    Throttled {
        /// Whether the kernel paused sampling. If false, the kernel resumed sampling.
        is_stopped: bool,
    },
    /// Another kind of record.
    Other(u32),
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The thread and time of the record. Zero if not recorded.
    pub id: Id,
    /// The content of the record.
    pub what: What<'a>,
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind of the record (`PERF_RECORD_*`).
    pub kind: u32,
    /// The `misc` flags of the record.
    pub misc: u16,
    /// The length including the header.
    pub length: usize,
}

impl Head {
    /// Parses the header at the start of `bytes`. `offset` is the offset of `bytes` in the file.
    ///
    /// # Errors
    /// If the header is incomplete, or its length is invalid.
    pub fn parse(bytes: &[u8], offset: u64) -> Result<Head, Malformed> {
        let mut at = Cursor::new(bytes, offset);
        let head = Head { kind: at.u32()?, misc: at.u16()?, length: usize::from(at.u16()?) };
        // A record of length zero would cause an endless loop.
        if head.length < HEAD_BYTES {
            return Err(Malformed { what: format!("a record of {} bytes is invalid", head.length), offset });
        }
        Ok(head)
    }
}

/// Parses a whole record. `offset` is the record's offset in the file.
///
/// # Errors
/// If the record is shorter than its fields.
pub fn parse<'a>(bytes: &'a [u8], layout: &Layout, offset: u64) -> Result<Record<'a>, Malformed> {
    let head = Head::parse(bytes, offset)?;
    let whole = bytes.get(..head.length).ok_or_else(|| Malformed {
        what: format!("a record of {} bytes is cut off after {}", head.length, bytes.len()),
        offset,
    })?;
    let mut at = Cursor::new(&whole[HEAD_BYTES..], offset + HEAD_BYTES as u64);
    if head.kind == kind::SAMPLE {
        let sample = sample_of(&mut at, layout, head.misc)?;
        return Ok(Record { id: sample.id, what: What::Sample(sample) });
    }
    // Records that the kernel did not write have no trailing fields.
    let id = if head.kind < kind::FIRST_OF_USER { id_at_end(whole, layout, offset)? } else { Id::default() };
    let what = match head.kind {
        kind::MMAP | kind::MMAP2 if head.misc & MISC_MODE < MISC_GUEST_KERNEL => What::Mapped(mapped(&mut at, head)?),
        kind::COMM => {
            What::Named { pid: at.u32()?, tid: at.u32()?, name: at.text(), is_exec: head.misc & MISC_COMM_EXEC != 0 }
        }
        kind::FORK | kind::EXIT => {
            let (pid, parent_pid, tid, parent_tid) = (at.u32()?, at.u32()?, at.u32()?, at.u32()?);
            if head.kind == kind::FORK {
                What::Forked { pid, parent_pid, tid, parent_tid }
            } else {
                What::Ended { pid, tid }
            }
        }
        kind::SWITCH | kind::SWITCH_CPU_WIDE => What::Switched {
            is_out: head.misc & MISC_SWITCH_OUT != 0,
            is_preempted: head.misc & MISC_SWITCH_OUT_PREEMPT != 0,
            other: if head.kind == kind::SWITCH_CPU_WIDE { Some((at.u32()?, at.u32()?)) } else { None },
        },
        kind::LOST => {
            let _id = at.u64()?;
            What::Lost(at.u64()?)
        }
        kind::LOST_SAMPLES => What::LostSamples(at.u64()?),
        kind::THROTTLE | kind::UNTHROTTLE => What::Throttled { is_stopped: head.kind == kind::THROTTLE },
        other => What::Other(other),
    };
    Ok(Record { id, what })
}

fn mapped<'a>(at: &mut Cursor<'a>, head: Head) -> Result<Mapped<'a>, Malformed> {
    let (pid, tid) = (at.u32()?, at.u32()?);
    let (start, length, file_offset) = (at.u64()?, at.u64()?, at.u64()?);
    let mut build_id = None;
    if head.kind == kind::MMAP2 {
        let device_or_id = at.take(24)?;
        if head.misc & MISC_MMAP_BUILD_ID != 0 {
            // The field consists of the ID's length, three unused bytes, and space for twenty bytes.
            build_id = device_or_id.get(4..4 + usize::from(device_or_id[0]).min(20));
        }
        let _protection_and_flags = at.u64()?;
    }
    let is_kernel = head.misc & MISC_MODE == MISC_KERNEL || pid == u32::MAX;
    Ok(Mapped { pid, tid, start, length, file_offset, build_id, path: at.text(), is_kernel })
}

fn sample_of<'a>(at: &mut Cursor<'a>, layout: &Layout, misc: u16) -> Result<Sample<'a>, Malformed> {
    let (is_user, is_guest) = (misc & MISC_MODE == MISC_USER, misc & MISC_MODE >= MISC_GUEST_KERNEL);
    let mut said = Sample { is_user, is_guest, ..Sample::default() };
    let has = |field| layout.has(field);
    if has(sample::IDENTIFIER) {
        said.id.id = at.u64()?;
    }
    if has(sample::IP) {
        said.ip = at.u64()?;
    }
    if has(sample::TID) {
        (said.id.pid, said.id.tid) = (at.u32()?, at.u32()?);
    }
    if has(sample::TIME) {
        said.id.at_ns = at.u64()?;
    }
    if has(sample::ADDR) {
        said.address = at.u64()?;
    }
    if has(sample::ID) {
        said.id.id = at.u64()?;
    }
    if has(sample::STREAM_ID) {
        at.u64()?;
    }
    if has(sample::CPU) {
        said.id.cpu = at.u32()?;
        at.u32()?;
    }
    if has(sample::PERIOD) {
        said.period = at.u64()?;
    }
    if has(sample::READ) {
        skip_read(at, layout)?;
    }
    if has(sample::CALLCHAIN) {
        let count = at.u64()?;
        said.chain = at.words(count)?;
    }
    if has(sample::RAW) {
        let length = at.u32()? as usize;
        said.raw = at.take(length)?;
    }
    if has(sample::BRANCH_STACK) {
        let count = at.u64()?;
        let index = u64::from(layout.has_branch_index());
        let each = 3 + u64::from(layout.has_branch_counters());
        at.words(count.saturating_mul(each).saturating_add(index))?;
    }
    if has(sample::REGS_USER) {
        let abi = at.u64()?;
        if abi != 0 {
            said.registers = at.words(u64::from(layout.user_registers.count_ones()))?;
        }
    }
    if has(sample::STACK_USER) {
        let size = at.u64()?;
        let room = usize::try_from(size).map_err(|_| at.malformed("a stack of no such size can be"))?;
        let bytes = at.take(room)?;
        if size != 0 {
            let used = usize::try_from(at.u64()?).unwrap_or(0);
            said.stack = &bytes[..used.min(room)];
        }
    }
    Ok(said)
}

/// Skips a counter's value, which evenkeel does not use.
fn skip_read(at: &mut Cursor<'_>, layout: &Layout) -> Result<(), Malformed> {
    const TIME_ENABLED: u64 = 1;
    const TIME_RUNNING: u64 = 2;
    const ID: u64 = 4;
    const GROUP: u64 = 8;
    const LOST: u64 = 16;
    let has = |field: u64| u64::from(layout.read_format & field != 0);
    let times = has(TIME_ENABLED) + has(TIME_RUNNING);
    let words = if layout.read_format & GROUP == 0 {
        1 + times + has(ID) + has(LOST)
    } else {
        let count = at.u64()?;
        count.saturating_mul(1 + has(ID) + has(LOST)).saturating_add(times)
    };
    at.words(words).map(|_| ())
}

/// The trailing fields of records other than samples (`struct sample_id`).
fn id_at_end(whole: &[u8], layout: &Layout, offset: u64) -> Result<Id, Malformed> {
    const FIELDS: [u64; 6] =
        [sample::TID, sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];
    if !layout.is_sample_id_all() {
        return Ok(Id::default());
    }
    let length = FIELDS.iter().filter(|field| layout.has(**field)).count() * 8;
    let begin = whole.len().checked_sub(length).filter(|begin| *begin >= HEAD_BYTES);
    let begin = begin.ok_or_else(|| Malformed {
        what: format!("a record of {} bytes is too short to name its process", whole.len()),
        offset,
    })?;
    let mut at = Cursor::new(&whole[begin..], offset + begin as u64);
    let mut id = Id::default();
    for field in FIELDS.iter().filter(|field| layout.has(**field)) {
        match *field {
            sample::TID => (id.pid, id.tid) = (at.u32()?, at.u32()?),
            sample::TIME => id.at_ns = at.u64()?,
            sample::CPU => {
                id.cpu = at.u32()?;
                at.u32()?;
            }
            sample::STREAM_ID => {
                at.u64()?;
            }
            _ => id.id = at.u64()?,
        }
    }
    Ok(id)
}
