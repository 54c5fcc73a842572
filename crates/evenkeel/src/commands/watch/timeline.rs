//! The moments that the terminal can show: current ones of this machine, or stored ones.

use std::collections::VecDeque;

use evenkeel_sys::clock;
use evenkeel_watch::store::{Position, Replay};
use evenkeel_watch::{Collector, Model, Sample};
use jiff::Timestamp;

use super::outputs::Outputs;
use crate::show::watch::screen::Sparks;

/// The maximum number of past moments of this machine in memory. A store can show all its moments.
const HELD_MAX: usize = 300;
/// The number of earlier moments of a store in a sparkline.
const SPARKS: usize = 60;

/// A sequence of moments. The terminal shows one of them.
#[derive(Debug)]
pub(super) struct Timeline {
    source: Source,
    /// The values of the shown moment.
    model: Model,
    sparks: Sparks,
    warning: String,
}

#[derive(Debug)]
enum Source {
    Live(Box<Live>),
    Stored { replay: Replay, at: Position, is_newest: bool },
}

#[derive(Debug)]
struct Live {
    collector: Collector,
    outputs: Outputs,
    last: Sample,
    /// The past moments, the newest last.
    held: VecDeque<Model>,
    /// How many moments the shown moment is behind the newest.
    back: usize,
}

impl Timeline {
    /// A timeline of this machine. This call takes the first sample.
    pub(super) fn live(mut collector: Collector, mut outputs: Outputs) -> Timeline {
        let last = collector.sample();
        let warning = outputs.store(&last).unwrap_or_default();
        // Rates are unknown until the second sample.
        let model = Model::from_samples(&last, &last);
        let live = Live { collector, outputs, last, held: VecDeque::new(), back: 0 };
        Timeline { source: Source::Live(Box::new(live)), model, sparks: Sparks::default(), warning }
    }

    /// A timeline of a store, at this moment. `None` if evenkeel can't read the store there.
    pub(super) fn stored(mut replay: Replay, at: Position) -> Option<Timeline> {
        let (before, after) = replay.pair(at)?;
        let is_newest = replay.next(at).is_none();
        let model = Model::from_samples(&before, &after);
        let mut timeline = Timeline {
            source: Source::Stored { replay, at, is_newest },
            model,
            sparks: Sparks::default(),
            warning: String::new(),
        };
        timeline.show_stored(at);
        Some(timeline)
    }

    /// Takes a sample of this machine if it is due. Does nothing for a store.
    pub(super) fn sample_if_due(&mut self) {
        let Source::Live(live) = &mut self.source else { return };
        if live.collector.due_ns().is_some_and(|due_ns| clock::monotonic_ns() < due_ns) {
            return;
        }
        let sample = live.collector.sample();
        let model = Model::from_samples(&live.last, &sample);
        // Ignore the results: both calls return only new failures,
        // and the screen shows a failure for as long as it lasts.
        let _ = (live.outputs.store(&sample), live.outputs.metrics(&model));
        self.warning = live.outputs.failure().map_or_else(String::new, |failure| format!("warning: {failure}"));
        live.last = sample;
        self.sparks.add(&model);
        live.held.push_back(model);
        if live.held.len() > HELD_MAX {
            live.held.pop_front();
        }
        match live.back {
            0 => self.show_held(),
            // A moment was added, so go back by one more moment to keep the shown moment.
            back => live.back = (back + 1).min(live.held.len().saturating_sub(1)),
        }
    }

    /// The time at which the next sample is due; `None` for a store.
    pub(super) fn due_ns(&self) -> Option<u64> {
        match &self.source {
            Source::Live(live) => live.collector.due_ns(),
            Source::Stored { .. } => None,
        }
    }

    pub(super) fn shown(&self) -> (&Model, &Sparks) {
        (&self.model, &self.sparks)
    }

    pub(super) fn warning(&self) -> &str {
        &self.warning
    }

