//! Tests `prove boots` without a reboot: its plan, its status from a stored state, and a damaged state.
//! `lab/boots.sh` tests the rest.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use evenkeel_trial::Guard;
use evenkeel_trial::boots::{
    BootCounters, BootOutcome, BootWords, BootsDesign, BootsEnded, BootsState, SeenBoot, read, write,
};
use evenkeel_workload::Metric;
use serde_json::Value;
use tempfile::TempDir;

use crate::schemas;

const KNOB: &str = "cmdline.processor.max_cstate=1";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn prove(line: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    program.current_dir(top()).arg("prove").args(line.split_whitespace()).output().unwrap()
}

fn both(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn json(output: &Output) -> Value {
    let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", both(output)));
    schemas::check_any(&answer);
    answer
}

/// A trial with this many measured boots. The values of B are 20 % lower.
fn measured(boots: usize) -> BootsState {
    let design = BootsDesign {
        settings: vec![KNOB.to_owned()],
        metric: BootsDesign::default_metric(),
        guards: Vec::new(),
        smallest_effect_ratio: 0.05,
        boots: 4,
        windows: 3,
        window_ms: 1000,
        settle_ms: 0,
        seed: 0,
        reboots: false,
        limit_s: 1_000_000,
    };
    let mut state = BootsState::begin(design, 1_700_000_000, "boot-0");
    for boot in 0..boots {
        let (slot, arm) = state.next_slot().unwrap();
        let level = if format!("{arm:?}") == "B" { 80.0 } else { 100.0 } + boot as f64;
        let outcome =
            BootOutcome::Measured { values: vec![level; 3], dropped: 0, guards: Default::default(), counted: None };
        let machine = BootWords::default();
        state.seen.push(SeenBoot { boot_id: format!("r{boot}"), slot, arm, tries: 1, machine, outcome });
    }
    state
}

/// The same trial with a guard. `[a, b]` are the guard's values in A and in B.
fn guarded(boots: usize, [a, b]: [f64; 2]) -> BootsState {
    let mut state = BootsState { ended: Some(BootsEnded::Whole), ..measured(boots) };
    state.design.guards = vec![Guard { metric: Metric::us("round_trip_us_p99", "the tail"), harm_ratio: 0.25 }];
    for boot in &mut state.seen {
        if let BootOutcome::Measured { guards, .. } = &mut boot.outcome {
            let value = if format!("{:?}", boot.arm) == "B" { b } else { a };
            guards.insert("round_trip_us_p99".to_owned(), value);
        }
    }
    state
}

fn kept(state: &BootsState) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("boots");
    write(&file, state).unwrap();
    (dir, file)
}

