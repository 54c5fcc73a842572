//! The result of a trial as one sentence, which is plain for a newcomer and correct for a statistician.
//! The sentence never claims more than the interval does. It never says "no effect" if nothing was observed.
//! It always says that the result is for this machine.

pub(crate) use evenkeel_trial::words::as_change;
use evenkeel_trial::words::{ChangeWay, change};
use evenkeel_trial::{ArmName, Detectable, Ended, Engaged, Outcome, Report};

/// What the sentence is made of.
#[derive(Clone, Debug)]
pub(crate) struct Claim<'a> {
    /// The settings, as the user named them.
    pub(crate) what: &'a str,
    /// Whether both arms were the same.
    pub(crate) control: bool,
    /// The metric in plain words.
    pub(crate) metric: &'a str,
    /// The unit of the metric.
    pub(crate) unit: &'a str,
    /// The median of A.
    /// The sentence has no median of B, because next to the paired estimate it would look like a second effect.
    pub(crate) median_a: Option<f64>,
    /// The verdict.
    pub(crate) verdict: Outcome,
    /// The ratio of B to A.
    pub(crate) ratio: Option<f64>,
    /// The ends of the ratio's interval.
    pub(crate) interval: Option<(f64, f64)>,
    /// Confidence of the interval.
    pub(crate) confidence: f64,
    /// The smallest effect that matters, as a share.
    pub(crate) matters_ratio: f64,
    /// The smallest detectable effect, as a share.
    pub(crate) visible_ratio: Option<f64>,
    /// Why the settings had no effect, according to their counters;
    /// `None` if they had an effect or the effect is unknown.
    pub(crate) idle: Option<&'a str>,
    /// The guard that rejected B, and how much it changed.
    pub(crate) vetoed_by: Option<(&'a str, Option<f64>)>,
}

/// The words before the verdict: that both arms were equal from the start, or that the run failed.
pub(crate) fn opening(same_already: &[String], ended: &Ended, pairs: usize, of: usize) -> String {
    let mut opening: String = same_already.iter().map(|words| format!("{words}; ")).collect();
    if let Ended::Failed { why } = ended {
        opening += &match pairs {
            0 => format!("the trial failed before its first pair: {why}; "),
            _ => format!("the trial failed after {pairs} of {of} pairs: {why}; "),
        };
    }
    opening
}

impl<'a> Claim<'a> {
    /// The claim of a report.
    pub(crate) fn new(report: &'a Report, what: &'a str, control: bool) -> Claim<'a> {
        let effect = report.effect.as_ref();
        Claim {
            what,
            control,
            metric: &report.metric.title,
            unit: &report.metric.unit,
            median_a: report.arms.iter().find(|entry| entry.arm == ArmName::A).and_then(|entry| entry.median),
            verdict: report.verdict,
            ratio: effect.map(|effect| effect.ratio),
            interval: effect.and_then(|effect| effect.low.zip(effect.high)),
            confidence: effect.map_or(report.design.confidence, |effect| effect.confidence),
            matters_ratio: report.design.smallest_effect_ratio,
            visible_ratio: effect.and_then(|effect| effect.smallest_visible_ratio),
            idle: report.mechanism.iter().find_map(|knob| match &knob.engaged {
                Engaged::No { why } => Some(why.as_str()),
                Engaged::Yes | Engaged::Unknown => None,
            }),
            vetoed_by: report.vetoed_by.as_deref().map(|name| {
                let guard = report.guards.iter().find(|guard| guard.metric.name == name);
                (name, guard.and_then(|guard| guard.effect).map(|effect| effect.ratio))
            }),
        }
    }

    /// The verdict in one sentence.
    pub(crate) fn sentence(&self) -> String {
        let Some(ratio) = self.ratio else {
            return format!("{}: nothing was measured, so there is no result", self.subject());
        };
        let metric = self.metric;
        let change = as_change(ratio);
        let numbers = self.numbers();
        let confidence = share(self.confidence);
        let between = self
            .interval
            .map_or_else(String::new, |(low, high)| format!(", with {confidence} confidence {}", range(low, high)));
        let matters = share(self.matters_ratio);
        let what = self.subject();
        match (self.control, self.verdict) {
            (true, Outcome::Same) => {
                format!(
                    "{what} shows no difference, as it should: {metric} differs by less than {matters}{}",
                    self.bracket()
                )
            }
            (true, Outcome::Undecided | Outcome::NotEngaged) => {
                format!(
                    "{what}: too noisy to confirm that there is no difference; {metric} looks {change}{}",
                    self.bracket()
                )
            }
            (true, _) => format!(
                "{what} shows a difference, which is wrong: {metric} is {change}{numbers}{between}; do not trust this run"
            ),
            (false, Outcome::Worse) if self.vetoed_by.is_some() => {
                format!(
                    "{what} is not a gain for this server here: {metric} is {change}{numbers}{between}, {}",
                    self.veto()
                )
            }
            (false, Outcome::Better) => {
                format!("{what} helps this server here: {metric} is {change}{numbers}{between}")
            }
            (false, Outcome::Worse) => format!("{what} hurts this server here: {metric} is {change}{numbers}{between}"),
            (false, Outcome::Same) => format!(
                "{what} makes no difference that matters here: it changes {metric} by less than {matters}{}",
                self.bracket()
            ),
            (false, Outcome::NotEngaged) => {
                let why = self.idle.unwrap_or("its counter did not move");
                format!(
                    "{what} was not engaged here ({why}): {metric} differs by less than {matters}{}",
                    self.bracket()
                )
            }
            (false, Outcome::Undecided) => self.undecided(&change),
        }
    }

    fn undecided(&self, change: &str) -> String {
        let fits = match self.interval {
            Some((low, high)) => format!(", and any change {} is possible", range(low, high)),
            None => ", but there are too few pairs for an interval".to_owned(),
        };
        let visible = self.visible_ratio.filter(|visible| visible.is_finite());
        let visible =
            visible.map_or_else(String::new, |visible| format!("; smallest detectable difference: {}", share(visible)));
        format!("this run can't show what {} does: {} looks {change}{fits}{visible}", self.what, self.metric)
    }

    /// Text with the guard that rejected B, and its change.
    fn veto(&self) -> String {
        let (name, ratio) = self.vetoed_by.unwrap_or(("a guard", None));
        let harm = ratio.map_or_else(|| "worse".to_owned(), as_change);
        format!("but the guard {name} is {harm}, beyond its limit")
    }

    fn subject(&self) -> &str {
        if self.control { "A against A" } else { self.what }
    }

    /// Text with the median of A, from which the change starts.
    fn numbers(&self) -> String {
        let unit = if self.unit.is_empty() || self.unit == "share" { String::new() } else { format!(" {}", self.unit) };
        self.median_a.map_or_else(String::new, |a| format!(" (A: {}{unit})", trim(a)))
    }

    fn bracket(&self) -> String {
        self.interval.map_or_else(String::new, |(low, high)| format!(" ({})", range(low, high)))
    }
}