    /// The shown moment as text.
    pub(super) fn moment(&self) -> String {
        let time = Timestamp::from_nanosecond(i128::from(self.model.at_realtime_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        let time = time.strftime("%H:%M:%S");
        match &self.source {
            Source::Live(live) if live.held.is_empty() => "first sample".to_owned(),
            Source::Live(live) => match live.back {
                0 => format!("live {time} UTC"),
                back => format!("{time} UTC, {back} back"),
            },
            Source::Stored { is_newest, .. } => {
                let day = evenkeel_watch::store::day_of(self.model.at_realtime_ns);
                format!("{day} {time} UTC{}", if *is_newest { ", newest" } else { "" })
            }
        }
    }

    /// Goes back by `by` moments, or to the first moment.
    pub(super) fn back(&mut self, by: usize) {
        match &mut self.source {
            Source::Live(live) => {
                live.back = live.back.saturating_add(by).min(live.held.len().saturating_sub(1));
                self.show_held();
            }
            Source::Stored { replay, at, .. } => {
                let mut found = *at;
                for _ in 0..by {
                    let Some(before) = replay.previous(found) else { break };
                    found = before;
                }
                self.show_stored(found);
            }
        }
    }

    /// Goes forward by `by` moments, or to the last moment.
    pub(super) fn forth(&mut self, by: usize) {
        match &mut self.source {
            Source::Live(live) => {
                live.back = live.back.saturating_sub(by);
                self.show_held();
            }
            Source::Stored { replay, at, .. } => {
                let mut found = *at;
                for _ in 0..by {
                    let Some(after) = replay.next(found) else { break };
                    found = after;
                }
                self.show_stored(found);
            }
        }
    }

    /// Goes to the newest moment. Another program may still be writing to the store.
    pub(super) fn newest(&mut self) {
        match &mut self.source {
            Source::Live(live) => {
                live.back = 0;
                self.show_held();
            }
            Source::Stored { replay, .. } => {
                if let Err(error) = replay.refresh() {
                    self.warning = format!("warning: {error}");
                }
                if let Some(last) = replay.last() {
                    self.show_stored(last);
                }
            }
        }
    }

    fn show_held(&mut self) {
        let Source::Live(live) = &self.source else { return };
        let at = live.held.len().checked_sub(live.back + 1);
        if let Some(model) = at.and_then(|at| live.held.get(at)) {
            self.model = model.clone();
        }
    }

    /// Shows a moment of the store, with sparklines of the moments before it.
    fn show_stored(&mut self, to: Position) {
        let Source::Stored { replay, at, is_newest } = &mut self.source else { return };
        let mut earlier = vec![to];
        while let Some(before) =
            earlier.last().filter(|_| earlier.len() < SPARKS).and_then(|last| replay.previous(*last))
        {
            earlier.push(before);
        }
        let mut sparks = Sparks::default();
        let mut before = None;
        for position in earlier.into_iter().rev() {
            let Some(sample) = replay.sample(position) else { continue };
            if let Some(before) = &before {
                let model = Model::from_samples(before, &sample);
                sparks.add(&model);
                self.model = model;
            } else {
                self.model = Model::from_samples(&sample, &sample);
            }
            before = Some(sample);
        }
        (*at, *is_newest) = (to, replay.next(to).is_none());
        self.sparks = sparks;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evenkeel_hostfs::Root;
    use evenkeel_watch::CollectorOptions;
    use evenkeel_watch::store::{StoreOptions, StoreWriter};

    use super::*;

    #[test]
    fn a_warning_ends_with_its_failure() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("folder/metrics.prom");
        let outputs = Outputs::to_textfile(file.clone());
        let options = CollectorOptions { interval: std::time::Duration::ZERO, ..CollectorOptions::default() };
        let mut timeline = Timeline::live(Collector::new(Root::from(BTreeMap::new()), options), outputs);
        let mut sample = |is_there: bool| {
            if is_there {
                std::fs::create_dir(file.parent().unwrap()).unwrap();
            }
            while timeline.due_ns().is_some_and(|due_ns| clock::monotonic_ns() < due_ns) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            timeline.sample_if_due();
            timeline.warning().to_owned()
        };
        let warning = sample(false);
        assert!(warning.starts_with("warning: ") && warning.contains("metrics.prom"), "{warning}");
        assert_eq!(sample(false), warning, "it lasts");
        assert_eq!(sample(true), "");
    }

    #[test]
    fn a_store_is_walked_in_both_directions() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = StoreWriter::open(dir.path(), StoreOptions::default()).unwrap();
        let mut collector = Collector::new(Root::from(BTreeMap::new()), CollectorOptions::default());
        let first = collector.sample();
        for second in 0..70 {
            let mut sample = first.clone();
            sample.at.realtime_ns = (1_795_780_800 + second) * 1_000_000_000;
            writer.append(&sample).unwrap();
        }
        let mut replay = Replay::open(dir.path()).unwrap();
        let last = replay.last().unwrap();
        let mut timeline = Timeline::stored(replay, last).unwrap();
        let mut moments = vec![timeline.moment()];
        for step in [
            |timeline: &mut Timeline| timeline.back(1),
            |timeline: &mut Timeline| timeline.back(60),
            |timeline: &mut Timeline| timeline.back(60),
            |timeline: &mut Timeline| timeline.forth(1),
            |timeline: &mut Timeline| timeline.newest(),
            |timeline: &mut Timeline| timeline.forth(5),
        ] {
            step(&mut timeline);
            moments.push(timeline.moment());
        }
        let times: Vec<&str> = moments.iter().map(|moment| moment.trim_start_matches("2026-11-27 ")).collect();
        assert_eq!(
            times,
            [
                "12:01:09 UTC, newest",
                "12:01:08 UTC",
                "12:00:08 UTC",
                "12:00:00 UTC",
                "12:00:01 UTC",
                "12:01:09 UTC, newest",
                "12:01:09 UTC, newest"
            ]
        );
    }
}
