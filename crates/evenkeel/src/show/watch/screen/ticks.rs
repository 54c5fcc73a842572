//! The tab with the ticks of each server.

use evenkeel_watch::Measured;
use evenkeel_watch::model::{Durations, TicksModel};
use evenkeel_watch::sample::{LateTicks, SlicesSample};
use ratatui::text::Line;

use super::parts::{Palette, known, row, title, why, wrapped};
use super::view::View;
use crate::show::units::percent;
use crate::show::watch::words::{causes, late_ticks, ms_per_s, number, per_s, short_us, value};

pub(super) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let palette = view.palette;
    let mut lines = Vec::new();
    for server in &view.model.servers {
        let pid = server.pid.map_or_else(String::new, |pid| format!(" ({pid})"));
        lines.push(title(palette, &format!("{}{pid}", server.name)));
        match &server.ticks {
            Measured::Known(ticks) => of_ticks(palette, ticks, &mut lines),
            Measured::Unknown(unknown) => lines.push(row("ticks", why(palette, unknown))),
        }
        lines.push(known(palette, "run-queue delay", &server.run_delay, |delay| ms_per_s(*delay)));
        lines.push(known(palette, "throttled", &server.throttled, |share| ms_per_s(*share)));
        lines.push(known(palette, "major faults", &server.major_faults_per_s, |rate| per_s(*rate)));
        let switches = [&server.voluntary_switches_per_s, &server.involuntary_switches_per_s];
        lines.push(known(palette, "switches", switches[0], |one| {
            format!("{} voluntary, {} involuntary", per_s(*one), value(switches[1], |rate| per_s(*rate)))
        }));
        if !server.causes.is_empty() {
            lines.push(row("late so far", causes(&server.causes)));
        }
        let of_server = |late: &&LateTicks| late.server == server.name && late.pid == server.pid;
        for late in view.model.late_ticks.iter().filter(of_server) {
            lines.extend(wrapped(&format!("now {}", late_ticks(late)), 1, width, palette.warn()));
        }
        lines.push(Line::default());
    }
    if lines.is_empty() {
        lines.push(title(palette, "no server found"));
    }
    lines
}

fn of_ticks(palette: Palette, ticks: &TicksModel, lines: &mut Vec<Line<'static>>) {
    let durations = |of: &Durations| {
        format!("p50 {:>9}  p99 {:>9}  max {:>9}", short_us(of.us_p50), short_us(of.us_p99), short_us(of.us_max))
    };
    lines.push(known(palette, "rate", &ticks.ticks_per_s, |rate| {
        let period = ticks.period_ms.map_or_else(|| "?".to_owned(), |ms| format!("{} ms", number(ms)));
        format!("{}, period {period}, load {}", per_s(*rate), value(&ticks.load, |load| percent(*load)))
    }));
    lines.push(known(palette, "lateness", &ticks.lateness, durations));
    lines.push(known(palette, "work", &ticks.work, durations));
    lines.push(known(palette, "due to done", &ticks.due_to_done, durations));
    lines.push(known(palette, "late ticks", &ticks.late, |late| {
        let bound = ticks.late_after_us.map_or_else(|| "?".to_owned(), short_us);
        format!("{late} beyond {bound}; {} missed", value(&ticks.missed_per_s, |rate| per_s(*rate)))
    }));
    if let Some(uncounted) = ticks.uncounted {
        lines.push(row("not counted", format!("{uncounted} due times whose switch records were lost")));
    }
    let slices = match ticks.slices {
        SlicesSample::Unknown => "not known".to_owned(),
        SlicesSample::Whole => "all the time".to_owned(),
        SlicesSample::FixedSlot { period_ns, share } => {
            format!("{} of each {} ms, by a hypervisor", percent(share), number(period_ns as f64 / 1e6))
        }
        SlicesSample::TokenBucket { period_ns, share } => {
            format!("{} of each {} ms, by a limit", percent(share), number(period_ns as f64 / 1e6))
        }
    };
    lines.push(row("gets the CPU", slices));
    if let Some(workers) = &ticks.workers {
        lines.push(row("observed from outside", workers.clone()));
    }
    if let Some(players) = ticks.players {
        lines.push(row("players", players.to_string()));
    }
}
