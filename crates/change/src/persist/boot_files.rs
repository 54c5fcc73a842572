//! The files of an image that contain kernel arguments,
//! and obstacles in them that prevent our argument from taking effect.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_host::facts::BootLoader;
use evenkeel_hostfs::{MAX_FILE_BYTES, Root, Why};

use super::grub_defaults::{self, Origin, Word};
use super::recipe::{BootFile, PersistContext};
use crate::{arguments, edit};

const ENTRIES: &str = "/boot/loader/entries/";
const CMDLINE: &str = "/etc/kernel/cmdline";
const DEFAULTS: &str = "/etc/default/grub";
const DROP_INS: &str = "/etc/default/grub.d/";
/// Where GRUB stores the variables that entries use, such as `$kernelopts`.
const VARIABLES: [&str; 4] =
    ["/boot/grub2/grubenv", "/boot/grub2/grub.cfg", "/boot/grub/grubenv", "/boot/grub/grub.cfg"];

/// The boot files of a root, in the order in which programs read them.
pub fn boot_files(root: &Root) -> Vec<BootFile> {
    let in_folder = |folder: &str, end: &str| {
        let names = root.entries(folder.trim_end_matches('/')).unwrap_or_default().into_iter();
        let paths = names.filter(|name| name.ends_with(end)).map(|name| format!("{folder}{name}"));
        paths.collect::<Vec<_>>()
    };
    let mut paths = in_folder(ENTRIES, ".conf");
    paths.extend([CMDLINE, DEFAULTS].map(str::to_owned));
    paths.extend(in_folder(DROP_INS, ".cfg"));
    paths.extend(VARIABLES.map(str::to_owned));
    let long = || Err(format!("it has more than {MAX_FILE_BYTES} bytes, so it is not a configuration file"));
    let read = |path: String| match root.text(&path) {
        Err(refusal) => match refusal.why {
            Why::NotCaptured | Why::OtherNetwork => None,
            Why::Errno(errno) if errno.is_absence() => None,
            Why::Errno(errno) => Some(BootFile { path, text: Err(errno.to_string()) }),
        },
        Ok(text) => Some(BootFile { path, text: if text.len() > MAX_FILE_BYTES { long() } else { Ok(text) } }),
    };
    paths.into_iter().filter_map(read).collect()
}

/// An obstacle that prevents our argument from taking effect on a machine that boots from the image.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle<'a> {
    /// Another owner sets the argument to a different value.
    Other { argument: String, origin: Origin<'a> },
    /// The word `--` ends the kernel's part of the line before our argument.
    Ended(Origin<'a>),
    /// A later file drops the arguments that our file adds.
    Replaced(Origin<'a>),
    /// evenkeel cannot add our arguments to the file.
    Closed { path: &'a str, why: String },
}

/// The files to which evenkeel adds our arguments.
/// Their paths come from outside of this crate, so we check them:
/// each path must be a file in the folder, and may not name a parent folder.
pub(super) fn entries<'a>(context: &PersistContext<'a>) -> impl Iterator<Item = &'a BootFile> {
    let is_name = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+~@".contains(&byte);
        name.len() > ".conf".len() && name.ends_with(".conf") && name.bytes().all(plain)
    };
    let is_entry = move |path: &str| path == CMDLINE || path.strip_prefix(ENTRIES).is_some_and(is_name);
    // An entry that starts a firmware program has no kernel.
    let has_kernel = |text: &str| {
        let key = |line: &str| line.split_whitespace().next().is_some_and(|key| ["linux", "options"].contains(&key));
        text.lines().any(key)
    };
    context.boot_files.iter().filter(move |file| {
        is_entry(&file.path) && (file.path == CMDLINE || file.text.as_deref().map_or(true, has_kernel))
    })
}

/// The obstacle that prevents `argument` from taking effect. `ours` is the path of our file, if any.
pub(super) fn obstacle<'a>(context: &PersistContext<'a>, argument: &str, ours: &'a str) -> Option<Obstacle<'a>> {
    match context.facts.boot.loader.known() {
        Some(BootLoader::GrubDropIns) => in_defaults(context, argument, ours),
        Some(BootLoader::Grubby) => {
            let variables = Variables::new(context);
            entries(context).find_map(|file| in_entry(context, &variables, file, argument))
        }
        _ => None,
    }
}

