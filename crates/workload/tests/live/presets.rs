//! Live checks of the real servers: each server starts, is measured, and is gone afterwards.
//! The checks also cover the error if a server ends or hangs during a window.
//! A server that is not installed is recorded as not judged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use evenkeel_sys::{CpuSet, thread};
use evenkeel_testkit::fitness::one_of_by;
use evenkeel_testkit::{HostLock, live};
use evenkeel_workload::{Options, Placement, find};
use evenkeel_workload::{Sample, Workload, WorkloadError};

use crate::unfit;

const SETTLE: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(300);

fn options(players: Option<u32>, set: &[(&str, &str)]) -> Options {
    let set: BTreeMap<_, _> = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Options {
        programs: PathBuf::new(),
        seed: 1,
        players,
        placement: Placement::Free,
        command: Vec::new(),
        set,
        stop: Default::default(),
        tick_function: None,
        simulated: Default::default(),
    }
}

/// Starts a preset. If its program is not installed, records this as not judged and returns `None`.
fn start(name: &str, options: &Options) -> Option<Box<dyn Workload>> {
    match (find(name).unwrap().start)(options) {
        Ok(workload) => Some(workload),
        Err(WorkloadError::Start { why, .. }) if why.starts_with("it is not installed") => {
            live::not_judged(format_args!("{name}: {why}"));
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn send_signal(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// One check for each server, because any server may be missing.
macro_rules! checks {
    ($check:ident: $($name:ident = $of:expr),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                let _host = HostLock::take();
                $check($of);
            }
        )+
    };
}

checks! { starts_is_measured_and_is_gone:
    memcached_starts_is_measured_and_is_gone = "memcached",
    redis_starts_is_measured_and_is_gone = "redis",
    nginx_starts_is_measured_and_is_gone = "nginx",
    mosquitto_starts_is_measured_and_is_gone = "mosquitto",
}

fn starts_is_measured_and_is_gone(name: &str) {
    for set in [&[][..], &[("rate", "500")]] {
        let Some(mut workload) = start(name, &options(Some(2), set)) else { return };
        let mut begun = 0;
        let sample = workload.window(SETTLE, WINDOW, &mut || begun += 1).unwrap();
        assert_eq!(begun, 1, "{name}");
        for metric in workload.metrics() {
            let value = sample.get(metric.name.as_ref());
            assert!(value.is_some_and(|value| *value > 0.0), "{name}: {} is {value:?} of {sample:?}", metric.name);
        }
        assert!(sample.get("miss_share").is_none_or(|share| *share == 0.0), "{name}: {sample:?}");
        if !set.is_empty() {
            let due = sample["due_per_s"];
            // In a third of the windows, a Poisson process with a mean of 150 deviates by more than 12.
            assert!((250.0..750.0).contains(&due), "{name}: {due}");
        }
        let described = workload.describe();
        assert!(described.starts_with(&format!("{name} (")) && described.contains("2 connections"), "{described}");
        // After a restart there is a new server, and the old server is gone. New connections go to the new server.
        let first = workload.pids();
        workload.restart().unwrap();
        let second = workload.pids();
        assert!(first.iter().all(|pid| !is_alive(*pid)) && first != second, "{name}");
        workload.reopen().unwrap();
        assert_eq!(workload.pids(), second, "{name}");
        workload.window(Duration::ZERO, WINDOW, &mut || {}).unwrap();
        workload.stop();
        assert!(second.iter().all(|pid| !is_alive(*pid)), "{name}");
    }
}

/// The affinity of each thread of a process.
fn cpus_of(pid: u32) -> Vec<CpuSet> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let threads = tasks.map(|task| task.unwrap().file_name().to_string_lossy().parse().unwrap());
    threads.map(|tid| thread::affinity_of(tid).unwrap()).collect()
}

checks! { is_moved_while_it_runs_and_put_back:
    memcached_is_moved_while_it_runs_and_put_back = "memcached",
    redis_is_moved_while_it_runs_and_put_back = "redis",
    nginx_is_moved_while_it_runs_and_put_back = "nginx",
    mosquitto_is_moved_while_it_runs_and_put_back = "mosquitto",
    openarena_is_moved_while_it_runs_and_put_back = "openarena",
    ddnet_is_moved_while_it_runs_and_put_back = "ddnet",
}

/// Server and load are moved to other CPUs while they run, and back again.
fn is_moved_while_it_runs_and_put_back(name: &str) {
    let ours = thread::affinity().unwrap();
    let Some(mut workload) = start(name, &options(None, &[])) else { return };
    let pid = workload.pids()[0];
    let before = cpus_of(pid);
    assert!(before.iter().all(|cpus| *cpus == ours), "{name}: {before:?}");
    for (value, expected) in [("together", Placement::Together.cpus().0), ("apart", Placement::Apart.cpus().0)] {
        assert_eq!(workload.set_process("workload.placement", Some(value)).unwrap(), value, "{name}");
        let expected = if expected.is_empty() { &ours } else { &expected };
        assert!(cpus_of(pid).iter().all(|cpus| cpus == expected), "{name} {value}: {:?}", cpus_of(pid));
        workload.window(Duration::ZERO, WINDOW, &mut || {}).unwrap();
    }
    assert!(workload.set_process("workload.placement", Some("elsewhere")).is_err(), "{name}");
    assert_eq!(workload.set_process("workload.placement", None).unwrap(), "free", "{name}");
    assert_eq!(cpus_of(pid), before, "{name}");
    workload.stop();
}

type Game = (&'static str, Option<u32>, &'static [(&'static str, &'static str)]);

checks! { plays_and_is_gone:
    ddnet_alone_plays_and_is_gone = ("ddnet", Some(0), &[]),
    ddnet_with_players_plays_and_is_gone = ("ddnet", Some(4), &[]),
    openarena_plays_and_is_gone = ("openarena", None, &[("fps", "40")]),
}

fn plays_and_is_gone((name, players, set): Game) {
    let Some(mut workload) = start(name, &options(players, set)) else { return };
    let pids = workload.pids();
    let mut sample = Sample::new();
    // openarena has bots and ticks every 25 ms.
    one_of_by(
        4,
        || {
            sample = workload.window(SETTLE, 3 * WINDOW, &mut || {}).unwrap();
            let interval_us = sample.get("tick_interval_us_p50");
            let is_near = interval_us.is_none_or(|us| name != "openarena" || (24_000.0..26_000.0).contains(us));
            // The window has 45 ticks, and each tick is counted once.
            let came = sample.get("snapshots_share").is_none_or(|share| (0.4..=1.0).contains(share));
            if is_near && came { Ok(()) } else { Err(format!("{sample:?}")) }
        },
        unfit,
    );
    assert!(sample["cpu_share"] >= 0.0 && sample["cpu_share"] < 2.0, "{name}: {sample:?}");
    if players == Some(4) {
        for metric in ["round_trip_us_p50", "round_trip_us_p99", "snapshot_lateness_us_p99", "load_cpu_share"] {
            assert!(sample[metric] > 0.0, "{metric}: {sample:?}");
        }
        let described = workload.describe();
        assert!(described.contains("4 players with an input and a ping in each"), "{described}");
    }
    let error = workload.window(SETTLE, WINDOW, &mut || send_signal(pids[0], "-KILL")).unwrap_err().to_string();
    assert!(error.starts_with(&format!("measure {name}: it ended (signal: 9 (SIGKILL))")), "{error}");
    workload.restart().unwrap();
    let pids = workload.pids();
    workload.window(SETTLE, WINDOW, &mut || {}).unwrap();
    workload.stop();
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{name}");
}

type Asked = (&'static str, u32, &'static [(&'static str, &'static str)]);

checks! { sizes_and_keys_are_as_asked:
    memcached_takes_sizes_and_keys_of_etc = (
        "memcached",
        3,
        &[("value-bytes", "etc"), ("key-bytes", "etc"), ("popularity", "zipf:0.99"), ("get-percent", "50")],
    ),
    memcached_takes_great_values = (
        "memcached",
        3,
        &[("value-bytes", "100000-400000"), ("keys", "50"), ("threads", "2"), ("get-percent", "60")],
    ),
    redis_takes_values_of_all_sizes = ("redis", 3, &[("value-bytes", "0-60000"), ("keys", "100")]),
    nginx_takes_files_of_all_sizes = ("nginx", 3, &[("file-bytes", "0-200000"), ("files", "20")]),
    mosquitto_takes_messages_of_all_sizes = ("mosquitto", 2, &[("message-bytes", "1-30000")]),
}

fn sizes_and_keys_are_as_asked((name, connections, set): Asked) {
    let Some(mut workload) = start(name, &options(Some(connections), set)) else { return };
    let sample = workload.window(SETTLE, WINDOW, &mut || {}).unwrap();
    assert!(
        sample["requests"] > 10.0 && sample.get("miss_share").is_none_or(|share| *share == 0.0),
        "{name}: {sample:?}"
    );
    workload.stop();
}

#[test]
fn a_dead_server_and_a_hung_server_are_distinguished_and_restarted() {
    let _host = HostLock::take();
    let Some(mut workload) = start("memcached", &options(Some(1), &[])) else { return };
    let fails = |workload: &mut Box<dyn Workload>, signal: &str| {
        let pid = workload.pids()[0];
        let begun = Instant::now();
        let error = workload.window(SETTLE, Duration::from_secs(30), &mut || send_signal(pid, signal)).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(15), "it does not wait for the end of the window");
        error.to_string()
    };
    let died = fails(&mut workload, "-KILL");
    assert!(
        died.starts_with("measure memcached: it ended (signal: 9 (SIGKILL)); its clients got: it closed"),
        "{died}"
    );
    workload.restart().unwrap();
    workload.window(SETTLE, WINDOW, &mut || {}).unwrap();
    let hung = fails(&mut workload, "-STOP");
    let expected = "measure memcached: it has not answered a request for 5 s; its process is stopped";
    assert!(hung.starts_with(expected), "{hung}");
    let pid = workload.pids()[0];
    workload.stop();
    assert!(!is_alive(pid), "a stopped server is ended too");
}
