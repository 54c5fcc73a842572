//! The targets for tables of the user about many servers.

use evenkeel_fleet::regions::{Candidates, Goal, catalogue, choose, read_candidates};

/// A table of players or of regions. Any answer is consistent in itself.
pub(super) fn players(text: &str) {
    let _ = read_candidates(text.as_bytes());
    let listed = catalogue().into_iter().filter(|one| one.provider.as_deref() == Some("aws")).collect();
    let positions = Candidates { listed: Some(listed), ..Candidates::default() };
    let goals = [(Some(2), None), (None, Some(80.0)), (Some(1), Some(10.0))];
    for candidates in [Candidates::default(), positions] {
        for (count, within_ms) in goals {
            let goal = Goal { count, within_ms, thousandths: 950 };
            let Ok(answer) = choose(text.as_bytes(), &candidates, &goal) else { continue };
            let report = &answer.report;
            assert!(!report.chosen.is_empty() && report.chosen.len() <= report.candidates);
            assert!(report.latency.percentile_ms.is_some_and(|ms| ms >= report.proof.bound_ms));
            assert!((0.0..=1.0).contains(&report.left_behind.share));
            let _ = answer.map();
        }
    }
}