/// Whether a word sets our argument to another value, and evenkeel did not add the word.
fn is_other(context: &PersistContext<'_>, word: &str, argument: &str) -> bool {
    arguments::is_same_name(word, argument) && word != argument && !context.own_arguments.iter().any(|own| own == word)
}

fn in_defaults<'a>(context: &PersistContext<'a>, argument: &str, ours: &'a str) -> Option<Obstacle<'a>> {
    let files = context.boot_files.iter().filter(|file| file.path == DEFAULTS || file.path.starts_with(DROP_INS));
    let mut texts = Vec::new();
    for file in files {
        match &file.text {
            Ok(text) => texts.push((file.path.as_str(), text.as_str())),
            Err(why) => {
                return Some(Obstacle::Closed { path: &file.path, why: format!("evenkeel cannot read it: {why}") });
            }
        }
    }
    let line = grub_defaults::line(&texts, ours);
    let other = |word: &Word<'a>| {
        let is_other = is_other(context, &word.text, argument);
        is_other.then(|| Obstacle::Other { argument: word.text.clone(), origin: word.origin })
    };
    let is_end = |word: &&Word<'a>| arguments::is_end(&word.text);
    let ended = line.before.iter().find(is_end).map(|word| Obstacle::Ended(word.origin));
    ended
        .or(line.replaced.map(Obstacle::Replaced))
        .or_else(|| line.before.iter().find_map(other))
        .or_else(|| line.after.iter().take_while(|word| !is_end(word)).find_map(other))
        .or_else(|| line.maybe.iter().find_map(other))
}

fn in_entry<'a>(
    context: &PersistContext<'a>,
    variables: &Variables<'a>,
    file: &'a BootFile,
    argument: &str,
) -> Option<Obstacle<'a>> {
    let path = file.path.as_str();
    let text = match &file.text {
        Ok(text) => text,
        Err(why) => return Some(Obstacle::Closed { path, why: format!("evenkeel cannot read it: {why}") }),
    };
    if let Err(why) = edit::with_arguments(text, &[argument.to_owned()]) {
        return Some(Obstacle::Closed { path, why });
    }
    let mut expanded = BTreeSet::new();
    for (number, (line, body)) in edit::argument_lines(text).into_iter().enumerate() {
        let words = arguments::of_kernel(body).flat_map(|word| {
            let named = word.split('$').skip(1).map(name_of_variable).filter(|name| expanded.insert(*name));
            let values: Vec<_> = named.flat_map(|name| variables.words(name)).collect();
            let itself = Some((word, Origin { path, line })).filter(|_| !word.contains('$'));
            itself.into_iter().chain(values)
        });
        for (word, origin) in words {
            // Our argument goes to the first line, before the `--` of that line.
            if arguments::is_end(word) && number == 0 {
                return Some(Obstacle::Ended(origin));
            }
            if is_other(context, word, argument) {
                return Some(Obstacle::Other { argument: word.to_owned(), origin });
            }
        }
    }
    None
}

/// GRUB's variables, each with all values that its files set. The boot decides which value is used.
struct Variables<'a>(BTreeMap<&'a str, Vec<(&'a str, Origin<'a>)>>);

impl<'a> Variables<'a> {
    fn new(context: &PersistContext<'a>) -> Variables<'a> {
        let files = context.boot_files.iter().filter(|file| VARIABLES.contains(&file.path.as_str()));
        let mut variables: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for file in files {
            let is_environment = file.path.ends_with("env");
            for (at, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
                let line = line.trim();
                let assigned = if is_environment { Some(line) } else { line.strip_prefix("set ").map(str::trim_start) };
                let Some((name, value)) = assigned.and_then(|assigned| assigned.split_once('=')) else { continue };
                let value = value.trim_matches(|quote| !is_environment && "\"'".contains(quote));
                variables.entry(name).or_default().push((value, Origin { path: &file.path, line: at + 1 }));
            }
        }
        Variables(variables)
    }

    /// The words of a variable, each with its origin.
    fn words(&self, name: &str) -> impl Iterator<Item = (&'a str, Origin<'a>)> {
        let values = self.0.get(name).into_iter().flatten();
        values.flat_map(|(value, origin)| arguments::words(value).into_iter().map(|(_, word)| (word, *origin)))
    }
}

fn name_of_variable(text: &str) -> &str {
    let text = text.strip_prefix('{').unwrap_or(text);
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}
