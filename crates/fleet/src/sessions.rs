//! The needs of a server's sessions, as CSV with one row for each session, or for several equal ones.

use std::io::Read;

use evenkeel_change::ServiceName;
use serde::Serialize;

use crate::records::{Fields, Records, TableError, TableFault, header};

/// The valid values of the column `cpus`.
const CPUS: &str = "a number of CPUs above 0, at most 10000, such as 0.12";
/// The maximum number of rows.
const ROWS_MAX: u64 = 10_000;
/// The maximum number of sessions of a row.
const COUNT_MAX: u32 = 100_000;
/// The maximum length of a name, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// The maximum of `CPUWeight=` in systemd.
pub(crate) const CPU_WEIGHT_MAX: u32 = 10_000;

/// The needs of one session, and the number of equal sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// The name of the session, or `session N` with the number of its line.
    pub name: String,
    /// The number of equal sessions, including this one; at least 1.
    pub count: u32,
    /// The CPU time that each session uses, in CPUs: 0.12 is 12 % of one.
    pub cpus: f64,
    /// Ticks per second; `null` if the session has no ticks or the rate is not known.
    pub tick_hz: Option<f64>,
    /// The 99th percentile of the work of a tick, in microseconds.
    pub work_us_p99: Option<f64>,
    /// Memory that each session shares with no other session, in MiB.
    pub memory_mib: Option<f64>,
    /// The last-level cache that each session needs, in KiB.
    pub cache_kib: Option<f64>,
    /// Packets per second, sent and received.
    pub packets_per_s: Option<f64>,
    /// The traffic, sent and received, in Mbit/s.
    pub network_mbps: Option<f64>,
    /// The systemd service of the session. For several equal sessions, `{n}` stands for the number of the session, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The weight of the service for the scheduler (`CPUWeight=`), from 1 to 10,000. The default of systemd is 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u32>,
}

/// The placeholder for the number of a session in the name of its service.
const NUMBER: &str = "{n}";

impl Session {
    /// One session of which only these needs are known.
    pub(crate) fn new(name: &str, cpus: f64, memory_mib: Option<f64>) -> Session {
        Session {
            name: name.to_owned(),
            count: 1,
            cpus,
            tick_hz: None,
            work_us_p99: None,
            memory_mib,
            cache_kib: None,
            packets_per_s: None,
            network_mbps: None,
            unit: None,
            cpu_weight: None,
        }
    }

    /// The service of the session with this number, from 1; none if the table names no service.
    pub fn unit(&self, number: u32) -> Option<String> {
        self.unit.as_ref().map(|unit| unit.replace(NUMBER, &number.to_string()))
    }
}

/// The columns of the table. All columns except `cpus` are optional.
const COLUMNS: [&str; 11] = [
    "session",
    "count",
    "cpus",
    "tick_hz",
    "work_us_p99",
    "memory_mib",
    "cache_kib",
    "packets_per_s",
    "network_mbps",
    "unit",
    "cpu_weight",
];

/// Reads a table of sessions: a column `cpus`, and optionally `session`, `count`, `tick_hz`, `work_us_p99`, `memory_mib`, `cache_kib`,
/// `packets_per_s`, `network_mbps`, `unit` and `cpu_weight`.
/// If a field is empty, its value is not known.
///
/// # Errors
/// If a line is wrong, a column is unknown, or there are no sessions.
pub fn read_sessions(source: impl Read) -> Result<Vec<Session>, TableError> {
    let mut records = Records::new(source);
    let names: Vec<String> = header(&mut records)?.iter().map(|name| name.to_lowercase()).collect();
    if let Some(unknown) = names.iter().find(|name| !COLUMNS.contains(&name.as_str())) {
        return Err(records.fault(TableFault::unknown_column(unknown, &COLUMNS)));
    }
    if !names.iter().any(|name| name == "cpus") {
        return Err(TableError::Whole(TableFault::no_column("cpus", &names)));
    }
    let (mut fields, mut sessions) = (Fields::default(), Vec::new());
    while records.next(&mut fields)? {
        records.has_columns(&fields, names.len())?;
        if sessions.len() as u64 == ROWS_MAX {
            return Err(records.fault(TableFault::TooMany { limit: ROWS_MAX, what: "rows" }));
        }
        let session = row(&names, &fields, sessions.len() + 1).map_err(|fault| records.fault(fault))?;
        sessions.push(session);
    }
    if sessions.is_empty() {
        return Err(TableError::Whole(TableFault::Empty("sessions")));
    }
    Ok(sessions)
}

