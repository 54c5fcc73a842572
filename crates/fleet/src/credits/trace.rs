//! CPU use over time, as CSV: from a monitoring system, or from `/proc/stat`.

use std::io::Read;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::asked::CreditsError;
use crate::records::{Fields, Records, TableError, TableFault, header};

/// The maximum number of rows: one for each second of a month.
const ROWS_MAX: u64 = 3_000_000;
/// The maximum number of CPUs that a machine may use.
const CPUS_MAX: f64 = 10_000.0;

/// The shortest stretch. Credits count minutes, and a month of shorter stretches would take long to compute.
const STRETCH_S_MIN: f64 = 1.0;
/// The longest stretch: 30 million years.
const STRETCH_S_MAX: f64 = 1e15;
/// The minimum length of a trace: a credit is one minute of one CPU.
const SECONDS_MIN: f64 = 60.0;
/// A time of at least this number is in milliseconds since 1970.
/// This number of milliseconds is in 1973; this number of seconds would be in the year 5138.
const MILLISECONDS_MIN: f64 = 1e11;
/// The latest valid time in milliseconds, in the year 5138.
const MILLISECONDS_MAX: f64 = 1e14;
/// Monitoring may round a fully used machine up to more than 100 %.
const PERCENT_MAX: f64 = 101.0;

/// Names of columns; case does not matter.
const TIME: [&str; 2] = ["time", "timestamp"];
const SECONDS: [&str; 2] = ["seconds", "time_s"];
const CPUS: [&str; 2] = ["cpus", "cpus_used"];
/// The last two names are from CloudWatch and from Azure Monitor.
const PERCENT: [&str; 7] =
    ["cpu_percent", "cpuutilization", "cpu", "percent", "average", "percentage cpu", "percentage cpu (avg)"];

const A_TIME: &str =
    "a time: seconds, milliseconds since 1970, 2026-11-26T10:00:00Z, or 2026-11-26 10:00:00 (taken as UTC)";
const OF_SECONDS: &str = "a number of seconds below 10¹¹, or a time such as 2026-11-26T10:00:00Z";

/// The CPU use of a machine, in stretches that follow each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Each stretch: its length in seconds, and the CPUs in use.
    pub(super) stretches: Vec<(f64, f64)>,
    /// The maximum number of CPUs in use, before stretches were joined.
    cpus_max: f64,
    /// The share of CPU time that the hypervisor gave to others, if that was observed.
    pub(super) steal_share: Option<f64>,
    /// How well a store shows the time. All of it, unless the trace comes from a store.
    pub(super) stored: StoredTime,
}

/// The times that a store does not show well, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoredTime {
    /// The time that is not in the trace, because the machine booted meanwhile.
    pub left_out_s: f64,
    /// The time between samples that are far apart. Only its mean CPU use is known.
    pub coarse_s: f64,
}

impl Trace {
    /// A trace of stretches, each with its length in seconds and the CPUs in use. Stretches of less than a second are joined.
    ///
    /// `None` if there are no rows, or if a number is out of range.
    pub fn new(stretches: impl IntoIterator<Item = (f64, f64)>) -> Option<Trace> {
        let (mut joined, mut cpus_max): (Vec<(f64, f64)>, f64) = (Vec::new(), 0.0);
        for (seconds, cpus) in stretches {
            if !(seconds > 0.0 && seconds < STRETCH_S_MAX && (0.0..=CPUS_MAX).contains(&cpus)) {
                return None;
            }
            cpus_max = cpus_max.max(cpus);
            match joined.last_mut() {
                Some((length, mean)) if *length < STRETCH_S_MIN => {
                    *mean = (*mean * *length + cpus * seconds) / (*length + seconds);
                    *length += seconds;
                }
                _ => joined.push((seconds, cpus)),
            }
        }
        (!joined.is_empty()).then_some(Trace {
            stretches: joined,
            cpus_max,
            steal_share: None,
            stored: StoredTime::default(),
        })
    }

    /// Adds the share of CPU time that the hypervisor gave to others.
    pub fn with_steal(self, share: f64) -> Trace {
        Trace { steal_share: Some(share), ..self }
    }

    /// Adds how well the store shows the time from which the trace comes.
    pub fn with_stored(self, stored: StoredTime) -> Trace {
        Trace { stored, ..self }
    }

