//! `completions`: the file that a shell needs to complete our command lines, for packagers and dotfiles.

use clap::{Command, CommandFactory};
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

/// No space after `KNOB=`, because the value follows. bash splits words at `=`, and the value is not completed.
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
    let mut command = listed(&crate::command_line::Args::command());
    clap_complete::generate(args.shell, &mut command, "evenkeel", &mut script);
    let mut completions = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Bash {
        completions.push_str(BASH_SETTINGS);
    }
    out.answer(&Answer { completions: &completions }, || completions.clone())?;
    Ok(exit::WELL)
}

/// The commands that help lists; others are not for users.
fn listed(whole: &Command) -> Command {
    let listed = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("evenkeel").version(env!("CARGO_PKG_VERSION")).args(whole.get_arguments().cloned()).subcommands(listed)
}
