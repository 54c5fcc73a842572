//! What goes wrong on a real machine while something is measured or disturbed: it is killed, its CPU goes away, another clock source is
//! chosen, its control group has next to no CPU time. Clear words, an end in time, and nothing left changed.
//!
//! A CPU is taken from the process alone, by a cpuset, which moves threads as the kernel does when the CPU goes offline;
//! `EVENKEEL_CALIBRATE=1` takes it offline, from everybody on the machine.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evenkeel_sys::{process, thread};

use evenkeel_testkit::offline::Offline;

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const OFFERED: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
const ONLINE: &str = "/sys/devices/system/cpu/online";
/// Far more than any of this takes, and bounded.
const LIMIT: Duration = Duration::from_secs(60);

fn alone() -> File {
    let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
    host.lock().unwrap();
    host
}

fn evenkeel(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(line.split(' ')).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Its exit code and all that it said. One that does not end in time is killed, and a failure.
fn ended(line: &str, mut child: Child) -> (i32, String) {
    // Pages are larger than a pipe may hold.
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
        if since.elapsed() > LIMIT {
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

/// What a meter or a disturber might leave changed.
fn state() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut seen = vec![
        read(CLOCK_SOURCE),
        read(ONLINE),
        read("/proc/self/mountinfo"),
        read("/proc/sys/kernel/sched_rt_runtime_us"),
        read("/proc/sys/kernel/perf_event_paranoid"),
        read("/sys/kernel/mm/transparent_hugepage/enabled"),
    ];
    for top in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuset", "/run/netns"] {
        let names = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let mut ours: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("evenkeel-")).collect();
        ours.sort();
        seen.push(format!("{top}: {ours:?}"));
    }
    seen
}

/// A folder of a controller of the first version, removed when this is dropped.
struct Group(PathBuf);

