//! Carries commands from a stream of lines to the thread that can answer them, and answers back.
//! The answering thread never touches the streams, so a reader that does not read cannot delay a tick.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use serde::Serialize;

use crate::control::{Answer, Command, MAX_LINE_BYTES, Quantiles};

/// The time limit of an answer. Threads answer at ticks and inputs, which are far more frequent.
/// If no answer comes in this time, something hangs, and the answer says so.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A command on its way to the thread that answers it.
#[derive(Debug)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// Receives the one answer without blocking.
    pub answer: SyncSender<Answer>,
}

/// A channel for requests. It holds one at a time, because lines arrive one by one.
pub fn channel() -> (SyncSender<Request>, Receiver<Request>) {
    sync_channel(1)
}

/// Answers a waiting request, if there is one. Only the thread that owns the numbers calls this.
/// A call answers one request, so that many requests cannot keep the thread here.
pub fn answer_waiting(requests: &Receiver<Request>, answer: impl FnOnce(Command) -> Answer) {
    if let Ok(request) = requests.try_recv() {
        let answer_text = answer(request.command);
        // The requesting thread may have given up.
        let _ = request.answer.try_send(answer_text);
    }
}

/// Writes one line and flushes it.
pub fn write_line(output: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    output.write_all(&text)?;
    output.flush()
}

/// Answers every line of `input` with one line on `output`, until a `stop` command or the end of the input.
pub fn serve(input: impl Read, mut output: impl Write, requests: &SyncSender<Request>) -> io::Result<()> {
    let mut input = BufReader::new(input);
    while let Some(line) = read_line(&mut input)? {
        let answer = match line.as_deref().map(Command::parse) {
            None => error(format!("a line is longer than {MAX_LINE_BYTES} bytes")),
            Some(Err(wrong)) => error(wrong.to_string()),
            Some(Ok(Command::Stop)) => {
                return write_line(&mut output, &Answer::Stopping { stopping: true });
            }
            Some(Ok(command)) => ask(requests, command),
        };
        write_line(&mut output, &answer)?;
    }
    Ok(())
}

/// Writes one line per second for people, until `stop` is set.
pub fn narrate(mut output: impl Write, requests: &SyncSender<Request>, stop: &AtomicBool) -> io::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs(1));
        writeln!(output, "{}", in_words(&ask(requests, Command::Window)))?;
    }
    Ok(())
}

fn ask(requests: &SyncSender<Request>, command: Command) -> Answer {
    let (answer, answers) = sync_channel(1);
    if requests.try_send(Request { command, answer }).is_err() {
        return error("nobody takes commands any more, or an earlier one still waits".to_owned());
    }
    answers.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| error(format!("no answer within {ANSWER_TIMEOUT:?}")))
}

fn error(error: String) -> Answer {
    Answer::Error { error }
}

/// The next line.
/// `Some(None)` stands for a line that is too long: it is read to its end but not kept.
/// Bytes that are not UTF-8 become replacement characters, which no command contains.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Option<String>>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let read = input.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
        let ended = read == 0 || line.last() == Some(&b'\n');
        if ended && read == 0 && line.is_empty() && !too_long {
            return Ok(None);
        }
        if ended {
            let fits = !too_long && line.len() <= MAX_LINE_BYTES;
            return Ok(Some(fits.then(|| String::from_utf8_lossy(&line).trim().to_owned())));
        }
        if line.len() >= MAX_LINE_BYTES {
            too_long = true;
            line.clear();
        }
    }
}

fn in_words(answer: &Answer) -> String {
    match answer {
        Answer::ServerWindow(w) => format!(
            "{} players, {} ticks, {} missed, late {}, due to done {}, {} in, {} out, {} refused, {} shots rewound {}, {:.1} % CPU",
            w.players,
            w.ticks,
            w.missed_ticks,
            in_us(&w.tick_lateness_us),
            in_us(&w.due_to_done_us),
            w.packets_in,
            w.packets_out,
            w.dropped_in,
            w.shots,
            in_us(&w.rewound_us),
            w.cpu_us / w.span_us * 100.0,
        ),
        Answer::BotsWindow(w) => format!(
            "round trip {}, snapshots every {}, {} old, {} lost of {}, input to snapshot {}, {} shots rewound {}, {:.1} % CPU",
            in_us(&w.round_trip_us),
            in_us(&w.snapshot_interval_us),
            in_us(&w.snapshot_age_us),
            w.snapshots_lost,
            w.snapshots + w.snapshots_lost,
            in_us(&w.input_to_snapshot_us),
            w.shots,
            in_us(&w.rewound_us),
            w.cpu_us / w.span_us * 100.0,
        ),
        other => format!("{other:?}"),
    }
}

fn in_us(quantiles: &Quantiles) -> String {
    match (quantiles.p50, quantiles.p99) {
        (Some(p50), Some(p99)) => format!("p50 {p50:.0} p99 {p99:.0} us"),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// The output for `input` if every request is answered by a delay.
    fn answers(input: &[u8]) -> String {
        let (sender, requests) = channel();
        let answering = std::thread::spawn(move || {
            for request in requests {
                let _ = request.answer.try_send(Answer::Delay { delay_us: 7 });
            }
        });
        let mut output = Vec::new();
        serve(input, &mut output, &sender).unwrap();
        drop(sender);
        answering.join().unwrap();
        String::from_utf8(output).unwrap()
    }

    fn check(input: &[u8], want: Expect) {
        want.assert_eq(&answers(input));
    }

    #[test]
    fn every_line_gets_one_line() {
        check(b"", expect![""]);
        check(
            b"{\"cmd\":\"delay_us\",\"value\":7}",
            expect![[r#"
            {"delay_us":7}
        "#]],
        );
        check(
            b"{\"cmd\":\"window\"}\nrubbish\n\n\xff\xfe\n{\"cmd\":\"window\"}\r\n",
            expect![[r#"
            {"delay_us":7}
            {"error":"not a command: expected value at line 1 column 1"}
            {"error":"not a command: EOF while parsing a value at line 1 column 0"}
            {"error":"not a command: expected value at line 1 column 1"}
            {"delay_us":7}
        "#]],
        );
        check(
            b"{\"cmd\":\"stop\"}\n{\"cmd\":\"window\"}\n",
            expect![[r#"
            {"stopping":true}
        "#]],
        );
    }

    #[test]
    fn a_line_too_long_is_refused_once_and_the_next_is_heard() {
        for extra in [1, 2, MAX_LINE_BYTES, 10 * MAX_LINE_BYTES] {
            let mut input = vec![b'x'; MAX_LINE_BYTES + extra];
            input.extend(b"\n{\"cmd\":\"stop\"}\n");
            let want = "{\"error\":\"a line is longer than 4096 bytes\"}\n{\"stopping\":true}\n";
            assert_eq!(answers(&input), want, "{extra} bytes too many");
        }
    }

    #[test]
    fn an_empty_console_is_reported() {
        let (sender, requests) = channel();
        drop(requests);
        let mut output = Vec::new();
        serve(&b"{\"cmd\":\"window\"}\n"[..], &mut output, &sender).unwrap();
        expect![[r#"
            {"error":"nobody takes commands any more, or an earlier one still waits"}
        "#]]
        .assert_eq(&String::from_utf8(output).unwrap());
    }
}
