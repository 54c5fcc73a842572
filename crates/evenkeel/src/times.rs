//! Times as people write them: `90s` and `250ms` in options, `90 s` and `250 ms` in sentences.

use std::time::Duration;

/// The shortest and the longest window.
const WINDOW_MIN: Duration = Duration::from_millis(100);
const WINDOW_MAX: Duration = Duration::from_secs(600);

/// A time as people write it: `500ms`, `90s`, `10m`, `1h`; seconds without a unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let ms = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("unknown unit {unit:?}; write 500ms, 90s, 10m or 1h")),
    };
    let number: u32 = number.parse().map_err(|_| format!("{text:?} is not a time such as 500ms, 90s, 10m or 1h"))?;
    let whole = u64::from(number) * ms;
    (whole <= 7 * 86_400_000)
        .then(|| Duration::from_millis(whole))
        .ok_or_else(|| "at most 168h (a week) is allowed".to_owned())
}

/// The length of a window.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    let window = time(text)?;
    match (WINDOW_MIN..=WINDOW_MAX).contains(&window) {
        true => Ok(window),
        false => Err(format!("a window lasts from {} to {}", option(WINDOW_MIN), option(WINDOW_MAX))),
    }
}

/// A number of milliseconds, as older versions took it.
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
    /// The length that was asked for.
    pub(crate) fn asked(self) -> Option<Duration> {
        self.window.or(self.window_ms)
    }

    /// The same arguments, with a default length.
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
    /// The time that was asked for.
    pub(crate) fn asked(self) -> Option<Duration> {
        self.settle.or(self.settle_ms)
    }
}

/// A time as [`time`] reads it.
pub(crate) fn option(time: Duration) -> String {
    match time.as_millis() {
        ms if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

/// A time in a sentence, rounded up.
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
        for text in ["", "s", "min", "-1s", "1.5s", "10 m", "9999999999", "9999h", "169h", "5d", "é"] {
            assert!(time(text).is_err(), "{text}");
        }
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
