//! The tab of CPUs. Each CPU has a lane with its activity, and the time that the hypervisor and other threads took.

use evenkeel_watch::Measured;
use evenkeel_watch::model::{CpuModel, CpuUse};
use ratatui::text::{Line, Span};

use super::parts::{HIDDEN_WIDTH, Palette, fit, fitting, hidden, known, right, title, why};
use super::view::View;
use crate::show::units::percent;
use crate::show::watch::words::{gaps_words, ms_per_s, number, per_s, value};

/// The columns right of the bar, with their widths.
const COLUMNS: [(&str, usize); 5] = [("busy", 8), ("steal", 8), ("delay", 11), ("irq/s", 7), ("MHz", 6)];

/// The columns that are left out last come first.
const KEEP: [usize; 5] = [0, 1, 2, 3, 4];
/// The widths of the bar.
const BAR_MIN: usize = 8;
const BAR_MAX: usize = 80;

pub(super) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let (host, palette) = (&view.model.host, view.palette);
    let room = width.saturating_sub(BAR_MIN + 8);
    let all = fitting(&COLUMNS, &KEEP, room);
    let is_all = all.len() == COLUMNS.len();
    let shown = if is_all { all } else { fitting(&COLUMNS, &KEEP, room.saturating_sub(HIDDEN_WIDTH)) };
    let fixed: usize = shown.iter().map(|at| COLUMNS[*at].1).sum();
    let sign = hidden(COLUMNS.len() - shown.len());
    let bar_width = width.saturating_sub(fixed + sign.len() + 8).clamp(BAR_MIN, BAR_MAX);
    let header: String = shown.iter().map(|at| right(COLUMNS[*at].0, COLUMNS[*at].1)).collect();
    let legend = "# user  = kernel  ! irq  s stolen";
    let mut lines = vec![title(palette, &format!("{}{header}{sign}", fit(&format!("CPU  {legend}"), bar_width + 6)))];
    match &host.cpus {
        Measured::Known(cpus) => lines.extend(cpus.iter().map(|cpu| lane(cpu, bar_width, &shown, palette))),
        Measured::Unknown(unknown) => lines.push(Line::from(why(palette, unknown))),
    }
    lines.push(Line::default());
    if let Some(gaps) = &view.model.gaps {
        lines.push(known(palette, "missing", gaps, gaps_words));
    }
    lines.push(known(palette, "switches", &host.context_switches_per_s, |rate| per_s(*rate)));
    if let Measured::Known(sources) = &host.interrupt_sources {
        for (at, one) in sources.iter().take(6).enumerate() {
            let label = if at == 0 { "interrupts" } else { "" };
            lines.push(known(palette, label, &Measured::Known(one), |one| {
                format!("{:>8}  {}", per_s(one.per_s), one.source)
            }));
        }
    }
    if let Measured::Known(groups) = &host.groups {
        for group in &groups.limited {
            let throttled = value(&group.throttled, |share| ms_per_s(*share));
            let text = format!("{throttled} throttled, limit {} CPUs: {}", number(group.limit_cpus), group.group);
            lines.push(known(palette, "group", &Measured::Known(()), |()| text));
        }
    }
    lines
}

fn lane(cpu: &CpuModel, bar_width: usize, shown: &[usize], palette: Palette) -> Line<'static> {
    let Measured::Known(time) = &cpu.time else {
        return known(palette, &format!("{:>3}", cpu.cpu), &cpu.time, |_| String::new());
    };
    let style = match time.steal {
        steal if steal >= 0.05 => palette.bad(),
        steal if steal >= 0.01 => palette.warn(),
        _ => palette.good(),
    };
    let cells = [
        percent(time.busy()),
        percent(time.steal),
        value(&cpu.run_delay, |delay| ms_per_s(*delay)),
        value(&cpu.interrupts_per_s, |rate| number(*rate)),
        value(&cpu.frequency_khz, |khz| (khz / 1000).to_string()),
    ];
    let cells: String = shown.iter().map(|at| right(&cells[*at], COLUMNS[*at].1)).collect();
    Line::from(vec![
        Span::raw(format!(" {:>3} ", cpu.cpu)),
        Span::styled(format!("{} ", bar(time, bar_width)), style),
        Span::raw(cells),
    ])
}

/// A bar whose characters show the shares of the time.
fn bar(time: &CpuUse, width: usize) -> String {
    let kinds = [(time.user, '#'), (time.system, '='), (time.irq + time.softirq, '!'), (time.steal, 's')];
    let mut bar = String::new();
    let (mut end, mut drawn) = (0.0, 0);
    for (share, mark) in kinds {
        end += share;
        let until = ((end * width as f64).round().clamp(0.0, width as f64)) as usize;
        // A share that is not negligible gets at least one character.
        let until = if share > 0.004 { until.max(drawn + 1).min(width) } else { until };
        bar.extend(std::iter::repeat_n(mark, until.saturating_sub(drawn)));
        drawn = until.max(drawn);
    }
    bar.extend(std::iter::repeat_n('.', width.saturating_sub(drawn)));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_each_kind_and_never_more_than_its_width() {
        let time = |user: f64, system: f64, steal: f64| CpuUse { user, system, steal, ..CpuUse::default() };
        let table = [
            (time(0.0, 0.0, 0.0), ".........."),
            (time(0.5, 0.2, 0.1), "#####==s.."),
            (time(1.0, 0.0, 0.0), "##########"),
            (time(0.005, 0.005, 0.005), "#=s......."),
            (time(0.99, 0.005, 0.005), "##########"),
            (time(f64::MAX, 1.0, 1.0), "##########"),
        ];
        for (time, expected) in table {
            assert_eq!(bar(&time, 10), expected, "{time:?}");
        }
    }
}
