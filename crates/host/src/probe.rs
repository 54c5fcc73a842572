//! Reads a fact: one reading, one pure parser, and the reason if either fails.

use evenkeel_hostfs::{Refusal, Root, RootKind, Why};
use evenkeel_sys::{CpuSet, Errno};

use crate::fact::Fact;

/// Reads facts from a root. Parsers get the text without surrounding white space.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a>(pub(crate) &'a Root);

impl Probe<'_> {
    /// Parses the text at `path`. `what` names the expected form ("a list of CPUs").
    pub(crate) fn parse<T>(&self, path: &str, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Fact<T> {
        match self.0.text(path) {
            Ok(text) => match parse(text.trim()) {
                Some(value) => Fact::Known(value),
                None => Fact::odd(path, &text, format!("{path} should hold {what}")),
            },
            Err(refusal) => refusal.into(),
        }
    }

    /// The text, which must not be empty.
    pub(crate) fn text(&self, path: &str) -> Fact<String> {
        self.parse(path, "a text", |text| (!text.is_empty()).then(|| text.to_owned()))
    }

    /// A whole number.
    pub(crate) fn number<T: std::str::FromStr>(&self, path: &str) -> Fact<T> {
        self.parse(path, "a whole number", |text| text.parse().ok())
    }

    /// A list of CPUs such as `0-3,8`.
    pub(crate) fn cpu_list(&self, path: &str) -> Fact<CpuSet> {
        self.parse(path, "a list of CPUs", CpuSet::parse_list)
    }

    /// A mask of CPUs such as `00000000,0000010f`.
    pub(crate) fn cpu_mask(&self, path: &str) -> Fact<CpuSet> {
        self.parse(path, "a mask of CPUs", CpuSet::parse_mask)
    }

    /// The word in brackets of `always [madvise] never`.
    pub(crate) fn chosen_word(&self, path: &str) -> Fact<String> {
        self.parse(path, "words with the chosen one in brackets", |text| chosen_word(text).map(str::to_owned))
    }

    /// Words separated by white space, at least one.
    pub(crate) fn words(&self, path: &str) -> Fact<Vec<String>> {
        self.parse(path, "words", |text| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            (!words.is_empty()).then_some(words)
        })
    }

    /// The last part of a symbolic link's target.
    pub(crate) fn link_name(&self, path: &str) -> Fact<String> {
        match self.0.link(path) {
            Ok(target) => Fact::Known(target.rsplit('/').next().unwrap_or(&target).to_owned()),
            Err(refusal) => refusal.into(),
        }
    }

    /// Whether the machine reports that nothing exists at `path`. If a capture lacks the path, this is false.
    pub(crate) fn says_absent(&self, path: &str) -> bool {
        self.0.text(path).is_err_and(|refusal| is_absence(&refusal))
    }

    /// Whether something exists at `path`, without reading it, because a program's text is not a fact.
    /// For a path that is not a link, the kernel returns `EINVAL`, so the path exists.
    pub(crate) fn is_there(&self, path: &str) -> Fact<bool> {
        match self.0.link(path) {
            Ok(_) => Fact::Known(true),
            Err(refusal) if refusal.why == Why::Errno(Errno::INVAL) => Fact::Known(true),
            Err(refusal) if is_absence(&refusal) => Fact::Known(false),
            Err(refusal) => refusal.into(),
        }
    }

    /// The process whose files represent this root. For a live root, it is our own process.
    /// For a mounted root, our pid there is unknown, so it is the first process. For a capture, it is the process that was captured.
    pub(crate) fn process(&self) -> &'static str {
        let is_not_captured = |refusal: Refusal| refusal.why == Why::NotCaptured;
        let is_stranger = match self.0.kind() {
            RootKind::Live => false,
            RootKind::Mounted => true,
            RootKind::Captured => self.0.text("/proc/self/cgroup").is_err_and(is_not_captured),
        };
        if is_stranger { "/proc/1" } else { "/proc/self" }
    }

    /// The names in a directory.
    pub(crate) fn entries(&self, dir: &str) -> Fact<Vec<String>> {
        match self.0.entries(dir) {
            Ok(names) => Fact::Known(names),
            Err(refusal) => refusal.into(),
        }
    }

    /// The numbers N of the names `PREFIXN` in a directory, ascending.
    pub(crate) fn numbered(&self, dir: &str, prefix: &str) -> Fact<Vec<u32>> {
        self.entries(dir).map(|names| {
            let mut numbers: Vec<u32> =
                names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        })
    }
}

/// Whether the machine reports that the path does not exist.
pub(crate) fn is_absence(refusal: &Refusal) -> bool {
    matches!(refusal.why, Why::Errno(errno) if errno.is_absence())
}

