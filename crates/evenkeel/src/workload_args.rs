//! The command line of a workload, which is a server and its load. All commands that measure a workload use it.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use evenkeel_workload::command::Command;
use evenkeel_workload::{Entry, Options, Placement, Settable, SimulatedMachine, Workload, WorkloadError};
use serde::Serialize;

use crate::args::Completed;
use crate::command_args::CommandArgs;
use crate::commands::guard::{Guard, Undo};
use crate::exit;
use crate::failure::Failure;
use crate::shell::{quoted, word};

/// The default workload.
const USUAL: &str = "arena";
/// The workload that runs the user's own command.
const COMMAND: &str = "command";

/// The machine of the simulated workload. All restarts of the workload use the same machine.
static SIMULATED: OnceLock<SimulatedMachine> = OnceLock::new();

/// The names of the built-in workloads.
fn names() -> Vec<PossibleValue> {
    evenkeel_workload::ALL.iter().map(|entry| PossibleValue::new(entry.name).help(entry.title)).collect()
}

/// The server to measure, and its load.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct WorkloadArgs {
    /// A built-in server; `prove workloads` lists them [default: arena]
    #[arg(long, value_name = "NAME", value_parser = Completed(names), hide_possible_values = true)]
    pub(crate) workload: Option<String>,
    /// Number of players or connections [default: the workload's own]
    #[arg(long, value_name = "N", alias = "bots", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) players: Option<u32>,
    /// CPUs of server and load: apart, together, free [default: apart]
    #[arg(long, value_enum, value_name = "WHERE", hide_possible_values = true)]
    pub(crate) placement: Option<Where>,
    /// A setting of the workload, such as tick-hz=100; repeatable
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) of_command: CommandArgs,
    /// Your server's command line
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

/// Where server and load run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// On separate CPUs, if two are available
    Apart,
    /// Both on one CPU
    Together,
    /// Wherever the kernel puts them
    Free,
}

impl From<Where> for Placement {
    fn from(place: Where) -> Placement {
        match place {
            Where::Apart => Placement::Apart,
            Where::Together => Placement::Together,
            Where::Free => Placement::Free,
        }
    }
}

impl WorkloadArgs {
    /// Starts the workload, and waits until the workload serves or `stop` is set.
    pub(crate) fn start(&self, seed: u64, stop: &Arc<AtomicBool>) -> Result<Box<dyn Workload>, Failure> {
        let entry = self.entry()?;
        let options = Options { stop: Arc::clone(stop), ..self.options(seed)? };
        let started = match entry.name {
            COMMAND => {
                let settings = self.of_command.settings()?;
                // The server itself ends with evenkeel, but processes that the server started would not end.
                // The guard ends them.
                let mut guard = Guard::start()?;
                guard.hold(&Undo::EndServersOf(std::process::id()))?;
                Command::start(&options, settings).map(|command| Box::new(command.keeping(Box::new(guard))) as _)
            }
            name if !self.command.is_empty() => {
                let tried = format!("start{}", self.command_again());
                let cause = format!("--workload {name} is a built-in server, so evenkeel would not start your command");
                return Err(Failure::text(exit::WRONG_USE, tried, cause).hint("leave out --workload or the command"));
            }
            name if !self.of_command.is_empty() => {
                let cause = format!("these options need your own server (-- CMD), but the workload is {name}");
                return Err(Failure::text(exit::WRONG_USE, format!("use{}", self.of_command.again()), cause));
            }
            _ => Settable::start(entry, &options).map(|workload| Box::new(workload) as _),
        };
        started.map_err(|error| {
            let exit = match error {
                WorkloadError::Options(_) | WorkloadError::Setting(_) => exit::WRONG_USE,
                _ => exit::NOT_POSSIBLE,
            };
            let next = match &error {
                WorkloadError::UnclearTick(none) => Some(crate::commands::measure::tick_hint(&none.why)),
                _ => None,
            };
            let failure = Failure::new(exit, error);
            if let Some(next) = next {
                return failure.hint(next);
            }
            match entry.install {
                Some(install) => failure.hint(format!("install what it needs: {install}")),
                None => failure,
            }
        })
    }

