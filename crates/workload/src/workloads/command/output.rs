//! The output of a program. evenkeel reads it while the program runs, so that the program never waits for evenkeel.
//! The last lines are stored for errors, and each line goes to listeners.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::source::split::Split;

/// The number of lines to store, and (the next constant) the number of characters of each line.
const LINES_KEPT: usize = 5;
const LETTERS_KEPT: usize = 160;
/// The number of bytes to read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Takes each line, on the thread that reads the output.
pub(super) type Listener = Arc<dyn Fn(&str) + Send + Sync>;

/// The output of one program.
pub(super) struct Output {
    last: Arc<Mutex<VecDeque<String>>>,
    sender: Option<Sender<()>>,
    open: Receiver<()>,
    /// The names of the streams that have ended.
    closed: Arc<Mutex<Vec<&'static str>>>,
}

impl Output {
    pub(super) fn new() -> Output {
        let (sender, open) = channel();
        Output { last: Arc::default(), sender: Some(sender), open, closed: Arc::default() }
    }

    /// Reads a further stream of this name on a thread. The thread ends only when the stream ends, whatever the input is.
    pub(super) fn drain(
        &mut self,
        name: &'static str,
        mut stream: impl Read + Send + 'static,
        listeners: Vec<Listener>,
    ) {
        let (last, closed) = (Arc::clone(&self.last), Arc::clone(&self.closed));
        let sender = self.sender.clone();
        std::thread::spawn(move || {
            // The sender is dropped when the stream has ended. The receiver waits for that.
            let _sender = sender;
            let mut split = Split::default();
            let mut piece = vec![0; PIECE_BYTES];
            let mut take = |line: &str| {
                keep(&last, line);
                listeners.iter().for_each(|listener| listener(line));
            };
            loop {
                match stream.read(&mut piece) {
                    Ok(0) => break,
                    Ok(count) => split.push(&piece[..count], &mut take),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            split.end(&mut take);
            closed.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        });
    }

    /// Waits at most `limit` until every stream has ended and all lines were passed on.
    /// The limit is necessary, because a process that was left behind may keep a stream open forever.
    pub(super) fn await_end(&mut self, limit: Duration) {
        drop(self.sender.take());
        // No message is ever sent. The receiver returns when the last sender is dropped.
        let _ = self.open.recv_timeout(limit);
    }

    /// Whether this stream has ended.
    pub(super) fn is_closed(&self, name: &str) -> bool {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).contains(&name)
    }

    /// The last lines as text for an error. Empty if there were no lines.
    pub(super) fn last(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_empty() {
            return String::new();
        }
        let lines: Vec<String> = last.iter().map(|line| format!("{line:?}")).collect();
        format!("; its last lines: {}", lines.join(" "))
    }
}

fn keep(last: &Mutex<VecDeque<String>>, line: &str) {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    // Reuse the memory of the oldest line, because a program may print a million lines per second.
    let mut room = if last.len() == LINES_KEPT { last.pop_front().unwrap_or_default() } else { String::new() };
    room.clear();
    room.extend(line.chars().take(LETTERS_KEPT));
    last.push_back(room);
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_all_are_heard() {
        let mut output = Output::new();
        let heard = Arc::new(Mutex::new(0));
        let listener: Listener = {
            let heard = Arc::clone(&heard);
            Arc::new(move |_| *heard.lock().unwrap() += 1)
        };
        let text: String = (0..2000).map(|line| format!("line {line}\n")).collect();
        output.drain("out", Cursor::new(text + "the \u{1b}[1mend"), vec![listener]);
        output.await_end(Duration::from_secs(30));
        assert!(output.is_closed("out") && !output.is_closed("errors"));
        assert_eq!(*heard.lock().unwrap(), 2001);
        let expected =
            "; its last lines: \"line 1996\" \"line 1997\" \"line 1998\" \"line 1999\" \"the \\u{1b}[1mend\"";
        assert_eq!(output.last(), expected);
    }

    #[test]
    fn megabytes_without_a_line_end_take_little_room() {
        let mut output = Output::new();
        output.drain("out", std::io::repeat(0xff).take(64 << 20), Vec::new());
        output.await_end(Duration::from_secs(60));
        assert_eq!(output.last().chars().filter(|letter| *letter == '\u{fffd}').count(), LETTERS_KEPT);
        assert_eq!(Output::new().last(), "");
    }
}
