//! Metrics of a made-up host in both formats.

use std::collections::BTreeSet;

use evenkeel_watch::{Model, metrics};
use expect_test::expect_file;

use crate::rates::{sample, telemetry};

fn model() -> Model {
    let with_page = |at_s: u64, ticks: u64| {
        let mut sample = sample(at_s);
        let mut session = sample.servers[0].clone();
        session.name = "match \"7\"".to_owned();
        session.telemetry = Some(Ok(telemetry(ticks)));
        sample.servers.push(session);
        sample
    };
    Model::from_samples(&with_page(100, 5000), &with_page(110, 5500))
}

#[test]
fn the_text_is_the_golden_one_in_both_formats() {
    expect_file!["golden/metrics.openmetrics"].assert_eq(&metrics::render(&model()));
    expect_file!["golden/metrics.prom"].assert_eq(&metrics::render_prometheus_text(&model()));
}

#[test]
fn no_series_comes_twice_and_names_follow_the_conventions() {
    let text = metrics::render_prometheus_text(&model());
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').unwrap().0;
        assert!(seen.insert(series), "{series} comes twice");
    }
    for (name, kind) in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        assert!(name.starts_with("evenkeel_"), "{name}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} {kind}");
    }
    assert!(seen.len() > 80, "{}", seen.len());
}

#[test]
fn what_is_unknown_has_no_series() {
    let empty = evenkeel_watch::Collector::new(
        evenkeel_hostfs::Root::from(std::collections::BTreeMap::new()),
        evenkeel_watch::CollectorOptions::default(),
    )
    .sample();
    let text = metrics::render(&Model::from_samples(&empty, &empty));
    assert!(!text.contains("evenkeel_host_cpu") && !text.contains("NaN"), "{text}");
    assert!(text.ends_with("# EOF\n"));
}
