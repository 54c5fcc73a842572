//! The overview tab: the host in a few lines, and a line for each server.

use evenkeel_watch::model::ServerModel;
use ratatui::text::{Line, Span};

use super::parts::{HIDDEN_WIDTH, fit, fitting, hidden, known, right, row, title, why};
use super::view::View;
use crate::show::units::{bytes, percent};
use crate::show::watch::settings_words;
use crate::show::watch::words::{causes, ms_per_s, number, per_s, short_us, value};

/// The columns right of the name, with their widths. The list does not include the sparkline.
const COLUMNS: [(&str, usize); 6] =
    [("ticks/s", 8), ("late p99", 10), ("late", 6), ("missed", 7), ("CPU", 8), ("drops/s", 8)];
/// The columns that are left out last come first: [`COLUMNS`] by number. The sparkline is left out before all of them.
const KEEP: [usize; 6] = [1, 2, 3, 0, 4, 5];
/// The widths of the sparkline. A shorter one is left out.
const SPARK_MAX: usize = 60;
const SPARK_MIN: usize = 4;

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
    let Layout { name_width, shown, spark_width, hidden: left_out } = Layout::of(width);
    let header: String = shown.iter().map(|at| right(COLUMNS[*at].0, COLUMNS[*at].1)).collect();
    let spark = if spark_width > 0 { format!(" {}", fit("late p99", spark_width)) } else { String::new() };
    lines.push(title(palette, &format!("{}{header}{spark}{}", fit("server", name_width), hidden(left_out))));
    for server in &view.model.servers {
        let is_late = server.ticks.known().and_then(|ticks| ticks.late.known()).is_some_and(|late| *late > 0);
        let style = if is_late { palette.warn() } else { ratatui::style::Style::new() };
        let cells = cells(server);
        let cells: String = shown.iter().map(|at| right(&cells[*at], COLUMNS[*at].1)).collect();
        let spark = if spark_width > 0 { format!(" {}", view.sparks.line(server, spark_width)) } else { String::new() };
        lines.push(Line::from(vec![
            Span::raw(format!(" {}", fit(&server.name, name_width))),
            Span::styled(cells, style),
            Span::raw(spark),
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

/// What has room in the table of servers.
struct Layout {
    name_width: usize,
    /// The shown columns, by their numbers.
    shown: Vec<usize>,
    /// 0 if the sparkline is hidden.
    spark_width: usize,
    /// The number of hidden columns.
    hidden: usize,
}

impl Layout {
    fn of(width: usize) -> Layout {
        let fixed: usize = COLUMNS.iter().map(|(_, width)| width).sum();
        let rest = width.saturating_sub(fixed + 2);
        let name_width = (rest / 2).clamp(8, 24);
        let spark_width = rest.saturating_sub(name_width + 1).min(SPARK_MAX);
        if spark_width >= SPARK_MIN {
            return Layout { name_width, shown: (0..COLUMNS.len()).collect(), spark_width, hidden: 0 };
        }
        // The sparkline is hidden, so there is always a sign.
        let shown = fitting(&COLUMNS, &KEEP, width.saturating_sub(1 + name_width + HIDDEN_WIDTH));
        let hidden = COLUMNS.len() - shown.len() + 1;
        Layout { name_width, shown, spark_width: 0, hidden }
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
