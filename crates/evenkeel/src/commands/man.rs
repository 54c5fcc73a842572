//! `man`: prints the manual pages for packagers. It generates them from the help texts.

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use serde::Serialize;

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// Print a manual page in roff
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel man | man -l -
  evenkeel man profile record > evenkeel-profile-record.1")]
pub(crate) struct Args {
    /// The page of this command, such as `profile record`; without it, the page of evenkeel itself
    command: Vec<String>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer<'a> {
    man: &'a str,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let mut whole = crate::command_line::Args::command();
    // `build` gives every command its full name and the arguments that all commands share.
    whole.build();
    let page = page_of(&whole, &args.command)?;
    let mut roff = Vec::new();
    let codes = exit::table().to_string();
    // The help of evenkeel itself already ends with the exit codes.
    let end = match page.get_after_help().map(ToString::to_string) {
        Some(own) if own != codes => format!("{own}\n\n{codes}"),
        _ => codes,
    };
    Man::new(page.clone().after_help(end))
        .source(concat!("evenkeel ", env!("CARGO_PKG_VERSION")))
        .manual("evenkeel")
        .render(&mut roff)
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "print the manual page", &error))?;
    let roff = String::from_utf8_lossy(&roff);
    out.answer(&Answer { man: &roff }, || roff.to_string())?;
    Ok(exit::WELL)
}

/// Finds the command that these words name. Each word is a subcommand of the word before it.
fn page_of<'c>(whole: &'c Command, words: &[String]) -> Result<&'c Command, Failure> {
    let mut page = whole;
    for (at, word) in words.iter().enumerate() {
        let Some(next) = page.find_subcommand(word) else {
            let (name, before) = (words[..=at].join(" "), page.get_bin_name().unwrap_or("evenkeel"));
            let error = format!("there is no command {name:?}; `{before} --help` lists them");
            return Err(Failure::text(exit::WRONG_USE, "print the manual page", error));
        };
        page = next;
    }
    Ok(page)
}
