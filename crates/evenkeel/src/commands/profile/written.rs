//! Files that `--output` writes: the extension gives the format. A file is written whole or not at all, and replaces another only with `--force`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::exit;
use crate::failure::Failure;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A graph, as SVG.
    Svg,
    /// A graph, as a page.
    Html,
    /// Folded stacks.
    Folded,
    /// For the Firefox Profiler.
    Firefox,
}

/// Where to write.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Output {
    /// Write FILE in the format of its extension: a flame graph (.svg, .html), folded stacks (.folded), Firefox Profiler (.json)
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

impl Output {
    /// The file and its format, if given. Errors come before any work.
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

/// Refuses an existing file unless `force`.
pub(crate) fn is_free(path: &Path, force: bool) -> Result<(), Failure> {
    if !force && std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file() || there.is_symlink()) {
        let tried = format!("write {}", path.display());
        return Err(Failure::text(exit::WRONG_USE, tried, "it exists already")
            .hint("choose another name, or overwrite it with --force"));
    }
    Ok(())
}

/// Writes a file. If that fails, no part of it is left, and an old file of that name is unchanged.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let whole = || -> io::Result<()> {
        // A device or a pipe is written to, not replaced.
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".{}", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| std::fs::rename(&temporary, path));
        written.inspect_err(|_| {
            // The temporary file may not exist.
            let _ = std::fs::remove_file(&temporary);
        })
    };
    whole().map_err(|error| Failure::io(exit::NOT_POSSIBLE, format_args!("write {}", path.display()), &error))
}
