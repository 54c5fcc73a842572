//! The variables of a script, as far as evenkeel can tell their values without running it.

use std::collections::BTreeMap;

use super::arithmetic;
use super::words::Word;

/// The maximum number of variables of a script.
pub(super) const VARIABLES_MAX: usize = 1000;
/// The maximum length of a word after its variables are replaced.
/// If the word would become longer, the variables stay, and evenkeel does not understand the word.
pub(super) const EXPANDED_BYTES_MAX: usize = 4096;
/// The maximum number of words of a loop. It also limits the number of commands that loops make from one command.
pub(super) const LOOP_MAX: usize = 64;

/// The variables up to the current line.
#[derive(Default)]
pub(super) struct Variables {
    /// The possible values of each variable. The variable of a loop has each word of the loop.
    pub(super) known: BTreeMap<String, Vec<String>>,
}

impl Variables {
    /// Replaces the variables that the script has set in the words of a command.
    pub(super) fn expanded(&self, words: &[Word]) -> Vec<Word> {
        let one = |word: &Word| {
            if !word.is_expanded {
                return word.clone();
            }
            let text = self.expand(&word.text);
            let is_expanded = text.contains(['$', '`']);
            Word { text, is_operator: false, is_expanded }
        };
        words.iter().map(one).collect()
    }

    /// Forgets the variables that a loop's condition uses: each round may change them.
    pub(super) fn forget(&mut self, words: &[Word]) {
        for word in words {
            // `((i < 4))` names its variable without a mark.
            self.known.remove(&word.text);
            for part in word.text.split('$').skip(1) {
                let part = part.trim_start_matches(['{', '[', '(']);
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                self.known.remove(&part[..part.find(|letter| !is_name(letter)).unwrap_or(part.len())]);
            }
        }
    }

    /// The value of a variable, if it has only one.
    fn value(&self, name: &str) -> Option<&str> {
        match self.known.get(name).map(Vec::as_slice) {
            Some([value]) => Some(value),
            _ => None,
        }
    }

    /// Replaces `$NAME`, `${NAME}` and `${NAME:-VALUE}` in a text, if the variable is known, or has a usual value there.
    pub(super) fn expand(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut expanded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            if let Some((inner, rest)) = part.strip_prefix('[').and_then(|part| part.split_once(']')) {
                match arithmetic::value(inner, |name| self.value(name).map(str::to_owned)) {
                    Some(value) => expanded.extend([value.to_string().as_str(), rest]),
                    None => expanded.extend(["$", part]),
                }
                continue;
            }
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let (name, rest) = match part.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                Some(braced) => braced,
                None => part.split_at(part.find(|letter| !is_name(letter)).unwrap_or(part.len())),
            };
            let name = name.strip_suffix("[@]").or_else(|| name.strip_suffix("[*]")).unwrap_or(name);
            // `${NAME:-VALUE}`: what the script takes unless somebody gives it another value.
            let usual = [":-", ":=", "-", "="].iter().find_map(|mark| name.split_once(mark));
            let (name, usual) = match usual.filter(|(name, _)| !name.is_empty() && name.chars().all(is_name)) {
                Some((name, usual)) => (name, (!self.known.contains_key(name)).then_some(usual)),
                None => (name, None),
            };
            match self.value(name).or(usual) {
                Some(value) => expanded.extend([value, rest]),
                None => expanded.extend(["$", part]),
            }
            if expanded.len() > EXPANDED_BYTES_MAX {
                return text.to_owned();
            }
        }
        expanded
    }

    /// Every text that results from the possible values of loop variables.
    pub(super) fn alternatives(&self, text: &str) -> Vec<String> {
        let mut all = vec![self.expand(text)];
        for (name, values) in self.known.iter().filter(|(_, values)| values.len() > 1) {
            let uses =
                ["[@]}", "[*]}", "}"].map(|end| format!("${{{name}{end}")).into_iter().chain([format!("${name}")]);
            let uses: Vec<String> = uses.collect();
            if uses.iter().any(|uses| text.contains(uses.as_str())) && all.len() * values.len() <= LOOP_MAX {
                let with = |text: &String| {
                    let of = |value: &String| uses.iter().fold(text.clone(), |text, uses| text.replace(uses, value));
                    values.iter().map(of).collect::<Vec<_>>()
                };
                all = all.iter().flat_map(with).filter(|text| text.len() <= EXPANDED_BYTES_MAX).collect();
            }
        }
        all
    }
}

/// Whether a word begins with the name of a variable and `=`, or `+=`.
pub(super) fn is_variable(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
