//! `guard`: the process that a meter or a disturber leaves in charge of what it changes. It is told on its standard input what to put
//! back, and does so when that ends, which it does with its owner.

use std::process::Command;

use evenkeel_measure::guard;
use evenkeel_sys::{Root, process};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// Put values back when standard input ends; started by `measure` and `disturb`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, _: &Out) -> Outcome {
    process::leave_session_group();
    let left = guard::stand(&Root::live(), std::io::stdin(), std::io::stdout());
    if left.is_empty() {
        return Ok(exit::WELL);
    }
    // Its owner reads this, where it still lives.
    for line in &left {
        println!("{line}");
    }
    Err(Failure::text(exit::NOT_UNDONE, "put back what was changed", left.join("; ")))
}

/// The command that starts one.
pub(crate) fn program() -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "find this program for its guard", &error))?;
    let mut command = Command::new(program);
    command.arg("guard");
    Ok(command)
}
