//! `Split`: splits the output of a program into lines, piece by piece. The length of a line is limited. The type does no I/O itself.

/// The maximum length of a line in bytes. The rest of a longer line is dropped.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// Splits bytes into lines. `\r` also ends a line, because programs use it to draw progress.
#[derive(Clone, Debug, Default)]
pub struct Split {
    line: Vec<u8>,
}

impl Split {
    /// Adds bytes, and calls `each` with every line that is now complete, except empty lines. Invalid UTF-8 is replaced.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        let mut pieces = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
        if let Some(first) = pieces.next() {
            self.keep(first);
        }
        for piece in pieces {
            self.end(&mut each);
            self.keep(piece);
        }
    }

    /// Ends the input. Calls `each` with the last line if that line is incomplete.
    pub fn end(&mut self, mut each: impl FnMut(&str)) {
        if !self.line.is_empty() {
            each(&String::from_utf8_lossy(&self.line));
            self.line.clear();
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = LINE_BYTES_MAX - self.line.len();
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut split, mut lines) = (Split::default(), Vec::new());
        for piece in pieces {
            split.push(piece, |line| lines.push(line.to_owned()));
        }
        split.end(|line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let table: [(&[&[u8]], &[&str]); 6] = [
            (&[b"a\nb\n"], &["a", "b"]),
            (&[b"a", b"b\nc", b"", b"\n", b"d"], &["ab", "c", "d"]),
            (&[b"10 %\r20 %\r\n\n\ndone"], &["10 %", "20 %", "done"]),
            (&[b"\xff\xfe\n"], &["\u{fffd}\u{fffd}"]),
            (&[b"\xc3", b"\xa4\n"], &["ä"]),
            (&[], &[]),
        ];
        for (pieces, expected) in table {
            assert_eq!(lines(pieces), expected);
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_room_than_a_long_one() {
        let mut split = Split::default();
        for _ in 0..100 {
            split.push(&[b'x'; 4000], |_| panic!("it has not ended"));
            assert!(split.line.len() <= LINE_BYTES_MAX && split.line.capacity() <= 2 * LINE_BYTES_MAX);
        }
        let mut lines = Vec::new();
        split.push(b"y\nz\n", |line| lines.push((line.len(), line.ends_with('x'))));
        assert_eq!(lines, [(LINE_BYTES_MAX, true), (1, false)]);
    }

    proptest! {
        #[test]
        fn any_split_of_the_input_gives_the_same_lines(bytes in prop::collection::vec(prop::sample::select(b"ab\n\r\xff".to_vec()), 0..60), at in 0usize..60) {
            let at = at.min(bytes.len());
            prop_assert_eq!(lines(&[&bytes]), lines(&[&bytes[..at], &bytes[at..]]));
        }
    }
}
