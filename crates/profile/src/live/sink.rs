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

    /// Whether the sink is full. The recording then ends.
    fn is_full(&self) -> bool {
        false
    }

    /// Whether to write a window now, while the recording continues. Called about ten times a second.
    fn is_triggered(&mut self) -> bool {
        false
    }

    /// Writes a window. Called after the sink got all records up to now.
    ///
    /// # Errors
    /// If writing fails.
    fn hand_out(&mut self, described: &Described) -> io::Result<()> {
        let _ = described;
        Ok(())
    }

    /// Completes the output after the last record.
    ///
    /// # Errors
    /// If writing fails.
    fn finish(&mut self, described: &Described) -> io::Result<()>;
}

/// A sink that writes to a file or to another writer.
#[derive(Debug)]
pub struct FileSink<W> {
    writer: Option<PerfWriter<W>>,
}

impl<W: Write + Seek> FileSink<W> {
    /// Writes the start of the file.
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

/// A sink that keeps a file of limited size in memory.
#[derive(Debug)]
pub struct Memory {
    writer: Option<PerfWriter<Cursor<Vec<u8>>>>,
    bytes_max: u64,
    done: Vec<u8>,
}

impl Memory {
    /// Starts a file for at most `bytes_max` bytes of records. Only the last read may exceed this limit.
    pub fn new(bytes_max: usize) -> Memory {
        // Writing to memory can't fail.
        Memory {
            writer: PerfWriter::begin(Cursor::new(Vec::new())).ok(),
            bytes_max: bytes_max as u64,
            done: Vec::new(),
        }
    }

    /// The bytes of the file. Call this after the recording.
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
