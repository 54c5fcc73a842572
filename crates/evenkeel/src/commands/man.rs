//! `man`: the manual pages, from the same source as `--help`; for packagers.

use clap::CommandFactory;
use clap_mangen::Man;
use serde::Serialize;

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// Print a manual page in roff
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The page of this command; without it, the page of evenkeel itself
    command: Option<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    man: &'a str,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let mut whole = crate::args::Args::command();
    // Gives every command its full name and the arguments that all of them have.
    whole.build();
    let page = match &args.command {
        None => whole,
        Some(name) => match whole.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                let error = format!("there is no command {name:?}; `evenkeel --help` lists them");
                return Err(Failure::text(exit::WRONG_USE, "print the manual page", error));
            }
        },
    };
    let mut roff = Vec::new();
    Man::new(page.after_help(exit::table()))
        .source(concat!("evenkeel ", env!("CARGO_PKG_VERSION")))
        .manual("evenkeel")
        .render(&mut roff)
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "print the manual page", &error))?;
    let roff = String::from_utf8_lossy(&roff);
    out.answer(&Answer { man: &roff }, || roff.to_string())?;
    Ok(exit::WELL)
}
