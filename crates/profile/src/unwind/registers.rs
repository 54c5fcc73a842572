//! `Registers`: the known register values of a frame, by DWARF's register numbers.

use super::SampledStack;

/// The number of registers. x86-64 has 0 to 15 and the return address. aarch64 has 0 to 30 and the stack pointer.
const COUNT: usize = 33;

/// Facts about an architecture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Architecture {
    /// The number of the stack pointer.
    pub(super) stack_pointer: u16,
    /// The number of the frame pointer.
    pub(super) frame_pointer: u16,
    /// The register number of the return address in tables.
    pub(super) return_address: u16,
    /// The bit of the program counter in a sample.
    counter_bit: u8,
    /// The used bits of a sample's register mask, each with the DWARF number of its register.
    numbers: &'static [(u8, u16)],
    /// The mask of the bits of a code address. On aarch64, the higher bits contain the signature of a return address.
    address_mask: u64,
}

/// `PERF_REG_X86_*`.
const X86_64: Architecture = Architecture {
    stack_pointer: 7,
    frame_pointer: 6,
    return_address: 16,
    counter_bit: 8,
    numbers: &[
        (0, 0),
        (3, 1),
        (2, 2),
        (1, 3),
        (4, 4),
        (5, 5),
        (6, 6),
        (7, 7),
        (16, 8),
        (17, 9),
        (18, 10),
        (19, 11),
        (20, 12),
        (21, 13),
        (22, 14),
        (23, 15),
    ],
    address_mask: u64::MAX,
};

/// The register of the code segment, and its value in a 32-bit program.
const X86_CODE_SEGMENT: (u8, u64) = (10, 0x23);

/// `PERF_REG_ARM64_*`: the first 32 registers have the same numbers as in DWARF.
const AARCH64: Architecture = Architecture {
    stack_pointer: 31,
    frame_pointer: 29,
    return_address: 30,
    counter_bit: 32,
    numbers: &[
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 5),
        (6, 6),
        (7, 7),
        (8, 8),
        (9, 9),
        (10, 10),
        (11, 11),
        (12, 12),
        (13, 13),
        (14, 14),
        (15, 15),
        (16, 16),
        (17, 17),
        (18, 18),
        (19, 19),
        (20, 20),
        (21, 21),
        (22, 22),
        (23, 23),
        (24, 24),
        (25, 25),
        (26, 26),
        (27, 27),
        (28, 28),
        (29, 29),
        (30, 30),
        (31, 31),
    ],
    // Addresses have 48 bits unless a program requests more. So the higher bits are not part of an address.
    address_mask: (1 << 48) - 1,
};

/// The registers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    /// The architecture of the registers.
    pub(super) architecture: &'static Architecture,
    /// The program counter.
    pub(super) counter: u64,
    values: [u64; COUNT],
    known: u64,
}

impl Registers {
    /// The registers of a sample. None if the architecture is unknown, or the program counter or the stack pointer is missing.
    pub(super) fn from_sample(sampled: &SampledStack<'_>) -> Option<Registers> {
        let architecture = match sampled.machine.architecture.as_deref().unwrap_or(std::env::consts::ARCH) {
            "x86_64" => &X86_64,
            "aarch64" => &AARCH64,
            _ => return None,
        };
        let word = |bit: u8| {
            let is_there = sampled.which.checked_shr(u32::from(bit)).is_some_and(|rest| rest & 1 == 1);
            let before = sampled.which & 1_u64.checked_shl(u32::from(bit))?.wrapping_sub(1);
            let word = sampled.registers.as_chunks::<8>().0.get(before.count_ones() as usize)?;
            is_there.then(|| u64::from_ne_bytes(*word))
        };
        if *architecture == X86_64 && word(X86_CODE_SEGMENT.0) == Some(X86_CODE_SEGMENT.1) {
            return None;
        }
        let mut registers =
            Registers { architecture, counter: word(architecture.counter_bit)?, values: [0; COUNT], known: 0 };
        for (bit, number) in architecture.numbers {
            if let Some(value) = word(*bit) {
                registers.set(*number, value);
            }
        }
        registers.get(architecture.stack_pointer)?;
        Some(registers)
    }

    /// The value of a register.
    /// If the architecture has a register for the return address, a frame that has not made a call yet still has the return address there.
    pub(super) fn get(&self, number: u16) -> Option<u64> {
        if *self.architecture == X86_64 && number == X86_64.return_address {
            return Some(self.counter);
        }
        let is_known = number < COUNT as u16 && self.known >> number & 1 == 1;
        is_known.then(|| self.values.get(usize::from(number)).copied())?
    }

    /// Sets the value of a register. Registers that are not tracked are ignored.
    pub(super) fn set(&mut self, number: u16, value: u64) {
        if let Some(place) = self.values.get_mut(usize::from(number)) {
            *place = value;
            self.known |= 1 << number;
        }
    }

    /// Marks the value of a register as unknown.
    pub(super) fn forget(&mut self, number: u16) {
        if usize::from(number) < COUNT {
            self.known &= !(1 << number);
        }
    }

    /// The stack pointer.
    pub(super) fn stack_pointer(&self) -> u64 {
        self.get(self.architecture.stack_pointer).unwrap_or(0)
    }

    /// The value of the register into which a call puts the return address. None on architectures without this register.
    pub(super) fn link(&self) -> Option<u64> {
        if *self.architecture == X86_64 { None } else { self.get(self.architecture.return_address) }
    }

    /// The code address of a pointer, without its signature.
    pub(super) fn address_of(&self, pointer: u64) -> u64 {
        pointer & self.architecture.address_mask
    }
}

/// The copied top of a thread's stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory<'a> {
    /// The address of the first byte.
    pub(super) start: u64,
    /// The copied bytes.
    pub(super) bytes: &'a [u8],
}

impl Memory<'_> {
    /// The word at an address.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}
