//! Arguments that several commands share. A command's own arguments are in its file.

use std::ffi::{OsStr, OsString};
use std::ops::RangeBounds;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use evenkeel_fleet::regions::PROVIDERS;
use evenkeel_host::{AdviceContext, Goal, Server, knobs};
use evenkeel_sys::CpuSet;

/// A list of CPUs, such as `0-3,8`; at least one.
pub(crate) fn cpus(text: &str) -> Result<CpuSet, String> {
    let set = CpuSet::parse_list(text).filter(|set| !set.is_empty());
    set.ok_or_else(|| "expected a list of CPUs, such as 0-3,8".to_owned())
}

/// Parses the name of a public cloud. For Google's cloud, `inspect` prints the name that its metadata service uses.
pub(crate) fn cloud() -> impl TypedValueParser<Value = String> {
    let names = PROVIDERS.map(PossibleValue::new).map(|name| match name.get_name() {
        "google" => name.alias("gcp"),
        _ => name,
    });
    PossibleValuesParser::new(names).map(|name| if name == "gcp" { "google".to_owned() } else { name })
}

/// Parses a number within a range. `expected` describes the valid numbers with unit and range, for the error message.
pub(crate) fn number(text: &str, range: impl RangeBounds<f64>, expected: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && range.contains(number));
    number.ok_or_else(|| expected.to_owned())
}

/// Parses `NAME=N`, the limit of a named number. `example` is a valid text, for the error message.
pub(crate) fn named_limit(text: &str, example: &str) -> Result<(String, f64), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let pair = pair.and_then(|(name, value)| Some((name.to_owned(), number(value, .., "").ok()?)));
    pair.ok_or_else(|| format!("write NAME=N, such as {example}"))
}

/// How answers are printed.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct OutputOptions {
    /// Print one JSON object on standard output, errors included
    #[arg(long, global = true, display_order = 90)]
    pub(crate) json: bool,
    /// When to use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, display_order = 90, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// Which machine to read.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct HostArgs {
    /// Read the captured machine in FILE instead of this one
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub(crate) host: Option<PathBuf>,
    /// Read the root mounted or unpacked at DIR, such as /host in a container
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Whether to ask the cloud's metadata service about this machine.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct MetadataArgs {
    /// Ask the cloud for the instance type (EC2, Google Cloud, Azure; 100 ms at most);
    /// some machines show it in no other way
    #[arg(long, conflicts_with_all = ["host", "root"])]
    pub(crate) metadata: bool,
}

/// The goal and the server of the advice.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct GoalArgs {
    /// What to favour if settings conflict: latency, throughput or density
    #[arg(long, value_name = "WORD", default_value_t, value_parser = goals(), hide_possible_values = true)]
    pub(crate) goal: Goal,
    /// What you know of the server, such as pps=3840,cpus=2,players=64
    #[arg(long, value_name = "KEY=N,…", value_parser = Server::from_str, default_value = "", hide_default_value = true)]
    pub(crate) server: Server,
}

impl GoalArgs {
    /// Returns the goal and the server of the advice.
    pub(crate) fn context(&self) -> AdviceContext {
        AdviceContext { goal: self.goal, server: self.server }
    }
}

fn goals() -> impl TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(["latency", "throughput", "density"]).try_map(|name| name.parse::<Goal>())
}

/// Accepts any text. Shells complete the listed values.
/// The command that reads the text reports an invalid value, and suggests the nearest valid one.
#[derive(Clone, Debug)]
pub(crate) struct Completed(pub(crate) fn() -> Vec<PossibleValue>);

impl TypedValueParser for Completed {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0().into_iter()))
    }
}

/// Every knob.
pub(crate) fn knob_ids() -> Vec<PossibleValue> {
    knobs::ALL.iter().map(|knob| PossibleValue::new(knob.id).help(knob.title)).collect()
}

/// Every knob id, followed by the `=` before its value.
pub(crate) fn settings() -> Vec<PossibleValue> {
    static TEXTS: LazyLock<Vec<String>> =
        LazyLock::new(|| knobs::ALL.iter().map(|knob| format!("{}=", knob.id)).collect());
    TEXTS.iter().zip(knobs::ALL).map(|(text, knob)| PossibleValue::new(text.as_str()).help(knob.title)).collect()
}

/// The folder of the journal.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct StateArgs {
    /// Folder of the journal [default: /var/lib/evenkeel or ~/.local/state/evenkeel]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

impl OutputOptions {
    /// Finds the output options on a command line with errors, so that evenkeel prints the error in the requested form.
    pub(crate) fn from_arguments(arguments: impl Iterator<Item = OsString>) -> OutputOptions {
        let mut output = OutputOptions::default();
        let mut wants_color = false;
        for argument in arguments.take_while(|argument| argument != "--") {
            let argument = argument.to_string_lossy();
            output.json |= argument == "--json";
            let color = if wants_color { Some(&*argument) } else { argument.strip_prefix("--color=") };
            if let Some(color) = color.and_then(|color| Color::from_str(color, false).ok()) {
                output.color = color;
            }
            wants_color = argument == "--color";
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_found_in_arguments_that_make_no_sense() {
        let of = |line: &str| {
            let output = OutputOptions::from_arguments(line.split(' ').map(OsString::from));
            (output.json, output.color)
        };
        assert_eq!(of("evenkeel frobnicate --json"), (true, Color::Auto));
        assert_eq!(of("evenkeel --color never x --color=always"), (false, Color::Always));
        assert_eq!(of("evenkeel prove -- server --json --color never"), (false, Color::Auto));
        assert_eq!(of("evenkeel --color sometimes"), (false, Color::Auto));
    }
}
