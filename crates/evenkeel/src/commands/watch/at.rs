//! Parses the time of `--at`, in UTC.

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;

/// A moment in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A moment on a given day.
    Whole(Timestamp),
    /// The last moment at which the clock showed this time of day.
    Clock(Time),
}

impl At {
    /// Parses `21:14`, `21:14:05` or `2026-11-26 21:14`. Each may have `Z` or an offset at the end.
    pub(super) fn parse(text: &str) -> Result<At, String> {
        let text = text.trim();
        if let Ok(time) = text.parse::<Time>()
            && !text.contains('-')
        {
            return Ok(At::Clock(time));
        }
        let whole = text.parse::<Timestamp>().ok();
        let civil = || Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
        let wrong =
            || format!("{text:?} is not a time in UTC such as 21:14, 2026-11-26T21:14:05 or 2026-11-26T21:14:05Z");
        whole.or_else(civil).map(At::Whole).ok_or_else(wrong)
    }

    /// The end of this second, in nanoseconds since 1970, so that a sample within the second counts too.
    /// `last_ns` is the time of the store's last sample. `None` if the time is out of range.
    pub(super) fn realtime_ns(self, last_ns: u64) -> Option<u64> {
        let second = match self {
            At::Whole(timestamp) => timestamp,
            At::Clock(time) => {
                let last = Timestamp::from_nanosecond(i128::from(last_ns)).ok()?.to_zoned(TimeZone::UTC);
                let on =
                    |date: jiff::civil::Date| Some(date.to_datetime(time).to_zoned(TimeZone::UTC).ok()?.timestamp());
                let same_day = on(last.date())?;
                if same_day <= last.timestamp() { same_day } else { on(last.date().yesterday().ok()?)? }
            }
        };
        u64::try_from(second.as_second()).ok()?.checked_mul(1_000_000_000)?.checked_add(999_999_999)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_utc() {
        let last_ns = 1_795_780_800_000_000_000; // 2026-11-27 12:00:00
        let at = |text: &str| {
            let ns = At::parse(text).unwrap().realtime_ns(last_ns).unwrap();
            Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string()
        };
        let table = [
            ("11:14", "2026-11-27T11:14:00.999999999Z"),
            ("12:00:00", "2026-11-27T12:00:00.999999999Z"),
            ("21:14", "2026-11-26T21:14:00.999999999Z"),
            ("21:14:05", "2026-11-26T21:14:05.999999999Z"),
            ("21:14:05.7", "2026-11-26T21:14:05.999999999Z"),
            ("2026-11-20T21:14:05Z", "2026-11-20T21:14:05.999999999Z"),
            ("2026-11-20 21:14", "2026-11-20T21:14:00.999999999Z"),
            ("2026-11-20T21:14:05+02:00", "2026-11-20T19:14:05.999999999Z"),
        ];
        for (text, expected) in table {
            assert_eq!(at(text), expected, "{text}");
        }
        for odd in ["", "25:00", "yesterday", "2026-13-01 00:00", "9"] {
            assert!(At::parse(odd).is_err(), "{odd}: {:?}", At::parse(odd));
        }
        assert_eq!(At::parse("1960-01-01T00:00:00Z").unwrap().realtime_ns(last_ns), None);
    }
}
