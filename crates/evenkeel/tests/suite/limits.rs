//! Tests values and files of unlimited size. The program cuts long output and marks the cut.
//! It refuses large input before the input uses memory. The program never waits for something that does not come.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fuzz_targets::corpus;
use crate::support::{HOST, Scene, Seen};

/// The time limit that detects a hang. No test here takes nearly as long.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// The captured host, with the lines of these paths replaced.
fn host(changed: &[(&str, &str)]) -> String {
    let line_of = |line: &str| {
        let path = line.split(' ').next().unwrap_or_default().to_owned();
        changed.iter().find(|(changed, _)| *changed == path).map(|(path, rest)| format!("{path} {rest}\n"))
    };
    let mut text: String = HOST.lines().map(|line| line_of(line).unwrap_or_else(|| format!("{line}\n"))).collect();
    let (_, rest) = changed[0];
    assert!(text.contains(rest), "the machine has no line of {}", changed[0].0);
    for (path, rest) in changed.iter().filter(|(path, _)| !HOST.contains(&format!("\n{path} "))) {
        text = text.replace("\nend\n", &format!("\n{path} {rest}\nend\n"));
    }
    text
}

/// A machine whose first program has this name.
fn host_started_by(name: &str) -> String {
    host(&[("/run/systemd/system", "->! ENOENT"), ("/proc/1/comm", &format!("= {name}"))])
}

/// The result of the program. If the program does not end, the test kills it and fails.
fn ended(mut child: Child, line: &str) -> Seen {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > HANGS_AFTER {
            child.kill().unwrap();
            panic!("{line} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap().into()
}

fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Regression: a cell of 65,536 characters or more made `format!` panic.
#[test]
fn a_value_of_any_length_is_shown_and_said_to_be_cut() {
    let scene = Scene::new();
    for length in [65_534, 65_536, 66_000] {
        scene.write("host.txt", host(&[("/proc/sys/vm/swappiness", &format!("= {}", "1".repeat(length)))]));
        for line in
            ["inspect", "audit", "explain vm.swappiness", "plan vm.swappiness=10", "audit --md", "inspect --topology"]
        {
            let seen = scene.run(&format!("{line} --host host.txt"));
            assert_eq!((seen.code, seen.stderr.as_str()), (0, ""), "{line}: {}", seen.stderr);
            assert!(seen.stdout.len() < 400_000, "{line}: {} bytes", seen.stdout.len());
        }
        let shown = scene.run("inspect --all --host host.txt").stdout;
        // The page wraps words.
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("… ({} more characters)", length - 1000)), "{shown}");
        assert!(scene.run("inspect --json --host host.txt").stdout.contains(&"1".repeat(length)), "JSON has all of it");
    }
}

/// Regression: each line of a long word took time in proportion to the rest of the word. 3.9 MB took 15 seconds,
/// and 30 MB took 15 minutes.
#[test]
fn a_long_name_is_wrapped_in_no_time() {
    let scene = Scene::new();
    scene.write("host.txt", host_started_by(&"y".repeat(30 << 20)));
    let line = "inspect --all --host host.txt";
    let child = scene.command(line).stdout(File::create(scene.path("shown")).unwrap()).spawn().unwrap();
    assert_eq!(ended(child, line).code, 0);
    // The page also wraps its note about the rest.
    let shown = scene.read("shown").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("more characters)") && shown.len() < 100_000, "{} bytes", shown.len());
}

/// Control characters of each kind, and all of Unicode's `Bidi_Control`.
/// U+009B begins a control sequence like ESC [, and U+202E reverses the order of the text after it.
const ACTING: &str = "\u{7f}\u{85}\u{9b}2J\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}gnp\u{2066}\u{2067}\u{2068}\u{2069}.exe";

fn assert_none_acts(seen: &Seen, line: &str) {
    let acts = |letter: char| {
        !matches!(letter, '\n' | '\t') && (letter.is_control() || ACTING.contains(letter) && !letter.is_ascii())
    };
    assert!(!seen.stdout.contains(acts) && !seen.stderr.contains(acts), "{line}: {seen}");
}

