//! `evenkeel profile WHAT`: each question has one file here, and its page in `show/profile/`.
//! The crate `profile` contains the code that answers.

pub(crate) mod begins;
pub(crate) mod diff;
pub(super) mod imbalance;
mod input;
mod now;
mod pick;
pub(super) mod record;
pub(super) mod scopes;
mod source;
pub(super) mod switches;
pub(crate) mod ticks;
pub(crate) mod view;
mod written;

use crate::failure::Outcome;
use crate::show::Out;

/// Record where a server's time goes, and answer questions about the recording
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  sudo evenkeel profile record --pid 1234 --seconds 30s
  evenkeel profile view perf.data --output graph.svg
  sudo evenkeel profile ticks --pid 1234"
)]
pub(crate) struct Args {
    /// Neither read nor write the cache of function names
    #[arg(long, global = true, display_order = 81)]
    no_cache: bool,
    #[command(subcommand)]
    what: What,
}

/// The subcommands and their dispatch. Each module has `Args`, whose doc comment is the help, and `run`.
macro_rules! questions {
    ($($name:ident => $module:ident),* $(,)?) => {
        #[derive(Debug, clap::Subcommand)]
        enum What {
            $($name($module::Args)),*
        }

        impl What {
            fn run(&self, out: &Out) -> Outcome {
                match self {
                    $(What::$name(args) => $module::run(args, out)),*
                }
            }
        }
    };
}

// In the order of `--help`.
questions! {
    Record => record,
    View => view,
    Diff => diff,
    Switches => switches,
    Imbalance => imbalance,
    Scopes => scopes,
    Ticks => ticks,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    input::keep_names_in(if args.no_cache { None } else { input::names_folder() });
    args.what.run(out)
}
