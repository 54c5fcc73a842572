//! A captured machine: the result of reading each path. A capture has one text form, which people can read, edit and send.
//!
//! ```text
//! evenkeel-capture 1
//! # a comment
//! /proc/sys/vm/swappiness = 60
//! /proc/sys/kernel/hostname =~ text that ends without a newline
//! /proc/swaps =
//! | Filename Type
//! | /dev/vda1 partition
//! /sys/class/net/eth0/device -> ../../../virtio2
//! /sys/class/net/ : eth0 lo
//! /sys/class/net/lo/speed ! EINVAL
//! /proc/irq/25/smp_affinity !write EIO
//! end
//! ```
//!
//! A path that begins with `@` is not a file.
//! `@ethtool/eth0/features` has one line per offload, such as `rx-gro=on`, by the kernel's names and in the kernel's order.
//! A line ends with `,fixed` if the driver does not allow a change.
//! `@ethtool/eth0/rss` shows how packets are spread over queues (`table=`, `queues=`, `key_bytes=`, `function=`, `udp4=sdfn`).
//! `@ethtool/eth0/stats` has the driver's counters of losses, such as `rx_overruns=0`.
//!
//! If a directory has no `:` line, its names follow from the other paths. This keeps a hand-written capture short.
//! The last line shows that the capture is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_sys::Errno;

use crate::characters::acts;
use crate::refusal::Why;
use crate::user_file::{self, UserFileError};

const HEADER: &str = "evenkeel-capture 1";
const FOOTER: &str = "end";

/// The maximum size of a capture, in bytes. The capture of a 128-CPU machine has about 1 MB.
pub const MAX_CAPTURE_BYTES: usize = 32 << 20;

/// What evenkeel read on one machine. evenkeel may have read a path as a file, as a directory and as a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    pub(crate) texts: BTreeMap<String, Result<String, Errno>>,
    pub(crate) lists: BTreeMap<String, Result<Vec<String>, Errno>>,
    pub(crate) links: BTreeMap<String, Result<String, Errno>>,
    /// Paths whose writes the kernel refused. Only the writer of a captured root uses this map.
    pub(crate) write_refusals: BTreeMap<String, Errno>,
}

/// Why a text is not a capture, with the number of the invalid line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct CaptureError {
    /// The line, from 1.
    pub line: usize,
    /// The error, and what to do.
    pub what: String,
}

/// A capture file that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("read the capture {path}: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        error: UserFileError,
    },
    /// The file is longer than [`MAX_CAPTURE_BYTES`].
    #[error("read the capture {path}: it is longer than the limit of {MAX_CAPTURE_BYTES} bytes")]
    TooLong {
        /// The file.
        path: String,
    },
    /// The text is not a capture.
    #[error("read the capture {path}: {error}")]
    Malformed {
        /// The file.
        path: String,
        /// Where and why.
        error: CaptureError,
    },
}

impl Capture {
    /// Reads the capture in the file at `path`.
    ///
    /// # Errors
    /// If the file can't be read, is too long, or is not a complete capture.
    pub fn load(path: &Path) -> Result<Capture, LoadError> {
        let name = || path.display().to_string();
        let bytes = user_file::read(path, MAX_CAPTURE_BYTES as u64).map_err(|error| match error {
            UserFileError::TooLong { .. } => LoadError::TooLong { path: name() },
            error => LoadError::Unreadable { path: name(), error },
        })?;
        Capture::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| LoadError::Malformed { path: name(), error })
    }

    /// Parses the text form.
    ///
    /// # Errors
    /// At the first invalid line, or if the text ends without `end`.
    pub fn parse(text: &str) -> Result<Capture, CaptureError> {
        Parser::default().parse(text)
    }

    /// Stores the result of reading the file at `path`.
    pub fn saw_text(&mut self, path: &str, outcome: Result<String, Errno>) {
        self.texts.insert(path.to_owned(), outcome);
    }

    /// Stores the result of listing the directory at `path`.
    pub fn saw_entries(&mut self, path: &str, outcome: Result<Vec<String>, Errno>) {
        self.lists.insert(path.trim_end_matches('/').to_owned(), outcome);
    }

    /// Stores the result of reading the link at `path`.
    pub fn saw_link(&mut self, path: &str, outcome: Result<String, Errno>) {
        self.links.insert(path.to_owned(), outcome);
    }

    /// Makes writes to `path` fail with `errno`, as the kernel does for a managed interrupt or under lockdown.
    pub fn refuse_writes(&mut self, path: &str, errno: Errno) {
        self.write_refusals.insert(path.to_owned(), errno);
    }

    pub(crate) fn text(&self, path: &str) -> Result<String, Why> {
        match self.texts.get(path) {
            Some(outcome) => outcome.clone().map_err(Why::Errno),
            None => Err(Why::NotCaptured),
        }
    }

    pub(crate) fn link(&self, path: &str) -> Result<String, Why> {
        match self.links.get(path) {
            Some(outcome) => outcome.clone().map_err(Why::Errno),
            None => Err(Why::NotCaptured),
        }
    }

    pub(crate) fn entries(&self, dir: &str) -> Result<Vec<String>, Why> {
        let dir = dir.trim_end_matches('/');
        if let Some(outcome) = self.lists.get(dir) {
            return outcome.clone().map_err(Why::Errno);
        }
        let mut names = BTreeSet::new();
        implied_names(&self.texts, dir, &mut names);
        implied_names(&self.lists, dir, &mut names);
        implied_names(&self.links, dir, &mut names);
        if names.is_empty() { Err(Why::NotCaptured) } else { Ok(names.into_iter().collect()) }
    }
}