#[test]
fn no_name_acts_on_a_terminal() {
    let scene = Scene::new();
    let escaped: String = ACTING
        .chars()
        .map(
            |letter| {
                if letter.is_ascii_graphic() { letter.to_string() } else { format!("\\u{{{:x}}}", u32::from(letter)) }
            },
        )
        .collect();
    scene.write("escaped.txt", host_started_by(&escaped));
    // A hand-written capture need not escape characters that set the direction of text.
    let by_hand: String = ACTING
        .chars()
        .map(|letter| if letter.is_control() { format!("\\u{{{:x}}}", u32::from(letter)) } else { letter.to_string() })
        .collect();
    scene.write("by-hand.txt", host_started_by(&by_hand));
    for file in ["escaped.txt", "by-hand.txt"] {
        for line in [
            "inspect",
            "inspect --all",
            "inspect --json",
            "inspect --topology",
            "inspect --topology=svg",
            "audit",
            "audit --all",
            "audit --json",
            "audit --md",
            "audit --sarif",
            "explain --json",
            "capture",
        ] {
            let line = format!("{line} --host {file}");
            let seen = scene.run(&line);
            assert_eq!(seen.code, 0, "{line}: {seen}");
            assert_none_acts(&seen, &line);
        }
        let (_, answer) = scene.json(&format!("inspect --host {file}"));
        assert_eq!(answer["facts"]["boot"]["init"]["other"], ACTING, "JSON says what it is all the same");
    }
    scene.write("captured.txt", scene.run("capture --host by-hand.txt").stdout);
    assert_eq!(scene.json("inspect --host captured.txt").1, scene.json("inspect --host escaped.txt").1);
}

#[test]
fn no_function_or_thread_acts_on_a_terminal() {
    let scene = Scene::new();
    let name = ACTING.replace('\u{85}', "");
    scene.write("a.folded", format!("{name};{name};f 3\n{name};g 4\n"));
    for line in [
        "profile view a.folded",
        "profile view --json a.folded",
        "profile diff a.folded a.folded",
        "profile diff --json a.folded a.folded",
    ] {
        let seen = scene.run(line);
        assert_eq!(seen.code, 0, "{line}: {seen}");
        assert_none_acts(&seen, line);
    }
    for file in ["a.svg", "a.html", "b.folded"] {
        assert_eq!(scene.run(&format!("profile view a.folded --output {file}")).code, 0);
        let written = Seen { code: 0, stdout: scene.read(file), stderr: String::new() };
        assert_none_acts(&written, file);
    }
}

#[test]
fn no_argument_acts_on_a_terminal() {
    let scene = Scene::new();
    for line in [
        "apply --json KNOB=1 --host host.txt",
        "apply KNOB=1 --host host.txt",
        "inspect --host KNOB",
        "KNOB",
        "--json KNOB",
        "explain KNOB",
    ] {
        let line = line.replace("KNOB", &format!("vm.{}", ACTING.replace('\u{85}', "")));
        let seen = scene.run(&line);
        assert_ne!(seen.code, 0, "{line}: {seen}");
        assert_none_acts(&seen, &line);
    }
}

