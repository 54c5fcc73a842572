//! The lines of JSON that control the server and the bots: each command line gets one answer line.
//! Both programs and the programs that start them share these types.
//!
//! The first output line is an event (`ready`, or `failed` from the bots).
//! After it, every input line gets exactly one output line. Quantities are in microseconds unless their name has another unit.
//! Fields may be added. If the meaning of a field changes, [`FORMAT`] changes too.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The number of the format of these lines.
pub const FORMAT: u32 = 1;
/// The longest command line, in bytes.
pub const MAX_LINE_BYTES: usize = 4_096;
/// The largest timer slack that a command can set: one second.
pub const MAX_TIMER_SLACK_NS: u64 = 1_000_000_000;
/// The largest extra work of a tick: one second.
pub const MAX_DELAY_US: u32 = 1_000_000;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case")]
pub enum Command {
    /// Ends the measuring window, answers with its numbers and starts the next one.
    Window,
    /// Sets the tick thread's timer slack, and answers with the value that the kernel then reports. Server only.
    TimerSlackNs {
        /// The new value, 1 to [`MAX_TIMER_SLACK_NS`]. Without a value, the command only reads the current value.
        #[serde(default)]
        value: Option<u64>,
    },
    /// Adds this much busy work to every tick from now on; 0 ends it. Server only.
    DelayUs {
        /// 0 to [`MAX_DELAY_US`].
        value: u32,
    },
    /// Sets the extra work of each tick from now on. Server only.
    WorkUs {
        /// 0 to [`MAX_DELAY_US`].
        value: u32,
    },
    /// Adds this much busy work to one tick in fifty from now on, which affects only the tail. 0 ends it. Server only.
    TailUs {
        /// 0 to [`MAX_DELAY_US`].
        value: u32,
    },
    /// Ends the program.
    Stop,
}

/// Why a line is not a command.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The line is not the JSON of a command.
    #[error("not a command: {0}")]
    Json(#[from] serde_json::Error),
    /// The value is out of range.
    #[error("{name} {value} is not in {low}..={high}")]
    Range {
        /// The command.
        name: &'static str,
        /// The value.
        value: u64,
        /// The smallest valid value.
        low: u64,
        /// The largest valid value.
        high: u64,
    },
}

impl Command {
    /// Parses one line. Any text gives a command with valid values, or an error.
    pub fn parse(line: &str) -> Result<Self, CommandError> {
        let command: Self = serde_json::from_str(line)?;
        let (name, value, low, high) = match command {
            Self::TimerSlackNs { value: Some(value) } => ("timer_slack_ns", value, 1, MAX_TIMER_SLACK_NS),
            Self::DelayUs { value } => ("delay_us", value.into(), 0, MAX_DELAY_US.into()),
            Self::WorkUs { value } => ("work_us", value.into(), 0, MAX_DELAY_US.into()),
            Self::TailUs { value } => ("tail_us", value.into(), 0, MAX_DELAY_US.into()),
            Self::Window | Self::Stop | Self::TimerSlackNs { value: None } => return Ok(command),
        };
        if (low..=high).contains(&value) { Ok(command) } else { Err(CommandError::Range { name, value, low, high }) }
    }
}

/// The server's first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ServerEvent {
    /// The server listens, and ticks from now on.
    Ready {
        /// The address, as `ADDRESS:PORT`.
        addr: std::net::SocketAddr,
        /// Process id.
        pid: u32,
        /// Thread id of the tick thread.
        tick_tid: i32,
        /// Ticks per second.
        tick_hz: u16,
        /// Extra threads that share the work of the tick thread.
        #[serde(default)]
        workers: usize,
        /// Units of work per microsecond, as calibrated at the start.
        work_units_per_us: f64,
        /// [`FORMAT`].
        format: u32,
    },
}

/// The bots' first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum BotsEvent {
    /// All bots have joined, including the probe.
    Ready {
        /// Process id.
        pid: u32,
        /// Bots, without the probe.
        bots: usize,
        /// The server's tick rate.
        tick_hz: u16,
        /// [`FORMAT`].
        format: u32,
    },
    /// Not all bots joined in time, so the program ends.
    Failed {
        /// Players that had joined.
        joined: usize,
        /// Players that should have joined: the bots and the probe.
        wanted: usize,
        /// Why the next bot could not join.
        error: String,
        /// [`FORMAT`].
        format: u32,
    },
}