/// Locks the mutex even if another thread panicked while it held the lock. The map is still complete, because each change is one insertion.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the names directly below `dir` that the paths in `looks` imply.
fn implied_names<T>(looks: &BTreeMap<String, Result<T, Errno>>, dir: &str, names: &mut BTreeSet<String>) {
    let prefix = format!("{dir}/");
    for (path, outcome) in looks.range(prefix.clone()..) {
        let Some(below) = path.strip_prefix(&prefix) else {
            break;
        };
        // A path that could not be read may still exist (after `EACCES`, for example), so add its name.
        // `ENOENT` means that the path does not exist.
        if outcome.as_ref().err().is_none_or(|errno| !errno.is_absence()) {
            let name = below.split('/').next().unwrap_or(below);
            names.insert(name.to_owned());
        }
    }
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        for (path, outcome) in &self.texts {
            match outcome {
                Ok(text) => write_text(f, &escape(path, true), text)?,
                Err(errno) => writeln!(f, "{} ! {errno:?}", escape(path, true))?,
            }
        }
        for (path, outcome) in &self.links {
            match outcome {
                Ok(target) => writeln!(f, "{} -> {}", escape(path, true), escape(target, false))?,
                Err(errno) => writeln!(f, "{} ->! {errno:?}", escape(path, true))?,
            }
        }
        for (path, outcome) in &self.lists {
            match outcome {
                Ok(names) => {
                    write!(f, "{}/ :", escape(path, true))?;
                    for name in names {
                        write!(f, " {}", escape(name, true))?;
                    }
                    writeln!(f)?;
                }
                Err(errno) => writeln!(f, "{}/ :! {errno:?}", escape(path, true))?,
            }
        }
        for (path, errno) in &self.write_refusals {
            writeln!(f, "{} !write {errno:?}", escape(path, true))?;
        }
        writeln!(f, "{FOOTER}")
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, path: &str, text: &str) -> fmt::Result {
    let (body, operator) = match text.strip_suffix('\n') {
        Some(body) => (body, "="),
        None => (text, "=~"),
    };
    if body.contains('\n') {
        writeln!(f, "{path} {operator}")?;
        for line in body.split('\n') {
            writeln!(f, "| {}", escape(line, false))?;
        }
        Ok(())
    } else if body.is_empty() {
        writeln!(f, "{path} {operator}")
    } else {
        writeln!(f, "{path} {operator} {}", escape(body, false))
    }
}

