//! Units of systemd and their drop-ins: properties of the service, and the commands that it starts.

use super::line::{Content, Skip};
use super::settings;
use super::shell::Script;
use super::tuned;

/// Sections of units that start programs.
const SECTIONS: [&str; 4] = ["Unit", "Service", "Install", "Manager"];

/// Whether a text is a unit.
pub(super) fn is_one(text: &str) -> bool {
    text.lines().any(|line| tuned::header(line.trim()).is_some_and(|name| SECTIONS.contains(&name)))
}

/// Every line of a unit.
pub(super) fn read(text: &str) -> Vec<Content> {
    text.lines().map(|text| line(text.trim())).collect()
}

/// A line of a unit.
pub(super) fn line(line: &str) -> Content {
    match line.split_once('=') {
        // The characters `-`, `@`, `+`, `!` and `:` before a command modify how systemd starts it.
        Some((key, command)) if key.starts_with("Exec") => Script::default()
            .line(command.trim_start_matches(['-', '@', '+', '!', ':', ' ']))
            .unwrap_or(Content::NotASetting(Skip::Elsewhere)),
        Some((key, _)) => match settings::line(line) {
            Content::NotUnderstood(_) if !key.contains(['.', '/']) => Content::NotASetting(Skip::Elsewhere),
            content => content,
        },
        None => settings::line(line),
    }
}
