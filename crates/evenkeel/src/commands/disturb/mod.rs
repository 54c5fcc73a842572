//! `evenkeel disturb KIND`: one file here and one line in `kinds!` for each kind, the disturbing in the crate `measure`.

mod context;
mod memory;
mod page;
mod quantum;
mod sibling;
mod spinner;
mod storm;
mod values;

use std::path::PathBuf;

use context::Context;

use crate::failure::Outcome;
use crate::show::Out;

/// Make trouble on purpose, of a known shape, alone or around a command
///
/// With `-- CMD` the trouble lasts as long as the command, whose exit code comes through. What was really done is told at the end: on
/// standard error beside a command, else on standard output. Everything is put back, however it ends.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    /// A captured machine: refused with the reason, since nothing can be disturbed in a capture
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    host: Option<PathBuf>,
    #[command(subcommand)]
    kind: Kind,
}

/// One enum of the kinds and its dispatch. A module has `Args`, whose documentation is the kind's help, and `run`.
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

// In the order of `--help`: whole CPUs first, then what is shared, then what interrupts.
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