/// Escapes control characters, characters that set the direction of text, and the backslash, as `\xNN` or `\u{NNNN}`.
/// A space at the end is escaped, because an editor would remove it.
/// With `spaces`, all spaces and tabs are escaped, because they would end a path.
fn escape(text: &str, spaces: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    let last = text.len().saturating_sub(1);
    for (at, character) in text.char_indices() {
        let must = match character {
            '\\' => true,
            '\t' => spaces,
            ' ' => spaces || at == last,
            _ => acts(character),
        };
        if must && character.is_ascii() {
            escaped.push_str(&format!("\\x{:02x}", u32::from(character)));
        } else if must {
            escaped.push_str(&format!("\\u{{{:x}}}", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let (digits, length) = if let Some(braced) = escape.strip_prefix("u{") {
            let close = braced.find('}')?;
            (&braced[..close], close + 3)
        } else {
            (escape.strip_prefix('x')?.get(..2)?, 3)
        };
        plain.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
        rest = &escape[length..];
    }
    plain.push_str(rest);
    Some(plain)
}

#[derive(Default)]
struct Parser {
    capture: Capture,
    /// The text block that is being parsed: its path, its lines so far, and whether the text ends in a newline.
    open: Option<(String, Vec<String>, bool)>,
}

impl Parser {
    fn parse(mut self, text: &str) -> Result<Capture, CaptureError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        match lines.next() {
            Some((_, HEADER)) => {}
            Some((_, other)) if other.starts_with("evenkeel-capture ") => {
                return Err(error(1, format!("this evenkeel does not know format {other:?}; it reads {HEADER:?}")));
            }
            _ => {
                return Err(error(1, format!("not a capture: the first line must be {HEADER:?}")));
            }
        }
        let mut last = 1;
        for (number, line) in lines {
            last = number;
            if line == FOOTER {
                self.close();
                return Ok(self.capture);
            }
            self.line(line).map_err(|what| error(number, what))?;
        }
        Err(error(last, format!("the text ends without {FOOTER:?}: the capture is truncated; take or copy it again")))
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(more) = line.strip_prefix('|') {
            let text = unescape(more.strip_prefix(' ').unwrap_or(more)).ok_or("bad escape after a backslash")?;
            let (_, lines, _) = self.open.as_mut().ok_or("a `|` line belongs below a path that ends in `=`")?;
            lines.push(text);
            return Ok(());
        }
        self.close();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let mut words = line.splitn(3, ' ');
        let path = unescape(words.next().unwrap_or_default()).ok_or("bad escape in the path")?;
        let operator =
            words.next().ok_or("expected `PATH = VALUE`, `PATH -> TARGET`, `DIR/ : NAMES` or `PATH ! ERROR`")?;
        let value = words.next();
        self.entry(path, operator, value)
    }

    fn entry(&mut self, path: String, operator: &str, value: Option<&str>) -> Result<(), String> {
        if !path.starts_with(['/', '@']) {
            return Err(format!("the path {path:?} must begin with `/` or `@`"));
        }
        let errno = || -> Result<Errno, String> {
            let name = value.unwrap_or_default();
            Errno::parse(name).ok_or_else(|| format!("{name:?} is not an error name such as ENOENT or E524"))
        };
        let plain = |text: &str| unescape(text).ok_or_else(|| "bad escape after a backslash".to_owned());
        match (operator, path.strip_suffix('/')) {
            ("=" | "=~", _) => {
                let newline = operator == "=";
                match value {
                    None => self.open = Some((path, Vec::new(), newline)),
                    Some(value) => {
                        let mut text = plain(value)?;
                        if newline {
                            text.push('\n');
                        }
                        self.capture.texts.insert(path, Ok(text));
                    }
                }
            }
            ("->", _) => {
                self.capture.links.insert(path, Ok(plain(value.unwrap_or_default())?));
            }
            ("->!", _) => {
                self.capture.links.insert(path, Err(errno()?));
            }
            (":", Some(dir)) => {
                let names = value.unwrap_or_default().split(' ').filter(|name| !name.is_empty());
                let names = names.map(plain).collect::<Result<Vec<String>, String>>()?;
                self.capture.lists.insert(dir.to_owned(), Ok(names));
            }
            (":!", Some(dir)) => {
                self.capture.lists.insert(dir.to_owned(), Err(errno()?));
            }
            ("!", _) => {
                self.capture.texts.insert(path, Err(errno()?));
            }
            ("!write", _) => {
                self.capture.write_refusals.insert(path, errno()?);
            }
            _ => {
                return Err(format!("unknown operator {operator:?}: expected =, =~, ->, ->!, :, :!, ! or !write"));
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some((path, lines, newline)) = self.open.take() {
            let mut text = lines.join("\n");
            if newline {
                text.push('\n');
            }
            self.capture.texts.insert(path, Ok(text));
        }
    }
}

fn error(line: usize, what: String) -> CaptureError {
    CaptureError { line, what }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_is_read() {
        let text = "evenkeel-capture 1\n# made by hand\n/a = 1\n/b =~ 2\n/c =\n| one\n|two\n/d =\n/e =~\n\n\
                    /f/ : x y\n/g/ :! EACCES\n/h ! ENOENT\n/i -> ../j\n/k ->! EINVAL\n/a !write EIO\n/l = \\x00\\x20\nend\n";
        let capture = Capture::parse(text).unwrap();
        let texts: Vec<_> = capture.texts.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
        assert_eq!(
            texts,
            [
                ("/a", Ok("1\n".to_owned())),
                ("/b", Ok("2".to_owned())),
                ("/c", Ok("one\ntwo\n".to_owned())),
                ("/d", Ok("\n".to_owned())),
                ("/e", Ok(String::new())),
                ("/h", Err(Errno::NOENT)),
                ("/l", Ok("\0 \n".to_owned())),
            ]
        );
        assert_eq!(capture.entries("/f"), Ok(vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(capture.entries("/g"), Err(Why::Errno(Errno::ACCESS)));
        assert_eq!(capture.link("/i"), Ok("../j".to_owned()));
        assert_eq!(capture.link("/k"), Err(Why::Errno(Errno::INVAL)));
        assert_eq!(capture.write_refusals["/a"], Errno::IO);
        assert_eq!(Capture::parse(&capture.to_string()), Ok(capture));
    }

    #[test]
    fn directories_are_implied_by_what_is_in_them() {
        let text = "evenkeel-capture 1\n/sys/class/net/eth0/mtu = 1500\n/sys/class/net/lo/mtu = 65536\n\
                    /sys/class/net/eth1/mtu ! ENOENT\n/sys/class/net/eth2/speed ! EINVAL\n/sys/class/netx = 1\nend\n";
        let capture = Capture::parse(text).unwrap();
        assert_eq!(capture.entries("/sys/class/net/"), Ok(["eth0", "eth2", "lo"].map(String::from).to_vec()));
        assert_eq!(capture.entries("/sys/class/block"), Err(Why::NotCaptured));
    }

    #[test]
    fn errors_name_their_line() {
        let table = [
            ("", "line 1: not a capture"),
            ("hello\n", "line 1: not a capture"),
            ("evenkeel-capture 2\nend\n", "line 1: this evenkeel does not know format \"evenkeel-capture 2\""),
            ("evenkeel-capture 1\n/a = 1\n", "line 2: the text ends without \"end\""),
            ("evenkeel-capture 1\n| x\nend\n", "line 2: a `|` line belongs below"),
            ("evenkeel-capture 1\n/a\nend\n", "line 2: expected `PATH = VALUE`"),
            ("evenkeel-capture 1\na = 1\nend\n", "line 2: the path \"a\" must begin"),
            ("evenkeel-capture 1\n/a ? 1\nend\n", "line 2: unknown operator \"?\""),
            ("evenkeel-capture 1\n/a ! EWHAT\nend\n", "line 2: \"EWHAT\" is not an error name"),
            ("evenkeel-capture 1\n/a = \\q\nend\n", "line 2: bad escape"),
            ("evenkeel-capture 1\n/a = \\xé0\nend\n", "line 2: bad escape"),
        ];
        for (text, expected) in table {
            let message = Capture::parse(text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
    }

    #[test]
    fn a_cut_capture_is_never_taken_for_a_whole_one() {
        let mut capture = Capture::default();
        capture.saw_text("/proc/swaps", Ok("Filename\n/dev/vda\n".into()));
        capture.saw_text("/end", Ok("end\nend\n".into()));
        capture.saw_entries("/sys/class/net", Ok(vec!["end".into()]));
        let whole = capture.to_string();
        for cut in 0..whole.len() - 1 {
            assert!(Capture::parse(&whole[..cut]).is_err(), "cut at {cut}");
        }
        assert_eq!(Capture::parse(&whole), Ok(capture));
    }

    fn outcome<T: Clone + fmt::Debug + 'static>(
        value: impl Strategy<Value = T>,
    ) -> impl Strategy<Value = Result<T, Errno>> {
        (value, proptest::option::weighted(0.2, 1..4096_i32))
            .prop_map(|(value, errno)| errno.map_or(Ok(value), |raw| Err(Errno::from_raw(raw))))
    }

    proptest! {
        #[test]
        fn a_printed_capture_is_read_back(
            texts in proptest::collection::btree_map("[/@][a-z0-9_. \\\\\t-]{0,12}", outcome(".{0,3}\n?[ -~\n\t\0\u{85}\u{2028}é\\\\]{0,24}"), 0..8),
            links in proptest::collection::btree_map("/[a-z/]{0,12}", outcome("[ -~é]{0,16}"), 0..4),
            lists in proptest::collection::btree_map("/[a-z/]{0,8}[a-z]", outcome(proptest::collection::vec("[ -.0-~]{1,8}", 0..4)), 0..4),
        ) {
            let capture = Capture { texts, links, lists, write_refusals: BTreeMap::new() };
            prop_assert_eq!(Capture::parse(&capture.to_string()), Ok(capture));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(evenkeel-capture 1\n)?([/@|#a-z =~:!>\\\\x{}0-9-]{0,24}\n){0,8}(end\n)?") {
            let _ = Capture::parse(&text);
        }
    }
}
