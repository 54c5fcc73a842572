//! Converts numbers with their units to text. Only this file chooses digits and units.

use evenkeel_measure::Unit;

/// A share as a percentage with one decimal, such as `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    percent_to(1, share)
}

/// A share as a percentage with `decimals` decimals.
pub(crate) fn percent_to(decimals: usize, share: f64) -> String {
    format!("{:.decimals$} %", share * 100.0)
}

/// `part` as a share of `whole`; 0 if both are 0.
pub(crate) fn part(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A number of bytes in a binary unit, such as `35.8 MiB`. A number that is not whole has one decimal.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (1..units.len()).take_while(|power| bytes >> (10 * power) > 0).last().unwrap_or(0);
    let unit = 1_u64 << (10 * power);
    let tenths = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
    match tenths % 10 {
        0 => format!("{} {}", tenths / 10, units[power]),
        tenth => format!("{}.{tenth} {}", tenths / 10, units[power]),
    }
}

/// A quantity with three digits, in the most readable unit, such as `38.2 us`.
pub(crate) fn quantity(value: u64, unit: Unit) -> String {
    real_quantity(value as f64, unit)
}

/// Like [`quantity`], but the number may have a fraction.
pub(crate) fn real_quantity(value: f64, unit: Unit) -> String {
    let steps: &[(&str, f64)] = match unit {
        Unit::Ns => &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)],
        Unit::Ps => &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9)],
        Unit::BytesPerS => &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)],
        Unit::PerS => &[("/s", 1.0), ("k/s", 1e3), ("M/s", 1e6), ("G/s", 1e9)],
        Unit::Khz => &[("kHz", 1.0), ("MHz", 1e3), ("GHz", 1e6)],
        Unit::Ppm => &[("ppm", 1.0), ("%", 1e4)],
    };
    let (name, size) = steps.iter().rev().find(|(_, size)| value.abs() >= *size).unwrap_or(&steps[0]);
    let scaled = value / size;
    let digits = if scaled.abs() >= 100.0 || (scaled.fract() == 0.0 && *size == 1.0) {
        0
    } else if scaled.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        let table =
            [(0, 0.5, "50 %"), (1, 0.5, "50.0 %"), (1, 0.000_4, "0.0 %"), (3, 0.000_4, "0.040 %"), (0, 1.5, "150 %")];
        for (decimals, share, expected) in table {
            assert_eq!(percent_to(decimals, share), expected);
        }
        assert_eq!((percent(0.123_4), part(1, 4), part(0, 0)), ("12.3 %".to_owned(), 0.25, 0.0));
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        let table = [
            (0, "0 B"),
            (1023, "1023 B"),
            (32 << 10, "32 KiB"),
            (37_486_592, "35.8 MiB"),
            (16_777_216_000, "15.6 GiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (size, expected) in table {
            assert_eq!(bytes(size), expected);
        }
    }

    #[test]
    fn quantities_read_as_people_say_them() {
        let table = [
            (0.0, Unit::Ns, "0 ns"),
            (999.0, Unit::Ns, "999 ns"),
            (38_210.0, Unit::Ns, "38.2 us"),
            (6_050_000.0, Unit::Ns, "6.05 ms"),
            (612.4, Unit::Ps, "612 ps"),
            (17.93, Unit::Ns, "17.9 ns"),
            (1.5e9, Unit::BytesPerS, "1.50 GB/s"),
            (250_123.0, Unit::PerS, "250 k/s"),
            (2_600_000.0, Unit::Khz, "2.60 GHz"),
        ];
        for (value, unit, expected) in table {
            assert_eq!(real_quantity(value, unit), expected);
        }
    }
}
