//! The target for what the live side stores.

use evenkeel_watch::store::{SegmentName, parse_segment};
use evenkeel_watch::{Model, metrics};

/// A segment of the store, each character a byte: its samples give models and metrics, whatever they contain.
pub(super) fn watch_store(text: &str) {
    let bytes: Vec<u8> = text.chars().map(|char| char as u8).collect();
    let parsed = parse_segment(&bytes, 8);
    assert!(parsed.samples.len() <= 8);
    for pair in parsed.samples.windows(2) {
        let model = Model::from_samples(&pair[0], &pair[1]);
        assert!(metrics::render(&model).ends_with("# EOF\n"));
        let _ = metrics::render_prometheus_text(&model);
    }
    if let Some(name) = SegmentName::parse(text) {
        assert_eq!(name.to_string(), text);
    }
}
