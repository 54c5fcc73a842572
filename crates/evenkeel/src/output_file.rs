//! A file that an option names: it is written whole or not at all, and replaces another only with `--force`.

use std::io::{self, Write};
use std::path::Path;

use crate::exit;
use crate::failure::Failure;

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
            // It may not exist.
            let _ = std::fs::remove_file(&temporary);
        })
    };
    whole().map_err(|error| Failure::io(exit::NOT_POSSIBLE, format_args!("write {}", path.display()), &error))
}
