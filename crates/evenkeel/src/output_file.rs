//! Writes a file that an option names, completely or not at all. Replaces an existing file only with `--force`.

use std::io::{self, Write};
use std::path::Path;

use crate::exit;
use crate::failure::Failure;

/// Refuses a file that can't be written. Unless `force` is set, also refuses an existing file.
pub(crate) fn is_free(path: &Path, force: bool) -> Result<(), Failure> {
    if !force && std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file() || there.is_symlink()) {
        let tried = format!("write {}", path.display());
        return Err(Failure::text(exit::WRONG_USE, tried, "it exists already")
            .hint("choose another name, or overwrite it with --force"));
    }
    refuse_unwritable(path)
}

/// Refuses a file that can't be written, before the work that produces its content.
pub(crate) fn refuse_unwritable(path: &Path) -> Result<(), Failure> {
    let tried = || format!("write {}", path.display());
    let refused = |error: io::Error| failure(path, &error);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let why = match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => "it is a folder",
        // Opening a regular file changes nothing. Do not open a pipe or a device for the test.
        Ok(there) if there.is_file() => {
            return std::fs::OpenOptions::new().append(true).open(path).map(drop).map_err(refused);
        }
        Ok(_) => return Ok(()),
        Err(_) if !parent.is_dir() => "its folder does not exist",
        Err(_) => return tempfile::NamedTempFile::new_in(parent).map(drop).map_err(refused),
    };
    Err(Failure::text(exit::WRONG_USE, tried(), why).hint("name a file in a folder that exists"))
}

/// Creates a folder if it is missing.
/// Refuses a folder that can't be written to, before the work that produces its content.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Failure> {
    let tried = || format!("write into {}", folder.display());
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::text(exit::WRONG_USE, tried(), "it is a file, and a folder is needed")
            .hint("name a folder, or a name that does not exist yet"));
    }
    let failed = |error| failure(folder, &error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Only writing a file proves that the folder is writable and the disk works.
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(failed)
}

/// Writes a file. If that fails, no part of the file remains, and an older file with that name is unchanged.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let whole = || -> io::Result<()> {
        // If the path is a device or a pipe, write to it instead of replacing it.
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
            // Ignore the result, because the temporary file may not exist.
            let _ = std::fs::remove_file(&temporary);
        })
    };
    whole().map_err(|error| failure(path, &error))
}

/// The failure to write a file or folder that the user named. If the name is the reason, the failure is wrong use.
pub(crate) fn failure(path: &Path, error: &io::Error) -> Failure {
    use io::ErrorKind::{
        AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, StorageFull,
    };
    let (exit, hint) = match error.kind() {
        NotFound | NotADirectory => (exit::WRONG_USE, "name a folder that exists"),
        AlreadyExists | InvalidFilename | InvalidInput | IsADirectory => (exit::WRONG_USE, "choose another name"),
        StorageFull => (exit::NOT_POSSIBLE, "free disk space, or name a folder on another disk"),
        _ => (exit::NOT_POSSIBLE, "name a folder that you may write to"),
    };
    Failure::io(exit, format_args!("write {}", path.display()), error).hint(hint)
}
