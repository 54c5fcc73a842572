//! Explains an invalid command line in plain language.
//! The parser's own messages name types of the program, and suggest hidden commands.

use std::error::Error;
use std::ffi::OsString;
use std::net::AddrParseError;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use crate::failure::Failure;

/// Words that other programs use for one of evenkeel's commands.
const MEANT: &[(&str, &str)] = &[
    ("monitor", "watch"),
    ("top", "watch"),
    ("live", "watch"),
    ("dashboard", "serve"),
    ("web", "serve"),
    ("metrics", "serve"),
    ("undo", "revert"),
    ("check", "verify"),
];

/// Converts the parser's `error` about `line` to a failure. `whole` contains all commands.
pub(crate) fn failure(error: &clap::Error, whole: &Command, line: &[OsString]) -> Failure {
    let (command, name) = command_of(whole, line);
    let help = format!("`{name} --help` lists");
    let first = |kind| texts(error, kind).into_iter().next().unwrap_or_default();
    let argument = short(&first(ContextKind::InvalidArg));
    let value = first(ContextKind::InvalidValue);
    let (what, hint) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let asked = first(ContextKind::InvalidSubcommand);
            let what = format!("{name} has no command {asked:?}");
            // Prefer a command with the same meaning to a command with a similar spelling.
            let meant = MEANT.iter().find(|(word, command)| *word == asked && *command != name);
            let near = match meant {
                Some((_, command)) => vec![(*command).to_owned()],
                None => nearest(&asked, &commands(command)),
            };
            let shown: Vec<String> = near.iter().map(|near| format!("`{name} {near}`")).collect();
            (what, did_you_mean(&shown) + &format!("{help} the commands"))
        }
        ErrorKind::MissingSubcommand => {
            (format!("{name} needs a command"), format!("`{name} --help` describes {}", listed(&commands(command))))
        }
        ErrorKind::UnknownArgument => {
            let kind = if argument.starts_with('-') { "option" } else { "argument" };
            let shown = if kind == "option" { nearest(&argument, &options(command)) } else { Vec::new() };
            (format!("{name} takes no {kind} {argument:?}"), did_you_mean(&shown) + &format!("{help} what it takes"))
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            let takes = texts(error, ContextKind::ValidValue);
            let takes = if takes.is_empty() { format!("{help} what it takes") } else { one_of(&takes) };
            (format!("{argument} needs a value"), takes)
        }
        ErrorKind::InvalidValue => {
            let near = did_you_mean(&texts(error, ContextKind::SuggestedValue));
            let mut takes = near + &one_of(&texts(error, ContextKind::ValidValue));
            if argument == "--goal" {
                takes += " here; the goal file of `evenkeel tune` goes to `apply FILE`, `prove --goal FILE` or `capacity --goal FILE`";
            }
            (format!("{argument} does not take {value:?}"), takes)
        }
        ErrorKind::ValueValidation => {
            let cause = error.source().map_or_else(|| "its value is invalid".to_owned(), cause);
            (format!("{argument} does not take {value:?}: {cause}"), format!("{help} what it takes"))
        }
        ErrorKind::MissingRequiredArgument => (
            format!("{name} needs {}", plain(&texts(error, ContextKind::InvalidArg).join(" and "))),
            format!("{help} what it takes"),
        ),
        ErrorKind::ArgumentConflict => {
            let others: Vec<String> = texts(error, ContextKind::PriorArg).iter().map(|other| short(other)).collect();
            let what = match others.iter().all(|other| *other == argument) {
                true => format!("{argument} is given twice"),
                false => format!("{argument} and {} exclude each other", listed(&others)),
            };
            (what, format!("leave one of them out; {help} what goes together"))
        }
        ErrorKind::InvalidUtf8 => ("an argument is not valid UTF-8".to_owned(), format!("{help} what it takes")),
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            (first, format!("{help} what it takes"))
        }
    };
    Failure::wrong_use(what).hint(hint)
}

/// The last command that the line names, and the words of that command on the line.
fn command_of<'c>(whole: &'c Command, line: &[OsString]) -> (&'c Command, String) {
    let (mut command, mut name) = (whole, "evenkeel".to_owned());
    for word in line.iter().skip(1).map(|word| word.to_string_lossy()) {
        match command.find_subcommand(&*word) {
            Some(next) => {
                name = format!("{name} {}", next.get_name());
                command = next;
            }
            None if word.starts_with('-') => {}
            None => break,
        }
    }
    (command, name)
}

/// The subcommands of a command that its help lists.
fn commands(command: &Command) -> Vec<String> {
    let listed = command.get_subcommands().filter(|command| !command.is_hide_set());
    listed.map(|command| command.get_name().to_owned()).collect()
}

