//! The kinds of records (`PERF_RECORD_*`).

#![expect(missing_docs, reason = "they are the kernel's own names, less the prefix; perf_event_open(2) describes each")]

pub const MMAP: u32 = 1;
pub const LOST: u32 = 2;
pub const COMM: u32 = 3;
pub const EXIT: u32 = 4;
pub const THROTTLE: u32 = 5;
pub const UNTHROTTLE: u32 = 6;
pub const FORK: u32 = 7;
pub const SAMPLE: u32 = 9;
pub const MMAP2: u32 = 10;
pub const LOST_SAMPLES: u32 = 13;
pub const SWITCH: u32 = 14;
pub const SWITCH_CPU_WIDE: u32 = 15;
/// Only programs write the kinds from here on. The kernel never writes them.
pub const FIRST_OF_USER: u32 = 64;
pub const HEADER_ATTR: u32 = 64;
pub const HEADER_TRACING_DATA: u32 = 66;
pub const HEADER_BUILD_ID: u32 = 67;
pub const AUXTRACE: u32 = 71;
pub const EVENT_UPDATE: u32 = 78;
pub const HEADER_FEATURE: u32 = 80;
/// `perf` compressed the content.
pub const COMPRESSED: u32 = 81;
/// Like `COMPRESSED`, with padding.
pub const COMPRESSED2: u32 = 83;