fn row(names: &[String], fields: &Fields, nth: usize) -> Result<Session, TableFault> {
    let text = |column: &str| names.iter().position(|name| name == column).map_or("", |at| fields.get(at));
    let number = |column: &str, expected: &'static str, is_in_range: fn(f64) -> bool| match text(column) {
        "" => Ok(None),
        written => {
            let number = written.parse::<f64>().ok().filter(|number| is_in_range(*number));
            number.map(Some).ok_or_else(|| TableFault::value(column, written, expected))
        }
    };
    let name = match text("session") {
        "" => format!("session {nth}"),
        name if name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control) => name.to_owned(),
        name => return Err(TableFault::value("session", name, "a name of at most 100 letters")),
    };
    let count = match text("count") {
        "" => 1,
        count => count
            .parse::<u32>()
            .ok()
            .filter(|count| (1..=COUNT_MAX).contains(count))
            .ok_or_else(|| TableFault::value("count", count, "a whole number from 1 to 100000"))?,
    };
    let cpus = number("cpus", CPUS, |number| number > 0.0 && number <= 10_000.0)?;
    // Zero is valid: a measured value may be below the resolution of the measurement.
    let from_zero = |number: f64| (0.0..=1e9).contains(&number);
    Ok(Session {
        name,
        count,
        cpus: cpus.ok_or_else(|| TableFault::value("cpus", "", CPUS))?,
        tick_hz: number("tick_hz", "a number of ticks a second above 0, at most 10000", |number| {
            number > 0.0 && number <= 10_000.0
        })?,
        work_us_p99: number("work_us_p99", "a number of microseconds from 0 to 10⁹", from_zero)?,
        memory_mib: number("memory_mib", "a number of MiB from 0 to 10⁹", from_zero)?,
        cache_kib: number("cache_kib", "a number of KiB from 0 to 10⁹", from_zero)?,
        packets_per_s: number("packets_per_s", "a number of packets a second from 0 to 10⁹", from_zero)?,
        network_mbps: number("network_mbps", "a number of Mbit/s from 0 to 10⁷", |number| {
            (0.0..=1e7).contains(&number)
        })?,
        unit: unit(text("unit"), count)?,
        cpu_weight: match text("cpu_weight") {
            "" => None,
            weight => Some(
                weight
                    .parse::<u32>()
                    .ok()
                    .filter(|weight| (1..=CPU_WEIGHT_MAX).contains(weight))
                    .ok_or_else(|| TableFault::value("cpu_weight", weight, "a whole number from 1 to 10000"))?,
            ),
        },
    })
}

