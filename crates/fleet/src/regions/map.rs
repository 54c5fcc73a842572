//! Draws the map: regions and players on a grid of degrees, as an SVG document without coast lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::latencies::Latencies;
use super::model::Position;
use super::players::Players;
use super::report::{Latency, Report};

/// Pixels for each degree.
const SCALE: f64 = 3.0;
/// The margin around the grid, in pixels.
const MARGIN: f64 = 12.0;
/// Space for the title above the grid, in pixels.
const TITLE: f64 = 34.0;
/// The size of the cells that divide the map, in degrees. Players of one cell share one circle.
const CELL_DEGREES: f64 = 3.0;
/// The largest circle of players has this radius, in pixels.
const RADIUS_MAX: f64 = 9.0;
/// The distance between lines of the grid, in degrees.
const GRID_DEGREES: i32 = 30;

const STYLE: &str = "text{font:11px sans-serif;fill:#222}.t{font-size:13px;font-weight:bold}.g{stroke:#ddd}.s{fill:#4477aa;fill-opacity:.55}\
.l{fill:#cc3311;fill-opacity:.7}.r{fill:none;stroke:#888}.c{fill:#ee7733;stroke:#222}.f{fill:#fff}";

/// The document. `None` if no position is known.
pub(super) fn svg(players: &Players, set: u64, report: &Report) -> Option<String> {
    if !players.candidates.iter().any(|candidate| candidate.position.is_some()) {
        return None;
    }
    let mut svg = String::new();
    // Writing to a String can't fail.
    let _ = write_svg(&mut svg, players, set, report);
    Some(svg)
}

fn write_svg(svg: &mut String, players: &Players, set: u64, report: &Report) -> std::fmt::Result {
    let (width, height) = (360.0 * SCALE + 2.0 * MARGIN, 180.0 * SCALE + 2.0 * MARGIN + TITLE);
    writeln!(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">")?;
    let title = title(report);
    writeln!(
        svg,
        "<title>{title}</title><style>{STYLE}</style><rect class=\"f\" width=\"{width}\" height=\"{height}\"/>"
    )?;
    writeln!(svg, "<text class=\"t\" x=\"{MARGIN}\" y=\"20\">{title}</text>")?;
    let legend =
        "orange: chosen regions; circles: other regions; blue: players within the latency; red: players left behind";
    writeln!(svg, "<text x=\"{MARGIN}\" y=\"36\">{legend}</text>")?;
    for degrees in (-180..=180).step_by(GRID_DEGREES as usize) {
        let degrees = f64::from(degrees);
        let ((x, top), (_, bottom)) = (place(90.0, degrees), place(-90.0, degrees));
        writeln!(svg, "<path class=\"g\" d=\"M{x} {top}V{bottom}\"/>")?;
        if degrees.abs() <= 90.0 {
            let ((left, y), (right, _)) = (place(degrees, -180.0), place(degrees, 180.0));
            writeln!(svg, "<path class=\"g\" d=\"M{left} {y}H{right}\"/>")?;
        }
    }
    write_players(svg, players, set, report.left_behind.above_ms)?;
    for (at, candidate) in players.candidates.iter().enumerate() {
        let Some(position) = candidate.position else { continue };
        let (x, y) = place(position.latitude, position.longitude);
        let name = escaped(&candidate.region);
        if set >> at & 1 == 0 {
            writeln!(svg, "<circle class=\"r\" cx=\"{x}\" cy=\"{y}\" r=\"2.5\"><title>{name}</title></circle>")?;
        } else {
            writeln!(svg, "<circle class=\"c\" cx=\"{x}\" cy=\"{y}\" r=\"5\"><title>{name}</title></circle>")?;
            // A label near the right border is drawn to the left of its region.
            let (x, anchor) = if x > width * 0.85 { (x - 8.0, "end") } else { (x + 8.0, "start") };
            writeln!(svg, "<text x=\"{x}\" y=\"{}\" text-anchor=\"{anchor}\">{name}</text>", y + 4.0)?;
        }
    }
    writeln!(svg, "</svg>")
}

fn title(report: &Report) -> String {
    let Latency { percentile, percentile_ms, .. } = &report.latency;
    let latency = percentile_ms.map_or("unknown".to_owned(), |ms| format!("{ms:.1} ms"));
    format!("{} regions for {} players: p{percentile} {latency}", report.chosen.len(), report.players.count)
}

/// Draws circles for players. Those of players who are left behind are on top.
fn write_players(svg: &mut String, players: &Players, set: u64, above_ms: f64) -> std::fmt::Result {
    let Some(places) = &players.places else { return Ok(()) };
    let mut cells: BTreeMap<(bool, i32, i32), f64> = BTreeMap::new();
    for ((row, weight), Position { latitude, longitude }) in
        players.latencies.rows().zip(&players.latencies.weights).zip(places)
    {
        let is_left = f64::from(Latencies::nearest(row, set).1) > above_ms * 1000.0;
        let cell = |degrees: f64| (degrees / CELL_DEGREES).floor() as i32;
        *cells.entry((is_left, cell(*latitude), cell(*longitude))).or_default() += *weight as f64;
    }
    let largest = cells.values().copied().fold(1.0, f64::max);
    for ((is_left, south, west), weight) in cells {
        let middle = |cell: i32| (f64::from(cell) + 0.5) * CELL_DEGREES;
        let (x, y) = place(middle(south).clamp(-90.0, 90.0), middle(west).clamp(-180.0, 180.0));
        let radius = (RADIUS_MAX * (weight / largest).sqrt()).max(0.7);
        let class = if is_left { "l" } else { "s" };
        writeln!(svg, "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius:.1}\"/>")?;
    }
    Ok(())
}

/// The pixel of a position.
fn place(latitude: f64, longitude: f64) -> (f64, f64) {
    let pixel = |pixels: f64| (pixels * 10.0).round() / 10.0;
    (pixel(MARGIN + (longitude + 180.0) * SCALE), pixel(MARGIN + TITLE + (90.0 - latitude) * SCALE))
}

/// Escapes a name from the user's file for the document.
fn escaped(name: &str) -> String {
    let visible = name.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter });
    visible.collect::<String>().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