    /// The length of the trace, in seconds.
    pub fn seconds(&self) -> f64 {
        self.stretches.iter().map(|(seconds, _)| seconds).sum()
    }

    /// The CPUs in use, on average.
    pub fn cpus_mean(&self) -> f64 {
        let used: f64 = self.stretches.iter().map(|(seconds, cpus)| seconds * cpus).sum();
        used / self.seconds()
    }

    /// The maximum number of CPUs in use.
    pub fn cpus_max(&self) -> f64 {
        self.cpus_max
    }
}

/// Reads a trace: a column with the time, and a column with the CPUs in use or with their share in percent.
/// A row lasts until the time of the next row. The last row lasts as long as the one before it.
///
/// `vcpus` is the number of CPUs that 100 % means.
///
/// # Errors
/// If a line is wrong, times go back, there are fewer than two rows, or the table has percentages and `vcpus` is missing.
pub fn read_trace(source: impl Read, vcpus: Option<u32>) -> Result<Trace, CreditsError> {
    let mut records = Records::new(source);
    let names = header(&mut records)?;
    let no_column = |wanted| TableError::Whole(TableFault::no_column(wanted, &names));
    let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.to_lowercase().as_str()));
    let (time, is_seconds) = match (find(&TIME), find(&SECONDS)) {
        (Some(at), _) => (at, false),
        (None, Some(at)) => (at, true),
        (None, None) => return Err(no_column("time").into()),
    };
    let (used, is_percent, factor) = match (find(&CPUS), find(&PERCENT), vcpus) {
        (Some(at), _, _) => (at, false, 1.0),
        (None, Some(at), Some(vcpus)) => (at, true, f64::from(vcpus) / 100.0),
        (None, Some(_), None) => return Err(CreditsError::PercentOfWhat),
        (None, None, _) => return Err(no_column("cpus or cpu_percent").into()),
    };
    let (mut fields, mut rows): (Fields, Vec<(f64, f64)>) = (Fields::default(), Vec::new());
    while records.next(&mut fields)? {
        records.has_columns(&fields, names.len())?;
        if rows.len() as u64 == ROWS_MAX {
            return Err(records.fault(TableFault::TooMany { limit: ROWS_MAX, what: "rows" }).into());
        }
        let value = |at: usize, expected| TableFault::value(&names[at], fields.get(at), expected);
        let second = parse_time(fields.get(time), is_seconds)
            .ok_or_else(|| records.fault(value(time, if is_seconds { OF_SECONDS } else { A_TIME })))?;
        if rows.last().is_some_and(|(before, _)| second <= *before) {
            return Err(records.fault(value(time, "after the line before")).into());
        }
        let (most, expected) = match is_percent {
            false => (CPUS_MAX, "a number of CPUs from 0 to 10000"),
            true => (PERCENT_MAX, "a percentage of all CPUs together, from 0 to 100"),
        };
        let number = fields.get(used).parse::<f64>().ok().filter(|number| (0.0..=most).contains(number));
        let number = number.ok_or_else(|| records.fault(value(used, expected)))?;
        rows.push((second, if is_percent { number.min(100.0) * factor } else { number }));
    }
    let trace = stretches(&rows)?;
    if trace.seconds() < SECONDS_MIN { Err(CreditsError::UnderMinute(trace.seconds())) } else { Ok(trace) }
}

fn stretches(rows: &[(f64, f64)]) -> Result<Trace, CreditsError> {
    let between = rows.windows(2).map(|pair| (pair[1].0 - pair[0].0, pair[0].1));
    let last = rows.last().and_then(|(_, cpus)| Some((between.clone().next_back()?.0, *cpus)));
    Trace::new(between.chain(last)).filter(|_| last.is_some()).ok_or(CreditsError::TooShort)
}

