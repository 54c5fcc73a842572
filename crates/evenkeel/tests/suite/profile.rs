//! Tests `profile view` and `profile diff` with the output of `perf script` and with folded stacks.

use std::io::Write;
use std::process::Stdio;

use expect_test::{ExpectFile, expect_file};
use serde_json::Value;

use crate::support::{Scene, Seen};

/// Two threads on two CPUs, with ten samples of ten milliseconds each.
fn script(update: usize, read: usize) -> String {
    let mut text = String::new();
    let mut sample = |at: usize, who: &str, cpu: usize, frames: &[&str]| {
        text.push_str(&format!("{who} [{cpu:03}] {:.6}:   10000000 cpu-clock:pppH: \n", 5.0 + at as f64 / 100.0));
        frames.iter().for_each(|frame| text.push_str(&format!("\t{frame}\n")));
        text.push('\n');
    };
    for at in 0..update {
        sample(at, "game    10/10   ", 0, &["55d0 world_update+0x10 (/usr/bin/game)", "55c0 main+0x1 (/usr/bin/game)"]);
    }
    for at in update..update + read {
        let frames = ["ffffffff81000010 vfs_read+0x10 ([kernel.kallsyms])", "55c0 main+0x1 (/usr/bin/game)"];
        sample(at, "net     10/11   ", 1, &frames);
    }
    text
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("a.txt", script(6, 4));
    scene.write("b.txt", script(3, 7));
    scene
}

fn check(line: &str, expected: ExpectFile) {
    expected.assert_eq(&scene().run(line).to_string());
}

#[test]
fn pages_of_a_recording_and_of_two() {
    check("profile view a.txt", expect_file!["snapshots/profile-view.txt"]);
    check("profile view a.txt --json", expect_file!["snapshots/profile-view.json"]);
    check("profile diff a.txt b.txt", expect_file!["snapshots/profile-diff.txt"]);
    check("profile diff a.txt b.txt --json --raw", expect_file!["snapshots/profile-diff.json"]);
}

