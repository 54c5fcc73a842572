//! Tests output to closed pipes, to full disks, and to terminals without colours.

use std::fs::File;
use std::process::Stdio;

use crate::support::{Scene, Seen};

#[test]
fn a_reader_that_has_gone_is_no_error() {
    for line in ["inspect --host host.txt", "audit --host host.txt --json", "--help", "explain"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let seen: Seen = Scene::new()
            .command(line)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap()
            .into();
        assert_eq!((seen.code, seen.stderr.as_str()), (0, ""), "{line}");
    }
}

#[test]
fn an_answer_that_can_not_be_written_is_an_error() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let pages = [
        "inspect --host host.txt",
        "capture --host host.txt",
        "inspect --host host.txt --json",
        "--help",
        "--version",
        "help",
        "profile --help",
        "help profile record",
        "man",
        "man profile record",
        "completions bash",
        "completions zsh --json",
        "explain",
        "prove workloads",
    ];
    for line in pages {
        let seen: Seen = Scene::new().command(line).stdout(full()).stderr(Stdio::piped()).output().unwrap().into();
        assert_eq!(seen.code, 4, "{line}: {seen}");
        assert!(seen.stderr.contains("standard output: no space left on device (ENOSPC)"), "{line}: {seen}");
    }
}

/// Regression: the message was "not possible here", although evenkeel had changed everything.
#[test]
fn a_change_whose_answer_can_not_be_written_says_that_it_is_made() {
    let scene = Scene::new();
    std::fs::create_dir_all(scene.path("root/etc/sysctl.d")).unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = scene.command("image root vm.swappiness=10");
    let seen: Seen = command.stdout(full).stderr(Stdio::piped()).output().unwrap().into();
    assert_eq!(seen.code, 6, "{seen}");
    assert!(seen.stderr.contains("the change is made all the same; undo it: evenkeel image --undo root"), "{seen}");
    assert!(scene.path("root/etc/sysctl.d/90-evenkeel.conf").exists());
    assert_eq!(scene.run("image --undo root").code, 0);
    assert!(!scene.path("root/etc/sysctl.d/90-evenkeel.conf").exists());
}

#[test]
fn closed_streams_harm_nothing() {
    let scene = Scene::new();
    for streams in [">&-", "2>&-", ">&- 2>&- <&-"] {
        let script = format!("exec \"$0\" inspect --host host.txt {streams}");
        let status = std::process::Command::new("/bin/sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_evenkeel")])
            .current_dir(scene.path(""))
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{streams}");
    }
}

#[test]
fn colours_are_for_terminals_and_for_who_asks() {
    let scene = Scene::new();
    let has_colours = |line: &str, environment: &[(&str, &str)]| {
        let output = scene.command(line).envs(environment.iter().copied()).output().unwrap();
        Seen::from(output).stdout.contains('\x1b')
    };
    assert!(!has_colours("audit --host host.txt", &[]), "a pipe is not a terminal");
    assert!(has_colours("audit --host host.txt --color always", &[]));
    assert!(has_colours("audit --host host.txt --color always", &[("NO_COLOR", "1")]), "the argument is nearer");
    assert!(!has_colours("audit --host host.txt --color never", &[("CLICOLOR_FORCE", "1")]));
    assert!(has_colours("audit --host host.txt", &[("CLICOLOR_FORCE", "1")]));
    assert!(!has_colours("audit --host host.txt --json --color always", &[]), "JSON has none");
}