/// Returns `first`, or `second` if the first is absent.
/// If both are absent, returns the first, with its reason.
/// If the second was never read, returns the second, because the machine may have its value.
pub(crate) fn or_else<T>(first: Fact<T>, second: impl FnOnce() -> Fact<T>) -> Fact<T> {
    if !first.is_absent() {
        return first;
    }
    match second() {
        Fact::Absent { .. } => first,
        Fact::Unseen { .. } if matches!(first, Fact::Unseen { .. }) => first,
        found => found,
    }
}

/// Applies `next` to a known value. An unknown fact keeps its own reason.
pub(crate) fn and_then<T, U>(fact: Fact<T>, next: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
    match fact {
        Fact::Known(value) => next(value),
        Fact::Absent { why } => Fact::Absent { why },
        Fact::Unseen { why } => Fact::Unseen { why },
        Fact::Denied { why } => Fact::Denied { why },
        Fact::Forbidden { why } => Fact::Forbidden { why },
        Fact::Odd { why, path, raw } => Fact::Odd { why, path, raw },
    }
}

/// The word in brackets, if there is exactly one.
pub(crate) fn chosen_word(text: &str) -> Option<&str> {
    let mut chosen = text.split_whitespace().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let word = chosen.next()?;
    (chosen.next().is_none() && !word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::Capture;

    use super::*;

    #[test]
    fn unknown_texts_are_odd_facts_with_their_text() {
        let text = "evenkeel-capture 1\n/n = 12\n/x = 0-4294967295\n/w = a [b] c\n/e =\nend\n";
        let root = Root::captured(Capture::parse(text).unwrap());
        let probe = Probe(&root);
        assert_eq!(probe.number::<u32>("/n"), Fact::Known(12));
        assert_eq!(probe.chosen_word("/w"), Fact::Known("b".to_owned()));
        assert!(matches!(probe.cpu_list("/x"), Fact::Odd { raw, path, .. } if raw == "0-4294967295\n" && path == "/x"));
        assert!(matches!(probe.text("/e"), Fact::Odd { .. }));
        assert!(probe.text("/none").is_absent());
    }

    #[test]
    fn the_second_look_counts_only_where_the_first_found_nothing() {
        let known = |value| Fact::Known(value);
        let absent = |why: &str| Fact::<u32>::absent(why);
        assert_eq!(or_else(known(1), || known(2)), known(1));
        assert_eq!(or_else(absent("a"), || known(2)), known(2));
        assert_eq!(or_else(absent("a"), || absent("b")), absent("a"));
        let unseen = |why: &str| Fact::<u32>::Unseen { why: why.to_owned() };
        assert_eq!(or_else(absent("a"), || unseen("b")), unseen("b"));
        assert_eq!(or_else(unseen("a"), || absent("b")), unseen("a"));
        assert_eq!(or_else(unseen("a"), || unseen("b")), unseen("a"));
        assert_eq!(and_then(unseen("a"), |_| known(2)), unseen("a"));
        let denied = || Fact::Denied { why: "no".to_owned() };
        assert_eq!(or_else(denied(), || known(2)), denied());
        assert_eq!(and_then(absent("a"), |_| known(2)), absent("a"));
        assert_eq!(and_then(known(1), |value| known(value + 1)), known(2));
    }

    #[test]
    fn only_an_answer_counts_as_absence() {
        let text = "evenkeel-capture 1\n/no ! ENOENT\n/denied ! EACCES\n/yes = 1\nend\n";
        let root = Root::captured(Capture::parse(text).unwrap());
        let says_absent = |path| Probe(&root).says_absent(path);
        assert_eq!(["/no", "/denied", "/yes", "/never-looked"].map(says_absent), [true, false, false, false]);
    }

    #[test]
    fn distinguishes_present_from_absent() {
        let text = "evenkeel-capture 1\n/file ->! EINVAL\n/link -> x\n/no ->! ENOENT\n/denied ->! EACCES\nend\n";
        let root = Root::captured(Capture::parse(text).unwrap());
        let is_there = |path| Probe(&root).is_there(path).known().copied();
        let paths = ["/file", "/link", "/no", "/denied", "/never-looked"];
        assert_eq!(paths.map(is_there), [Some(true), Some(true), Some(false), None, None]);
    }

    #[test]
    fn brackets_choose_one_word() {
        for (text, expected) in [
            ("[a] b", Some("a")),
            ("a b", None),
            ("[a] [b]", None),
            ("[]", None),
            ("", None),
            ("a [never]", Some("never")),
        ] {
            assert_eq!(chosen_word(text), expected, "{text}");
        }
    }
}
