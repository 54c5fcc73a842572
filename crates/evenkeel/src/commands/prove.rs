//! `evenkeel prove`: an A/B test of settings on a server under load.
//! Each subcommand has one file; [`trial`] implements `prove` without a subcommand.

pub(super) mod answer;
mod asked;
pub(super) mod boots;
mod budget;
mod compare;
mod design;
pub(super) mod goal;
mod inert;
mod report;
mod resume;
mod trial;
mod workloads;

pub(crate) use design::{DecisionArgs, DesignArgs, guard};
pub(crate) use trial::compare_arms;

use crate::failure::Outcome;
use crate::show::Out;

/// The end of `--help`.
const EXAMPLES: &str = "\
Arm A is the current configuration; arm B applies the settings you name. evenkeel alternates A and B
in random order, tests after every pair, and stops as soon as the result is clear. It prints a
verdict (better, worse, same, undecided, not-engaged) with a confidence interval and caveats.
docs/proving.md explains every option.

Examples:
  evenkeel prove process.timer_slack_ns=1 --workload tick --budget 90s
  sudo evenkeel prove kernel.timer_migration=0 --report out --observe ticks -- ./my-server --port 7777
  sudo evenkeel prove resume        # continue the last trial";

/// Compare two configurations while your server runs under load, then restore all settings
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "evenkeel prove [OPTIONS] [KNOB=VALUE]... [-- <CMD>...]\n       evenkeel prove <COMMAND>",
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    trial: asked::TrialArgs,
}

/// Defines the enum of the other subcommands, and its dispatch.
/// Each module has `Args`, whose documentation is the help, and `run`.
macro_rules! subcommands {
    ($($name:ident => $module:ident),* $(,)?) => {
        #[derive(Clone, Debug, clap::Subcommand)]
        enum What {
            $($name(Box<$module::Args>)),*
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
subcommands! {
    Resume => resume,
    Report => report,
    Compare => compare,
    Boots => boots,
    Workloads => workloads,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    match &args.what {
        Some(what) => what.run(out),
        None => trial::run(&args.trial, out),
    }
}
