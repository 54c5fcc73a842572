//! Opens tables that the user names, and reports their errors.

use std::path::Path;

use evenkeel_fleet::{TableError, TableFault};
use evenkeel_hostfs::user_file::{UserFile, UserFileReader};

use crate::exit;
use crate::failure::Failure;

const NAME_A_FILE: &str = "name a readable file; a relative path starts in the current folder";

/// Opens a file that the user named, for reading piece by piece. The file may have at most `limit_bytes`.
pub(crate) fn open(path: &Path, limit_bytes: u64) -> Result<UserFileReader, Failure> {
    let opened = UserFile::open(path, limit_bytes);
    let refused = |error| Failure::user_file(format_args!("read {}", path.display()), &error).or_hint(NAME_A_FILE);
    Ok(opened.map_err(refused)?.into_reader())
}

/// The failure of a table that can't be used.
/// `columns` describes the expected columns, and is the hint if a column or a value is wrong.
pub(crate) fn failure(path: &Path, error: &TableError, columns: &str) -> Failure {
    let tried = format_args!("read {}", path.display()).to_string();
    let failure = match error {
        TableError::Read(error) => return Failure::io(exit::WRONG_USE, tried, error),
        error => Failure::text(exit::WRONG_USE, tried, error),
    };
    let is_of_columns = |fault: &TableFault| {
        matches!(fault, TableFault::Value { .. } | TableFault::NoHeader(_) | TableFault::UnknownColumn { .. })
    };
    match error {
        TableError::Line { fault, .. } if !is_of_columns(fault) => failure,
        _ => failure.hint(columns),
    }
}
