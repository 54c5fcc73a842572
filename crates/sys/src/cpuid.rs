//! What an x86 processor reports about itself. The call needs `unsafe` with the oldest supported Rust, so the call is in this crate.

use core::arch::x86_64::{__cpuid, CpuidResult};

/// The registers that the instruction fills for `leaf`. A leaf above the highest of its range has invalid data.
/// In the first leaf of a range, `eax` is the number of the highest leaf of that range.
pub fn cpuid(leaf: u32) -> CpuidResult {
    #[allow(unused_unsafe, reason = "older compilers need the block")]
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe {
        __cpuid(leaf)
    }
}
