//! What sessions of a server take of a machine, as CSV with one row a session, or a row for a number of equal ones.

use std::io::Read;

use serde::Serialize;

use crate::records::{Fields, Records, TableError, TableFault, header};

/// The most rows.
const ROWS_MAX: u64 = 10_000;
/// The most sessions of a row.
const COUNT_MAX: u32 = 100_000;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 100;

/// What one session takes, and how many there are of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Session {
    /// Its name, or `session N` by its line's number.
    pub name: String,
    /// How many sessions are equal to it; at least 1.
    pub count: u32,
    /// The CPU time that it uses, in CPUs: 0.12 is 12 % of one.
    pub cpus: f64,
    /// Ticks a second, if it has them.
    pub tick_hz: Option<f64>,
    /// Of 100 ticks, 99 work no longer than this, in microseconds.
    pub work_us_p99: Option<f64>,
    /// Memory that it alone has, in MiB.
    pub memory_mib: Option<f64>,
    /// What it needs in the last cache, in KiB.
    pub cache_kib: Option<f64>,
    /// Packets a second, both ways.
    pub packets_per_s: Option<f64>,
    /// The traffic of both ways, in Mbit/s.
    pub network_mbps: Option<f64>,
}

/// The columns. All but `cpus` may be left out.
const COLUMNS: [&str; 9] =
    ["session", "count", "cpus", "tick_hz", "work_us_p99", "memory_mib", "cache_kib", "packets_per_s", "network_mbps"];

/// Reads a table of sessions: a column `cpus`, and optionally `session`, `count`, `tick_hz`, `work_us_p99`, `memory_mib`, `cache_kib`,
/// `packets_per_s` and `network_mbps`. An empty field is not known.
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
        return Err(TableError::Whole(TableFault::NoColumn("cpus")));
    }
    let (mut fields, mut sessions) = (Fields::default(), Vec::new());
    while records.next(&mut fields)? {
        if fields.len() != names.len() {
            let fault = TableFault::Columns { found: fields.len(), expected: names.len() };
            return Err(records.fault(fault));
        }
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
    let number = |column: &str, most: f64, expected: &'static str| match text(column) {
        "" => Ok(None),
        written => {
            let number = written.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= most);
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
    let cpus = number("cpus", 10_000.0, "a number of CPUs above 0, such as 0.12")?;
    Ok(Session {
        name,
        count,
        cpus: cpus.ok_or_else(|| TableFault::value("cpus", "", "a number of CPUs above 0, such as 0.12"))?,
        tick_hz: number("tick_hz", 10_000.0, "a number of ticks a second, at most 10000")?,
        work_us_p99: number("work_us_p99", 1e9, "a number of microseconds above 0")?,
        memory_mib: number("memory_mib", 1e9, "a number of MiB above 0")?,
        cache_kib: number("cache_kib", 1e9, "a number of KiB above 0")?,
        packets_per_s: number("packets_per_s", 1e9, "a number of packets a second above 0")?,
        network_mbps: number("network_mbps", 1e7, "a number of Mbit/s above 0")?,
    })
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
    fn errors_name_the_line_and_the_column() {
        let cases = [
            ("cpus\n0\n", "line 2: column \"cpus\": \"0\" is not a number of CPUs above 0, such as 0.12"),
            ("cpus\nnan\n", "line 2: column \"cpus\": \"nan\" is not a number of CPUs above 0, such as 0.12"),
            ("cpus,count\n1,0\n", "line 2: column \"count\": \"0\" is not a whole number from 1 to 100000"),
            ("cpus,count\n1\n", "line 2: 1 columns, and the first line has 2"),
            ("session\na\n", "no column cpus"),
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
