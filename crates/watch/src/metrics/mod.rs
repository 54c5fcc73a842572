//! A model as text for Prometheus. Counters are exported as the kernel counts them, and Prometheus computes the rates.
//! Units are seconds and bytes. An unknown value has no series. It is never exported as 0.

mod family;
mod host;
mod server;

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;

use crate::model::Model;
use family::{Families, Family};

/// The model in the OpenMetrics format, including the end mark.
pub fn render(model: &Model) -> String {
    let mut written = String::new();
    // Writing to a string can't fail.
    let _ = text::encode(&mut written, &registry(model));
    written
}

/// The model in the older text format of Prometheus, which the textfile collector of node_exporter reads.
pub fn render_prometheus_text(model: &Model) -> String {
    let mut written = String::new();
    // Writing to a string can't fail.
    let _ = prometheus_text::encode(&mut written, &registry(model));
    written
}

fn registry(model: &Model) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families(model))));
    registry
}

fn families(model: &Model) -> Vec<Family> {
    let mut families = host::families(model);
    families.extend(server::families(model));
    families
}
