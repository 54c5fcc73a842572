//! Tests that live recordings match what threads really did.
//! Threads of this test work, sleep, change their names and end. The recorder must record all of this, and the file reader must return it.
//! A CPU clock samples the thread that has the CPU. So these tests wait until a thread has used CPU time, and not for a fixed time.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::Scope;
use std::time::Duration;

use evenkeel_hostfs::cgroup;
use evenkeel_profile::live::{
    LiveError, Memory, Outlet, RecordConfig, RecordSummary, Status, Switches, Targets, Window, record,
};
use evenkeel_profile::perf::file::PerfFile;
use evenkeel_profile::recording::{Recording, Turn};
use evenkeel_profile::unwind::NoUnwind;
use evenkeel_sys::{clock, suspended_child::SuspendedChild, thread};
use evenkeel_testkit::skipped;

pub(crate) const MS: u64 = 1_000_000;
/// The time limit of waits: a minute, which only a hang would reach.
const LIMIT_NS: u64 = 60_000 * MS;

/// Runs one recording at a time, because the kernel limits the locked memory of all rings of a user.
pub(crate) fn one_at_a_time<T>(run: impl FnOnce() -> T) -> T {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run()
}

pub(crate) fn read(bytes: &[u8]) -> Recording {
    PerfFile::parse(bytes).unwrap().recording(&mut NoUnwind).unwrap()
}

