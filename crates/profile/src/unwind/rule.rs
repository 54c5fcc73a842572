//! `Rule`: computes the caller's registers from the registers of a frame, by one row of an unwind table.

use gimli::{EndianSlice, EvaluationResult, Expression, LittleEndian, Location, Value};

use super::registers::{Memory, Registers};

/// The maximum number of steps to evaluate an expression, because a hostile expression could loop forever.
const STEPS_MAX: u32 = 256;

/// An expression: its offset in the section, and its length.
pub(super) type Place = (usize, usize);

/// How to unwind a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rule {
    /// The stack pointer before the call (the canonical frame address).
    pub(super) base: Base,
    /// The place of each saved register.
    pub(super) registers: Vec<(u16, Held)>,
    /// Whether this is the outermost frame, which has no return address.
    pub(super) is_outermost: bool,
    /// Whether a signal interrupted the caller. If so, the caller's address is not a return address.
    pub(super) is_signal: bool,
}

/// The rule for the stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Base {
    /// A register plus an offset.
    Register(u16, i64),
    /// The value of an expression.
    Expression(Place),
}

/// The place of a caller's register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Held {
    /// The value is unknown.
    Nowhere,
    /// In memory, at this offset from the base.
    At(i64),
    /// The base plus an offset.
    Base(i64),
    /// In another register.
    In(u16),
    /// In memory, at the value of an expression.
    AtExpression(Place),
    /// The value of an expression.
    Expression(Place),
    /// This value.
    Constant(u64),
}

/// The result of unwinding a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The result is the caller, after its call.
    Called,
    /// The result is a frame that was interrupted by a signal.
    Interrupted,
    /// The frame was the outermost frame.
    Outermost,
    /// The caller is unknown.
    Lost,
}

impl Rule {
    /// Replaces the registers of a frame with the registers of its caller, if it has a caller. The expressions are in `section`.
    pub(super) fn leave(&self, registers: &mut Registers, memory: Memory<'_>, section: &[u8]) -> Left {
        if self.is_outermost {
            return Left::Outermost;
        }
        let Some(left) = self.left(registers, memory, section) else { return Left::Lost };
        if left.counter == 0 {
            return Left::Outermost;
        }
        *registers = left;
        if self.is_signal { Left::Interrupted } else { Left::Called }
    }

    fn left(&self, registers: &Registers, memory: Memory<'_>, section: &[u8]) -> Option<Registers> {
        let evaluate = |place, first| evaluated(section, place, first, registers, memory);
        let base = match self.base {
            Base::Register(number, offset) => registers.get(number)?.checked_add_signed(offset)?,
            Base::Expression(place) => evaluate(place, None)?,
        };
        let architecture = registers.architecture;
        let mut left = *registers;
        left.set(architecture.stack_pointer, base);
        // If the row has no rule for the return address, the function has made no call yet.
        // If the architecture has a register for the return address, the address is still in that register.
        let mut returns_to = registers.link();
        for (number, held) in &self.registers {
            let value = match *held {
                Held::Nowhere => None,
                Held::At(offset) => base.checked_add_signed(offset).and_then(|at| memory.word(at)),
                Held::Base(offset) => base.checked_add_signed(offset),
                Held::In(other) => registers.get(other),
                Held::AtExpression(place) => evaluate(place, Some(base)).and_then(|at| memory.word(at)),
                Held::Expression(place) => evaluate(place, Some(base)),
                Held::Constant(value) => Some(value),
            };
            if *number == architecture.return_address {
                returns_to = value;
            }
            match (value, held) {
                (Some(value), _) => left.set(*number, value),
                // Memory below the stack pointer is not copied.
                // A table may still say that a register was saved there, if the function has just restored the register.
                (None, Held::At(offset)) if base.saturating_add_signed(*offset) < memory.start => {}
                (None, _) => left.forget(*number),
            }
        }
        left.counter = registers.address_of(returns_to?);
        Some(left)
    }
}

fn evaluated(
    section: &[u8],
    (offset, length): Place,
    first: Option<u64>,
    registers: &Registers,
    memory: Memory<'_>,
) -> Option<u64> {
    let bytes = section.get(offset..offset.checked_add(length)?)?;
    let encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 4, address_size: 8 };
    let mut evaluation = Expression(EndianSlice::new(bytes, LittleEndian)).evaluation(encoding);
    evaluation.set_max_iterations(STEPS_MAX);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                evaluation.resume_with_register(Value::Generic(registers.get(register.0)?)).ok()?
            }
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                evaluation.resume_with_memory(Value::Generic(memory.word(address)?)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result().last()?.location {
        Location::Address { address } => Some(address),
        Location::Value { value } => value.to_u64(u64::MAX).ok(),
        _ => None,
    }
}
