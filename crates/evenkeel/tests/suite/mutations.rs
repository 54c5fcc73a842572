//! Passes mutated captures to every form of inspect and audit, and mutated files of every format to their readers.
//! Each gives an answer or an error, and never a panic. The kernel limits CPU time and address space.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::process::Command;

use evenkeel_sys::clock;
use evenkeel_testkit::mutate::{Chance, asked, hosts, mutated, mutated_file};

use crate::fuzz_targets::{QUEUES, TARGETS, corpus, take};

/// The default number of captures.
/// The test tries only one in [`ONE_IN`] of a requested number, because each capture starts the program in every form.
const MUTATIONS: u64 = 600;
const ONE_IN: u64 = 50;

/// The commands that read each capture.
const FORMS: [&[&str]; 14] = [
    &["inspect"],
    &["inspect", "--all"],
    &["inspect", "--json"],
    &["inspect", "--topology"],
    &["inspect", "--topology=svg"],
    &["audit"],
    &["audit", "--all"],
    &["audit", "--json"],
    &["audit", "--md"],
    &["audit", "--sarif"],
    &["audit", "--goal", "throughput"],
    &["audit", "--goal", "density", "--json"],
    &["audit", "--server", "pps=3840,cpus=2,players=64"],
    &["audit", "--fail-on", "unknown", "--color", "always"],
];

#[test]
fn every_form_of_answer_is_given_or_refused() {
    let hosts = hosts();
    let file = tempfile::NamedTempFile::new().unwrap();
    let (mut answers, mut refusals) = (0, 0);
    for seed in 0..asked(MUTATIONS) / ONE_IN {
        fs::write(file.path(), mutated(&hosts, &mut Chance(seed.wrapping_mul(ONE_IN)))).unwrap();
        for form in FORMS {
            // The limits are 512 MiB of address space, and one second of CPU time.
            // After one second, the kernel sends SIGXCPU.
            let mut program = Command::new("sh");
            program.args([
                "-c",
                r#"ulimit -v 524288 && ulimit -t 1 && exec "$0" "$@""#,
                env!("CARGO_BIN_EXE_evenkeel"),
            ]);
            let output = program.args(form).arg("--host").arg(file.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0 | 1) => answers += 1,
                Some(2) => refusals += 1,
                _ => panic!("seed {seed}, {form:?}: {}: {said}", output.status),
            }
            assert!(!said.contains("panicked"), "seed {seed}, {form:?}: {said}");
        }
    }
    println!("{answers} answers and {refusals} refusals in {} forms", FORMS.len());
    assert!(answers > refusals, "{answers} answers, {refusals} refusals");
}

/// The default number of files for the readers. `make lab` uses a million files.
const FILES: u64 = 2000;
/// The default number of files for the commands, times [`ONE_IN`], because each command starts the program.
const FILES_FOR_COMMANDS: u64 = 6000;
/// The number of files that one process reads, because the CPU time of a process is limited.
const FILES_A_PROCESS: u64 = 20_000;
/// The limit of CPU time for one file.
/// No file has more than 64 KiB, and even a debug build needs at most a tenth of this limit.
const CPU_NS_MAX: u64 = 2_000_000_000;
/// The limit of CPU time for all files of a process, in seconds. It ends a reader that hangs.
/// In the longest run, no process used a twentieth of this limit.
const CPU_S_MAX: u64 = 2000;
/// The limit of the address space. Before it reads any file, the test program has mapped about 300 MiB.
const ADDRESS_SPACE_KIB: u64 = 1 << 20;

/// The commands that read a file of each format.
/// Whatever the file contains, the commands change nothing on this machine. `FILE` stands for the path of the file.
/// If the format is binary, each character of the corpus stands for a byte.
const COMMANDS: [(&str, &str); 15] = [
    ("capture", "inspect --json --host FILE"),
    ("card", "measure compare FILE FILE"),
    ("goal", "script --host HOST FILE"),
    ("journal-file", "history --host HOST --state STATE"),
    ("journal-file", "verify --host HOST --state STATE"),
    ("journal-file", "revert --host HOST --state STATE"),
    ("perf-data", "profile view --json --no-cache FILE"),
    ("perf-data", "profile switches --no-cache FILE"),
    ("perf-script", "profile view FILE"),
    ("plan", "diff --host HOST FILE"),
    ("plan", "script --host HOST FILE"),
    ("report", "prove compare FILE FILE"),
    ("report", "prove report FILE"),
    ("scopes", "profile scopes FILE"),
    ("ticks", "measure ticks --recording FILE"),
];

/// The environment variable that names the file in which a reader writes what it currently reads.
/// A process with this variable is a reader.
const AT: &str = "EVENKEEL_MUTATIONS_AT";
const FROM: &str = "EVENKEEL_MUTATIONS_FROM";
const TO: &str = "EVENKEEL_MUTATIONS_TO";

/// The beginning of the line with a reader's figures.
const SUMMARY: &str = "summary: ";

/// The number of the format, and the text, of mutation number `seed`.
fn mutation(seed: u64, corpora: &[Vec<String>]) -> (usize, String) {
    let format = usize::try_from(seed).unwrap() % TARGETS.len();
    (format, mutated_file(&corpora[format], &mut Chance(seed)))
}

