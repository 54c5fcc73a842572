//! `Named`: a scope whose name is only known when the program runs, and which is left by a call instead of by going out of sight: for
//! engines in other languages, and for names that come from data.

use evenkeel_sys::tsc;

use super::{NAMES_MAX, known, left};

/// Longer names are refused: they are kept as long as the process lives.
const NAME_BYTES_MAX: usize = 128;

/// The number of a scope's name.
///
/// ```
/// use evenkeel_rt::scope::{self, Named};
///
/// let think = Named::of("bots think").expect("there is room for thousands of names");
/// scope::start_thread("named scopes", 64);
/// let start_ticks = think.enter();
/// // … work …
/// think.leave(start_ticks);
/// assert_eq!(Named::of("bots think"), Some(think));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    id: u32,
}

impl Named {
    /// The scope of this name of up to 128 bytes; always the same one. None where the name is longer or empty, or 4,096 names are known
    /// already. Takes memory and a lock: to be called at the start, not in a tick.
    pub fn of(name: &str) -> Option<Named> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return None;
        }
        let mut known = known();
        let at = match known.names.iter().position(|known| *known == name) {
            Some(at) => at,
            None if known.names.len() < NAMES_MAX => {
                // Recordings hand names out for as long as the process lives; how many there can be is bounded.
                known.names.push(String::leak(name.to_owned()));
                known.names.len() - 1
            }
            None => return None,
        };
        Some(Named { id: u32::try_from(at + 1).ok()? })
    }

    /// As [`number`](Named::number) gave it. One that it did not give is recorded under no name, and counted.
    pub fn from_number(number: u32) -> Named {
        Named { id: number }
    }

    /// From 1 on: for languages that can hold nothing but a number.
    pub fn number(self) -> u32 {
        self.id
    }

    /// Enters it; gives what [`leave`](Named::leave) wants.
    #[inline]
    pub fn enter(self) -> u64 {
        tsc::ticks()
    }

    /// Leaves it, on the thread that entered it.
    #[inline]
    pub fn leave(self, start_ticks: u64) {
        left(self.id, start_ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{recording, start_thread};
    use super::*;

    #[test]
    fn a_name_from_data_is_a_scope() {
        let body = || {
            start_thread("by name", 64);
            let think = Named::of("think").unwrap();
            assert_eq!(Named::of("think"), Some(think));
            assert_ne!(Named::of("act"), Some(think));
            think.leave(think.enter());
            Named::from_number(think.number()).leave(think.enter());
            // Numbers that nobody was given, and times that never were.
            [0, 4_000_000, u32::MAX].into_iter().for_each(|number| Named::from_number(number).leave(u64::MAX));
            think.leave(u64::MAX);
        };
        std::thread::spawn(body).join().unwrap();
        let recorded = recording().threads.into_iter().find(|thread| thread.name == "by name").unwrap();
        assert_eq!(recorded.spans.iter().map(|span| span.name).collect::<Vec<_>>(), ["think"; 3]);
        assert_eq!((recorded.unnamed, recorded.spans[2].length_ns), (3, 0));
    }

    #[test]
    fn names_are_bounded() {
        assert_eq!(Named::of(""), None);
        assert_eq!(Named::of(&"x".repeat(129)), None);
        assert!(Named::of(&"x".repeat(128)).is_some());
    }
}
