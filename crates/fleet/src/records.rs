//! Tables in CSV, one record at a time, in bounded memory.
//!
//! A file of the user may have a billion rows, or one row of two gigabytes. The buffer of a record is fixed, and an error names the line.

use std::collections::HashSet;
use std::io::{self, Read};

/// The maximum length of a record, in bytes.
const RECORD_BYTES_MAX: usize = 64 << 10;
/// The maximum number of fields of a record.
const FIELDS_MAX: usize = 1024;
/// The number of bytes that one `read` requests.
const PIECE_BYTES: usize = 64 << 10;
/// The maximum number of characters of a field that an error quotes.
const QUOTED_CHARS_MAX: usize = 40;
/// The maximum number of columns that an error names.
const NAMED_MAX: usize = 12;
/// The byte order mark, which some programs write at the start of UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The byte order marks of UTF-16.
const BYTE_ORDER_MARKS_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// Why a table can't be used. The message continues a sentence that begins with "failed to read FILE: ".
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The kernel refused to read on.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// A line of the table is wrong.
    #[error("line {line}: {fault}")]
    Line {
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong in the line.
        fault: TableFault,
    },
    /// Each line is valid, but the whole table is not.
    #[error("{0}")]
    Whole(TableFault),
}

/// What is wrong in a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableFault {
    /// The record takes more memory than a table's row needs.
    #[error("longer than {RECORD_BYTES_MAX} bytes; is it a table with one row a line?")]
    TooLong,
    /// The record has more fields than any table needs.
    #[error("more than {FIELDS_MAX} columns")]
    TooWide,
    /// The file is not UTF-8.
    #[error("it is not text")]
    NoText,
    /// The file is UTF-16, which some programs of Windows write.
    #[error("it is UTF-16; save it as UTF-8")]
    Utf16,
    /// A field begins with a quote, but has no closing quote.
    #[error("a quote opens a field here, and is never closed")]
    OpenQuote,
    /// The columns are not separated by commas.
    #[error("its columns are separated by {0}; save it as CSV with commas")]
    Separator(&'static str),
    /// The number of columns differs from the first line.
    #[error("{found} column{}, and the first line has {expected}", if *.found == 1 { "" } else { "s" })]
    Columns {
        /// The columns of this line.
        found: usize,
        /// The columns of the first line.
        expected: usize,
    },
    /// The text of a field is not a value that its column accepts.
    #[error("column {column:?}: {text:?} is not {expected}")]
    Value {
        /// The column's name.
        column: String,
        /// The field, shortened.
        text: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// The first line has no names of columns.
    #[error("the first line has to name the columns; {0:?} is a number")]
    NoHeader(String),
    /// A required column is missing.
    #[error("no column {wanted}; the first line has {found}")]
    NoColumn {
        /// The required column.
        wanted: &'static str,
        /// The names in the first line.
        found: String,
    },
    /// A column with an unknown name.
    #[error("no column is called {name:?}; the columns are {known}")]
    UnknownColumn {
        /// The name in the file.
        name: String,
        /// All known names.
        known: String,
    },
    /// Two columns or rows have the same name.
    #[error("{0:?} stands twice")]
    Twice(String),
    /// There are more items than the limit.
    #[error("more than {limit} {what}")]
    TooMany {
        /// The maximum number of items.
        limit: u64,
        /// The kind of item.
        what: &'static str,
    },
    /// The table is empty.
    #[error("it has no {0}")]
    Empty(&'static str),
}

impl TableFault {
    /// The fault of a field with an invalid value.
    pub(crate) fn value(column: &str, text: &str, expected: &'static str) -> TableFault {
        TableFault::Value { column: shortened(column), text: shortened(text), expected }
    }

    /// The fault of a first line that lacks a column.
    pub(crate) fn no_column(wanted: &'static str, names: &[String]) -> TableFault {
        let mut found = names.iter().take(NAMED_MAX).map(|name| shortened(name)).collect::<Vec<_>>().join(", ");
        if names.len() > NAMED_MAX {
            found.push_str(", …");
        }
        TableFault::NoColumn { wanted, found }
    }

    /// The fault of a column with an unknown name.
    pub(crate) fn unknown_column(name: &str, known: &[&str]) -> TableFault {
        TableFault::UnknownColumn { name: shortened(name), known: known.join(", ") }
    }
}

/// The text, shortened for an error message.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The records of a table.
pub(crate) struct Records<R> {
    source: R,
    parser: csv_core::Reader,
    piece: Vec<u8>,
    /// The part of `piece` that was read but not parsed yet.
    unparsed: std::ops::Range<usize>,
    is_started: bool,
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The number of the line on which the last record begins.
    line: u64,
    /// The number of line ends that were skipped before the parser saw them.
    skipped: u64,
    quote: Quote,
}

/// The position in a field after the last byte, to detect a quote that is never closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Quote {
    /// At the start of a field.
    #[default]
    Start,
    /// In a field without quotes.
    Plain,
    /// The parser is after the opening quote of a field.
    Inside,
    /// The parser is after a quote in a quoted field. The quote closes the field, or is the first of two that mean one quote.
    Second,
}

impl Quote {
    fn next(self, byte: u8) -> Quote {
        match (self, byte) {
            (Quote::Start, b'"') | (Quote::Second, b'"') => Quote::Inside,
            (Quote::Inside, b'"') => Quote::Second,
            (Quote::Inside, _) => Quote::Inside,
            (_, b',' | b'\n' | b'\r') => Quote::Start,
            _ => Quote::Plain,
        }
    }
}

impl<R: Read> Records<R> {
    pub(crate) fn new(source: R) -> Records<R> {
        Records {
            source,
            parser: csv_core::Reader::new(),
            piece: vec![0; PIECE_BYTES],
            unparsed: 0..0,
            is_started: false,
            text: vec![0; RECORD_BYTES_MAX],
            ends: vec![0; FIELDS_MAX],
            line: 1,
            skipped: 0,
            quote: Quote::Start,
        }
    }

    /// Refuses a record with another number of columns than the first line.
    pub(crate) fn has_columns(&self, fields: &Fields, expected: usize) -> Result<(), TableError> {
        match fields.len() {
            found if found == expected => Ok(()),
            // A quote that is never closed takes the next lines into the field.
            _ if fields.text.contains('\n') => Err(self.fault(TableFault::OpenQuote)),
            found => Err(self.fault(TableFault::Columns { found, expected })),
        }
    }

    /// An error about the record that was read last.
    pub(crate) fn fault(&self, fault: TableFault) -> TableError {
        TableError::Line { line: self.line, fault }
    }

    /// Reads the next record into `fields`. False at the end of the table.
    ///
    /// # Errors
    /// If the source cannot be read, or the record is too long or not text.
    pub(crate) fn next(&mut self, fields: &mut Fields) -> Result<bool, TableError> {
        let (mut length, mut count) = (0, 0);
        self.skip_empty_lines()?;
        self.line = self.parser.line() + self.skipped;
        loop {
            let is_end = self.unparsed.is_empty() && !self.refill()?;
            let input = &self.piece[self.unparsed.clone()];
            let (result, read, written, ended) =
                self.parser.read_record(input, &mut self.text[length..], &mut self.ends[count..]);
            self.quote = input[..read].iter().fold(self.quote, |quote, byte| quote.next(*byte));
            self.unparsed.start += read;
            length += written;
            count += ended;
            match result {
                _ if is_end && self.quote == Quote::Inside => return Err(self.fault(TableFault::OpenQuote)),
                csv_core::ReadRecordResult::InputEmpty if is_end => return Ok(false),
                csv_core::ReadRecordResult::InputEmpty => {}
                csv_core::ReadRecordResult::OutputFull if self.quote == Quote::Inside => {
                    return Err(self.fault(TableFault::OpenQuote));
                }
                csv_core::ReadRecordResult::OutputFull => return Err(self.fault(TableFault::TooLong)),
                csv_core::ReadRecordResult::OutputEndsFull => return Err(self.fault(TableFault::TooWide)),
                csv_core::ReadRecordResult::End => return Ok(false),
                csv_core::ReadRecordResult::Record => break,
            }
        }
        fields.text.clear();
        let text = std::str::from_utf8(&self.text[..length]).map_err(|_| self.fault(TableFault::NoText))?;
        fields.text.push_str(text);
        fields.ends.clear();
        fields.ends.extend_from_slice(&self.ends[..count]);
        // The text as a whole is UTF-8, but a character may be split between two fields. Then neither field is text.
        if fields.ends.iter().any(|end| !fields.text.is_char_boundary(*end)) {
            return Err(self.fault(TableFault::NoText));
        }
        Ok(true)
    }

    /// Skips empty lines and comments, so that an error names the line with the next record.
    fn skip_empty_lines(&mut self) -> Result<(), TableError> {
        let mut is_comment = false;
        loop {
            if self.unparsed.is_empty() && !self.refill()? {
                return Ok(());
            }
            match self.piece[self.unparsed.start] {
                b'\n' => (self.skipped, is_comment) = (self.skipped + 1, false),
                b'\r' => {}
                b'#' => is_comment = true,
                _ if is_comment => {}
                _ => return Ok(()),
            }
            self.unparsed.start += 1;
        }
    }

    /// Reads more of the source. False at its end.
    fn refill(&mut self) -> Result<bool, TableError> {
        loop {
            match self.source.read(&mut self.piece) {
                Ok(length) => {
                    self.unparsed = 0..length;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !std::mem::replace(&mut self.is_started, true) {
            let piece = &self.piece[self.unparsed.clone()];
            if BYTE_ORDER_MARKS_16.iter().any(|mark| piece.starts_with(mark)) {
                return Err(TableError::Whole(TableFault::Utf16));
            }
            if piece.starts_with(BYTE_ORDER_MARK) {
                self.unparsed.start += BYTE_ORDER_MARK.len();
            }
        }
        Ok(!self.unparsed.is_empty())
    }
}

/// The fields of one record.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    text: String,
    ends: Vec<usize>,
}

impl Fields {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field without the white space around it. Empty if it has only white space.
    pub(crate) fn get(&self, at: usize) -> &str {
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(start);
        self.text.get(start..end).unwrap_or_default().trim()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|at| self.get(at))
    }
}

/// Refuses a first line whose separator is not a comma.
///
/// # Errors
/// If the first line is one field with semicolons, tabs or vertical bars.
pub(crate) fn has_commas<R: Read>(records: &Records<R>, fields: &Fields) -> Result<(), TableError> {
    let separators = [(';', "semicolons"), ('\t', "tabs"), ('|', "vertical bars")];
    match separators.iter().find(|(letter, _)| fields.len() == 1 && fields.get(0).contains(*letter)) {
        Some((_, what)) => Err(records.fault(TableFault::Separator(what))),
        None => Ok(()),
    }
}

/// The names of the columns: the first record.
///
/// # Errors
/// If there is no first line, a name is a number, or two columns have one name.
pub(crate) fn header<R: Read>(records: &mut Records<R>) -> Result<Vec<String>, TableError> {
    let mut fields = Fields::default();
    if !records.next(&mut fields)? {
        return Err(TableError::Whole(TableFault::Empty("lines")));
    }
    has_commas(records, &fields)?;
    let names: Vec<String> = fields.iter().map(str::to_owned).collect();
    if let Some(number) = names.iter().find(|name| name.parse::<f64>().is_ok()) {
        return Err(records.fault(TableFault::NoHeader(number.clone())));
    }
    if let Some(twice) = named_twice(&names) {
        return Err(records.fault(TableFault::Twice(twice.clone())));
    }
    Ok(names)
}

/// The first column with the name of an earlier one; case does not matter. Without this check, one of the two columns would be ignored silently.
pub(crate) fn named_twice(names: &[String]) -> Option<&String> {
    let mut seen = HashSet::new();
    names.iter().find(|name| !name.is_empty() && !seen.insert(name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Vec<String>>, String> {
        let mut records = Records::new(bytes);
        let (mut fields, mut rows) = (Fields::default(), Vec::new());
        while records.next(&mut fields).map_err(|error| error.to_string())? {
            rows.push(fields.iter().map(str::to_owned).collect());
        }
        Ok(rows)
    }

    #[test]
    fn records_are_read_as_spreadsheets_write_them() {
        let rows = |text: &str| all(text.as_bytes()).unwrap().iter().map(|row| row.join("|")).collect::<Vec<_>>();
        assert_eq!(rows("a,b\n1, 2 \n"), ["a|b", "1|2"]);
        assert_eq!(rows("\u{feff}a,b\r\n\"x,\"\"y\",3"), ["a|b", "x,\"y|3"]);
        assert_eq!(rows("# a comment\na\n\n\n2\n"), ["a", "2"]);
        assert_eq!(rows(""), Vec::<String>::new());
    }

    /// A source with one endless line is refused before it takes memory.
    #[test]
    fn a_line_without_an_end_is_refused() {
        let endless = Read::chain(&b"a,b\n"[..], io::repeat(b'1'));
        let (mut records, mut fields) = (Records::new(endless), Fields::default());
        assert!(records.next(&mut fields).unwrap());
        let refused = records.next(&mut fields).unwrap_err().to_string();
        assert_eq!(refused, "line 2: longer than 65536 bytes; is it a table with one row a line?");
        let (mut wide, mut quoted) =
            (Records::new(io::repeat(b',')), Records::new(Read::chain(&b"\""[..], io::repeat(b'\n'))));
        assert_eq!(wide.next(&mut fields).unwrap_err().to_string(), "line 1: more than 1024 columns");
        let open = "a quote opens a field here, and is never closed";
        assert_eq!(quoted.next(&mut fields).unwrap_err().to_string(), format!("line 1: {open}"));
        assert_eq!(all(b"a\n\xff\n").unwrap_err(), "line 2: it is not text");
    }

    #[test]
    fn what_a_spreadsheet_does_wrong_is_named() {
        let open = |line: u64| format!("line {line}: a quote opens a field here, and is never closed");
        assert_eq!(all(b"a,b\n1,\"x\n2,y\n").unwrap_err(), open(2));
        assert_eq!(all(b"a,b\n1,\"x").unwrap_err(), open(2));
        assert_eq!(all(b"a,b\n1,5\" disk").unwrap()[1], ["1", "5\" disk"]);
        assert_eq!(all(b"a,b\n1,\"x \"\"y\"\"\"").unwrap()[1], ["1", "x \"y\""]);
        let first = |bytes: &[u8]| header(&mut Records::new(bytes)).unwrap_err().to_string();
        assert_eq!(first(b"a;b\n"), "line 1: its columns are separated by semicolons; save it as CSV with commas");
        assert_eq!(first(b"a\tb\n"), "line 1: its columns are separated by tabs; save it as CSV with commas");
        assert_eq!(first(b"\xff\xfea\0,\0b\0"), "it is UTF-16; save it as UTF-8");
        // The quote that opens in line 2 closes in line 3. Both lines are one record.
        let mut records = Records::new(&b"a,b\n\"1,2\n3\",4,5\n"[..]);
        let (names, mut fields) = (header(&mut records).unwrap(), Fields::default());
        assert!(records.next(&mut fields).unwrap());
        assert_eq!(records.has_columns(&fields, 2).unwrap_err().to_string(), open(2));
        assert_eq!(names.len(), 2);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut records = Records::new(&bytes[..]);
            let _ = header(&mut records);
            let _ = all(&bytes);
        }
    }
}
