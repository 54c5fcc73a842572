//! `Unwind`: from the registers and the top of a stack to the places that it was called from, for code without frame pointers.

use crate::maps::Maps;
use crate::stack::Modules;

/// What a sample has of a thread in user mode.
#[derive(Clone, Copy, Debug)]
pub struct Wound<'a> {
    /// Its process.
    pub pid: u32,
    /// Its registers, as words, in the order of the bits of `which`.
    pub registers: &'a [u8],
    /// Which registers (`PERF_REG_X86_*`, `PERF_REG_ARM64_*`).
    pub which: u64,
    /// Its stack from the stack pointer on, as much as was copied.
    pub stack: &'a [u8],
}

/// Follows stacks.
pub trait Unwind {
    /// The addresses that it was at, from the innermost on: the first is where it was, each other one where it would have returned to.
    /// None if it can't say.
    fn unwind(&mut self, wound: &Wound<'_>, maps: &Maps, modules: &Modules) -> Vec<u64>;
}

/// Follows none.
#[derive(Clone, Copy, Debug)]
pub struct NoUnwind;

impl Unwind for NoUnwind {
    fn unwind(&mut self, _: &Wound<'_>, _: &Maps, _: &Modules) -> Vec<u64> {
        Vec::new()
    }
}