/// ESC [ 8 m hides the text after it. Only the program's own styles may reach a terminal, in progress lines too.
#[test]
fn no_style_comes_out_of_a_file() {
    let scene = Scene::new();
    let (_, goal) = corpus("goal").into_iter().next().unwrap();
    scene.write("goal.json", goal.replace(r#""workload_words": "w""#, r#""workload_words": "w\u001b[8m""#));
    let seen = scene.run("--color always prove --goal goal.json --pairs 6 --state state");
    assert!(seen.stdout.contains("w\u{fffd}[8m"), "{seen}");
    assert!(!seen.stdout.contains("\x1b[8m") && !seen.stderr.contains("\x1b[8m"), "{seen}");
}

/// Names as compilers create them for templates, and a name that is too long for a cell.
#[test]
fn a_function_of_any_length_is_shown() {
    let scene = Scene::new();
    let (thread, function) = ("t".repeat(70_000), "f".repeat(70_000));
    scene.write("a.folded", format!("main;g 1\n{thread};{function};g 3\n{thread};h 4\n"));
    for line in ["profile view a.folded", "profile diff a.folded a.folded"] {
        let seen = scene.run(line);
        assert_eq!((seen.code, seen.stderr.as_str()), (0, ""), "{line}: {seen}");
        assert!(seen.stdout.len() < 100_000, "{line}: {} bytes", seen.stdout.len());
    }
}

/// Every command that reads a file named by the user.
const READERS: &[&str] = &[
    "inspect --host FILE",
    "audit --host FILE",
    "capture --host FILE",
    "audit --host host.txt --waivers FILE",
    "plan --host host.txt FILE",
    "diff --host host.txt FILE",
    "measure compare FILE card.json",
    "measure ticks --recording FILE",
    "profile view FILE",
    "profile diff FILE a.txt",
    "profile diff a.txt FILE",
    "profile switches FILE",
    "profile imbalance FILE",
    "profile ticks FILE",
    "profile scopes FILE",
    "profile scopes scopes.json --recording FILE",
    "profile scopes scopes.json --telemetry FILE",
    "prove report FILE --state state",
    "prove resume FILE --state state",
    "prove --goal FILE --state state",
    "prove compare FILE report.json",
    "prove process.timer_slack_ns=1 --workload simulated --set script=FILE --state state",
    "tune resume FILE --state state",
];

fn scene_of_readers() -> Scene {
    let scene = Scene::new();
    scene.write("a.txt", "main;f 3\n");
    scene.write("scopes.json", "[]");
    scene.write("card.json", "{}");
    scene.write("report.json", "{}");
    std::fs::create_dir(scene.path("state")).unwrap();
    scene
}

#[test]
fn a_pipe_without_a_writer_is_waited_for_by_no_command() {
    let scene = scene_of_readers();
    assert!(Command::new("mkfifo").arg(scene.path("fifo")).status().unwrap().success());
    // The commands run in parallel, so each has a separate state. Otherwise one trial would refuse the next.
    let own_state =
        |(at, line): (usize, &&str)| line.replace("FILE", "fifo").replace("state state", &format!("state state/{at}"));
    let lines: Vec<String> = READERS.iter().enumerate().map(own_state).collect();
    let children: Vec<Child> = lines.iter().map(|line| started(scene.command(line))).collect();
    for (line, child) in lines.iter().zip(children) {
        let seen = ended(child, line);
        assert!([2, 4].contains(&seen.code) && seen.stdout.is_empty(), "{line}: {seen}");
        // These commands need a regular file, because they write to the file or share it with the server.
        let words = if line.contains("--telemetry") || line.starts_with('t') {
            ["it is not a regular file", "invalid argument (EINVAL)"]
        } else {
            ["no program has open for writing"; 2]
        };
        assert!(words.iter().any(|words| seen.stderr.contains(words)), "{line}: {seen}");
    }
}

/// The shell's `<(…)` is a pipe with a writer.
#[test]
fn a_pipe_with_a_writer_is_read_as_far_as_a_file_may_go() {
    let scene = scene_of_readers();
    let piped = |script: &str| {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", script, env!("CARGO_BIN_EXE_evenkeel")]).current_dir(scene.path("")).stdin(Stdio::null());
        ended(started(command), script)
    };
    let of_file = scene.run("audit --host host.txt");
    for script in [
        "\"$0\" audit --host <(cat host.txt)",
        "\"$0\" audit --host <(sleep 0.1; head -c 100 host.txt; sleep 0.1; tail -c +101 host.txt)",
        "cat host.txt | \"$0\" audit --host /dev/stdin",
        "\"$0\" audit --host /dev/stdin < host.txt",
        "mkfifo named; cat host.txt > named & \"$0\" audit --host named",
    ] {
        let seen = piped(script);
        // Skip suggested commands that name the file.
        let findings = |seen: &Seen| seen.stdout.split("\nReasons").next().map(str::to_owned);
        assert_eq!((seen.code, findings(&seen)), (of_file.code, findings(&of_file)), "{script}: {seen}");
    }
    assert_eq!(piped("\"$0\" profile view <(cat a.txt)").code, 0);
    let guide = piped("echo vm.swappiness=7 | \"$0\" guide - --host host.txt");
    assert!(guide.code == 0 && guide.stdout.starts_with("Standard input: of 1 setting"), "{guide}");
    assert_eq!(
        piped("\"$0\" audit --host host.txt --waivers <(true)").code,
        of_file.code,
        "nobody has anything to say"
    );
    for script in [
        "\"$0\" audit --host host.txt --waivers <(yes)",
        "\"$0\" plan --host host.txt <(yes)",
        "yes | \"$0\" measure compare /dev/stdin card.json",
        "yes | \"$0\" guide - --host host.txt",
    ] {
        let seen = piped(script);
        assert!(seen.code == 2 && seen.stderr.contains("longer than"), "{script}: {seen}");
    }
}

/// The memory of the process is smaller than the file's stated length.
#[test]
fn what_is_too_large_is_refused_before_it_takes_memory() {
    const KIB: u64 = 400_000;
    let scene = scene_of_readers();
    let sparse = |name: &str, head: &[u8]| {
        scene.write(name, head);
        File::options().write(true).open(scene.path(name)).unwrap().set_len(7 << 30).unwrap();
    };
    sparse("zeros", b"");
    sparse("perf.data", b"PERFILE2");
    sparse("scopes", b"[{\"name\":\"a\"}");
    let reads_json = |line: &str| line.contains("scopes FILE");
    for file in ["/dev/zero", "zeros", "perf.data", "scopes"] {
        for line in READERS.iter().filter(|line| file != "scopes" || reads_json(line)) {
            let line = line.replace("FILE", file);
            let script = format!("ulimit -v {KIB}; exec \"$0\" {line}");
            let mut command = Command::new("/bin/sh");
            command
                .args(["-c", &script, env!("CARGO_BIN_EXE_evenkeel")])
                .current_dir(scene.path(""))
                .stdin(Stdio::null());
            let seen = ended(started(command), &line);
            assert!([2, 4].contains(&seen.code) && seen.stdout.is_empty(), "{line}: {seen}");
        }
    }
}
