//! Reads a guide in its format.

use super::library::LibraryGuide;
use super::line::{GUIDE_BYTES_MAX, Guide, GuideError, GuideFormat, LINES_MAX};
use super::{ansible, format, own, perftune, settings, text as page, tuned, unit};

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

impl Guide {
    /// Reads a guide. Without a given format, the content decides the format.
    ///
    /// # Errors
    /// If the guide has too many bytes or lines.
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
        let format = format.unwrap_or_else(|| format::recognise(text));
        let mut guide = Guide { name: name.to_owned(), format, lines: Vec::new() };
        match format {
            GuideFormat::Sysctl if unit::is_one(text) => guide.add(text, unit::read(text)),
            GuideFormat::Sysctl => guide.add(text, settings::read(text)),
            GuideFormat::Tuned => tuned::read(&mut guide, text, include),
            GuideFormat::Shell | GuideFormat::Markdown | GuideFormat::Html => guide.add(text, page::read(text, format)),
            GuideFormat::Ansible => guide.add(text, ansible::read(text)),
            GuideFormat::Perftune => guide.add(text, perftune::read(text)),
            GuideFormat::Plan => guide.add(text, own::read(text)),
        }
        if guide.lines.len() > LINES_MAX { Err(GuideError::TooManyLines) } else { Ok(guide) }
    }
}
