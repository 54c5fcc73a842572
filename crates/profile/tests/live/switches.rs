//! Records threads that wait for a known reason on this machine. Each of their off-CPU intervals must have that reason.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread::{scope, sleep};
use std::time::Duration;

use evenkeel_hostfs::{Root, cgroup};
use evenkeel_measure::disturb::{Planted, Stretch, quota};
use evenkeel_profile::input;
use evenkeel_profile::live::{self, LiveError, Memory, RecordConfig, Switches, Targets};
use evenkeel_profile::names::{Function, Names};
use evenkeel_profile::offcpu::{self, Edges, OffCpuInterval, Reason, Trust};
use evenkeel_profile::recording::Recording;
use evenkeel_profile::stack::Frame;
use evenkeel_profile::symbols::parse_kallsyms;
use evenkeel_profile::unwind::NoUnwind;
use evenkeel_sys::readiness::{Interest, Readiness};
use evenkeel_sys::{clock, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

/// The number of waits of each kind in a recording.
const WAITS: usize = 10;
const WAIT_MS: u64 = 4;
/// The number of attempts. A pause of the machine, or another process, may change the reason of a planted wait.
const TRIES: usize = 3;
const RECORDING_BYTES_MAX: usize = 64 << 20;

/// The time of a planted wait.
#[derive(Clone, Copy, Debug)]
struct Plant {
    tid: u32,
    from_ns: u64,
    to_ns: u64,
}

/// Repeats an action, and returns the time of each repetition.
fn plants(mut one: impl FnMut()) -> Vec<Plant> {
    let tid = thread::id();
    let each = |_| {
        let from_ns = clock::monotonic_ns();
        one();
        let to_ns = clock::monotonic_ns();
        // Work between two waits, so that the next wait is a separate interval.
        let until_ns = to_ns + 300_000;
        while clock::monotonic_ns() < until_ns {
            std::hint::spin_loop();
        }
        Plant { tid, from_ns, to_ns }
    };
    (0..WAITS).map(each).collect()
}

/// A recording that was made while an action ran.
struct Recorded {
    recording: Recording,
    names: Names,
    intervals: Vec<OffCpuInterval>,
}

impl Recorded {
    /// The longest off-CPU interval of the plant's thread within the plant's time.
    fn longest_interval(&self, plant: &Plant) -> Option<&OffCpuInterval> {
        let within = |interval: &&OffCpuInterval| {
            interval.tid == plant.tid && interval.span.start_ns >= plant.from_ns && interval.span.start_ns < plant.to_ns
        };
        self.intervals.iter().filter(within).max_by_key(|interval| interval.span.length_ns())
    }

    /// Checks that each planted wait is found with its reason and length.
    fn has(&self, plants: &[Plant], reason: Reason) -> Result<(), String> {
        for plant in plants {
            let interval = self.longest_interval(plant).ok_or_else(|| format!("{reason:?}: none in {plant:?}"))?;
            if interval.reason != reason || interval.edges != Edges::Seen || interval.span.end_ns > plant.to_ns {
                return Err(format!("{reason:?}: {interval:?} in {plant:?}, at {:?}", self.functions(interval)));
            }
        }
        Ok(())
    }

    fn functions(&self, interval: &OffCpuInterval) -> Vec<String> {
        let Some(stack) = interval.stack else { return Vec::new() };
        let frames = self.recording.stacks.innermost_first(stack);
        frames.flat_map(|frame| self.names.get(frame).functions.iter().map(|function| function.name.clone())).collect()
    }

    fn name_of(&self, tid: u32) -> Option<&str> {
        self.recording.threads.get(&tid)?.name.as_deref()
    }
}

/// Records the whole machine while `run` works. None, recorded as skipped, if this user may not record.
fn recorded<T: Send>(run: impl FnOnce() -> T + Send) -> Option<(Recorded, T)> {
    let config = RecordConfig {
        targets: Targets::Machine,
        switches: Switches::WithStacks,
        faults: true,
        wakes: true,
        ring_bytes: 4 << 20,
        ..RecordConfig::default()
    };
    let is_done = AtomicBool::new(false);
    let mut memory = Memory::new(RECORDING_BYTES_MAX);
    let (began, has_begun) = mpsc::channel();
    let (recorded, value) = scope(|scope| {
        let is_done = &is_done;
        let worker = scope.spawn(move || {
            // The recorder calls back for the first time when all events are open.
            let _ = has_begun.recv();
            let value = run();
            is_done.store(true, Ordering::Release);
            value
        });
        let recorded = live::record(
            &config,
            &mut |_| {
                let _ = began.send(());
                !is_done.load(Ordering::Acquire)
            },
            &mut memory,
        );
        drop(began);
        (recorded, worker.join().unwrap())
    });
    match recorded {
        Ok(recorded) => {
            println!("recorded {:?}", recorded.status);
            if let Some(why) = recorded.unseen.iter().find(|unseen| unseen.what.contains("the kernel")) {
                not_judged(format_args!("not all can be seen here: {}", why.what));
                return None;
            }
        }
        Err(error @ (LiveError::Denied { .. } | LiveError::Refused { .. })) => {
            not_judged(format_args!("{error}"));
            return None;
        }
        Err(error) => panic!("{error}"),
    }
    let recording = input::read(&memory.into_bytes(), &mut NoUnwind).unwrap();
    // Only the kernel's functions need names. The files of other programs may have a gigabyte.
    let kernel = fs::read_to_string("/proc/kallsyms").ok().and_then(|text| parse_kallsyms(&text));
    let names = Names::resolve(&recording, |frame| match frame {
        Frame::Kernel { address, .. } => {
            let symbol = kernel.as_ref().and_then(|kernel| kernel.at(*address));
            symbol.map(|symbol| Function::named(symbol.name.as_str())).into_iter().collect()
        }
        _ => Vec::new(),
    });
    let intervals = offcpu::intervals(&recording, &names);
    let is_kernel_named = names_the_kernel(&recording, &names);
    if !is_kernel_named {
        not_judged("the kernel's functions have no names for this user (kernel.kptr_restrict)");
        return None;
    }
    Some((Recorded { recording, names, intervals }, value))
}

fn names_the_kernel(recording: &Recording, names: &Names) -> bool {
    let frames = recording.stacks.ids().map(|stack| names.get(recording.stacks.top(stack).0));
    frames.filter(|named| named.is_kernel).any(|named| !named.functions.is_empty())
}

/// Checks that one of a few recordings is right.
fn one_of_some(run: impl Fn() -> Result<(), String>) {
    let _host = HostLock::take();
    fitness::one_of(TRIES, &Needs::on_last_cpu(), run);
}

fn wait() -> Duration {
    Duration::from_millis(WAIT_MS)
}

fn waits_for_a_lock() -> Vec<Plant> {
    let held = Mutex::new(());
    let (asks, asked) = mpsc::channel();
    let (is_held, now_held) = mpsc::channel();
    scope(|scope| {
        scope.spawn(|| {
            let asked = asked;
            let is_held = is_held;
            while asked.recv().is_ok() {
                let _guard = held.lock().unwrap();
                let _ = is_held.send(());
                sleep(wait());
            }
        });
        // The wait for the lock is the longest. The wait for the message that the lock is held is short.
        let plants = plants(|| {
            asks.send(()).unwrap();
            now_held.recv().unwrap();
            drop(held.lock().unwrap());
        });
        drop(asks);
        plants
    })
}

fn waits_for_a_condition() -> Vec<Plant> {
    let (lock, condition) = (Mutex::new(()), Condvar::new());
    plants(|| drop(condition.wait_timeout(lock.lock().unwrap(), wait()).unwrap()))
}

fn waits_for_sockets() -> Vec<Plant> {
    let mut readiness = Readiness::new().unwrap();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    readiness.add(&ours, 7, Interest::Read).unwrap();
    let mut ready = Vec::new();
    plants(|| readiness.wait(None, WAIT_MS as u32, &mut ready).unwrap())
}

/// The planted waits for one socket, and the thread that answered.
fn waits_for_one_socket() -> (Vec<Plant>, u32) {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    scope(|scope| {
        let answers = scope.spawn(move || {
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() {
                sleep(wait());
                theirs.write_all(&byte).unwrap();
            }
            thread::id()
        });
        let plants = plants(|| {
            ours.write_all(b"x").unwrap();
            ours.read_exact(&mut [0]).unwrap();
        });
        drop(ours);
        (plants, answers.join().unwrap())
    })
}

#[test]
fn waits_have_their_reason() {
    one_of_some(|| {
        let run = || {
            scope(|scope| {
                let sockets = scope.spawn(waits_for_sockets);
                let locks = scope.spawn(waits_for_a_lock);
                let conditions = scope.spawn(waits_for_a_condition);
                let sleeps = scope.spawn(|| plants(|| sleep(wait())));
                let answers = waits_for_one_socket();
                let [sockets, locks, conditions, sleeps] =
                    [sockets, locks, conditions, sleeps].map(|thread| thread.join().unwrap());
                (sockets, locks, conditions, sleeps, answers)
            })
        };
        let Some((seen, (sockets, locks, conditions, sleeps, (reads, answerer)))) = recorded(run) else {
            return Ok(());
        };
        seen.has(&locks, Reason::Futex)?;
        seen.has(&conditions, Reason::Futex)?;
        seen.has(&sockets, Reason::Poll)?;
        seen.has(&sleeps, Reason::Sleep)?;
        seen.has(&reads, Reason::Socket)?;
        // Tracepoints do not fire on all machines. If they do, the wakers must be right.
        match offcpu::trust(&seen.recording, &seen.intervals) {
            Trust::Whole => {
                for plant in &reads {
                    let woken_by =
                        seen.longest_interval(plant).and_then(|interval| interval.woken_by).map(|(by, _)| by);
                    if woken_by != Some(answerer) {
                        return Err(format!("{plant:?} was woken by {woken_by:?}, not by {answerer}"));
                    }
                }
            }
            trust => println!("who woke whom is not checked: {trust:?}"),
        }
        Ok(())
    });
}

#[test]
fn a_real_time_hog_is_named() {
    one_of_some(|| {
        let cpu = thread::affinity().unwrap().first().unwrap();
        let run = || {
            thread::set_affinity(&[cpu].into_iter().collect()).unwrap();
            let start_ns = clock::monotonic_ns() + 20_000_000;
            let stretches =
                (0..WAITS as u64).map(|at| Stretch { at_ns: start_ns + at * 20_000_000, busy_ns: 4_000_000 });
            let end_ns = start_ns + WAITS as u64 * 20_000_000;
            let planted = match Planted::start(cpu, 50, stretches.collect()) {
                Ok(planted) => planted,
                Err(error) => {
                    not_judged(format_args!("{error}"));
                    return None;
                }
            };
            while clock::monotonic_ns() < end_ns {
                std::hint::spin_loop();
            }
            Some((thread::id(), planted.stop()))
        };
        let Some((seen, Some((tid, stretches)))) = recorded(run) else { return Ok(()) };
        if stretches.len() < WAITS {
            return Err(format!("the hog got {stretches:?}"));
        }
        for stretch in stretches {
            let overlap_ns = |interval: &OffCpuInterval| {
                interval.span.end_ns.min(stretch.end_ns).saturating_sub(interval.span.start_ns.max(stretch.start_ns))
            };
            let own = seen.intervals.iter().filter(|interval| interval.tid == tid);
            let interval = own.max_by_key(|interval| overlap_ns(interval)).ok_or("no interval at all")?;
            let taker = interval.taken_by.and_then(|(_, taker)| seen.name_of(taker));
            if interval.reason != Reason::Preempted
                || taker != Some("evenkeel-rt-hog")
                || overlap_ns(interval) < 3_000_000
            {
                return Err(format!("{interval:?} by {taker:?} at {stretch:?}"));
            }
        }
        Ok(())
    });
}

/// A limited control group, with a process that wants a whole CPU. Dropping this value removes both.
/// If the test is killed, the group stays (its name has the owner), and the process ends after a second.
struct Limited {
    group: quota::Group,
    path: PathBuf,
    child: Child,
}

impl Limited {
    fn start() -> Result<Limited, String> {
        // The limit is 4 ms of each 40 ms. Even a kernel that counts in steps of 4 ms can enforce this limit.
        let settings = quota::Settings { period_ns: 40_000_000, share_left: 0.1, cpus: 1 };
        let group = quota::Group::plan(&settings, &Root::live()).map_err(|error| error.to_string())?;
        group.make().map_err(|error| error.to_string())?;
        let path = group.path().to_owned();
        let script = "echo $$ > \"$1/cgroup.procs\" && while :; do :; done";
        let mut command = Command::new("timeout");
        command.args(["2", "sh", "-c", script, "sh"]).arg(&path).stdout(Stdio::null());
        match command.spawn() {
            Ok(child) => Ok(Limited { group, path, child }),
            Err(error) => {
                let _ = cgroup::remove(&path, Duration::from_secs(1));
                Err(error.to_string())
            }
        }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = cgroup::remove(&self.path, Duration::from_secs(2));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_limit_is_not_taken_for_another_thread() {
    one_of_some(|| {
        let run = || {
            let limited = Limited::start().map_err(not_judged).ok()?;
            sleep(Duration::from_millis(800));
            let members = cgroup::members(&limited.path);
            Some((members, limited.group.report()))
        };
        let Some((seen, Some((members, stat)))) = recorded(run) else { return Ok(()) };
        let pid = *members.first().ok_or("nothing ran in the group")? as u32;
        let (Some(periods), Some(throttled_ns)) = (stat.throttled_periods, stat.throttled_ns) else {
            not_judged("this kernel does not count how often a group was stopped");
            return Ok(());
        };
        let own: Vec<&OffCpuInterval> = seen.intervals.iter().filter(|interval| interval.pid == pid).collect();
        let stopped: Vec<&&OffCpuInterval> =
            own.iter().filter(|interval| interval.reason == Reason::Throttled).collect();
        let stopped_ns: u64 = stopped.iter().map(|interval| interval.span.length_ns()).sum();
        if periods < 5 {
            return Err(format!("the group was stopped {periods} times: it got too little of the machine"));
        }
        // When the limit allows the group to run again, other threads may have the CPU.
        // The kernel counts this wait as throttled time too.
        let is_so = (stopped.len() as u64).abs_diff(periods) <= 1 + periods / 10;
        if is_so && stopped_ns.abs_diff(throttled_ns) < throttled_ns / 4 {
            return Ok(());
        }
        let mut long: Vec<&&OffCpuInterval> =
            own.iter().filter(|interval| interval.span.length_ns() > 10_000_000).collect();
        long.retain(|interval| interval.reason != Reason::Throttled);
        let others: Vec<_> = long.iter().map(|interval| (interval, seen.functions(interval))).collect();
        Err(format!(
            "{} intervals of {stopped_ns} ns are reported as throttled, and the kernel counts {periods} of {throttled_ns} ns; others are {others:?}",
            stopped.len()
        ))
    });
}

/// Removes a program's file from the page cache.
fn forget(file: &Path) {
    let file = fs::File::open(file).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn a_page_fault_names_its_file() {
    one_of_some(|| {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let program = folder.path().join("forgotten");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let run = || {
            let mut ran = Vec::new();
            for _ in 0..WAITS {
                forget(&program);
                let mut child = Command::new(&program).arg("--list").stdout(Stdio::null()).spawn().unwrap();
                ran.push(child.id());
                child.wait().unwrap();
            }
            ran
        };
        let Some((seen, ran)) = recorded(run) else { return Ok(()) };
        let faults = offcpu::faults(&seen.recording, &seen.names, &seen.intervals, |_| true);
        let is_of_file = |mapped: &Option<String>| mapped.as_deref().is_some_and(|path| Path::new(path) == program);
        if !faults.iter().any(|faults| ran.contains(&faults.pid)) {
            not_judged("no fault waits here: the file system is in memory, or faster than that");
            return Ok(());
        }
        for pid in ran {
            let own: Vec<_> = faults.iter().filter(|faults| faults.pid == pid).collect();
            if !own.iter().any(|faults| is_of_file(&faults.mapped) && faults.waits > 0 && faults.total_ns > 0) {
                return Err(format!("process {pid}: {own:?}"));
            }
        }
        Ok(())
    });
}
