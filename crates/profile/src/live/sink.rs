//! `Sink`: the destination of records.

use std::io::{self, Cursor, Seek, Write};

use crate::perf::write::{Described, PerfWriter};

/// The destination of records.
pub trait Sink {
    /// Takes whole records as the kernel wrote them, sorted by time for each CPU.
    ///
    /// # Errors
    /// If writing fails.
    fn take(&mut self, records: &[u8]) -> io::Result<()>;

    /// Whether it is full. The recording then ends.
    fn is_full(&self) -> bool {
        false
    }

    /// Whether it should write a window now, while the recording continues. Called about ten times a second.
    fn is_triggered(&mut self) -> bool {
        false
    }

    /// Writes a window, after all records up to now were added.
    ///
    /// # Errors
    /// If writing fails.
    fn hand_out(&mut self, described: &Described) -> io::Result<()> {
        let _ = described;
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// If writing fails.
    fn finish(&mut self, described: &Described) -> io::Result<()>;
}

/// A file, or another writer.
#[derive(Debug)]
pub struct FileSink<W> {
    writer: Option<PerfWriter<W>>,
}

impl<W: Write + Seek> FileSink<W> {
    /// Starts the file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn begin(into: W) -> io::Result<FileSink<W>> {
        Ok(FileSink { writer: Some(PerfWriter::begin(into)?) })
    }
}

impl<W: Write + Seek> Sink for FileSink<W> {
    fn take(&mut self, records: &[u8]) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.records(records))
    }

    fn finish(&mut self, described: &Described) -> io::Result<()> {
        self.writer.take().map_or(Ok(()), |writer| writer.finish(described).map(|_| ()))
    }
}

/// A file in memory, of limited size.
#[derive(Debug)]
pub struct Memory {
    writer: Option<PerfWriter<Cursor<Vec<u8>>>>,
    bytes_max: u64,
    done: Vec<u8>,
}

impl Memory {
    /// A file for up to `bytes_max` of records; the last read may exceed it.
    pub fn new(bytes_max: usize) -> Memory {
        // Writing to memory can't fail.
        Memory {
            writer: PerfWriter::begin(Cursor::new(Vec::new())).ok(),
            bytes_max: bytes_max as u64,
            done: Vec::new(),
        }
    }

    /// The file, after the recording.
    pub fn into_bytes(self) -> Vec<u8> {
        self.done
    }
}

impl Sink for Memory {
    fn take(&mut self, records: &[u8]) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.records(records))
    }

    fn is_full(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.records_bytes() >= self.bytes_max)
    }

    fn finish(&mut self, described: &Described) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            self.done = writer.finish(described)?.into_inner();
        }
        Ok(())
    }
}
