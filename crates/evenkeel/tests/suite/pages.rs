//! Compares the output of the reading commands for one captured machine, as text and as JSON, and their help.

use std::path::Path;

use expect_test::{ExpectFile, expect_file};

use crate::support::Scene;

/// The maximum width of a page, in columns. Lines with commands to copy may be longer.
const COLUMNS: usize = 80;

/// The maximum number of lines of a page without `--all`.
const SUMMARY_LINES_MAX: usize = 15;

fn check(line: &str, expected: ExpectFile) {
    expected.assert_eq(&Scene::new().run(line).to_string());
}

#[test]
fn pages_of_a_captured_machine() {
    check("inspect --host host.txt", expect_file!["snapshots/inspect-summary.txt"]);
    check("inspect --all --host host.txt", expect_file!["snapshots/inspect.txt"]);
    check("inspect --host host.txt --json", expect_file!["snapshots/inspect.json"]);
    check("inspect --host host.txt --counters", expect_file!["snapshots/inspect-counters.txt"]);
    check("audit --host host.txt", expect_file!["snapshots/audit-summary.txt"]);
    check("audit --all --host host.txt", expect_file!["snapshots/audit.txt"]);
    check("audit --host host.txt --goal density --json", expect_file!["snapshots/audit.json"]);
    check("audit --host host.txt --md", expect_file!["snapshots/audit.md"]);
    check("audit --host host.txt --sarif", expect_file!["snapshots/audit.sarif"]);
    check("explain", expect_file!["snapshots/explain.txt"]);
    check("explain thp.enabled --host host.txt", expect_file!["snapshots/explain-knob.txt"]);
    check("explain thp.enabled --host host.txt --json", expect_file!["snapshots/explain-knob.json"]);
}

/// If the cloud is unknown, the reason must be more than a missing path.
#[test]
fn a_machine_without_a_vendor_has_an_unknown_cloud() {
    let scene = Scene::new();
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hosts/firecracker-2vcpu-6.18.txt");
    for all in ["", "--all"] {
        let page = scene.run(&format!("inspect {all} --host {}", host.display())).stdout;
        let row = page.lines().find(|line| line.trim_start().starts_with("cloud ")).unwrap();
        assert!(row.ends_with("  unknown (the firmware names no vendor)"), "{row}");
    }
}

/// The option only adds counters to the answer. The capture also contains the files that `explain` reads.
#[test]
fn counters_are_shown_on_request() {
    let scene = Scene::new();
    let (_, without) = scene.json("inspect --host host.txt");
    let (_, with) = scene.json("inspect --host host.txt --counters");
    assert!(without.get("counters").is_none() && without["facts"].get("counters").is_none());
    assert_eq!(with["facts"], without["facts"]);
    assert_eq!(with["counters"]["udp"]["rcvbuf_errors"], 12);
    assert_eq!(with["counters"]["nics"][0]["losses"]["pps_allowance_exceeded"], 7);
    let explained = scene.run("explain net.core.rmem_max --host host.txt").stdout;
    assert!(explained.contains("RcvbufErrors in /proc/net/snmp: 12"), "{explained}");
}

#[test]
fn help_of_every_command() {
    let scene = Scene::new();
    let help = scene.run("--help").stdout;
    let mut all = help.clone();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // The name of a command begins in the third column.
    // The continued lines of a description begin further to the right.
    let names = commands.lines().filter(|line| line.chars().nth(2).is_some_and(|letter| letter != ' '));
    for name in names.map(|line| line.split_whitespace().next().unwrap()).filter(|name| *name != "help") {
        let seen = scene.run(&format!("{name} --help"));
        assert_eq!(seen.code, 0, "{name}: {seen}");
        all.push_str(&format!("\n==== evenkeel {name} --help\n{}", seen.stdout));
    }
    expect_file!["snapshots/help.txt"].assert_eq(&all);
}

/// Every captured machine of the collection, and the machine in [`HOST`](crate::support::HOST).
pub(crate) fn hosts() -> Vec<(String, String)> {
    let mut hosts = vec![("host.txt".to_owned(), crate::support::HOST.to_owned())];
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../hosts")).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            hosts.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    hosts
}

