//! The clock meter reports every call, and its bounds on the CPUs' clocks agree with each other.

use std::sync::atomic::AtomicBool;

use evenkeel_measure::Watch;
use evenkeel_measure::meters::clock::{self, Settings, Sources};
use evenkeel_testkit::skipped;

#[test]
fn every_call_has_a_cost_and_clocks_are_bounded_from_both_sides() {
    let settings = Settings { calls: 20_000, sources: Sources::Current, cpus_max: 8 };
    let report = clock::run(settings, &Watch::new(&AtomicBool::new(false), &|_, _| {})).unwrap();
    let source = &report.sources[0];
    assert!(source.loop_ratio == Some(1.0) && source.loop_100m_s.unwrap() > 0.0);
    for call in ["clock_gettime", "gettimeofday", "clock_gettime_by_system_call", "empty_system_call"] {
        let costs = source.costs.iter().find(|samples| samples.conditions["call"] == call);
        assert!(costs.is_some_and(|costs| costs.histogram.count() > 0), "{call}");
    }
    let Some(first) = report.across.first_cpu else { return skipped(format_args!("{:?}", report.across.skipped)) };
    for apart in &report.across.apart {
        assert_ne!(apart.cpu, first);
        // If the machine stalls for the whole time of a pair, the pair has no passes.
        if let Some(offset_ns) = apart.offset_ns.filter(|_| apart.throws > 0) {
            assert!(apart.round_trip_ns_min > 0.0, "{apart:?}");
            assert!(apart.bound_ns <= apart.round_trip_ns_min / 2.0 + 1.0, "{apart:?}");
            // Clocks that are in step never go back.
            assert!(apart.steps_back > 0 || offset_ns.abs() <= apart.bound_ns + 1.0, "{apart:?}");
        }
    }
}
