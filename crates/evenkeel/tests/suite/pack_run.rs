//! Tests `pack run` on this machine:
//! sessions that it starts on their CPUs and ends, and processes that it places and puts back.
//! Also tests it after a signal, and after a kill.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use evenkeel_sys::{CpuSet, foreign_process, process, thread};
use serde_json::Value;

use crate::support::{Scene, Seen};

/// A command line that works on every machine: two sessions that need little CPU time.
const LINE: &str = "pack run sessions.csv --system-cpus 0 --interrupt-cpus share --load-max 1 --cpu-sets one";

/// A server that writes its arguments and its CPUs into a file, and then continues to run.
const SERVER: &str = "echo $1 $2 > new-$1\n\
    while read line; do case $line in Cpus_allowed_list*) echo \"$line\" >> new-$1;; esac; done < /proc/self/status\n\
    echo $$ >> new-$1\n/bin/mv new-$1 out-$1\nexec /bin/sleep 600\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("sessions.csv", "session,count,cpus\narena,2,0.01\n");
    scene.write("server.sh", SERVER);
    scene
}

/// Waits for a condition. The time limit only detects a hang.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn spawn(scene: &Scene, line: &str) -> Child {
    scene.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A process that may use the same CPUs as this process.
fn sleeper() -> Child {
    let mut command = Command::new("/bin/sleep");
    command.arg("600").stdin(Stdio::null());
    process::die_with_parent(&mut command).spawn().unwrap()
}

fn signal(child: &Child, signal: &str) {
    foreign_process::signal_if(child.id(), foreign_process::Signal::of_name(signal).unwrap(), || true).unwrap();
}

fn end(child: Child) -> Seen {
    child.wait_with_output().unwrap().into()
}

/// Starts `pack run` with two servers. Returns their process numbers, each with its CPUs.
fn servers(scene: &Scene, line: &str) -> (Child, Vec<(u32, CpuSet)>) {
    let child = spawn(scene, line);
    let texts: Vec<String> = (0..2)
        .map(|number| {
            let file = format!("out-{number}");
            wait_until("a server starts", || scene.path(&file).exists());
            scene.read(&file)
        })
        .collect();
    let of = |(number, text): (usize, &String)| {
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("{number} {}", 27100 + number));
        let cpus = CpuSet::parse_list(lines[1].rsplit(['\t', ' ']).next().unwrap()).unwrap();
        (lines[2].parse().unwrap(), cpus)
    };
    (child, texts.iter().enumerate().map(of).collect())
}

fn is_there(pid: u32) -> bool {
    evenkeel_hostfs::proc::ProcessStat::read(pid).is_some_and(|stat| stat.is_alive())
}

#[test]
fn sessions_run_on_their_cpus_and_end_with_ctrl_c() {
    let scene = scene();
    let (child, servers) = servers(&scene, &format!("--json {LINE} -- /bin/sh server.sh {{session}} {{port}}"));
    signal(&child, "INT");
    let seen = end(child);
    let answer: Value = serde_json::from_str(&seen.stdout).unwrap_or_else(|error| panic!("{error}: {seen}"));
    crate::schemas::check(LINE, &answer);
    assert_eq!((seen.code, &answer["ended"]), (0, &"stopped".into()), "{seen}");
    for ((pid, cpus), session) in servers.iter().zip(answer["sessions"].as_array().unwrap()) {
        assert!(!is_there(*pid));
        assert_eq!((&session["pid"], &session["cpus"]), (&(*pid).into(), &cpus.to_string().into()));
        assert!(cpus.len() == 1 && session["used_cpus"].is_number() && session["ended"].is_null(), "{session}");
    }
}

#[test]
fn sessions_end_when_evenkeel_is_killed() {
    let scene = scene();
    let (child, servers) = servers(&scene, &format!("{LINE} -- /bin/sh server.sh {{session}} {{port}}"));
    signal(&child, "KILL");
    end(child);
    wait_until("the servers end", || servers.iter().all(|(pid, _)| !is_there(*pid)));
}

#[test]
fn a_session_that_fails_is_named_and_the_run_ends_with_the_last() {
    let scene = scene();
    let seen = scene.run(&format!("{LINE} -- /bin/sh none.sh {{session}}"));
    assert!(seen.code == 1 && seen.stdout.contains("none.sh") && seen.stdout.contains("unknown"), "{seen}");
    let (code, answer) = scene.json(&format!("{LINE} --time 1ms -- /bin/sh server.sh {{session}} {{port}}"));
    assert_eq!((code, &answer["ended"]), (0, &"time".into()));
}

#[test]
fn processes_that_run_are_placed_and_put_back() {
    let scene = scene();
    for how in ["TERM", "KILL"] {
        let sleepers = [sleeper(), sleeper()];
        let before = thread::affinity_of(sleepers[0].id()).unwrap();
        let pids = sleepers.each_ref().map(|one| one.id());
        // On a machine with one CPU, the test can't see that a process was placed.
        // It can only see that the process is as before.
        let child = spawn(&scene, &format!("{LINE} --pid {},{}", pids[0], pids[1]));
        let has_one = |pid: &u32| thread::affinity_of(*pid).unwrap().len() == 1;
        wait_until("both are placed", || pids.iter().all(has_one));
        signal(&child, how);
        let seen = end(child);
        assert!(how == "KILL" || seen.code == 0 || before.len() == 1, "{seen}");
        wait_until("both are as before", || pids.iter().all(|pid| thread::affinity_of(*pid).unwrap() == before));
        for mut one in sleepers {
            one.kill().unwrap();
            one.wait().unwrap();
        }
    }
}

#[test]
fn what_can_not_run_is_named() {
    let scene = scene();
    let (one, mut gone) = (sleeper(), sleeper());
    gone.kill().unwrap();
    gone.wait().unwrap();
    let before = thread::affinity_of(one.id()).unwrap();
    let cases = [
        (format!("{LINE} --pid {}", one.id()), 2, "--pid names 1 for 2 sessions".to_owned()),
        (format!("{LINE} --pid {0},{0}", one.id()), 2, format!("process {} is named twice", one.id())),
        (
            format!("{LINE} --pid {},{}", one.id(), gone.id()),
            2,
            format!("place process {}: it does not run", gone.id()),
        ),
        (format!("{LINE} -- ./none"), 4, "none".to_owned()),
        (format!("{LINE} --first-port 65535 -- ./none {{port}}"), 2, "there is no port 65536".to_owned()),
        (LINE.to_owned(), 2, "--pid".to_owned()),
    ];
    for (line, code, expected) in cases {
        let seen = scene.run(&line);
        assert!(seen.code == code && seen.stderr.contains(&expected), "{line}: {seen}");
    }
    // evenkeel placed the first process before it noticed that the second process was missing.
    assert_eq!(thread::affinity_of(one.id()).unwrap(), before);
    let mut one = one;
    one.kill().unwrap();
    one.wait().unwrap();
    scene.write("sessions.csv", "cpus,count\n0.9,9999\n");
    let seen = scene.run(&format!("{LINE} -- ./none"));
    assert!(seen.code == 1 && seen.stderr.contains("of the sessions have no place"), "{seen}");
}
