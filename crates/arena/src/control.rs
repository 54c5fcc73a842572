//! The lines of JSON that drive the server and the bots: one command a line in, one answer a line out. Both programs and
//! whoever starts them share these types.
//!
//! The first line out is an event (`ready`, or from the bots `failed`); after it every line in gets exactly one line out.
//! Quantities are in microseconds unless their name says otherwise. Fields may be added; none changes its meaning without
//! a new [`FORMAT`].

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Number of the format of these lines.
pub const FORMAT: u32 = 1;
/// Longest command line taken, in bytes.
pub const MAX_LINE_BYTES: usize = 4_096;
/// Largest timer slack that may be asked for: one second.
pub const MAX_TIMER_SLACK_NS: u64 = 1_000_000_000;
/// Largest extra work a tick may be given: one second.
pub const MAX_DELAY_US: u32 = 1_000_000;

/// What may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case")]
pub enum Command {
    /// Ends the measuring window, answers with its numbers and starts the next.
    Window,
    /// Sets the tick thread's timer slack, and answers with what the kernel then says it is. Server only.
    TimerSlackNs {
        /// 1 to [`MAX_TIMER_SLACK_NS`]; none only reads.
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
    /// Adds this much busy work to one tick in fifty from now on, which is felt in the tail alone; 0 ends it. Server only.
    TailUs {
        /// 0 to [`MAX_DELAY_US`].
        value: u32,
    },
    /// Ends the program.
    Stop,
}

/// Why a line is no command.
#[derive(Debug, Error)]
pub enum CommandError {
    /// Not the JSON of a command.
    #[error("not a command: {0}")]
    Json(#[from] serde_json::Error),
    /// Too much or too little.
    #[error("{name} {value} is not in {low}..={high}")]
    Range {
        /// The command.
        name: &'static str,
        /// What was asked.
        value: u64,
        /// The least allowed.
        low: u64,
        /// The most allowed.
        high: u64,
    },
}

impl Command {
    /// Reads one line. Total: any text gives a command whose values are in range, or an error.
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
    /// It listens, and ticks from now on.
    Ready {
        /// Where, as `ADDRESS:PORT`.
        addr: std::net::SocketAddr,
        /// Process id.
        pid: u32,
        /// Thread id of the tick thread.
        tick_tid: i32,
        /// Ticks a second.
        tick_hz: u16,
        /// Extra threads that share the work of the tick thread.
        #[serde(default)]
        workers: usize,
        /// Units of work that fit a microsecond, as calibrated at start.
        work_units_per_us: f64,
        /// [`FORMAT`].
        format: u32,
    },
}

/// The bots' first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum BotsEvent {
    /// All have joined, the probe too.
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
    /// Not all could join in time; the program ends.
    Failed {
        /// Players that had joined.
        joined: usize,
        /// Players that should have: the bots and the probe.
        wanted: usize,
        /// Why the next one could not.
        error: String,
        /// [`FORMAT`].
        format: u32,
    },
}

/// One line in answer to one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    /// To `window`, from the server.
    ServerWindow(Box<ServerWindow>),
    /// To `window`, from the bots.
    BotsWindow(Box<BotsWindow>),
    /// To `timer_slack_ns`.
    TimerSlack {
        /// As read back.
        timer_slack_ns: u64,
    },
    /// To `delay_us`.
    Delay {
        /// As set.
        delay_us: u32,
    },
    /// To `work_us`.
    Work {
        /// As set.
        work_us: u32,
    },
    /// To `tail_us`.
    Tail {
        /// As set.
        tail_us: u32,
    },
    /// To `stop`.
    Stopping {
        /// Always true.
        stopping: bool,
    },
    /// To what is no command, or could not be done.
    Error {
        /// What was wrong.
        error: String,
    },
}

