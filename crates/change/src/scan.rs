//! Reads a journal line by line, in bounded memory. Skips and reports damaged parts, and reads everything else.

use std::io::BufRead;
use std::path::Path;

use evenkeel_sys::Errno;

use crate::log::Log;
use crate::loss::Loss;
use crate::record::{Bad, Event, Line, Record, decode};
use crate::sizes::MAX_LINE_BYTES;
use crate::state_error::StateError;

/// How many bytes of a journal's text evenkeel holds in memory.
/// Above this limit, it drops the oldest closed transactions.
const MAX_HELD_BYTES: u64 = 64 << 20;

/// How many bytes of closed transactions stay after dropping; `history` lists these transactions.
pub(crate) const KEPT_BYTES: u64 = 16 << 20;

/// The maximum number of losses in the list; further losses are only counted.
const MAX_LOSSES: usize = 100;

/// The result of scanning a journal's bytes.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) log: Log,
    /// Where the last whole line ends, in bytes.
    pub(crate) end: u64,
    /// How many bytes of an incomplete record a crash left after `end`.
    pub(crate) torn: u64,
    /// The number of the last record.
    pub(crate) last: u64,
}

/// Reads a journal. `noted` is the number of its last record, from the note next to the journal, if the note exists.
///
/// A last line without its newline or with a wrong checksum is torn.
/// evenkeel syncs each record before it writes the next, so a crash can tear only the last record.
/// The first record is never torn, since evenkeel creates the file together with it.
pub(crate) fn scan(path: &Path, mut bytes: impl BufRead, noted: Option<u64>) -> Result<Scan, StateError> {
    let mut scanner = Scanner::default();
    let mut text = Vec::new();
    loop {
        let piece = read_piece(&mut bytes, &mut text);
        let piece = piece.map_err(|error| StateError::io("read", path, Errno::from(&error)))?;
        if piece.bytes == 0 {
            return Ok(scanner.finish(noted));
        }
        scanner.take(path, piece, &text)?;
    }
}

/// A line, or the bytes after the last newline.
#[derive(Clone, Copy)]
struct Piece {
    /// Its length, newline included.
    bytes: u64,
    /// Whether it ends in a newline.
    is_line: bool,
}

impl Piece {
    /// Whether the line is too long to hold in memory. Parsed JSON takes many times the length of its text.
    fn is_overlong(self) -> bool {
        self.bytes > MAX_LINE_BYTES
    }
}

/// Reads a piece. Stores its text without the newline in `text`, unless the piece is too long.
fn read_piece(bytes: &mut impl BufRead, text: &mut Vec<u8>) -> std::io::Result<Piece> {
    text.clear();
    let mut piece = Piece { bytes: 0, is_line: false };
    while !piece.is_line {
        let chunk = match bytes.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        if chunk.is_empty() {
            break;
        }
        let newline = chunk.iter().position(|byte| *byte == b'\n');
        let taken = newline.map_or(chunk.len(), |at| at + 1);
        piece.bytes += taken as u64;
        piece.is_line = newline.is_some();
        if !piece.is_overlong() {
            text.extend_from_slice(&chunk[..newline.unwrap_or(taken)]);
        }
        bytes.consume(taken);
    }
    Ok(piece)
}

#[derive(Default)]
struct Scanner {
    log: Log,
    /// Where the next piece starts.
    offset: u64,
    /// The end of the last line that is not torn.
    end: u64,
    /// Whether the previous line had a wrong checksum. If that line is the last line, it is torn.
    suspect: bool,
    /// The number of the last record.
    last: u64,
    /// Whether unreadable parts follow the last valid record. These parts may have been records.
    has_gap: bool,
    losses: Vec<Loss>,
    more_losses: u64,
}

