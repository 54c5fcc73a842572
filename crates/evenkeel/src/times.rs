//! Parses and prints times: `90s` and `250ms` in options, `90 s` and `250 ms` in sentences.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The minimum and the maximum length of a window.
const WINDOW_MIN: Duration = Duration::from_millis(100);
const WINDOW_MAX: Duration = Duration::from_secs(600);

const NS_PER_US: f64 = 1e3;
const NS_PER_MS: f64 = 1e6;
pub(crate) const NS_PER_S: f64 = 1e9;

/// Parses a time: `500ms`, `1.5s`, `90s`, `10m` or `1h`. A number without a unit means seconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let ns = unit_ns(unit, NS_PER_S).filter(|ns| *ns >= NS_PER_MS);
    let ns = ns.ok_or_else(|| format!("unknown unit {unit:?}; write 500ms, 90s, 10m or 1h"))?;
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is not a time such as 500ms, 90s, 10m or 1h"))?;
    let ms = number * ns / NS_PER_MS;
    (ms <= 7.0 * 86_400_000.0)
        .then(|| Duration::from_millis(ms.round() as u64))
        .ok_or_else(|| "at most 168h (a week) is allowed".to_owned())
}

/// Parses a time, and returns nanoseconds. `plain_ns` is the unit of a number without a unit.
pub(crate) fn ns(text: &str, plain_ns: f64) -> Option<f64> {
    let (number, unit) = match text.parse::<f64>() {
        Ok(_) => (text, ""),
        Err(_) => split(text),
    };
    let ns = number.parse::<f64>().ok()? * unit_ns(unit, plain_ns)?;
    ns.is_finite().then_some(ns)
}

/// Parses a time, and returns seconds. A number without a unit means seconds.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    ns(text, NS_PER_S).map(|ns| ns / NS_PER_S)
}

/// Parses a time, and returns milliseconds. A number without a unit means milliseconds.
pub(crate) fn ms(text: &str) -> Option<f64> {
    ns(text, NS_PER_MS).map(|ns| ns / NS_PER_MS)
}

/// Parses a time, and returns microseconds. A number without a unit means microseconds.
pub(crate) fn us(text: &str) -> Option<f64> {
    ns(text, NS_PER_US).map(|ns| ns / NS_PER_US)
}

/// The parser of an option in whole seconds: `10`, `90s` or `2m`.
pub(crate) fn whole_seconds(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| whole(seconds(text), &range, ("seconds", "90s"))
}

/// The parser of an option in whole milliseconds: `300`, `300ms` or `2s`.
pub(crate) fn whole_ms(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| whole(ms(text), &range, ("milliseconds", "300ms"))
}

/// The parser of an option in whole microseconds: `100`, `100us` or `1ms`.
pub(crate) fn whole_us(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| whole(us(text), &range, ("microseconds", "100us"))
}

fn whole(number: Option<f64>, range: &RangeInclusive<u64>, (unit, example): (&str, &str)) -> Result<u64, String> {
    let whole = number.filter(|number| *number >= 0.0 && (number - number.round()).abs() < 1e-6);
    whole.map(|number| number.round() as u64).filter(|number| range.contains(number)).ok_or_else(|| {
        format!("expected whole {unit} from {} to {}, or a time such as {example}", range.start(), range.end())
    })
}

/// Splits a time into its number and its unit.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()))
}

fn unit_ns(unit: &str, plain_ns: f64) -> Option<f64> {
    Some(match unit {
        "" => plain_ns,
        "us" => NS_PER_US,
        "ms" => NS_PER_MS,
        "s" => NS_PER_S,
        "m" | "min" => 60.0 * NS_PER_S,
        "h" => 3600.0 * NS_PER_S,
        _ => return None,
    })
}

/// Parses the length of a window.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    let window = time(text)?;
    match (WINDOW_MIN..=WINDOW_MAX).contains(&window) {
        true => Ok(window),
        false => Err(format!("a window lasts from {} to {}", option(WINDOW_MIN), option(WINDOW_MAX))),
    }
}

/// Parses a number of milliseconds, as older versions accepted it.
fn old_ms(text: &str) -> Result<Duration, String> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => time(&format!("{text}ms")),
        false => Err(format!("{text:?} is not a number of milliseconds")),
    }
}

fn old_window_ms(text: &str) -> Result<Duration, String> {
    let window = old_ms(text)?;
    self::window(&option(window))
}

fn old_settle_ms(text: &str) -> Result<Duration, String> {
    let settle = old_ms(text)?;
    (settle.as_millis() <= 60_000).then_some(settle).ok_or_else(|| "at most 60000 is allowed".to_owned())
}

