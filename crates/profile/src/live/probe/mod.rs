//! Probes: how users name a place in a program, and how evenkeel finds the byte of a file for that place.

mod find;
mod notes;
mod search;

use std::fmt;

use evenkeel_sys::Errno;
use evenkeel_sys::perf_probe::Probe;

pub use find::{beginning_and_end, library_marks, processes_with};
pub use notes::{Note, parse_notes};
pub use search::Near;

/// The provider of the markers of `evenkeel-rt`.
pub const LIBRARY: &str = "evenkeel";
/// The name of the marker of `evenkeel-rt` at the beginning of a tick.
pub const LIBRARY_BEGINS: &str = "tick_begin";
/// The name of the marker of `evenkeel-rt` at the end of a tick.
pub const LIBRARY_ENDS: &str = "tick_done";

/// A place as the user wrote it: `SYMBOL`, `BINARY:SYMBOL`, `+0xOFFSET`, `BINARY+0xOFFSET`, `BINARY:%PROVIDER:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceSpec {
    /// The path or name of the file. None means the program of the process.
    pub binary: Option<String>,
    /// The place in the file.
    pub spot: Spot,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The probe is at the beginning of this function.
    Function(String),
    /// The probe is at this byte of the file.
    Offset(u64),
    /// The probe is at a USDT marker.
    Mark {
        /// The provider's name.
        provider: String,
        /// The marker's name.
        name: String,
    },
}

/// The maximum length of a function's name, in bytes.
const ASKED_MAX: usize = 4096;

/// Parses a place.
///
/// # Errors
/// A text that says why `text` is invalid.
pub fn parse_place(text: &str) -> Result<PlaceSpec, String> {
    const EXAMPLES: &str = "expected SYMBOL, BINARY:SYMBOL, BINARY+0xOFFSET or %PROVIDER:NAME";
    let is_odd = text.len() > ASKED_MAX || text.chars().any(char::is_control);
    if is_odd || text.trim().is_empty() {
        return Err(EXAMPLES.to_owned());
    }
    let binary = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    if let Some((before, digits)) = text.rsplit_once("+0x") {
        let offset = u64::from_str_radix(digits, 16).map_err(|_| format!("0x{digits} is not an offset: {EXAMPLES}"))?;
        let before = before.trim_end_matches(':');
        return Ok(PlaceSpec { binary: binary(before), spot: Spot::Offset(offset) });
    }
    let (before, spot) = match single_colon(text) {
        Some(at) if !text.starts_with('%') => (&text[..at], &text[at + 1..]),
        _ => ("", text),
    };
    let spot = match spot.strip_prefix('%') {
        Some(mark) => {
            let parts = mark.split_once(':').filter(|(provider, name)| !provider.is_empty() && !name.is_empty());
            let (provider, name) = parts.ok_or_else(|| format!("{spot} is not a marker: {EXAMPLES}"))?;
            Spot::Mark { provider: provider.to_owned(), name: name.to_owned() }
        }
        None if spot.trim().is_empty() => return Err(EXAMPLES.to_owned()),
        None => Spot::Function(spot.to_owned()),
    };
    Ok(PlaceSpec { binary: binary(before), spot })
}

/// The first single colon: `arena::tick` is a function, and `arena:tick` is a function in a file.
fn single_colon(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let colons = bytes[at..].iter().take_while(|byte| **byte == b':').count();
        if colons == 1 {
            return Some(at);
        }
        at += colons.max(1);
    }
    None
}

impl fmt::Display for PlaceSpec {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = self.binary.as_deref().unwrap_or_default();
        match &self.spot {
            Spot::Offset(offset) => write!(to, "{binary}+{offset:#x}"),
            Spot::Function(name) if binary.is_empty() && single_colon(name).is_none() => to.write_str(name),
            Spot::Function(name) => write!(to, "{binary}:{name}"),
            Spot::Mark { provider, name } if binary.is_empty() => write!(to, "%{provider}:{name}"),
            Spot::Mark { provider, name } => write!(to, "{binary}:%{provider}:{name}"),
        }
    }
}

/// A probe at a place that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The name of the event in perf's style: `probe_server:tick`, `probe_server:tick__return`, `sdt_evenkeel:tick_begin`.
    pub event: String,
    /// The place of the probe.
    pub probe: Probe,
    /// The mask of user registers (`PERF_REG_*`) to copy with each sample. These registers hold the arguments of a marker.
    pub registers: u64,
}

/// What ends a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// The return of the function at which the tick begins.
    Return,
    /// No place: the tick ends when the thread waits, or when the next tick begins.
    Wait,
    /// Another place in the program.
    Place(PlaceSpec),
}

