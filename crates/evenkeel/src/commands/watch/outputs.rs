//! The outputs of samples besides the screen: the store, and the file of metrics.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use evenkeel_watch::store::StoreWriter;
use evenkeel_watch::{Model, Sample, metrics};

use super::args::Args;
use crate::exit;
use crate::failure::Failure;
use crate::output_file;
use crate::store_failure::store_failure;

/// The open outputs.
#[derive(Debug)]
pub(super) struct Outputs {
    store: Option<StoreWriter>,
    textfile: Option<PathBuf>,
    /// The last failure of each output.
    /// Writing continues, because a full disk may later have space again. evenkeel reports the same failure only once.
    failures: [Option<String>; 2],
}

impl Outputs {
    /// Opens the outputs. An output that does not work at the start is an error.
    pub(super) fn open(args: &Args) -> Result<Outputs, Failure> {
        let store = args.store.as_ref().map(|dir| StoreWriter::open(dir, args.store_options()).map_err(store_failure));
        Ok(Outputs { store: store.transpose()?, textfile: args.textfile.clone(), failures: [None, None] })
    }

    /// Only a file of metrics.
    #[cfg(test)]
    pub(super) fn to_textfile(file: PathBuf) -> Outputs {
        Outputs { store: None, textfile: Some(file), failures: [None, None] }
    }

    /// Whether no output is open.
    pub(super) fn is_empty(&self) -> bool {
        self.store.is_none() && self.textfile.is_none()
    }

    /// Appends a sample to the store. Returns a warning if the append failed for a new reason.
    pub(super) fn store(&mut self, sample: &Sample) -> Option<String> {
        let result = self.store.as_mut().map_or(Ok(()), |store| store.append(sample));
        self.warning(0, result.err().map(|error| error.to_string()))
    }

    /// Writes the file of metrics. Returns a warning if the write failed for a new reason.
    pub(super) fn metrics(&mut self, model: &Model) -> Option<String> {
        let result = self.textfile.as_ref().map_or(Ok(()), |file| write_textfile(file, model));
        self.warning(1, result.err().map(|failure| failure.message()))
    }

    /// The current failure, if any.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failures.iter().flatten().map(String::as_str).next()
    }

    fn warning(&mut self, of: usize, failure: Option<String>) -> Option<String> {
        let is_new = failure.is_some() && failure != self.failures[of];
        self.failures[of].clone_from(&failure);
        failure.filter(|_| is_new)
    }
}

/// Replaces the file, so that no reader gets an incomplete file, and lets the user of node_exporter read it.
pub(super) fn write_textfile(file: &Path, model: &Model) -> Result<(), Failure> {
    output_file::write(file, metrics::render_prometheus_text(model).as_bytes())?;
    let readable = std::fs::metadata(file).and_then(|there| {
        let mode = there.permissions().mode();
        match there.is_file() && mode & 0o044 != 0o044 {
            true => std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode | 0o044)),
            false => Ok(()),
        }
    });
    readable.map_err(|error| {
        Failure::io(exit::NOT_POSSIBLE, format_args!("make {} readable for others", file.display()), &error)
    })
}
