//! `evenkeel measure METER`: one file a meter here, its pages in `show/meters/`, the measuring in the crate `measure`.

mod all;
mod bandwidth;
mod clock;
mod compare;
mod context;
mod disk;
mod frequency;
mod gaps;
mod imbalance;
mod memory;
mod quantum;
mod rates;
mod ticks;
mod udp;
mod wake;

pub(crate) use context::{Context, failure};
pub(crate) use ticks::rate as tick_rate;

use std::path::PathBuf;

use evenkeel_hostfs::Root;

use crate::failure::Outcome;
use crate::overdue;
use crate::show::Out;

/// Measure what this machine does to a server
///
/// Each meter says what it saw, under which conditions, and what it lost. `measure all` makes the machine's card in about two minutes;
/// `measure compare` puts two cards side by side.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    /// Write the page as self-contained HTML to FILE too
    #[arg(long, global = true, value_name = "FILE", display_order = 80)]
    report: Option<PathBuf>,
    /// A captured machine: refused with the reason, since time does not pass in a capture
    #[arg(long, global = true, value_name = "FILE", hide = true)]
    host: Option<PathBuf>,
    #[command(subcommand)]
    meter: Meter,
}

/// One enum of the meters and its dispatch. A module has `Args`, whose documentation is the meter's help, and `run`.
macro_rules! meters {
    ($($(#[$attribute:meta])* $name:ident => $module:ident),* $(,)?) => {
        #[derive(Debug, clap::Subcommand)]
        enum Meter {
            $($(#[$attribute])* $name($module::Args)),*
        }

        impl Meter {
            fn run(&self, context: &Context<'_>) -> Outcome {
                match self {
                    $(Meter::$name(args) => $module::run(args, context)),*
                }
            }
        }
    };
}

// In the order of `--help`: time first, then the network, memory, and what is counted; then all of them.
meters! {
    Clock => clock,
    Wake => wake,
    Gaps => gaps,
    Quantum => quantum,
    Udp => udp,
    Bandwidth => bandwidth,
    Memory => memory,
    Frequency => frequency,
    Disk => disk,
    Imbalance => imbalance,
    Rates => rates,
    Ticks => ticks,
    All => all,
    Compare => compare,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if args.host.is_none() {
        overdue::settle_own(&Root::live(), out);
    }
    let context = Context::new(out, args.report.as_deref(), args.host.as_deref())?;
    args.meter.run(&context)
}
