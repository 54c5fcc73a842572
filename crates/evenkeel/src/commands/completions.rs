//! `completions`: what a shell needs to complete our command lines; for packagers and dotfiles.

use clap::CommandFactory;
use clap_complete::Shell;
use serde::Serialize;

use crate::exit;
use crate::failure::Outcome;
use crate::show::Out;

/// Print the completions for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Serialize)]
struct Answer<'a> {
    completions: &'a str,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let mut script = Vec::new();
    let mut command = crate::command_line::Args::command();
    clap_complete::generate(args.shell, &mut command, "evenkeel", &mut script);
    let completions = String::from_utf8_lossy(&script);
    out.answer(&Answer { completions: &completions }, || completions.to_string())?;
    Ok(exit::WELL)
}
