//! Parsers of the kernel's files in /proc, and of files in /sys with the same form.
//! Each file has one parser, which every meter, fact and trial uses.
//!
//! Every function accepts any text, and returns nothing if the text has the wrong form.
//! Files that the runtime library also reads have their parsers in `evenkeel-sys`: schedstat, pressure, the limits of control groups.

mod devices;
mod fields;
mod interrupts;
mod mounts;
mod net;
mod process;
mod run_queues;
mod sockets;
mod stat;

pub use devices::{DiskCounts, InterfaceCounts, parse_disks, parse_interfaces};
pub use fields::{Pairs, Switches, amount, count, field, parse_amount, parse_fields, parse_pairs, parse_switches};
pub use interrupts::{PerCpu, Row, parse_per_cpu};
pub use mounts::{Mount, parse_mounts, unescape};
pub use net::{hex_column, under_name};
pub use process::{ProcessStat, parse_process, processes, threads};
pub use run_queues::{RunQueueCounts, parse_run_queues};
pub use sockets::{SocketRow, parse_sockets};
pub use stat::{CpuTicks, Stat, parse_stat};

/// The unit of the times in /proc, in nanoseconds: a hundredth of a second, whatever the kernel's own tick is (`USER_HZ`).
pub const TICK_NS: u64 = 10_000_000;

/// The maximum number of lines to read from a text. /proc/vmstat has under 200 lines, and /proc/stat has one for each CPU.
const LINES_MAX: usize = 8192;
