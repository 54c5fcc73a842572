//! Tests scripts that fail half-way. The script itself restores everything.
//! If the script was killed, the undo script that it left restores everything.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;

use evenkeel_host::{Action, Reading};

use super::same::theirs;
use super::{At, Place, every_content, one_step, well};
use crate::persist_plan::{Content, PersistedFile};
use crate::plan_file::PlanFile;
use crate::render::script;

const SWAPPINESS: &str = "/proc/sys/vm/swappiness";

/// A plan with two values, and then a file whose path is a folder here.
fn fails_at_its_end() -> (Place, PlanFile) {
    let place = Place::new();
    place.write(SWAPPINESS, "60\n");
    place.write("/sys/mm/enabled", "always [madvise] never\n");
    place.write("/etc/is-a-folder/x", "");
    let mut plan = one_step(SWAPPINESS, Reading::Plain, "10");
    plan.steps.extend(one_step("/sys/mm/enabled", Reading::ChosenWord, "never").steps);
    let mut persist = every_content().persist.unwrap();
    persist.persist.commands.clear();
    persist.persist.files.truncate(1);
    let content = Content::Whole { text: "x\n".into(), mode: 0o644 };
    persist.persist.files.push(PersistedFile { path: "/etc/is-a-folder".into(), content });
    plan.persist = Some(persist);
    (place, plan)
}

#[test]
fn a_step_that_fails_takes_all_with_it() {
    let (place, plan) = fails_at_its_end();
    let before = place.tree();
    let output = place.run(&script(&plan).unwrap());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("failed to write /etc/is-a-folder: it is neither a file nor a link"), "{said}");
    assert!(said.contains("put back: /proc/sys/vm/swappiness = 60 (was 10)"), "{said}");
    place.write("/sys/mm/enabled", "always [madvise] never\n");
    assert_eq!(place.tree(), before);
}

/// Whether this process ignores the signal. Its children then ignore it too.
fn is_ignored(signal: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

#[test]
fn a_signal_takes_all_with_it() {
    for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
        // A shell cannot catch a signal that was ignored when the shell started. nohup ignores one signal,
        // and a script's background jobs ignore another.
        if is_ignored(number) {
            evenkeel_testkit::skipped(format_args!("whoever started the tests ignores SIG{signal}"));
            continue;
        }
        let (place, mut plan) = fails_at_its_end();
        plan.persist.as_mut().unwrap().persist.files.truncate(1);
        let text = script(&plan).unwrap().replace("\nplace 644", &format!("\nkill -{signal} $$\nplace 644"));
        let output = place.run(&text);
        assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!((place.text(SWAPPINESS), place.undo_script()), ("60\n".to_owned(), None));
    }
}

#[test]
fn missing_files_change_nothing() {
    let place = Place::new();
    let output = place.run(&script(&one_step(SWAPPINESS, Reading::Plain, "10")).unwrap());
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "evenkeel: failed to set /proc/sys/vm/swappiness: it is not here\n"
    );
    assert!(place.tree().is_empty() && place.undo_script().is_none());
}

#[test]
fn the_original_value_is_restored() {
    let place = Place::new();
    place.write(SWAPPINESS, "60\n");
    let script = script(&one_step(SWAPPINESS, Reading::Plain, "10")).unwrap();
    well(&place.run(&script));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let undo = place.undo_script().unwrap();
    assert_eq!((mode(undo.parent().unwrap()), mode(&undo)), (0o700, 0o600));
    place.write(SWAPPINESS, "30\n");
    well(&place.run(&script));
    assert_eq!(place.text(SWAPPINESS), "10\n");
    well(&place.sh(&undo));
    assert_eq!(place.text(SWAPPINESS), "60\n", "not the 30 of a run in between, nor a 10 of our own");
}

