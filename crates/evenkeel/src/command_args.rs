//! Options for your own server: when it is ready, its load, how it stops, and where its metrics come from.

use std::time::Duration;

use clap::ValueEnum;
use evenkeel_measure::meters::ticks::choice::Wanted;
use evenkeel_measure::meters::ticks::function::TickFunction;
use evenkeel_sys::foreign_process::Signal;
use evenkeel_workload::command::{Ending, LinesFrom, LoadSettings, Observer, Port, Ready, Runs, Settings};

use crate::exit;
use crate::failure::Failure;
use crate::shell::quoted;
use crate::times::time;

/// Options for the command after `--`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Your server (-- CMD)")]
pub(crate) struct CommandArgs {
    /// Ready when the server listens on PORT, tcp:PORT or udp:PORT
    #[arg(long, value_name = "PORT", group = "ready")]
    ready_port: Option<String>,
    /// Ready when the server prints a line that matches
    #[arg(long, value_name = "REGEX", group = "ready")]
    ready_line: Option<String>,
    /// Ready this long after the server's start [default: 1s]
    #[arg(long, value_name = "TIME", group = "ready", value_parser = time)]
    ready_after: Option<Duration>,
    /// Maximum time until the server is ready [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    ready_limit: Option<Duration>,
    /// The signal that stops the server [default: TERM]
    #[arg(long, value_name = "SIGNAL")]
    end_signal: Option<String>,
    /// Maximum time to stop before SIGKILL [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    end_limit: Option<Duration>,
    /// The load command, such as 'wrk -c16 http://localhost/'
    #[arg(long, value_name = "CMD")]
    load: Option<String>,
    /// Start the load in each window; the window ends with the load
    #[arg(long, requires = "load")]
    load_per_window: bool,
    /// Who prints the metrics: server, stderr (of the server) or load
    #[arg(long, value_enum, value_name = "WHOSE", hide_possible_values = true)]
    lines_from: Option<Whose>,
    /// A metric in JSON lines, such as latency_us.p99, or PATH@RULE
    #[arg(long, value_name = "PATH")]
    json_metric: Vec<String>,
    /// A metric in text lines, such as 'rps=requests/s: ([0-9.]+)'
    #[arg(long, value_name = "NAME=REGEX")]
    regex_metric: Vec<String>,
    /// A Prometheus page, such as http://127.0.0.1:9100/metrics
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// A Prometheus metric, such as 'rtt_seconds{op="get"}@p99'
    #[arg(long, value_name = "SERIES")]
    prometheus_metric: Vec<String>,
    /// Which direction is better: lower, higher, or NAME=lower|higher
    #[arg(long, value_name = "WAY")]
    better: Vec<String>,
    /// Observe from outside: ticks, packets or both; needs root
    #[arg(long, alias = "see", value_enum, value_delimiter = ',', value_name = "WHAT,…", hide_possible_values = true)]
    observe: Vec<ObserverName>,
    /// The tick rate in Hz [default: the rate of the busiest loop]
    #[arg(long, value_name = "HZ", requires = "observe", value_parser = crate::commands::measure::tick_rate)]
    tick: Option<f64>,
    /// The name of the tick thread
    #[arg(long, value_name = "NAME", requires = "observe", alias = "see-thread")]
    tick_thread: Option<String>,
    /// The function that runs once per tick: SYMBOL or BINARY:SYMBOL
    #[arg(long, value_name = "SYMBOL", requires = "observe", conflicts_with_all = ["tick", "tick_thread"], value_parser = crate::tick_function::parse)]
    tick_function: Option<TickFunction>,
}

/// The events of a server that evenkeel observes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ObserverName {
    /// When each tick was due, began and ended, from the kernel's records of its thread
    Ticks,
    /// How evenly its packets go out
    Packets,
}

/// The program whose output lines evenkeel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Whose {
    /// The server's standard output
    Server,
    /// The server's standard error
    Stderr,
    /// The load's standard output
    Load,
}

impl ObserverName {
    fn observer(self) -> Observer {
        match self {
            ObserverName::Ticks => Observer::Ticks,
            ObserverName::Packets => Observer::Packets,
        }
    }
}

impl CommandArgs {
    /// Whether `--load` names a load that evenkeel starts.
    pub(crate) fn has_load(&self) -> bool {
        self.load.is_some()
    }

    /// Whether no option was given.
    pub(crate) fn is_empty(&self) -> bool {
        self.again().is_empty()
    }

