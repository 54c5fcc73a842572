//! `Finding`: the first sentence of a meter's page.
//! It states whether the numbers are good, and what they are compared with.

use crate::show::units::percent;

/// The duration of a tick at 60 Hz, in nanoseconds. Several meters compare their numbers with it.
pub(crate) const TICK_NS: f64 = 1e9 / 60.0;
/// The text for this duration in a sentence.
pub(crate) const A_TICK: &str = "a tick at 60 Hz lasts 16.7 ms";
/// If other programs use more than this share of the machine, they may have affected the numbers.
const BUSY_SHARE: f64 = 0.25;

/// How good a number is. The order is the order on the card: grades that need attention come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grade {
    Poor,
    Fair,
    Unknown,
    Good,
}

impl Grade {
    /// The grade of a number for which lower is better. Up to `good` the grade is good, and up to `fair` it is fair.
    pub(crate) fn of_low(value: f64, good: f64, fair: f64) -> Grade {
        match value {
            _ if value <= good => Grade::Good,
            _ if value <= fair => Grade::Fair,
            _ => Grade::Poor,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Grade::Poor => "Poor",
            Grade::Fair => "Fair",
            Grade::Unknown => "Can't tell",
            Grade::Good => "Good",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) grade: Grade,
    /// The sentence. The text begins with a lower-case letter and has no full stop.
    pub(crate) says: String,
}

impl Finding {
    pub(crate) fn new(grade: Grade, says: impl Into<String>) -> Finding {
        Finding { grade, says: says.into() }
    }

    pub(crate) fn unknown(says: impl Into<String>) -> Finding {
        Finding::new(Grade::Unknown, says)
    }

    /// Removes the grade if other programs used much of the machine.
    /// Other programs only make numbers worse, so a good grade stays.
    pub(crate) fn if_idle(self, others: Option<f64>) -> Finding {
        if self.grade == Grade::Good || busy(others).is_none() { self } else { Finding::unknown(self.says) }
    }
}

/// A sentence about other programs, if they used much of the machine.
pub(crate) fn busy(others: Option<f64>) -> Option<String> {
    let share = others.filter(|share| *share > BUSY_SHARE)?;
    Some(format!("Other programs used {} of the CPUs during the measurement.", percent(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_grade_of_its_range() {
        let of = |value| Grade::of_low(value, 1.0, 10.0);
        assert_eq!(
            [1.0, 1.1, 10.0, 11.0, f64::NAN].map(of),
            [Grade::Good, Grade::Fair, Grade::Fair, Grade::Poor, Grade::Poor]
        );
    }

    #[test]
    fn a_busy_machine_has_no_grade() {
        let finding = Finding::new(Grade::Poor, "a write takes 9 ms");
        assert_eq!(finding.clone().if_idle(Some(0.25)), finding);
        assert_eq!(finding.clone().if_idle(None), finding);
        assert_eq!(finding.if_idle(Some(0.4)), Finding::unknown("a write takes 9 ms"));
        assert_eq!((busy(Some(0.25)), busy(None)), (None, None));
        let words = "Other programs used 40.0 % of the CPUs during the measurement.";
        assert_eq!(busy(Some(0.4)).as_deref(), Some(words));
        let good = Finding::new(Grade::Good, "a write takes 90 us");
        assert_eq!(good.clone().if_idle(Some(0.4)), good);
    }
}
