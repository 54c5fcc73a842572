//! Tests `fleet prove` with Ansible. Scripts replace Ansible, and the test answers as Prometheus.
//! lab/ansible.sh runs the collection's own playbook on hosts of namespaces.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use serde_json::{Value, json};

use crate::support::HOST;

const ANSIBLE: &str = "#!/bin/sh
echo '[WARNING]: a warning comes first' >&2
echo '  hosts (8):'
for host in 1 2 3 4 5 6 7 8; do echo \"    vm-$host\"; done
";

/// Stores the variables of the last run, and fails while a file `broken` exists.
const PLAYBOOK: &str = "#!/bin/sh
echo \"$@\" >>\"$FLEET/runs\"
[ ! -e \"$FLEET/broken\" ] || { echo 'fatal: [vm-3]: UNREACHABLE!'; exit 4; }
while [ \"$1\" != -e ]; do shift; done
cp \"${2#@}\" \"$FLEET/arms.json\"
";

struct Fleet {
    folder: tempfile::TempDir,
    prometheus: String,
}

impl Fleet {
    fn new() -> Fleet {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for (name, text) in [("ansible", ANSIBLE), ("ansible-playbook", PLAYBOOK)] {
            fs::write(bin.join(name), text).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let host = folder.path().join("host.txt");
        fs::write(&host, HOST).unwrap();
        let plan = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["plan", "vm.swappiness=10", "--output", "goal.json", "--host", "host.txt"])
            .current_dir(folder.path())
            .output();
        assert!(plan.unwrap().status.success());
        let prometheus = serve_numbers(folder.path().join("arms.json"));
        Fleet { folder, prometheus }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn prove(&self, more: &[&str]) -> Output {
        self.run(&[&["--seed", "1"], more].concat())
    }

    fn go_on(&self) -> Output {
        self.run(&["--continue"])
    }

    fn run(&self, more: &[&str]) -> Output {
        let path = std::env::join_paths(
            [self.path("bin")].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["fleet", "prove", "goal.json", "-i", "hosts.ini", "--metric", "x[$window]", "--block", "5ms"])
            .args(["--wash-out", "0s", "--blocks-before", "2", "--prometheus", &self.prometheus])
            .args(more)
            .current_dir(self.folder.path())
            .env("PATH", path.unwrap())
            .env("FLEET", self.folder.path())
            .output()
            .unwrap()
    }

    /// The hosts that had the goal after the last run of the playbook.
    fn with(&self) -> Vec<String> {
        with(&self.path("arms.json"))
    }
}

fn with(arms: &Path) -> Vec<String> {
    let arms: Value = serde_json::from_str(&fs::read_to_string(arms).unwrap()).unwrap();
    arms["evenkeel_with"].as_array().unwrap().iter().map(|host| host.as_str().unwrap().to_owned()).collect()
}

/// Answers as Prometheus does: hosts with the goal have four fifths of their number, plus a little noise.
fn serve_numbers(arms: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (query, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                match stream.read(&mut byte) {
                    Ok(1) => head.push(byte[0]),
                    _ => break,
                }
            }
            // The trial asks the guard before the first switch.
            let with = if arms.exists() { with(&arms) } else { Vec::new() };
            let is_guard = head.starts_with(b"GET /api/v1/query?query=guard");
            let sample = |host: usize| {
                let name = format!("vm-{host}");
                let noise = 1.0 + ((query * 31 + host * 17) % 13) as f64 / 1000.0;
                let value = (100 + host) as f64 * noise * if with.contains(&name) { 0.8 } else { 1.0 };
                json!({ "metric": { "instance": format!("{name}:9100") }, "value": [0, value.to_string()] })
            };
            // The guard also names a host without the goal. The trial must not touch that host.
            let samples: Vec<Value> = match is_guard {
                true => [3, 4].map(sample).into_iter().collect(),
                false => (1..=8).map(sample).collect(),
            };
            let answer =
                json!({ "status": "success", "data": { "resultType": "vector", "result": samples } }).to_string();
            let length = answer.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}");
        }
    });
    address
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn ansible_switches_the_hosts_of_a_trial() {
    let fleet = Fleet::new();
    let proved = fleet.prove(&["--json"]);
    assert_eq!(proved.status.code(), Some(0), "{}", text(&proved));
    let answer: Value = serde_json::from_slice(&proved.stdout).unwrap();
    assert_eq!((answer["verdict"].as_str(), answer["hosts"].as_u64()), (Some("better"), Some(8)), "{answer}");
    let ratio = answer["ratio"].as_f64().unwrap();
    assert!((0.78..0.82).contains(&ratio), "{ratio}");
    assert!(fleet.with().is_empty(), "every host put the goal back");
    let runs = fs::read_to_string(fleet.path("runs")).unwrap();
    assert!(runs.lines().all(|run| run.ends_with(" evenkeel.host.arm")), "{runs}");
    // The playbook runs once before the trial, once for each block, and once at the end.
    assert_eq!(runs.lines().count() as u64, answer["blocks"].as_u64().unwrap() + 2, "{runs}");
}

