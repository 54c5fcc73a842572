//! Finds sentences that speak against a setting. The clause of the setting and the position of a word in that clause decide.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use super::wide::{self, is_wide};

mod lists;

use lists::{
    ANY_SAID, AVOID, CONDITIONS, FOREIGN, FOREIGN_IN_TWO, GENERAL, GENERAL_IN_TWO, IMPERATIVES, LEADS, MITIGATES,
    ORDERS, ORDERS_IN_TWO, PRONOUNS, REASONS, SPANISH, STATES, STATES_IN_TWO, STOPS, SUBJECTS, TURNS,
};

/// A judgement may be softened by a word that is at most this many words before it.
const SOFTENED_BY_MAX: usize = 8;
/// The longest sentence that may cancel the settings of the previous sentence, in words.
const TAKES_BACK_MAX: usize = 8;

/// How a word speaks against a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A negation or a command: `never`, `refrain`.
    Order,
    /// A verb with an object, which is the setting or something else: `avoid`.
    Avoid,
    /// A judgement: `dangerous`, `hurts`.
    State,
    /// An introduction of another value than the value to set: `default`, `instead of`.
    General,
    /// A negation of another language.
    Foreign,
}

/// A word: where it begins, its text in lower case and without marks, and how the word speaks against a setting.
struct Word {
    at: usize,
    text: String,
    kind: Option<Kind>,
}

/// A part of a sentence.
#[derive(Default)]
struct Clause {
    from: usize,
    to: usize,
    words: Vec<Word>,
    has_setting: bool,
    /// Whether it ends with a colon.
    is_colon: bool,
}

/// For each setting of a sentence, the word that speaks against the setting. `settings` are the positions where settings begin.
pub(super) fn words_against(part: &str, settings: &[usize]) -> Vec<Option<String>> {
    let starts: BTreeSet<usize> = settings.iter().copied().collect();
    let clauses = clauses(part, &starts);
    let is_silent = clauses.iter().all(|clause| clause.words.iter().all(|word| word.kind.is_none()));
    let asks = part.trim_end().ends_with(['?', '\u{ff1f}']).then(|| "?".to_owned());
    let mut known: BTreeMap<usize, wide::Against> = BTreeMap::new();
    let mut one = |at: &usize| {
        let own = clauses.iter().position(|clause| clause.to > *at)?;
        let found = if is_silent { None } else { of_words(&clauses, own, *at) };
        let (from, to) = (clauses[own].from, clauses[own].to);
        let of_wide = known.entry(own).or_insert_with(|| wide::Against::of(&part[from..to]));
        found.or_else(|| of_wide.word(at.saturating_sub(from)))
    };
    settings.iter().map(|at| one(at).or_else(|| asks.clone())).collect()
}

/// The first word of the sentence that speaks against a setting of the clause `own`.
fn of_words(clauses: &[Clause], own: usize, at: usize) -> Option<String> {
    let is_asked = clauses[own].is_imperative();
    let before = clauses[..own].iter().filter_map(|clause| clause.against_later(is_asked));
    let inside = std::iter::once(own).filter_map(|own| clauses[own].against_own(at));
    let after = clauses[own + 1..].iter().filter_map(|clause| clause.against_earlier(is_asked));
    before.chain(inside).chain(after).next()
}

/// Whether a sentence cancels the previous sentence: `Skip it.`, `This is dangerous.`
pub(super) fn takes_back(part: &str) -> Option<String> {
    let clauses = clauses(part, &BTreeSet::new());
    let clause = clauses.iter().find(|clause| !clause.words.is_empty())?;
    let mut words: &[Word] = &clause.words;
    while let [first, rest @ ..] = words
        && ["please", "so", "but", "just", "do", "better"].contains(&first.text.as_str())
    {
        words = rest;
    }
    let (first, last) = (words.first()?, words.last()?);
    if words.len() > TAKES_BACK_MAX {
        return None;
    }
    let is_end = |word: &str| PRONOUNS.contains(&word) || ["so", "recommended", "advised"].contains(&word);
    let is_order = matches!(first.kind, Some(Kind::Order | Kind::Avoid));
    if is_order && (words.len() == 1 || is_end(&last.text)) {
        return Some(first.text.clone());
    }
    if !PRONOUNS.contains(&first.text.as_str()) || words.iter().any(|word| word.kind == Some(Kind::Order)) {
        return None;
    }
    let from = clause.words.len() - words.len();
    (from..clause.words.len())
        .find(|at| clause.words[*at].kind == Some(Kind::State) && !clause.is_softened(*at, 0))
        .map(|at| clause.words[at].text.clone())
}

