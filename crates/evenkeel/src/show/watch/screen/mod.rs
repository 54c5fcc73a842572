//! The screen of `watch`: a head, one of five tabs, and the keys.
//! The screen is a pure function of the model, so tests can draw it without a terminal.

mod cpus;
mod network;
mod overview;
mod parts;
mod settings;
#[cfg(test)]
mod tests;
mod ticks;
mod view;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::show::escape::plain;
use parts::cut;
pub(crate) use parts::{Palette, Sparks};
pub(crate) use view::{Tab, View};

/// Draws the screen at any size. Returns how far the user can scroll.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &View<'_>) -> usize {
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]);
    let [head, body, foot] = rows.areas(frame.area());
    let width = usize::from(body.width);
    frame.render_widget(Paragraph::new(head_line(view, width)), head);
    let lines = match view.tab {
        Tab::Overview => overview::lines(view, width),
        Tab::Cpus => cpus::lines(view, width),
        Tab::Ticks => ticks::lines(view, width),
        Tab::Network => network::lines(view),
        Tab::Settings => settings::lines(view, width),
    };
    let scroll_max = lines.len().saturating_sub(usize::from(body.height));
    let shown: Vec<Line<'_>> = lines
        .into_iter()
        .skip(view.scroll.min(scroll_max))
        .take(usize::from(body.height))
        .map(|line| cut(line, width))
        .collect();
    frame.render_widget(Paragraph::new(shown), body);
    frame.render_widget(Paragraph::new(cut(foot_line(view, scroll_max), width)), foot);
    scroll_max
}

/// All tabs and the shown moment. If they have no room, only the current tab, with its number.
fn head_line(view: &View<'_>, width: usize) -> Line<'static> {
    let line = all_tabs(view);
    if line.width() <= width {
        return line;
    }
    let at = Tab::ALL.iter().position(|tab| *tab == view.tab).unwrap_or(0) + 1;
    let tab = format!(" [{}] {at} of {}", view.tab.title(), Tab::ALL.len());
    let spans =
        vec![Span::styled(tab, view.palette.title()), Span::styled(format!("  {}", view.moment), view.palette.dim())];
    cut(Line::from(spans), width)
}

fn all_tabs(view: &View<'_>) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    for tab in Tab::ALL {
        // Mark the tab with brackets, because some terminals do not show reversed text.
        match tab == view.tab {
            true => spans.push(Span::styled(format!("[{}]", tab.title()), view.palette.title())),
            false => spans.push(Span::raw(format!(" {} ", tab.title()))),
        }
    }
    spans.push(Span::styled(format!("  {}", view.moment), view.palette.dim()));
    Line::from(spans)
}

fn foot_line(view: &View<'_>, scroll_max: usize) -> Line<'static> {
    if !view.warning.is_empty() {
        return Line::styled(format!(" {}", plain(view.warning)), view.palette.bad());
    }
    let more = if scroll_max > 0 { "  up/down more" } else { "" };
    Line::styled(format!(" left/right tab  [ ] back and forth in time  end newest  q quit{more}"), view.palette.dim())
}
