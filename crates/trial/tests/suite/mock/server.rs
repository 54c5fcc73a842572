//! The mock server, its machine, and one trial from the design to the record.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_change::State;
use evenkeel_host::{Facts, Plan, Setting};
use evenkeel_hostfs::{Capture, Root};
use evenkeel_trial::session_log::Head;
use evenkeel_trial::{
    Arm, Away, Design, Level, NetworkPath, Record, Report, SessionWriter, Switch, Titles, Trial, Watch, resume,
};
use evenkeel_workload::{Metric, Sample, Workload, WorkloadError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) const KNOB: &str = "haltpoll.guest_halt_poll_ns";
const POLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";
pub(crate) const HOST: &str = "evenkeel-capture 1
/sys/module/haltpoll/parameters/guest_halt_poll_ns = 0
/sys/devices/system/cpu/cpuidle/current_driver = haltpoll
/proc/loadavg = 0.00 0.00 0.00 1/80 900
end
";
/// The number of pairs. With the mock's noise (4 % per window), the interval is about 2 % to either side.
pub(crate) const PAIRS: usize = 30;
pub(crate) const METRIC: Metric = Metric::us("round_trip_us_p50", "median round trip");
pub(crate) const TAIL: Metric = Metric::us("round_trip_us_p99", "99th percentile of the round trip");

/// A server with a round trip of 50 us, multiplied by `effect` while the guest polls, and by noise.
/// The noise is log-normal with 4 % per window, on top of a random walk of 1 % per window.
pub(crate) struct Mock {
    root: Root,
    noise: ChaCha8Rng,
    drift: f64,
    pub(crate) effect: f64,
    /// The effects of polling values other than 200000.
    pub(crate) others: Vec<(&'static str, f64)>,
    /// The effect of polling on the tail, in addition to the effect on all round trips.
    pub(crate) tail_effect: f64,
    pub(crate) dies_at: Option<usize>,
    /// From this window on, the round trip is negative, as if a counter had been reset.
    pub(crate) is_nothing_at: Option<usize>,
    /// The windows in which another program writes a tested setting.
    pub(crate) others_write_at: Vec<usize>,
    /// The windows in which the server gets no CPU.
    pub(crate) no_cpu_at: Vec<usize>,
    /// The first value is a state of polling, on or off. In this state, the server gets no CPU in the given number of further windows.
    pub(crate) no_cpu_while: (bool, usize),
    /// For this long after a switch, the server still behaves as it did with the old values.
    pub(crate) carries: Duration,
    /// For each window, whether the guest polled, and the length of the window.
    pub(crate) log: Rc<RefCell<Vec<(bool, Duration)>>>,
    windows: usize,
    polled: bool,
    since_switch: Duration,
}

impl Mock {
    pub(crate) fn new(root: &Root, seed: u64, effect: f64) -> Mock {
        Mock {
            root: root.clone(),
            noise: ChaCha8Rng::seed_from_u64(seed),
            drift: 0.0,
            effect,
            others: Vec::new(),
            tail_effect: 1.0,
            dies_at: None,
            is_nothing_at: None,
            others_write_at: Vec::new(),
            no_cpu_at: Vec::new(),
            no_cpu_while: (false, 0),
            carries: Duration::ZERO,
            log: Rc::default(),
            windows: 0,
            polled: false,
            since_switch: Duration::from_secs(3600),
        }
    }

    /// A standard normal number, as the sum of twelve uniform numbers. Its tails end at six, which is enough here.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.noise.random::<f64>()).sum::<f64>() - 6.0
    }

    /// The share of a window in which the server still behaves as before the switch. The window begins `settle` after the switch.
    fn share_as_before(&mut self, settle: Duration, window: Duration) -> f64 {
        let polls = self.root.text(POLL).unwrap() == "200000\n";
        if polls != self.polled {
            (self.polled, self.since_switch) = (polls, Duration::ZERO);
        }
        let begin = self.since_switch + settle;
        self.since_switch = begin + window;
        self.carries.saturating_sub(begin).min(window).as_secs_f64() / window.as_secs_f64()
    }
}

impl Workload for Mock {
    fn describe(&self) -> String {
        "mock".into()
    }

    fn metrics(&self) -> &[Metric] {
        const { &[METRIC, TAIL] }
    }

    fn passes_network_devices(&self) -> bool {
        false
    }

    fn set_process(&mut self, _: &str, value: Option<&str>) -> Result<String, WorkloadError> {
        Ok(value.unwrap_or("50000").to_owned())
    }

    fn window(&mut self, settle: Duration, window: Duration, begin: &mut dyn FnMut()) -> Result<Sample, WorkloadError> {
        begin();
        self.windows += 1;
        if self.dies_at == Some(self.windows) {
            return Err(WorkloadError::Program { program: "mock".into(), why: "it ended (exit status: 9)".into() });
        }
        let (while_polled, left) = &mut self.no_cpu_while;
        let starves = *left > 0 && *while_polled == (self.root.text(POLL).unwrap() == "200000\n");
        *left -= usize::from(starves);
        if starves || self.no_cpu_at.contains(&self.windows) {
            return Err(WorkloadError::NoCpu { program: "mock".into(), waited_ms: 390, span_ms: 400 });
        }
        if self.others_write_at.contains(&self.windows) {
            self.root.writer().unwrap().write(POLL, "77").unwrap();
        }
        let before = self.share_as_before(settle, window);
        self.log.borrow_mut().push((self.polled, window));
        let (now, then) = if self.polled { (self.effect, 1.0) } else { (1.0, self.effect) };
        let effect = if before > 0.0 { before * then + (1.0 - before) * now } else { now };
        self.drift += 0.01 * self.normal();
        let log = self.drift + 0.04 * self.normal();
        let set = self.root.text(POLL).unwrap();
        let other = self.others.iter().find(|(value, _)| *value == set.trim()).map_or(1.0, |(_, effect)| *effect);
        let is_nothing = self.is_nothing_at.is_some_and(|at| self.windows >= at);
        let us = if is_nothing { -1.0 } else { 50.0 * log.exp() * effect * other };
        let tail = 3.0 * us * (0.08 * self.normal()).exp() * if self.polled { self.tail_effect } else { 1.0 };
        Ok(Sample::from([
            ("round_trip_us_p50".to_owned(), us),
            ("round_trip_us_p99".to_owned(), tail),
            // In one of four windows, the maximum is far higher.
            ("round_trip_us_max".to_owned(), if self.windows.is_multiple_of(4) { 9.0 * us } else { us }),
            ("cpu_share".to_owned(), if self.polled { 0.2 } else { 0.1 }),
        ]))
    }

