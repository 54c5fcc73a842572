//! `Table`: the rules of one file, each computed at the first lookup of its address.

use std::collections::HashMap;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, FrameDescriptionEntry, LittleEndian,
    RegisterRule, UnwindContext, UnwindSection,
};

use super::elf::{Image, Section};
use super::rule::{Base, Held, Rule};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The maximum length of a function's description in bytes. Even in the largest programs, a description has only some thousand bytes.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// The maximum number of cached addresses of one file. A recording has fewer addresses in one file.
const REMEMBERED_MAX: usize = 1 << 20;

/// Which section contains the expressions of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    EhFrame,
    DebugFrame,
}

/// What is known of a cached address: the number of its rule and the section, or that there is no rule.
type Known = Option<(u32, Which)>;

/// The rules of a file.
#[derive(Debug)]
pub(super) struct Table {
    image: Image,
    /// The descriptions by function address, for files without an index.
    listed: Vec<(u64, usize)>,
    listed_of: Which,
    context: Box<UnwindContext<usize>>,
    rules: Vec<Rule>,
    numbers: HashMap<Rule, u32>,
    known: HashMap<u64, Known>,
}

impl Table {
    /// The table of a file.
    pub(super) fn new(image: Image) -> Table {
        let bases = bases(&image);
        let has_list = image.eh_frame_hdr.as_ref().is_some_and(|part| list_of(part).is_some());
        let (listed, listed_of) = match (&image.eh_frame, &image.debug_frame) {
            (Some(part), _) if !has_list => (listed(eh_frame(part), &bases), Which::EhFrame),
            (_, Some(part)) => (listed(debug_frame(part), &bases), Which::DebugFrame),
            _ => (Vec::new(), Which::EhFrame),
        };
        Table {
            image,
            listed,
            listed_of,
            context: Box::new(UnwindContext::new()),
            rules: Vec::new(),
            numbers: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// The file.
    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// The rule at an address of the file, and the section of its expressions.
    pub(super) fn rule(&mut self, address: u64) -> Option<(&Rule, &[u8])> {
        let known = match self.known.get(&address) {
            Some(known) => *known,
            None => {
                let found = self.look_up(address);
                let known = found.map(|(rule, which)| (self.number(rule), which));
                if self.known.len() >= REMEMBERED_MAX {
                    self.known.clear();
                }
                self.known.insert(address, known);
                known
            }
        };
        let (number, which) = known?;
        let part = match which {
            Which::EhFrame => self.image.eh_frame.as_ref(),
            Which::DebugFrame => self.image.debug_frame.as_ref(),
        };
        Some((self.rules.get(number as usize)?, &part?.bytes))
    }

    fn number(&mut self, rule: Rule) -> u32 {
        if let Some(number) = self.numbers.get(&rule) {
            return *number;
        }
        let number = self.rules.len() as u32;
        self.rules.push(rule.clone());
        self.numbers.insert(rule, number);
        number
    }

    fn look_up(&mut self, address: u64) -> Option<(Rule, Which)> {
        let bases = bases(&self.image);
        let context = &mut *self.context;
        if let (Some(part), Some(list)) = (&self.image.eh_frame, &self.image.eh_frame_hdr)
            && let Some(offset) = offset_in_list(list, part, address)
        {
            let section = eh_frame(part);
            let entry = section.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset);
            if let Some(rule) = entry.ok().and_then(|entry| row(&section, &entry, &bases, context, address)) {
                return Some((rule, Which::EhFrame));
            }
        }
        let before = self.listed.partition_point(|(start, _)| *start <= address);
        let (_, offset) = *self.listed.get(before.checked_sub(1)?)?;
        let rule = match self.listed_of {
            Which::EhFrame => {
                let section = eh_frame(self.image.eh_frame.as_ref()?);
                let entry = section.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset).ok()?;
                row(&section, &entry, &bases, context, address)
            }
            Which::DebugFrame => {
                let section = debug_frame(self.image.debug_frame.as_ref()?);
                let entry = section.fde_from_offset(&bases, offset.into(), DebugFrame::cie_from_offset).ok()?;
                row(&section, &entry, &bases, context, address)
            }
        };
        rule.map(|rule| (rule, self.listed_of))
    }
}

