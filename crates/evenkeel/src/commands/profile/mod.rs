//! `evenkeel profile WHAT`: one file each here, its page in `show/profile/`, the work in the crate `profile`.

mod imbalance;
mod input;
mod record;
pub(crate) mod ticks;
mod view;

use crate::failure::Outcome;
use crate::show::Out;

/// Where the time of a server's ticks went
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// One enum of what can be asked and its dispatch. A module has `Args`, whose documentation is its help, and `run`.
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
    Imbalance => imbalance,
    Ticks => ticks,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    args.what.run(out)
}
