//! USDT markers (`.note.stapsdt`): provider, name and place. A stripped program still has them.

/// The name of the section with the markers.
pub(super) const SECTION: &str = ".note.stapsdt";
/// The section whose address at link time is the base of the addresses in the notes.
pub(super) const BASE_SECTION: &str = ".stapsdt.base";
/// The maximum number of markers that are read from a file.
const NOTES_MAX: usize = 1 << 16;
const OWNER: &[u8] = b"stapsdt\0";
const KIND: u32 = 3;

/// A marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The address of the marker. If [`base`](Note::base) has moved, the marker has moved by the same distance.
    pub address: u64,
    /// The address of the base section at link time.
    pub base: u64,
    /// The address of the semaphore that a tracer must raise. Zero if the marker has no semaphore.
    pub semaphore: u64,
    /// The provider of the marker.
    pub provider: String,
    /// The name of the marker.
    pub name: String,
    /// The places of the marker's arguments, for example `8@%rdi`.
    pub arguments: String,
}

/// Parses the markers of a section, up to the first incomplete marker.
pub fn parse_notes(section: &[u8]) -> Vec<Note> {
    let mut found = Vec::new();
    let mut rest = section;
    while found.len() < NOTES_MAX {
        let Some((note, after)) = first(rest) else { break };
        found.extend(note);
        rest = after;
    }
    found
}

/// Parses the first note. Returns the note if it is a marker, and the remaining bytes.
fn first(bytes: &[u8]) -> Option<(Option<Note>, &[u8])> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (owner_bytes, body_bytes, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let body_at = owner_bytes.checked_next_multiple_of(4)?.checked_add(12)?;
    let end = body_at.checked_add(body_bytes)?;
    let owner = bytes.get(12..12_usize.checked_add(owner_bytes)?)?;
    let body = bytes.get(body_at..end)?;
    let after = end.checked_next_multiple_of(4).and_then(|next| bytes.get(next..)).unwrap_or_default();
    Some(((owner == OWNER && kind == KIND).then(|| mark(body)).flatten(), after))
}

fn mark(body: &[u8]) -> Option<Note> {
    let word = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    let mut texts = body.get(24..)?.split(|byte| *byte == 0);
    let mut text = || texts.next().map(|text| String::from_utf8_lossy(text).into_owned());
    let (provider, name, arguments) = (text()?, text()?, text()?);
    Some(Note { address: word(0)?, base: word(8)?, semaphore: word(16)?, provider, name, arguments })
}

/// The registers that hold a marker's arguments, as bit numbers of `PERF_REG_*`. None if an argument is not in a known register.
pub(super) fn registers_of(arguments: &str) -> Option<Vec<u32>> {
    arguments.split_ascii_whitespace().map(|argument| register(argument.split_once('@')?.1)).collect()
}

#[cfg(target_arch = "x86_64")]
fn register(name: &str) -> Option<u32> {
    // The names in the order of `enum perf_event_x86_regs`.
    const NAMES: [&str; 8] = ["%rax", "%rbx", "%rcx", "%rdx", "%rsi", "%rdi", "%rbp", "%rsp"];
    NAMES.iter().position(|known| *known == name).map(|at| at as u32)
}

#[cfg(not(target_arch = "x86_64"))]
fn register(name: &str) -> Option<u32> {
    name.strip_prefix('x')?.parse().ok().filter(|number| *number < 30)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn note(owner: &[u8], kind: u32, texts: &[u8]) -> Vec<u8> {
        let body =
            [[0x1000_u64, 0x2000, 0].iter().flat_map(|word| word.to_ne_bytes()).collect(), texts.to_vec()].concat();
        let mut bytes: Vec<u8> =
            [owner.len() as u32, body.len() as u32, kind].iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(owner);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn marks_are_read_among_other_notes() {
        let bytes = [
            note(b"GNU\0", 3, b"xx"),
            note(OWNER, 3, b"evenkeel\0tick_begin\08@%rdi 8@%rsi\0"),
            note(OWNER, 4, b"a\0b\0c\0"),
            note(OWNER, 3, b"game\0frame\0\0"),
        ]
        .concat();
        let found = parse_notes(&bytes);
        let names: Vec<(&str, &str, &str)> =
            found.iter().map(|note| (&*note.provider, &*note.name, &*note.arguments)).collect();
        assert_eq!(names, [("evenkeel", "tick_begin", "8@%rdi 8@%rsi"), ("game", "frame", "")]);
        assert_eq!((found[0].address, found[0].base, found[0].semaphore), (0x1000, 0x2000, 0));
        assert_eq!(parse_notes(&bytes[..bytes.len() - 5]).len(), 1, "an incomplete note is ignored");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn registers_are_known_by_their_names() {
        assert_eq!(registers_of("8@%rdi 8@%rsi"), Some(vec![5, 4]));
        assert_eq!(registers_of(""), Some(vec![]));
        assert_eq!(registers_of("8@-16(%rbp)"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..80, byte in any::<u8>()) {
            parse_notes(&bytes);
            let mut whole = note(OWNER, 3, b"evenkeel\0tick_begin\0\0");
            let at = at % whole.len();
            whole[at] = byte;
            prop_assert!(parse_notes(&whole).len() <= 1);
        }
    }
}
