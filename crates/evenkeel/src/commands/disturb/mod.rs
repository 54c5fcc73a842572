//! `evenkeel disturb KIND`: each kind has one file here and one line in `kinds!`.
//! The crate `measure` has the code that disturbs.

mod context;
mod memory;
mod page;
mod quantum;
mod sibling;
mod spinner;
mod storm;
mod values;

use std::path::PathBuf;

#[cfg(test)]
pub(super) use context::Answer;
use context::Context;

use crate::failure::Outcome;
use crate::show::Out;

/// Make a disturbance of a known shape, alone or while a command runs
///
/// With `-- CMD`, the disturbance lasts as long as the command, and evenkeel exits with the command's exit code.
/// At the end, evenkeel reports the actual disturbance: on standard error with a command, else on standard output.
/// It always restores everything.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  evenkeel disturb spinner --seconds 10s
  sudo evenkeel disturb quantum --share 0.6 -- evenkeel measure quantum
  evenkeel disturb memory -- ./my-server"
)]
pub(crate) struct Args {
    /// A captured machine: refused, because evenkeel can't disturb a capture
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    host: Option<PathBuf>,
    #[command(subcommand)]
    kind: Kind,
}

/// Defines the subcommands. Each module has `Args`, whose documentation is the help, and `run`.
macro_rules! kinds {
    ($($(#[$attribute:meta])* $name:ident => $module:ident),* $(,)?) => {
        #[derive(Debug, clap::Subcommand)]
        enum Kind {
            $($(#[$attribute])* $name($module::Args)),*
        }

        impl Kind {
            fn run(&self, context: &Context<'_>) -> Outcome {
                match self {
                    $(Kind::$name(args) => $module::run(args, context)),*
                }
            }
        }
    };
}

// The order of `--help`: whole CPUs first, then shared resources, then interruptions.
kinds! {
    Quantum => quantum,
    Spinner => spinner,
    Sibling => sibling,
    Memory => memory,
    Storm => storm,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    args.kind.run(&Context::new(out, args.host.as_deref())?)
}
