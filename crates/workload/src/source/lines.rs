//! `FromLines`: takes numbers from the lines that a program prints, with any parser.
//! The thread that reads the program's output passes the lines on.
//! A window has the lines that arrive between its beginning and its end.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_sys::clock;

use crate::error::WorkloadError;
use crate::metric::Metric;
use crate::source::Source;
use crate::source::rule::{First, Rule, Values};
use crate::workload::Sample;

/// A window without a line waits for a late line, up to this share of the window's length. A longer wait would make the window too long.
const GRACE_SHARE: f64 = 0.4;

/// A parser that finds numbers in a line.
pub trait ReadLine: Send + Sync {
    /// Describes what the parser looks for, for the report.
    fn describe(&self) -> String;

    /// The metrics that the parser finds, with their rules.
    fn metrics(&self) -> Vec<(Metric, Rule)>;

    /// Finds the numbers in a line. Calls `put` with each number and the index of its metric.
    fn read(&self, line: &str, put: &mut dyn FnMut(usize, f64));

    /// Why a line without a number nearly had one. `None` for a line of another kind.
    fn near_miss(&self, _line: &str) -> Option<String> {
        None
    }
}

/// Takes the lines of a program.
#[derive(Clone)]
pub struct Inbox {
    reader: Arc<dyn ReadLine>,
    heard: Arc<(Mutex<Heard>, Condvar)>,
}

struct Heard {
    values: Vec<Values>,
    lines: u64,
    last_line: String,
    /// The parser's note on the last line that nearly had a number.
    near_miss: Option<String>,
    /// When the last line arrived, in this window or earlier. None if no line has arrived.
    last_at: Option<Instant>,
}

impl Inbox {
    /// Takes the next line.
    pub fn line(&self, line: &str) {
        let at_ns = clock::monotonic_ns();
        let mut heard = lock(&self.heard.0);
        heard.lines += 1;
        heard.last_at = Some(Instant::now());
        let mut found = false;
        self.reader.read(line, &mut |metric, value| {
            if let Some(values) = heard.values.get_mut(metric) {
                values.push(value, at_ns);
                found = true;
            }
        });
        if found {
            self.heard.1.notify_all();
        } else {
            heard.last_line = line.chars().take(120).collect();
            if let Some(near_miss) = self.reader.near_miss(line) {
                heard.near_miss = Some(near_miss);
            }
        }
    }
}

/// Locks the mutex, even if another thread panicked while it had the lock. The values are also consistent in that case.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A source that takes its values from lines.
pub struct FromLines {
    inbox: Inbox,
    metrics: Vec<(Metric, Rule)>,
    first: First,
    begun: Instant,
}

impl FromLines {
    /// A source with this parser.
    pub fn new(reader: Arc<dyn ReadLine>, first: First) -> FromLines {
        let metrics = reader.metrics();
        let values = vec![Values::new(first); metrics.len()];
        let heard = Heard { values, lines: 0, last_line: String::new(), near_miss: None, last_at: None };
        let inbox = Inbox { reader, heard: Arc::new((Mutex::new(heard), Condvar::new())) };
        FromLines { inbox, metrics, first, begun: Instant::now() }
    }

    /// Returns the object that takes the lines.
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    fn nothing(&self, name: &str, lacks: Option<String>, heard: &Heard) -> WorkloadError {
        let lines = if heard.lines == 1 { "1 line".to_owned() } else { format!("{} lines", heard.lines) };
        let why = match (heard.lines, heard.last_at, lacks, &heard.near_miss) {
            (0, Some(at), ..) => format!(
                "it printed no line during the window, and its last one came {:.1} s before the end of it: it hangs, or reports less often than a \
                 window lasts (--window)",
                at.elapsed().as_secs_f64()
            ),
            (0, None, ..) => "it printed no line during the window. Perhaps it buffers its output (try `stdbuf -oL` before its name), \
                       ends no line, or reports less often than a window lasts (--window)"
                .to_owned(),
            (_, _, Some(lacks), _) => format!("{lines} came, and {name} {lacks}"),
            _ if heard.last_line.is_empty() => {
                format!("{lines} came, but too few with {name} for its rule; use longer windows")
            }
            (_, _, None, Some(near_miss)) => format!("{lines} came, but none with {name}: {near_miss}"),
            _ => format!("{lines} came, but none with {name}; the last one was {:?}", heard.last_line),
        };
        WorkloadError::NoValue { program: self.describe(), why }
    }
}