#[test]
fn what_takes_a_reboot_is_refused_with_the_way_to_go() {
    let hosts = "--plan-only --host hosts/aws-m4.xlarge-xen-4.4.txt";
    let table = [
        (
            KNOB.to_owned(),
            4,
            "boots start cmdline.processor.max_cstate=1 compares four boots, A-B-B-A: 6 min of measuring",
        ),
        (format!("boots start {KNOB} --boots 5"), 2, "expected 4, 8, 12 or 16"),
        (format!("{KNOB} --reboot"), 2, "type: evenkeel prove boots start cmdline.processor.max_cstate=1 --reboot"),
        (format!("boots start {KNOB} --goal x"), 2, "takes no option \"--goal\""),
        (format!("boots start {KNOB} --boots 4 --smallest-effect 0 {hosts}"), 2, "0 is not between 0 and 1000 percent"),
        (format!("boots start {KNOB} --guard round_trip_us_p99=0 {hosts}"), 2, "is not a percentage above 0"),
        (format!("boots start vm.swappiness=10 {hosts}"), 2, "`evenkeel prove KNOB=VALUE` compares it"),
        (format!("boots start cmdline.no_such=1 --boots 4 {hosts}"), 2, "cmdline.no_such"),
        // The machine in this capture has no boot loader.
        (format!("boots start {KNOB} --plan-only --host hosts/firecracker-2vcpu-6.18.txt"), 4, "outlive a boot"),
    ];
    for (line, code, expected) in table {
        let output = prove(&line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", both(&output));
        assert!(both(&output).contains(expected), "{line}: {}", both(&output));
    }
}

#[test]
fn planned_steps_are_shown_beforehand() {
    let line = format!("boots start {KNOB} --boots 8 --seed 0 --plan-only --host hosts/aws-m4.xlarge-xen-4.4.txt");
    let answer = json(&prove(&format!("{line} --json")));
    assert_eq!((answer["format"].as_u64(), answer["error"].as_f64()), (Some(1), Some(0.05)));
    assert_eq!(answer["order"].as_str().unwrap().len(), 8);
    assert!(answer["order"].as_str().unwrap().starts_with("ABBA"), "{answer}");
    let file = &answer["plan"]["persist"]["files"][0];
    assert_eq!(file["path"].as_str(), Some("/etc/default/grub.d/90-evenkeel.cfg"));
    let text = both(&prove(&line));
    for words in
        ["evenkeel waits until you reboot", "wrong in up to 5 % of trials", "After at most 11 boots", "update-grub"]
    {
        assert!(text.contains(words), "{text}");
    }
    assert!(both(&prove(&format!("{line} --reboot"))).contains("reboots automatically, now and after"));
    let text = both(&prove(&format!("{line} --state elsewhere")));
    for command in ["evenkeel prove boots status", "evenkeel prove boots cancel", "evenkeel revert"] {
        assert!(text.contains(&format!("{command} --state elsewhere")), "{text}");
    }
}

/// Before the workload runs, the plan shows the primary metric,
/// the smallest effect that matters and the guards, if these are known.
/// The plan never guesses.
#[test]
fn what_decides_and_what_may_veto_is_said_beforehand() {
    let usual = "Guard: the p99 of the deciding metric, if the workload measures it, must not be 25 % worse in every boot of B.";
    let table: [(&str, &str, &[&str]); 6] = [
        (
            "",
            r#"{"guards":[{"harm_ratio":0.25}],"smallest_effect_ratio":0.05,"smallest_effect_ratio_of_lateness":0.1}"#,
            &[
                "Deciding metric: the default metric of the workload (--metric changes it). Changes from 5 % (10 % for a lateness or jitter) matter.",
                usual,
            ],
        ),
        (
            "--metric tick_lateness_us_p50",
            r#"{"guards":[{"harm_ratio":0.25,"metric":"tick_lateness_us_p99"}],"metric":"tick_lateness_us_p50","smallest_effect_ratio":0.1}"#,
            &[
                "Deciding metric: tick_lateness_us_p50. Changes from 10 % matter.",
                "Guard: tick_lateness_us_p99 must not be 25 % worse in every boot of B.",
            ],
        ),
        (
            "--metric cpu_share",
            r#"{"guards":[],"metric":"cpu_share","smallest_effect_ratio":0.05}"#,
            &["Deciding metric: cpu_share. Changes from 5 % matter.", "No guard"],
        ),
        (
            "--smallest-effect 2",
            r#"{"guards":[{"harm_ratio":0.25}],"smallest_effect_ratio":0.02}"#,
            &["Changes from 2 % matter.", usual],
        ),
        (
            "--guard round_trip_us_p99=10 --guard cpu_share",
            r#"{"guards":[{"harm_ratio":0.1,"metric":"round_trip_us_p99"},{"harm_ratio":0.25,"metric":"cpu_share"}],"smallest_effect_ratio":0.05,"smallest_effect_ratio_of_lateness":0.1}"#,
            &[
                "Guard: round_trip_us_p99 must not be 10 % worse in every boot of B.",
                "cpu_share must not be 25 % worse",
            ],
        ),
        (
            "--guard none --metric round_trip_us_p50",
            r#"{"guards":[],"metric":"round_trip_us_p50","smallest_effect_ratio":0.05}"#,
            &["Deciding metric: round_trip_us_p50. Changes from 5 % matter.", "No guard."],
        ),
    ];
    for (asked, decides, phrases) in table {
        let line = format!("boots start {KNOB} --plan-only --host hosts/aws-m4.xlarge-xen-4.4.txt {asked}");
        let answer = json(&prove(&format!("{line} --json")));
        let expected: Value = serde_json::from_str(decides).unwrap();
        assert_eq!(answer["decides"], expected, "{asked}");
        for name in ["metric", "guards", "smallest_effect_ratio"] {
            assert!(answer["design"].get(name).is_none(), "{asked}: {name} is stored once");
        }
        let text = both(&prove(&line));
        for words in phrases {
            assert!(text.contains(words), "{asked}: {text}");
        }
        assert!(
            text.contains(
                "wrong in up to 5 % of trials if the noise between boots is normal, and up to 1 in 3 otherwise"
            )
        );
    }
}

#[test]
fn the_status_never_says_better_alone() {
    let (dir, _) = kept(&BootsState { ended: Some(BootsEnded::Whole), ..measured(4) });
    let out = dir.path().join("out");
    let state = format!("boots status --state {}", dir.path().display());
    let output = prove(&format!("{state} --report {}", out.display()));
    let text = both(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("All 4 boots are measured, with 4 boots in total; all settings are restored"), "{text}");
    assert_eq!(json(&prove(&format!("{state} --json")))["is_put_back"], true);
    let pages = text.clone() + &std::fs::read_to_string(out.join("boots.md")).unwrap();
    assert!(pages.matches("better").count() >= 2, "{pages}");
    // A page wraps its lines, so compare the words.
    let pages = pages.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        pages.matches("better").count(),
        pages.matches("better (over 4 boots only: weaker than a trial)").count(),
        "{pages}"
    );
    assert!(pages.contains("Both boots of B were below both boots of A"), "{pages}");
    let answer = json(&prove(&format!("{state} --json")));
    let file: Value = serde_json::from_slice(&std::fs::read(out.join("boots.json")).unwrap()).unwrap();
    assert_eq!(answer, file);
    assert_eq!(answer["comparison"]["verdict"].as_str(), Some("better"));
    assert_eq!(answer["boots"].as_array().unwrap().len(), 4);
}

