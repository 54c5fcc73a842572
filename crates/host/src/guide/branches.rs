//! Follows the `if` and `case` of a script. Only one branch of them runs, and the branch for `stop` reverts the settings.

use super::line::{Arm, Branch};
use super::shell_line::BEFORE;
use super::words::Word;

/// How deep evenkeel follows branches. Deeper branches belong to the branch around them.
const DEPTH_MAX: usize = 20;
/// The maximum number of words of a test that evenkeel reads.
const TEST_WORDS_MAX: usize = 20;

/// The names of branches that apply the settings of a script.
const START: [&str; 6] = ["start", "apply", "on", "up", "enable", "restart"];
/// The names of branches that revert the settings.
const STOP: [&str; 9] = ["stop", "off", "down", "revert", "restore", "disable", "default", "undo", "rollback"];
/// The names of reverting branches in the test of an `if`, where the other names may be values.
const STOP_IN_TEST: [&str; 5] = ["stop", "revert", "restore", "undo", "rollback"];
/// Beginnings of the names of functions that revert the settings.
const STOP_FUNCTIONS: [&str; 8] =
    ["cleanup", "clean_up", "restore", "revert", "undo", "rollback", "teardown", "tear_down"];

/// The branches around the current command of a script.
#[derive(Default)]
pub(super) struct Branches {
    open: Vec<Block>,
    /// The number of blocks that are open and too deep to follow.
    deeper: usize,
    /// The number of the script in its text.
    script: usize,
    /// The number of the next block.
    next: usize,
}

struct Block {
    number: usize,
    is_case: bool,
    arm: usize,
    of: Of,
    /// Whether the next word of a `case` is a pattern.
    is_pattern: bool,
}

/// When one arm of an `if` or `case` runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Start,
    Stop(&'static str),
    Other,
}

/// Whether a function reverts settings, by its name.
pub(super) fn is_stop(function: &str) -> bool {
    let begins = |begin: &&str| {
        function.strip_prefix(*begin).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
    };
    ["stop", "do_stop", "on_exit"].contains(&function) || STOP_FUNCTIONS.iter().any(begins)
}

impl Branches {
    pub(super) fn of_script(script: usize) -> Branches {
        Branches { script, ..Branches::default() }
    }

    /// Follows the script to a command that ends with this operator. Returns whether the command is only a pattern of a `case`.
    pub(super) fn follow(&mut self, words: &[Word], end: &str) -> bool {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let mut rest = texts.as_slice();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match *first {
                "if" => self.opens(false, of_test(after)),
                "elif" => self.other_arm(of_test(after)),
                "else" => self.other_arm(Of::Other),
                "fi" => self.closes(false),
                "esac" => self.closes(true),
                "case" if after.get(1) == Some(&"in") => {
                    self.opens(true, Of::Other);
                    rest = &after[2..];
                    if rest.is_empty() {
                        return true;
                    }
                }
                word if BEFORE.contains(&word) => {}
                _ => return self.pattern(&[&[*first], after].concat(), end),
            }
        }
        false
    }

    fn opens(&mut self, is_case: bool, of: Of) {
        if self.open.len() >= DEPTH_MAX {
            self.deeper += 1;
            return;
        }
        self.open.push(Block { number: self.next, is_case, arm: 0, of, is_pattern: is_case });
        self.next += 1;
    }

    fn other_arm(&mut self, of: Of) {
        if let Some(block) = self.open.last_mut().filter(|block| self.deeper == 0 && !block.is_case) {
            (block.arm, block.of) = (block.arm + 1, of);
        }
    }

    fn closes(&mut self, is_case: bool) {
        if self.deeper > 0 {
            self.deeper -= 1;
        } else if self.open.last().is_some_and(|block| block.is_case == is_case) {
            self.open.pop();
        }
    }

    fn pattern(&mut self, texts: &[&str], end: &str) -> bool {
        let Some(block) = self.open.last_mut().filter(|block| block.is_pattern && self.deeper == 0) else {
            return false;
        };
        if ![")", "|"].contains(&end) {
            // A `case` never continues like this, so the text was a sentence.
            self.open.pop();
            return false;
        }
        for text in texts.iter().map(|text| text.trim_start_matches('-')) {
            block.of = match (block.of, STOP.iter().find(|stop| **stop == text)) {
                _ if START.contains(&text) => Of::Start,
                (Of::Other, Some(stop)) => Of::Stop(stop),
                (of, _) => of,
            };
        }
        block.is_pattern = end == "|";
        true
    }

    /// Follows the script beyond the operator after a command. `;;` ends an arm of a `case`.
    pub(super) fn after(&mut self, end: &str) {
        if let Some(block) = self.open.last_mut().filter(|block| block.is_case && end == ";;" && self.deeper == 0) {
            (block.arm, block.of, block.is_pattern) = (block.arm + 1, Of::Other, true);
        }
    }

    /// The branch of the current command.
    pub(super) fn current(&self) -> Branch {
        let arm =
            |block: &Block| Arm { block: (self.script, block.number), arm: block.arm, is_start: block.of == Of::Start };
        Branch(self.open.iter().map(arm).collect())
    }

    /// The name of the branch around the current command that reverts the settings.
    pub(super) fn stop(&self) -> Option<&'static str> {
        self.open.iter().find_map(|block| match block.of {
            Of::Stop(name) => Some(name),
            Of::Start | Of::Other => None,
        })
    }

    pub(super) fn depth(&self) -> (usize, usize) {
        (self.open.len(), self.deeper)
    }

    /// Leaves the branches that opened after this depth.
    pub(super) fn back_to(&mut self, (depth, deeper): (usize, usize)) {
        self.open.truncate(depth);
        self.deeper = deeper;
    }
}

/// `[ "$1" = stop ]` in an `if`.
fn of_test(words: &[&str]) -> Of {
    let value = words[..words.len().min(TEST_WORDS_MAX)]
        .windows(2)
        .find(|pair| ["=", "=="].contains(&pair[0]))
        .map(|pair| pair[1]);
    match value {
        Some(value) if START.contains(&value) => Of::Start,
        Some(value) => STOP_IN_TEST.iter().find(|stop| **stop == value).map_or(Of::Other, |stop| Of::Stop(stop)),
        None => Of::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_take_settings_back() {
        for (name, is) in [
            ("stop", true),
            ("cleanup", true),
            ("restore_thp", true),
            ("undo-all", true),
            ("stop_irqbalance", false),
            ("restored", false),
            ("disable_thp", false),
            ("main", false),
        ] {
            assert_eq!(is_stop(name), is, "{name}");
        }
    }
}
