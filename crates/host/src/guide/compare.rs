//! Compares the value in force with the value that a guide asks for.

use super::line::Bound;
use crate::number::kernel_number;

/// Whether the present value already satisfies the guide.
pub(super) fn is_so(present: &str, wanted: &str, bound: Bound) -> bool {
    let numbers = || Some((present.parse::<i64>().ok()?, wanted.parse::<i64>().ok()?));
    let as_read = |word: &str| kernel_number(word).map_or_else(|| word.to_owned(), |number| number.to_string());
    let is_same = present.split_whitespace().map(as_read).eq(wanted.split_whitespace().map(as_read));
    is_same
        || match bound {
            Bound::Exactly => false,
            Bound::AtLeast => numbers().is_some_and(|(present, wanted)| present >= wanted),
            Bound::AtMost => numbers().is_some_and(|(present, wanted)| present <= wanted),
        }
}

/// Whether the wanted value has the form of the present value: the same number of numbers, or a word.
pub(super) fn is_alike(present: &str, wanted: &str) -> bool {
    let numbers = |text: &str| text.split_whitespace().map(|word| kernel_number(word).is_some()).collect::<Vec<_>>();
    let (present, wanted) = (numbers(present), numbers(wanted));
    if present.iter().all(|is_number| *is_number) { present == wanted } else { wanted.len() == 1 || present.len() > 1 }
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(60).collect()
}
