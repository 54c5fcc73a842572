//! Reads the machine that runs the tests, and never changes it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use evenkeel_testkit::needs_root;

use crate::support::{Scene, Seen};

/// How often to repeat a comparison if the machine changes during the test,
/// for example because a CPU goes offline or memory is added.
const ATTEMPTS: usize = 5;

const NOBODY: u32 = 65534;

#[test]
fn a_capture_has_the_facts_of_the_machine() {
    let scene = Scene::new();
    let is_same = || {
        assert_eq!(scene.run("capture --output live.txt").code, 0);
        scene.run("inspect --json").stdout == scene.run("inspect --json --host live.txt").stdout
            && scene.run("audit --json").stdout == scene.run("audit --json --host live.txt").stdout
    };
    assert!((0..ATTEMPTS).any(|_| is_same()));
    let taken = scene.read("live.txt");
    assert!(taken.starts_with("evenkeel-capture 1\n# taken by evenkeel "), "{taken}");
}

/// In a container with its own network, the kernel shows the settings of the container's network,
/// even below the host's mounted /proc.
#[test]
fn settings_of_another_network_are_not_those_of_the_host() {
    if needs_root("a network namespace") {
        return;
    }
    let scene = Scene::new();
    let value = |network: &[&str]| {
        let mut command = Command::new(network[0]);
        command.args(&network[1..]).arg(env!("CARGO_BIN_EXE_evenkeel"));
        let seen =
            Seen::from(command.args(["inspect", "--root", "/", "--all"]).current_dir(scene.path("")).output().unwrap());
        let words: Vec<&str> = seen.stdout.split_whitespace().collect();
        (seen.code, words.join(" "))
    };
    let (code, own) = value(&["unshare", "--net"]);
    assert!(code == 0 && own.contains("net/core/busy_poll: that of this container's own network"), "{own}");
    let (code, hosts) = value(&["env"]);
    assert!(code == 0 && !hosts.contains("own network"), "{hosts}");
}

/// Neither `PATH` nor another environment variable changes the facts.
#[test]
fn the_environment_does_not_matter() {
    let scene = Scene::new();
    let with_all = || {
        let mut command = scene.command("inspect --json");
        Seen::from(command.envs(std::env::vars()).output().unwrap()).stdout
    };
    assert!((0..ATTEMPTS).any(|_| with_all() == scene.run("inspect --json").stdout));
}

/// Reading a host must start no other program, because that would be slow and would depend on installed programs.
#[test]
fn no_source_that_reads_a_host_can_start_a_program() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for dir in ["sys/src", "hostfs/src", "host/src", "evenkeel/src/show"] {
        collect(&crates.join(dir), &mut sources);
    }
    let commands = ["inspect", "capture", "audit", "explain"];
    sources.extend(commands.map(|name| crates.join(format!("evenkeel/src/commands/{name}.rs"))));
    // Skip the files that may start programs, for trials and their servers, and for recordings.
    sources.retain(|path| !path.ends_with("sys/src/process.rs") && !path.ends_with("sys/src/suspended_child.rs"));
    assert!(sources.len() > 40, "{sources:?}");
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for word in ["process::Command", "Command::new(", "posix_spawn", "fork("] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

fn collect(dir: &Path, sources: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
}

#[test]
fn borrowed_rights_are_refused() {
    let Some((scene, program)) = as_root("to make a set-user-ID copy of the program") else { return };
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    for line in ["revert", "inspect --host host.txt"] {
        let seen = as_nobody(&scene, &program, line);
        assert!(seen.code == 4 && seen.stderr.contains("set-user-ID"), "{line}: {seen}");
    }
}

#[test]
fn without_rights_to_the_journal_the_error_says_so() {
    let Some((scene, program)) = as_root("to become another user") else { return };
    let seen = as_nobody(&scene, &program, "apply vm.swappiness=10 --host host.txt --state state");
    assert!(seen.code == 3 && seen.stderr.contains("state: permission denied (EACCES)"), "{seen}");
    assert!(seen.stderr.contains("--state DIR"), "{seen}");
    let homeless = as_nobody(&scene, &program, "history");
    assert!(homeless.code == 2 && homeless.stderr.contains("name one with --state DIR"), "{homeless}");
}

fn as_nobody(scene: &Scene, program: &Path, line: &str) -> Seen {
    let mut command = Command::new(program);
    command.args(line.split(' ')).current_dir(scene.path("")).env_clear().uid(NOBODY).gid(NOBODY);
    loop {
        match command.output() {
            // Another test's forked child may have the copy open for writing until the child calls exec.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            output => return output.unwrap().into(),
        }
    }
}

/// A scene that other users can read, with a copy of the program.
/// Prints a skip and returns `None` if the test does not run as root.
fn as_root(why: &str) -> Option<(Scene, std::path::PathBuf)> {
    if !evenkeel_sys::process::is_root() {
        eprintln!("skipped: it takes root {why}");
        return None;
    }
    let scene = Scene::new();
    fs::set_permissions(scene.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let program = scene.path("evenkeel");
    fs::copy(env!("CARGO_BIN_EXE_evenkeel"), &program).unwrap();
    Some((scene, program))
}
