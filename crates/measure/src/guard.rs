//! `Guard`: a process of its own that puts files of the kernel back when the one that changed them ends, however it ends. It holds
//! the reading end of a pipe whose other end only we have: the kernel closes that with us, after SIGKILL too.
//!
//! There is one way back. An orderly end closes the pipe as a crash does, so that what a crash needs is tried each time.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use evenkeel_sys::{Root, clock, process};

use crate::MeterError;

/// The sign that an order is taken.
const TAKEN: &[u8] = b"ok\n";
/// How long a guard may take for that.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The most files that one guard looks after, and the most bytes of an order.
const FILES_MAX: usize = 1024;
const ORDER_BYTES_MAX: u64 = 8192;
/// How often a value is written that does not take, and how long it waits between.
const TRIES: u32 = 20;
const PAUSE_NS: u64 = 50_000_000;

/// The guard as its owner has it.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    orders: Option<ChildStdin>,
    answers: ChildStdout,
    /// What it was told, for the case that it is the guard that dies.
    kept: Kept,
}

/// Files with their values from before, in the order in which they were changed first.
#[derive(Debug, Default)]
struct Kept(Vec<(String, String)>);

impl Guard {
    /// Starts `command`, which is to end up in [`stand`], in a session of its own: a Ctrl-C is meant for its owner.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(mut command: Command) -> Result<Guard, MeterError> {
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let failed = |error| MeterError::refused("start a guard, which puts back what is changed", &error);
        let mut child = process::detach(&mut command).spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(orders), Some(answers)) => Ok(Guard { child, orders: Some(orders), answers, kept: Kept::default() }),
            _ => Err(MeterError::not_possible("start a guard", "it can't be talked to")),
        }
    }

    /// Has `path` put back to `value` in the end. Not before this returns may the file be changed.
    ///
    /// # Errors
    /// If the guard does not answer, or can't mean what it was told.
    pub fn keep(&mut self, path: &str, value: &str) -> Result<(), MeterError> {
        self.order(&format!("keep\t{path}\t{value}\n"))?;
        self.kept.keep(path, value);
        Ok(())
    }

    /// Leaves `path` as it is: somebody else has set it meanwhile.
    ///
    /// # Errors
    /// As [`Guard::keep`].
    pub fn forget(&mut self, path: &str) -> Result<(), MeterError> {
        self.kept.forget(path);
        self.order(&format!("forget\t{path}\n"))
    }

    /// Has everything put back, and waits until it is.
    ///
    /// # Errors
    /// If something could not be put back.
    pub fn end(mut self) -> Result<(), MeterError> {
        self.close()
    }

    fn close(&mut self) -> Result<(), MeterError> {
        if self.orders.take().is_none() {
            return Ok(());
        }
        let what = "put back what was changed";
        let status = self.child.wait().map_err(|error| MeterError::refused(what, &error))?;
        if status.success() {
            return Ok(());
        }
        let left = self.kept.put_back(&Root::live());
        if left.is_empty() {
            Ok(())
        } else {
            Err(MeterError::NotUndone { what: what.to_owned(), why: left.join("; ") })
        }
    }

    fn order(&mut self, order: &str) -> Result<(), MeterError> {
        let what = || format!("tell the guard to {:?}", order.trim_end());
        if parse_order(order.trim_end_matches('\n')).is_none() {
            return Err(MeterError::wrong_use(what(), "a path or a value may have no tab and no line end"));
        }
        let told = self.orders.as_mut().map(|orders| orders.write_all(order.as_bytes()).and_then(|()| orders.flush()));
        match told {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(MeterError::refused(what(), &error)),
            None => return Err(MeterError::not_possible(what(), "it has ended")),
        }
        match process::read_within(Answers(&mut self.answers), TAKEN.len(), ANSWER_LIMIT) {
            Ok(words) if words == TAKEN => Ok(()),
            Ok(words) => {
                Err(MeterError::not_possible(what(), format!("it says {:?}", String::from_utf8_lossy(&words))))
            }
            Err(errno) => Err(MeterError::refused(what(), errno)),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nobody is left to tell; `end` tells.
        let _ = self.close();
    }
}

/// A borrowed pipe that is read and waited for.
struct Answers<'a>(&'a mut ChildStdout);

impl Read for Answers<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(bytes)
    }
}

impl std::os::fd::AsFd for Answers<'_> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What a guard is told.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    Keep { path: String, value: String },
    Forget { path: String },
}

/// `keep PATH VALUE` or `forget PATH`, with tabs between.
fn parse_order(line: &str) -> Option<Order> {
    let mut words = line.split('\t');
    let is_fine = |word: &str| !word.is_empty() && !word.contains(['\n', '\0']);
    let order = match (words.next()?, words.next(), words.next()) {
        ("keep", Some(path), Some(value)) if is_fine(path) && is_fine(value) => {
            Order::Keep { path: path.to_owned(), value: value.to_owned() }
        }
        ("forget", Some(path), None) if is_fine(path) => Order::Forget { path: path.to_owned() },
        _ => return None,
    };
    words.next().is_none().then_some(order)
}

