//! Tests `evenkeel script` on the machine that runs the tests. The script must change the kernel as `apply` does.
//! A second run must change nothing. Its undo must restore everything.
//! The test needs root, and otherwise prints that it is skipped.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};

use evenkeel_hostfs::Root;
use evenkeel_sys::process;

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const MIN_FREE: &str = "/proc/sys/vm/min_free_kbytes";
const HALTPOLL: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";

/// The original values.
/// Dropping this restores them in this order, because a write to one of the files changes the value of the last.
struct Before {
    _host: File,
    texts: BTreeMap<usize, (&'static str, String)>,
}

impl Before {
    fn read(paths: &[&'static str]) -> Before {
        // All tests that change this host lock the same file.
        let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock")).unwrap();
        host.lock().unwrap();
        let text = |path: &&'static str| Some((*path, std::fs::read_to_string(path).ok()?));
        Before { _host: host, texts: paths.iter().filter_map(text).enumerate().collect() }
    }

    fn assert_as_before(&self) {
        for (path, text) in self.texts.values() {
            assert_eq!(std::fs::read_to_string(path).unwrap(), *text, "{path}");
        }
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        for (path, text) in self.texts.values() {
            let now = std::fs::read_to_string(path).unwrap_or_default();
            let value =
                text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(word, _)| word);
            if now != *text {
                let written = Root::live().writer().unwrap().write(path, value);
                eprintln!("{path} was not put back; it is now: {written:?}");
            }
        }
    }
}

fn script(folder: &Path, settings: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let output = command.arg("script").args(settings).args(["--output", "it.sh"]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn sh(folder: &Path, script: &str) -> Output {
    Command::new("sh").arg(script).current_dir(folder).env("EVENKEEL_UNDO", folder.join("undo")).output().unwrap()
}

#[track_caller]
fn well(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_script_changes_the_running_kernel_and_its_undo_changes_it_back() {
    if !process::is_root() {
        eprintln!("SKIPPED: a script on the running kernel: it needs root");
        return;
    }
    let before = Before::read(&[SWAPPINESS, HALTPOLL, THP, MIN_FREE]);
    let had = |path: &str| std::fs::read_to_string(path).ok();
    let mut settings = Vec::new();
    let other =
        |path: &str, one: &str| had(path).is_some_and(|text| text.trim() == one || text.contains(&format!("[{one}]")));
    if had(SWAPPINESS).is_some() {
        settings.push(if other(SWAPPINESS, "11") { "vm.swappiness=12" } else { "vm.swappiness=11" });
    }
    if had(HALTPOLL).is_some() {
        let one = "haltpoll.guest_halt_poll_ns=1000";
        settings.push(if other(HALTPOLL, "1000") { "haltpoll.guest_halt_poll_ns=2000" } else { one });
    }
    if had(THP).is_some() {
        settings.push(if other(THP, "never") { "thp.enabled=madvise" } else { "thp.enabled=never" });
    }
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), &settings);
    let first = sh(folder.path(), "it.sh");
    if first.status.code() == Some(4) {
        eprintln!("SKIPPED: this kernel refuses the changes: {}", String::from_utf8_lossy(&first.stderr));
        return;
    }
    let said = well(&first);
    assert_eq!(said.lines().filter(|line| line.starts_with("set: ")).count(), settings.len(), "{said}");
    for (setting, path) in settings.iter().zip([SWAPPINESS, HALTPOLL, THP].iter().filter(|path| had(path).is_some())) {
        let value = setting.split_once('=').unwrap().1;
        assert!(other(path, value), "{setting}: {:?}", had(path));
    }
    let again = well(&sh(folder.path(), "it.sh"));
    assert!(again.ends_with("evenkeel: nothing to change\n"), "{again}");
    let undo = std::fs::read_dir(folder.path().join("undo")).unwrap().next().unwrap().unwrap().path().join("undo.sh");
    let undone = well(&sh(folder.path(), undo.to_str().unwrap()));
    assert!(undone.ends_with("evenkeel: everything is as it was\n"), "{undone}");
    before.assert_as_before();
    assert!(!undo.exists());
}

#[test]
fn a_value_that_the_kernel_does_not_take_undoes_the_others() {
    if !process::is_root() {
        eprintln!("SKIPPED: a script that fails on the running kernel: it needs root");
        return;
    }
    let before = Before::read(&[SWAPPINESS]);
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), &["vm.swappiness=13"]);
    let text = std::fs::read_to_string(folder.path().join("it.sh")).unwrap();
    let more = "set_value plain /proc/sys/vm/swappiness 13\nset_value plain /proc/sys/vm/swappiness 100000";
    let text = text.replace("set_value plain /proc/sys/vm/swappiness 13", more);
    std::fs::write(folder.path().join("it.sh"), text).unwrap();
    let output = sh(folder.path(), "it.sh");
    assert!(matches!(output.status.code(), Some(4 | 5)), "{output:?}");
    before.assert_as_before();
}
