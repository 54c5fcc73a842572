//! The program `evenkeel`: it parses the command line, runs the command and exits. Other files contain everything else.

mod args;
mod arms;
mod cluster;
mod command_args;
mod command_line;
mod commands;
#[cfg(test)]
mod documents;
mod exit;
mod experiment;
mod failure;
mod help_text;
mod host;
mod host_command;
mod needs;
mod output_file;
mod overdue;
mod progress;
mod readings;
mod report;
mod selection;
mod session_files;
mod shell;
mod show;
mod smallest_effect;
mod state;
mod store_failure;
mod stored_workload;
mod tick_function;
mod times;
mod user_table;
mod view;
mod waivers;
mod watch_args;
mod workload_args;
mod workload_settings;
mod wrong_use;

use std::process::ExitCode;

use crate::command_line::Refused;
use crate::failure::Failure;
use crate::show::Out;

fn main() -> ExitCode {
    let before_parsing = args::OutputOptions::from_arguments(std::env::args_os());
    let exit = match command_line::read() {
        Ok(args) => {
            let out = Out::new(args.output);
            match refuse_borrowed_rights().and_then(|()| args.command.run(&out)) {
                Ok(exit) => exit,
                Err(failure) => out.failure(&failure),
            }
        }
        Err(Refused::Help(help)) => Out::new(before_parsing).help(&help),
        Err(Refused::WrongUse(failure)) => Out::new(before_parsing).failure(&failure),
    };
    ExitCode::from(exit.code)
}

/// Refuses to run with the set-user-ID bit.
/// With this bit, any user could read any file with `--host`, and change any setting.
fn refuse_borrowed_rights() -> Result<(), Failure> {
    if evenkeel_sys::process::is_set_id() {
        let error =
            anyhow::anyhow!("run with more rights than its user has: the program file is set-user-ID or set-group-ID");
        return Err(Failure::new(exit::NOT_POSSIBLE, error).hint("remove the bit (chmod ug-s) and use sudo"));
    }
    Ok(())
}
