//! Parsers that the kinds share: CPUs, times, amounts of memory.

use std::time::Duration;

pub(super) use crate::args::cpus;
use crate::times;

/// The maximum length of a period or slot, in milliseconds: a little over an hour.
/// A larger value is probably a typing error.
const MS_MAX: f64 = 4_000_000.0;

/// The maximum duration of a run, in seconds. A forgotten run then ends within hours.
const SECONDS_MAX: f64 = 14_400.0;

/// The maximum amount of memory, in MiB: 16 TiB.
const MIB_MAX: u64 = 1 << 24;

/// Parses milliseconds, and returns nanoseconds.
pub(super) fn ms(text: &str) -> Result<u64, String> {
    let ms = times::ms(text).filter(|ms| (0.0..=MS_MAX).contains(ms));
    ms.map(|ms| (ms * 1e6).round() as u64)
        .ok_or_else(|| format!("expected 0 to {MS_MAX} milliseconds, or a time such as 4ms or 100us"))
}

/// Parses two lengths in milliseconds, such as `1,3`.
pub(super) fn two_ms(text: &str) -> Result<(u64, u64), String> {
    let (first, second) =
        text.split_once(',').ok_or_else(|| "expected two numbers of milliseconds, such as 1,3".to_owned())?;
    Ok((ms(first)?, ms(second)?))
}

/// The duration of a run.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = times::seconds(text).filter(|seconds| (0.01..=SECONDS_MAX).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("expected 0.01 to {SECONDS_MAX} seconds, or a time such as 250ms or 90s"))
}

/// The maximum duration of a run.
pub(super) fn longest() -> Duration {
    Duration::from_secs_f64(SECONDS_MAX)
}

/// Parses MiB, and returns bytes.
pub(super) fn mib(text: &str) -> Result<u64, String> {
    let mib: u64 = text.parse().map_err(|_| "expected a whole number of MiB".to_owned())?;
    match (1..=MIB_MAX).contains(&mib) {
        true => Ok(mib << 20),
        false => Err(format!("expected 1 to {MIB_MAX} MiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(ms("6.05"), Ok(6_050_000));
        assert_eq!(two_ms("1,0.5"), Ok((1_000_000, 500_000)));
        assert!(two_ms("1").is_err() && two_ms("1,2,3").is_err());
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(mib("64"), Ok(64 << 20));
        assert_eq!(cpus("0,2-3").unwrap().len(), 3);
        for odd in ["", "x", "-1", "NaN", "inf", "1e300"] {
            assert!(ms(odd).is_err() && seconds(odd).is_err() && mib(odd).is_err(), "{odd}");
        }
        assert!(seconds("0").is_err() && seconds("90000").is_err() && cpus("").is_err() && cpus("a").is_err());
    }
}
