//! Reads the command line.
//! evenkeel does not execute an old spelling of an option, because the option may have another meaning today.
//! The error shows today's spelling.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser};

use crate::args::OutputOptions;
use crate::commands;
use crate::exit;
use crate::failure::Failure;
use crate::help_text;
use crate::shell::word;
use crate::wrong_use;

/// The text of `--version`. In a release it has the commit and the commit's date.
const VERSION: &str = match option_env!("EVENKEEL_VERSION") {
    Some(version) => version,
    None => concat!(env!("CARGO_PKG_VERSION"), " (not a release)"),
};

/// Keeps latency-sensitive servers steady on rented Linux machines
///
/// Shows what this machine is, lists the settings worth changing and why, measures
/// on your own server whether each one helps, and undoes every change when asked.
/// Begin with `evenkeel inspect` and `evenkeel audit`: both only read.
#[derive(Debug, Parser)]
#[command(version = VERSION, max_term_width = help_text::WIDTH_MAX, after_help = exit::table(), arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    #[command(subcommand)]
    pub(crate) command: commands::Command,
}

/// Why there is nothing to run.
pub(crate) enum Refused {
    /// The help or version text. A command line without a command also shows the help.
    Help(clap::Error),
    /// This version does not accept the command line.
    WrongUse(Failure),
}

/// An option that selected a mode of a command in older versions, and the subcommand that replaced it.
/// The values of the option became arguments of the subcommand.
struct Mode {
    command: &'static str,
    option: &'static str,
    now: &'static [&'static str],
}

/// If a command line has several of these options, the first option in this list applies.
/// `--boots-status` is before `--boots`, because users could not combine it with the options of `--boots`.
const MODES: [Mode; 8] = [
    Mode { command: "prove", option: "list-workloads", now: &["workloads"] },
    Mode { command: "prove", option: "compare", now: &["compare"] },
    Mode { command: "prove", option: "from", now: &["report"] },
    Mode { command: "prove", option: "resume", now: &["resume"] },
    Mode { command: "prove", option: "boots-status", now: &["boots", "status"] },
    Mode { command: "prove", option: "boots-cancel", now: &["boots", "cancel"] },
    Mode { command: "prove", option: "boots", now: &["boots", "start"] },
    Mode { command: "tune", option: "resume", now: &["resume"] },
];

/// Options that existed only with `--boots`, each with its name today.
const OF_BOOTS: [(&str, &str); 5] = [
    ("boots-settle", "boots_settle"),
    ("boots-windows", "boots_windows"),
    ("reboot", "reboot"),
    ("plan-only", "plan_only"),
    ("host", "host"),
];

/// Parses the arguments of this process.
pub(crate) fn read() -> Result<Args, Refused> {
    let line = of_old_unit(std::env::args_os().collect());
    let command = help_text::fit(Args::command(), help_text::width());
    let mut matches = match command.try_get_matches_from(&line) {
        Ok(matches) => matches,
        Err(error) => {
            return Err(match old_spelling(&line) {
                Some(failure) => Refused::WrongUse(failure),
                None => refused(error, &line),
            });
        }
    };
    if let Some(failure) = options_before_subcommand(&matches) {
        return Err(Refused::WrongUse(failure));
    }
    Args::from_arg_matches_mut(&mut matches).map_err(|error| refused(error.format(&mut Args::command()), &line))
}

fn refused(error: clap::Error, line: &[OsString]) -> Refused {
    let is_help = !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help { Refused::Help(error) } else { Refused::WrongUse(wrong_use::failure(&error, &built(), line)) }
}

/// Translates the command line of a systemd unit that an older version installed for a trial over boots.
/// Nobody would read an error of that unit.
fn of_old_unit(mut line: Vec<OsString>) -> Vec<OsString> {
    if line.get(1).is_some_and(|word| word == "prove") && line.get(2).is_some_and(|word| word == "--boots-resume") {
        line.splice(2..3, ["boots", "resume"].map(OsString::from)).for_each(drop);
    }
    line
}

/// The error with today's spelling, if the line has an option that used to select a mode.
fn old_spelling(line: &[OsString]) -> Option<Failure> {
    let old = with_old_options(Args::command());
    let matches = old.try_get_matches_from(line).ok()?;
    let (command, own) = matches.subcommand()?;
    let is_there = |name: &str| own.try_contains_id(name).is_ok_and(|is_there| is_there) && is_typed(own, name);
    let of_boots = || OF_BOOTS.iter().any(|(option, _)| is_there(option)).then_some("boots");
    let of_command = |mode: &&Mode| mode.command == command;
    let mode = MODES.iter().filter(of_command).find(|mode| is_there(mode.option) || of_boots() == Some(mode.option))?;
    let typed = MODES
        .iter()
        .map(|mode| mode.option)
        .chain(OF_BOOTS.map(|(option, _)| option))
        .find(|option| is_there(option))?;
    if typed == "host" && !is_there(mode.option) {
        let why = "time does not pass in a captured machine; run it on the machine itself";
        return Some(
            Failure::text(exit::WRONG_USE, format!("run {command} with --host"), why).hint(
                "`evenkeel prove boots start KNOB=VALUE --plan-only --host FILE` plans a trial over reboots there",
            ),
        );
    }
    let whole = built();
    let (before, target) = (whole.find_subcommand(command)?, subcommand(&whole, command, mode.now)?);
    let mut words = words_of(before, own, target);
    let values = values(own, mode.option);
    match target.get_arguments().find(|arg| arg.get_id() == mode.option) {
        Some(arg) => words.options.extend(option_words(arg, &values)),
        None => words.positional.splice(0..0, values).for_each(drop),
    }
    for (option, id) in OF_BOOTS.iter().filter(|(option, _)| is_there(option)) {
        let arg = target.get_arguments().find(|arg| arg.get_id() == id);
        words.options.extend(arg.into_iter().flat_map(|arg| option_words(arg, &values_of(own, option))));
    }
    let now = mode.now.join(" ");
    Some(respelled(&format!("`{command} --{typed}` is now `{command} {now}`"), command, mode.now, &words))
}

