//! Lines of a here-document, which may be the text of any file: sysctls, a unit, or a script.

use super::line::{Content, Skip};
use super::shell::Script;
use super::{mentions, settings, udev, unit};

/// A line of a here-document. `inner` is the script that it may be.
pub(super) fn line(inner: &mut Script, line: &str) -> Content {
    let content = udev::line(line).unwrap_or_else(|| settings::line(line));
    let Content::NotUnderstood(_) = content else { return content };
    match unit::line(line) {
        found @ Content::Settings(_) => return found,
        found @ Content::NotUnderstood(_) if line.starts_with("Exec") => return found,
        _ => {}
    }
    match inner.line(line) {
        Some(found @ (Content::Settings(_) | Content::NotUnderstood(_))) if mentions::first(line).is_some() => found,
        Some(found @ Content::Settings(_)) => found,
        _ if mentions::first(line).is_none() => Content::NotASetting(Skip::Command),
        _ => content,
    }
}
