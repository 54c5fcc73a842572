//! Tests the rules of the documents: dependencies between crates, where `unsafe` is allowed, the length of files,
//! and that the commands and files in README and CONTRIBUTING exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maximum number of lines of a file. A longer file usually has two subjects.
/// The rule says "about 500", and this limit leaves room for one table.
const LINES_MAX: usize = 560;

/// The crates that each crate may use. These are the arrows in ARCHITECTURE.md.
const ARROWS: [(&str, &[&str]); 16] = [
    ("sys", &[]),
    ("stats", &[]),
    ("hostfs", &["sys"]),
    ("testkit", &["stats", "sys"]),
    ("host", &["hostfs", "sys"]),
    ("change", &["host", "hostfs", "sys"]),
    ("measure", &["hostfs", "stats", "sys"]),
    ("workload", &["hostfs", "measure", "stats", "sys"]),
    ("trial", &["host", "hostfs", "change", "workload", "stats", "sys"]),
    ("rt", &["stats", "sys"]),
    ("rt-c", &["rt"]),
    ("arena", &["rt"]),
    ("profile", &["hostfs", "measure", "stats", "sys"]),
    ("watch", &["host", "hostfs", "change", "measure", "profile", "workload", "stats", "sys"]),
    ("fleet", &["host", "change", "trial", "watch", "stats"]),
    (
        "evenkeel",
        &[
            "arena", "host", "hostfs", "change", "measure", "profile", "workload", "trial", "watch", "fleet", "stats",
            "sys", "rt",
        ],
    ),
];

pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below `folder` with this extension, except build output.
pub(crate) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.ends_with(".git") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn arrows_between_crates_are_the_drawn_ones() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into();
    let folder = project().join("crates");
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let manifest = read(&folder.join(&name).join("Cargo.toml"));
        let arrows =
            allowed.get(name.as_str()).unwrap_or_else(|| panic!("crate {name} has no row in the table of arrows"));
        let (product, tests) = manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
        assert!(!product.contains("\nevenkeel-testkit"), "{name}: the testkit is a dev-dependency only");
        // The tests of every crate may use the test kit.
        let tests = tests.lines().filter(|line| !line.starts_with("evenkeel-testkit"));
        for line in product.lines().chain(tests).filter(|line| line.starts_with("evenkeel-")) {
            let used = line.trim_start_matches("evenkeel-").split(['.', ' ', '=']).next().unwrap();
            assert!(arrows.contains(&used), "{name} uses {used}, which no arrow allows");
        }
        seen.insert(name);
    }
    assert_eq!(seen, allowed.keys().map(|name| (*name).to_owned()).collect(), "a crate of the table is missing");
}

#[test]
fn unsafe_code_has_its_addresses() {
    for entry in std::fs::read_dir(project().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = read(&folder.join("Cargo.toml"));
        let inherits = manifest.contains("[lints]\nworkspace = true");
        assert_eq!(
            inherits,
            !folder.ends_with("sys") && !folder.ends_with("rt-c"),
            "{}: all but sys and rt-c inherit the workspace's lints",
            folder.display()
        );
    }
    assert!(read(&project().join("Cargo.toml")).contains("unsafe_code = \"forbid\""));
}

#[test]
fn the_host_crate_cannot_write() {
    for path in files(&project().join("crates/host/src"), "rs") {
        let text = read(&path);
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let names = |word| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word);
            assert!(!names("HostWriter"), "{}: {line}", path.display());
            for door in ["std::fs", "std::process", "std::net"] {
                assert!(!line.contains(door), "{}: {line}", path.display());
            }
        }
    }
}

#[test]
fn reading_a_host_starts_no_child_process() {
    for crate_name in ["sys", "hostfs", "host"] {
        for path in files(&project().join("crates").join(crate_name).join("src"), "rs") {
            // Skip the two files about child processes: one prepares the programs of trials,
            // and the other suspends a recorded program until the recorder is ready.
            if path.ends_with("sys/src/process.rs") || path.ends_with("sys/src/suspended_child.rs") {
                continue;
            }
            let text = read(&path);
            // A test may start programs for the code under test.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            assert!(!code.contains("Command::new"), "{} starts a process", path.display());
        }
    }
}

#[test]
fn only_the_program_prints_and_exits() {
    for crate_name in
        ["sys", "hostfs", "stats", "host", "change", "measure", "profile", "workload", "trial", "fleet", "rt", "rt-c"]
    {
        for path in files(&project().join("crates").join(crate_name).join("src"), "rs") {
            if path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs") {
                continue;
            }
            let text = read(&path);
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for word in ["println!", "eprintln!", "print!(", "process::exit"] {
                let said =
                    code.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| line.contains(word));
                assert!(!said, "{} has {word}", path.display());
            }
        }
    }
}

