//! `AdviceContext`: the goal of the user, and what the user says about the server. Advice depends on this context, but facts do not.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The property that the advice favors when two properties conflict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Steady ticks and short waits, which cost CPU time and power.
    #[default]
    Latency,
    /// Work per second.
    Throughput,
    /// Sessions per machine.
    Density,
}

/// The goal, and what the user says about the server. evenkeel guesses nothing that the user does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdviceContext {
    /// What the advice favors.
    pub goal: Goal,
    /// The server that the host is for.
    pub server: Server,
}

/// The user's information about the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Server {
    /// Packets per second that the server receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pps: Option<u64>,
    /// CPUs that it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u64>,
    /// Players in all its sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub players: Option<u64>,
}

impl FromStr for Server {
    type Err = String;

    /// Parses `pps=3840,cpus=2,players=64`. Each part is optional and may appear once.
    fn from_str(text: &str) -> Result<Server, String> {
        let mut server = Server::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, number) = part.split_once('=').ok_or_else(|| format!("{part:?} is not KEY=NUMBER"))?;
            let field = match key {
                "pps" => &mut server.pps,
                "cpus" => &mut server.cpus,
                "players" => &mut server.players,
                _ => return Err(format!("unknown key {key:?}: expected pps, cpus or players")),
            };
            let number = number.parse::<u64>().ok().filter(|number| (1..=1_000_000_000).contains(number));
            let number = number.ok_or_else(|| format!("{part:?}: expected a whole number from 1 to 1000000000"))?;
            if field.replace(number).is_some() {
                return Err(format!("{key} is given twice"));
            }
        }
        Ok(server)
    }
}

/// The context with only a goal: nothing is known about the server.
impl From<Goal> for AdviceContext {
    fn from(goal: Goal) -> AdviceContext {
        AdviceContext { goal, server: Server::default() }
    }
}

impl Goal {
    /// Every goal, in the order in which goals are shown.
    pub const ALL: [Goal; 3] = [Goal::Latency, Goal::Throughput, Goal::Density];
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Goal::Latency => "latency",
            Goal::Throughput => "throughput",
            Goal::Density => "density",
        })
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(name: &str) -> Result<Goal, String> {
        let known = || Goal::ALL.map(|goal| goal.to_string()).join(", ");
        Goal::ALL
            .into_iter()
            .find(|goal| goal.to_string() == name)
            .ok_or_else(|| format!("unknown goal {name:?}: expected one of {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_server() {
        let server = |pps, cpus, players| Ok(Server { pps, cpus, players });
        let table = [
            ("", server(None, None, None)),
            ("pps=3840", server(Some(3840), None, None)),
            ("players=64,pps=3840,cpus=2", server(Some(3840), Some(2), Some(64))),
            ("pps", Err("\"pps\" is not KEY=NUMBER".to_owned())),
            ("ticks=50", Err("unknown key \"ticks\": expected pps, cpus or players".to_owned())),
            ("cpus=0", Err("\"cpus=0\": expected a whole number from 1 to 1000000000".to_owned())),
            ("cpus=-1", Err("\"cpus=-1\": expected a whole number from 1 to 1000000000".to_owned())),
            ("cpus=1,cpus=2", Err("cpus is given twice".to_owned())),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }
}