    /// The options of the workload, for this seed.
    pub(crate) fn options(&self, seed: u64) -> Result<Options, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "find the folder of this program", &error))?;
        let pair = |text: &String| {
            let (name, value) = text.split_once('=')?;
            (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        };
        let bad = |text: &String| {
            Failure::text(exit::WRONG_USE, format!("read --set {text}"), "expected NAME=VALUE, such as tick-hz=100")
        };
        let set = self.set.iter().map(|text| pair(text).ok_or_else(|| bad(text))).collect::<Result<_, _>>()?;
        Ok(Options {
            programs: program.parent().map_or_else(PathBuf::new, PathBuf::from),
            seed,
            players: self.players,
            placement: self.place()?.into(),
            command: self.command.clone(),
            set,
            stop: Arc::default(),
            tick_function: Some(crate::tick_function::parse),
            simulated: SIMULATED.get_or_init(SimulatedMachine::default).clone(),
        })
    }

    /// The placement of server and load.
    /// A user's server without a load from evenkeel may use all CPUs, as in production.
    fn place(&self) -> Result<Where, Failure> {
        Ok(self.placement.unwrap_or(if self.is_alone()? { Where::Free } else { Where::Apart }))
    }

    /// Whether the workload is the user's own server, without a load from evenkeel.
    pub(crate) fn is_alone(&self) -> Result<bool, Failure> {
        Ok(self.entry()?.name == COMMAND && !self.of_command.has_load())
    }

    /// The workload that the user chose, or the default workload.
    pub(crate) fn entry(&self) -> Result<&'static Entry, Failure> {
        let usual = if self.command.is_empty() { USUAL } else { COMMAND };
        let name = self.workload.as_deref().unwrap_or(usual);
        let known = || evenkeel_workload::ALL.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        evenkeel_workload::find(name).ok_or_else(|| {
            let cause = format!("unknown workload; known ones: {}", known());
            Failure::text(exit::WRONG_USE, format!("start the workload {name}"), cause)
        })
    }

    /// Whether the workload runs the user's own command.
    pub(crate) fn runs_command(&self) -> bool {
        !self.command.is_empty() || !self.of_command.is_empty()
    }

    /// All arguments in shell syntax. [`workload_of`] parses them.
    pub(crate) fn line(&self) -> String {
        format!("{}{}", self.again(), self.command_again()).trim().to_owned()
    }

    /// The arguments that select the same workload, as words of a command line.
    pub(crate) fn again(&self) -> String {
        let mut words = String::new();
        if let Some(name) = &self.workload {
            words += &format!(" --workload {}", word(name));
        }
        if let Some(players) = self.players {
            words += &format!(" --players {players}");
        }
        if let Some(value) = self.placement.and_then(|place| place.to_possible_value()) {
            words += &format!(" --placement {}", value.get_name());
        }
        for set in &self.set {
            words += &format!(" --set {}", word(set));
        }
        words + &self.of_command.again()
    }

    /// The server's command as ` -- CMD`, for the end of a command line. Empty without a command.
    pub(crate) fn command_again(&self) -> String {
        if self.command.is_empty() { String::new() } else { format!(" -- {}", quoted(&self.command)) }
    }
}

/// The workload that these arguments select. Splits the arguments as a shell would.
pub(crate) fn workload_of(arguments: &str) -> Result<WorkloadArgs, Failure> {
    #[derive(Debug, clap::Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        workload: WorkloadArgs,
    }
    let bad = |cause: String| Failure::text(exit::WRONG_USE, format!("read the workload {arguments}"), cause);
    let words = shlex::split(arguments).ok_or_else(|| bad("a quote is not closed".to_owned()))?;
    let line = <Line as clap::Parser>::try_parse_from(words).map_err(|error| bad(error.to_string()))?;
    Ok(line.workload)
}

