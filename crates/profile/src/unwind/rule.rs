//! `Rule`: how to get from a frame's registers to its caller's, as one row of a table says it.

use gimli::{EndianSlice, EvaluationResult, Expression, LittleEndian, Location, Value};

use super::registers::{Memory, Registers};

/// An expression with more steps than this is not evaluated further: one that jumps back would never end.
const STEPS_MAX: u32 = 256;

/// An expression: where it is in its section, and how long.
pub(super) type Place = (usize, usize);

/// How to leave a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rule {
    /// Where the stack pointer was before the call (the canonical frame address).
    pub(super) base: Base,
    /// Where each register is that is not as it was.
    pub(super) registers: Vec<(u16, Held)>,
    /// Where to return to is not said: no call led here.
    pub(super) is_outermost: bool,
    /// The caller was interrupted, it did not call: it is where it was, not behind a call.
    pub(super) is_signal: bool,
}

/// What the stack pointer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Base {
    /// A register, and so many bytes.
    Register(u16, i64),
    /// What an expression gives.
    Expression(Place),
}

/// Where a caller's register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Held {
    /// Lost.
    Nowhere,
    /// In memory, so far from the base.
    At(i64),
    /// It is the base, and so many bytes.
    Base(i64),
    /// In another register.
    In(u16),
    /// In memory, where an expression says.
    AtExpression(Place),
    /// What an expression gives.
    Expression(Place),
    /// This.
    Constant(u64),
}

/// How a frame was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// To its caller, behind the call.
    Called,
    /// To one that it had interrupted.
    Interrupted,
    /// Nowhere: it was the outermost.
    Outermost,
    /// To one that nobody knows.
    Lost,
}

impl Rule {
    /// Makes of a frame's registers its caller's, if it has one. `section` is what its expressions are in.
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
        // Where nothing is said of it, it is still in its register, if it has one: the function has called none yet.
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
                // What lies below the stack pointer is not copied: of a register that was just given back, a table may say that it is still there.
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
