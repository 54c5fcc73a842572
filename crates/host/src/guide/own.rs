//! evenkeel's own plans and goal files. The settings are the list `settings` of the outermost object. The other lines are evidence.

use super::line::{Ask, Content, Skip};
use super::names;

pub(super) fn read(text: &str) -> Vec<Content> {
    let mut scan = Scan { depth: 0, key: String::new(), is_in_list: false };
    let (mut contents, mut string, mut is_escaped): (Vec<Content>, Option<String>, bool) = (Vec::new(), None, false);
    for line in text.lines() {
        let (mut asks, mut bad): (Vec<Ask>, Option<String>) = (Vec::new(), None);
        for letter in line.chars() {
            match (&mut string, letter) {
                (Some(open), letter) if is_escaped => {
                    open.push(letter);
                    is_escaped = false;
                }
                (Some(_), '\\') => is_escaped = true,
                (Some(_), '"') => {
                    let whole = string.take().unwrap_or_default();
                    match scan.string(&whole) {
                        Some(Ok(ask)) => asks.push(ask),
                        Some(Err(why)) => bad = Some(why),
                        None => {}
                    }
                }
                (Some(open), letter) if open.len() < 4096 => open.push(letter),
                (Some(_), _) => {}
                (None, '"') => string = Some(String::new()),
                (None, letter) => scan.sign(letter),
            }
        }
        contents.push(match (asks.is_empty(), bad) {
            (false, why) => {
                asks.extend(why.map(Ask::not_understood));
                Content::settings(asks)
            }
            (true, Some(why)) => Content::NotUnderstood(why),
            (true, None) if line.trim().is_empty() => Content::NotASetting(Skip::Blank),
            (true, None) => Content::NotASetting(Skip::Structure),
        });
    }
    contents
}

struct Scan {
    depth: usize,
    key: String,
    is_in_list: bool,
}

impl Scan {
    fn sign(&mut self, letter: char) {
        match letter {
            '{' => self.depth += 1,
            '[' => {
                self.is_in_list |= self.depth == 1 && self.key == "settings";
                self.depth += 1;
            }
            '}' => self.depth = self.depth.saturating_sub(1),
            ']' => {
                self.depth = self.depth.saturating_sub(1);
                self.is_in_list &= self.depth > 1;
            }
            _ => {}
        }
    }

    /// A complete string: a key of the outermost object, or a setting.
    fn string(&mut self, text: &str) -> Option<Result<Ask, String>> {
        if self.is_in_list {
            let ask = text.split_once('=').and_then(|(key, value)| names::by_key(key, value));
            return Some(ask.ok_or_else(|| "it is not a setting of the host".to_owned()));
        }
        if self.depth == 1 {
            text.clone_into(&mut self.key);
        }
        None
    }
}