/// The sentence for settings that have no effect here: the reasons, and the value of the single measured window.
pub(crate) fn inert(what: &str, reasons: &[(String, String)], median: Option<f64>, unit: &str) -> String {
    let whys: Vec<String> = match reasons {
        [(_, why)] => vec![why.clone()],
        several => several.iter().map(|(knob, why)| format!("{knob}: {why}")).collect(),
    };
    let level = median.map_or_else(String::new, |a| format!(" (A: {} {unit})", trim(a)));
    format!(
        "{what} does nothing here ({}): evenkeel measured one window only{level}; --anyway runs the comparison",
        whys.join("; ")
    )
}

/// Text before the first pair: the smallest effect that the trial can detect.
pub(crate) fn preview(detectable: Detectable, pairs_max: usize) -> String {
    let pairs = detectable.pairs;
    let option = if pairs >= pairs_max { "--pairs" } else { "--budget" };
    match detectable.ratio {
        Some(ratio) => format!("smallest detectable difference in the {pairs} pairs that fit: about {}", share(ratio)),
        None => format!("the {pairs} pairs that fit are too few to detect any difference: increase {option}"),
    }
}

/// An interval as text: `between 3.0 % lower and 5.0 % higher`, or `between 50 % and 54 % lower`.
pub(crate) fn range(low: f64, high: f64) -> String {
    let ((low, low_way), (high, high_way)) = (change(low), change(high));
    match (low_way == high_way, low_way) {
        // Between two decreases, the smaller change has the higher ratio, so it comes first.
        (true, ChangeWay::Lower) => format!("between {high} and {low} lower"),
        (true, way) => format!("between {low} and {high} {way}"),
        (false, _) => format!("between {low} {low_way} and {high} {high_way}"),
    }
}

/// A share as per cent: 0.05 is `5 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{} %", trim(share * 100.0))
}