impl Scanner {
    fn take(&mut self, path: &Path, piece: Piece, text: &[u8]) -> Result<(), StateError> {
        let start = self.offset;
        self.offset += piece.bytes;
        if std::mem::take(&mut self.suspect) {
            self.unreadable(self.end, start - self.end, "the checksum does not match".to_owned());
            self.end = start;
        }
        if !piece.is_line {
            if piece.is_overlong() {
                // A crash cannot leave an incomplete record of this length.
                self.unreadable(start, piece.bytes, format!("the line is longer than {MAX_LINE_BYTES} bytes"));
            }
            return Ok(());
        }
        if piece.is_overlong() {
            self.unreadable(start, piece.bytes, format!("the line is longer than {MAX_LINE_BYTES} bytes"));
        } else {
            match decode(text) {
                Err(Bad::Checksum) => {
                    self.suspect = true;
                    return Ok(());
                }
                Err(Bad::Content(why)) => self.unreadable(start, piece.bytes, why),
                Err(Bad::Format(format)) => {
                    return Err(StateError::UnknownFormat { path: path.display().to_string(), offset: start, format });
                }
                Ok(Line::Known(record)) => self.record(start, piece.bytes, *record),
                Ok(Line::Unknown { kind, seq }) => {
                    if self.count(start, piece.bytes, seq, false) {
                        self.log.pass_over(kind);
                    }
                }
            }
        }
        self.end = self.offset;
        Ok(())
    }

    fn record(&mut self, start: u64, bytes: u64, record: Record) {
        let begins_anew = matches!(record.event, Event::Compacted { .. });
        if !self.count(start, bytes, record.seq, begins_anew) {
            return;
        }
        let txn = record.event.txn();
        let is_begin = matches!(record.event, Event::Begin { .. } | Event::Compacted { .. });
        if !is_begin && self.log.transaction(txn).is_none() {
            self.log.begin_without_its_record(txn);
            self.lose(Loss::Begin { transaction: txn });
        }
        if let Err(why) = self.log.absorb(record.at_ns, record.event, bytes) {
            self.unreadable(start, bytes, why);
        }
        if self.log.bytes() > MAX_HELD_BYTES {
            self.log.leave_out_closed(KEPT_BYTES);
        }
    }

    /// Checks by its number whether the record is the next one. A gap before the record is a loss.
    /// Records of older programs have no numbers, and their positions count instead.
    fn count(&mut self, start: u64, bytes: u64, seq: Option<u64>, begins_anew: bool) -> bool {
        // A foreign record may have the largest number, which has no successor. Do not overflow on it.
        let expected = self.last.saturating_add(1);
        let seq = seq.unwrap_or(expected);
        if seq < expected {
            self.unreadable(start, bytes, format!("record {seq} comes after record {}", self.last));
            return false;
        }
        let is_first = self.last == 0 && !self.has_gap;
        if seq > expected && !self.has_gap && !(begins_anew && is_first) {
            self.lose(Loss::Records { first: expected, last: seq - 1 });
        }
        self.last = seq;
        self.has_gap = false;
        true
    }

    fn unreadable(&mut self, start: u64, length: u64, because: String) {
        self.has_gap = true;
        match self.losses.last_mut() {
            // Merge adjacent losses. Otherwise a file that is not a journal would have one loss per line.
            Some(Loss::Unreadable { offset, bytes, .. }) if *offset + *bytes == start => *bytes += length,
            _ => self.lose(Loss::Unreadable { offset: start, bytes: length, why: because }),
        }
    }

    fn lose(&mut self, loss: Loss) {
        if self.losses.len() < MAX_LOSSES { self.losses.push(loss) } else { self.more_losses += 1 }
    }

    fn finish(mut self, noted: Option<u64>) -> Scan {
        let torn = self.offset - self.end;
        match noted.filter(|noted| *noted > self.last) {
            Some(noted) => {
                self.lose(Loss::Records { first: self.last + 1, last: noted });
                self.last = noted;
            }
            None if self.last == 0 && torn > 0 && self.losses.is_empty() => {
                self.unreadable(0, torn, "the journal ends within its first record".to_owned());
            }
            None => {}
        }
        for loss in self.log.lost_befores() {
            self.lose(loss);
        }
        if self.more_losses > 0 {
            self.losses.push(Loss::More { count: self.more_losses });
        }
        self.log.set_torn(torn);
        self.log.set_losses(self.losses);
        Scan { log: self.log, end: self.end, torn, last: self.last }
    }
}
