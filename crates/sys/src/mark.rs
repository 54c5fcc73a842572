//! Markers of a server's actions for external observers (USDT).
//! A marker is an instruction that does nothing, and a note in the program's file with the instruction's address.
//! Without an observer a marker costs a call and that instruction, and touches no memory.
//! With an observer (`evenkeel profile ticks`, bpftrace, perf) the kernel stops the thread at the instruction for some microseconds.
//! Stripping the program keeps the notes.

/// The instruction and its note in the format of SystemTap's `sys/sdt.h`, with two numbers in the first two argument registers.
macro_rules! note {
    ($name:literal, $where:literal, $($registers:tt)*) => {
        // SAFETY: the instruction does nothing. The rest goes to a section of notes that is never loaded.
        // One byte goes to a section that all notes of this kind share.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"?\",\"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                ".8byte 0",
                ".asciz \"evenkeel\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $where, "\""),
                "994: .balign 4",
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $($registers)*,
                options(nomem, nostack, preserves_flags),
            );
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! mark {
    ($name:literal, $first:expr, $second:expr) => {
        note!($name, "8@%rdi 8@%rsi", in("rdi") $first, in("rsi") $second)
    };
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
macro_rules! mark {
    ($name:literal, $first:expr, $second:expr) => {
        note!($name, "8@x0 8@x1", in("x0") $first, in("x1") $second)
    };
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
macro_rules! mark {
    ($name:literal, $first:expr, $second:expr) => {
        let _ = ($first, $second);
    };
}

/// A tick has begun. The arguments are its number, and its due time in nanoseconds of the monotonic clock. The probe is `evenkeel:tick_begin`.
#[inline(never)]
pub fn tick_begin(number: u64, due_ns: u64) {
    mark!("tick_begin", number, due_ns);
}

/// A tick's work is done. The arguments are its number and due time. The probe is `evenkeel:tick_done`.
#[inline(never)]
pub fn tick_done(number: u64, due_ns: u64) {
    mark!("tick_done", number, due_ns);
}

#[cfg(test)]
mod tests {
    /// The program has both notes, and the notes name the registers of the two numbers.
    #[test]
    fn the_program_has_its_marks() {
        super::tick_begin(1, 2);
        super::tick_done(1, 2);
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let has = |text: &[u8]| program.windows(text.len()).any(|window| window == text);
        let place: &[u8] = if cfg!(target_arch = "x86_64") { b"8@%rdi 8@%rsi\0" } else { b"8@x0 8@x1\0" };
        // The test assembles the text at run time, so that the search does not find the test's own text.
        for name in ["begin", "done"] {
            let note = [b"evenkeel\0tick_", name.as_bytes(), b"\0", place].concat();
            assert!(has(&note), "{name}");
        }
    }
}
