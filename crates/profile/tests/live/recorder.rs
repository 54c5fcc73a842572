//! Checks how complete a recording is.
//! The samples must match the work, each sleep must have a stack, and a window must be as long as requested.

use std::io::Cursor;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_profile::live::{
    LiveError, Memory, Outlet, RecordConfig, RecordSummary, Status, Switches, Targets, Window, record,
};
use evenkeel_profile::perf::file::PerfFile;
use evenkeel_profile::recording::{Recording, Turn};
use evenkeel_profile::unwind::NoUnwind;
use evenkeel_sys::{clock, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

/// The number of attempts, because a pause of a busy machine may spoil an attempt.
const RUNS: usize = 3;

fn read(bytes: &[u8]) -> Recording {
    PerfFile::parse(bytes).unwrap().recording(&mut NoUnwind).unwrap()
}

/// Records into memory. None, recorded as skipped, if this user may not record.
fn recorded(config: &RecordConfig, until: &mut dyn FnMut(&Status) -> bool) -> Option<(RecordSummary, Vec<u8>)> {
    let mut sink = Memory::new(256 << 20);
    match record(config, until, &mut sink) {
        Ok(summary) => Some((summary, sink.into_bytes())),
        Err(error @ LiveError::Denied { .. }) => {
            not_judged(format_args!("this user may not ({error})"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn for_ms(ms: u64) -> impl FnMut(&Status) -> bool {
    move |status| status.elapsed_ns < ms * 1_000_000
}

/// Checks that one of a few runs succeeds.
fn one_of(run: impl Fn() -> Result<(), String>) {
    fitness::one_of(RUNS, &Needs::on_last_cpu(), run);
}

/// Starts a thread that works under this name until it is stopped. The thread returns its CPU time.
fn busy<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    name: &str,
    stop: &'scope AtomicBool,
) -> std::thread::ScopedJoinHandle<'scope, u64> {
    let work = move || {
        while !stop.load(Ordering::Relaxed) {
            std::hint::black_box((0..1000_u64).sum::<u64>());
        }
        clock::thread_cpu_ns()
    };
    std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).unwrap()
}

/// The number of samples of threads with this name.
fn samples_of(recording: &Recording, name: &str) -> usize {
    let is_of = |tid: &u32| recording.threads.get(tid).and_then(|thread| thread.name.as_deref()) == Some(name);
    recording.samples.iter().filter(|sample| is_of(&sample.tid)).count()
}

#[test]
fn as_much_is_sampled_as_was_worked() {
    let _host = HostLock::take();
    one_of(|| {
        let stop = AtomicBool::new(false);
        let config = RecordConfig {
            targets: Targets::Processes(vec![std::process::id()]),
            clock_hz: Some(997),
            ..RecordConfig::default()
        };
        let (recorded, worked_ns) = std::thread::scope(|scope| {
            let before = busy(scope, "rec-before", &stop);
            let mut late = None;
            let recorded = recorded(&config, &mut |status| {
                // A thread that is created during the recording is recorded too.
                late.get_or_insert_with(|| busy(scope, "rec-late", &stop));
                status.elapsed_ns < 600_000_000
            });
            stop.store(true, Ordering::Relaxed);
            (recorded, [before.join().unwrap(), late.map_or(0, |late| late.join().unwrap())])
        });
        let Some((summary, bytes)) = recorded else { return Ok(()) };
        let recording = read(&bytes);
        for (name, worked_ns) in [("rec-before", worked_ns[0]), ("rec-late", worked_ns[1])] {
            // The thread also worked for some milliseconds before the recording began and after the recording ended.
            let (seen, worked) = (samples_of(&recording, name) as f64, worked_ns as f64 / 1e9 * 997.0);
            if !(0.7..1.15).contains(&(seen / worked)) {
                return Err(format!("{name}: {seen} samples for {worked} of work, {summary:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn each_sleep_has_a_stack_of_the_same_moment() {
    let _host = HostLock::take();
    let targets = Targets::Processes(vec![std::process::id()]);
    let config = RecordConfig { targets, switches: Switches::WithStacks, clock_hz: None, ..RecordConfig::default() };
    let (said, tid) = std::sync::mpsc::channel();
    let stop = AtomicBool::new(false);
    let recorded = std::thread::scope(|scope| {
        scope.spawn(|| {
            said.send(thread::id()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                clock::sleep_until_ns(clock::monotonic_ns() + 2_000_000);
            }
        });
        let recorded = recorded(&config, &mut for_ms(400));
        stop.store(true, Ordering::Relaxed);
        recorded
    });
    let Some((summary, bytes)) = recorded else { return };
    let (recording, tid) = (read(&bytes), tid.recv().unwrap());
    if summary.unseen.iter().any(|unseen| unseen.what.contains("kernel")) {
        not_judged("this user may not see where threads sleep");
        return;
    }
    // Each sleep has a sample at the same moment, and the sample shows where the thread slept.
    let slept = recording.switches.iter().filter(|switch| switch.tid == tid && switch.turn == Turn::Slept);
    let is_at = |at_ns: u64| recording.samples.iter().any(|s| s.tid == tid && s.at_ns.abs_diff(at_ns) < 200_000);
    let (all, with) = slept.fold((0, 0), |(all, with), switch| (all + 1, with + u32::from(is_at(switch.at_ns))));
    assert!(with * 10 >= all * 9, "{with} of {all} have a stack");
}

/// Keeps a window in memory when the flag is set.
struct Shelf {
    ask: Arc<AtomicBool>,
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Outlet for Shelf {
    type File = Cursor<Vec<u8>>;

    fn is_asked(&mut self) -> bool {
        self.ask.swap(false, Ordering::Relaxed)
    }

    fn open(&mut self) -> std::io::Result<Cursor<Vec<u8>>> {
        Ok(Cursor::new(Vec::new()))
    }

    fn close(&mut self, file: Cursor<Vec<u8>>) -> std::io::Result<()> {
        self.kept.lock().unwrap().push(file.into_inner());
        Ok(())
    }
}

#[test]
fn a_window_has_the_last_of_it_and_knows_what_was_before() {
    let _host = HostLock::take();
    let (ask, kept) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let shelf = Shelf { ask: Arc::clone(&ask), kept: Arc::clone(&kept) };
    let mut window = Window::new(500_000_000, 64 << 20, shelf);
    let config = RecordConfig {
        targets: Targets::Processes(vec![std::process::id()]),
        clock_hz: Some(997),
        ..RecordConfig::default()
    };
    let stop = AtomicBool::new(false);
    let summary = std::thread::scope(|scope| {
        let mut late = None;
        let mut asked = false;
        let summary = record(
            &config,
            &mut |status| {
                late.get_or_insert_with(|| busy(scope, "rec-late", &stop));
                if status.elapsed_ns > 2_500_000_000 && !asked {
                    asked = true;
                    ask.store(true, Ordering::Relaxed);
                }
                status.elapsed_ns < 3_000_000_000
            },
            &mut window,
        );
        stop.store(true, Ordering::Relaxed);
        summary
    });
    if let Err(error @ LiveError::Denied { .. }) = summary {
        not_judged(format_args!("this user may not ({error})"));
        return;
    }
    let summary = summary.unwrap();
    let kept = kept.lock().unwrap();
    assert_eq!(kept.len(), 2, "the one that was asked for, and the end");
    let [first, last] = [&kept[0], &kept[1]].map(|bytes| read(bytes));
    for recording in [&first, &last] {
        // A few samples are enough, because the thread gets little CPU time on a busy machine.
        assert!(samples_of(recording, "rec-late") > 2, "a name from before the window is known");
        let samples = recording.samples.len() as u64;
        assert!(samples < summary.status.samples * 3 / 4, "{samples} of {} samples", summary.status.samples);
        let program = std::env::current_exe().unwrap().display().to_string();
        assert!(recording.modules.iter().any(|(_, module)| module.path == program));
    }
    assert!(first.span.end_ns < last.span.end_ns);
}
