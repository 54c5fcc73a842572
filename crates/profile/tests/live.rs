//! What is recorded live is what was done: threads of ours that work, sleep, change their names and end, seen through the recorder and the
//! reader of files.

#![expect(clippy::unwrap_used, reason = "a test that can't prepare its machine fails")]

use evenkeel_testkit::fitness as machine;

use std::fs;
use std::io::{Cursor, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use evenkeel_profile::live::{LiveError, Memory, Outlet, Status, Switches, Targets, Told, Window, Wishes, record};
use evenkeel_profile::perf::file::PerfFile;
use evenkeel_profile::recording::{Recording, Turn};
use evenkeel_profile::unwind::NoUnwind;
use evenkeel_sys::{clock, held::Held, thread};
use machine::Needs;

/// On a busy machine one run may fall into a pause: so many are tried.
const RUNS: usize = 3;

/// Tests that load or change the machine take turns.
fn host_lock() -> fs::File {
    let file = fs::File::create("/tmp/evenkeel-tests-of-this-host.lock").unwrap();
    file.lock().unwrap();
    file
}

fn read(bytes: &[u8]) -> Recording {
    PerfFile::parse(bytes).unwrap().recording(&mut NoUnwind).unwrap()
}

/// Records into memory; nothing, aloud, where this user may not.
fn recorded(wishes: &Wishes, until: &mut dyn FnMut(&Status) -> bool) -> Option<(Told, Vec<u8>)> {
    let mut sink = Memory::new(256 << 20);
    match record(wishes, until, &mut sink) {
        Ok(told) => Some((told, sink.into_bytes())),
        Err(error @ LiveError::Denied { .. }) => {
            println!("skipped: this user may not ({error})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn for_ms(ms: u64) -> impl FnMut(&Status) -> bool {
    move |status| status.elapsed_ns < ms * 1_000_000
}

/// One of a few runs must be right.
fn one_of(run: impl Fn() -> Result<(), String>) {
    machine::one_of(RUNS, &Needs::on_last_cpu(), run);
}

/// Works under this name until told to stop. How much CPU time it had by then.
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

/// Samples of the threads of this name.
fn samples_of(recording: &Recording, name: &str) -> usize {
    let is_of = |tid: &u32| recording.threads.get(tid).and_then(|thread| thread.name.as_deref()) == Some(name);
    recording.samples.iter().filter(|sample| is_of(&sample.tid)).count()
}

#[test]
fn as_much_is_sampled_as_was_worked() {
    let _lock = host_lock();
    one_of(|| {
        let stop = AtomicBool::new(false);
        let wishes =
            Wishes { targets: Targets::Processes(vec![std::process::id()]), clock_hz: Some(997), ..Wishes::default() };
        let (recorded, worked_ns) = std::thread::scope(|scope| {
            let before = busy(scope, "rec-before", &stop);
            let mut late = None;
            let recorded = recorded(&wishes, &mut |status| {
                // One that is made while it runs is seen too.
                late.get_or_insert_with(|| busy(scope, "rec-late", &stop));
                status.elapsed_ns < 600_000_000
            });
            stop.store(true, Ordering::Relaxed);
            (recorded, [before.join().unwrap(), late.map_or(0, |late| late.join().unwrap())])
        });
        let Some((told, bytes)) = recorded else { return Ok(()) };
        let recording = read(&bytes);
        assert_eq!(told.status.samples, recording.samples.len() as u64, "all that was counted is in the file");
        assert_eq!(recording.lost.records, told.status.lost);
        assert!(recording.events.iter().any(|event| Some(&event.name) == told.clock.as_ref() && event.is_on_cpu()));
        let program = std::env::current_exe().unwrap().display().to_string();
        assert!(recording.modules.iter().any(|(_, module)| module.path == program), "what was mapped before is known");
        assert_eq!(
            recording.machine.kernel.is_some() || cfg!(not(target_os = "linux")),
            recording.machine.kernel.is_some()
        );
        for (name, worked_ns) in [("rec-before", worked_ns[0]), ("rec-late", worked_ns[1])] {
            // It worked for some milliseconds before the recording began, or after it ended.
            let (seen, worked) = (samples_of(&recording, name) as f64, worked_ns as f64 / 1e9 * 997.0);
            if !(0.7..1.15).contains(&(seen / worked)) {
                return Err(format!("{name}: {seen} samples for {worked} of work, {told:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn threads_of_a_name_are_seen_and_no_others() {
    let _lock = host_lock();
    one_of(|| {
        let stop = AtomicBool::new(false);
        let targets = Targets::Threads { name: "rec-named".to_owned(), pids: vec![std::process::id()] };
        let wishes = Wishes { targets, clock_hz: Some(997), ..Wishes::default() };
        let recorded = std::thread::scope(|scope| {
            busy(scope, "rec-named", &stop);
            busy(scope, "rec-other", &stop);
            let recorded = recorded(&wishes, &mut for_ms(400));
            stop.store(true, Ordering::Relaxed);
            recorded
        });
        let Some((_, bytes)) = recorded else { return Ok(()) };
        let recording = read(&bytes);
        let (named, other) = (samples_of(&recording, "rec-named"), samples_of(&recording, "rec-other"));
        assert_eq!(other, 0);
        if named > 2 { Ok(()) } else { Err(format!("{named} samples")) }
    });
}

#[test]
fn switches_tell_who_slept() {
    let _lock = host_lock();
    let targets = Targets::Processes(vec![std::process::id()]);
    let wishes = Wishes { targets, switches: Switches::WithStacks, clock_hz: None, ..Wishes::default() };
    let (said, tid) = std::sync::mpsc::channel();
    let stop = AtomicBool::new(false);
    let recorded = std::thread::scope(|scope| {
        scope.spawn(|| {
            said.send(thread::id()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                clock::sleep_until_ns(clock::monotonic_ns() + 2_000_000);
            }
        });
        let recorded = recorded(&wishes, &mut for_ms(400));
        stop.store(true, Ordering::Relaxed);
        recorded
    });
    let Some((told, bytes)) = recorded else { return };
    let (recording, tid) = (read(&bytes), tid.recv().unwrap());
    let turns = |turn| recording.switches.iter().filter(|switch| switch.tid == tid && switch.turn == turn).count();
    assert!(turns(Turn::Slept) > 20 && turns(Turn::In) > 20, "{told:?}");
    if told.unseen.iter().any(|unseen| unseen.contains("kernel")) {
        println!("skipped: this user may not see where threads sleep");
        return;
    }
    // Each sleep has a sample of the same moment, which says where it was.
    let slept = recording.switches.iter().filter(|switch| switch.tid == tid && switch.turn == Turn::Slept);
    let is_at = |at_ns: u64| recording.samples.iter().any(|s| s.tid == tid && s.at_ns.abs_diff(at_ns) < 200_000);
    let (all, with) = slept.fold((0, 0), |(all, with), switch| (all + 1, with + u32::from(is_at(switch.at_ns))));
    assert!(with * 10 >= all * 9, "{with} of {all} have a stack");
}

#[test]
fn a_process_that_ends_meanwhile_is_recorded_up_to_its_end() {
    let _lock = host_lock();
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let wishes = Wishes { targets: Targets::Processes(vec![child.id()]), clock_hz: Some(997), ..Wishes::default() };
    let mut is_over = false;
    let recorded = recorded(&wishes, &mut |status| {
        if status.elapsed_ns > 300_000_000 && !is_over {
            child.kill().unwrap();
            child.wait().unwrap();
            is_over = true;
        }
        status.elapsed_ns < 600_000_000
    });
    // Where nothing could be recorded it still runs; elsewhere there is nothing left to be killed.
    let _ = child.kill();
    child.wait().unwrap();
    let Some((told, bytes)) = recorded else { return };
    assert!(told.status.samples > 2, "{told:?}");
    assert_eq!(samples_of(&read(&bytes), "sh") as u64, told.status.samples);
    let gone = record(&wishes, &mut for_ms(100), &mut Memory::new(1 << 20)).unwrap_err();
    assert!(matches!(gone, LiveError::NotThere { .. }), "{gone}");
}

/// A shell that goes on when it is told to, with a file's name as `$0`.
fn shell(script: &str, file: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("read line; {script}")]).arg(file).stdin(Stdio::piped()).spawn().unwrap()
}

/// What comes after the last of the processes is nothing: nobody waits for the end of the time. The time here is far more than they take.
#[test]
fn it_ends_with_the_last_of_its_processes_and_what_they_started() {
    const LIMIT_NS: u64 = 60_000_000_000;
    let _lock = host_lock();
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let rows = [
        ("one", vec![":"], Switches::None),
        ("the later of two", vec![":", "sleep 0.5; : > $0"], Switches::None),
        ("a child that outlives it", vec!["(sleep 0.5; : > $0) &"], Switches::None),
        ("one of whole CPUs", vec!["(sleep 0.5; : > $0) &"], Switches::WithStacks),
    ];
    for (what, scripts, switches) in rows {
        let mut shells: Vec<Child> = scripts.iter().map(|script| shell(script, &end)).collect();
        let pids: Vec<u32> = shells.iter().map(Child::id).collect();
        let wishes = Wishes { targets: Targets::Processes(pids.clone()), switches, ..Wishes::default() };
        let mut is_limit = false;
        let recorded = recorded(&wishes, &mut |status| {
            // Without its input, a shell goes on. Nobody waits for it: it stays a zombie.
            shells.iter_mut().for_each(|shell| drop(shell.stdin.take()));
            is_limit = status.elapsed_ns >= LIMIT_NS;
            !is_limit
        });
        for shell in &mut shells {
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
        let Some((told, _)) = recorded else { return };
        assert!(!is_limit && told.ended_with == pids, "{what}: {told:?}");
        // Whatever was to be done before the last of them ended was done.
        assert_eq!(end.exists(), scripts.iter().any(|script| script.contains("$0")), "{what}: {told:?}");
        drop(fs::remove_file(&end));
    }
    // Of the whole machine, only those that it is about count.
    let mut about = shell(":", &end);
    let wishes = Wishes { about: vec![about.id()], ..Wishes::default() };
    let recorded = recorded(&wishes, &mut |status| {
        drop(about.stdin.take());
        status.elapsed_ns < LIMIT_NS
    });
    drop(about.stdin.take());
    about.wait().unwrap();
    let Some((told, _)) = recorded else { return };
    assert_eq!(told.ended_with, [about.id()], "{told:?}");
}

#[test]
fn a_command_is_seen_from_its_first_instruction() {
    let _lock = host_lock();
    one_of(|| {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]);
        let held = Held::new(command).unwrap();
        let wishes = Wishes { targets: Targets::Processes(vec![held.pid()]), clock_hz: Some(997), ..Wishes::default() };
        let (mut held, mut running) = (Some(held), None);
        let recorded = recorded(&wishes, &mut |_| {
            if let Some(held) = held.take() {
                running = Some(held.start().unwrap().0);
            }
            running.as_ref().is_some_and(|running| running.ended().is_none())
        });
        let Some((told, bytes)) = recorded else { return Ok(()) };
        let recording = read(&bytes);
        let shell = recording.mappings.iter().filter(|mapping| mapping.at_ns > 0).count();
        assert!(shell > 0, "what it mapped was told when it did");
        if samples_of(&recording, "sh") > 2 { Ok(()) } else { Err(format!("{told:?}")) }
    });
}

#[test]
fn what_finds_no_room_is_counted() {
    let _lock = host_lock();
    let stop = AtomicBool::new(false);
    let wishes = Wishes {
        targets: Targets::Processes(vec![std::process::id()]),
        clock_hz: Some(10_000),
        user_stack_bytes: Some(8192),
        ring_bytes: 1,
        ..Wishes::default()
    };
    let recorded = std::thread::scope(|scope| {
        busy(scope, "rec-busy", &stop);
        let recorded = recorded(&wishes, &mut |status| {
            // Nobody reads meanwhile.
            std::thread::sleep(std::time::Duration::from_millis(300));
            status.elapsed_ns < 600_000_000
        });
        stop.store(true, Ordering::Relaxed);
        recorded
    });
    let Some((told, bytes)) = recorded else { return };
    assert!(told.status.lost > 100, "{told:?}");
    assert_eq!(read(&bytes).lost.records, told.status.lost, "the file says so too");
}

/// A window in memory, asked for when the flag is set.
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
    let _lock = host_lock();
    let (ask, kept) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let shelf = Shelf { ask: Arc::clone(&ask), kept: Arc::clone(&kept) };
    let mut window = Window::new(500_000_000, 64 << 20, shelf);
    let wishes =
        Wishes { targets: Targets::Processes(vec![std::process::id()]), clock_hz: Some(997), ..Wishes::default() };
    let stop = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let mut late = None;
        let mut asked = false;
        let told = record(
            &wishes,
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
        told
    });
    if let Err(error @ LiveError::Denied { .. }) = told {
        println!("skipped: this user may not ({error})");
        return;
    }
    let told = told.unwrap();
    let kept = kept.lock().unwrap();
    assert_eq!(kept.len(), 2, "the one that was asked for, and the end");
    let [first, last] = [&kept[0], &kept[1]].map(|bytes| read(bytes));
    for recording in [&first, &last] {
        // Few are enough: on a busy machine it gets little of the CPU.
        assert!(samples_of(recording, "rec-late") > 2, "a name that was told before the window is known");
        let samples = recording.samples.len() as u64;
        assert!(samples < told.status.samples * 3 / 4, "{samples} of {} samples", told.status.samples);
        let program = std::env::current_exe().unwrap().display().to_string();
        assert!(recording.modules.iter().any(|(_, module)| module.path == program));
    }
    assert!(first.span.end_ns < last.span.end_ns);
}

/// What is not there, or can't be meant.
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
        let wishes = Wishes { targets, ..Wishes::default() };
        let error = record(&wishes, &mut |_| false, &mut Memory::new(1 << 20)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    // Whoever may record whole machines is told too that what it is about is not there.
    let wishes = Wishes { about: vec![4_194_300], ..Wishes::default() };
    let error = record(&wishes, &mut |_| false, &mut Memory::new(1 << 20)).unwrap_err();
    assert_eq!(error.to_string(), "record process 4194300: there is no such process");
    // One of several is enough, and the others are told.
    let targets = Targets::Processes(vec![4_194_300, std::process::id()]);
    let wishes = Wishes { targets, ..Wishes::default() };
    let Some((told, _)) = recorded(&wishes, &mut for_ms(1)) else { return };
    assert!(told.unseen.contains(&"process 4194300: there is no such process".to_owned()), "{told:?}");
}

/// `perf` opens what we write, and sees what we see.
#[test]
fn perf_reads_it() {
    if Command::new("perf").arg("--version").output().is_err() {
        println!("skipped: perf is not here");
        return;
    }
    let _lock = host_lock();
    let stop = AtomicBool::new(false);
    let targets = Targets::Processes(vec![std::process::id()]);
    let switches = Switches::WithStacks;
    let wishes = Wishes { targets, clock_hz: Some(499), switches, wakes: true, faults: true, ..Wishes::default() };
    let recorded = std::thread::scope(|scope| {
        busy(scope, "rec-perf", &stop);
        let recorded = recorded(&wishes, &mut for_ms(300));
        stop.store(true, Ordering::Relaxed);
        recorded
    });
    let Some((told, bytes)) = recorded else { return };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let perf = |arguments: &[&str]| {
        let mut command = Command::new("perf");
        let output = command.args(arguments).arg("-i").arg(file.path()).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "perf {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lines = perf(&["script", "-F", "comm,tid,event"]);
    assert_eq!(lines.lines().count() as u64, told.status.samples);
    assert!(lines.contains("rec-perf"), "{lines}");
    for (event, count) in &told.events {
        let named = lines.lines().filter(|line| line.contains(&format!("{event}:"))).count();
        assert_eq!(named as u64, *count, "{event}");
    }
    let report = perf(&["report", "--stdio", "--no-children", "-g", "none", "--sort", "comm"]);
    assert!(report.contains("rec-perf"), "{report}");
    // What was mapped before it began is told by its build, which `perf` finds in the program itself.
    let program = std::env::current_exe().unwrap();
    let recording = read(&bytes);
    let own = recording.modules.iter().find(|(_, module)| program.to_str() == Some(&module.path));
    let id = own.and_then(|(_, module)| module.build_id.clone()).unwrap();
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let listed = perf(&["buildid-list"]);
    assert!(listed.contains(&format!("{id} {}", program.display())), "{id}: {listed}");
    let symbols = perf(&["report", "--stdio", "--no-children", "-g", "none", "--sort", "dso,sym"]);
    let name = program.file_name().and_then(|name| name.to_str()).unwrap();
    let own: Vec<&str> = symbols.lines().filter(|line| line.contains(name)).collect();
    assert!(!own.is_empty() && own.iter().all(|line| !line.contains("[.] 0x")), "{symbols}");
}

/// Ends what it started.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A group of the kernel's controller for this, and one of another: in both those who are in it are seen, and nobody else.
#[test]
fn a_group_is_recorded_whatever_its_controller() {
    let _lock = host_lock();
    let mut tried = 0;
    for hierarchy in ["", "unified", "perf_event", "cpu", "cpu,cpuacct"] {
        let group =
            std::path::Path::new("/sys/fs/cgroup").join(hierarchy).join(format!("evenkeel-rec-{}", std::process::id()));
        let is_group = group.parent().is_some_and(|mount| mount.join("cgroup.procs").exists());
        if !is_group || fs::create_dir(&group).is_err() {
            continue;
        }
        let start = || Ended(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
        let (inside, _outside) = (start(), start());
        let entered = fs::write(group.join("cgroup.procs"), inside.0.id().to_string());
        let wishes = Wishes { targets: Targets::Group(group.clone()), clock_hz: Some(499), ..Wishes::default() };
        let recorded = entered.ok().and_then(|()| recorded(&wishes, &mut for_ms(400)));
        let pid = inside.0.id();
        drop(inside);
        evenkeel_sys::cgroup::remove(&group, std::time::Duration::from_secs(10)).unwrap();
        if let Some((told, bytes)) = recorded {
            let recording = read(&bytes);
            assert!(recording.samples.len() > 2, "{}: {told:?}", group.display());
            assert!(recording.samples.iter().all(|sample| sample.pid == pid), "{}: others too", group.display());
            tried += 1;
        }
    }
    if tried == 0 {
        println!("skipped: this user may not make control groups here");
    }
}