impl Source for FromLines {
    fn describe(&self) -> String {
        self.inbox.reader.describe()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.metrics.iter().map(|(metric, _)| metric.clone()).collect()
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        let mut heard = lock(&self.inbox.heard.0);
        let values = vec![Values::new(self.first); self.metrics.len()];
        *heard = Heard { values, lines: 0, last_line: String::new(), near_miss: None, last_at: heard.last_at };
        self.begun = Instant::now();
        Ok(())
    }

    fn end(&mut self) -> Result<Sample, WorkloadError> {
        let until = Instant::now() + self.begun.elapsed().mul_f64(GRACE_SHARE);
        let mut heard = lock(&self.inbox.heard.0);
        while heard.values.iter().any(Values::is_empty) {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                break;
            }
            heard = self.inbox.heard.1.wait_timeout(heard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut sample = Sample::new();
        for ((metric, rule), values) in self.metrics.iter().zip(&heard.values) {
            let number = values.number(*rule);
            let number = number.ok_or_else(|| self.nothing(&metric.name, values.lacks(*rule), &heard))?;
            sample.insert(metric.name.clone().into_owned(), number);
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_stats::Direction;

    use super::*;

    struct Numbers;

    impl ReadLine for Numbers {
        fn describe(&self) -> String {
            "numbers".into()
        }

        fn metrics(&self) -> Vec<(Metric, Rule)> {
            vec![(Metric::named("number".into(), String::new(), Direction::Lower), Rule::Mean)]
        }

        fn read(&self, line: &str, put: &mut dyn FnMut(usize, f64)) {
            line.split(' ').filter_map(|word| word.parse().ok()).for_each(|number| put(0, number));
            put(7, 1.0);
        }
    }

    #[test]
    fn a_window_holds_the_data_between_its_begin_and_its_end() {
        let mut source = FromLines::new(Arc::new(Numbers), First::Counts);
        source.inbox().line("1000");
        source.begin().unwrap();
        source.inbox().line("1 2");
        source.inbox().line("6 x");
        assert_eq!(source.end().unwrap(), Sample::from([("number".to_owned(), 3.0)]));
    }

    #[test]
    fn a_window_without_numbers_says_why() {
        let mut source = FromLines::new(Arc::new(Numbers), First::Counts);
        for (lines, expected) in [
            (&[][..], "it printed no line during the window. Perhaps it buffers its output"),
            (&["hello"], "1 line came, but none with number; the last one was \"hello\""),
            (&["inf", "NaN"], "2 lines came, and number was NaN, which can't be compared"),
            (&[], "it printed no line during the window, and its last one came "),
        ] {
            source.begin().unwrap();
            lines.iter().for_each(|line| source.inbox().line(line));
            let message = source.end().unwrap_err().to_string();
            assert!(message.starts_with(&format!("measure numbers: {expected}")), "{message}");
        }
    }

    #[test]
    fn a_line_that_is_a_little_late_is_waited_for() {
        let mut source = FromLines::new(Arc::new(Numbers), First::SpeaksForBefore);
        source.begin().unwrap();
        // A long window has a long grace period, so a pause of the machine cannot use up the whole period.
        source.begun = source.begun.checked_sub(Duration::from_secs(100)).unwrap();
        let inbox = source.inbox();
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            inbox.line("8");
        });
        assert_eq!(source.end().unwrap()["number"], 8.0);
        late.join().unwrap();
    }
}
