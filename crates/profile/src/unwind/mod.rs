//! Unwinds stacks of code without frame pointers, from the registers and the top of the stack in a sample.
//!
//! Compilers write tables for exceptions (`.eh_frame`, `.debug_frame`). For each address, the tables show where the caller's registers are.
//! `gimli` reads a row when an address first occurs.
//! The row is cached by file in a compact form for all processes, so changes of mappings cost nothing.
//! `framehop` does much of this, but is not used. On x86-64 it does not unwind signal frames.
//! If a table is unreadable, `framehop` silently guesses by the frame pointer. An expression of a hostile file may make it loop forever.
//!
//! The kernel unwinds its own part of a stack when it takes the sample.

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

/// The maximum number of frames of a stack, because endless recursion has no limit.
pub const FRAMES_MAX: usize = 1024;

/// The user state of a thread in a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampledStack<'a> {
    /// The recorded machine.
    pub machine: &'a Machine,
    /// The process of the sample.
    pub pid: u32,
    /// The registers as words, in the order of the bits of `which`.
    pub registers: &'a [u8],
    /// The mask of registers (`PERF_REG_X86_*`, `PERF_REG_ARM64_*`).
    pub which: u64,
    /// The copied top of the user stack, from the stack pointer on.
    pub stack: &'a [u8],
}

/// How far a stack could be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The unwinder reached the outermost frame.
    Outermost,
    /// The stack continues, but could not be followed.
    CutOff,
}

/// Unwinds stacks.
pub trait Unwind {
    /// Appends the addresses of a stack to `into`, innermost first: the instruction pointer, then an address inside each call.
    /// Appends nothing if the stack cannot be unwound.
    fn unwind(&mut self, sampled: &SampledStack<'_>, maps: &Maps, modules: &Modules, into: &mut Vec<u64>) -> End;
}

/// Unwinds nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoUnwind;

impl Unwind for NoUnwind {
    fn unwind(&mut self, _: &SampledStack<'_>, _: &Maps, _: &Modules, _: &mut Vec<u64>) -> End {
        End::CutOff
    }
}