#[test]
fn a_guard_that_is_harmed_makes_it_a_no() {
    let (dir, _) = kept(&guarded(4, [500.0, 700.0]));
    let out = dir.path().join("out");
    let state = format!("boots status --state {}", dir.path().display());
    let output = prove(&format!("{state} --report {}", out.display()));
    // The exit code is the code of a trial in which a guard rejects B.
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let [html, markdown] = ["boots.html", "boots.md"].map(|name| std::fs::read_to_string(out.join(name)).unwrap());
    for page in [both(&output), html, markdown] {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let vetoed = "better (over 4 boots only: weaker than a trial), but round_trip_us_p99 is 40 % higher in every boot of B: not to be kept";
        assert!(page.contains(vetoed), "{page}");
    }
    let answer = json(&prove(&format!("{state} --json")));
    assert_eq!(answer["comparison"]["verdict"], "worse");
    assert_eq!(answer["outcome"], "worse");
    assert_eq!(answer["vetoed_by"], "round_trip_us_p99");
    let guard = &answer["guards"][0];
    assert_eq!(
        (guard["metric"]["name"].as_str(), guard["is_harmed"].as_bool()),
        (Some("round_trip_us_p99"), Some(true))
    );
    assert_eq!(
        (guard["a"].to_string(), guard["b"].to_string()),
        ("[500.0,500.0]".to_owned(), "[700.0,700.0]".to_owned())
    );
    assert_eq!((guard["margin"].as_f64(), guard["ratio"].as_f64()), (Some(0.25), Some(1.4)));
    assert_eq!(answer["design"]["guards"][0]["harm_ratio"].as_f64(), Some(0.25));

    // A guard within its limit does not reject B. A guard of an unfinished trial also does not reject B.
    let (dir, _) = kept(&guarded(4, [500.0, 600.0]));
    let output = prove(&format!("boots status --json --state {}", dir.path().display()));
    assert_eq!((output.status.code(), json(&output)["comparison"]["verdict"].as_str()), (Some(0), Some("better")));
    let (dir, _) = kept(&BootsState { ended: Some(BootsEnded::Cancelled), ..guarded(4, [500.0, 700.0]) });
    assert_eq!(prove(&format!("boots status --state {}", dir.path().display())).status.code(), Some(0));
}

#[test]
fn a_state_without_guards_is_read() {
    let (dir, file) = kept(&BootsState { ended: Some(BootsEnded::Whole), ..measured(4) });
    assert!(!std::fs::read_to_string(&file).unwrap().contains("guards"));
    let status = json(&prove(&format!("boots status --json --state {}", dir.path().display())));
    assert_eq!((&status["guards"], &status["vetoed_by"]), (&Value::Null, &Value::Null));
}

