//! What an x86 processor says of itself. The call became safe in a Rust later than the oldest that is promised, so it is made here.

use core::arch::x86_64::{__cpuid, CpuidResult};

/// The registers that the instruction fills for `leaf`. A leaf above the highest of its range has invalid data: the first leaf of a
/// range has the number of its highest in `eax`.
pub fn cpuid(leaf: u32) -> CpuidResult {
    #[allow(unused_unsafe, reason = "older compilers need the block")]
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe {
        __cpuid(leaf)
    }
}