#[test]
fn the_idle_thread_is_idle_time_and_no_work() {
    let scene = scene();
    let mut text = script(6, 4);
    for at in 0..20 {
        let time = 5.0 + f64::from(at) / 200.0;
        text.push_str(&format!("swapper     0/0     [001] {time:.6}:   10000000 cpu-clock:pppH: \n"));
        text.push_str("\tffffffff82000010 pv_native_safe_halt+0x10 ([kernel.kallsyms])\n\n");
    }
    scene.write("idle.txt", text);
    let (_, answer) = scene.json("profile view idle.txt");
    let recording = &answer["recording"];
    assert_eq!((&recording["samples"], &recording["idle_samples"]), (&Value::from(10), &Value::from(20)));
    assert_eq!(
        (&answer["weight"], &answer["functions"][0]["function"]),
        (&Value::from(100_000_000), &Value::from("world_update"))
    );
    let threads: Vec<&Value> = recording["threads"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(threads, ["game", "net"]);
    let cpu = &recording["cpus"][1];
    assert_eq!((&cpu["samples"], &cpu["top_thread"]), (&Value::from(4), &Value::from("net")));
    assert!(cpu["idle_share"].as_f64() > cpu["sampled_share"].as_f64(), "{cpu}");
    let page = scene.run("profile view idle.txt").to_string();
    assert!(page.contains("The busiest thread, game (10)") && !page.contains("swapper"), "{page}");
    assert!(page.contains("20 more samples of the idle thread, which are left out"), "{page}");
    let (_, answer) = scene.json("profile view idle.txt --thread swapper");
    assert_eq!(answer["recording"]["samples"], 20);
}

#[test]
fn a_recording_is_narrowed_by_what_is_in_it() {
    let scene = scene();
    let samples = |options: &str| {
        let (code, answer) = scene.json(&format!("profile view a.txt {options}"));
        (code, answer["recording"]["samples"].clone())
    };
    let table = [
        ("", 10),
        ("--thread net", 4),
        ("--thread net,game", 10),
        ("--pid 10", 10),
        ("--cpu 0", 6),
        ("--from 0.02", 8),
        ("--from 0.02 --to 0.05", 3),
        ("--cpu 1 --to 0.07", 1),
        ("--event cpu-clock", 10),
    ];
    for (options, expected) in table {
        assert_eq!(samples(options), (0, Value::from(expected)), "{options}");
    }
    for options in ["--thread nobody", "--pid 99", "--cpu 7", "--event cycles"] {
        let seen = scene.run(&format!("profile view a.txt {options}"));
        assert_eq!(seen.code, 2, "{options}: {seen}");
        assert!(seen.stderr.contains("the recording has "), "{options}: {seen}");
    }
    let seen = scene.run("profile view a.txt --off-cpu");
    assert!(seen.code == 2 && seen.stderr.contains("no switches"), "{seen}");
}

#[test]
fn files_are_written_by_their_ending_and_over_nothing_unasked() {
    let scene = scene();
    let table = [
        ("profile view a.txt --output x.svg", "x.svg", "<?xml", "world_update (60 ms of CPU, 60.00%)"),
        ("profile view a.txt --output x.html --icicle", "x.html", "<!DOCTYPE html>", "\"direction\":\"icicle\""),
        (
            "profile view a.txt --output x.folded --by cpu",
            "x.folded",
            "CPU 0;game;main;world_update 60000000",
            "vfs_read_[k]",
        ),
        ("profile view a.txt --output x.json", "x.json", "{\"meta\"", "\"preprocessedProfileVersion\":55"),
        ("profile view x.folded --output y.svg", "y.svg", "<?xml", "CPU 0"),
        ("profile diff a.txt b.txt --output d.svg", "d.svg", "<?xml", "vfs_read (70,000 us of CPU, 70.00%; +30.00%)"),
        ("profile diff a.txt b.txt --output d.html", "d.html", "<!DOCTYPE html>", "\"before\":[0"),
        ("profile diff a.txt x.folded --output d.folded --by cpu", "d.folded", "CPU 0", " 60000000 60000000"),
    ];
    for (line, file, begin, inside) in table {
        let seen = scene.run(line);
        assert_eq!(seen.code, 0, "{line}: {seen}");
        let text = scene.read(file);
        assert!(text.starts_with(begin) && text.contains(inside), "{line}: {}", &text[..text.len().min(4000)]);
    }
    let before = scene.read("x.svg");
    let seen = scene.run("profile view b.txt --output x.svg");
    assert!(seen.code == 2 && seen.stderr.contains("--force") && scene.read("x.svg") == before, "{seen}");
    assert_eq!(scene.run("profile view b.txt --output x.svg --force").code, 0);
    assert_ne!(scene.read("x.svg"), before);
    let seen = scene.run("profile view a.txt --output x.png");
    assert!(seen.code == 2 && seen.stderr.contains(".svg, .html, .folded or .json"), "{seen}");
    assert_eq!(scene.run("profile view a.txt --output nowhere/x.svg").code, 2);
    assert_eq!(scene.run("profile diff a.txt b.txt --output d.json").code, 2);
    let left = std::fs::read_dir(scene.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "something was left behind");
}

#[test]
fn an_invalid_recording_is_refused_with_the_position() {
    let scene = scene();
    scene.write("bad.folded", "main;f 3\nmain;g x\n");
    scene.write("empty", "");
    for (file, words) in [("bad.folded", "in line 2"), ("empty", "empty"), ("nowhere", "nowhere")] {
        let seen = scene.run(&format!("profile view {file}"));
        assert!(seen.code == 2 && seen.stderr.contains(words), "{file}: {seen}");
    }
}

/// evenkeel can read a pipe only once, so it must recognize the format from the bytes that it has already read.
#[test]
fn what_comes_through_a_pipe_is_read_as_the_file_is() {
    let scene = scene();
    assert_eq!(scene.run("profile view a.txt --output a.folded").code, 0);
    for file in ["a.txt", "a.folded"] {
        for question in ["view FILE", "diff FILE b.txt", "view FILE --json"] {
            let line = |name: &str| format!("profile {}", question.replace("FILE", name));
            let of_file = scene.run(&line(file));
            let mut piped = scene
                .command(&line("/dev/stdin"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // evenkeel may refuse the input before it has read all of it. Then the write fails.
            let _ = piped.stdin.take().unwrap().write_all(scene.read(file).as_bytes());
            let of_pipe = Seen::from(piped.wait_with_output().unwrap());
            assert_eq!(of_pipe.code, 0, "{question} of {file}: {of_pipe}");
            assert_eq!(of_pipe.stdout.replace("/dev/stdin", file), of_file.stdout, "{question} of {file}");
        }
    }
}

/// An empty table would look as if the process were idle.
#[test]
fn a_missing_process_is_an_error() {
    let scene = scene();
    let no_such = "4194300: there is no such process";
    let table = [
        ("profile switches --pid 4194300 --seconds 1", no_such),
        ("profile switches --pid 4194300,4194301 --seconds 1", "4194300, 4194301: there is no such process"),
        ("profile record --pid 4194300 --seconds 1", no_such),
        ("profile record --pid 4194300 --thread game --seconds 1", no_such),
        ("profile record --pid 4194300 --at tick --seconds 1", no_such),
        ("profile ticks --pid 4194300 --seconds 1", no_such),
        ("profile ticks --pid 4194300 --thread game --seconds 1", no_such),
        ("profile ticks --pid 4194300 --at tick --seconds 1", no_such),
        ("profile switches a.txt --pid 99", "process \"99\" is not in it; the recording has 10"),
    ];
    for (line, words) in table {
        let seen = scene.run(line);
        assert!(seen.code == 2 && seen.stderr.contains(words) && seen.stdout.is_empty(), "{line}: {seen}");
    }
    assert_eq!(scene.run("profile switches a.txt --pid 10").code, 0);
}

#[test]
fn every_question_reports_the_caveats_of_a_recording() {
    let scene = scene();
    let text = scene.read("a.txt");
    scene.write("odd.txt", format!("this is not a sample\n{text}"));
    let wrong = "1 unreadable lines were skipped, the first is line 1";
    let seen = scene.run("profile view odd.txt");
    assert!(seen.code == 0 && seen.stdout.contains(&wrong[1..]), "{seen}");
    let (_, answer) = scene.json("profile view odd.txt");
    assert!(answer["caveats"].as_array().unwrap().contains(&Value::from(wrong)), "{answer}");
    for question in ["diff odd.txt b.txt", "diff b.txt odd.txt", "switches odd.txt", "imbalance odd.txt"] {
        let said = format!("evenkeel: odd.txt: {wrong}\n");
        for line in [format!("profile {question}"), format!("profile {question} --json")] {
            let seen = scene.run(&line);
            assert!(seen.stderr.contains(&said), "{line}: {seen}");
            let right = scene.run(&line.replace("odd", "a"));
            assert!(!right.stderr.contains("skipped"), "{line}: {right}");
        }
    }
}