/// The words whose spelling is nearest to `asked`; empty if no word is similar.
/// We do not use the parser's own measure, because it ignores the order of letters.
pub(crate) fn nearest(asked: &str, words: &[String]) -> Vec<String> {
    const BEGINNING_CHARS_MIN: usize = 3;
    let begun: Vec<String> = words.iter().filter(|word| word.starts_with(asked)).cloned().collect();
    if asked.chars().count() >= BEGINNING_CHARS_MIN && !begun.is_empty() {
        return begun;
    }
    let edits_max = 1 + asked.chars().count() / 4;
    let by_edits =
        words.iter().map(|word| (strsim::osa_distance(asked, word), word)).filter(|(edits, _)| *edits <= edits_max);
    let fewest = by_edits.clone().map(|(edits, _)| edits).min();
    by_edits.filter(|(edits, _)| Some(*edits) == fewest).map(|(_, word)| word.clone()).collect()
}

/// The options of a command that its help lists.
fn options(command: &Command) -> Vec<String> {
    let listed = command.get_arguments().filter(|arg| !arg.is_hide_set());
    listed.filter_map(Arg::get_long).map(|long| format!("--{long}")).collect()
}

/// An argument in the form that people write:
/// `<--pid <PID,…>|CMD>` becomes `--pid PID,… or CMD`, and `<GUIDE>...` becomes `GUIDE`.
fn plain(arguments: &str) -> String {
    arguments.replace("...", "").replace(">|", "> or ").replace("|-", " or -").replace(['<', '>'], "")
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}

/// A short form of an argument: `--goal <GOAL>` without its value, and `[TRANSACTION]...` without brackets and dots.
fn short(argument: &str) -> String {
    let end = if argument.starts_with('-') { argument.find([' ', '[', '=']) } else { None };
    let argument = end.map_or(argument, |end| &argument[..end]);
    argument.trim_end_matches('.').trim_matches(['[', ']', '<', '>']).to_owned()
}

/// Why a parser of evenkeel, of clap, or of the standard library refused a value.
fn cause(source: &(dyn Error + 'static)) -> String {
    if let Some(number) = source.downcast_ref::<ParseIntError>() {
        return match number.kind() {
            IntErrorKind::PosOverflow => "the number is too large",
            IntErrorKind::NegOverflow => "the number is too small",
            _ => "expected a whole number, 0 or more",
        }
        .to_owned();
    }
    if source.is::<ParseFloatError>() {
        return "expected a number".to_owned();
    }
    if source.is::<AddrParseError>() {
        return "expected ADDRESS:PORT, such as 127.0.0.1:9100".to_owned();
    }
    // The parser prints ranges as Rust does, such as `0 is not in 1..=3600`.
    source.to_string().replace("..=", " to ")
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) }
}

fn one_of(values: &[String]) -> String {
    format!("it takes {}", values.join(", "))
}

fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_named_without_their_values() {
        let table = [
            ("--goal <GOAL>", "--goal"),
            ("--topology[=<FORM>]", "--topology"),
            ("[KNOB=VALUE|PLAN]...", "KNOB=VALUE|PLAN"),
            ("<SHELL>", "SHELL"),
            ("-1", "-1"),
        ];
        for (argument, expected) in table {
            assert_eq!(short(argument), expected);
        }
    }

    #[test]
    fn missing_arguments_have_no_brackets() {
        let table = [
            ("<--pid <PID,…>|--recording <FILE>>", "--pid PID,… or --recording FILE"),
            ("<--pid <PID,…>|CMD>", "--pid PID,… or CMD"),
            ("<GUIDE>...", "GUIDE"),
            ("--node <NAME>", "--node NAME"),
            ("<KNOB=VALUE|PLAN>", "KNOB=VALUE|PLAN"),
        ];
        for (argument, expected) in table {
            assert_eq!(plain(argument), expected);
        }
    }

    #[test]
    fn two_letters_in_the_wrong_order_are_one_edit() {
        let words =
            ["audit", "apply", "disturb", "inspect", "verify", "pack", "plan", "prove", "profile"].map(str::to_owned);
        for (asked, expected) in [
            ("aduit", vec!["audit"]),
            ("aplly", vec!["apply"]),
            ("insepct", vec!["inspect"]),
            ("pakc", vec!["pack"]),
            ("prof", vec!["profile"]),
            ("pro", vec!["prove", "profile"]),
            ("frobnicate", vec![]),
            ("x", vec![]),
        ] {
            assert_eq!(nearest(asked, &words), expected, "{asked}");
        }
    }

    #[test]
    fn numbers_are_refused_in_plain_words() {
        let of = |text: &str| cause(&text.parse::<u8>().unwrap_err());
        assert_eq!(
            [of("x"), of("300"), of("")],
            ["expected a whole number, 0 or more", "the number is too large", "expected a whole number, 0 or more"]
        );
        assert_eq!(cause(&"x".parse::<f64>().unwrap_err()), "expected a number");
    }
}
