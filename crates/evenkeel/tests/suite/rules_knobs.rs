//! A knob's own file must contain everything about the knob.
//! Other product code may use the types of its declaration, but never its id.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evenkeel_host::knobs;

use crate::rules::{files, project, read};

/// Files that may contain ids of knobs: the file, the ids, and the reason.
const EXEMPT: [(&str, &[&str], &str); 19] = [
    (
        "change/src/persist/session_units.rs",
        &["process.cpu_affinity", "process.numa_policy"],
        "what a placement of sessions gives to services, which comes from no setting",
    ),
    ("evenkeel/src/commands/apply.rs", &["irq.affinity", "vm.swappiness"], "examples that a user can type, in help"),
    ("evenkeel/src/commands/confirm.rs", &["vm.swappiness"], "examples that a user can type, in help"),
    ("evenkeel/src/commands/diff.rs", &["vm.swappiness"], "examples that a user can type, in help"),
    ("evenkeel/src/commands/explain.rs", &["net.core.busy_poll"], "examples that a user can type, in help"),
    ("evenkeel/src/commands/image.rs", &["vm.swappiness"], "examples that a user can type, in help"),
    ("evenkeel/src/commands/plan.rs", &["vm.swappiness"], "examples that a user can type, in help"),
    (
        "evenkeel/src/commands/prove.rs",
        &["kernel.timer_migration", "process.timer_slack_ns"],
        "examples that a user can type, in help",
    ),
    (
        "evenkeel/src/commands/prove/boots/start_args.rs",
        &["cmdline.processor.max_cstate"],
        "examples that a user can type, in help",
    ),
    (
        "evenkeel/src/commands/measure/meters/wake.rs",
        &["cpuidle.dma_latency_us"],
        "a page that points to `evenkeel explain`",
    ),
    (
        "evenkeel/src/show/profile/imbalance.rs",
        &["irq.affinity", "net.rps_cpus"],
        "a page that points to `evenkeel explain`",
    ),
    ("measure/src/disturb/quantum.rs", &["kernel.sched_rt_runtime_us"], "the kernel's own name, in an error"),
    ("measure/src/meters/gaps/mod.rs", &["kernel.sched_rt_runtime_us"], "the kernel's own name, in an error"),
    (
        "rt/src/udp/report.rs",
        &["net.core.rmem_max"],
        "the kernel's own name, in advice of a library that knows no knobs",
    ),
    ("workload/src/kit/place.rs", &["process.cpu_affinity"], "what it sets, in a crate that knows no knobs"),
    (
        "workload/src/process_knob.rs",
        &["process.cpu_affinity", "process.sched_policy", "process.sched_slice_ns", "process.timer_slack_ns"],
        "what it sets, in a crate that knows no knobs; a test of `trial` compares it with what the knobs say",
    ),
    ("workload/src/workloads/arena.rs", &["process.timer_slack_ns"], "the server sets it by itself"),
    (
        "workload/src/workloads/drain.rs",
        &["net.core.rmem_default", "net.core.rmem_max"],
        "the kernel's own names, in help",
    ),
    ("workload/src/workloads/tick.rs", &["process.timer_slack_ns"], "the server sets it by itself"),
];

/// The string literals of product code. Leaves out comments, and the tests at the end of a file.
fn literals(code: &str) -> Vec<String> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let (mut found, mut rest) = (Vec::new(), code.as_str());
    while let Some((before, behind)) = rest.split_once('"') {
        // This quotation mark is part of a character literal: '"' or b'"'.
        if before.ends_with('\'') && behind.starts_with('\'') {
            rest = behind;
            continue;
        }
        let raw = before.chars().rev().take_while(|letter| *letter == '#').count();
        let is_raw = before.trim_end_matches('#').ends_with('r');
        let end = match is_raw {
            true => behind.find(&format!("\"{}", "#".repeat(raw))),
            false => {
                let mut escaped = false;
                behind.find(|letter| match letter {
                    _ if escaped => {
                        escaped = false;
                        false
                    }
                    '\\' => {
                        escaped = true;
                        false
                    }
                    letter => letter == '"',
                })
            }
        };
        let end = end.unwrap_or(behind.len());
        found.push(behind[..end].to_owned());
        rest = behind.get(end + 1..).unwrap_or_default();
    }
    found
}

