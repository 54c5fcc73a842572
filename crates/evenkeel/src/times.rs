//! Times as people write them on a command line.

use std::time::Duration;

/// A time as people write it: `500ms`, `90s`, `10m`, `1h`; seconds without a unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let ms = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("{unit:?} is no unit of time: ms, s, m, h")),
    };
    let number: u32 = number.parse().map_err(|_| format!("{text:?} is no time, such as 500ms, 90s or 10m"))?;
    let whole = u64::from(number) * ms;
    (whole <= 7 * 86_400_000).then(|| Duration::from_millis(whole)).ok_or_else(|| "a week is the most".to_owned())
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
        for text in ["", "s", "min", "-1s", "1.5s", "10 m", "9999999999", "9999h", "169h", "5d", "é"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