#[test]
fn files_have_one_subject_each() {
    for path in files(&project().join("crates"), "rs") {
        let text = read(&path);
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
        assert!(text.starts_with("//!"), "{} does not say why it exists", path.display());
    }
}

/// The folder separates tests from live checks. Cargo links every test program separately.
/// So a crate has one program of tests and one of live checks,
/// and at most one more for tests that need their own process.
#[test]
fn a_crate_has_one_program_of_tests_and_one_of_live_checks() {
    for entry in std::fs::read_dir(project().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(tests) = std::fs::read_dir(folder.join("tests")) else { continue };
        let is_program =
            |path: &PathBuf| path.join("main.rs").exists() || path.extension().is_some_and(|end| end == "rs");
        let programs = tests.map(|entry| entry.unwrap().path()).filter(is_program);
        let programs: Vec<String> =
            programs.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        let others = programs.iter().filter(|name| *name != "suite" && *name != "live").count();
        assert!(others <= 1, "{}: {programs:?}", folder.display());
        let is_left_out = programs.iter().any(|name| name != "live" && name.starts_with('l'));
        assert!(!is_left_out, "{}: lab/tests.sh runs no program with an initial l: {programs:?}", folder.display());
        let manifest = read(&folder.join("Cargo.toml"));
        let is_separate =
            manifest.split("[[test]]").any(|part| part.contains("name = \"live\"") && part.contains("test = false"));
        let has_live = programs.contains(&"live".to_owned());
        assert_eq!(has_live, is_separate, "{}: `cargo test` must not run live checks", folder.display());
    }
}

/// lab/tests.sh skips this crate when it runs the examples in the documentation.
#[test]
fn the_fleet_crate_has_no_examples_to_run() {
    for path in files(&project().join("crates/fleet/src"), "rs") {
        let text = read(&path);
        let fences =
            text.lines().filter_map(|line| line.trim().trim_start_matches(['/', '!', ' ']).strip_prefix("```"));
        let has_example = fences.step_by(2).any(|kind| kind != "text");
        assert!(!has_example, "{}: lab/tests.sh does not run it", path.display());
    }
}

/// Code that several crates share must be in the test kit.
#[test]
fn no_source_file_includes_one_of_another_crate() {
    for path in files(&project().join("crates"), "rs") {
        for line in read(&path).lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")) {
            let included = path.parent().unwrap().join(line.split('"').next().unwrap());
            let included = included.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let of =
                |path: &Path| path.strip_prefix(project()).unwrap().components().nth(1).unwrap().as_os_str().to_owned();
            // The fuzz targets are a separate workspace. The suite includes their code to run it on the corpus.
            let is_fuzz = included.starts_with(project().join("fuzz"));
            assert!(is_fuzz || of(&included) == of(&path), "{} includes {}", path.display(), included.display());
        }
    }
}

#[test]
fn the_readme_names_two_make_targets_that_exist() {
    let readme = read(&project().join("README.md"));
    let makefile = read(&project().join("Makefile"));
    let named: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let targets: Vec<&str> = named.iter().filter_map(|line| line.strip_prefix("make ")?.split(' ').next()).collect();
    assert_eq!(targets, ["demo", "test"], "{named:?}");
    for target in targets {
        assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "make {target}");
    }
}

#[test]
fn the_readmes_commands_run() {
    let readme = read(&project().join("README.md"));
    // Skip the block that installs evenkeel.
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let is_ours = |block: &&str| block.lines().all(|line| line.starts_with("evenkeel "));
    let block = blocks.into_iter().find(is_ours).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut ran = 0;
    for line in block.lines() {
        let line = line.replace("/tmp/", &format!("{}/", folder.path().display())).replacen(
            "evenkeel",
            env!("CARGO_BIN_EXE_evenkeel"),
            1,
        );
        let line = match line.contains("apply ") {
            // The result of this command depends on the machine, but it must succeed.
            true => format!("{line} --state {}/state", folder.path().display()),
            false => line,
        };
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        ran += 1;
    }
    assert!(ran >= 5, "{ran} commands");
}