/// The pattern of a service's name. The name becomes a path and a line of a unit file, so only valid names of services pass.
fn unit(pattern: &str, count: u32) -> Result<Option<String>, TableFault> {
    if pattern.is_empty() {
        return Ok(None);
    }
    if count > 1 && !pattern.contains(NUMBER) {
        return Err(TableFault::value(
            "unit",
            pattern,
            "a service for each of several sessions, such as arena@{n}.service",
        ));
    }
    // The name with the highest number is the longest. If this name is valid, all names are valid.
    let longest = pattern.replace(NUMBER, &count.to_string());
    match longest.parse::<ServiceName>() {
        Ok(_) => Ok(Some(pattern.to_owned())),
        Err(_) => {
            Err(TableFault::value("unit", pattern, "a systemd service, such as arena.service or arena@{n}.service"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Session>, String> {
        read_sessions(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_is_read_and_what_is_empty_is_not_known() {
        let sessions = read("session,cpus,Count,memory_mib\nlobby,0.5,,\n,0.12,8,300\n").unwrap();
        assert_eq!((sessions[0].name.as_str(), sessions[0].count, sessions[0].memory_mib), ("lobby", 1, None));
        assert_eq!((sessions[1].name.as_str(), sessions[1].count), ("session 2", 8));
        assert_eq!((sessions[1].cpus, sessions[1].memory_mib, sessions[1].tick_hz), (0.12, Some(300.0), None));
    }

    #[test]
    fn a_measured_zero_is_a_number() {
        let one = read("cpus,memory_mib,packets_per_s,network_mbps\n0.1,0,0,0.0\n").unwrap().remove(0);
        assert_eq!((one.memory_mib, one.packets_per_s, one.network_mbps), (Some(0.0), Some(0.0), Some(0.0)));
    }

    #[test]
    fn services_are_numbered_and_are_no_paths() {
        let sessions = read("cpus,count,unit,cpu_weight\n1,3,arena@{n}.service,200\n1,,lobby.service,\n").unwrap();
        assert_eq!(sessions[0].unit(3).as_deref(), Some("arena@3.service"));
        assert_eq!((sessions[0].cpu_weight, sessions[1].cpu_weight), (Some(200), None));
        assert_eq!(sessions[1].unit(1).as_deref(), Some("lobby.service"));
        for (row, what) in [
            ("2,arena.service,", "is not a service for each of several sessions"),
            ("1,arena@.service,", "is not a systemd service"),
            ("2,../{n}.service,", "is not a systemd service"),
            ("2,a/{n}.service,", "is not a systemd service"),
            ("2,arena@{m}{n}.service,", "is not a systemd service"),
            ("1,arena,", "is not a systemd service"),
            ("1,arena.slice,", "is not a systemd service"),
            ("1,,0", "is not a whole number from 1 to 10000"),
            ("1,,10001", "is not a whole number from 1 to 10000"),
        ] {
            let error = read(&format!("cpus,count,unit,cpu_weight\n0.1,{row}\n")).unwrap_err();
            assert!(error.starts_with("line 2: column") && error.contains(what), "{row}: {error}");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let cases = [
            (
                "cpus\n0\n",
                "line 2: column \"cpus\": \"0\" is not a number of CPUs above 0, at most 10000, such as 0.12",
            ),
            (
                "cpus\nnan\n",
                "line 2: column \"cpus\": \"nan\" is not a number of CPUs above 0, at most 10000, such as 0.12",
            ),
            ("cpus,count\n1,0\n", "line 2: column \"count\": \"0\" is not a whole number from 1 to 100000"),
            ("cpus,count\n1\n", "line 2: 1 column, and the first line has 2"),
            (
                "cpus\n20000\n",
                "line 2: column \"cpus\": \"20000\" is not a number of CPUs above 0, at most 10000, such as 0.12",
            ),
            (
                "cpus,memory_mib\n1,1e10\n",
                "line 2: column \"memory_mib\": \"1e10\" is not a number of MiB from 0 to 10⁹",
            ),
            (
                "cpus,tick_hz\n1,0\n",
                "line 2: column \"tick_hz\": \"0\" is not a number of ticks a second above 0, at most 10000",
            ),
            ("session\na\n", "no column cpus; the first line has session"),
            ("cpus,Cpus\n1,2\n", "line 1: \"Cpus\" stands twice"),
            ("cpus\n", "it has no sessions"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).unwrap_err(), expected, "{text:?}");
        }
        let unknown = read("cpus,ram\n1,2\n").unwrap_err();
        assert!(
            unknown.starts_with("line 1: no column is called \"ram\"; the columns are session, count"),
            "{unknown}"
        );
    }
}