/// The answer to one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// The answer to `window`, from the server.
    ServerWindow(Box<ServerWindow>),
    /// The answer to `window`, from the bots.
    BotsWindow(Box<BotsWindow>),
    /// The answer to `timer_slack_ns`.
    TimerSlack {
        /// The value read back.
        timer_slack_ns: u64,
    },
    /// The answer to `delay_us`.
    Delay {
        /// The value that was set.
        delay_us: u32,
    },
    /// The answer to `work_us`.
    Work {
        /// The value that was set.
        work_us: u32,
    },
    /// The answer to `tail_us`.
    Tail {
        /// The value that was set.
        tail_us: u32,
    },
    /// The answer to `stop`.
    Stopping {
        /// Always true.
        stopping: bool,
    },
    /// The answer to a line that is not a command, or that failed.
    Error {
        /// The error.
        error: String,
    },
}

/// Quantiles of durations, in microseconds. Without samples the numbers are left out, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The number of samples.
    pub count: u64,
    /// The median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// The 90th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// The 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The largest sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// What the server measured in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerWindow {
    /// Ticks that ran.
    pub ticks: u64,
    /// Ticks that were skipped, because their deadline had passed when the previous tick was done.
    pub missed_ticks: u64,
    /// From the deadline to the start of the tick.
    pub tick_lateness_us: Quantiles,
    /// The time from the deadline to the end of the tick: lateness plus work.
    pub due_to_done_us: Quantiles,
    /// From the start to the end of the tick.
    pub work_us: Quantiles,
    /// Players at the end of the window.
    pub players: u64,
    /// Datagrams received.
    pub packets_in: u64,
    /// Datagrams sent.
    pub packets_out: u64,
    /// Sent bytes, without UDP and IP headers.
    #[serde(default)]
    pub bytes_out: u64,
    /// Datagrams received and refused, for any reason.
    pub dropped_in: u64,
    /// The refused datagrams by reason.
    pub drops: Drops,
    /// Datagrams that the kernel did not accept for sending.
    pub dropped_out: u64,
    /// Datagrams that did not fit into the socket's buffer. Missing if the kernel does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflowed_in: Option<u64>,
    /// Jobs of all ticks.
    #[serde(default)]
    pub jobs: u64,
    /// CPU time of the whole process.
    pub cpu_us: f64,
    /// Length of the window.
    pub span_us: f64,
    /// The maximum time between two tick starts, minus one period: the longest time missing in one piece.
    pub longest_gap_us: f64,
    /// Snapshots sent in full, because the client had no known base for changes.
    #[serde(default)]
    pub snapshots_full: u64,
    /// Shots fired.
    #[serde(default)]
    pub shots: u64,
    /// Shots that hit a player.
    #[serde(default)]
    pub shots_hit: u64,
    /// Shots whose rewind would exceed the remembered 250 ms.
    #[serde(default)]
    pub shots_too_old: u64,
    /// How far the match was rewound for each shot.
    #[serde(default)]
    pub rewound_us: Quantiles,
    /// Resident memory of the process, in KiB. Missing if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_kib: Option<u64>,
    /// The tick's figures since the server started.
    #[serde(default)]
    pub since_start: SinceStart,
    /// The settings that the kernel granted the tick thread, in words.
    #[serde(default)]
    pub thread: String,
}

/// The figures of the tick's clock since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SinceStart {
    /// Ticks that ran.
    pub ticks: u64,
    /// Ticks that were skipped.
    pub missed_ticks: u64,
    /// From the deadline to the start of the tick.
    pub tick_lateness_us: Quantiles,
    /// From the deadline to the end of the tick.
    pub due_to_done_us: Quantiles,
    /// From the start to the end of the tick.
    pub work_us: Quantiles,
    /// How long before a deadline the clock wakes and spins. 0 if it never spins.
    pub margin_us: f64,
}

/// Datagrams refused, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// The bytes are not a datagram of a client.
    pub malformed: u64,
    /// The sender has not joined, or the secret or the cookie is wrong.
    pub unproven: u64,
    /// The sender sent too fast.
    pub rate_limited: u64,
    /// The datagram was received before, or is too old to check.
    pub replayed: u64,
    /// The tick thread was behind.
    pub queue_full: u64,
}

impl Drops {
    /// The number of all refused datagrams.
    pub fn total(&self) -> u64 {
        self.malformed + self.unproven + self.rate_limited + self.replayed + self.queue_full
    }
}

