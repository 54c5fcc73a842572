//! Tests `evenkeel disturb` from the user's side: exit codes, output streams, the time limit.
//! It leaves nothing behind, however it ends.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_testkit::{needs_root, skipped};
use serde_json::Value;

use crate::schemas;
use crate::wait::until;

const NOBODY: u32 = 65534;

/// Folders that every user can read. The program can't find programs in other folders.
const PATH: &str = "/usr/bin:/bin";

/// An environment variable of every process that a test starts. Only this test uses its value.
/// All descendants inherit the variable.
const MARK: &str = "EVENKEEL_TEST_OF_DISTURB";

/// Runs the program. All processes of a scene have the same mark.
struct Scene {
    mark: String,
}

impl Scene {
    fn new() -> Scene {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Scene { mark: format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)) }
    }

    fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.arg("disturb").args(line).env(MARK, &self.mark).env("PATH", PATH).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &[&str]) -> Seen {
        self.end(self.start(line))
    }

    fn start(&self, line: &[&str]) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for the end of a run. Fails if the run leaves anything behind.
    fn end(&self, run: Child) -> Seen {
        let pid = run.id();
        let seen = Seen::from(run.wait_with_output().unwrap());
        self.assert_nothing_is_left(pid);
        seen
    }

    /// The processes with this scene's mark, with their command lines.
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

    fn has_process(&self, line: &str) -> bool {
        self.processes().iter().any(|(_, seen)| seen.trim_end() == line)
    }

    /// Fails if a process with this scene's mark, or a control group of this run, is left.
    fn assert_nothing_is_left(&self, run: u32) {
        until(format_args!("nothing is left of a run with the mark {}", self.mark), || {
            groups(run).is_empty() && self.processes().is_empty()
        });
    }
}

/// What a user sees of a run.
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
    /// Whether this user or this kernel does not allow the disturbance. If not, records a skip of the test.
    fn is_skipped(&self) -> bool {
        let is_skipped = [3, 4].contains(&self.code) && self.stderr.starts_with("error: failed to");
        if is_skipped {
            skipped(&self.stderr);
        }
        is_skipped
    }
}

