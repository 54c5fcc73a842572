//! Whether a tick was so late that a dump is wanted. Pure.

use evenkeel_sys::telemetry::layout::BOUNDS_NS;

use crate::sample::{Sample, ServerSample};

/// The reason, if a tick between two samples was certainly later than that.
pub(super) fn too_late(before: &Sample, after: &Sample, over_ns: u64) -> Option<String> {
    after.servers.iter().find_map(|server| {
        let then = before.servers.iter().find(|then| then.pid == server.pid && then.name == server.name);
        let late_ns = by_page(then, server, over_ns).or_else(|| from_outside(server, over_ns))?;
        Some(format!("a tick of {} was {:.1} ms late", server.name, late_ns as f64 / 1e6))
    })
}

/// The least lateness of the latest tick.
fn by_page(then: Option<&ServerSample>, now: &ServerSample, over_ns: u64) -> Option<u64> {
    let page = now.telemetry.as_ref()?.as_ref().ok()?;
    let page_before = then?.telemetry.as_ref()?.as_ref().ok()?;
    if page.began_realtime_ns != page_before.began_realtime_ns {
        return None;
    }
    let grown = page.lateness.to_page().since(&page_before.lateness.to_page());
    let latest = grown.buckets.iter().rposition(|count| *count > 0)?;
    let lower_ns = latest.checked_sub(1).and_then(|at| BOUNDS_NS.get(at)).copied().unwrap_or(0);
    Some(lower_ns).filter(|ns| *ns >= over_ns)
}

fn from_outside(now: &ServerSample, over_ns: u64) -> Option<u64> {
    let seen = now.outside.as_ref()?.as_ref().ok()?;
    seen.late.iter().map(|late| late.lateness_ns).max().filter(|ns| *ns >= over_ns)
}
