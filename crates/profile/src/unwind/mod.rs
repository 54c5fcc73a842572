//! Following stacks of code without frame pointers, by the registers and the top of the stack that a sample carries.
//!
//! The tables that compilers write for exceptions (`.eh_frame`, `.debug_frame`) say for each address where the caller's registers are. They are
//! read by `gimli`, one row where an address is first seen; the row, made small, is kept by file and serves every process that has it mapped.
//! So a process's maps may change as they like, and nothing is built anew. `framehop` does much of this, and is not used: on x86-64 it does not
//! get through a signal's frame, it guesses by the frame pointer where a table can't be read and does not say so, and an expression in a hostile
//! file that jumps back never ends.
//!
//! The kernel's own part of a stack needs none of it: the kernel follows that itself, by its own tables, when it takes the sample.

mod elf;
mod find;
mod registers;
mod rule;
mod table;
#[cfg(test)]
mod tests;
mod walk;

pub use walk::Unwinder;

use crate::maps::Maps;
use crate::recording::Machine;
use crate::stack::Modules;

/// A stack with more frames is cut off: recursion without an end has as many as it is given.
pub const FRAMES_MAX: usize = 1024;

/// What a sample has of a thread in user mode.
#[derive(Clone, Copy, Debug)]
pub struct SampledStack<'a> {
    /// Where it was recorded.
    pub machine: &'a Machine,
    /// Its process.
    pub pid: u32,
    /// Its registers, as words, in the order of the bits of `which`.
    pub registers: &'a [u8],
    /// Which registers (`PERF_REG_X86_*`, `PERF_REG_ARM64_*`).
    pub which: u64,
    /// Its stack from the stack pointer on, as much as was copied.
    pub stack: &'a [u8],
}

/// How far a stack could be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Up to its outermost frame.
    Outermost,
    /// It goes on, and nobody knows where.
    CutOff,
}

/// Follows stacks.
pub trait Unwind {
    /// Puts the addresses that it was at into `into`, from the innermost on: the first is where it was, each other one lies in the call that
    /// it has not come back from. None if it can't say.
    fn unwind(&mut self, sampled: &SampledStack<'_>, maps: &Maps, modules: &Modules, into: &mut Vec<u64>) -> End;
}

/// Follows none.
#[derive(Clone, Copy, Debug)]
pub struct NoUnwind;

impl Unwind for NoUnwind {
    fn unwind(&mut self, _: &SampledStack<'_>, _: &Maps, _: &Modules, _: &mut Vec<u64>) -> End {
        End::CutOff
    }
}
