//! What several command lines have in common. A command's own arguments stand in its file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use evenkeel_host::{AdviceContext, Goal, Server};

/// How answers look.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Looks {
    /// Answer with one JSON object on standard output, errors included
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

/// Whether to ask the cloud about this machine.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct MetadataArgs {
    /// Ask the cloud for the instance type (EC2, Google Cloud, Azure; 100 ms at most), which some tell in no other way
    #[arg(long, conflicts_with_all = ["host", "root"])]
    pub(crate) metadata: bool,
}

/// What the host is wanted for.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct GoalArgs {
    /// What to favour where one thing costs another
    #[arg(long, default_value_t, value_parser = goals())]
    pub(crate) goal: Goal,
    /// What is known of the server, such as pps=3840,cpus=2,players=64
    #[arg(long, value_name = "KEY=N,…", value_parser = Server::from_str, default_value = "", hide_default_value = true)]
    pub(crate) server: Server,
}

impl GoalArgs {
    /// What the advice is for.
    pub(crate) fn context(&self) -> AdviceContext {
        AdviceContext { goal: self.goal, server: self.server }
    }
}

fn goals() -> impl TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(["latency", "throughput", "density"]).try_map(|name| name.parse::<Goal>())
}

/// Where the journal is.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct StateArgs {
    /// Folder of the journal [default: /var/lib/evenkeel or ~/.local/state/evenkeel]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

impl Looks {
    /// The looks that are asked for by arguments which as a whole can't be parsed, so that the error has them too.
    pub(crate) fn of(arguments: impl Iterator<Item = OsString>) -> Looks {
        let mut looks = Looks::default();
        let mut wants_color = false;
        for argument in arguments.take_while(|argument| argument != "--") {
            let argument = argument.to_string_lossy();
            looks.json |= argument == "--json";
            let color = if wants_color { Some(&*argument) } else { argument.strip_prefix("--color=") };
            if let Some(color) = color.and_then(|color| Color::from_str(color, false).ok()) {
                looks.color = color;
            }
            wants_color = argument == "--color";
        }
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_found_in_arguments_that_make_no_sense() {
        let of = |line: &str| {
            let looks = Looks::of(line.split(' ').map(OsString::from));
            (looks.json, looks.color)
        };
        assert_eq!(of("evenkeel frobnicate --json"), (true, Color::Auto));
        assert_eq!(of("evenkeel --color never x --color=always"), (false, Color::Always));
        assert_eq!(of("evenkeel prove -- server --json --color never"), (false, Color::Auto));
        assert_eq!(of("evenkeel --color sometimes"), (false, Color::Auto));
    }
}