#[test]
fn every_captured_machine_reads_well() {
    let scene = Scene::new();
    for (name, text) in hosts() {
        scene.write("host.txt", &text);
        for line in [
            "inspect",
            "inspect --all",
            "audit",
            "audit --all",
            "audit --all --goal throughput",
            "audit --all --goal density",
            "apply --advised --plan-only",
        ] {
            let seen = scene.run(&format!("{line} --host host.txt"));
            assert_eq!((seen.code, seen.stderr.as_str()), (0, ""), "{name}: {line}: {seen}");
            for long in seen.stdout.lines().filter(|text| text.chars().count() > COLUMNS) {
                let is_command = long.trim_start().starts_with("evenkeel ") || long.starts_with(char::is_alphanumeric);
                assert!(is_command, "{name}: {line}: {long:?}");
            }
            if ["inspect", "audit"].contains(&line) {
                assert!(seen.stdout.lines().count() <= SUMMARY_LINES_MAX, "{name}: {line}: {seen}");
            }
            scene.json(&format!("{line} --host host.txt"));
        }
    }
}

#[test]
fn a_capture_of_a_capture_is_the_same() {
    let scene = Scene::new();
    for (name, text) in hosts() {
        scene.write("host.txt", &text);
        assert_eq!(scene.run("capture --host host.txt --output again.txt").code, 0, "{name}");
        let inspect = |file| scene.run(&format!("inspect --json --host {file}")).stdout;
        assert_eq!(inspect("host.txt"), inspect("again.txt"), "{name}");
        let (_, answer) = scene.json("capture --host again.txt");
        assert_eq!(answer["capture"].as_str().unwrap(), scene.read("again.txt"), "{name}");
    }
}

#[test]
fn the_commands_that_audit_prints_are_understood() {
    let scene = Scene::new();
    let audit = scene.run("audit --all --host host.txt").stdout;
    let commands: Vec<&str> = audit.lines().filter_map(|line| line.strip_prefix("          evenkeel apply ")).collect();
    assert!(commands.len() > 3, "{audit}");
    for setting in commands {
        let seen = scene.run(&format!("apply {setting} --host host.txt"));
        assert_eq!(seen.code, 0, "{setting}: {seen}");
    }
}

#[test]
fn findings_fail_on_request() {
    let scene = Scene::new();
    // A machine without swap, ENA or deep idle states has fewer findings. Some of its facts are missing too.
    scene.write("bare.txt", "evenkeel-capture 1\n/proc/swaps = Filename Type Size Used Priority\nend\n");
    let table =
        [("host.txt", "set", 1), ("host.txt", "unknown", 1), ("bare.txt", "set", 1), ("bare.txt", "unknown", 1)];
    for (host, level, code) in table {
        let seen = scene.run(&format!("audit --host {host} --fail-on {level}"));
        assert_eq!(seen.code, code, "{host} {level}: {seen}");
        assert_eq!(scene.run(&format!("audit --host {host}")).code, 0);
    }
}

#[test]
fn shells_and_manuals_know_the_knobs() {
    let scene = Scene::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = scene.run(&format!("completions {shell}")).stdout;
        assert!(script.contains("fail-on"), "{shell}");
        assert!(!script.contains("subcmd__watchdog"), "{shell} completes a command that no help lists");
        // For other shells, clap_complete does not complete positional arguments.
        let knows_values = ["bash", "zsh"].contains(&shell);
        assert!(!knows_values || script.contains("net.core.busy_poll"), "{shell}");
    }
    let script = scene.run("completions fish").stdout;
    for argument in ["topology", "waivers", "sarif", "md"] {
        assert!(script.contains(&format!("-l {argument} ")), "{argument}");
    }
    // If a shell is installed, it must read its script without errors.
    for shell in ["bash", "zsh", "fish"] {
        scene.write("script", scene.run(&format!("completions {shell}")).stdout);
        match std::process::Command::new(shell).args(["-n", "script"]).current_dir(scene.path("")).status() {
            Ok(status) => assert!(status.success(), "{shell}"),
            Err(_) => eprintln!("skipped: {shell} is not installed"),
        }
    }
    let page = scene.run("man").stdout;
    assert!(
        page.starts_with(".ie")
            && page.contains("evenkeel")
            && page.contains("permission denied: most often it needs root"),
        "{page}"
    );
    let page = scene.run("man audit").stdout;
    assert!(page.contains(".TH evenkeel-audit 1") && page.contains("\\-\\-fail\\-on"), "{page}");
    assert_eq!(scene.run("man nothing").code, 2);
}