#[test]
fn files_that_the_documents_name_are_there() {
    let mut named = 0;
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = read(&project().join(document));
        let quoted = text.split('`').skip(1).step_by(2);
        let linked = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for path in quoted.chain(linked).filter(|path| !path.contains([' ', '…', '<', '*'])) {
            let is_path = path.ends_with(".md")
                || path.ends_with(".rs")
                || path.starts_with("crates/")
                || path.starts_with("LICENSE");
            if is_path
                && !path.starts_with("tests/")
                && path.contains(['/', '.'])
                && !path.contains("NAME")
                && !path.contains("CLOUD")
            {
                let at = [
                    project().join(path),
                    project().join("crates").join(path),
                    project().join("crates/host/src").join(path),
                ];
                assert!(at.iter().any(|path| path.exists()), "{document} names {path}");
                named += 1;
            }
        }
    }
    assert!(named > 10, "{named} files named");
}

#[test]
fn the_walks_of_the_architecture_name_functions_that_are_there() {
    let text = read(&project().join("ARCHITECTURE.md"));
    let walks = text.split("## Two walks").nth(1).and_then(|text| text.split("\n## ").next()).unwrap();
    let mut steps = 0;
    for row in walks.lines().filter(|line| line.starts_with('|') && line.contains('`')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, function, path] = cells[..] else { panic!("three cells: {row}") };
        let name = function.rsplit("::").next().unwrap();
        let code = read(&project().join(path));
        let is_there = [format!("fn {name}("), format!("fn {name}<"), format!("const {name}:")];
        assert!(is_there.iter().any(|declared| code.contains(declared.as_str())), "{path} has no {function}");
        steps += 1;
    }
    assert_eq!(steps, 22);
}

/// Commands that open the journal of their host, or take its lock for trials.
pub(crate) const OF_THE_JOURNAL: [&str; 6] = ["apply", "confirm", "demo", "prove", "revert", "tune"];

/// Commands that tests name without a state directory, each with the reason.
const WITHOUT_STATE: [(&str, &str, &str); 14] = [
    ("common/schemas.rs", "demo", "the name of a command, whose answer has a schema"),
    ("suite/boots.rs", "prove", "each line beneath names a captured host or a state directory"),
    ("suite/audit.rs", "apply net.core.busy_poll=50", "a page's text"),
    ("suite/audit.rs", "apply thp.enabled", "a page's text"),
    ("suite/change.rs", "apply vm.swappiness=10", "the line is completed beneath"),
    ("suite/change.rs", "revert", "the line is completed beneath"),
    ("suite/fleet_prove.rs", "prove", "that of `fleet`, which has no journal of its own"),
    ("suite/formats.rs", "apply", "names of answers, no command lines"),
    ("suite/formats.rs", "revert", "names of answers, no command lines"),
    ("suite/pages.rs", "apply", "the name of a command, which is asked for its help"),
    ("suite/pages.rs", "confirm", "the name of a command, which is asked for its help"),
    ("suite/pages.rs", "demo", "the name of a command, which is asked for its help"),
    ("suite/pages.rs", "revert", "the name of a command, which is asked for its help"),
    ("suite/this_machine.rs", "revert", "refused before it looks for one: the program has borrowed rights"),
];

/// Data that a test leaves in root's own state directory would affect every later command on the machine.
#[test]
fn tests_that_open_a_journal_name_its_directory() {
    let folder = project().join("crates/evenkeel/tests");
    let (mut seen, mut exempt) = (0, BTreeSet::new());
    for file in files(&folder, "rs").into_iter().filter(|file| !file.ends_with("rules.rs")) {
        let (name, text) = (file.strip_prefix(&folder).unwrap().display().to_string(), read(&file));
        // If a file contains one of these texts, its helpers add `--state` to each line.
        let ways = [
            ".arg(\"--state\")",
            "[\"--state\".into()",
            "\"--state\"]",
            "use crate::scene::",
            "use crate::live_host::",
        ];
        let adds = ways.iter().any(|way| text.contains(way));
        for literal in text.split('"').skip(1).step_by(2) {
            let word = literal.split_whitespace().next().unwrap_or_default();
            if !OF_THE_JOURNAL.contains(&word) {
                continue;
            }
            seen += 1;
            let elsewhere = ["--state", "--host", "prove compare", "--plan-only", "prove report", "prove workloads"];
            if adds || elsewhere.iter().any(|option| literal.contains(option)) {
                continue;
            }
            let reason = WITHOUT_STATE.iter().find(|(of, line, _)| *of == name && *line == literal);
            let reason = reason.unwrap_or_else(|| {
                panic!("{name}: \"{literal}\" would open root's own journal: give it --state");
            });
            exempt.insert(reason);
        }
    }
    assert!(seen > 50, "{seen} commands were found");
    assert_eq!(exempt.len(), WITHOUT_STATE.len(), "a reason is no longer needed: {exempt:?}");
}
