//! The settings tab: the settings that evenkeel applied,
//! the advice of the audit, credits, and the files that this user may not read.

use evenkeel_watch::Measured;
use ratatui::style::Style;
use ratatui::text::Line;

use super::parts::{row, title, why, wrapped};
use super::view::View;
use crate::show::watch::settings_words;
use crate::show::watch::words::{number, value};

pub(super) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let (model, palette) = (view.model, view.palette);
    let mut lines = vec![title(palette, "applied settings")];
    match &model.settings {
        Measured::Unknown(unknown) => lines.push(row("", why(palette, unknown))),
        Measured::Known(settings) => {
            lines.extend(wrapped(&settings_words(settings), 2, width, Style::new()));
            for drift in &settings.drift {
                let text = format!("{} at {}: {} wanted, {} found", drift.knob, drift.place, drift.wanted, drift.found);
                lines.extend(wrapped(&text, 2, width, palette.bad()));
                lines.extend(wrapped(&drift.mend, 4, width, Style::new()));
            }
            if !settings.findings.is_empty() {
                lines.push(Line::raw("  evenkeel audit lists the findings"));
            }
        }
    }
    if let Some(credits) = &model.credits {
        lines.push(title(palette, "CPU credits"));
        let left = value(&credits.minutes_left, |minutes| match minutes {
            Some(minutes) => format!("{minutes:.0} minutes left at this use"),
            None => "they do not run out at this use".to_owned(),
        });
        let text = format!("{} by the model of {}; {left}", number(credits.balance), credits.instance_type);
        lines.extend(wrapped(&text, 2, width, Style::new()));
    }
    if !model.unreadable.is_empty() {
        lines.push(title(palette, "not readable for this user"));
        for one in &model.unreadable {
            lines.extend(wrapped(&format!("{}: {}", one.what, one.why), 2, width, Style::new()));
            if let Some(mend) = &one.mend {
                lines.push(Line::raw(format!("    {mend}")));
            }
        }
    }
    lines.push(title(palette, "clock source"));
    lines.push(match &model.host.clock_source {
        Measured::Known(name) => Line::raw(format!("  {name}")),
        Measured::Unknown(unknown) => row("", why(palette, unknown)),
    });
    lines
}