/// The options for the length of a window.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct WindowArgs {
    /// Length of a window, such as 500ms [default: 1s, or 12 ticks]
    #[arg(long, value_name = "TIME", value_parser = window)]
    window: Option<Duration>,
    #[arg(long, value_name = "MS", hide = true, conflicts_with = "window", value_parser = old_window_ms)]
    window_ms: Option<Duration>,
}

impl WindowArgs {
    /// The length that the user named; `None` if the user named no length.
    pub(crate) fn asked(self) -> Option<Duration> {
        self.window.or(self.window_ms)
    }

    /// The same arguments, with this length as the default.
    pub(crate) fn or(self, window: Duration) -> WindowArgs {
        WindowArgs { window: self.asked().or(Some(window)), window_ms: None }
    }
}

/// The options for the settle time.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct SettleArgs {
    /// Wait after each switch, such as 500ms [default: measured]
    #[arg(long, value_name = "TIME", value_parser = time)]
    settle: Option<Duration>,
    #[arg(long, value_name = "MS", hide = true, conflicts_with = "settle", value_parser = old_settle_ms)]
    settle_ms: Option<Duration>,
}

impl SettleArgs {
    /// The settle time that the user named; `None` if the user named no time.
    pub(crate) fn asked(self) -> Option<Duration> {
        self.settle.or(self.settle_ms)
    }
}

/// A time in the form that [`time`] parses.
pub(crate) fn option(time: Duration) -> String {
    match time.as_millis() {
        ms if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

/// A time for a sentence, rounded up.
pub(crate) fn words(time: Duration) -> String {
    match time.as_millis() {
        ms if ms < 10_000 && !ms.is_multiple_of(1000) => format!("{ms} ms"),
        ms if ms <= 120_000 => format!("{} s", ms.div_ceil(1000)),
        ms if ms <= 7_200_000 => format!("{} min", ms.div_ceil(60_000)),
        ms => format!("{} h", ms.div_ceil(3_600_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let table = [
            ("500ms", Some(500)),
            ("90", Some(90_000)),
            ("90s", Some(90_000)),
            ("10m", Some(600_000)),
            ("20min", Some(1_200_000)),
            ("1h", Some(3_600_000)),
            ("1.5s", Some(1500)),
        ];
        for (text, ms) in table {
            assert_eq!(time(text).ok(), ms.map(Duration::from_millis), "{text}");
        }
        for (ms, in_option, in_words) in [
            (0, "0s", "0 s"),
            (250, "250ms", "250 ms"),
            (1500, "1500ms", "1500 ms"),
            (10_500, "10500ms", "11 s"),
            (90_000, "90s", "90 s"),
            (120_001, "120001ms", "3 min"),
            (1_200_000, "1200s", "20 min"),
            (7_200_001, "7200001ms", "3 h"),
        ] {
            let of = Duration::from_millis(ms);
            assert_eq!((option(of).as_str(), words(of).as_str()), (in_option, in_words));
            assert_eq!(time(&option(of)), Ok(of), "{ms}");
        }
        for text in ["", "s", "min", "-1s", "1.5.1s", ".", "500us", "10 m", "9999999999", "9999h", "169h", "5d", "é"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_without_a_unit_keep_their_meaning() {
        let seconds = whole_seconds(1..=3600);
        for (text, expected) in [("10", 10), ("10s", 10), ("2m", 120), ("5000ms", 5), ("1h", 3600)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "1.5", "250ms", "2h", "-1", "s", "NaN", "inf", "1e300", "1 s", "5d"] {
            assert!(seconds(text).unwrap_err().starts_with("expected whole seconds from 1 to 3600"), "{text}");
        }
        assert_eq!([whole_ms(20..=60_000)("300"), whole_ms(20..=60_000)("2s")], [Ok(300), Ok(2000)]);
        assert_eq!(whole_us(20..=10_000)("1ms"), Ok(1000));
        assert_eq!(
            [super::seconds("0.5"), super::seconds("250ms"), super::seconds("x")],
            [Some(0.5), Some(0.25), None]
        );
        assert_eq!([ms("6.05"), ms("100us"), ms("1e300h")], [Some(6.05), Some(0.1), None]);
        assert_eq!(us("0.5"), Some(0.5));
    }

    #[test]
    fn windows_have_the_old_spelling_too() {
        assert_eq!(window("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(old_window_ms("300"), Ok(Duration::from_millis(300)));
        assert_eq!(old_settle_ms("0"), Ok(Duration::ZERO));
        for text in ["99ms", "601s", "1h", ""] {
            assert!(window(text).is_err(), "{text}");
        }
        for text in ["", "99", "600001", "3s", "-1"] {
            assert!(old_window_ms(text).is_err(), "{text}");
        }
        assert!(old_settle_ms("60001").is_err());
    }
}