/// Records into memory. None, recorded as skipped, if this user may not record.
pub(crate) fn recorded(
    config: &RecordConfig,
    until: &mut dyn FnMut(&Status) -> bool,
) -> Option<(RecordSummary, Vec<u8>)> {
    let mut sink = Memory::new(256 << 20);
    let mut within_limit = |status: &Status| {
        assert!(status.elapsed_ns < LIMIT_NS, "waited in vain: {status:?}");
        until(status)
    };
    match record(config, &mut within_limit, &mut sink) {
        Ok(summary) => Some((summary, sink.into_bytes())),
        Err(error @ LiveError::Denied { .. }) => {
            skipped(format_args!("this user may not record ({error})"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn ourselves() -> Targets {
    Targets::Processes(vec![std::process::id()])
}

/// A thread with a name that works until it is stopped.
pub(crate) struct Busy {
    worked_ns: Arc<AtomicU64>,
}

impl Busy {
    pub(crate) fn start<'scope>(scope: &'scope Scope<'scope, '_>, name: &str, stop: &'scope AtomicBool) -> Busy {
        let worked_ns = Arc::<AtomicU64>::default();
        let worked = Arc::clone(&worked_ns);
        let work = move || {
            while !stop.load(Ordering::Relaxed) {
                std::hint::black_box((0..1000_u64).sum::<u64>());
                worked.store(clock::thread_cpu_ns(), Ordering::Relaxed);
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).unwrap();
        Busy { worked_ns }
    }

    /// The CPU time of the thread so far.
    pub(crate) fn worked_ns(&self) -> u64 {
        self.worked_ns.load(Ordering::Relaxed)
    }
}

/// The CPU time of a process with one thread. 0 if the process does not exist.
fn ran_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Stops the working threads on drop, even after a panic.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The number of samples of threads with this name.
fn samples_of(recording: &Recording, name: &str) -> usize {
    let is_of = |tid: &u32| recording.threads.get(tid).and_then(|thread| thread.name.as_deref()) == Some(name);
    recording.samples.iter().filter(|sample| is_of(&sample.tid)).count()
}

#[test]
fn who_works_is_sampled_whether_it_was_there_before_or_came_later() {
    one_at_a_time(|| {
        let stop = AtomicBool::new(false);
        let config = RecordConfig { targets: ourselves(), clock_hz: Some(997), ..RecordConfig::default() };
        let recorded = std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let before = Busy::start(scope, "rec-before", &stop);
            let mut late = None;
            let mut from_ns = None;
            recorded(&config, &mut |_| {
                let late = late.get_or_insert_with(|| Busy::start(scope, "rec-late", &stop));
                let from_ns = *from_ns.get_or_insert_with(|| before.worked_ns());
                before.worked_ns() < from_ns + 30 * MS || late.worked_ns() < 30 * MS
            })
        });
        let Some((summary, bytes)) = recorded else { return };
        let recording = read(&bytes);
        assert_eq!(summary.status.samples, recording.samples.len() as u64, "all that was counted is in the file");
        assert_eq!(recording.lost.records, summary.status.lost);
        assert!(recording.events.iter().any(|event| Some(&event.name) == summary.clock.as_ref() && event.is_on_cpu()));
        let program = std::env::current_exe().unwrap().display().to_string();
        assert!(recording.modules.iter().any(|(_, module)| module.path == program), "what was mapped before is known");
        assert!(recording.machine.kernel.is_some());
        for name in ["rec-before", "rec-late"] {
            // The expected rate is one sample per millisecond of CPU time, but a busy kernel leaves out some samples.
            assert!(samples_of(&recording, name) > 5, "{name}: {summary:?}");
        }
    });
}

#[test]
fn threads_of_a_name_are_seen_and_no_others() {
    one_at_a_time(|| {
        let stop = AtomicBool::new(false);
        let targets = Targets::Threads { name: "rec-named".to_owned(), pids: vec![std::process::id()] };
        let config = RecordConfig { targets, clock_hz: Some(997), ..RecordConfig::default() };
        let recorded = std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let named = Busy::start(scope, "rec-named", &stop);
            let other = Busy::start(scope, "rec-other", &stop);
            // The thread gets its name when it first runs.
            while named.worked_ns() == 0 {
                std::thread::yield_now();
            }
            let mut from_ns = None;
            recorded(&config, &mut |_| {
                let worked_ns = [named.worked_ns(), other.worked_ns()];
                let from_ns = *from_ns.get_or_insert(worked_ns);
                worked_ns[0] < from_ns[0] + 20 * MS || worked_ns[1] < from_ns[1] + 20 * MS
            })
        });
        let Some((_, bytes)) = recorded else { return };
        let recording = read(&bytes);
        assert!(samples_of(&recording, "rec-named") > 2);
        assert_eq!(samples_of(&recording, "rec-other"), 0);
    });
}

#[test]
fn switches_tell_who_slept() {
    one_at_a_time(|| {
        let config = RecordConfig {
            targets: ourselves(),
            switches: Switches::WithStacks,
            clock_hz: None,
            ..RecordConfig::default()
        };
        let (said, tid) = mpsc::channel();
        let slept = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let recorded = std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            scope.spawn(|| {
                said.send(thread::id()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    clock::sleep_until_ns(clock::monotonic_ns() + MS);
                    slept.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut from = None;
            recorded(&config, &mut |_| {
                slept.load(Ordering::Relaxed) < *from.get_or_insert_with(|| slept.load(Ordering::Relaxed)) + 30
            })
        });
        let Some((summary, bytes)) = recorded else { return };
        let (recording, tid) = (read(&bytes), tid.recv().unwrap());
        let turns = |turn| recording.switches.iter().filter(|switch| switch.tid == tid && switch.turn == turn).count();
        assert!(turns(Turn::Slept) >= 28 && turns(Turn::In) >= 28, "{summary:?}");
        if summary.unseen.iter().any(|unseen| unseen.what.contains("kernel")) {
            return skipped("this user may not see where threads sleep");
        }
        // Each sleep has a sample that shows where the thread slept.
        // A live check tests how close in time the sleep and the sample are.
        assert!(recording.samples.iter().filter(|sample| sample.tid == tid).count() >= 28, "{summary:?}");
    });
}

#[test]
fn a_process_that_ends_meanwhile_is_recorded_up_to_its_end() {
    one_at_a_time(|| {
        let mut child = Ended(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
        let pid = child.0.id();
        let config =
            RecordConfig { targets: Targets::Processes(vec![pid]), clock_hz: Some(997), ..RecordConfig::default() };
        let from_ns = ran_ns(pid);
        let recorded = recorded(&config, &mut |_| {
            if ran_ns(pid) > from_ns + 20 * MS {
                let _ = child.0.kill();
                child.0.wait().unwrap();
            }
            true
        });
        drop(child);
        let Some((summary, bytes)) = recorded else { return };
        assert_eq!(summary.ended_with, [pid]);
        assert!(summary.status.samples > 2, "{summary:?}");
        assert_eq!(samples_of(&read(&bytes), "sh") as u64, summary.status.samples);
        let gone = record(&config, &mut |_| false, &mut Memory::new(1 << 20)).unwrap_err();
        assert!(matches!(gone, LiveError::NotThere { .. }), "{gone}");
    });
}

/// A shell that runs a script when its input is closed. `$0` in the script is a file name.
fn shell(script: &str, file: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("read line; {script}")]).arg(file).stdin(Stdio::piped()).spawn().unwrap()
}

/// The recording ends when the last process ends, before the time limit of the recording.
#[test]
fn it_ends_with_the_last_of_its_processes_and_what_they_started() {
    one_at_a_time(|| {
        let folder = tempfile::tempdir().unwrap();
        let end = folder.path().join("end");
        let rows = [
            ("one", vec![":"], Switches::None),
            ("the later of two", vec![":", "sleep 0.05; : > $0"], Switches::None),
            ("a child that outlives it", vec!["(sleep 0.05; : > $0) &"], Switches::None),
            ("one of whole CPUs", vec!["(sleep 0.05; : > $0) &"], Switches::WithStacks),
        ];
        for (what, scripts, switches) in rows {
            let mut shells: Vec<Child> = scripts.iter().map(|script| shell(script, &end)).collect();
            let pids: Vec<u32> = shells.iter().map(Child::id).collect();
            let config =
                RecordConfig { targets: Targets::Processes(pids.clone()), switches, ..RecordConfig::default() };
            let recorded = recorded(&config, &mut |_| {
                // A shell continues when its input is closed. Nobody waits for the shell, so it becomes a zombie.
                shells.iter_mut().for_each(|shell| drop(shell.stdin.take()));
                true
            });
            for shell in &mut shells {
                drop(shell.stdin.take());
                shell.wait().unwrap();
            }
            let Some((summary, _)) = recorded else { return };
            assert_eq!(summary.ended_with, pids, "{what}: {summary:?}");
            // The last process has done everything that it does before its end.
            assert_eq!(end.exists(), scripts.iter().any(|script| script.contains("$0")), "{what}: {summary:?}");
            drop(fs::remove_file(&end));
        }
        // If the whole machine is recorded, only the end of the named processes counts.
        let mut about = shell(":", &end);
        let config = RecordConfig { about: vec![about.id()], ..RecordConfig::default() };
        let recorded = recorded(&config, &mut |_| {
            drop(about.stdin.take());
            true
        });
        drop(about.stdin.take());
        about.wait().unwrap();
        let Some((summary, _)) = recorded else { return };
        assert_eq!(summary.ended_with, [about.id()], "{summary:?}");
    });
}

#[test]
fn a_command_is_seen_from_its_first_instruction() {
    one_at_a_time(|| {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"]);
        let held = SuspendedChild::new(command).unwrap();
        let config = RecordConfig {
            targets: Targets::Processes(vec![held.pid()]),
            clock_hz: Some(997),
            ..RecordConfig::default()
        };
        let (mut held, mut running) = (Some(held), None);
        let recorded = recorded(&config, &mut |_| {
            if let Some(held) = held.take() {
                running = Some(held.start().unwrap().0);
            }
            running.as_ref().is_some_and(|running| running.ended().is_none())
        });
        let Some((summary, bytes)) = recorded else { return };
        let recording = read(&bytes);
        assert!(
            recording.mappings.iter().any(|mapping| mapping.at_ns > 0),
            "its mappings have the time at which they were made"
        );
        assert!(samples_of(&recording, "sh") > 2, "{summary:?}");
    });
}

#[test]
fn what_finds_no_room_is_counted() {
    one_at_a_time(|| {
        let stop = AtomicBool::new(false);
        let config = RecordConfig {
            targets: ourselves(),
            clock_hz: Some(10_000),
            user_stack_bytes: Some(8192),
            ring_bytes: 1,
            ..RecordConfig::default()
        };
        let recorded = std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let busy = Busy::start(scope, "rec-busy", &stop);
            recorded(&config, &mut |status| {
                // Nothing reads the ring meanwhile, so the ring overflows.
                let from_ns = busy.worked_ns();
                while busy.worked_ns() < from_ns + 50 * MS {
                    std::thread::sleep(Duration::from_millis(1));
                }
                status.lost <= 100
            })
        });
        let Some((summary, bytes)) = recorded else { return };
        assert!(summary.status.lost > 100, "{summary:?}");
        assert_eq!(read(&bytes).lost.records, summary.status.lost, "the file says so too");
    });
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
    const WINDOW_NS: u64 = 300 * MS;
    one_at_a_time(|| {
        let (ask, kept) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<Vec<u8>>>>::default());
        let shelf = Shelf { ask: Arc::clone(&ask), kept: Arc::clone(&kept) };
        let mut window = Window::new(WINDOW_NS, 64 << 20, shelf);
        // Samples are large and the ring is small. So the ring is read often, and the window has many pieces.
        let config = RecordConfig {
            targets: ourselves(),
            clock_hz: Some(997),
            user_stack_bytes: Some(8192),
            ring_bytes: 1,
            ..RecordConfig::default()
        };
        let stop = AtomicBool::new(false);
        let summary = std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            let mut late = None;
            // The time and the CPU time at each check. Checks of the last half window are kept.
            let mut lately: Vec<(u64, u64)> = Vec::new();
            let (mut early_ns, mut is_asked) = (None, false);
            let mut until = |status: &Status| {
                let late = late.get_or_insert_with(|| Busy::start(scope, "rec-late", &stop));
                let (now_ns, worked_ns) = (status.elapsed_ns, late.worked_ns());
                assert!(now_ns < LIMIT_NS, "waited in vain: {status:?}");
                lately.retain(|(at_ns, _)| at_ns + WINDOW_NS / 2 > now_ns);
                lately.push((now_ns, worked_ns));
                // However busy the machine is, some samples must be older than the window, and some must be within the window.
                if worked_ns > 20 * MS {
                    early_ns.get_or_insert(now_ns);
                }
                let is_late = early_ns.is_some_and(|early_ns| now_ns > early_ns + 2 * WINDOW_NS);
                let is_ready = is_late && worked_ns > lately[0].1 + 20 * MS;
                if is_ready && !is_asked {
                    is_asked = true;
                    ask.store(true, Ordering::Relaxed);
                    return true;
                }
                !is_ready || kept.lock().unwrap().is_empty()
            };
            record(&config, &mut until, &mut window)
        });
        if let Err(error @ LiveError::Denied { .. }) = summary {
            return skipped(format_args!("this user may not record ({error})"));
        }
        let summary = summary.unwrap();
        let kept = kept.lock().unwrap();
        assert_eq!(kept.len(), 2, "the one that was asked for, and the end");
        let [first, last] = [&kept[0], &kept[1]].map(|bytes| read(bytes));
        for recording in [&first, &last] {
            assert!(samples_of(recording, "rec-late") > 2, "a name from before the window is known");
            let samples = recording.samples.len() as u64;
            assert!(samples < summary.status.samples, "{samples} of {} samples", summary.status.samples);
            let program = std::env::current_exe().unwrap().display().to_string();
            assert!(recording.modules.iter().any(|(_, module)| module.path == program));
        }
        assert!(first.span.end_ns < last.span.end_ns);
    });
}

