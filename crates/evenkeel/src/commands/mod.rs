//! The commands. Each command has one file, and two lines here: its module, and its row in the table.

mod agent;
mod apply;
mod audit;
mod capacity;
mod capture;
mod completions;
mod confirm;
mod credits;
mod demo;
mod diff;
mod disturb;
mod explain;
mod fleet;
pub(crate) mod guard;
mod guide;
mod helper;
mod history;
mod image;
mod inspect;
mod instances;
mod man;
mod mcp;
pub(crate) mod measure;
mod pack;
mod plan;
pub(crate) mod profile;
pub(crate) mod prove;
mod regions;
mod revert;
mod schema;
mod script;
mod serve;
mod tune;
mod verify;
mod watch;
mod watchdog;

use crate::failure::Outcome;
use crate::show::Out;

/// Defines the enum of all commands, and its dispatch.
/// Each module has `Args`, whose documentation is the command's help, and `run`.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident => $module:ident),* $(,)?) => {
        /// What to do.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($(#[$attribute])* $name(Box<$module::Args>)),*
        }

        impl Command {
            pub(crate) fn run(&self, out: &Out) -> Outcome {
                match self {
                    $(Command::$name(args) => $module::run(args, out)),*
                }
            }
        }
    };
}

// The order of `--help`: first the commands that read, decide and change, then the commands for packagers.
commands! {
    Demo => demo,
    Inspect => inspect,
    Capture => capture,
    Audit => audit,
    Explain => explain,
    Measure => measure,
    Profile => profile,
    Watch => watch,
    Serve => serve,
    Disturb => disturb,
    Prove => prove,
    Tune => tune,
    Guide => guide,
    Plan => plan,
    Diff => diff,
    Apply => apply,
    Confirm => confirm,
    Script => script,
    Verify => verify,
    Revert => revert,
    History => history,
    Image => image,
    Capacity => capacity,
    Pack => pack,
    Regions => regions,
    Instances => instances,
    Credits => credits,
    Fleet => fleet,
    Agent => agent,
    Mcp => mcp,
    Schema => schema,
    Completions => completions,
    Man => man,
    #[command(hide = true)]
    Watchdog => watchdog,
    #[command(hide = true)]
    Guard => guard,
    #[command(hide = true)]
    Helper => helper,
}
