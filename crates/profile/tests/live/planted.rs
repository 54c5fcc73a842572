//! Plants stalls in one of a hundred ticks of a real server, and checks the report from a live recording.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel_profile::input;
use evenkeel_profile::live::probe::{Until, beginning_and_end, parse_place};
use evenkeel_profile::live::{self, LiveError, Memory, RecordConfig, Switches, Targets};
use evenkeel_profile::offcpu::{self, Reason};
use evenkeel_profile::symbols::{Settings, Symbols};
use evenkeel_profile::ticks::compare::{Comparison, Top};
use evenkeel_profile::ticks::cut::Wanted;
use evenkeel_profile::ticks::marks::Marks;
use evenkeel_profile::ticks::{Spent, Ticks};
use evenkeel_profile::unwind::Unwinder;
use evenkeel_testkit::cgroup::Group;
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::{HostLock, live::not_judged};

/// The size of the mapped file in bytes. One stall reads less than this size.
const MAP_BYTES: usize = 64 << 20;
const BYTES_MAX: usize = 256 << 20;

/// The evidence by which ticks are recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The thread's wake-ups.
    Wakes,
    /// The entry and the return of the function `tick`.
    Function,
}

/// The folder with the compiled server and a file that it maps, and the control group.
struct Stage {
    folder: tempfile::TempDir,
    group: Group,
}

impl Stage {
    /// Prepares the test. None, recorded as skipped, if there is no compiler or no control group of version 1.
    fn set() -> Option<Stage> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/server.c");
        let built = Command::new("cc")
            .args(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"])
            .arg(folder.path().join("server"))
            .arg(source)
            .status();
        if !built.is_ok_and(|status| status.success()) {
            not_judged("cc does not build the server here");
            return None;
        }
        let mut file = File::create(folder.path().join("map")).unwrap();
        file.write_all(&vec![1; MAP_BYTES]).unwrap();
        file.sync_all().unwrap();
        // Use version 1 of control groups, in which a single thread can join a group.
        let group = Group::with("cpu", &[("cpu.cfs_period_us", "1000000".to_owned())]).map_err(not_judged).ok()?;
        Some(Stage { folder, group })
    }