#[test]
fn what_is_not_there_is_said() {
    let table = [
        (Targets::Processes(vec![4_194_300]), "record process 4194300: there is no such process"),
        (
            Targets::Threads { name: "game".to_owned(), pids: vec![4_194_300, 4_194_301] },
            "record the threads named game of process 4194300, 4194301: there is no such process",
        ),
        (Targets::Group("/nowhere".into()), "record the group /nowhere: /nowhere: no such file or directory (ENOENT)"),
        (Targets::Cpus([900].into_iter().collect()), "record CPUs 900: none of these CPUs is online"),
    ];
    for (targets, expected) in table {
        let config = RecordConfig { targets, ..RecordConfig::default() };
        let error = record(&config, &mut |_| false, &mut Memory::new(1 << 20)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    // Even a user who may record the whole machine gets an error if the process does not exist.
    let config = RecordConfig { about: vec![4_194_300], ..RecordConfig::default() };
    let error = record(&config, &mut |_| false, &mut Memory::new(1 << 20)).unwrap_err();
    assert_eq!(error.to_string(), "record process 4194300: there is no such process");
    // One existing process is enough. The others are reported as missing.
    one_at_a_time(|| {
        let targets = Targets::Processes(vec![4_194_300, std::process::id()]);
        let config = RecordConfig { targets, ..RecordConfig::default() };
        let Some((summary, _)) = recorded(&config, &mut |_| false) else { return };
        assert!(summary.unseen.contains(&"process 4194300: there is no such process".to_owned().into()), "{summary:?}");
    });
}

/// A child process that is killed on drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A group of the perf_event controller, and a group of another controller. In both cases, only members of the group are recorded.
#[test]
fn a_group_is_recorded_whatever_its_controller() {
    one_at_a_time(|| {
        let mut tried = 0;
        for hierarchy in ["", "unified", "perf_event", "cpu", "cpu,cpuacct"] {
            let group =
                Path::new("/sys/fs/cgroup").join(hierarchy).join(format!("evenkeel-rec-{}", std::process::id()));
            let is_group = group.parent().is_some_and(|mount| mount.join("cgroup.procs").exists());
            if !is_group || fs::create_dir(&group).is_err() {
                continue;
            }
            let start = || Ended(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
            let (inside, _outside) = (start(), start());
            let entered = fs::write(group.join("cgroup.procs"), inside.0.id().to_string());
            let config =
                RecordConfig { targets: Targets::Group(group.clone()), clock_hz: Some(499), ..RecordConfig::default() };
            let pid = inside.0.id();
            let from_ns = ran_ns(pid);
            let recorded = entered.ok().and_then(|()| recorded(&config, &mut |_| ran_ns(pid) < from_ns + 30 * MS));
            drop(inside);
            cgroup::remove(&group, Duration::from_secs(60)).unwrap();
            if let Some((summary, bytes)) = recorded {
                let recording = read(&bytes);
                assert!(recording.samples.len() > 2, "{}: {summary:?}", group.display());
                assert!(recording.samples.iter().all(|sample| sample.pid == pid), "{}: others too", group.display());
                tried += 1;
            }
        }
        if tried == 0 {
            skipped("this user may not make control groups here");
        }
    });
}