impl Clause {
    fn is_headed(&self, heads: &[&str]) -> bool {
        self.words.first().is_some_and(|word| heads.contains(&word.text.as_str()))
    }

    /// Whether the clause asks for its setting: `set …`, `so you should use …`.
    fn is_imperative(&self) -> bool {
        let mut words = self.words.iter().map(|word| word.text.as_str()).skip_while(|word| LEADS.contains(word));
        words.next().is_some_and(|word| IMPERATIVES.contains(&word))
    }

    /// The word that speaks against this clause's setting, which begins at `at`.
    fn against_own(&self, at: usize) -> Option<String> {
        let counts = |index: &usize| {
            let word = &self.words[*index];
            match word.kind {
                None => false,
                Some(Kind::Avoid) => word.at < at || !self.has_object(*index),
                Some(Kind::State) => word.at < at || !self.is_softened(*index, at),
                Some(_) => true,
            }
        };
        (0..self.words.len()).find(counts).map(|index| self.said(index))
    }

    /// The word of this clause that speaks against a setting in a later clause.
    /// `is_asked` says whether the later clause asks for the setting.
    fn against_later(&self, is_asked: bool) -> Option<String> {
        if self.is_headed(&CONDITIONS) {
            return None;
        }
        let is_short = self.words.len() <= 2;
        let is_about = self.words.iter().any(|word| SUBJECTS.contains(&word.text.as_str()));
        let counts = |index: &usize| {
            let is_open = is_short || index + 1 == self.words.len();
            match self.words[*index].kind {
                None => false,
                Some(Kind::Foreign) => is_open,
                Some(_) if !is_asked => true,
                Some(Kind::Order | Kind::Avoid) => is_open || self.is_colon,
                Some(_) => self.is_colon && (is_short || is_about),
            }
        };
        (0..self.words.len()).find(counts).map(|index| self.said(index))
    }

    /// The word of this clause that speaks against a setting in an earlier clause.
    /// `is_asked` says whether the earlier clause asks for the setting.
    fn against_earlier(&self, is_asked: bool) -> Option<String> {
        let is_own_order = self.has_setting && self.words.first().is_some_and(|word| word.kind.is_some());
        let mut words = self.words.iter().map(|word| word.text.as_str()).skip_while(|word| *word == "the");
        let is_default = is_asked && words.next().is_some_and(|word| ["default", "defaults"].contains(&word));
        if self.is_headed(&REASONS) || is_own_order || is_default {
            return None;
        }
        let counts = |index: &usize| match self.words[*index].kind {
            None | Some(Kind::Foreign) => false,
            Some(Kind::Avoid) => !self.has_object(*index),
            Some(Kind::State) => !self.is_softened(*index, 0),
            Some(_) => true,
        };
        (0..self.words.len()).find(counts).map(|index| self.said(index))
    }

    /// Whether the verb has its own object: `avoids jitter` has one, and `avoid it` has none.
    fn has_object(&self, index: usize) -> bool {
        self.words.get(index + 1).is_some_and(|word| !PRONOUNS.contains(&word.text.as_str()))
    }

    /// Whether a judgement is about what the setting prevents: `reduces harmful jitter`. Words that begin before `from` do not count.
    fn is_softened(&self, index: usize, from: usize) -> bool {
        let before = self.words[..index].iter().rev().take(SOFTENED_BY_MAX);
        let mut before = before.take_while(|word| word.at >= from && !STOPS.contains(&word.text.as_str()));
        before.any(|word| MITIGATES.contains(&word.text.as_str()))
    }

    /// A word. If the next word belongs to the objection, both words.
    fn said(&self, index: usize) -> String {
        let (first, second) = (&self.words[index], self.words.get(index + 1));
        match second {
            Some(second) if kind_of_one(&first.text).is_none() => format!("{} {}", first.text, second.text),
            _ => first.text.clone(),
        }
    }
}

