//! Runs the installed programs that read the written files: systemd, udev, shellcheck, procps.
//! Each test records what it skips.

use std::path::Path;
use std::process::{Command, Output};

use evenkeel_sys::CpuSet;
use evenkeel_testkit::skipped;

use super::*;

/// The output and exit code of a program. If the program is not installed, records a skip and returns `None`.
fn run(program: &str, arguments: &[&str], env: &[(&str, &Path)]) -> Option<Output> {
    match Command::new(program).args(arguments).envs(env.iter().copied()).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped(format_args!("{program} did not start: {error}"));
            None
        }
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Every file that the recipes write for a machine with all devices.
fn everything(name: &str) -> PersistPlan {
    let facts = host(name);
    let context = PersistContext { program: Some("/bin/true"), ..context(&facts) };
    let mut settings: Vec<Setting> =
        knobs::ALL.iter().map(|knob| Setting { knob, place: None, value: some_value(&knob.values) }).collect();
    let placed =
        ["irq.affinity@29=1", "net.rps_cpus@ens5/rx-1=0-1", "net.channels@ens5=1", "process.sched_policy=fifo"];
    settings.extend(placed.iter().map(|text| Setting::parse(text).unwrap()));
    plan(&context, &settings)
}

/// Writes the files of a plan below a folder.
fn write(plan: &PersistPlan, root: &Path) {
    for file in &plan.files {
        let path = root.join(file.path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match &file.content {
            Content::Whole { text, .. } => std::fs::write(path, text).unwrap(),
            Content::Link { target } => std::os::unix::fs::symlink(target, path).unwrap(),
            Content::Block { lines } => std::fs::write(path, lines).unwrap(),
            Content::KernelArguments { .. } => {}
        }
    }
}

#[test]
fn shells_and_shellcheck_take_the_script() {
    let dir = tempfile::tempdir().unwrap();
    let all = everything("debian-12");
    let texts = [script_text(&all).to_owned()].into_iter().chain(
        [&["thp.enabled=never"][..], &["irq.affinity=0"], &["disk.scheduler=none"]].map(|texts| {
            let facts = host("debian-12");
            script_text(&plan(&context(&facts), &settings(texts))).to_owned()
        }),
    );
    for text in texts {
        let path = dir.path().join("settings.sh");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        for shell in ["sh", "dash", "bash"] {
            if let Some(output) = run(shell, &["-n", path], &[]) {
                assert!(output.status.success(), "{shell}: {}", said(&output));
            }
        }
        if let Some(output) = run("shellcheck", &["--shell=sh", "--severity=style", path], &[]) {
            assert!(output.status.success(), "{}", said(&output));
        }
    }
}

#[test]
fn systemd_takes_the_units() {
    let dir = tempfile::tempdir().unwrap();
    let plan = everything("debian-12");
    write(&plan, dir.path());
    let units = dir.path().join("etc/systemd/system");
    std::fs::write(units.join("game.service"), "[Service]\nExecStart=/bin/true\n").unwrap();
    let names: Vec<String> = plan
        .files
        .iter()
        .filter(|file| matches!(file.content, Content::Whole { .. }))
        .filter_map(|file| file.path.strip_prefix("/etc/systemd/system/"))
        .filter(|name| !name.contains('/'))
        .map(|name| units.join(name).to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    // The folders in which systemd searches for units.
    // The last colon adds the system's folders, which have the targets.
    let path = format!("{}:", units.display());
    let game = units.join("game.service");
    let mut arguments = vec!["verify", "--man=no", game.to_str().unwrap()];
    arguments.extend(names.iter().map(String::as_str));
    let Some(output) = run("systemd-analyze", &arguments, &[("SYSTEMD_UNIT_PATH", Path::new(&path))]) else { return };
    // Ignore problems in other units of this machine.
    let own = |line: &&str| line.contains("evenkeel") || line.contains("game");
    let as_text = said(&output);
    let as_text: Vec<&str> = as_text.lines().filter(own).collect();
    assert!(as_text.is_empty(), "{as_text:#?}");
    // Check that the tool finds a real error. Otherwise an empty output above would prove nothing.
    let drop_in = units.join("game.service.d/90-evenkeel.conf");
    let text = std::fs::read_to_string(&drop_in).unwrap();
    std::fs::write(&drop_in, text.replace("TimerSlackNSec=", "TimerSlackNSex=")).unwrap();
    let Some(output) = run("systemd-analyze", &arguments, &[("SYSTEMD_UNIT_PATH", Path::new(&path))]) else { return };
    assert!(said(&output).contains("TimerSlackNSex"), "{}", said(&output));
}

#[test]
fn systemd_takes_the_drop_ins_of_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let facts = host("debian-12");
    for lines in [UnitLines::ControlGroup, UnitLines::Process] {
        let session = SessionUnit {
            unit: "arena@3.service".parse().unwrap(),
            cpus: CpuSet::parse_list("0-1,3").unwrap(),
            node: Some(0),
            cpu_weight: Some(200),
        };
        let (_, plan) = session_units(&facts, lines, &[session]).unwrap();
        write(&plan, dir.path());
        let units = dir.path().join("etc/systemd/system");
        std::fs::write(units.join("arena@.service"), "[Service]\nExecStart=/bin/true\n").unwrap();
        let path = format!("{}:", units.display());
        let arena = units.join("arena@3.service");
        let arguments = ["verify", "--man=no", arena.to_str().unwrap()];
        let verify = || run("systemd-analyze", &arguments, &[("SYSTEMD_UNIT_PATH", Path::new(&path))]);
        let Some(output) = verify() else { return };
        let own =
            |text: &str| text.lines().filter(|line| line.contains("arena")).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(own(&said(&output)), [""; 0]);
        // Check that the tool finds a real error. Otherwise an empty output above would prove nothing.
        let drop_in = units.join("arena@3.service.d/91-evenkeel-pack.conf");
        let text = std::fs::read_to_string(&drop_in).unwrap();
        std::fs::write(&drop_in, text.replace("0-1,3", "0-x")).unwrap();
        let Some(output) = verify() else { return };
        assert!(!own(&said(&output)).is_empty(), "{}", said(&output));
    }
}

/// Compares the drop-in with the reader of the facts, which follows systemd's rules.
/// Do not use `sysctl --dry-run`: procps still opens the kernel's files for writing.
#[test]
fn readers_of_sysctl_files_read_the_drop_in() {
    let plan = everything("debian-12");
    let Some(Content::Whole { text, .. }) = file(&plan, "/etc/sysctl.d/90-evenkeel.conf").map(|file| &file.content)
    else {
        panic!("{}", to_text(&plan));
    };
    let lines: String = text.lines().map(|line| format!("| {line}\n")).collect();
    let dirs = ["/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];
    let dirs = dirs.map(|dir| format!("{dir}/ :! ENOENT\n")).concat();
    let more = format!("{dirs}/etc/sysctl.d/ : 90-evenkeel.conf\n/etc/sysctl.d/90-evenkeel.conf =\n{lines}");
    let facts = host_with("debian-12", &more);
    let read = &facts.owners.sysctl_files.known().unwrap().read[0];
    let settings: Vec<(String, Option<String>)> =
        read.settings.known().unwrap().iter().map(|setting| (setting.key.clone(), setting.value.clone())).collect();
    let keys = knobs::ALL.iter().filter_map(|knob| match knob.place {
        Place::File { path, .. } => Some((path.strip_prefix("/proc/sys/")?, some_value(&knob.values))),
        _ => None,
    });
    // The kernel resets these keys when it gets the number of bytes, which comes later.
    let is_reset = |key: &str| ["vm/dirty_ratio", "vm/dirty_background_ratio"].contains(&key);
    let wanted: Vec<(String, Option<String>)> =
        keys.filter(|(key, _)| !is_reset(key)).map(|(key, value)| (key.to_owned(), Some(value))).collect();
    assert_eq!(settings, wanted);
    assert!(settings.len() > 20);
}

/// udev reads `.link` files when it sets up an interface.
/// The `udevadm` test of that builtin reads all files, and warns of unknown keys.
#[test]
fn udev_takes_the_link_files() {
    let mut keys: Vec<String> = Vec::new();
    for name in DISTRIBUTIONS {
        for file in everything(name).files.iter().filter(|file| file.path.contains("/systemd/network/")) {
            let Content::Whole { text, .. } = &file.content else { continue };
            keys.extend(text.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| format!("{key}=")));
        }
    }
    keys.sort();
    keys.dedup();
    let known = [
        "AlternativeNamesPolicy=",
        "CombinedChannels=",
        "Driver=",
        "MACAddressPolicy=",
        "NamePolicy=",
        "Property=",
        "RxBufferSize=",
        "RxCoalesceSec=",
        "UseAdaptiveRxCoalesce=",
    ];
    assert_eq!(keys, known);
    // The manual page of the installed systemd names each key.
    let Some(output) = run("man", &["--pager=cat", "5", "systemd.link"], &[]) else { return };
    if !output.status.success() {
        skipped("systemd.link(5) is not installed");
        return;
    }
    let page = said(&output);
    for key in keys {
        assert!(page.contains(&key), "{key} is not in systemd.link(5)");
    }
}