/// The guard itself: takes orders until there are no more, then puts back on `root` what it was told to keep, the last first. Gives a
/// line for each file that could not be put back.
pub fn stand(root: &Root, orders: impl Read, mut answers: impl Write) -> Vec<String> {
    let mut kept = Kept::default();
    let mut orders = BufReader::new(orders);
    loop {
        let mut line = String::new();
        match orders.by_ref().take(ORDER_BYTES_MAX).read_line(&mut line) {
            // An order that was cut never got its answer: its owner ended before it changed the file.
            Ok(length) if length > 0 && line.ends_with('\n') => {}
            _ => break,
        }
        let is_taken = match parse_order(line.trim_end_matches('\n')) {
            Some(Order::Keep { path, value }) => kept.keep(&path, &value),
            Some(Order::Forget { path }) => {
                kept.forget(&path);
                true
            }
            None => false,
        };
        let answer: &[u8] = if is_taken { TAKEN } else { b"no\n" };
        if answers.write_all(answer).and_then(|()| answers.flush()).is_err() {
            break;
        }
    }
    kept.put_back(root)
}

impl Kept {
    fn keep(&mut self, path: &str, value: &str) -> bool {
        // The first value is the one from before.
        let is_known = self.0.iter().any(|(known, _)| known == path);
        let has_room = self.0.len() < FILES_MAX;
        if !is_known && has_room {
            self.0.push((path.to_owned(), value.to_owned()));
        }
        is_known || has_room
    }

    fn forget(&mut self, path: &str) {
        self.0.retain(|(known, _)| known != path);
    }

    /// The last first. Gives a line for each file that could not be put back.
    fn put_back(&self, root: &Root) -> Vec<String> {
        self.0.iter().rev().filter_map(|(path, value)| put_back(root, path, value).err()).collect()
    }
}

fn put_back(root: &Root, path: &str, value: &str) -> Result<(), String> {
    let hand = root.hand().map_err(|error| error.to_string())?;
    let mut why = String::new();
    for turn in 0..TRIES {
        if turn > 0 {
            clock::sleep_until_ns(clock::monotonic_ns() + PAUSE_NS);
        }
        if reads(root, path, value) {
            return Ok(());
        }
        why = match hand.write(path, value) {
            Ok(()) if reads(root, path, value) => return Ok(()),
            Ok(()) => format!("write {value:?} to {path}: it was taken, and reads back otherwise"),
            Err(error) => error.to_string(),
        };
    }
    Err(why)
}

/// Whether the file has the value, alone or as the bracketed one of several words.
fn reads(root: &Root, path: &str, value: &str) -> bool {
    let text = root.text(path).unwrap_or_default();
    let text = text.trim();
    text == value || text.split_ascii_whitespace().any(|word| word == format!("[{value}]"))
}

#[cfg(test)]
mod tests {
    use evenkeel_sys::Capture;
    use proptest::prelude::*;

    use super::*;

    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

    fn machine() -> Root {
        let offered = SOURCE.replace("current", "available");
        let text = format!(
            "evenkeel-capture 1\n{SOURCE} = tsc\n{offered} = tsc kvm-clock\n/proc/sys/vm/swappiness = 60\nend\n"
        );
        Root::captured(Capture::parse(&text).unwrap())
    }

    #[test]
    fn what_it_keeps_is_put_back_and_what_it_forgets_is_not() {
        let root = machine();
        let hand = root.hand().unwrap();
        let orders =
            format!("keep\t{SOURCE}\ttsc\nkeep\t/proc/sys/vm/swappiness\t60\nodd\nforget\t/proc/sys/vm/swappiness\n");
        hand.write(SOURCE, "kvm-clock").unwrap();
        hand.write("/proc/sys/vm/swappiness", "10").unwrap();
        let mut said = Vec::new();
        assert_eq!(stand(&root, orders.as_bytes(), &mut said), Vec::<String>::new());
        assert_eq!(String::from_utf8(said).unwrap(), "ok\nok\nno\nok\n");
        assert_eq!(root.text(SOURCE).unwrap().trim(), "tsc");
        assert_eq!(root.text("/proc/sys/vm/swappiness").unwrap().trim(), "10");
    }

    #[test]
    fn the_first_value_counts_and_a_cut_order_does_not() {
        let root = machine();
        root.hand().unwrap().write("/proc/sys/vm/swappiness", "10").unwrap();
        let orders =
            format!("keep\t/proc/sys/vm/swappiness\t60\nkeep\t/proc/sys/vm/swappiness\t10\nkeep\t{SOURCE}\tkvm-");
        assert_eq!(stand(&root, orders.as_bytes(), Vec::new()), Vec::<String>::new());
        assert_eq!(root.text("/proc/sys/vm/swappiness").unwrap().trim(), "60");
        assert_eq!(root.text(SOURCE).unwrap().trim(), "tsc");
    }

    #[test]
    fn what_does_not_take_is_told() {
        // The kernel takes a clock source that it does not offer, and changes nothing.
        let orders = format!("keep\t{SOURCE}\txen\n");
        let left = stand(&machine(), orders.as_bytes(), Vec::new());
        assert_eq!(left, [format!("write \"xen\" to {SOURCE}: it was taken, and reads back otherwise")]);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in any::<String>()) {
            let _ = parse_order(&text);
        }
    }
}
