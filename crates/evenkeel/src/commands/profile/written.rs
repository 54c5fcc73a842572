//! Files that are written by `--output`: by their ending, whole or not at all, and over nothing that was there unless that is asked for.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::exit;
use crate::failure::Failure;

/// What a file is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A graph, as SVG.
    Svg,
    /// A graph, as a page.
    Html,
    /// Stacks and their weights, a line each.
    Folded,
    /// For the Firefox Profiler.
    Firefox,
}

/// Where to write.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Output {
    /// Write to FILE, by its ending: a graph (.svg, .html), stacks (.folded), for the Firefox Profiler (.json)
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over FILE if it is there
    #[arg(long, requires = "output")]
    force: bool,
}

impl Output {
    /// The file and what it is to hold, if one was asked for. Refused before any work is done.
    pub(crate) fn wanted(&self) -> Result<Option<(&Path, Kind)>, Failure> {
        let Some(path) = &self.output else { return Ok(None) };
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        let kind = match ending {
            "svg" => Kind::Svg,
            "html" | "htm" => Kind::Html,
            "folded" | "txt" => Kind::Folded,
            "json" => Kind::Firefox,
            _ => {
                let why = "its ending does not tell what it is to hold";
                return Err(Failure::text(exit::WRONG_USE, format_args!("write {}", path.display()), why)
                    .hint("end it in .svg, .html, .folded or .json"));
            }
        };
        is_free(path, self.force)?;
        Ok(Some((path, kind)))
    }
}

/// Refuses a file that is there, unless it is to be written over.
pub(crate) fn is_free(path: &Path, force: bool) -> Result<(), Failure> {
    if !force && std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file() || there.is_symlink()) {
        let tried = format!("write {}", path.display());
        return Err(Failure::text(exit::WRONG_USE, tried, "it is there already")
            .hint("name another file, or write over it with --force"));
    }
    Ok(())
}

/// Writes a file. One that can't be written whole is not there afterwards, and what was there before is as it was.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let whole = || -> io::Result<()> {
        // A device or a pipe is written into, not replaced.
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}", std::process::id()));
        let beside = path.with_file_name(beside);
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&beside)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| std::fs::rename(&beside, path));
        written.inspect_err(|_| {
            // It may never have been made.
            let _ = std::fs::remove_file(&beside);
        })
    };
    whole().map_err(|error| Failure::io(exit::NOT_POSSIBLE, format_args!("write {}", path.display()), &error))
}