/// The knobs whose ids are in the code. An id with a dot counts as a word of a string literal.
/// An id without a dot counts only if it is the whole literal.
fn named(code: &str) -> BTreeSet<&'static str> {
    let literals = literals(code);
    let names = |id: &str, literal: &str| match id.contains('.') {
        false => literal == id,
        true => literal.match_indices(id).any(|(at, _)| {
            let goes_on = |letter: char| letter.is_alphanumeric() || letter == '_';
            let before = literal[..at].chars().next_back();
            let mut behind = literal[at + id.len()..].chars();
            let next = behind.next();
            let is_longer = next == Some('.') && behind.next().is_some_and(char::is_alphanumeric);
            !before.is_some_and(|letter| goes_on(letter) || letter == '.' || letter == '/')
                && !next.is_some_and(goes_on)
                && !is_longer
        }),
    };
    let is_named = |id: &&str| literals.iter().any(|literal| names(id, literal));
    knobs::ALL.iter().map(|knob| knob.id).filter(is_named).collect()
}

fn is_product(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let is_test = |part: &&str| *part == "tests" || part.ends_with("tests.rs") || *part == "testing.rs";
    parts.get(1) == Some(&"src") && parts[0] != "testkit" && !parts.iter().any(is_test)
}

#[test]
fn no_product_code_names_a_knob_outside_its_file() {
    let crates = project().join("crates");
    let mut needed = BTreeSet::new();
    for path in files(&crates, "rs") {
        let path: PathBuf = path.strip_prefix(&crates).unwrap().to_owned();
        if !is_product(&path) || path.starts_with("host/src/knobs") {
            continue;
        }
        let found = named(&read(&crates.join(&path)));
        let exempt = EXEMPT.iter().find(|(file, _, _)| path == Path::new(file));
        for id in found {
            let is_exempt = exempt.is_some_and(|(_, ids, _)| ids.contains(&id));
            assert!(is_exempt, "{}: {id}: say it in the knob's file, as typed data", path.display());
            needed.insert((path.display().to_string(), id));
        }
    }
    for (file, ids, _) in EXEMPT {
        for id in ids {
            assert!(needed.contains(&(file.to_owned(), *id)), "no longer needed: {file}: {id}");
        }
    }
}

#[test]
fn the_rule_sees_what_it_is_to_see() {
    for code in [
        "if knob.id == \"vm.swappiness\" {",
        "const ROWS: &[(&str, u32)] = &[\n    (\"a\", 1),\n    (\"net.rings\", 2),\n];",
        "let why = format!(\"see `evenkeel explain thp.enabled`.\");",
        "match knob {\n    \"clocksource\" => 1,\n    _ => 2,\n}",
        "let quote = '\"'; let id = \"irq.affinity\";",
        "let raw = r#\"a \"quoted\" vm.dirty_bytes\"#;",
        "let text = \"he said \\\"net.rps_cpus\\\"\";",
    ] {
        assert_eq!(named(code).len(), 1, "{code}: {:?}", named(code));
    }
    for code in [
        "// what \"vm.swappiness\" does",
        "let path = \"/proc/sys/vm/swappiness\";",
        "const NAMED: [&str; 1] = [\"clocksource=\"];",
        "let other = \"vm.swappiness_of_ours my.vm.swappiness vm.swappiness.x\";",
        "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    const KNOB: &str = \"vm.swappiness\";\n}",
    ] {
        assert_eq!(named(code), BTreeSet::new(), "{code}");
    }
    assert!(is_product(Path::new("change/src/persist/link.rs")));
    for path in ["change/tests/suite/main.rs", "change/src/persist/tests/mod.rs", "trial/src/engaged/tests.rs"] {
        assert!(!is_product(Path::new(path)), "{path}");
    }
}