/// The kinds of single words.
static KINDS: LazyLock<HashMap<&str, Kind>> = LazyLock::new(|| {
    let of = |kind: Kind, words: &'static [&str]| words.iter().map(move |word| (*word, kind));
    let of_english = of(Kind::Order, &ORDERS).chain(of(Kind::Avoid, &AVOID)).chain(of(Kind::State, &STATES));
    of_english.chain(of(Kind::General, &GENERAL)).chain(of(Kind::Foreign, &FOREIGN)).collect()
});

fn kind_of_one(word: &str) -> Option<Kind> {
    KINDS.get(word).copied().or_else(|| word.starts_with("n'").then_some(Kind::Foreign))
}

fn kind_of_two(first: &str, second: &str) -> Option<Kind> {
    let phrases: [(&[[&str; 2]], Kind); 4] = [
        (&ORDERS_IN_TWO, Kind::Order),
        (&STATES_IN_TWO, Kind::State),
        (&GENERAL_IN_TWO, Kind::General),
        (&FOREIGN_IN_TWO, Kind::Foreign),
    ];
    let phrase = phrases.into_iter().find(|(list, _)| list.contains(&[first, second]));
    let is_spanish = || first == "no" && SPANISH.iter().any(|stem| second.starts_with(stem));
    phrase.map(|(_, kind)| kind).or_else(|| is_spanish().then_some(Kind::Foreign))
}

/// The clauses of a sentence. Settings that follow each other stay in one clause.
fn clauses(part: &str, settings: &BTreeSet<usize>) -> Vec<Clause> {
    let (mut all, mut clause, mut is_over, mut end) = (Vec::new(), Clause::default(), false, 0);
    for (at, raw) in pieces(part) {
        let text = plain(raw);
        let begins_setting = settings.range(end..at + raw.len()).next().is_some();
        end = at + raw.len();
        let is_dash = ["-", "--", "\u{2013}", "\u{2014}"].contains(&raw);
        let begins = is_dash || raw.starts_with(['(', '\u{ff08}']) || TURNS.contains(&text.as_str());
        let is_main = clause.is_headed(&CONDITIONS) && !clause.has_setting && begins_main(&clause, &text);
        let is_list = begins_setting && clause.has_setting && !begins;
        if (is_over && !is_list || begins || is_main) && !clause.words.is_empty() {
            clause.to = at;
            all.push(std::mem::replace(&mut clause, Clause { from: at, ..Clause::default() }));
        }
        clause.has_setting |= begins_setting;
        if !text.is_empty() {
            let kind = kind_of_one(&text);
            if let Some(before) = clause.words.last_mut().filter(|before| before.kind.is_none()) {
                before.kind = kind_of_two(&before.text, &text);
            }
            clause.words.push(Word { at, text, kind });
        }
        let bare = raw.trim_end_matches(['*', '_', '"', '\'']);
        // The colon of `name: value` ends no clause.
        is_over = bare.ends_with([',', ';', ':', '.', '!', '?', ')']) && !(begins_setting && bare.ends_with(':'))
            || bare.ends_with(wide::MARKS);
        clause.is_colon = bare.ends_with([':', '\u{ff1a}']);
    }
    clause.to = part.len() + 1;
    all.push(clause);
    if let Some(last) = all.last_mut() {
        last.to = part.len();
    }
    all
}

/// Whether a word begins the main clause after a condition without a comma: `to avoid jitter set …`.
fn begins_main(clause: &Clause, word: &str) -> bool {
    let before = clause.words.last().map_or("", |word| word.text.as_str());
    clause.words.len() > 1
        && IMPERATIVES.contains(&word)
        && !ANY_SAID.contains(&before)
        && clause.words.last().is_some_and(|before| before.kind.is_none())
}

/// The words with their marks, and where each begins. A mark of a script without blanks ends a word.
fn pieces(part: &str) -> Vec<(usize, &str)> {
    let (mut found, mut from) = (Vec::new(), 0);
    let is_end = |letter: char| letter.is_whitespace() || letter == '`';
    for (at, letter) in part.char_indices() {
        let to = at + letter.len_utf8();
        if is_end(letter) {
            found.push((from, &part[from..at]));
            from = to;
        } else if is_wide(letter) && wide::MARKS.contains(&letter) {
            found.push((from, &part[from..to]));
            from = to;
        }
    }
    found.push((from, &part[from..]));
    found.retain(|(_, piece)| !piece.is_empty());
    found
}

fn plain(raw: &str) -> String {
    let word = raw.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase();
    word.replace(['\u{2019}', '\u{2018}'], "'")
}