/// What the bots measured in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BotsWindow {
    /// The time from the probe's ping to its pong.
    pub round_trip_us: Quantiles,
    /// The time between two snapshots, over all bots.
    pub snapshot_interval_us: Quantiles,
    /// How far an interval between snapshots differs from the tick period.
    pub snapshot_jitter_us: Quantiles,
    /// Snapshots that the bots received.
    pub snapshots: u64,
    /// Snapshots that never reached a bot, or arrived after a later one.
    pub snapshots_lost: u64,
    /// Bots that received no snapshot at all.
    pub silent_bots: u64,
    /// Pings without a pong within one second.
    pub pings_lost: u64,
    /// Inputs sent.
    pub inputs_sent: u64,
    /// From the due time of a tick to the arrival of its snapshot: how old the match is that a player sees.
    /// The probe's round trips give the server's clock.
    #[serde(default)]
    pub snapshot_age_us: Quantiles,
    /// The time from sending an input to the first snapshot that contains the input.
    #[serde(default)]
    pub input_to_snapshot_us: Quantiles,
    /// Bytes received in snapshots, without UDP and IP headers.
    #[serde(default)]
    pub snapshot_bytes: u64,
    /// Snapshots with errors, or with changes from a snapshot that the bot did not have.
    #[serde(default)]
    pub snapshots_unreadable: u64,
    /// Shots that the bots fired.
    #[serde(default)]
    pub shots: u64,
    /// Shots of the bots that hit a player.
    #[serde(default)]
    pub shots_hit: u64,
    /// Shots of the bots whose rewind would exceed what the server remembers.
    #[serde(default)]
    pub shots_too_old: u64,
    /// How far the server rewound the match for each shot.
    #[serde(default)]
    pub rewound_us: Quantiles,
    /// CPU time of the whole process.
    pub cpu_us: f64,
    /// Length of the window.
    pub span_us: f64,
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, want: Expect) {
        let answer = match Command::parse(line) {
            Ok(command) => format!("{command:?}"),
            Err(error) => format!("error: {error}"),
        };
        want.assert_eq(&answer);
    }

    #[test]
    fn commands() {
        check(r#"{"cmd":"window"}"#, expect!["Window"]);
        check(r#"{"cmd":"stop"}"#, expect!["Stop"]);
        check(r#"{"cmd":"timer_slack_ns","value":1}"#, expect!["TimerSlackNs { value: Some(1) }"]);
        check(r#"{"cmd":"timer_slack_ns","value":null}"#, expect!["TimerSlackNs { value: None }"]);
        check(r#"{"cmd":"timer_slack_ns"}"#, expect!["TimerSlackNs { value: None }"]);
        check(r#"{"cmd":"timer_slack_ns","value":0}"#, expect!["error: timer_slack_ns 0 is not in 1..=1000000000"]);
        check(
            r#"{"cmd":"timer_slack_ns","value":1000000001}"#,
            expect!["error: timer_slack_ns 1000000001 is not in 1..=1000000000"],
        );
        check(
            r#"{"cmd":"timer_slack_ns","value":-1}"#,
            expect!["error: not a command: invalid value: integer `-1`, expected u64"],
        );
        check(r#"{"cmd":"delay_us","value":0}"#, expect!["DelayUs { value: 0 }"]);
        check(r#"{"cmd":"delay_us","value":1000001}"#, expect!["error: delay_us 1000001 is not in 0..=1000000"]);
        check(r#"{"cmd":"work_us","value":306}"#, expect!["WorkUs { value: 306 }"]);
        check(r#"{"cmd":"work_us","value":1000001}"#, expect!["error: work_us 1000001 is not in 0..=1000000"]);
        check(r#"{"cmd":"tail_us","value":1000000}"#, expect!["TailUs { value: 1000000 }"]);
        check(r#"{"cmd":"tail_us","value":1000001}"#, expect!["error: tail_us 1000001 is not in 0..=1000000"]);
        check(r#"{"cmd":"delay_us"}"#, expect!["error: not a command: missing field `value`"]);
        check(
            r#"{"cmd":"reboot"}"#,
            expect![
                "error: not a command: unknown variant `reboot`, expected one of `window`, `timer_slack_ns`, `delay_us`, `work_us`, `tail_us`, `stop` at line 1 column 15"
            ],
        );
        check("[]", expect!["error: not a command: missing field `cmd` at line 1 column 2"]);
        check("", expect!["error: not a command: EOF while parsing a value at line 1 column 0"]);
    }

    #[test]
    fn the_fields_identify_each_kind_of_answer() {
        for line in [
            r#"{"timer_slack_ns":50000}"#,
            r#"{"delay_us":5}"#,
            r#"{"work_us":306}"#,
            r#"{"tail_us":5}"#,
            r#"{"stopping":true}"#,
            r#"{"error":"no"}"#,
        ] {
            let answer: Answer = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_string(&answer).unwrap(), line);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_command_or_an_error(text in ".*", value: u64) {
            let _ = Command::parse(&text);
            let line = format!(r#"{{"cmd":"timer_slack_ns","value":{value}}}"#);
            let in_range = (1..=MAX_TIMER_SLACK_NS).contains(&value);
            prop_assert_eq!(Command::parse(&line).is_ok(), in_range);
        }
    }
}
