//! `--smallest-effect`: the smallest change that matters. Its default depends on the metric.

use evenkeel_workload::Metric;

/// The option `--smallest-effect`, for all commands that compare.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct SmallestEffect {
    /// The smallest effect that matters [default: 5; for lateness: 10]
    #[arg(long = "smallest-effect", value_name = "PERCENT", value_parser = percent)]
    percent: Option<f64>,
}

impl SmallestEffect {
    /// Uses the smallest effect of a stored result, unless the user named a value.
    pub(crate) fn or_ratio(self, ratio: f64) -> SmallestEffect {
        SmallestEffect { percent: self.percent.or(Some(ratio * 100.0)) }
    }

    /// The smallest effect on `metric`, as a share: the user's value, or else the metric's default.
    pub(crate) fn ratio(self, metric: &Metric) -> f64 {
        self.percent.map_or_else(|| metric.smallest_effect_ratio(), |percent| percent / 100.0)
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if percent > 0.0 && percent < 1000.0 {
        return Ok(percent);
    }
    Err(format!("{percent} is not between 0 and 1000 percent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_decides_and_else_the_metric() {
        let lateness = Metric::us("tick_lateness_us_p50", "");
        assert_eq!(SmallestEffect::default().ratio(&lateness), 0.10);
        assert_eq!(SmallestEffect { percent: Some(2.0) }.ratio(&lateness), 0.02);
        assert_eq!(SmallestEffect::default().or_ratio(0.25).ratio(&lateness), 0.25);
        assert_eq!(SmallestEffect { percent: Some(2.0) }.or_ratio(0.25).ratio(&lateness), 0.02);
    }

    #[test]
    fn only_what_can_be_meant_is_taken() {
        assert_eq!(percent("12.5"), Ok(12.5));
        for text in ["0", "-1", "1000", "inf", "nan", "", "five"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert_eq!(percent("0").unwrap_err(), "0 is not between 0 and 1000 percent");
    }
}
