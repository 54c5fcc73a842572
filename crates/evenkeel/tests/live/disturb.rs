//! `evenkeel disturb` as its callers see it: exit codes, what goes to which stream, the time bound; and that nothing of it is left however
//! it ends, SIGKILL in the middle among the ways.

use evenkeel_testkit::fitness as machine;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take on a machine that pauses.
const LIMIT: Duration = Duration::from_secs(30);

const NOBODY: u32 = 65534;

/// Every process that a test starts has this in its environment, with a value of the test's own, and so has all that they start.
const MARK: &str = "EVENKEEL_TEST_OF_DISTURB";

/// A run of the program, alone on this machine among those who ask.
struct Scene {
    mark: String,
    groups_before: Vec<PathBuf>,
    _alone: File,
}

impl Scene {
    fn new() -> Scene {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let alone = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
        alone.lock().unwrap();
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Scene { mark, groups_before: groups(), _alone: alone }
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.arg("disturb").args(line).env(MARK, &self.mark).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &[&str]) -> Seen {
        let seen = Seen::from(self.command(line).output().unwrap());
        self.assert_nothing_is_left();
        seen
    }

    /// The processes that carry our mark.
    fn processes(&self) -> Vec<(u32, String)> {
        let wanted = format!("{MARK}={}", self.mark);
        let pids =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        })
        .map(|pid| (pid, fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")))
        .collect()
    }

    /// Waits until one of our processes has this in its command line.
    fn await_process(&self, word: &str) {
        let since = Instant::now();
        while !self.processes().iter().any(|(_, line)| line.trim_end() == word) {
            assert!(since.elapsed() < LIMIT, "no {word}: {:?}", self.processes());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn assert_nothing_is_left(&self) {
        let since = Instant::now();
        loop {
            let left: Vec<PathBuf> = groups().into_iter().filter(|group| !self.groups_before.contains(group)).collect();
            let processes = self.processes();
            if left.is_empty() && processes.is_empty() {
                return;
            }
            assert!(since.elapsed() < LIMIT, "left: {left:?} {processes:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// What a caller sees.
#[derive(Debug)]
struct Seen {
    code: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Seen {
    fn from(output: Output) -> Seen {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Seen { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Seen {
    /// Whether this user or this kernel does not let it be done; says so.
    fn is_skipped(&self) -> bool {
        let skipped = [3, 4].contains(&self.code) && self.stderr.starts_with("evenkeel: failed to");
        if skipped {
            println!("skipped: {}", self.stderr);
        }
        skipped
    }
}

/// The control groups of evenkeel's that there are.
fn groups() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && entry.file_name().to_string_lossy().starts_with("evenkeel-") {
                found.push(entry.path());
            }
            if is_folder && depth < 5 {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    found
}

fn kill(child: &Child, signal: &str) {
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Every kind, as short as it goes.
const KINDS: [&[&str]; 9] = [
    &["quantum", "--period-ms", "5", "--share", "0.8"],
    &["quantum", "--by", "quota", "--share", "0.5"],
    &["spinner", "--threads", "2"],
    &["spinner", "--random-ms", "1,3", "--seed", "7"],
    &["sibling", "--cpus", "0", "--working-set-mib", "8"],
    &["storm", "--rate", "500"],
    &["storm", "--by", "timers", "--rate", "500"],
    &["memory", "--mib", "16", "--leave-mib", "128"],
    &["memory", "--by", "bandwidth", "--mib", "8"],
];

fn around<'a>(kind: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [kind, &["--"], command].concat()
}

#[test]
fn the_commands_exit_code_comes_through() {
    let scene = Scene::new();
    for kind in KINDS {
        let seen = scene.run(&around(kind, &["sh", "-c", "echo out; echo err >&2; exit 7"]));
        if seen.is_skipped() {
            continue;
        }
        assert_eq!((seen.code, seen.stdout.as_str()), (7, "out\n"), "{kind:?}: {seen:?}");
        assert!(seen.stderr.starts_with("err\n"), "{seen:?}");
        assert!(seen.stderr.contains(&format!("Disturbed: {}", kind[0])), "{seen:?}");
        assert!(seen.stderr.contains("ended by the command"), "{seen:?}");
    }
    let killed = scene.run(&["spinner", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.code, 137, "{killed:?}");
}

#[test]
fn the_account_is_one_object_beside_the_command() {
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record.json");
    for kind in KINDS {
        let recorded = ["--record", record.to_str().unwrap(), "--json"];
        let line = around(&[kind, &recorded].concat(), &["sh", "-c", "echo out; exit 3"]);
        let seen = scene.run(&line);
        if seen.is_skipped() {
            continue;
        }
        assert_eq!((seen.code, seen.stderr.as_str()), (3, "out\n"), "{kind:?}");
        let answer: Value = serde_json::from_str(&seen.stdout).unwrap();
        assert_eq!(fs::read_to_string(&record).unwrap(), seen.stdout);
        assert_eq!((&answer["format"], &answer["kind"]), (&1.into(), &kind[0].into()), "{answer}");
        assert_eq!((&answer["ended_by"], &answer["command"]["exit_code"]), (&"command".into(), &3.into()));
        assert!(answer["asked"].is_object() && answer["did"].is_object(), "{answer}");
    }
}

#[test]
fn the_time_bound_holds_with_and_without_a_command() {
    let scene = Scene::new();
    for kind in KINDS {
        let timed = [kind, &["--seconds", "0.2", "--json"]].concat();
        let beside = scene.run(&around(&timed, &["sleep", "1.5"]));
        if beside.is_skipped() {
            continue;
        }
        let answer: Value = serde_json::from_str(&beside.stdout).unwrap();
        assert_eq!((&answer["ended_by"], &answer["disturbed_ns"]), (&"time".into(), &200_000_000.into()), "{kind:?}");
        assert_eq!(beside.code, 0);
        assert!(answer["command"]["wall_ns"].as_u64().unwrap() > 1_500_000_000, "{answer}");
        let alone = scene.run(&timed);
        if kind.contains(&"quota") {
            assert_eq!(alone.code, 2, "{alone:?}");
            continue;
        }
        let answer: Value = serde_json::from_str(&alone.stdout).unwrap();
        assert_eq!(
            (alone.code, &answer["ended_by"], &answer["command"]),
            (0, &"time".into(), &Value::Null),
            "{kind:?}"
        );
        assert_eq!(answer["disturbed_ns"], 200_000_000);
    }
}

/// How much longer a loop takes than its CPU time, as this machine is now.
fn stretch() -> f64 {
    1.0 / machine::spinning_share()
}

/// What the command itself sees of its limit: it is stopped for about what is taken, and goes free when the time is over.
#[test]
fn a_quota_limits_the_command_and_what_it_starts() {
    let scene = Scene::new();
    let spin = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";
    let script = format!("({spin}) & {spin}; wait");
    let line = ["quantum", "--by", "quota", "--cpus", "0", "--share", "0.3", "--period-ms", "50", "--json", "--"];
    let before = stretch();
    let seen = scene.run(&[&line[..], &["sh", "-c", &script]].concat());
    if seen.is_skipped() {
        return;
    }
    let answer: Value = serde_json::from_str(&seen.stdout).unwrap();
    let did = &answer["did"];
    assert_eq!((&did["quota_us"], &did["period_us"]), (&15_000.into(), &50_000.into()), "{answer}");
    let (periods, throttled) = (did["periods"].as_u64().unwrap(), did["throttled_periods"].as_u64().unwrap());
    assert!(periods >= 4 && throttled * 10 >= periods * 7, "{answer}");
    let wall_ns = answer["command"]["wall_ns"].as_u64().unwrap();
    // Where a hypervisor takes some of the CPU, and the kernel leaves that out of what counts against the limit, the share takes longer to be
    // used up, by as much as a bare loop beside it takes longer than its CPU time.
    let stretched = before.max(stretch());
    // That changes from one moment to the next: there the bound is half as tight.
    let part = if stretched < 1.1 { 0.5 } else { 0.25 };
    let least = part * (1.0 - 0.3 * stretched).max(0.0) / 0.7;
    let throttled_share = did["throttled_ns"].as_u64().unwrap() as f64 / wall_ns as f64;
    assert!(throttled_share > least, "{throttled_share} and not {least}, a loop is stretched by {stretched}: {answer}");

    let group = "g=$(sed -n 's/.*cpu[^:]*:\\(.*evenkeel-[0-9]*\\)$/\\1/p' /proc/self/cgroup | head -1)";
    let script = format!(
        "{group}; test -n \"$g\" || exit 5; sleep 0.5; cat /sys/fs/cgroup/cpu*$g/cpu.cfs_quota_us 2>/dev/null || echo -1"
    );
    let seen = scene.run(&["quantum", "--by", "quota", "--seconds", "0.2", "--", "sh", "-c", &script]);
    if seen.code != 5 {
        assert!(seen.stdout.starts_with("-1\n"), "{seen:?}");
    }
}

#[test]
fn a_signal_ends_command_and_disturbance() {
    let scene = Scene::new();
    for kind in KINDS {
        let sleeper = ["sh", "-c", "trap 'exit 9' TERM; sleep 1000 & wait"];
        let mut child =
            scene.command(&around(kind, &sleeper)).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let since = Instant::now();
        while !scene.processes().iter().any(|(_, line)| line.trim_end() == "sleep 1000") {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            assert!(since.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(5));
        }
        let started = child.try_wait().unwrap().is_none();
        if started {
            kill(&child, "-TERM");
        }
        for (pid, line) in scene.processes() {
            // The command's own child is the command's to end; a limit's group takes it along.
            if line.trim_end() == "sleep 1000" && started {
                child.wait().unwrap();
                let _ = Command::new("kill").arg(pid.to_string()).stderr(Stdio::null()).status();
            }
        }
        let seen = Seen::from(child.wait_with_output().unwrap());
        if seen.is_skipped() {
            continue;
        }
        assert_eq!(seen.code, 9, "{kind:?}: {seen:?}");
        assert!(seen.stderr.contains("ended by a signal"), "{seen:?}");
        scene.assert_nothing_is_left();
    }
}

#[test]
fn sigkill_in_the_middle_leaves_nothing() {
    let scene = Scene::new();
    for kind in KINDS {
        let mut child = scene.command(&around(kind, &["sleep", "1001"])).stderr(Stdio::null()).spawn().unwrap();
        let since = Instant::now();
        while child.try_wait().unwrap().is_none()
            && !scene.processes().iter().any(|(_, line)| line.trim_end() == "sleep 1001")
        {
            assert!(since.elapsed() < LIMIT, "{kind:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        if child.try_wait().unwrap().is_some() {
            println!("skipped: {kind:?}");
            continue;
        }
        kill(&child, "-KILL");
        child.wait().unwrap();
        scene.assert_nothing_is_left();
    }
}

/// Also what the command started itself, and that which no longer belongs to it.
#[test]
fn a_limits_group_goes_with_all_that_is_in_it() {
    let scene = Scene::new();
    for signal in ["-KILL", "-TERM"] {
        let line = ["quantum", "--by", "quota", "--", "sh", "-c", "setsid sleep 1002 & sleep 1003"];
        let mut child = scene.command(&line).stderr(Stdio::piped()).spawn().unwrap();
        let since = Instant::now();
        while groups().len() == scene.groups_before.len() && child.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < LIMIT, "it makes no group, and does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        if child.try_wait().unwrap().is_some() {
            println!("skipped: {:?}", Seen::from(child.wait_with_output().unwrap()));
            return;
        }
        scene.await_process("sleep 1002");
        scene.await_process("sleep 1003");
        assert_eq!(groups().len(), scene.groups_before.len() + 1);
        kill(&child, signal);
        child.wait().unwrap();
        scene.assert_nothing_is_left();
    }
}

#[test]
fn what_can_not_be_done_is_refused_with_its_reason() {
    let scene = Scene::new();
    let table: [(&str, i32, &str); 22] = [
        ("quantum --share 1", 2, "leave 1 of each period: a share over 0 and under 1 is wanted"),
        ("quantum --share 0", 2, "a share over 0 and under 1 is wanted"),
        ("quantum --by quota --share 1 -- true", 2, "a share over 0 and under 1 is wanted"),
        ("quantum --by quota --share 0.05 -- true", 2, "the kernel takes no quota under 1 ms; choose a longer period"),
        ("quantum --by quota", 2, "it needs the command to limit"),
        ("quantum --by quota --phase-ms 1 -- true", 2, "are a thief's"),
        ("quantum --cpus 4000", 2, "disturb CPU 4000: this machine has CPU"),
        ("quantum --period-ms 0.1", 2, "is not between 0.2 ms and 1 s"),
        ("quantum --by quota --cpus 4000 -- true", 2, "disturb CPU 4000"),
        ("spinner --cpus 4000", 2, "disturb CPU 4000"),
        ("spinner --cpus 0-x", 2, "a list of CPUs is wanted"),
        ("spinner --busy 1", 2, "without one it is busy all the time"),
        ("spinner --seconds 90000", 2, "0.01 to 14400 s are wanted"),
        ("spinner --threads 100000", 2, "not between 1 and 1024"),
        (
            "spinner --seconds 1 -- evenkeel-no-such-program",
            2,
            "run evenkeel-no-such-program: no such file or directory",
        ),
        ("sibling --cpus 0 --working-set-mib 10000000", 4, "of which half may be taken"),
        ("storm --to 192.0.2.1:9", 2, "a storm stays on this machine"),
        ("storm --rate 0", 2, "1 to 2000000 are wanted"),
        ("storm --by timers --rate 1000000", 2, "1 to 50000 are wanted"),
        ("storm --by wakes --size 5", 2, "only packets have an address and a size"),
        ("memory --leave-mib 1", 2, "or the machine may run out of memory"),
        ("memory --leave-mib 16000000 -- true", 4, "are left already"),
    ];
    for (line, code, words) in table {
        let seen = scene.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(seen.code, code, "{line}: {seen:?}");
        assert!(seen.stderr.starts_with("evenkeel: failed to ") && seen.stderr.contains(words), "{line}: {seen:?}");
    }
    let host = scene.run(&["spinner", "--host", "captured.txt"]);
    assert_eq!(host.code, 4, "{host:?}");
    assert!(host.stderr.contains("disturb captured.txt: nothing can be disturbed in a captured machine"), "{host:?}");
}

#[test]
fn a_process_with_no_cpu_left_there_is_told_so() {
    let scene = Scene::new();
    let cpus = evenkeel_sys::thread::affinity().unwrap();
    let (Some(first), Some(last)) = (cpus.first(), cpus.iter().last().filter(|_| cpus.len() > 1)) else {
        println!("skipped: it takes two CPUs");
        return;
    };
    let last = last.to_string();
    for line in [vec!["spinner", "--cpus", &last], vec!["quantum", "--cpus", &last], vec!["storm", "--by", "wakes"]] {
        let mut command = scene.command(&line);
        evenkeel_sys::process::run_on(&mut command, &[first].into_iter().collect()).unwrap();
        let seen = Seen::from(command.output().unwrap());
        assert_eq!(seen.code, 4, "{seen:?}");
        let words = [format!("may run on CPU {first} only"), "may run on no other".to_owned()];
        assert!(words.iter().any(|words| seen.stderr.contains(words.as_str())), "{seen:?}");
    }
}

#[test]
fn who_has_no_rights_is_told_so_and_has_the_rest() {
    if !evenkeel_sys::process::is_root() {
        println!("skipped: it takes root to become another user");
        return;
    }
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("evenkeel");
    fs::copy(env!("CARGO_BIN_EXE_evenkeel"), &program).unwrap();
    let table = [
        ("quantum --seconds 0.1", 3, "make the thief real-time: operation not permitted (EPERM)"),
        ("quantum --by quota -- true", 3, "make the control group /sys/fs/cgroup"),
        ("spinner --nice -5 --seconds 0.1", 3, "run with nice -5: permission denied (EACCES)"),
        ("spinner --seconds 0.1", 0, ""),
        ("storm --by timers --seconds 0.1", 0, ""),
        ("memory --mib 16 --leave-mib 128 --seconds 0.1", 0, ""),
    ];
    for (line, code, words) in table {
        let seen = as_nobody(&scene, &program, line);
        assert_eq!(seen.code, code, "{line}: {seen:?}");
        assert!(seen.stderr.contains(words), "{line}: {seen:?}");
    }
    scene.assert_nothing_is_left();
}

fn as_nobody(scene: &Scene, program: &Path, line: &str) -> Seen {
    let mut command = Command::new(program);
    command.arg("disturb").args(line.split(' ')).env(MARK, &scene.mark).current_dir("/").uid(NOBODY).gid(NOBODY);
    loop {
        match command.output() {
            // The copy is still open for writing in a child that another test has forked and that has not yet executed.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            output => return output.unwrap().into(),
        }
    }
}

/// The guard by itself: nothing is changed while its pipe is open, and everything is put back when that closes.
#[test]
fn a_guard_puts_values_back_when_its_pipe_closes() {
    let scene = Scene::new();
    let mut sleeper = Command::new("sleep").arg("1004").env(MARK, &scene.mark).spawn().unwrap();
    let file = format!("/proc/{}/oom_score_adj", sleeper.id());
    let mut guard = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let mut guard =
        guard.arg("guard").env(MARK, &scene.mark).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = guard.stdin.take().unwrap();
    writeln!(line, "restore {file} 700\nrestore {file} 800\nrestore /etc/nothing 1").unwrap();
    let mut answers = BufReader::new(guard.stdout.take().unwrap()).lines();
    assert_eq!([answers.next(), answers.next()].map(|answer| answer.unwrap().unwrap()), ["ok", "ok"]);
    assert!(answers.next().unwrap().unwrap().starts_with("no: only files below"));
    let now = || fs::read_to_string(&file).unwrap().trim().to_owned();
    assert_ne!(now(), "700");
    drop(line);
    assert!(guard.wait().unwrap().success());
    assert_eq!(now(), "700", "the last change is undone first");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    scene.assert_nothing_is_left();
}