/// The control groups that a run created and that still exist.
fn groups(run: u32) -> Vec<PathBuf> {
    let name = format!("evenkeel-{run}");
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && entry.file_name() == name.as_str() {
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

/// Waits for the line that a command prints when it runs. Returns false if the run ended without this line.
fn is_up(run: &mut Child) -> bool {
    let mut line = String::new();
    BufReader::new(run.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line == "up\n"
}

/// Every kind, with its shortest arguments.
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
        assert!(seen.stderr.contains(&format!("Disturbance: {}", kind[0])), "{seen:?}");
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
        let answer = schemas::parse(&format!("disturb-{}", kind[0]), &seen.stdout);
        assert_eq!(fs::read_to_string(&record).unwrap(), seen.stdout);
        assert_eq!((&answer["format"], &answer["kind"]), (&1.into(), &kind[0].into()), "{answer}");
        assert_eq!((&answer["ended_by"], &answer["command"]["exit_code"]), (&"command".into(), &3.into()));
        assert!(answer["asked"].is_object() && answer["did"].is_object(), "{answer}");
    }
}

/// How long a kind disturbs while a command sleeps twice as long.
/// The test uses the first of these times that works on this machine.
/// If the machine stalls, the command may end first, or the kind may not have started when its time is over.
const SECONDS: [f64; 4] = [0.05, 0.5, 5.0, 25.0];

/// The report of a kind whose time is over before its command ends. `None` if the kind is skipped.
fn timed_with_a_command(scene: &Scene, kind: &[&str]) -> Option<Value> {
    for seconds in SECONDS {
        let (limit, sleep) = (seconds.to_string(), (2.0 * seconds).to_string());
        let timed = [kind, &["--seconds", &limit, "--json"]].concat();
        let seen = scene.run(&around(&timed, &["sleep", &sleep]));
        if seen.code == 4 && seen.stderr.contains("ETIMEDOUT") {
            continue;
        }
        if seen.is_skipped() {
            return None;
        }
        assert_eq!(seen.code, 0, "{timed:?}: {seen:?}");
        let answer = schemas::parse(&format!("disturb-{}", kind[0]), &seen.stdout);
        if answer["ended_by"] == "time" {
            assert_eq!(answer["disturbed_ns"], (seconds * 1e9) as u64, "{timed:?}");
            assert!(answer["command"]["wall_ns"].as_f64().unwrap() > 2e9 * seconds, "{answer}");
            return Some(answer);
        }
    }
    panic!("{kind:?}: the time is never over before the command ends");
}

#[test]
fn the_time_bound_holds_with_and_without_a_command() {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    // Run all kinds at the same time, because they mostly sleep.
    std::thread::scope(|scope| {
        for kind in KINDS {
            let named = std::thread::Builder::new().name(name.clone());
            named.spawn_scoped(scope, || the_time_bound_holds(kind)).unwrap();
        }
    });
}

fn the_time_bound_holds(kind: &[&str]) {
    let scene = Scene::new();
    if timed_with_a_command(&scene, kind).is_none() {
        return;
    }
    let alone = scene.run(&[kind, &["--seconds", "0.05", "--json"]].concat());
    if kind.contains(&"quota") {
        assert_eq!(alone.code, 2, "{alone:?}");
        return;
    }
    assert_eq!(alone.code, 0, "{kind:?}: {alone:?}");
    let alone = schemas::parse(&format!("disturb-{}", kind[0]), &alone.stdout);
    assert_eq!((&alone["ended_by"], &alone["command"]), (&"time".into(), &Value::Null), "{kind:?}");
    assert_eq!(alone["disturbed_ns"], 50_000_000);
}

/// When the time is over, the command itself must see that its limit is gone.
#[test]
fn a_quota_is_lifted_when_its_time_is_over() {
    let script = r#"
        group=$(sed -n 's/.*:\(.*evenkeel-[0-9]*\)$/\1/p' /proc/self/cgroup | head -1)
        test -n "$group" || exit 5
        for look in $(seq 3000); do
            cat /sys/fs/cgroup/cpu*$group/cpu.cfs_quota_us /sys/fs/cgroup$group/cpu.max 2>/dev/null |
                grep -q -e '^-1$' -e '^max ' && echo lifted && exit 0
            sleep 0.01
        done"#;
    let seen = Scene::new().run(&["quantum", "--by", "quota", "--seconds", "0.05", "--", "sh", "-c", script]);
    if !seen.is_skipped() {
        assert_eq!((seen.code, seen.stdout.as_str()), (0, "lifted\n"), "{seen:?}");
        assert!(seen.stderr.contains("ended by the time limit"), "{seen:?}");
    }
}

#[test]
fn a_signal_ends_command_and_disturbance() {
    let scene = Scene::new();
    for kind in KINDS {
        let script = "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done";
        let mut run = scene.start(&around(kind, &["sh", "-c", script]));
        if is_up(&mut run) {
            kill(&run, "-TERM");
        }
        let seen = scene.end(run);
        if seen.is_skipped() {
            continue;
        }
        assert_eq!(seen.code, 9, "{kind:?}: {seen:?}");
        assert!(seen.stderr.contains("ended by a signal"), "{seen:?}");
    }
}

#[test]
fn sigkill_in_the_middle_leaves_nothing() {
    let scene = Scene::new();
    for kind in KINDS {
        let mut run = scene.start(&around(kind, &["sh", "-c", "echo up; exec sleep 1001"]));
        let was_up = is_up(&mut run);
        if was_up {
            kill(&run, "-KILL");
        }
        // The streams close only after the last process of the command has ended.
        let seen = scene.end(run);
        assert!(was_up || seen.is_skipped(), "{kind:?}: {seen:?}");
    }
}

/// If a run is killed, all processes in its limit's control group end.
/// This includes descendants of the command that have left its session.
#[test]
fn a_limits_group_goes_with_all_that_is_in_it() {
    let scene = Scene::new();
    for signal in ["-KILL", "-TERM"] {
        let script = "setsid sleep 1002 & echo up; exec sleep 1003";
        let mut run = scene.start(&["quantum", "--by", "quota", "--", "sh", "-c", script]);
        if !is_up(&mut run) {
            let seen = scene.end(run);
            assert!(seen.is_skipped(), "{seen:?}");
            return;
        }
        until("both commands run", || scene.has_process("sleep 1002") && scene.has_process("sleep 1003"));
        assert_eq!(groups(run.id()).len(), 1);
        kill(&run, signal);
        scene.end(run);
    }
}

#[test]
fn what_can_not_be_done_is_refused_with_its_reason() {
    let scene = Scene::new();
    let table: [(&str, i32, &str); 24] = [
        ("quantum --share 1", 2, "leave 1 of each period: expected a share between 0 and 1"),
        ("quantum --share 0", 2, "expected a share between 0 and 1"),
        ("quantum --by quota --share 1 -- true", 2, "expected a share between 0 and 1"),
        ("quantum --by quota --share 0.05 -- true", 2, "the kernel allows no quota under 1 ms; choose a longer period"),
        ("quantum --by quota", 2, "name the command to limit"),
        ("quantum --by quota --phase-ms 1 -- true", 2, "only to --by rt-hog"),
        ("quantum --cpus 4000", 2, "disturb CPU 4000: this machine has CPU"),
        ("quantum --period-ms 0.1", 2, "is not between 0.2 ms and 1 s"),
        ("quantum --by quota --cpus 4000 -- true", 2, "disturb CPU 4000"),
        ("spinner --cpus 4000", 2, "disturb CPU 4000"),
        ("spinner --cpus 0-x", 2, "expected a list of CPUs"),
        ("spinner --busy 1", 2, "without --busy the threads are always busy"),
        ("spinner --seconds 90000", 2, "expected 0.01 to 14400 s"),
        ("spinner --threads 100000", 2, "not between 1 and 1024"),
        (
            "spinner --seconds 1 -- evenkeel-no-such-program",
            2,
            "run evenkeel-no-such-program: no such file or directory",
        ),
        ("sibling --cpus 0 --working-set-mib 10000000", 4, "of which half may be taken"),
        ("storm --to 192.0.2.1:9", 2, "a storm stays on this machine"),
        ("storm --to 192.0.2.1:9", 2, "this is not one of its addresses"),
        ("storm --peer 192.0.2.1:9", 2, "a private or link-local address"),
        ("storm --rate 0", 2, "expected 1 to 2000000"),
        ("storm --by timers --rate 1000000", 2, "expected 1 to 50000"),
        ("storm --by wakes --size 5", 2, "only to --by packets"),
        ("memory --leave-mib 1", 2, "or the machine may run out of memory"),
        ("memory --leave-mib 16000000 -- true", 4, "are available"),
    ];
    for (line, code, words) in table {
        let seen = scene.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(seen.code, code, "{line}: {seen:?}");
        assert!(seen.stderr.starts_with("error: ") && seen.stderr.contains(words), "{line}: {seen:?}");
    }
    let host = scene.run(&["spinner", "--host", "captured.txt"]);
    assert_eq!(host.code, 4, "{host:?}");
    assert!(host.stderr.contains("disturb captured.txt: a captured machine can't be disturbed"), "{host:?}");
}

#[test]
fn a_process_with_no_cpu_left_is_refused_with_the_reason() {
    let scene = Scene::new();
    let cpus = evenkeel_sys::thread::affinity().unwrap();
    let (Some(first), Some(last)) = (cpus.first(), cpus.iter().last().filter(|_| cpus.len() > 1)) else {
        skipped("a CPU that a process may not use: this process has one");
        return;
    };
    let last = last.to_string();
    for line in [vec!["spinner", "--cpus", &last], vec!["quantum", "--cpus", &last], vec!["storm", "--by", "wakes"]] {
        let mut command = scene.command(&line);
        evenkeel_sys::process::run_on(&mut command, &[first].into_iter().collect()).unwrap();
        let seen = Seen::from(command.output().unwrap());
        assert_eq!(seen.code, 4, "{seen:?}");
        let words = [format!("may run on CPU {first} only"), "may not run on another CPU".to_owned()];
        assert!(words.iter().any(|words| seen.stderr.contains(words.as_str())), "{seen:?}");
    }
}

#[test]
fn without_rights_the_rest_runs_and_the_answer_says_so() {
    if needs_root("to become another user") {
        return;
    }
    let scene = Scene::new();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("evenkeel");
    fs::copy(env!("CARGO_BIN_EXE_evenkeel"), &program).unwrap();
    let table = [
        ("quantum --seconds 0.02", 3, "make the thread real-time: operation not permitted (EPERM)"),
        ("quantum --by quota -- true", 3, "make the control group /sys/fs/cgroup"),
        ("spinner --nice -5 --seconds 0.02", 3, "run with nice -5: permission denied (EACCES)"),
        ("spinner --seconds 0.02", 0, ""),
        ("storm --by timers --seconds 0.02", 0, ""),
        ("memory --mib 16 --leave-mib 128 --seconds 0.02", 0, ""),
    ];
    for (line, code, words) in table {
        let seen = scene.end(start_as_nobody(&scene, &program, line));
        assert_eq!(seen.code, code, "{line}: {seen:?}");
        assert!(seen.stderr.contains(words), "{line}: {seen:?}");
    }
}

fn start_as_nobody(scene: &Scene, program: &Path, line: &str) -> Child {
    let mut command = Command::new(program);
    command.arg("disturb").args(line.split(' ')).env(MARK, &scene.mark).current_dir("/").uid(NOBODY).gid(NOBODY);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    loop {
        match command.spawn() {
            // Another test's forked child may have the copy open for writing until the child calls exec.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            child => return child.unwrap(),
        }
    }
}

/// Tests the guard alone: the guard changes nothing while its pipe is open,
/// and restores everything when the pipe closes.
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
    scene.assert_nothing_is_left(guard.id());
}
