//! Numbers of a trial as text for people.

use std::fmt;

/// From this ratio on, a change is shown as a factor, because "4,000 %" is hard to read.
const TIMES_FROM: f64 = 3.0;
/// From this ratio on, a change is shown only as "more than a million times".
const TIMES_MAX: f64 = 1e6;

/// A ratio as a change for people: 0.48 is `52 % lower`, 1.5 is `50 % higher`, 5 is `5.0 times as high`.
pub fn as_change(ratio: f64) -> String {
    let (amount, way) = change(ratio);
    format!("{amount} {way}")
}

/// A share as per cent: 0.05 is `5.0 %`, 0.25 is `25 %`.
pub fn percent(share: f64) -> String {
    let digits = usize::from(share.abs() < 0.0995);
    format!("{:.digits$} %", share * 100.0)
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeWay {
    /// Lower, by a share.
    Lower,
    /// Higher, by a share.
    Higher,
    /// Higher, by a factor.
    TimesAsHigh,
}

impl fmt::Display for ChangeWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChangeWay::Lower => "lower",
            ChangeWay::Higher => "higher",
            ChangeWay::TimesAsHigh => "as high",
        })
    }
}

/// The change in two parts: its size, and its direction.
pub fn change(ratio: f64) -> (String, ChangeWay) {
    if ratio >= TIMES_MAX {
        return ("more than a million times".to_owned(), ChangeWay::TimesAsHigh);
    }
    if ratio >= TIMES_FROM {
        let digits = usize::from(ratio < 9.95);
        return (format!("{ratio:.digits$} times"), ChangeWay::TimesAsHigh);
    }
    let percent = (ratio - 1.0) * 100.0;
    // Near 100 % lower, two digits are needed, because 99.9 % and 99.99 % lower differ by a factor of ten.
    let digits = match percent.abs() {
        size if percent < 0.0 && size > 99.99 => return ("more than 99.99 %".to_owned(), ChangeWay::Lower),
        size if percent < 0.0 && size > 99.0 => 2,
        size => usize::from(size < 9.95),
    };
    if percent < 0.0 {
        (format!("{:.digits$} %", -percent), ChangeWay::Lower)
    } else {
        (format!("{percent:.digits$} %"), ChangeWay::Higher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_a_change() {
        let table = [
            (0.48, "52 % lower"),
            (0.0001, "99.99 % lower"),
            (0.00001, "more than 99.99 % lower"),
            (1.0, "0.0 % higher"),
            (1.5, "50 % higher"),
            (5.0, "5.0 times as high"),
            (40.0, "40 times as high"),
            (1e7, "more than a million times as high"),
        ];
        for (ratio, words) in table {
            assert_eq!(as_change(ratio), words, "{ratio}");
        }
    }
}
