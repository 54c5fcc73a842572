//! Writes the windows of the recorder. Each file has the records, followed by the samples.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use evenkeel_profile::live::{Outlet, Sink, Window};
use evenkeel_profile::perf::write::Described;
use evenkeel_sys::clock;

use super::asked::{Answer, Shared};
use super::files::{Folder, Unfinished, append_samples};

/// Writes dumps to a folder.
#[derive(Debug)]
pub(super) struct Dumps {
    shared: Arc<Shared>,
    folder: Folder,
    reason: String,
    /// Whether a program waits for an answer in the folder.
    is_awaited: bool,
}

impl Dumps {
    pub(super) fn new(shared: Arc<Shared>, folder: Folder) -> Dumps {
        Dumps { shared, folder, reason: String::new(), is_awaited: false }
    }

    fn answer(&mut self, words: &str) {
        if std::mem::take(&mut self.is_awaited) {
            self.folder.answer(words);
        }
    }
}

/// A dump that is being written, with the path of its file.
#[derive(Debug)]
pub(super) struct Dump(Unfinished);

impl Write for Dump {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        File::flush(self.0.file())
    }
}

impl Seek for Dump {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.file().seek(to)
    }
}

impl Outlet for Dumps {
    type File = Dump;

    fn is_asked(&mut self) -> bool {
        // A dump without a sample cannot be opened. So a request in the first moments waits for the first sample.
        if self.shared.samples().is_empty() {
            return false;
        }
        if let Some(reason) = self.folder.asked() {
            self.is_awaited = true;
            match self.shared.ask(&reason, clock::monotonic_ns()) {
                Answer::Accepted => {}
                Answer::TooSoon { wait_s } => {
                    self.answer(&format!("refused: the last dump was less than a minute ago, wait {wait_s} s"));
                }
                Answer::Failed(why) => self.answer(&format!("refused: {why}")),
            }
        }
        let wanted = self.shared.take_wanted();
        let is_wanted = wanted.is_some();
        self.reason = wanted.unwrap_or_default();
        is_wanted
    }

    fn open(&mut self) -> io::Result<Dump> {
        self.folder.begin().map(Dump)
    }

    fn close(&mut self, mut file: Dump) -> io::Result<()> {
        let samples = self.shared.samples().bytes();
        file.seek(SeekFrom::End(0))?;
        append_samples(&mut file, &samples)?;
        let path = self.folder.finish(file.0)?;
        self.shared.written(&self.reason, Ok(path.clone()));
        self.answer(&path.display().to_string());
        Ok(())
    }
}

/// A window that is written only on request and not at the end. An error such as a full disk does not end the recording.
pub(super) struct Quiet(pub(super) Window<Dumps>);

impl Sink for Quiet {
    fn take(&mut self, records: &[u8]) -> io::Result<()> {
        self.0.take(records)
    }

    fn is_triggered(&mut self) -> bool {
        self.0.is_triggered()
    }

    fn hand_out(&mut self, described: &Described) -> io::Result<()> {
        if let Err(error) = self.0.hand_out(described) {
            let why = format!("write a dump: {error}");
            let dumps = self.0.outlet_mut();
            dumps.shared.written("", Err(why.clone()));
            dumps.answer(&format!("refused: {why}"));
        }
        Ok(())
    }

    fn finish(&mut self, _described: &Described) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_hostfs::Root;

    use super::*;
    use crate::{Collector, CollectorOptions};

    #[test]
    fn a_request_before_the_first_sample_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let shared = Arc::new(Shared::default());
        let mut dumps = Dumps::new(Arc::clone(&shared), Folder::open(dir.path(), 3).unwrap());
        assert_eq!(shared.ask("at once", 1), Answer::Accepted);
        assert!(!dumps.is_asked());
        shared.samples().add(&Collector::new(Root::from(BTreeMap::new()), CollectorOptions::default()).sample());
        assert!(dumps.is_asked() && !dumps.is_asked());
    }
}
