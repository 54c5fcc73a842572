//! The overview tab: the host in a few lines, and a line for each server.

use evenkeel_watch::model::ServerModel;
use ratatui::text::{Line, Span};

use super::parts::{fit, known, right, row, title, why};
use super::view::View;
use crate::show::units::{bytes, percent};
use crate::show::watch::settings_words;
use crate::show::watch::words::{causes, ms_per_s, number, per_s, short_us, value};

/// The columns right of the name, with their widths. The list does not include the sparkline.
const COLUMNS: [(&str, usize); 6] =
    [("ticks/s", 8), ("late p99", 10), ("late", 6), ("missed", 7), ("CPU", 8), ("drops/s", 8)];
const SPARK_MAX: usize = 60;

pub(super) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let (host, palette) = (&view.model.host, view.palette);
    let mut lines = vec![
        known(palette, "CPUs", &host.all, |all| {
            format!("{} busy, {} stolen, {} softirq", percent(all.busy()), percent(all.steal), percent(all.softirq))
        }),
        known(palette, "run-queue delay", &host.run_delay, |delay| ms_per_s(*delay)),
        known(palette, "CPU pressure", &host.cpu_pressure.some, |share| percent(*share)),
        known(palette, "UDP full buffers", &host.udp.receive_buffer_errors_per_s, |rate| per_s(*rate)),
        known(palette, "memory available", &host.memory.available_bytes, |available| bytes(*available)),
        known(palette, "major faults", &host.major_faults_per_s, |rate| per_s(*rate)),
        known(palette, "settings", &view.model.settings, settings_words),
    ];
    if view.model.suspended_ns > 0 {
        let seconds = view.model.suspended_ns as f64 / 1e9;
        lines.push(row("suspended", Span::styled(format!("{seconds:.1} s"), palette.warn())));
    }
    lines.push(Line::default());
    servers(view, width, &mut lines);
    lines
}

fn servers(view: &View<'_>, width: usize, lines: &mut Vec<Line<'static>>) {
    let palette = view.palette;
    if view.model.servers.is_empty() {
        lines.push(title(palette, "no server found"));
        lines.push(Line::raw(" name one with --pid, or give it a page of telemetry (evenkeel-rt)"));
        return;
    }
    let fixed: usize = COLUMNS.iter().map(|(_, width)| width).sum();
    let rest = width.saturating_sub(fixed + 2);
    let name_width = (rest / 2).clamp(8, 24);
    let spark_width = rest.saturating_sub(name_width + 1).min(SPARK_MAX);
    let header: String = COLUMNS.iter().map(|(name, width)| right(name, *width)).collect();
    lines.push(title(palette, &format!("{}{header} {}", fit("server", name_width), fit("late p99", spark_width))));
    for server in &view.model.servers {
        let is_late = server.ticks.known().and_then(|ticks| ticks.late.known()).is_some_and(|late| *late > 0);
        let style = if is_late { palette.warn() } else { ratatui::style::Style::new() };
        let cells: String = cells(server).iter().zip(COLUMNS).map(|(cell, (_, width))| right(cell, width)).collect();
        lines.push(Line::from(vec![
            Span::raw(format!(" {}", fit(&server.name, name_width))),
            Span::styled(cells, style),
            Span::raw(format!(" {}", view.sparks.line(server, spark_width))),
        ]));
        if !server.causes.is_empty() {
            let causes = format!("   late so far: {}", causes(&server.causes));
            lines.push(Line::styled(fit(&causes, width), palette.dim()));
        }
    }
    if let Some(unknown) = view.model.servers.iter().find_map(|server| match &server.ticks {
        evenkeel_watch::Measured::Unknown(unknown) => Some(unknown),
        evenkeel_watch::Measured::Known(_) => None,
    }) {
        lines.push(Line::from(vec![Span::raw(" ? is "), why(palette, unknown)]));
    }
    if view.model.servers_beyond > 0 {
        lines.push(Line::styled(format!(" {} more are not watched", view.model.servers_beyond), palette.warn()));
    }
}

fn cells(server: &ServerModel) -> [String; 6] {
    let ticks = server.ticks.known();
    let of = |show: &dyn Fn(&evenkeel_watch::model::TicksModel) -> String| ticks.map_or_else(|| "?".to_owned(), show);
    [
        of(&|ticks| value(&ticks.ticks_per_s, |rate| number(*rate))),
        of(&|ticks| value(&ticks.lateness, |late| short_us(late.us_p99))),
        of(&|ticks| value(&ticks.late, u64::to_string)),
        of(&|ticks| value(&ticks.missed_per_s, |rate| number(*rate))),
        value(&server.cpu, |share| percent(*share)),
        value(&server.udp, |udp| value(&udp.drops_per_s, |rate| number(*rate))),
    ]
}
