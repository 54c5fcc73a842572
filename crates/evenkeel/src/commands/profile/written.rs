//! The files that `--output` writes. The extension selects the format.

use std::path::{Path, PathBuf};

use crate::exit;
use crate::failure::Failure;
pub(crate) use crate::output_file::{is_free, write};

/// The format of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A graph, as an SVG image.
    Svg,
    /// A graph, as an HTML page.
    Html,
    /// Folded stacks.
    Folded,
    /// The format of the Firefox Profiler.
    Firefox,
}

/// Where to write.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Output {
    /// Write FILE: a flame graph (.svg, .html), stacks (.folded), Firefox Profiler (.json)
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

impl Output {
    /// The file and its format; `None` without the option. Refuses an invalid file before any work.
    pub(crate) fn wanted(&self) -> Result<Option<(&Path, Kind)>, Failure> {
        let Some(path) = &self.output else { return Ok(None) };
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        let kind = match ending {
            "svg" => Kind::Svg,
            "html" | "htm" => Kind::Html,
            "folded" | "txt" => Kind::Folded,
            "json" => Kind::Firefox,
            _ => {
                let why = "its extension names no known format";
                return Err(Failure::text(exit::WRONG_USE, format_args!("write {}", path.display()), why)
                    .hint("use the extension .svg, .html, .folded or .json"));
            }
        };
        is_free(path, self.force)?;
        Ok(Some((path, kind)))
    }
}
