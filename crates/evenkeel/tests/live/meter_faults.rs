//! Faults of a real machine during a measurement or a disturbance:
//! its CPU goes offline, another clock source is selected, or its control group gets hardly any CPU time.
//! The program must report the fault clearly, end in time, and leave nothing changed.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use evenkeel_sys::{CpuSet, process, thread};
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::offline::Offline;
use evenkeel_testkit::{HostLock, live};
use serde_json::Value;

use crate::clock_source::{Switchable, source};
use crate::faults::{evenkeel, state};
use crate::wait::{PATIENCE, until};

const TRIES: usize = 3;
/// The time from the start of a meter to the fault. At that time, the meter is measuring and has not ended.
const AT_WORK: Duration = Duration::from_millis(700);

/// The exit code and the whole output of a program. If the program does not end in time, the check kills it and fails.
fn ended(line: &str, mut child: Child) -> (i32, String) {
    // A page may be larger than a pipe's buffer, so read it while the program runs.
    let mut streams: Vec<Box<dyn std::io::Read + Send>> =
        vec![Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
    let readers: Vec<_> = streams
        .drain(..)
        .map(|mut stream| std::thread::spawn(move || std::io::read_to_string(&mut stream).unwrap_or_default()))
        .collect();
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if since.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said: String = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    let status = status.unwrap_or_else(|| panic!("{line} did not end: {said}"));
    (status.code().unwrap_or(-1), said.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A control group of a version 1 controller. Dropping this value removes the group.
struct Group(PathBuf);

impl Group {
    /// Creates a control group. `None` if that is not possible; then the check is skipped.
    fn with(controller: &str, files: &[(&str, String)]) -> Option<Group> {
        let top = PathBuf::from("/sys/fs/cgroup").join(controller);
        let group = Group(top.join(format!("evenkeel-test-faults-{}", std::process::id())));
        if !top.join("cgroup.procs").exists() || fs::create_dir(&group.0).is_err() {
            live::not_judged(format_args!("no group can be made below {}", top.display()));
            return None;
        }
        files.iter().for_each(|(name, value)| fs::write(group.0.join(name), value).unwrap());
        Some(group)
    }

    fn start(&self, line: &str) -> Child {
        let mut command = evenkeel(line);
        process::enter_group(&mut command, &self.0).unwrap();
        command.spawn().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let since = Instant::now();
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && since.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The allowed messages of each command if the last CPU goes offline soon after its start.
/// Empty if the command is not bound to a CPU.
const LOSES_A_CPU: [(&str, &[&str]); 17] = [
    ("measure gaps --seconds 1", &["went away while it was measured: it was taken offline, or out of the CPUs"]),
    ("measure quantum --seconds 1", &["it is offline, or not among the CPUs that this process may use"]),
    ("measure quantum --seconds 1 --together", &["ended early: the CPU went offline, or somebody moved the probe"]),
    ("measure wake --seconds 3 --gaps-us 1000", &["was taken offline", "it is offline"]),
    ("measure clock --calls 20000000", &[]),
    ("measure rates --seconds 2", &[]),
    ("measure imbalance --seconds 2", &[]),
    ("measure frequency", &["it is offline, or not among the CPUs", "moved"]),
    ("measure udp", &["it is offline, or not among the CPUs", "round trip"]),
    (
        "disturb quantum --period-ms 10 --share 0.6 --seconds 1.2 --cpus ALL",
        &["went offline; its disturbance ended there"],
    ),
    ("disturb sibling --cpus ALL --working-set-mib 4 --seconds 1.2", &["went offline; its disturbance ended there"]),
    ("disturb storm --cpus ALL --rate 500 --seconds 1.2", &["went offline; its disturbance ended there"]),
    ("disturb storm --by timers --cpus ALL --rate 500 --seconds 1.2", &["went offline; its disturbance ended there"]),
    ("disturb storm --by wakes --rate 500 --seconds 1.2", &["went offline; its disturbance ended there"]),
    ("disturb memory --by bandwidth --mib 8 --cpus ALL --seconds 1.2", &["went offline; its disturbance ended there"]),
    ("disturb memory --mib 16 --leave-mib 128 --seconds 1.2", &[]),
    ("disturb quantum --by quota --share 0.5 --seconds 1.2 -- sleep 2", &[]),
];

/// The first and the last CPU that this process may use, and all of them.
/// `None` if the process may use only one CPU; then the check is skipped.
fn several_cpus() -> Option<(usize, usize, CpuSet)> {
    let cpus = thread::affinity().unwrap();
    if cpus.len() < 2 {
        live::not_judged("there is one CPU only");
        return None;
    }
    Some((cpus.first()?, cpus.iter().last()?, cpus))
}

#[test]
fn a_cpu_that_goes_offline_is_reported_and_nothing_hangs() {
    let _host = HostLock::take();
    let Some((_, last, cpus)) = several_cpus() else { return };
    for (line, words) in LOSES_A_CPU {
        let lose = |line: &str| {
            let child = evenkeel(line).spawn().unwrap();
            std::thread::sleep(AT_WORK);
            let offline = Offline::take(last);
            let is_offline = offline.is_some();
            let ended = ended(line, child);
            drop(offline);
            until(format_args!("CPU {last} is back"), || {
                let _ = thread::set_affinity(&cpus);
                thread::affinity().unwrap() == cpus
            });
            is_offline.then_some(ended)
        };
        if !a_lost_cpu_is_reported(line, words, &cpus, lose) {
            live::not_judged(format_args!("CPU {last} can't be taken offline here"));
            return;
        }
    }
}

/// The test removes a CPU from the cpuset of the process's group.
/// The kernel moves the threads away, but the CPU stays online.
#[test]
fn a_cpu_that_leaves_the_cpuset_is_reported_and_nothing_hangs() {
    let _host = HostLock::take();
    let Some((first, _, cpus)) = several_cpus() else { return };
    let files = [("cpuset.cpus", cpus.to_string()), ("cpuset.mems", "0".to_owned())];
    for (line, words) in LOSES_A_CPU.iter().filter(|(_, words)| !words.is_empty()) {
        let lose = |line: &str| {
            let group = Group::with("cpuset", &files)?;
            let child = group.start(line);
            std::thread::sleep(AT_WORK);
            fs::write(group.0.join("cpuset.cpus"), first.to_string()).unwrap();
            Some(ended(line, child))
        };
        if !a_lost_cpu_is_reported(line, words, &cpus, lose) {
            return;
        }
    }
}

/// Takes a CPU from the program with `lose`.
/// Fails unless the program prints one of `words`, ends by itself and leaves nothing changed.
/// Returns false if `lose` could not take a CPU.
fn a_lost_cpu_is_reported(
    line: &str,
    words: &[&str],
    cpus: &CpuSet,
    mut lose: impl FnMut(&str) -> Option<(i32, String)>,
) -> bool {
    let (Some(first), Some(last)) = (cpus.first(), cpus.iter().last()) else { return false };
    let line = line.replace("ALL", &format!("{first},{last}"));
    let before = state("");
    let mut is_lost = true;
    fitness::one_of(TRIES, &Needs::on_last_cpu().without_timers(), || {
        let Some((code, said)) = lose(&line) else {
            is_lost = false;
            return Ok(());
        };
        assert_eq!(state(""), before, "{line}");
        if [3, 4].contains(&code) && !said.contains("CPU") {
            live::not_judged(format_args!("{line}: {said}"));
            return Ok(());
        }
        assert!([0, 4].contains(&code), "{line}: exit {code}: {said}");
        assert!(!said.contains("EINVAL"), "{line}: {said}");
        let is_reported = words.is_empty() || words.iter().any(|words| said.contains(words));
        if is_reported { Ok(()) } else { Err(format!("{line}: exit {code}: {said}")) }
    });
    is_lost
}

/// The number of CPUs for which the answer reports slots.
fn slots(answer: &Value) -> usize {
    answer["cpus"].as_array().into_iter().flatten().filter(|cpu| cpu["model"] == "fixed-slot").count()
}

#[test]
fn another_clock_source_in_the_middle_makes_nothing_up() {
    let _host = HostLock::take();
    let Some(switchable) = Switchable::find() else { return };
    let needs = Needs::on_last_cpu().without_timers();
    for line in [
        "measure gaps --seconds 2 --json",
        "measure quantum --seconds 2 --json",
        "measure wake --seconds 2 --gaps-us 1000 --json",
    ] {
        let measure = || {
            let (code, said) = ended(line, evenkeel(line).spawn().unwrap());
            assert_eq!(code, 0, "{line}: {said}");
            serde_json::from_str::<Value>(&said).unwrap()
        };
        fitness::holds(TRIES, || {
            let child = evenkeel(line).spawn().unwrap();
            std::thread::sleep(AT_WORK);
            switchable.switch();
            std::thread::sleep(Duration::from_millis(400));
            switchable.switch_back();
            let (code, said) = ended(line, child);
            assert_eq!(source(), switchable.before);
            assert_eq!(code, 0, "{line}: {said}");
            let answer: Value = serde_json::from_str(&said).unwrap();
            // If the meter calibrated the cycle counter again during the run,
            // the answer would have a gap of seconds, or an endless gap.
            let longest_ns = answer["all"]["longest_ns"].as_u64().unwrap_or(0);
            assert!(longest_ns < 1_500_000_000, "{line}: {longest_ns}");
            if slots(&answer) == 0 {
                return Some(Ok(()));
            }
            // A CPU may really have slots, from the hypervisor or from a periodic process.
            // Then the meter also reports slots if the clock source does not change.
            let is_unfit = slots(&measure()) > 0 || needs.unmet().is_some();
            (!is_unfit).then(|| Err(format!("{line}: the answer reports slots that do not exist: {answer}")))
        });
    }
}

#[test]
fn a_group_with_next_to_no_cpu_is_named() {
    let _host = HostLock::take();
    let files = [("cpu.cfs_period_us", "200000".to_owned()), ("cpu.cfs_quota_us", "10000".to_owned())];
    let Some(group) = Group::with("cpu", &files) else { return };
    let name = group.0.file_name().unwrap().to_string_lossy().into_owned();
    for (line, words) in [
        ("measure gaps --seconds 1", ["a limit on CPU time holds for the meter itself", "throttle"]),
        ("measure quantum --seconds 1", ["10 of every 200 ms", "token bucket"]),
    ] {
        fitness::one_of(TRIES, &Needs::on_last_cpu().without_timers(), || {
            let (code, said) = ended(line, group.start(line));
            assert_eq!(code, 0, "{line}: {said}");
            let is_named = words.iter().all(|words| said.contains(words)) && said.contains(&name);
            if is_named { Ok(()) } else { Err(format!("{line}: {said}")) }
        });
    }
}