fn bases(image: &Image) -> BaseAddresses {
    let address = |part: &Option<Section>| part.as_ref().map_or(0, |part| part.address);
    BaseAddresses::default()
        .set_eh_frame(address(&image.eh_frame))
        .set_eh_frame_hdr(address(&image.eh_frame_hdr))
        .set_text(image.text)
        .set_got(image.got)
}

fn eh_frame(part: &Section) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(&part.bytes, LittleEndian);
    section.set_address_size(8);
    section
}

fn debug_frame(part: &Section) -> DebugFrame<Slice<'_>> {
    let mut section = DebugFrame::new(&part.bytes, LittleEndian);
    section.set_address_size(8);
    section
}

/// The index in `.eh_frame_hdr`, sorted by function.
/// An entry has the first address of a function and the place of its description, both relative to the section's address.
/// All linkers write the same form. For another form, the index is built from the descriptions.
fn list_of(part: &Section) -> Option<&[[u8; 8]]> {
    const FORM: [u8; 4] = [1, 0x1b, 3, 0x3b];
    let (head, list) = part.bytes.split_at_checked(12)?;
    let count = u32::from_le_bytes(head.get(8..)?.try_into().ok()?) as usize;
    head.starts_with(&FORM).then_some(list.as_chunks().0)?.get(..count)
}

/// The offset of a function's description in `.eh_frame`. None if the function has no description.
fn offset_in_list(list: &Section, eh_frame: &Section, address: u64) -> Option<usize> {
    let half = |[a, b, c, d]: [u8; 4]| list.address.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into());
    let entries = list_of(list)?;
    let before = entries.partition_point(|[a, b, c, d, ..]| half([*a, *b, *c, *d]) <= address);
    let [.., a, b, c, d] = *entries.get(before.checked_sub(1)?)?;
    usize::try_from(half([a, b, c, d]).checked_sub(eh_frame.address)?).ok()
}

/// The descriptions sorted by function, up to the first damaged one.
/// The length of each description gives the place of the next one.
fn listed<'a, S: UnwindSection<Slice<'a>>>(section: S, bases: &BaseAddresses) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(entry) = partial.parse(S::cie_from_offset)
        {
            found.push((entry.initial_address(), entry.offset()));
        }
    }
    found.sort_unstable();
    found
}

/// The row for an address in its function's description.
fn row<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    entry: &FrameDescriptionEntry<Slice<'a>>,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    address: u64,
) -> Option<Rule> {
    if entry.entry_len() > ENTRY_BYTES_MAX || entry.cie().entry_len() > ENTRY_BYTES_MAX {
        return None;
    }
    let returns_by = entry.cie().return_address_register();
    let row = entry.unwind_info_for_address(section, bases, context, address).ok()?;
    let base = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Base::Register(register.0, *offset),
        CfaRule::Expression(expression) => Base::Expression((expression.offset, expression.length)),
    };
    let mut registers = Vec::new();
    let mut is_outermost = false;
    for (register, rule) in row.registers() {
        let held = match rule {
            RegisterRule::SameValue => continue,
            RegisterRule::Offset(offset) => Held::At(*offset),
            RegisterRule::ValOffset(offset) => Held::Base(*offset),
            RegisterRule::Register(other) => Held::In(other.0),
            RegisterRule::Expression(expression) => Held::AtExpression((expression.offset, expression.length)),
            RegisterRule::ValExpression(expression) => Held::Expression((expression.offset, expression.length)),
            RegisterRule::Constant(value) => Held::Constant(*value),
            _ => Held::Nowhere,
        };
        is_outermost |= *register == returns_by && held == Held::Nowhere;
        registers.push((register.0, held));
    }
    Some(Rule { base, registers, is_outermost, is_signal: entry.is_signal_trampoline() })
}
