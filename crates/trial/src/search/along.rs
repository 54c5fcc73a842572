//! The other metrics that changed with a set, in the windows of the confirmation.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_stats::{Direction, Options, Pair, VALUE_RANGE, compare, median};
use evenkeel_workload::Sample;

/// The confidence of the test of each number.
const CONFIDENCE: f64 = 0.95;

/// For each number, the ratio of its medians: with the set, divided by without it.
pub(super) fn ratios(before: &[Sample], after: &[Sample]) -> BTreeMap<String, f64> {
    let of = |samples: &[Sample], name: &str| {
        let numbers: Vec<f64> = samples.iter().filter_map(|sample| sample.get(name).copied()).collect();
        median(&numbers).filter(|number| *number > 0.0)
    };
    let names = before.first().map(|sample| sample.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let ratio = |name: String| Some((name.clone(), of(after, &name)? / of(before, &name)?));
    names.into_iter().filter_map(ratio).filter(|(_, ratio)| ratio.is_finite()).collect()
}

/// The numbers whose change is significant over pairs of windows.
/// A median of a few hits per second may change by half through chance alone, and must not appear as a cost.
pub(super) fn shown(before: &[Sample], after: &[Sample]) -> BTreeSet<String> {
    let options = Options { confidence: CONFIDENCE, smallest_effect_ratio: 0.0, better: Direction::Lower };
    let is_shown = |name: &String| {
        let pair = |(a, b): (&Sample, &Sample)| Some(Pair { a: *a.get(name)?, b: *b.get(name)? });
        // A window without a hit cannot form a ratio, so it is left out.
        let has_ratio = |pair: &Pair| VALUE_RANGE.contains(&pair.a) && VALUE_RANGE.contains(&pair.b);
        let pairs: Vec<Pair> = before.iter().zip(after).filter_map(pair).filter(has_ratio).collect();
        compare(&pairs, options).is_ok_and(|found| found.low > 1.0 || found.high < 1.0)
    };
    before.first().map(|sample| sample.keys().filter(|name| is_shown(name)).cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number's name, its values before and after, the ratio of their medians, and whether the answer shows the number.
    type Row = (&'static str, &'static [f64], &'static [f64], Option<f64>, bool);

    const STEADY: [f64; 7] = [10.0, 10.1, 9.9, 10.2, 9.8, 10.0, 10.1];

    fn windows(numbers: &[f64]) -> Vec<Sample> {
        numbers.iter().map(|number| BTreeMap::from([("x".to_owned(), *number)])).collect()
    }

    #[test]
    fn changes_by_chance_are_not_shown() {
        let table: [Row; 6] = [
            ("half of it", &STEADY, &[5.0, 5.1, 4.9, 5.2, 5.0, 5.1, 4.8], Some(0.5), true),
            ("the same", &STEADY, &[10.1, 9.9, 10.0, 10.1, 10.0, 9.8, 10.2], Some(1.0), false),
            (
                "a few hits a second",
                &[3.0, 1.0, 4.0, 0.0, 6.0, 3.0, 2.0],
                &[1.0, 2.0, 1.0, 5.0, 0.0, 4.0, 1.0],
                Some(1.0 / 3.0),
                false,
            ),
            ("too few windows", &[10.0, 10.1, 9.9], &[5.0, 5.0, 5.0], Some(0.5), false),
            ("nothing before", &[0.0; 7], &STEADY, None, false),
            ("no windows", &[], &STEADY, None, false),
        ];
        for (name, before, after, ratio, is_shown) in table {
            let (before, after) = (windows(before), windows(after));
            let found = ratios(&before, &after).get("x").copied();
            assert!(
                match (found, ratio) {
                    (Some(found), Some(ratio)) => (found / ratio - 1.0).abs() < 0.02,
                    (found, ratio) => found == ratio,
                },
                "{name}: {found:?}"
            );
            assert_eq!(shown(&before, &after).contains("x"), is_shown, "{name}");
        }
    }
}