    /// The settings of the workload that runs the user's command.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let wrong = |what: String, why: &str| Failure::text(exit::WRONG_USE, what, why);
        let mut settings = Settings::default();
        if let Some(text) = &self.ready_port {
            let port = Port::parse(text);
            let port =
                port.ok_or_else(|| wrong(format!("read --ready-port {text}"), "expected PORT, tcp:PORT or udp:PORT"))?;
            settings.ready = Ready::Port(port);
        } else if let Some(expression) = &self.ready_line {
            settings.ready = Ready::Line(expression.clone());
        } else if let Some(after) = self.ready_after {
            settings.ready = Ready::After(after);
        }
        settings.ready_limit = self.ready_limit.unwrap_or(settings.ready_limit);
        let Ending { mut signal, limit } = settings.ending;
        if let Some(name) = &self.end_signal {
            let known = || Signal::names().collect::<Vec<_>>().join(", ");
            signal = Signal::of_name(name)
                .ok_or_else(|| wrong(format!("read --end-signal {name}"), &format!("expected one of {}", known())))?;
        }
        settings.ending = Ending { signal, limit: self.end_limit.unwrap_or(limit) };
        if let Some(load) = &self.load {
            let runs = if self.load_per_window { Runs::PerWindow } else { Runs::Throughout };
            let parsed = LoadSettings::parse(load, runs);
            settings.load = Some(parsed.map_err(|why| Failure::text(exit::WRONG_USE, "read the load", why))?);
        }
        settings.lines_from = match self.lines_from {
            None => LinesFrom::Auto,
            Some(Whose::Server) => LinesFrom::Server,
            Some(Whose::Stderr) => LinesFrom::ServerErrors,
            Some(Whose::Load) => LinesFrom::Load,
        };
        settings.json_metrics = self.json_metric.clone();
        settings.regex_metrics = self.regex_metric.clone();
        settings.prometheus = self.prometheus.clone();
        settings.prometheus_metrics = self.prometheus_metric.clone();
        settings.better = self.better.clone();
        settings.observe = self.observe.iter().map(|name| name.observer()).collect();
        settings.tick =
            Wanted { tick_hz: self.tick, thread: self.tick_thread.clone(), function: self.tick_function.clone() };
        Ok(settings)
    }

    /// The options that the user gave, as words of a command line. Each word follows a space.
    pub(crate) fn again(&self) -> String {
        let ms = |time: &Duration| format!("{}ms", time.as_millis());
        let mut words: Vec<(&str, String)> = Vec::new();
        let mut one = |name, value: Option<String>| words.extend(value.map(|value| (name, value)));
        one("--ready-port", self.ready_port.clone());
        one("--ready-line", self.ready_line.clone());
        one("--ready-after", self.ready_after.as_ref().map(ms));
        one("--ready-limit", self.ready_limit.as_ref().map(ms));
        one("--end-signal", self.end_signal.clone());
        one("--end-limit", self.end_limit.as_ref().map(ms));
        one("--load", self.load.clone());
        one("--load-per-window", self.load_per_window.then(String::new));
        let whose = self.lines_from.and_then(|whose| Some(whose.to_possible_value()?.get_name().to_owned()));
        one("--lines-from", whose);
        one("--prometheus", self.prometheus.clone());
        let seen: Vec<String> =
            self.observe.iter().filter_map(|seen| Some(seen.to_possible_value()?.get_name().to_owned())).collect();
        one("--observe", Some(seen.join(",")).filter(|seen| !seen.is_empty()));
        one("--tick", self.tick.map(|hz| hz.to_string()));
        one("--tick-thread", self.tick_thread.clone());
        one("--tick-function", self.tick_function.as_ref().map(|function| function.name.clone()));
        let lists = [
            ("--json-metric", &self.json_metric),
            ("--regex-metric", &self.regex_metric),
            ("--prometheus-metric", &self.prometheus_metric),
            ("--better", &self.better),
        ];
        words.extend(lists.iter().flat_map(|(name, list)| list.iter().map(|value| (*name, value.clone()))));
        let shown = |(name, value): &(&str, String)| match value.is_empty() {
            true => format!(" {name}"),
            false => format!(" {name} {}", quoted(std::slice::from_ref(value))),
        };
        words.iter().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: CommandArgs,
    }

    fn parsed(line: &str) -> CommandArgs {
        Line::try_parse_from(shlex::split(&format!("x {line}")).unwrap()).unwrap().command
    }

    #[test]
    fn typed_options_can_be_typed_again() {
        assert!(CommandArgs::default().is_empty());
        for line in [
            "--ready-port udp:7777 --end-signal QUIT",
            "--ready-line '^up$' --ready-limit 500ms --end-limit 1000ms",
            "--observe ticks,packets --tick 50 --tick-thread 'main loop'",
            "--observe ticks --tick-function 'game::World::tick'",
            "--ready-after 250ms --load 'wrk -c \"1 6\"' --load-per-window --lines-from stderr",
            "--prometheus http://127.0.0.1:1/ --json-metric a.b@p99 --json-metric c --prometheus-metric 'x{a=\"b\"}' --better lower",
        ] {
            let again = parsed(line).again();
            assert_eq!(parsed(&again).again(), again, "{line}");
            assert_eq!(shlex::split(&again), shlex::split(line));
        }
    }

    #[test]
    fn unreadable_options_are_reported() {
        for (line, expected) in [
            ("--ready-port http", "failed to read --ready-port http: expected PORT, tcp:PORT or udp:PORT"),
            (
                "--end-signal STOP",
                "failed to read --end-signal STOP: expected one of HUP, INT, QUIT, KILL, USR1, USR2, TERM, WINCH",
            ),
            ("--load \"a 'b\"", "failed to read the load: --load a 'b: a quote is not closed"),
        ] {
            assert_eq!(parsed(line).settings().err().unwrap().message(), expected);
        }
        let settings = parsed("--ready-port 53 --load 'a b' --load-per-window").settings().unwrap();
        assert_eq!(settings.ready, Ready::Port(Port { protocol: None, number: 53 }));
        assert_eq!(settings.load.map(|load| load.runs), Some(Runs::PerWindow));
    }
}