    fn stop(&mut self) {}
}

pub(crate) struct Run {
    pub(crate) record: Record,
    pub(crate) design: Design,
}

impl Run {
    pub(crate) fn report(self) -> Report {
        self.record.report(&self.design, titles()).unwrap()
    }
}

pub(crate) fn titles() -> Titles {
    titles_of(2)
}

/// The titles of `arms` arms: 0, 200000 and then the others, each a larger change than the previous one.
pub(crate) fn titles_of(arms: usize) -> Titles {
    let values = ["0", "200000", "50000", "100000"].into_iter().take(arms).map(str::to_owned).collect();
    let away = |arm: usize| Away { knobs: vec![KNOB.to_owned()], settings: 1, way: Some(arm as f64) };
    let away = if arms > 2 { (0..arms).map(away).collect() } else { Vec::new() };
    Titles { title: "t".into(), values, away, workload: "mock".into(), ..Titles::default() }
}

/// A design with a fixed number of pairs.
pub(crate) fn design(seed: u64) -> Design {
    let mut design = Design::new(METRIC, PAIRS, Duration::from_millis(10), seed);
    design.smallest_effect_ratio = 0.05;
    // No time passes in the mock. The real length of a window is the time of a few function calls.
    design.rules.overrun_share_max = 1000.0;
    design
}

pub(crate) fn trial(seed: u64, arms: Vec<Arm>, change: impl FnOnce(&mut Mock, &mut Design)) -> Run {
    trial_on(HOST, seed, arms, change)
}

pub(crate) fn trial_on(host: &str, seed: u64, arms: Vec<Arm>, change: impl FnOnce(&mut Mock, &mut Design)) -> Run {
    let mut design = design(seed);
    let run = |mock: &mut Mock, design: &mut Design| change(mock, design);
    session(host, seed, arms, &mut design, LogTo::Nowhere, run)
}

/// Where a session is stored, or the stored session to continue.
pub(crate) enum LogTo<'a> {
    Nowhere,
    In(&'a Path),
    GoesOn(&'a Path),
}

/// Runs one session on a fresh machine, and checks the machine afterwards.
pub(crate) fn session(
    host: &str,
    seed: u64,
    arms: Vec<Arm>,
    design: &mut Design,
    kept: LogTo<'_>,
    change: impl FnOnce(&mut Mock, &mut Design),
) -> Run {
    let root = Root::captured(Capture::parse(host).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut state = State::open(&folder.path().join("state")).unwrap();
    let facts = Facts::probe(&root);
    let plans =
        [Plan::from_settings(&facts, &[Setting::parse("haltpoll.guest_halt_poll_ns=200000").unwrap()]).unwrap()];
    let mut mock = Mock::new(&root, seed, 1.0);
    change(&mut mock, design);
    let writer = root.writer().unwrap();
    let mut switch = Switch::begin(&root, &writer, Some(&mut state), "test", &plans).unwrap();
    let watch = Watch::start(&root, &plans);
    let mut record = Record::new(design, arms.clone(), watch.knobs(), NetworkPath::Loopback);
    let mut keep = match kept {
        LogTo::Nowhere => SessionWriter::nowhere(),
        LogTo::In(path) => {
            let settings = vec!["haltpoll.guest_halt_poll_ns=200000".to_owned()];
            SessionWriter::begin(path, &Head::new(settings, titles_of(arms.len()), design.clone(), &record)).unwrap()
        }
        LogTo::GoesOn(path) => {
            let before = evenkeel_trial::session_log::read(path).unwrap();
            record = before.record.clone();
            *design = before.head.design.clone();
            SessionWriter::go_on(path, &before).unwrap()
        }
    };
    let mut trial = Trial {
        design,
        arms,
        switch: &mut switch,
        workload: &mut mock,
        watch: &watch,
        stop: &|| false,
        keep: &mut keep,
    };
    let record = resume(&mut trial, record, &mut |_| {}).unwrap();
    switch.end().unwrap();
    assert_eq!(root.text(POLL).unwrap(), "0\n", "put back, however it ended");
    Run { record, design: design.clone() }
}

pub(crate) fn ab() -> Vec<Arm> {
    vec![Arm::as_it_was(1), Arm::planned(1)]
}

pub(crate) fn aa() -> Vec<Arm> {
    vec![Arm::as_it_was(1), Arm::as_it_was(1)]
}

/// The arms: the original machine, 200000, and further values.
pub(crate) fn arms(further: &[&str]) -> Vec<Arm> {
    let others = further.iter().map(|value| Arm(vec![Level::Value((*value).to_owned())]));
    ab().into_iter().chain(others).collect()
}
