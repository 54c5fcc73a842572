//! `Record`: one record of perf_event_open(2), as it lies in the kernel's ring and in a `perf.data` file alike. Nothing is copied out of it.

use super::bytes::{Cursor, Malformed};
use super::layout::{Layout, sample};

pub use super::kind;

/// Bytes of the head that each record begins with: what it is, `misc`, and its length.
pub const HEAD_BYTES: usize = 8;

/// `misc`: the CPU was in user mode (`PERF_RECORD_MISC_USER`).
pub const MISC_USER: u16 = 2;
/// `misc`, its three lowest bits: which mode the CPU was in.
pub const MISC_MODE: u16 = 7;
/// `misc`: the CPU was in the kernel (`PERF_RECORD_MISC_KERNEL`).
pub const MISC_KERNEL: u16 = 1;
/// `misc`: the CPU ran a guest's kernel, or, with one more, a guest's user mode (`PERF_RECORD_MISC_GUEST_KERNEL`).
pub const MISC_GUEST_KERNEL: u16 = 4;
/// `misc`: a new name came with a new program.
pub const MISC_COMM_EXEC: u16 = 1 << 13;
/// `misc`: the thread gave the CPU away.
pub const MISC_SWITCH_OUT: u16 = 1 << 13;
/// `misc`: and could have run on.
pub const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// `misc`: the file is told by its build id.
pub const MISC_MMAP_BUILD_ID: u16 = 1 << 14;

/// Whose a record is, and when: what its event was asked to say of it. What it was not asked is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Id {
    /// The process, as the field calls a group of threads; 0 of the idle one.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When, on the clock of the event.
    pub at_ns: u64,
    /// On which CPU.
    pub cpu: u32,
    /// The event's own number.
    pub id: u64,
}

/// A sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Whose it is, and when.
    pub id: Id,
    /// Whether the CPU was in user mode.
    pub is_user: bool,
    /// Whether it ran a guest, whose code nobody here knows.
    pub is_guest: bool,
    /// Where the CPU was.
    pub ip: u64,
    /// The address that the event is about, such as a page fault's.
    pub address: u64,
    /// How much of what the event counts it stands for.
    pub period: u64,
    /// The call chain, from the innermost on, as words of eight bytes; with the kernel's markers (`PERF_CONTEXT_*`) in it.
    pub chain: &'a [u8],
    /// A tracepoint's own bytes.
    pub raw: &'a [u8],
    /// The user's registers, in the order of the bits of [`Layout::user_registers`]; none if it had none.
    pub registers: &'a [u8],
    /// The top of the user's stack, from the stack pointer on.
    pub stack: &'a [u8],
}

/// A file, or memory of no file, was mapped to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped<'a> {
    /// Into which process; `u32::MAX` is the kernel's own.
    pub pid: u32,
    /// By which of its threads.
    pub tid: u32,
    /// Where it begins.
    pub start: u64,
    /// How long it is.
    pub length: u64,
    /// Where in the file that is.
    pub file_offset: u64,
    /// The file's build id, where it is told.
    pub build_id: Option<&'a [u8]>,
    /// The file, or what stands for one (`[vdso]`, `//anon`).
    pub path: &'a [u8],
    /// Whether it is the kernel's.
    pub is_kernel: bool,
}

/// What a record says.
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
        /// Its name.
        name: &'a [u8],
        /// Whether it runs a new program: all that was mapped is gone.
        is_exec: bool,
    },
    /// A thread was made, by another one.
    Forked {
        /// Its process.
        pid: u32,
        /// The process of the one that made it.
        parent_pid: u32,
        /// The thread.
        tid: u32,
        /// The one that made it.
        parent_tid: u32,
    },
    /// A thread has ended.
    Ended {
        /// Its process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// The thread of [`Record::id`] was given the CPU, or gave it away.
    Switched {
        /// Whether it gave it away.
        is_out: bool,
        /// Whether it could have run on.
        is_preempted: bool,
        /// The process and thread that ran before, or run now; told only to who watches whole CPUs.
        other: Option<(u32, u32)>,
    },
    /// So many records were lost, because nobody read in time.
    Lost(u64),
    /// So many samples were lost by the hardware or the kernel.
    LostSamples(u64),
    /// The kernel stopped sampling, because it took too much of the CPU; or began again.
    Throttled {
        /// Whether it stopped.
        is_stopped: bool,
    },
    /// Another one, of this kind.
    Other(u32),
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Whose it is, and when; all zero where its event was not asked to say.
    pub id: Id,
    /// What it says.
    pub what: What<'a>,
}

/// A record's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it is (`PERF_RECORD_*`).
    pub kind: u32,
    /// More of it.
    pub misc: u16,
    /// How long the whole is, the head included.
    pub length: usize,
}

impl Head {
    /// The head at the beginning of `bytes`, which are at `offset` of the whole.
    ///
    /// # Errors
    /// If a head is not there, or says a length that can't be.
    pub fn parse(bytes: &[u8], offset: u64) -> Result<Head, Malformed> {
        let mut at = Cursor::new(bytes, offset);
        let head = Head { kind: at.u32()?, misc: at.u16()?, length: usize::from(at.u16()?) };
        // One of no length would never end.
        if head.length < HEAD_BYTES {
            return Err(Malformed { what: format!("a record of {} bytes can't be", head.length), offset });
        }
        Ok(head)
    }
}

/// Takes apart a whole record, its head included, that lies at `offset` of the whole.
///
/// # Errors
/// If it is shorter than what it says of itself.
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
    // Records that the kernel did not write have no such thing at their end.
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
            // Its length, three bytes of nothing, and room for twenty.
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

/// A counter's value, which nobody here asks for.
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

/// What stands at the end of each record that is no sample (`struct sample_id`).
fn id_at_end(whole: &[u8], layout: &Layout, offset: u64) -> Result<Id, Malformed> {
    const FIELDS: [u64; 6] =
        [sample::TID, sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];
    if !layout.is_sample_id_all() {
        return Ok(Id::default());
    }
    let length = FIELDS.iter().filter(|field| layout.has(**field)).count() * 8;
    let begin = whole.len().checked_sub(length).filter(|begin| *begin >= HEAD_BYTES);
    let begin = begin.ok_or_else(|| Malformed {
        what: format!("a record of {} bytes has no room to say whose it is", whole.len()),
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