#[test]
fn values_of_another_boot_are_not_put_back() {
    let place = Place::new();
    place.write(SWAPPINESS, "60\n");
    place.write("/proc/sys/kernel/random/boot_id", "aaaa-1\n");
    let script = script(&one_step(SWAPPINESS, Reading::Plain, "10")).unwrap();
    well(&place.run(&script));
    place.write("/proc/sys/kernel/random/boot_id", "bbbb-2\n");
    place.write(SWAPPINESS, "61\n");
    well(&place.run(&script));
    let undo = place.undo_script().unwrap();
    let text = std::fs::read_to_string(&undo).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("old_value ")).count(), 1, "{text}");
    well(&place.sh(&undo));
    assert_eq!(place.text(SWAPPINESS), "61\n");
}

/// Kills the script before each of its commands, both at the first and at the second run of the command.
/// The existing undo script then restores everything.
#[test]
fn killed_anywhere_it_can_be_undone() {
    let (place, mut plan) = fails_at_its_end();
    plan.persist.as_mut().unwrap().persist.files.truncate(1);
    let text = script(&plan).unwrap();
    // The shell counts the lines that it executes, and dies at one of them without running its traps.
    let lines: Vec<&str> = text.lines().collect();
    let is_whole = |line: &str| {
        let line = line.trim();
        ["mv ", "mkdir ", "flush ", "printf ", "cp ", "remember ", "changed=", "rm "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let end = lines.iter().position(|line| *line == "undo_head() {").unwrap();
    let rest = lines.iter().position(|line| line.starts_with("# records KIND")).unwrap();
    let heredoc = |at: usize| {
        let opened = lines[..at].iter().filter(|line| line.ends_with("<<'EVENKEEL_UNDO'")).count();
        let closed = lines[..at].iter().filter(|line| **line == "EVENKEEL_UNDO").count();
        opened > closed
    };
    let may_die = |at: &usize| is_whole(lines[*at]) && !(end..end + 3).contains(at) && !heredoc(*at);
    // A first run shows which lines the script reaches, and how often.
    let passed = place.path("passed");
    let mut counted: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    for at in (rest..lines.len()).filter(may_die).rev() {
        counted.insert(at, format!("echo {at} >>'{}'", passed.display()));
    }
    place.run(&counted.join("\n"));
    let passed = std::fs::read_to_string(&passed).unwrap();
    let mut times: BTreeMap<usize, usize> = BTreeMap::new();
    for at in passed.lines() {
        *times.entry(at.parse().unwrap()).or_default() += 1;
    }
    let deaths = times.iter().flat_map(|(at, times)| (1..=2.min(*times)).map(move |count| (*at, count)));
    let mut killed = 0;
    for (at, count) in deaths {
        let (place, _) = fails_at_its_end();
        let before = place.tree();
        let kill = format!("deaths=$((${{deaths:-0}} + 1)); if [ \"$deaths\" -eq {count} ]; then kill -9 $$; fi");
        let mut fatal = lines.clone();
        fatal.insert(at, &kill);
        let output = place.run(&fatal.join("\n"));
        let is_killed = output.status.signal() == Some(9);
        // A subshell does not keep its count. So the script dies at the first run of the line or never.
        assert!(is_killed || count > 1, "not killed at line {at}: {}", lines[at]);
        killed += usize::from(is_killed);
        if let Some(undo) = place.undo_script() {
            well(&place.sh(&undo));
        }
        if place.text("/sys/mm/enabled") == "madvise\n" {
            place.write("/sys/mm/enabled", "always [madvise] never\n");
        }
        let drafts = |path: &String| path.ends_with(".evenkeel-draft");
        let now: Vec<(String, At)> = place.tree().into_iter().filter(|(path, _)| !drafts(path)).collect();
        assert_eq!(now, before.into_iter().collect::<Vec<_>>(), "killed at line {at}: {}", lines[at]);
    }
    assert!(killed > 20, "{killed}");
}

/// A folder has the draft's name, so the script could not write a file, and the undo script could not restore one.
#[test]
fn a_folder_with_the_name_of_a_draft_is_not_in_the_way() {
    let place = theirs();
    let plan = every_content();
    let taken = |number: &str| {
        for file in &plan.persist.as_ref().unwrap().persist.files {
            let (folder, name) = file.path.rsplit_once('/').unwrap();
            place.write(&format!("{folder}/.{name}.evenkeel-draft{number}/theirs"), "");
        }
    };
    taken("");
    let before = place.tree();
    well(&place.run(&script(&plan).unwrap()));
    assert_eq!(place.text("/etc/there"), "new\n");
    // Other files appear between the script and its undo.
    // The undo removes drafts that a killed script left next to them.
    place.write("/etc/.there.evenkeel-draft-2", "half");
    taken("-1");
    well(&place.sh(&place.undo_script().unwrap()));
    let mut now = place.tree();
    now.retain(|path, _| !path.contains(".evenkeel-draft-1"));
    assert_eq!(now, before);
}

#[test]
fn no_link_leads_out_of_the_root() {
    let outside = Place::new();
    outside.write("/victim", "60\n");
    let (file, folder) = (outside.at("/victim"), outside.at("/"));
    let place = Place::new();
    std::fs::create_dir_all(place.at("/proc/sys/vm")).unwrap();
    symlink(&file, place.at(SWAPPINESS)).unwrap();
    symlink(&folder, place.at("/etc")).unwrap();
    symlink(&folder, place.at("/sys")).unwrap();
    let before = outside.tree();
    let mut persist = one_step(SWAPPINESS, Reading::Plain, "10");
    persist.steps.clear();
    persist.persist = every_content().persist;
    for plan in [one_step(SWAPPINESS, Reading::Plain, "10"), one_step("/sys/victim", Reading::Plain, "10"), persist] {
        let output = place.run(&script(&plan).unwrap());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("leads out of"), "{said}");
        assert_eq!(outside.tree(), before);
    }
}

#[test]
fn an_interrupt_is_served_by_some_that_may() {
    for (effective, code) in [("2\n", 0), ("2-3\n", 0), ("\n", 0), ("0\n", 5), ("1-2\n", 5)] {
        let place = Place::new();
        place.write("/proc/irq/9/smp_affinity_list", "0-7\n");
        place.write("/proc/irq/9/effective_affinity_list", effective);
        let mut plan = one_step("/proc/irq/9/smp_affinity_list", Reading::CpuList, "2-3");
        let Action::Write { in_force, .. } = &mut plan.steps[0].step.action else { unreachable!() };
        *in_force = Some("/proc/irq/9/effective_affinity_list".into());
        // No CPU ever serves an interrupt here, so the script need not wait.
        let output = place.run(&script(&plan).unwrap().replace("sleep 0.05", "sleep 0"));
        assert_eq!(output.status.code(), Some(code), "{effective}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(place.text("/proc/irq/9/smp_affinity_list"), if code == 0 { "2-3\n" } else { "0-7\n" });
    }
}

/// The same order as in `exclusive_pair`:
/// the script restores the file that was in use first, and never writes 0 to the bytes.
#[test]
fn both_spellings_of_a_limit_come_back() {
    let (ratio, bytes) = ("/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_bytes");
    for (before, own, wanted) in
        [(("20", "0"), bytes, "8192"), (("0", "8192"), ratio, "10"), (("20", "0"), ratio, "10")]
    {
        let place = Place::new();
        place.write(ratio, &format!("{}\n", before.0));
        place.write(bytes, &format!("{}\n", before.1));
        let tree = place.tree();
        let other = if own == ratio { bytes } else { ratio };
        let mut plan = one_step(own, Reading::Plain, wanted);
        let Action::Write { side_effects, .. } = &mut plan.steps[0].step.action else { unreachable!() };
        side_effects.push(other.to_owned());
        well(&place.run(&script(&plan).unwrap()));
        // The kernel would change this file too.
        place.write(other, "0\n");
        let said = well(&place.sh(&place.undo_script().unwrap()));
        let used = if before.0 == "0" { bytes } else { ratio };
        let first = said.lines().next().unwrap();
        assert!(first.contains(used), "{before:?}: {said}");
        if own == bytes {
            // A write to the share makes the kernel set the bytes to 0. Here the test sets the bytes.
            assert!(said.contains("dirty_bytes"), "{said}");
        }
        assert_eq!(place.text(used), if used == ratio { "20\n" } else { "8192\n" });
        drop(tree);
    }
}