#[test]
fn a_guard_ends_the_goal_on_the_hosts_that_it_names() {
    let fleet = Fleet::new();
    let proved = fleet.prove(&["--json", "--guard", "guard"]);
    assert_eq!(proved.status.code(), Some(0), "{}", text(&proved));
    let answer: Value = serde_json::from_slice(&proved.stdout).unwrap();
    let hosts = answer["caveats"][0]["hosts"].clone();
    assert_eq!(answer["caveats"][0]["caveat"], "guard-stopped", "{answer}");
    assert!(hosts == json!(["vm-3"]) || hosts == json!(["vm-4"]) || hosts == json!(["vm-3", "vm-4"]), "{answer}");
    assert_eq!(answer["verdict"], "better", "the other pairs decide: {answer}");
    let log = fs::read_to_string(fleet.path("fleet-goal.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = lines.iter().position(|line| line["record"] == "stopped").unwrap();
    let stopped = lines[first]["host"].as_str().unwrap();
    let later = lines[first..].iter().filter(|line| line["record"] == "block");
    assert!(later.clone().count() > 0, "{log}");
    for block in later {
        assert!(block["numbers"].get(stopped).is_none(), "{stopped} has left: {block}");
    }
    assert!(fleet.with().is_empty());
    // A different guard means a different trial.
    assert_eq!(fleet.go_on().status.code(), Some(2));
}

#[test]
fn a_playbook_that_fails_ends_the_trial_and_is_continued_later() {
    let fleet = Fleet::new();
    fs::write(fleet.path("broken"), "").unwrap();
    let failed = fleet.prove(&[]);
    let message = text(&failed);
    assert_eq!(failed.status.code(), Some(6), "it could not put the goal back: {message}");
    assert!(message.contains("put the goal back on all hosts: ansible-playbook -i hosts.ini -e "), "{message}");
    let output = fs::read_to_string(fleet.path("fleet-goal.ansible.log")).unwrap();
    assert!(output.contains("fatal: [vm-3]: UNREACHABLE!"), "{output}");

    fs::remove_file(fleet.path("broken")).unwrap();
    let again = fleet.prove(&[]);
    assert_eq!(again.status.code(), Some(2), "the log is there: {}", text(&again));
    let goal = fs::read_to_string(fleet.path("goal.json")).unwrap();
    fs::write(fleet.path("goal.json"), goal.replace("swappiness=10", "swappiness=20")).unwrap();
    let another = fleet.go_on();
    assert!(
        text(&another).contains("was changed since the trial began") && another.status.code() == Some(2),
        "{}",
        text(&another)
    );
    fs::write(fleet.path("goal.json"), goal).unwrap();
    let whole = fleet.go_on();
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole));
    assert!(text(&whole).contains("goal.json: better"), "{}", text(&whole));
    assert!(fleet.with().is_empty());
}

#[test]
fn what_is_missing_is_named() {
    let fleet = Fleet::new();
    for name in ["ansible", "ansible-playbook"] {
        fs::write(fleet.path("bin").join(name), "#!/bin/sh\nexit 1\n").unwrap();
    }
    let none = fleet.prove(&[]);
    assert_eq!(none.status.code(), Some(4), "{}", text(&none));
    assert!(text(&none).contains("fleet-goal.ansible.log has what it printed"), "{}", text(&none));
    fs::write(fleet.path("goal.json"), "{}").unwrap();
    let no_goal = fleet.prove(&[]);
    assert_eq!(no_goal.status.code(), Some(2), "{}", text(&no_goal));
}
