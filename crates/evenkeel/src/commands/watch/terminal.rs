//! Watches on the terminal: draws the screen, and moves back and forward in time.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_sys::clock;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::timeline::Timeline;
use crate::exit;
use crate::experiment::stop_flag;
use crate::failure::{Failure, Outcome};
use crate::show::watch::screen::{Palette, Tab, View, draw};

/// The maximum wait for a key. The program notices a signal within this time.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// The tab that the user has chosen, and its scroll position.
#[derive(Debug)]
struct Look {
    tab: Tab,
    scroll: usize,
    scroll_max: usize,
}

/// Draws the screen until the user or a signal ends the program.
pub(super) fn run(mut timeline: Timeline, palette: Palette) -> Outcome {
    let stop = stop_flag()?;
    let failed = |error: io::Error| Failure::io(exit::NOT_POSSIBLE, "use the terminal", &error);
    // `try_init` also sets a hook that restores the terminal after a panic.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = show(&mut terminal, &mut timeline, palette, &stop);
    ratatui::restore();
    ended.map_err(failed)?;
    Ok(exit::WELL)
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    timeline: &mut Timeline,
    palette: Palette,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut look = Look { tab: Tab::Overview, scroll: 0, scroll_max: 0 };
    while !stop.load(Ordering::Relaxed) {
        timeline.sample_if_due();
        let (moment, warning) = (timeline.moment(), timeline.warning().to_owned());
        let (model, sparks) = timeline.shown();
        let view =
            View { model, sparks, tab: look.tab, scroll: look.scroll, moment: &moment, warning: &warning, palette };
        terminal.draw(|frame| look.scroll_max = draw(frame, &view))?;
        look.scroll = look.scroll.min(look.scroll_max);
        let until_due =
            timeline.due_ns().map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(clock::monotonic_ns())));
        if event::poll(until_due.unwrap_or(WAIT_MAX).min(WAIT_MAX))?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && !look.press(key, timeline)
        {
            break;
        }
    }
    Ok(())
}

impl Look {
    /// Handles a key. Returns whether the program continues.
    fn press(&mut self, key: KeyEvent, timeline: &mut Timeline) -> bool {
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Left | KeyCode::BackTab => self.turn(-1),
            KeyCode::Right | KeyCode::Tab => self.turn(1),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll = self.scroll.saturating_add(1).min(self.scroll_max),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10).min(self.scroll_max),
            KeyCode::Char('[') => timeline.back(1),
            KeyCode::Char(']') => timeline.forth(1),
            KeyCode::Char('{') => timeline.back(60),
            KeyCode::Char('}') => timeline.forth(60),
            KeyCode::End => timeline.newest(),
            _ => {}
        }
        true
    }

    fn turn(&mut self, by: isize) {
        self.tab = self.tab.moved(by);
        self.scroll = 0;
    }
}
