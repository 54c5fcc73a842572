//! Reads a guide in its format.

use super::library::LibraryGuide;
use super::line::{Content, GUIDE_BYTES_MAX, Guide, GuideError, GuideFormat, LINES_MAX};
use super::shell::Script;
use super::{ansible, foreign, format, own, perftune, settings, spans, text as page, tuned, udev, unit};

pub use super::tuned::Include;

impl LibraryGuide {
    /// The guide, line by line.
    ///
    /// # Errors
    /// No guide of the library is known to fail, because a test reads all of them.
    pub fn guide(&self) -> Result<Guide, GuideError> {
        Guide::parse(self.name, self.text, Some(GuideFormat::Sysctl), &|_| None)
    }
}

/// A line of a file of sysctls, which may have rules of udev and commands between its settings.
fn setting(script: &mut Script, line: &str) -> Content {
    let content = udev::line(line.trim()).unwrap_or_else(|| settings::line(line));
    match content {
        Content::NotUnderstood(_) => {
            let command = spans::command(line).map(str::to_owned).or_else(|| of_interface(line.trim()));
            command.and_then(|command| script.line(&command)).unwrap_or(content)
        }
        content => content,
    }
}

/// The commands of `ETHTOOL_OPTS="-G eth0 rx 4096; -K eth0 gro off"`, as files of network interfaces have it.
fn of_interface(line: &str) -> Option<String> {
    let options = line.strip_prefix("ETHTOOL_OPTS=")?.trim_matches(['"', '\'']);
    Some(options.split(';').map(|options| format!("ethtool {}", options.trim())).collect::<Vec<_>>().join("; "))
}

impl Guide {
    /// Reads a guide. Without a given format, the content decides the format.
    ///
    /// # Errors
    /// If the guide has too many bytes or lines, or is a file of another system or program.
    pub fn parse(
        name: &str,
        text: &str,
        format: Option<GuideFormat>,
        include: Include<'_>,
    ) -> Result<Guide, GuideError> {
        if text.len() > GUIDE_BYTES_MAX {
            return Err(GuideError::TooLong);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.lines().count() > LINES_MAX {
            return Err(GuideError::TooManyLines);
        }
        let format = match format {
            Some(format) => format,
            None => {
                let format = format::recognise(text);
                foreign::check(text, format)?;
                format
            }
        };
        let mut guide = Guide { name: name.to_owned(), format, lines: Vec::new() };
        match format {
            GuideFormat::Sysctl if unit::is_one(text) => guide.add(text, unit::read(text)),
            GuideFormat::Sysctl => {
                let mut script = Script::default();
                let contents = text.lines().map(|line| setting(&mut script, line)).collect();
                guide.add(text, contents);
            }
            GuideFormat::Tuned => tuned::read(&mut guide, text, include),
            GuideFormat::Shell | GuideFormat::Markdown | GuideFormat::Html => guide.add(text, page::read(text, format)),
            GuideFormat::Ansible => guide.add(text, ansible::read(text)),
            GuideFormat::Perftune => guide.add(text, perftune::read(text)),
            GuideFormat::Plan => guide.add(text, own::read(text)),
        }
        if guide.lines.len() > LINES_MAX { Err(GuideError::TooManyLines) } else { Ok(guide) }
    }
}
