//! Compares the report of `watch` about a busy process and the host with independent tools,
//! which measure the same seconds.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_sys::clock;
use evenkeel_testkit::fitness::{self, Needs};
use evenkeel_testkit::live;
use serde_json::Value;

use crate::scene::Scene;

/// How long the tools measure, and how far their results may differ.
/// The tools start one after the other, so their windows differ by some hundredths of a second.
const SECONDS: u64 = 6;
const OFF_MAX: f64 = 0.1;
const TRIES: usize = 3;

/// A thread that uses about a third of a CPU, and sends some hundred datagrams per second to itself.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    port: u16,
}

impl Load {
    fn start() -> Load {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let body = move || {
            let mut bytes = [0; 64];
            while !ended.load(Ordering::Relaxed) {
                let until_ns = clock::monotonic_ns() + 1_500_000;
                while clock::monotonic_ns() < until_ns {
                    std::hint::spin_loop();
                }
                let _ = socket.send_to(&bytes, ("127.0.0.1", port));
                let _ = socket.recv(&mut bytes);
                std::thread::sleep(Duration::from_millis(3));
            }
        };
        Load { stop, thread: Some(std::thread::spawn(body)), port }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Starts a tool. Prints a message and returns `None` if the tool is not installed.
fn tool(program: &str, arguments: &[&str], package: &str) -> Option<std::process::Child> {
    let started = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .env("S_TIME_FORMAT", "ISO")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    if started.is_err() {
        live::not_judged(format!("{program} is not installed (Debian: {package})"));
    }
    started.ok()
}

fn text(child: std::process::Child) -> String {
    String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned()
}

/// The number in this column of the last line that contains `Average:` and this word.
fn average(text: &str, word: &str, column: &str) -> Option<f64> {
    let header: Vec<&str> = text.lines().find(|line| line.contains(column))?.split_whitespace().collect();
    let line: Vec<&str> =
        text.lines().rfind(|line| line.starts_with("Average:") && line.contains(word))?.split_whitespace().collect();
    // Count columns from the right: the last columns are aligned, whatever the first ones contain.
    let from_end = header.len() - header.iter().position(|name| *name == column)?;
    line.get(line.len().checked_sub(from_end)?)?.parse().ok()
}

fn near(what: &str, ours: f64, theirs: f64, floor: f64) -> Result<(), String> {
    println!("{what}: {ours:.3} by evenkeel, {theirs:.3} by the tool");
    match (ours - theirs).abs() <= (theirs.abs() * OFF_MAX).max(floor) {
        true => Ok(()),
        false => Err(format!("{what}: {ours:.3} by evenkeel, {theirs:.3} by the tool")),
    }
}

fn compared() -> Result<(), String> {
    let scene = Scene::new();
    let load = Load::start();
    std::thread::sleep(Duration::from_millis(500));
    let (pid, seconds) = (std::process::id().to_string(), SECONDS.to_string());
    let nstat_before = tool("nstat", &["-asz", "UdpInDatagrams"], "iproute2").map(text);
    let pidstat = tool("pidstat", &["-u", "-p", &pid, &seconds, "1"], "sysstat");
    let sar = tool("sar", &["-u", &seconds, "1"], "sysstat");
    let seen =
        scene.command(&format!("watch --once --json --interval {SECONDS}s --no-find --pid {pid}")).output().unwrap();
    let nstat_after = tool("nstat", &["-asz", "UdpInDatagrams"], "iproute2").map(text);
    let model: Value = serde_json::from_slice(&seen.stdout).map_err(|error| error.to_string())?;
    let own = Value::from(std::process::id());
    let server = model["servers"].as_array().and_then(|all| all.iter().find(|one| one["pid"] == own)).cloned();
    let server = server.ok_or_else(|| format!("no such server: {model}"))?;
    let number = |value: &Value| value.as_f64().ok_or_else(|| format!("not known: {value}"));
    if let Some(theirs) = pidstat.map(text).and_then(|text| average(&text, &pid, "%CPU")) {
        near("CPU of the process", number(&server["cpu"])?, theirs / 100.0, 0.02)?;
    }
    if let Some(theirs) = sar.map(text).and_then(|text| average(&text, "all", "%idle")) {
        near("idle time", number(&model["host"]["all"]["idle"])?, theirs / 100.0, 0.03)?;
    }
    let count = |text: &Option<String>| -> Option<f64> {
        text.as_ref()?
            .lines()
            .find_map(|line| line.strip_prefix("UdpInDatagrams")?.split_whitespace().next()?.parse().ok())
    };
    if let Some((before, after)) = count(&nstat_before).zip(count(&nstat_after)) {
        near("received datagrams", number(&model["host"]["udp"]["in_per_s"])?, (after - before) / SECONDS as f64, 2.0)?;
    }
    if let Some(text) = tool("ss", &["-Huanp"], "iproute2").map(text) {
        let is_there = text.lines().any(|line| line.contains(&format!(":{} ", load.port)));
        let ports = server["udp"]["ports"].as_array().cloned().unwrap_or_default();
        if is_there != ports.contains(&load.port.into()) {
            return Err(format!("port {}: listed by ss: {is_there}; ports listed by evenkeel: {ports:?}", load.port));
        }
    }
    Ok(())
}

#[test]
fn watch_agrees_with_other_tools() {
    fitness::one_of(TRIES, &Needs::on_last_cpu(), compared);
}