fn corpora() -> Vec<Vec<String>> {
    TARGETS.iter().map(|target| corpus(target.name).into_iter().map(|(_, text)| text).collect()).collect()
}

#[test]
fn files_of_every_format_are_read_or_refused() {
    let at = tempfile::NamedTempFile::new().unwrap();
    let files = asked(FILES);
    for from in (0..files).step_by(usize::try_from(FILES_A_PROCESS).unwrap()) {
        let to = (from + FILES_A_PROCESS).min(files);
        let bounds = format!(r#"ulimit -v {ADDRESS_SPACE_KIB} && ulimit -t {CPU_S_MAX} && exec "$0" "$@""#);
        let mut process = Command::new("sh");
        process.args(["-c", &bounds]).arg(std::env::current_exe().unwrap());
        process.args([
            "--exact",
            "mutations::readers_take_mutated_files",
            "--ignored",
            "--test-threads=1",
            "--nocapture",
        ]);
        let output =
            process.env(AT, at.path()).envs([(FROM, from.to_string()), (TO, to.to_string())]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || !said.contains("1 passed") {
            let seed = fs::read_to_string(at.path()).unwrap().trim().parse().unwrap_or(from);
            let (format, text) = mutation(seed, &corpora());
            let kept = std::env::temp_dir().join(format!("evenkeel-mutation-{seed}"));
            fs::write(&kept, text).unwrap();
            let name = TARGETS[format].name;
            panic!("{name}, mutation {seed}, kept in {}: {}: {said}", kept.display(), output.status);
        }
        let summary = said.lines().find_map(|line| line.split_once(SUMMARY)).expect("what the process summary").1;
        println!("{from} to {to}: {summary}");
    }
}

#[test]
#[ignore = "a part of files_of_every_format_are_read_or_refused, which gives it its bounds"]
fn readers_take_mutated_files() {
    let [from, to] = [FROM, TO].map(|name| std::env::var(name).unwrap().parse().unwrap());
    let at = File::options().write(true).open(std::env::var_os(AT).unwrap()).unwrap();
    let corpora = corpora();
    let mut slowest = (0, "", 0);
    for seed in from..to {
        let (format, text) = mutation(seed, &corpora);
        at.write_all_at(format!("{seed:20}").as_bytes(), 0).unwrap();
        let began_ns = clock::thread_cpu_ns();
        take(&TARGETS[format], &text);
        let took_ns = clock::thread_cpu_ns() - began_ns;
        assert!(took_ns < CPU_NS_MAX, "{}, mutation {seed}: {took_ns} ns of CPU time", TARGETS[format].name);
        slowest = slowest.max((took_ns, TARGETS[format].name, seed));
    }
    let (took_ns, name, seed) = slowest;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default().trim();
    println!("{SUMMARY}at most {} us of CPU time ({name}, mutation {seed}), {peak} in memory", took_ns / 1000);
}

#[test]
fn commands_take_mutated_files() {
    let dir = tempfile::tempdir().unwrap();
    let [file, host, state] = ["file", "host.txt", "state"].map(|name| dir.path().join(name));
    fs::write(&host, QUEUES).unwrap();
    let (mut answers, mut refusals) = (0, 0);
    for seed in 0..asked(FILES_FOR_COMMANDS) / ONE_IN {
        let (format, command) = COMMANDS[usize::try_from(seed).unwrap() % COMMANDS.len()];
        let files: Vec<_> = corpus(format).into_iter().map(|(_, text)| text).collect();
        let text = mutated_file(&files, &mut Chance(seed));
        let bytes = |text: &str| text.chars().map(|char| char as u8).collect::<Vec<u8>>();
        drop(fs::remove_dir_all(&state));
        fs::DirBuilder::new().mode(0o700).create(&state).unwrap();
        match format {
            "journal-file" => {
                let (journal, note) = text.split_once("\n=\n").unwrap_or((&text, ""));
                fs::write(state.join("journal"), bytes(journal)).unwrap();
                fs::write(state.join("journal.last-record"), bytes(note)).unwrap();
            }
            "perf-data" => fs::write(&file, bytes(&text)).unwrap(),
            _ => fs::write(&file, &text).unwrap(),
        }
        let words = command.split(' ').map(|word| match word {
            "FILE" => file.as_os_str(),
            "HOST" => host.as_os_str(),
            "STATE" => state.as_os_str(),
            word => word.as_ref(),
        });
        let mut program = Command::new("sh");
        program.args(["-c", r#"ulimit -v 524288 && ulimit -t 10 && exec "$0" "$@""#, env!("CARGO_BIN_EXE_evenkeel")]);
        let output = program.args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0 | 1) => answers += 1,
            Some(2..=7) => refusals += 1,
            _ => panic!("seed {seed}, {command}: {}: {said}", output.status),
        }
        assert!(!said.contains("panicked"), "seed {seed}, {command}: {said}");
    }
    println!("{answers} answers and {refusals} refusals by {} commands", COMMANDS.len());
    assert!(answers > 0 && refusals > 0, "{answers} answers, {refusals} refusals");
}
