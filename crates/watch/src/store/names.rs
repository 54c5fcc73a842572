//! The names of segments: `2026-11-27-0003.watch`.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The highest number of a segment of one day.
const NUMBER_MAX: u32 = 999_999;

/// A segment: its day in UTC, and its number on that day. Names sort in the order of writing, unless the clock was set back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// The day, for example `2026-11-27`.
    pub day: String,
    /// The number of the segment on that day, from 0.
    pub number: u32,
}

impl SegmentName {
    /// Parses the name of a file. None if the file is not a segment.
    pub fn parse(file: &str) -> Option<SegmentName> {
        let (day, number) = file.strip_suffix(".watch")?.rsplit_once('-')?;
        let number: u32 = number.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
        let is_day = day.len() == 10
            && day
                .bytes()
                .enumerate()
                .all(|(at, byte)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() });
        let name = SegmentName { day: day.to_owned(), number };
        // If the name has another spelling, another program made the file.
        (is_day && name.to_string() == file).then_some(name)
    }

    /// The name of the segment's index.
    pub fn index(&self) -> String {
        format!("{}-{:04}.index", self.day, self.number)
    }

    /// The name of the next segment on the same day. `None` after a million segments.
    pub(super) fn next(&self) -> Option<SegmentName> {
        (self.number < NUMBER_MAX).then(|| SegmentName { day: self.day.clone(), number: self.number + 1 })
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:04}.watch", self.day, self.number)
    }
}

/// The day of a time, in UTC.
pub fn day_of(realtime_ns: u64) -> String {
    let timestamp = Timestamp::from_nanosecond(i128::from(realtime_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
    timestamp.to_zoned(TimeZone::UTC).date().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_left_alone() {
        let name = SegmentName { day: day_of(1_795_737_600_000_000_000), number: 3 };
        assert_eq!(
            (name.to_string().as_str(), name.index().as_str()),
            ("2026-11-27-0003.watch", "2026-11-27-0003.index")
        );
        assert_eq!(SegmentName::parse("2026-11-27-0003.watch"), Some(name.clone()));
        assert_eq!(SegmentName::parse("2026-11-27-12345.watch").map(|name| name.number), Some(12_345));
        for odd in [
            "",
            "x.watch",
            "2026-11-27-3.watch",
            "2026-11-27-0003.index",
            "2026-1127-0003.watch",
            "2026-11-27-+003.watch",
            "2026-11-27-1000000.watch",
        ] {
            assert_eq!(SegmentName::parse(odd), None, "{odd}");
        }
        assert!(name.next().unwrap() > name);
        assert_eq!((day_of(0).as_str(), day_of(u64::MAX).as_str()), ("1970-01-01", "2554-07-21"));
    }
}
