//! `Sink`: where records go.

use std::io::{self, Cursor, Seek, Write};

use crate::perf::write::{Described, PerfWriter};

/// Where records go.
pub trait Sink {
    /// Takes whole records, as the kernel wrote them; those of a CPU are in the order of time.
    ///
    /// # Errors
    /// Of writing.
    fn take(&mut self, records: &[u8]) -> io::Result<()>;

    /// Whether it can take no more: the recording ends then.
    fn is_full(&self) -> bool {
        false
    }

    /// Whether it is to hand out what it has, though the recording goes on. Asked about ten times a second.
    fn is_triggered(&mut self) -> bool {
        false
    }

    /// Hands out what it has. All that was recorded up to now was taken.
    ///
    /// # Errors
    /// Of writing.
    fn hand_out(&mut self, described: &Described) -> io::Result<()> {
        let _ = described;
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// Of writing.
    fn finish(&mut self, described: &Described) -> io::Result<()>;
}

/// A file, or what can be written as one.
#[derive(Debug)]
pub struct FileSink<W> {
    writer: Option<PerfWriter<W>>,
}

impl<W: Write + Seek> FileSink<W> {
    /// Begins to write it.
    ///
    /// # Errors
    /// Of writing.
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

/// A whole file in memory, with a bound.
#[derive(Debug)]
pub struct Memory {
    writer: Option<PerfWriter<Cursor<Vec<u8>>>>,
    bytes_max: u64,
    done: Vec<u8>,
}

impl Memory {
    /// One that takes so many bytes of records, and those of the last look beyond it.
    pub fn new(bytes_max: usize) -> Memory {
        // Writing to memory does not fail.
        Memory {
            writer: PerfWriter::begin(Cursor::new(Vec::new())).ok(),
            bytes_max: bytes_max as u64,
            done: Vec::new(),
        }
    }

    /// The file, when the recording has ended.
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