/// Each page names its subcommands, so a reader can reach all pages from the first.
#[test]
fn every_command_has_a_manual_page_however_deep() {
    let scene = Scene::new();
    let mut commands = vec![Vec::new()];
    let mut titles = Vec::new();
    while let Some(words) = commands.pop() {
        let seen = scene.run(&format!("man {}", words.join(" ")));
        assert_eq!(seen.code, 0, "{words:?}: {seen}");
        let page = seen.stdout.replace("\\-", "-");
        let title = [vec!["evenkeel".to_owned()], words.clone()].concat().join("-");
        assert!(page.contains(&format!(".TH {title} 1")), "{title}: {page}");
        let below = page.lines().filter_map(|line| line.strip_suffix("(1)")?.strip_prefix(&format!("{title}-")));
        commands.extend(below.map(|name| [words.clone(), vec![name.to_owned()]].concat()));
        titles.push(title);
    }
    for title in ["evenkeel-audit", "evenkeel-profile-record", "evenkeel-profile-ticks", "evenkeel-measure-clock"] {
        assert!(titles.iter().any(|there| there == title), "{title} is not among {titles:?}");
    }
    let page = scene.run("man profile record").stdout;
    assert!(page.contains("\\-\\-switches") && page.contains("perf.data"), "{page}");
    let page = scene.run("man prove").stdout;
    assert!(page.contains("Examples:") && page.contains("Exit codes:"), "{page}");
    let seen = scene.run("man profile nothing");
    assert!(seen.code == 2 && seen.stderr.contains("\"profile nothing\"; `evenkeel profile --help`"), "{seen}");
}

/// Tests `--help` of every command at two widths of a terminal:
/// it is short enough to read, and no line is wider than the terminal.
#[test]
fn help_fits_narrow_and_wide_terminals() {
    let scene = Scene::new();
    let help = |words: &str, columns: &str| {
        let output = scene.command(&format!("{words} --help")).env("COLUMNS", columns).output().unwrap();
        crate::support::Seen::from(output).stdout
    };
    let commands = help("", "80");
    let commands = commands.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names =
        commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let own = [
        "apply",
        "audit",
        "capture",
        "completions",
        "confirm",
        "credits",
        "demo",
        "diff",
        "explain",
        "history",
        "image",
        "inspect",
        "instances",
        "man",
        "pack",
        "plan",
        "regions",
        "revert",
        "script",
        "verify",
        "serve",
        "watch",
    ];
    let names: Vec<&str> = names.filter(|name| own.contains(name)).collect();
    assert_eq!(names.len(), own.len(), "{names:?}");
    for name in names {
        for (columns, lines) in [("60", 100), ("80", 80), ("200", 80)] {
            let text = help(name, columns);
            assert!(text.lines().count() <= lines, "{name} at {columns} columns:\n{text}");
            let is_page =
                |line: &&str| line.chars().count() > columns.parse::<usize>().unwrap() && !line.contains("evenkeel ");
            let long: Vec<&str> = text.lines().filter(is_page).collect();
            assert!(long.is_empty(), "{name} at {columns} columns: {long:?}");
        }
    }
}

/// At every width, the words are the same, no word is split, and an example of several lines is still one command.
#[test]
fn help_of_every_command_breaks_no_word_and_no_option() {
    let scene = Scene::new();
    let help = |words: &[String], columns: usize| {
        let line = format!("{} --help", words.join(" "));
        let output = scene.command(&line).env("COLUMNS", columns.to_string()).output().unwrap();
        crate::support::Seen::from(output).stdout
    };
    let words =
        |text: &str| -> Vec<String> { text.replace(" \\\n", "\n").split_whitespace().map(str::to_owned).collect() };
    let (mut commands, mut seen) = (vec![Vec::new()], 0);
    while let Some(command) = commands.pop() {
        let (narrow, usual, wide) = (help(&command, 60), help(&command, 100), help(&command, 200));
        seen += 1;
        assert_eq!(words(&narrow), words(&wide), "{command:?}");
        assert_eq!(usual, wide, "{command:?}: help is never wider than 100 columns");
        assert!(wide.lines().count() <= 80, "{command:?}: the rest belongs into docs:\n{wide}");
        for (text, columns) in [(&narrow, 60), (&usual, 100)] {
            let lines: Vec<&str> = text.lines().collect();
            for (at, line) in lines.iter().enumerate() {
                let is_whole =
                    line.trim_end_matches(" \\").trim().split(" -").count() <= 2 && line.contains("evenkeel");
                assert!(line.chars().count() <= columns || is_whole, "{command:?} at {columns}: {line:?}");
                // If a line ends with a backslash, the next line continues the command.
                let goes_on = line.ends_with(" \\");
                assert!(!goes_on || lines[at + 1].starts_with("      "), "{command:?} at {columns}: {line:?}");
            }
        }
        let listed = wide.split("Commands:\n").nth(1).map(|text| text.split("\n\n").next().unwrap().to_owned());
        let listed = listed.unwrap_or_default();
        let names = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        for name in names.filter(|name| !name.is_empty() && *name != "help") {
            commands.push([command.clone(), vec![name.to_owned()]].concat());
        }
    }
    assert!(seen > 45, "only {seen} commands");
}