/// Text, page and JSON all report it. Scripts keep settings that helped, so the report must not mislead them.
#[test]
fn settings_that_never_acted_are_reported_as_not_engaged() {
    let counted = |busy: f64| BootCounters {
        busy_share: Some(busy),
        idle_entries_per_s: Some(9000.0),
        idle_exit_latency_us: Some(2.5),
        ..BootCounters::default()
    };
    let mut state = BootsState { ended: Some(BootsEnded::Whole), ..measured(4) };
    for boot in &mut state.seen {
        boot.outcome = BootOutcome::Measured {
            values: vec![100.0 + boot.slot as f64 * 0.1; 3],
            dropped: 0,
            guards: Default::default(),
            counted: Some(counted(0.97)),
        };
    }
    let (dir, _) = kept(&state);
    let out = dir.path().join("out");
    let state = format!("boots status --state {}", dir.path().display());
    let output = prove(&format!("{state} --report {}", out.display()));
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    let [html, markdown] = ["boots.html", "boots.md"].map(|name| std::fs::read_to_string(out.join(name)).unwrap());
    for page in [both(&output), html.clone(), markdown] {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let why = "the CPUs were 97 % busy in the median window, so hardly ever idle";
        for words in [
            format!("not engaged (over 4 boots only: weaker than a trial), because {why}"),
            format!("it was not engaged, because {why}"),
        ] {
            assert!(page.contains(&words), "no {words}: {page}");
        }
    }
    assert!(html.contains("not-engaged over 4 boots") && html.contains("idle_exit_latency_us"), "{html}");
    let answer = json(&prove(&format!("{state} --json")));
    let knob = &answer["mechanism"][0];
    assert_eq!(knob["knob"], "cmdline.processor.max_cstate");
    assert!(knob["engaged"]["no"]["why"].as_str().is_some_and(|why| why.contains("97 % busy")), "{knob}");
    assert_eq!(answer["boots"][0]["counted"]["idle_exit_latency_us"].as_f64(), Some(2.5));
}

#[test]
fn the_page_of_a_trial_needs_nothing_but_itself() {
    let mut state = guarded(4, [500.0, 500.0]);
    let hostile = "</pre><script>alert(1)</script>";
    state.workload = format!(" -- ./server '{hostile}'");
    state.workload_words = hostile.to_owned();
    state.seen[1].machine.command_line = Some(hostile.to_owned());
    let (dir, _) = kept(&state);
    let out = dir.path().join("out");
    let output = prove(&format!("boots status --state {} --report {}", dir.path().display(), out.display()));
    assert!(both(&output).contains("boots.html"), "{}", both(&output));
    let page = std::fs::read_to_string(out.join("boots.html")).unwrap();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)"), "{page}");
    for words in [
        "<title>evenkeel report over boots</title>",
        "evenkeel prove boots start 'cmdline.processor.max_cstate=1' --boots 4 --settle 0s --windows 3 --window 1s \
         --smallest-effect 5 --metric due_to_done_us_p99 --guard 'round_trip_us_p99=25' --seed 0 -- ./server",
        "boot 1, A, window 1: 100",
        "both boots of B were below both boots of A",
        "Not worse by 25 %",
    ] {
        assert!(page.to_lowercase().contains(&words.to_lowercase()), "no {words}: {page}");
    }
    // The page also contains the numbers as a download.
    assert!(page.contains("download=\"boots.json\"") && !page.contains("src=") && !page.contains("href=\"http"));
}

#[test]
fn a_trial_that_was_reverted_says_so_and_can_be_cancelled() {
    // The journal has no record of the trial's unit, as after `evenkeel revert`.
    let (dir, file) = kept(&measured(2));
    let state = format!("--state {}", dir.path().display());
    let status = json(&prove(&format!("boots status --json {state}")));
    assert_eq!(status["ended"].as_str(), Some("cancelled"), "{status}");
    assert_eq!(status["verdict"].as_str(), Some("nothing is known yet"));
    let output = prove(&format!("boots cancel {state}"));
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    assert_eq!(read(&file).unwrap().unwrap().ended, Some(BootsEnded::Cancelled));
}

#[test]
fn a_trial_that_just_begins_is_not_reported_as_cancelled() {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let beginning = BootsState { begun_boot: boot.trim().to_owned(), ..measured(0) };
    let (dir, _) = kept(&beginning);
    let status = json(&prove(&format!("boots status --json --state {}", dir.path().display())));
    assert!(status["ended"].is_null(), "{status}");
}

#[test]
fn a_damaged_state_is_put_away() {
    // Units that older versions installed use the first of these spellings.
    for option in ["--boots-resume", "boots resume", "boots cancel"] {
        let (dir, file) = kept(&measured(2));
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let state = format!("--state {}", dir.path().display());
        let output = prove(&format!("boots status {state}"));
        assert_eq!(output.status.code(), Some(4));
        assert!(both(&output).contains("the checksum does not match"), "{}", both(&output));
        let output = prove(&format!("{option} {state}"));
        assert_eq!(output.status.code(), Some(5), "{option}: {}", both(&output));
        assert!(both(&output).contains("giving up and restoring all settings"), "{}", both(&output));
        assert!(!file.exists() && std::fs::read(dir.path().join("boots.damaged")).unwrap() == bytes);
        // A second call changes nothing.
        let again = prove(&format!("{option} {state}"));
        assert_eq!((again.status.code(), both(&again).contains("no trial over boots")), (Some(0), true));
    }
}