/// An error if `prove` or `tune` has options before its subcommand, where they would have no effect.
fn options_before_subcommand(matches: &ArgMatches) -> Option<Failure> {
    let (command, own) = matches.subcommand().filter(|(command, _)| ["prove", "tune"].contains(command))?;
    let whole = built();
    let before = whole.find_subcommand(command)?;
    before.get_arguments().find(|arg| !arg.is_global_set() && is_typed(own, arg.get_id().as_str()))?;
    let (mut path, mut inner, mut target) = (Vec::new(), own, before);
    while let Some((name, matches)) = inner.subcommand() {
        target = target.find_subcommand(name)?;
        (inner, path) = (matches, [path, vec![name]].concat());
    }
    if path.is_empty() {
        return None;
    }
    let mut words = words_of(before, own, target);
    let inside = words_of(target, inner, target);
    words
        .options
        .extend(inside.options.into_iter().filter(|option| !words.options.contains(option)).collect::<Vec<_>>());
    words.positional.extend(inside.positional);
    words.last.extend(inside.last);
    let what = format!("`{}` stands right after `{command}`, before all options", path.join(" "));
    Some(respelled(&what, command, &path, &words))
}

fn respelled(what: &str, command: &str, path: &[&str], words: &Words) -> Failure {
    Failure::wrong_use(what.to_owned()).hint(format!("type: evenkeel {command} {}{}", path.join(" "), words.text()))
}

/// All commands, each with the global arguments that it inherits.
fn built() -> Command {
    let mut whole = Args::command();
    whole.build();
    whole
}

fn subcommand<'c>(whole: &'c Command, command: &str, path: &[&str]) -> Option<&'c Command> {
    path.iter().try_fold(whole.find_subcommand(command)?, |command, name| command.find_subcommand(name))
}

/// The commands of older versions: each mode is an option, and its value is not checked.
fn with_old_options(whole: Command) -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let one = |name: &'static str| Arg::new(name).long(name).num_args(0..=1).action(ArgAction::Append);
    let prove = |command: Command| {
        command
            .args(["list-workloads", "boots-status", "boots-cancel", "reboot", "plan-only"].map(flag))
            .args(["from", "resume", "boots", "boots-settle", "boots-windows", "host"].map(one))
            .arg(Arg::new("compare").long("compare").num_args(0..).action(ArgAction::Append))
    };
    // Accept any value, so that the error shows the new spelling even if the value is invalid.
    let any_value = |arg: Arg| match arg.get_action().takes_values() {
        true => arg.value_parser(clap::value_parser!(OsString)),
        false => arg,
    };
    whole
        .mut_subcommand("prove", |command| prove(command.mut_args(any_value)))
        .mut_subcommand("tune", |command| command.mut_args(any_value).arg(one("resume")))
}

/// The words of a command line after the names of its commands.
#[derive(Default)]
struct Words {
    options: Vec<String>,
    positional: Vec<String>,
    /// The words after `--`.
    last: Vec<String>,
}

impl Words {
    fn text(&self) -> String {
        let words = |words: &[String]| words.iter().map(|text| format!(" {}", word(text))).collect::<String>();
        let options: String = self.options.iter().map(|option| format!(" {option}")).collect();
        let last = if self.last.is_empty() { String::new() } else { format!(" --{}", words(&self.last)) };
        words(&self.positional) + &options + &last
    }
}

/// The words that the user typed for `command`. Leaves out arguments that `target` does not have.
fn words_of(command: &Command, typed: &ArgMatches, target: &Command) -> Words {
    let mut words = Words::default();
    for arg in command.get_arguments().filter(|arg| is_typed(typed, arg.get_id().as_str())) {
        let Some(now) = target.get_arguments().find(|other| other.get_id() == arg.get_id()) else { continue };
        let values = values_of(typed, arg.get_id().as_str());
        match (now.is_positional(), now.is_last_set()) {
            (true, true) => words.last.extend(values),
            (true, false) => words.positional.extend(values),
            (false, _) => words.options.extend(option_words(now, &values)),
        }
    }
    words
}

/// The option and each of its values, as words. A flag has no value.
fn option_words(arg: &Arg, values: &[String]) -> Vec<String> {
    let name = arg.get_long().unwrap_or_default();
    match arg.get_action().takes_values() {
        false => vec![format!("--{name}")],
        true => values.iter().map(|value| format!("--{name} {}", word(value))).collect(),
    }
}

/// The values of an option; empty for a flag.
fn values(typed: &ArgMatches, name: &str) -> Vec<String> {
    match typed.try_get_one::<bool>(name) {
        Ok(Some(_)) => Vec::new(),
        _ => values_of(typed, name),
    }
}

fn values_of(typed: &ArgMatches, name: &str) -> Vec<String> {
    let raw = typed.try_get_raw(name).ok().flatten();
    raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
}

fn is_typed(matches: &ArgMatches, name: &str) -> bool {
    matches.try_contains_id(name).is_ok() && matches.value_source(name) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
