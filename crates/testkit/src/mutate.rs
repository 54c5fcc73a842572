//! Mutates captured hosts and files of every format at random, but reproducibly.

use std::fs;
use std::path::Path;

/// The lines of a captured host, without the first and the last, which mark the format and the end.
pub type Lines = Vec<String>;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a stream that a number alone reproduces.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`. 0 if `bound` is 0.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).unwrap()
    }
}

/// Every captured host of this repository.
pub fn hosts() -> Vec<Lines> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts");
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let lines = |file: &Path| {
        let text = fs::read_to_string(file).unwrap();
        let mut lines: Lines = text.lines().map(str::to_owned).collect();
        lines.retain(|line| !line.starts_with('#') && line != "end" && !line.starts_with("evenkeel-capture"));
        lines
    };
    files.iter().map(|file| lines(file)).collect()
}

/// Where the value of a line begins: after `= `, `-> `, `: ` or `| `.
fn value_of(line: &str) -> usize {
    let marks = ["| ", " = ", " -> ", " : "];
    marks.iter().filter_map(|mark| line.find(mark).map(|at| at + mark.len())).min().unwrap_or(line.len())
}

/// Changes one line's value: a bit, the length, or the value of another host.
fn change_value(lines: &mut Lines, other: &Lines, chance: &mut Chance) {
    let at = chance.below(lines.len());
    let Some(line) = lines.get(at) else { return };
    let (head, value) = line.split_at(value_of(line));
    let mut bytes = value.as_bytes().to_vec();
    match chance.below(5) {
        0 | 1 => {
            let index = chance.below(bytes.len());
            if let Some(byte) = bytes.get_mut(index) {
                *byte ^= 1 << chance.below(7);
            }
        }
        2 => bytes.truncate(chance.below(bytes.len())),
        3 => bytes = bytes.repeat(2 + chance.below(8)),
        _ => {
            let from = &other[chance.below(other.len())];
            bytes = from.as_bytes()[value_of(from)..].to_vec();
        }
    }
    lines[at] = format!("{head}{}", String::from_utf8_lossy(&bytes).replace('\n', ""));
}

/// Removes lines, doubles them, or inserts some of another host.
fn change_lines(lines: &mut Lines, other: &Lines, chance: &mut Chance) {
    let start = chance.below(lines.len());
    let end = (start + 1 + chance.below(8)).min(lines.len());
    match chance.below(3) {
        0 => drop(lines.drain(start..end)),
        1 => lines.splice(start..start, lines[start..end].to_vec()).for_each(drop),
        _ => {
            let from = chance.below(other.len());
            let taken = &other[from..(from + 1 + chance.below(40)).min(other.len())];
            lines.splice(start..end, taken.iter().cloned()).for_each(drop);
        }
    }
}

/// One of the hosts, changed in up to eight places.
pub fn mutated(hosts: &[Lines], chance: &mut Chance) -> String {
    let mut lines = hosts[chance.below(hosts.len())].clone();
    let other = &hosts[chance.below(hosts.len())];
    for _ in 0..=chance.below(8) {
        match chance.below(8) {
            0 => change_lines(&mut lines, other, chance),
            _ => change_value(&mut lines, other, chance),
        }
    }
    let mut text = format!("evenkeel-capture 1\n{}\nend\n", lines.join("\n"));
    // Some files lose their end, like truncated files.
    if chance.below(32) == 0 {
        let mut cut = chance.below(text.len());
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        text.truncate(cut);
    }
    text
}

/// The longest mutated file, in characters.
const CHARS_MAX: usize = 64 << 10;

/// Characters with a special meaning: ends, separators, bytes with the upper bit, terminal controls.
const ODD: [char; 16] =
    ['\0', '\n', '\r', '"', '\\', '{', '[', '=', ' ', '-', '9', '\u{7f}', '\u{80}', '\u{ff}', '\u{9b}', '\u{202e}'];

/// Numbers at the limits of integer types.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-1e400",
    "0.0000000000000000000000001",
    "99999999999999999999999999999999999999999999999999",
];

fn some_range(length: usize, most: usize, chance: &mut Chance) -> std::ops::Range<usize> {
    let start = chance.below(length);
    start..(start + 1 + chance.below(most)).min(length)
}

/// Replaces a number after a random position with one of [`NUMBERS`].
fn change_number(text: &mut Vec<char>, chance: &mut Chance) {
    let from = chance.below(text.len());
    let is_digit = |char: &char| char.is_ascii_digit();
    let Some(start) = text[from..].iter().position(is_digit).map(|at| from + at) else { return };
    let end = text[start..].iter().position(|char| !is_digit(char)).map_or(text.len(), |at| start + at);
    text.splice(start..end, NUMBERS[chance.below(NUMBERS.len())].chars()).for_each(drop);
}

fn change_chars(text: &mut Vec<char>, other: &[char], chance: &mut Chance) {
    let (length, at) = (text.len(), chance.below(text.len()));
    match chance.below(8) {
        0 | 1 => {
            if let Some(char) = text.get_mut(at) {
                *char = char::from((*char as u32 & 0xff) as u8 ^ (1 << chance.below(8)));
            }
        }
        2 => text.insert(at, ODD[chance.below(ODD.len())]),
        3 => drop(text.drain(some_range(length, 64, chance))),
        4 => {
            let again = text[some_range(length, 64, chance)].repeat(1 + chance.below(200));
            text.splice(at..at, again).for_each(drop);
        }
        5 => {
            let taken = other[some_range(other.len(), 400, chance)].to_vec();
            text.splice(some_range(length, 400, chance), taken).for_each(drop);
        }
        6 => change_number(text, chance),
        _ => text.truncate(if chance.below(4) == 0 { at } else { length }),
    }
    text.truncate(CHARS_MAX);
}

/// One of these files, changed in up to eight places. If a format is binary, each character up to U+00FF is a byte.
pub fn mutated_file(files: &[String], chance: &mut Chance) -> String {
    let mut text: Vec<char> = files[chance.below(files.len())].chars().collect();
    let other: Vec<char> = files[chance.below(files.len())].chars().collect();
    for _ in 0..=chance.below(8) {
        change_chars(&mut text, &other, chance);
    }
    text.into_iter().collect()
}

/// How many mutations to try: `EVENKEEL_MUTATIONS`, or the default.
pub fn asked(default_count: u64) -> u64 {
    std::env::var("EVENKEEL_MUTATIONS").map_or(default_count, |count| count.parse().unwrap())
}