impl Group {
    fn with(controller: &str, files: &[(&str, String)]) -> Option<Group> {
        let top = PathBuf::from("/sys/fs/cgroup").join(controller);
        let group = Group(top.join(format!("evenkeel-test-faults-{}", std::process::id())));
        if !top.join("cgroup.procs").exists() || fs::create_dir(&group.0).is_err() {
            println!("skipped: no group can be made below {}", top.display());
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

/// Each with what it says when the last CPU goes away soon after it began; nothing where it is not bound to one, which is tried with
/// `EVENKEEL_CALIBRATE=1` only.
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

#[test]
fn a_cpu_that_goes_away_is_told_and_nothing_hangs() {
    let _alone = alone();
    let cpus = thread::affinity().unwrap();
    let (Some(first), Some(last)) = (cpus.first(), cpus.iter().last().filter(|_| cpus.len() > 1)) else {
        println!("skipped: it takes two CPUs");
        return;
    };
    let is_for_all = std::env::var_os("EVENKEEL_CALIBRATE").is_some();
    let before = state();
    for (line, words) in LOSES_A_CPU.iter().filter(|(_, words)| is_for_all || !words.is_empty()) {
        let line = line.replace("ALL", &format!("{first},{last}"));
        let files = [("cpuset.cpus", cpus.to_string()), ("cpuset.mems", "0".to_owned())];
        let group = if is_for_all { None } else { Group::with("cpuset", &files) };
        let child = match &group {
            Some(group) => group.start(&line),
            None if is_for_all => evenkeel(&line).spawn().unwrap(),
            None => return,
        };
        std::thread::sleep(Duration::from_millis(700));
        let offline = match &group {
            Some(group) => {
                fs::write(group.0.join("cpuset.cpus"), first.to_string()).unwrap();
                None
            }
            None => Some(Offline::take(last)),
        };
        let (code, said) = ended(&line, child);
        if matches!(offline, Some(None)) {
            println!("skipped: CPU {last} can't be taken offline here");
            return;
        }
        drop(offline);
        drop(group);
        println!("{line}: exit {code}");
        if [3, 4].contains(&code) && !said.contains("CPU") {
            println!("skipped: {said}");
            continue;
        }
        assert!([0, 4].contains(&code), "{line}: exit {code}: {said}");
        assert!(words.is_empty() || words.iter().any(|words| said.contains(words)), "{line}: exit {code}: {said}");
        assert!(!said.contains("EINVAL"), "{line}: {said}");
        if is_for_all {
            let since = Instant::now();
            while thread::affinity().unwrap() != cpus && since.elapsed() < LIMIT {
                let _ = thread::set_affinity(&cpus);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        assert_eq!(state(), before, "{line}");
    }
}

#[test]
fn a_meter_that_is_killed_leaves_nothing_changed() {
    let _alone = alone();
    let before = state();
    for line in [
        "measure gaps --seconds 60",
        "measure gaps --seconds 60 --fifo",
        "measure quantum --seconds 30",
        "measure wake --seconds 60",
        "measure clock --each-source",
        "measure rates --seconds 60",
        "measure imbalance --seconds 60",
        "measure frequency --each 5000",
        "measure memory",
        "measure disk",
        "measure udp",
        "measure bandwidth",
    ] {
        let mut child = evenkeel(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(400));
        let was_at_work = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        let since = Instant::now();
        while state() != before && since.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(state(), before, "{line}");
        println!("{line}: killed {}", if was_at_work { "at work" } else { "after its end" });
    }
}

/// Whether a CPU is said to be given in slots while nobody changes anything; which is said.
fn tells_slots(line: &str) -> bool {
    let (_, said) = ended(line, evenkeel(line).spawn().unwrap());
    let answer: serde_json::Value = serde_json::from_str(said.trim()).unwrap_or_default();
    let is_told = answer["cpus"].as_array().into_iter().flatten().any(|cpu| cpu["model"] == "fixed-slot");
    println!("{line}: slots are told without a change too: {is_told}");
    is_told
}

#[test]
fn another_clock_source_in_the_middle_makes_nothing_up() {
    let _alone = alone();
    let (before, offered) = (fs::read_to_string(CLOCK_SOURCE), fs::read_to_string(OFFERED).unwrap_or_default());
    let Ok(before) = before.map(|text| text.trim().to_owned()) else { return };
    let Some(other) = offered.split_whitespace().find(|name| *name != before) else {
        println!("skipped: one clock source only");
        return;
    };
    for line in [
        "measure gaps --seconds 2 --json",
        "measure quantum --seconds 2 --json",
        "measure wake --seconds 2 --gaps-us 1000 --json",
    ] {
        // Who has regular turns beside it for two seconds is told as what he is: that is not made up. Hardly three times.
        let is_made_up = |_| {
            let child = evenkeel(line).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(900));
            if fs::write(CLOCK_SOURCE, other).is_err() {
                println!("skipped: this user may not change the clock source");
                let _ = child.wait_with_output();
                return false;
            }
            std::thread::sleep(Duration::from_millis(400));
            fs::write(CLOCK_SOURCE, &before).unwrap();
            let (code, said) = ended(line, child);
            assert_eq!(fs::read_to_string(CLOCK_SOURCE).unwrap().trim(), before);
            assert_eq!(code, 0, "{line}: {said}");
            let answer: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
            // A clock that was set anew in the middle would make a gap of seconds, or one that never ends.
            let longest_ns = answer["all"]["longest_ns"].as_u64().unwrap_or(0);
            assert!(longest_ns < 1_500_000_000, "{line}: {longest_ns}");
            let slots = answer["cpus"].as_array().into_iter().flatten().filter(|cpu| cpu["model"] == "fixed-slot");
            let count = slots.count();
            println!("{line}: {count} CPUs in slots: {answer}");
            // On a machine whose CPUs are given in slots that is told with one clock source as well.
            count > 0 && !tells_slots(line)
        };
        assert!(!(0..3).all(is_made_up), "{line}");
    }
}

#[test]
fn a_group_with_next_to_no_cpu_is_named() {
    let _alone = alone();
    let files = [("cpu.cfs_period_us", "200000".to_owned()), ("cpu.cfs_quota_us", "10000".to_owned())];
    let Some(group) = Group::with("cpu", &files) else { return };
    let name = group.0.file_name().unwrap().to_string_lossy().into_owned();
    for (line, words) in [
        ("measure gaps --seconds 1", ["a limit on CPU time holds for the meter itself", "throttle"]),
        ("measure quantum --seconds 1", ["10 of every 200 ms", "token bucket"]),
    ] {
        let (code, said) = ended(line, group.start(line));
        assert_eq!(code, 0, "{line}: {said}");
        assert!(words.iter().all(|words| said.contains(words)) && said.contains(&name), "{line}: {said}");
    }
}

#[test]
fn a_captured_machine_has_no_time_to_measure() {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts/qemu-128cpu-6.1.txt");
    for meter in ["gaps", "quantum", "wake", "clock", "rates", "imbalance", "frequency", "memory", "disk"] {
        let line = format!("measure {meter} --host {host}");
        let Output { status, stderr, .. } = evenkeel(&line).output().unwrap();
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(4), "{line}: {said}");
        assert!(
            said.contains("time does not pass in a captured machine; run it on the machine itself"),
            "{line}: {said}"
        );
    }
}