/// Quantiles of durations, in microseconds; without samples the numbers are left out, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Samples.
    pub count: u64,
    /// Median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// Nine of ten are at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// 99 of 100 are at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// What the server measured in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerWindow {
    /// Ticks run.
    pub ticks: u64,
    /// Ticks skipped, because their deadline had passed when the tick before was done.
    pub missed_ticks: u64,
    /// Start of the tick after its deadline.
    pub tick_lateness_us: Quantiles,
    /// End of the tick after its deadline: lateness and work together.
    pub due_to_done_us: Quantiles,
    /// From start to end of the tick.
    pub work_us: Quantiles,
    /// Players at the end of the window.
    pub players: u64,
    /// Datagrams received.
    pub packets_in: u64,
    /// Datagrams sent.
    pub packets_out: u64,
    /// Bytes in them, without headers of UDP and IP.
    #[serde(default)]
    pub bytes_out: u64,
    /// Datagrams received and refused, for whatever reason.
    pub dropped_in: u64,
    /// The same by reason.
    pub drops: Drops,
    /// Datagrams the kernel would not take for sending.
    pub dropped_out: u64,
    /// Datagrams that the socket had no room for; missing if the kernel does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflowed_in: Option<u64>,
    /// Jobs that the ticks were cut into.
    #[serde(default)]
    pub jobs: u64,
    /// CPU time of the whole process.
    pub cpu_us: f64,
    /// Length of the window.
    pub span_us: f64,
    /// Most by which a tick began later than one period after the one before it: time missing in one piece.
    pub longest_gap_us: f64,
    /// Snapshots sent in full, for want of one that the client is known to have.
    #[serde(default)]
    pub snapshots_full: u64,
    /// Shots fired.
    #[serde(default)]
    pub shots: u64,
    /// Shots that hit somebody.
    #[serde(default)]
    pub shots_hit: u64,
    /// Shots that were to be rewound by more than the 250 ms that are remembered.
    #[serde(default)]
    pub shots_too_old: u64,
    /// How far the match was rewound for each shot.
    #[serde(default)]
    pub rewound_us: Quantiles,
    /// Memory of the process that is in RAM, in KiB; missing if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_kib: Option<u64>,
    /// The same figures of the tick since the server started.
    #[serde(default)]
    pub since_start: SinceStart,
    /// What the kernel gave the tick thread, in words.
    #[serde(default)]
    pub thread: String,
}

/// What the tick's clock has seen since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SinceStart {
    /// Ticks run.
    pub ticks: u64,
    /// Ticks skipped.
    pub missed_ticks: u64,
    /// Start of the tick after its deadline.
    pub tick_lateness_us: Quantiles,
    /// End of the tick after its deadline.
    pub due_to_done_us: Quantiles,
    /// From start to end of the tick.
    pub work_us: Quantiles,
    /// How long before a deadline the clock wakes; 0 where it does not wait awake.
    pub margin_us: f64,
}

/// Datagrams refused, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// No datagram of a client.
    pub malformed: u64,
    /// Sender not joined, or without its secret, or with a bad cookie.
    pub unproven: u64,
    /// Sent too fast.
    pub rate_limited: u64,
    /// Received before, or too old to be checked.
    pub replayed: u64,
    /// The tick thread was behind.
    pub queue_full: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.malformed + self.unproven + self.rate_limited + self.replayed + self.queue_full
    }
}

/// What the bots measured in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BotsWindow {
    /// From the probe's ping to its pong.
    pub round_trip_us: Quantiles,
    /// Between snapshots, over all bots.
    pub snapshot_interval_us: Quantiles,
    /// How far such an interval is from the tick period.
    pub snapshot_jitter_us: Quantiles,
    /// Snapshots the bots received.
    pub snapshots: u64,
    /// Snapshots whose tick came to a bot never, or after a later one.
    pub snapshots_lost: u64,
    /// Bots that received no snapshot at all.
    pub silent_bots: u64,
    /// Pings without pong after one second.
    pub pings_lost: u64,
    /// Inputs sent.
    pub inputs_sent: u64,
    /// From when a tick was due to when its snapshot arrived: how old the match is that a player sees. The server's clock is known
    /// from the probe's round trips.
    #[serde(default)]
    pub snapshot_age_us: Quantiles,
    /// From sending an input to the first snapshot that has it.
    #[serde(default)]
    pub input_to_snapshot_us: Quantiles,
    /// Bytes received in snapshots, without headers of UDP and IP.
    #[serde(default)]
    pub snapshot_bytes: u64,
    /// Snapshots with changes from one that the bot did not have, or that were broken.
    #[serde(default)]
    pub snapshots_unreadable: u64,
    /// Shots that the bots fired.
    #[serde(default)]
    pub shots: u64,
    /// Those that hit somebody.
    #[serde(default)]
    pub shots_hit: u64,
    /// Those that were to be rewound further than the server remembers.
    #[serde(default)]
    pub shots_too_old: u64,
    /// How far the server rewound the match for each.
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