/// A workload in the list.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Listed {
    name: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    install: Option<&'static str>,
    settings: Vec<ListedSetting>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct ListedSetting {
    setting: &'static str,
    title: &'static str,
}

/// Every workload.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct List {
    workloads: Vec<Listed>,
}

/// Every workload, with its requirements.
pub(crate) fn list() -> List {
    let listed = |entry: &Entry| Listed {
        name: entry.name,
        title: entry.title,
        install: entry.install,
        settings: entry.settings.iter().map(|(setting, title)| ListedSetting { setting, title }).collect(),
    };
    List { workloads: evenkeel_workload::ALL.iter().map(listed).collect() }
}

impl List {
    /// The list for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for workload in &self.workloads {
            text += &format!("{}: {}\n", workload.name, workload.title);
            if let Some(install) = workload.install {
                text += &format!("  needs: {install}\n");
            }
            for ListedSetting { setting, title } in &workload.settings {
                text += &format!("  --set {setting}: {title}\n");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_alone_is_a_workload_of_its_own() {
        let args = WorkloadArgs { command: vec!["server".into()], ..WorkloadArgs::default() };
        let name = args.entry().map(|entry| entry.name).unwrap_or("command");
        assert_eq!(name, "command");
        assert_eq!(args.command_again(), " -- server");
        assert_eq!(WorkloadArgs::default().entry().unwrap().name, "arena");
        let args = WorkloadArgs { workload: Some("arean".into()), ..WorkloadArgs::default() };
        let message = args.entry().err().unwrap().message();
        assert!(
            message.starts_with("failed to start the workload arean: unknown workload; known ones: arena"),
            "{message}"
        );
    }

    #[test]
    fn a_workload_is_named_again_by_its_arguments() {
        for line in [
            "--workload command --players 9 --ready-line 'up and running' -- server --port 1",
            "--workload simulated --set 'script=my script.json' --set tick-hz=100",
            "",
        ] {
            assert_eq!(workload_of(line).unwrap().line(), line);
        }
        assert_eq!(workload_of("").unwrap().entry().unwrap().name, "arena");
        assert!(workload_of("--colour red").is_err() && workload_of("'").is_err());
    }

    #[test]
    fn settings_of_the_workload_are_pairs() {
        let args = |set: &str| WorkloadArgs { set: vec![set.into()], players: Some(9), ..WorkloadArgs::default() };
        let options = args("tick-hz=100").options(1).unwrap();
        assert_eq!(options.set.get("tick-hz").map(String::as_str), Some("100"));
        assert_eq!(args("tick-hz=100").again(), " --players 9 --set tick-hz=100");
        for bad in ["tick-hz", "=1"] {
            assert!(args(bad).options(1).err().unwrap().message().contains("expected NAME=VALUE"), "{bad}");
        }
    }

    #[test]
    fn a_server_that_no_load_of_ours_is_kept_from_has_all_cpus() {
        use clap::Parser;

        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: WorkloadArgs,
        }
        let table = [
            ("", Placement::Apart, ""),
            ("--workload memcached", Placement::Apart, ""),
            ("-- server", Placement::Free, ""),
            ("--load client -- server", Placement::Apart, ""),
            ("--placement apart -- server", Placement::Apart, " --placement apart"),
            ("--placement together --load client -- server", Placement::Together, " --placement together"),
        ];
        for (line, expected, again) in table {
            let args = Line::try_parse_from(format!("x {line}").split_whitespace()).unwrap().args;
            assert_eq!(args.options(1).unwrap().placement, expected, "{line}");
            assert_eq!(args.again().contains("--placement"), !again.is_empty(), "{line}");
            assert!(args.again().contains(again), "{line}");
        }
    }

    #[test]
    fn the_list_has_them_all() {
        let text = list().text();
        for entry in evenkeel_workload::ALL {
            assert!(text.contains(&format!("{}: ", entry.name)), "{text}");
        }
    }
}
