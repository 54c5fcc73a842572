//! `Picture`: a few periods as cells in time for each thread, for people who want to check the answer themselves.

use serde::Serialize;

use super::choice::Choice;
use super::stream::Stream;

/// The number of cells per row.
pub const CELLS: usize = 72;
/// The maximum number of rows, for the busiest threads in the stretch.
const ROWS_MAX: usize = 6;
/// The number of periods of the slowest relevant loop.
const PERIODS: f64 = 4.0;
/// The longest stretch, in nanoseconds.
const SPAN_MAX_NS: f64 = 4e9;

/// The activity of one thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The thread's number.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
    /// The share of each cell in which the thread was awake, from 0 to 1.
    pub cells: Vec<f64>,
}

/// A few periods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Picture {
    /// The duration of a cell in nanoseconds.
    pub cell_ns: f64,
    /// One row for each of the busiest threads.
    pub rows: Vec<Row>,
}

/// Draws the middle of `stream`. None if nothing in the stream repeats.
pub fn draw(stream: &Stream, choice: &Choice) -> Option<Picture> {
    let loops = choice.loops.iter().take(2);
    let slowest_ns = loops.map(|one| one.tempo.period_ns).fold(0.0, f64::max);
    let span_ns = (PERIODS * slowest_ns).min(SPAN_MAX_NS).min(stream.span_ns() as f64);
    if span_ns < 1.0 {
        return None;
    }
    let from_ns = stream.from_ns as f64 + (stream.span_ns() as f64 - span_ns) / 2.0;
    let cell_ns = span_ns / CELLS as f64;
    let row = |thread: &super::stream::ThreadLog| {
        let mut cells = vec![0.0; CELLS];
        for wake in &thread.wakes {
            let (start, end) = (wake.start_ns as f64 - from_ns, wake.end_ns as f64 - from_ns);
            if end < 0.0 || start >= span_ns {
                continue;
            }
            let first = (start.max(0.0) / cell_ns) as usize;
            let last = ((end / cell_ns) as usize).min(CELLS - 1);
            for (at, cell) in cells.iter_mut().enumerate().take(last + 1).skip(first) {
                let begins = at as f64 * cell_ns;
                *cell += (end.min(begins + cell_ns) - start.max(begins)).max(0.0) / cell_ns;
            }
        }
        cells.iter_mut().for_each(|cell| *cell = cell.min(1.0));
        Row { tid: thread.tid, name: thread.name.clone(), cells }
    };
    let mut rows: Vec<Row> = stream.threads.iter().map(row).collect();
    let sum = |row: &Row| row.cells.iter().sum::<f64>();
    rows.retain(|row| sum(row) > 0.0);
    rows.sort_by(|one, other| sum(other).total_cmp(&sum(one)).then(one.tid.cmp(&other.tid)));
    rows.truncate(ROWS_MAX);
    (!rows.is_empty()).then_some(Picture { cell_ns, rows })
}

#[cfg(test)]
mod tests {
    use super::super::choice::{Wanted, choose};
    use super::super::stream::ThreadLog;
    use super::super::wakes::Wake;
    use super::*;

    #[test]
    fn a_tick_of_half_its_period_fills_half_of_the_cells() {
        let wake = |number: u64| {
            let start_ns = 1_000_000_000 + number * 20_000_000;
            Wake {
                start_ns,
                end_ns: start_ns + 10_000_000,
                on_cpu_ns: 10_000_000,
                preempted: 0,
                cpu: 0,
                is_moved: false,
            }
        };
        let wakes = (0..100).map(wake).collect();
        let thread = ThreadLog { tid: 5, name: "main".to_owned(), wakes, switches: 200, ..ThreadLog::default() };
        let stream =
            Stream { from_ns: 1_000_000_000, to_ns: 3_000_000_000, threads: vec![thread], ..Stream::default() };
        let picture = draw(&stream, &choose(&stream, &Wanted::default())).unwrap();
        let [row] = &picture.rows[..] else { panic!("one thread, one row") };
        assert!((row.cells.iter().sum::<f64>() / CELLS as f64 - 0.5).abs() < 0.02, "{row:?}");
        assert!((picture.cell_ns * CELLS as f64 - 80e6).abs() < 1e6, "four periods: {picture:?}");
        assert_eq!(draw(&Stream::default(), &choose(&Stream::default(), &Wanted::default())), None);
    }
}