/// Why a place can't be probed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// Neither a process nor a path is given.
    #[error("look for {0}: give a process (--pid), or the path of a file")]
    NoProcess(String),
    /// The given process does not exist.
    #[error("look for {asked} in process {pid}: there is no such process")]
    NoSuchProcess {
        /// The requested place.
        asked: String,
        /// The process that was given.
        pid: u32,
    },
    /// The process has ended, or the user may not read it.
    #[error("look for {asked}: read the mappings of process {pid}: {errno}")]
    Unreadable {
        /// The requested place.
        asked: String,
        /// The process that was given.
        pid: u32,
        /// The kernel's error.
        errno: Errno,
    },
    /// The process does not run the named file.
    #[error("look for {asked}: process {pid} does not run {binary}; it runs {}", listed(runs))]
    NotMapped {
        /// The requested place.
        asked: String,
        /// The process that was given.
        pid: u32,
        /// The name of the file.
        binary: String,
        /// The files that the process runs.
        runs: Vec<String>,
    },
    /// The processes run different programs, so the place is ambiguous.
    #[error("look for {asked}: the processes run different files ({}). Name one file or one process", listed(files))]
    Several {
        /// The requested place.
        asked: String,
        /// The programs that the processes run.
        files: Vec<String>,
    },
    /// The file cannot be used.
    #[error("look for {asked} in {file}: {why}")]
    Odd {
        /// The requested place.
        asked: String,
        /// The file.
        file: String,
        /// Why the file cannot be used.
        why: String,
    },
    /// The file has no function of this name.
    #[error("find {asked} in {file}: the file has no function of that name{}", nearest(near))]
    NoSymbol {
        /// The requested place.
        asked: String,
        /// The file.
        file: String,
        /// Similar names in the file.
        near: Vec<String>,
    },
    /// The file is stripped.
    #[error(
        "find {asked} in {file}: the file is stripped. Install its debug symbols, or give the offset of the function's first byte \
         ({file}+0xOFFSET)"
    )]
    Stripped {
        /// The requested place.
        asked: String,
        /// The file.
        file: String,
    },
    /// The file has several functions of this name.
    #[error("find {asked} in {file}: the file has {} functions of that name: {}", near.len(), listed(near))]
    Ambiguous {
        /// The requested place.
        asked: String,
        /// The file.
        file: String,
        /// The functions, each with its offset.
        near: Vec<String>,
    },
    /// The offset is not the beginning of a function.
    #[error(
        "probe {file}+{offset:#x}: no function begins there{}, and a probe inside a function could break the program",
        before.map_or_else(String::new, |before| format!(" (the enclosing function begins at {before:#x})"))
    )]
    NoBeginning {
        /// The file.
        file: String,
        /// The requested offset.
        offset: u64,
        /// The start of the nearest function before the offset, if known.
        before: Option<u64>,
    },
    /// The function's return can't be detected.
    #[error(
        "detect the return of {asked}: {file} is a Go program, and Go moves its stacks. Use --until wait, or --until with another function"
    )]
    NoReturn {
        /// The requested place.
        asked: String,
        /// The file.
        file: String,
    },
}

/// The maximum number of names listed in an error message.
const NAMES_MAX: usize = 8;

fn listed(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    if shown.is_empty() { "nothing readable".to_owned() } else { format!("{}{more}", shown.join(", ")) }
}

fn nearest(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; similar names: {}", listed(near)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_are_read_as_people_write_them() {
        let function = |binary: Option<&str>, name: &str| PlaceSpec {
            binary: binary.map(str::to_owned),
            spot: Spot::Function(name.to_owned()),
        };
        let offset = |binary: Option<&str>, at| PlaceSpec { binary: binary.map(str::to_owned), spot: Spot::Offset(at) };
        let mark = |binary: Option<&str>, provider: &str, name: &str| PlaceSpec {
            binary: binary.map(str::to_owned),
            spot: Spot::Mark { provider: provider.to_owned(), name: name.to_owned() },
        };
        let rows = [
            ("tick", function(None, "tick")),
            ("arena::world::tick", function(None, "arena::world::tick")),
            ("server:tick", function(Some("server"), "tick")),
            ("/usr/bin/server:game::World::tick", function(Some("/usr/bin/server"), "game::World::tick")),
            (":tick", function(None, "tick")),
            ("/opt/a b/libgame.so:_ZN4game4tickEv", function(Some("/opt/a b/libgame.so"), "_ZN4game4tickEv")),
            ("std::vector<int>::push_back", function(None, "std::vector<int>::push_back")),
            ("+0x1f40", offset(None, 0x1f40)),
            ("server+0x1F40", offset(Some("server"), 0x1f40)),
            ("/usr/games/DDNet-Server:+0x10", offset(Some("/usr/games/DDNet-Server"), 0x10)),
            ("%evenkeel:tick_begin", mark(None, "evenkeel", "tick_begin")),
            ("libgame.so:%game:frame", mark(Some("libgame.so"), "game", "frame")),
        ];
        for (text, asked) in rows {
            assert_eq!(parse_place(text), Ok(asked.clone()), "{text}");
            assert_eq!(parse_place(&asked.to_string()), Ok(asked), "{text}");
        }
        for text in
            ["", " ", "server:", "server+0x", "+0xzz", "+0x1234567890abcdef0", "%", "%a", "%a:", "%:b", "a\nb", ": "]
        {
            assert!(parse_place(text).is_err(), "{text:?}");
        }
        assert!(parse_place(&"x".repeat(ASKED_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn a_parsed_place_can_be_written_and_parsed_again(text in "[a-z:%+0x/. _]{0,24}") {
            if let Ok(asked) = parse_place(&text) {
                prop_assert_eq!(parse_place(&asked.to_string()), Ok(asked));
            }
        }

        #[test]
        fn no_text_is_a_panic(text in any::<String>()) {
            let _ = parse_place(&text);
        }
    }

    #[test]
    fn refusals_read_well() {
        let near = vec!["tick".to_owned(), "ticks".to_owned()];
        let rows = [
            (
                NoPlace::NoSymbol { asked: "tik".to_owned(), file: "/bin/server".to_owned(), near: near.clone() },
                "find tik in /bin/server: the file has no function of that name; similar names: tick, ticks",
            ),
            (
                NoPlace::Ambiguous { asked: "tick".to_owned(), file: "/bin/server".to_owned(), near },
                "find tick in /bin/server: the file has 2 functions of that name: tick, ticks",
            ),
            (
                NoPlace::NoBeginning { file: "/bin/server".to_owned(), offset: 0x1234, before: Some(0x1200) },
                "probe /bin/server+0x1234: no function begins there (the enclosing function begins at 0x1200), and a probe inside a function could break the program",
            ),
        ];
        for (refusal, text) in rows {
            assert_eq!(refusal.to_string(), text);
        }
    }
}
