//! Finds the files that a command line names, and the files in its folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel_fleet::audit::Unread;
use evenkeel_sys::Errno;

use crate::exit;
use crate::failure::Failure;

/// The kind of file that a command reads.
pub(super) struct Wanted {
    /// The noun for such a file, such as `capture`.
    pub(super) noun: &'static str,
    /// The extension of such files in a folder, without the dot.
    pub(super) extension: &'static str,
    /// The command that writes such a file.
    pub(super) made_by: &'static str,
    /// The maximum number of files.
    pub(super) max: usize,
}

impl Wanted {
    /// Returns each file once, in order. Adds a folder that can't be read to `unread`.
    ///
    /// # Errors
    /// If the number of files exceeds the maximum.
    pub(super) fn files(&self, named: &[PathBuf], unread: &mut Vec<Unread>) -> Result<BTreeSet<PathBuf>, Failure> {
        let mut files = BTreeSet::new();
        for path in named {
            if !path.is_dir() {
                files.insert(path.clone());
            } else {
                match self.of_folder(path) {
                    Ok(found) => files.extend(found),
                    Err(error) => unread.push(Unread {
                        file: path.display().to_string(),
                        why: format!("failed to read the folder: {}", Errno::from(&error)),
                    }),
                }
            }
            if files.len() > self.max {
                let (tried, why) = (format!("read each {}", self.noun), format!("more than {} files", self.max));
                return Err(Failure::text(exit::WRONG_USE, tried, why));
            }
        }
        Ok(files)
    }

    fn of_folder(&self, folder: &Path) -> std::io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == self.extension) {
                found.push(path);
            }
            if found.len() > self.max {
                break;
            }
        }
        Ok(found)
    }

    /// The failure if evenkeel could read none of the files of `named`.
    pub(super) fn none(&self, named: &[PathBuf], unread: &[Unread]) -> Failure {
        let failure = match unread {
            [] => {
                let folders: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
                let why = format!("{} has no file *.{}", folders.join(" "), self.extension);
                Failure::text(exit::WRONG_USE, format!("find a {}", self.noun), why)
            }
            [one, others @ ..] => {
                // The reason may already begin with the action and the file. Do not repeat them here.
                let (tried, also) = (format!("read the {} {}", self.noun, one.file), others.len());
                let why = one.why.trim_start_matches("failed to ").trim_start_matches(&tried).trim_start_matches(": ");
                let more = if also == 0 {
                    String::new()
                } else {
                    format!("; {also} other files are not {}s either", self.noun)
                };
                Failure::text(exit::WRONG_USE, tried, format!("{why}{more}"))
            }
        };
        failure.hint(self.made_by)
    }
}