    fn server(&self, kind: &str, ticks: u64) -> Child {
        Command::new(self.folder.path().join("server"))
            .args([kind, &ticks.to_string()])
            .args([&self.folder.path().join("map"), self.group.path()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs the server and returns the report. None, recorded as skipped, if this user may not record.
    fn said(&self, kind: &str, ticks: u64, by: By) -> Option<Result<Comparison, Spoiled>> {
        let server = self.server(kind, ticks);
        // A new process exists slightly before its program is mapped.
        let is_mapped = |_: &u32| {
            let maps = fs::read_to_string(format!("/proc/{}/maps", server.id())).unwrap_or_default();
            maps.lines().any(|line| line.ends_with("/server"))
        };
        let waits = (0..4000).take_while(|nth| !is_mapped(nth)).map(|_| std::thread::sleep(Duration::from_millis(1)));
        assert!(waits.count() < 4000, "the server is not there");
        let at = parse_place("tick").unwrap();
        let probes = (by == By::Function).then(|| beginning_and_end(&at, &Until::Return, &[server.id()]).unwrap());
        let config = RecordConfig {
            targets: Targets::Processes(vec![server.id()]),
            clock_hz: Some(2000),
            switches: Switches::WithStacks,
            faults: true,
            wakes: true,
            probes: probes.unwrap_or_default(),
            ..RecordConfig::default()
        };
        let mut memory = Memory::new(BYTES_MAX);
        let limit_ns = ticks * 10_000_000;
        let recorded = live::record(&config, &mut |status| status.elapsed_ns < limit_ns, &mut memory);
        // Names of functions are read from files, so the process does not need to run any more.
        let own_output = server.wait_with_output_or_kill(recorded.is_err());
        match recorded {
            Err(LiveError::Denied { why, .. } | LiveError::NoProbe { why, .. }) => {
                not_judged(format_args!("{why}"));
                return None;
            }
            recorded => println!("  unseen: {:?}", recorded.unwrap().unseen),
        }
        let recording = input::read(&memory.into_bytes(), &mut Unwinder::new()).unwrap();
        let names = Symbols::new(Settings::default()).names(&recording);
        let intervals = offcpu::intervals(&recording, &names);
        let found = match by {
            By::Wakes => Ticks::find(&recording, &names, &intervals, &Wanted::Any).map_err(|why| why.to_string()),
            By::Function => Marks::named(&recording, "tick")
                .and_then(|marks| marks.ticks(&recording, &|_| true))
                .map(|marked| Ticks::at(&recording, &names, &intervals, &marked))
                .map_err(|why| why.to_string()),
        };
        let found = match found {
            Ok(found) => found,
            Err(_) if is_kept_from_its_time(&own_record(&own_output)) => return Some(Err(Spoiled::ByTheMachine)),
            Err(why) => return Some(Err(Spoiled::ByUs(why))),
        };
        if recording.threads[&found.cut.tid].name.as_deref() != Some("world") {
            return Some(Err(Spoiled::ByUs("another thread is found to tick".to_owned())));
        }
        if is_kept_from_its_time(&own_record(&own_output)) {
            return Some(Err(Spoiled::ByTheMachine));
        }
        let compared = agree(&own_record(&own_output), &found).and_then(|()| {
            found.compare(&recording, &names, 0.01).ok_or_else(|| "there is nothing to compare".to_owned())
        });
        Some(compared.map_err(Spoiled::ByUs))
    }
}

trait Awaited {
    fn wait_with_output_or_kill(self, is_to_be_killed: bool) -> String;
}

impl Awaited for Child {
    fn wait_with_output_or_kill(mut self, is_to_be_killed: bool) -> String {
        if is_to_be_killed {
            let _ = self.kill();
        }
        String::from_utf8(self.wait_with_output().unwrap().stdout).unwrap()
    }
}

/// Why a run does not give the expected report.
#[derive(Debug)]
enum Spoiled {
    /// The server's own record shows that it was delayed, because the machine was busy or stalled.
    ByTheMachine,
    /// The server was on time, but the report is wrong.
    ByUs(String),
}

/// For each tick: its number, and when it was due, began and was done.
fn own_record(output: &str) -> Vec<[u64; 4]> {
    let number = |word: &str| word.parse::<u64>().unwrap();
    output.lines().map(|line| line.split(' ').map(number).collect::<Vec<_>>().try_into().unwrap()).collect()
}

/// Whether many ticks without a planted stall began late or took long.
fn is_kept_from_its_time(own: &[[u64; 4]]) -> bool {
    let ordinary = own.iter().filter(|[number, ..]| number % 100 != 50);
    let kept = ordinary.filter(|[_, due_ns, begun_ns, done_ns]| {
        begun_ns.saturating_sub(*due_ns) > 1_000_000 || done_ns.saturating_sub(*begun_ns) > 3_000_000
    });
    kept.count() * 20 > own.len()
}

/// Compares the recording with the server's own record: nearly all ticks must be found, with their lengths.
fn agree(own: &[[u64; 4]], found: &Ticks) -> Result<(), String> {
    let mut close = 0;
    for tick in &found.cut.ticks {
        let near = own.iter().find(|[_, _, begun_ns, _]| begun_ns.abs_diff(tick.begun_ns) < 1_000_000);
        close += usize::from(near.is_some_and(|[.., done_ns]| done_ns.abs_diff(tick.span.end_ns) < 300_000));
    }
    let seen = found.cut.ticks.len();
    if seen * 10 >= own.len() * 9 && close * 100 >= seen * 95 {
        return Ok(());
    }
    Err(format!("{close} of {seen} of {} agree", own.len()))
}

/// The expected report for a kind of stall, and the place of the stall.
/// The C library's lock keeps no frame pointer, so its nearest caller (`world_lock`) is not on the stack.
fn expected(kind: &str) -> (Spent, &'static str) {
    match kind {
        "lock" => (Spent::Without(Reason::Futex), "tick"),
        "fault" => (Spent::Without(Reason::PageFault), "read_map"),
        "loop" => (Spent::Ran, "find_path"),
        _ => (Spent::Without(Reason::Throttled), "simulate"),
    }
}

/// Whether the report names the stall first, with its place and the thread that held the lock.
fn is_first(kind: &str, said: &Comparison) -> Result<(), String> {
    let Some(top) = &said.top else { return Err("nothing makes slow ticks slow".to_owned()) };
    let Top { spent, growth_ns, function, ended_by, .. } = top;
    let is_held = kind != "lock" || ended_by.as_deref().is_some_and(|name| name.starts_with("saver"));
    let is_so = (*spent, function.as_deref().unwrap_or("")) == expected(kind) && is_held;
    let is_long = (1_500_000..4_500_000).contains(growth_ns);
    if is_so && is_long { Ok(()) } else { Err(format!("{top:?} {:?}", said.growth)) }
}

/// Each recording must report the stall, in one of two attempts. An attempt does not count if the server itself was delayed.
/// An attempt also does not count if a control thread without a stall shows that this machine disturbs the measurement.
fn stall(kind: &str, by: By) {
    const RECORDINGS: usize = 3;
    const TICKS: u64 = 320;
    let _host = HostLock::take();
    let Some(stage) = Stage::set() else { return };
    for _ in 0..RECORDINGS {
        fitness::holds(2, || {
            let answer = match stage.said(kind, TICKS, by) {
                // The reason was already recorded.
                None => return Some(Ok(())),
                Some(Err(Spoiled::ByTheMachine)) => return None,
                Some(Err(Spoiled::ByUs(why))) => Err(why),
                Some(Ok(said)) => {
                    let more_ms = (said.slow_mean_ns - said.rest_mean_ns) as f64 / 1e6;
                    println!("{kind}: {more_ms} ms more, {:?}, {:?}", said.top, said.caveats);
                    is_first(kind, &said)
                }
            };
            println!("{kind}: {answer:?}");
            let is_unfit = answer.is_err() && Needs::on_last_cpu().unmet().is_some();
            (!is_unfit).then_some(answer)
        });
    }
}

#[test]
fn a_lock_that_another_thread_holds_is_reported() {
    stall("lock", By::Wakes);
}

#[test]
fn memory_on_disk_is_reported() {
    stall("fault", By::Wakes);
}

#[test]
fn a_busy_loop_is_reported() {
    stall("loop", By::Wakes);
}

#[test]
fn a_control_groups_limit_is_reported() {
    stall("quota", By::Wakes);
}

#[test]
fn a_functions_entry_and_return_give_the_same() {
    for kind in ["lock", "loop"] {
        stall(kind, By::Function);
    }
}