/// A number with at most three significant digits, without zeros at the end.
pub(crate) fn trim(value: f64) -> String {
    if value.abs() >= 1e9 || (value != 0.0 && value.abs() < 1e-6) {
        return format!("{value:.2e}");
    }
    let digits = if value == 0.0 { 0.0 } else { (2.0 - value.abs().log10().floor()).clamp(0.0, 6.0) };
    let text = format!("{value:.*}", digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn factors_are_shown_as_changes() {
        let text = [0.481, 1.5, 1.0, 0.9951, 1.0949, 5.1, 12.3, 4e300, 0.001, 1e-300].map(as_change);
        let expected = [
            "52 % lower",
            "50 % higher",
            "0.0 % higher",
            "0.5 % lower",
            "9.5 % higher",
            "5.1 times as high",
            "12 times as high",
            "more than a million times as high",
            "99.90 % lower",
            "more than 99.99 % lower",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn an_interval_in_one_direction_is_written_once() {
        let text = [(0.46, 0.5), (0.97, 1.05), (1.1, 1.2), (2.0, 4.0)].map(|(low, high)| range(low, high));
        let expected = [
            "between 50 % and 54 % lower",
            "between 3.0 % lower and 5.0 % higher",
            "between 10 % and 20 % higher",
            "between 100 % higher and 4.0 times as high",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn numbers_are_short() {
        let text = [0.0, 12.0, 12.34, 0.5, 1234.5, 0.012_34, 1e300, -3.0].map(trim);
        assert_eq!(text, ["0", "12", "12.3", "0.5", "1234", "0.0123", "1.00e300", "-3"]);
    }

    #[test]
    fn reasons_against_a_verdict_come_before_it() {
        let same = ["k is already 1 here, so both arms have it".to_owned()];
        let failed = Ended::Failed { why: "measure x: it ended".to_owned() };
        for (same, ended, pairs, expected) in [
            (&same[..0], &Ended::Whole, 8, ""),
            (&same[..], &Ended::Whole, 8, "k is already 1 here, so both arms have it; "),
            (&same[..0], &failed, 0, "the trial failed before its first pair: measure x: it ended; "),
            (&same[..0], &failed, 1, "the trial failed after 1 of 8 pairs: measure x: it ended; "),
        ] {
            assert_eq!(opening(same, ended, pairs, 8), expected);
        }
    }

    #[test]
    fn a_sentence_for_each_verdict() {
        let claim = Claim {
            what: "k=1",
            control: false,
            metric: "the median round trip",
            unit: "us",
            median_a: Some(56.4),
            verdict: Outcome::Better,
            ratio: Some(0.481),
            interval: Some((0.46, 0.5)),
            confidence: 0.95,
            matters_ratio: 0.05,
            visible_ratio: Some(0.043),
            idle: Some("CPUs went idle only 25 times a second"),
            vetoed_by: None,
        };
        let mut text = String::new();
        for control in [false, true] {
            for verdict in [Outcome::Better, Outcome::Worse, Outcome::Same, Outcome::Undecided, Outcome::NotEngaged] {
                text += &format!("{}\n", Claim { verdict, control, ..claim.clone() }.sentence());
            }
        }
        text += &format!("{}\n", Claim { ratio: None, ..claim.clone() }.sentence());
        let vetoed_by = Some(("round_trip_us_p99", Some(1.4)));
        text += &format!("{}\n", Claim { vetoed_by, verdict: Outcome::Worse, ..claim.clone() }.sentence());
        let few = Claim { interval: None, visible_ratio: None, verdict: Outcome::Undecided, ..claim };
        text += &format!("{}\n", few.sentence());
        expect![[r#"
            k=1 helps this server here: the median round trip is 52 % lower (A: 56.4 us), with 95 % confidence between 50 % and 54 % lower
            k=1 hurts this server here: the median round trip is 52 % lower (A: 56.4 us), with 95 % confidence between 50 % and 54 % lower
            k=1 makes no difference that matters here: it changes the median round trip by less than 5 % (between 50 % and 54 % lower)
            this run can't show what k=1 does: the median round trip looks 52 % lower, and any change between 50 % and 54 % lower is possible; smallest detectable difference: 4.3 %
            k=1 was not engaged here (CPUs went idle only 25 times a second): the median round trip differs by less than 5 % (between 50 % and 54 % lower)
            A against A shows a difference, which is wrong: the median round trip is 52 % lower (A: 56.4 us), with 95 % confidence between 50 % and 54 % lower; do not trust this run
            A against A shows a difference, which is wrong: the median round trip is 52 % lower (A: 56.4 us), with 95 % confidence between 50 % and 54 % lower; do not trust this run
            A against A shows no difference, as it should: the median round trip differs by less than 5 % (between 50 % and 54 % lower)
            A against A: too noisy to confirm that there is no difference; the median round trip looks 52 % lower (between 50 % and 54 % lower)
            A against A: too noisy to confirm that there is no difference; the median round trip looks 52 % lower (between 50 % and 54 % lower)
            k=1: nothing was measured, so there is no result
            k=1 is not a gain for this server here: the median round trip is 52 % lower (A: 56.4 us), with 95 % confidence between 50 % and 54 % lower, but the guard round_trip_us_p99 is 40 % higher, beyond its limit
            this run can't show what k=1 does: the median round trip looks 52 % lower, but there are too few pairs for an interval
        "#]].assert_eq(&text);
    }
}
