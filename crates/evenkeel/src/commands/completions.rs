//! `completions`: prints the file that a shell needs to complete evenkeel's command lines, for packagers and dotfiles.

use clap::{Arg, ArgGroup, Command, CommandFactory, Id};
use clap_complete::Shell;
use serde::Serialize;

use crate::exit;
use crate::failure::Outcome;
use crate::show::Out;

/// Print shell completions: commands, options, knobs and workloads
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel completions bash > /etc/bash_completion.d/evenkeel
  source <(evenkeel completions bash)     for this shell alone")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Adds no space after `KNOB=`, because the value follows. bash splits words at `=`, so it cannot complete a value.
const BASH_SETTINGS: &str = r#"
_evenkeel_settings() {
    _evenkeel "$@"
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}
complete -F _evenkeel_settings -o bashdefault -o default evenkeel
"#;

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Answer<'a> {
    completions: &'a str,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let mut script = Vec::new();
    let mut command = listed(&crate::command_line::Args::command()).version(env!("CARGO_PKG_VERSION"));
    clap_complete::generate(args.shell, &mut command, "evenkeel", &mut script);
    let mut completions = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Bash {
        completions.push_str(BASH_SETTINGS);
    }
    out.answer(&Answer { completions: &completions }, || completions.clone())?;
    Ok(exit::WELL)
}

/// The command without hidden arguments and subcommands.
/// These are for other programs, or are spellings of older versions.
fn listed(command: &Command) -> Command {
    let args: Vec<Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).cloned().collect();
    let groups = command.get_groups().map(|group| {
        let has = |id: &&Id| args.iter().any(|arg| arg.get_id() == *id);
        ArgGroup::new(group.get_id()).args(group.get_args().filter(has).cloned()).multiple(true)
    });
    let groups: Vec<ArgGroup> = groups.collect();
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).map(listed);
    // The parser needs names that live until the program ends. The program ends right after this call.
    let name: &'static str = command.get_name().to_owned().leak();
    let made = Command::new(name).args(args.clone()).groups(groups).subcommands(below);
    match command.get_about() {
        Some(about) => made.about(about.clone()),
        None => made,
    }
}