/// Seconds since some start. `is_seconds` says that the column has seconds, and never milliseconds or dates.
fn parse_time(text: &str, is_seconds: bool) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return match number.abs() {
            seconds if seconds < MILLISECONDS_MIN => Some(number),
            milliseconds if milliseconds < MILLISECONDS_MAX && !is_seconds => Some(number / 1000.0),
            _ => None,
        };
    }
    // CloudWatch writes times as 2026/11/26 10:00:00 in its files.
    let text = text.replace('/', "-");
    let in_utc = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    let at = text.parse::<jiff::Timestamp>().ok().or_else(in_utc)?;
    // A float is exact for the milliseconds of every year of the calendar.
    Some(at.as_millisecond() as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Trace, String> {
        read_trace(text.as_bytes(), Some(2)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_lasts_until_the_next_one() {
        let expected = vec![(60.0, 0.5), (120.0, 1.0), (120.0, 0.2)];
        for text in [
            "seconds,cpus\n0,0.5\n60,1\n180,0.2\n",
            "Timestamp,CPUUtilization\n2026-11-26T10:00:00Z,25\n2026-11-26T10:01:00Z,50\n2026-11-26T10:03:00Z,10\n",
            "Timestamp,Average,Unit\n2026/11/26 10:00:00,25,Percent\n2026/11/26 10:01:00,50,Percent\n2026/11/26 10:03:00,10,Percent\n",
            "time,Percentage CPU (Avg)\n1764151200000,25\n1764151260000,50\n1764151380000,10\n",
            "id,time,cpu_percent\na,2026-11-26 10:00:00,25\nb,2026-11-26 10:01:00,50\nc,2026-11-26 10:03:00,10\n",
        ] {
            assert_eq!(read(text).unwrap().stretches, expected, "{text}");
        }
        let trace = read("seconds,cpus\n0,0.5\n60,1\n180,0.2\n").unwrap();
        assert_eq!((trace.seconds(), trace.cpus_max()), (300.0, 1.0));
        assert!((trace.cpus_mean() - 0.58).abs() < 1e-12);
    }

    #[test]
    fn errors_name_the_line() {
        let cases = [
            ("time,cpus\n0,1\n0,1\n", "line 3: column \"time\": \"0\" is not after the line before"),
            ("time,cpus\n0,-1\n", "line 2: column \"cpus\": \"-1\" is not a number of CPUs from 0 to 10000"),
            (
                "time,cpu_percent\n0,nan\n",
                "line 2: column \"cpu_percent\": \"nan\" is not a percentage of all CPUs together, from 0 to 100",
            ),
            (
                "time,cpu\n0,250\n",
                "line 2: column \"cpu\": \"250\" is not a percentage of all CPUs together, from 0 to 100",
            ),
            (
                "seconds,cpus\n1764151200000,1\n",
                "line 2: column \"seconds\": \"1764151200000\" is not a number of seconds below 10¹¹, or a time such as 2026-11-26T10:00:00Z",
            ),
            (
                "time,cpus\n0,0.1\n1e-5,1\n",
                "its rows cover 0.00002 seconds, and credits count minutes: a trace needs a minute or more",
            ),
            ("time,cpus\n0,1\n", "a trace needs two rows or more, since a row lasts until the next one"),
            ("cpus\n1\n", "no column time; the first line has cpus"),
            ("time,load\n1,1\n", "no column cpus or cpu_percent; the first line has time, load"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
        let noon = read("time,cpus\nnoon,1\n").unwrap_err();
        assert!(noon.starts_with("line 2: column \"time\": \"noon\" is not a time"), "{noon}");
        let percent = read_trace("time,cpu\n0,5\n1,5\n".as_bytes(), None).unwrap_err();
        assert!(matches!(percent, CreditsError::PercentOfWhat));
    }

    #[test]
    fn stretches_of_less_than_a_second_are_joined() {
        let joined = Trace::new([(0.5, 1.0), (0.25, 0.5), (0.5, 0.0), (60.0, 2.0)]).unwrap();
        assert_eq!(joined.stretches, [(1.25, 0.5), (60.0, 2.0)]);
        assert_eq!(joined.cpus_max(), 2.0);
        assert_eq!(Trace::new([(0.5, 0.1), (0.5, 1.0)]).unwrap().cpus_max(), 1.0);
        for wrong in [(0.0, 1.0), (1.0, -1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert!(Trace::new([wrong]).is_none(), "{wrong:?}");
        }
        assert!(Trace::new([]).is_none());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(time|seconds),(cpus|cpu)\n([0-9a-zA-Z:., \n-]{0,80})") {
            let _ = read(&text);
            let _ = parse_time(&text, false);
        }
    }
}
