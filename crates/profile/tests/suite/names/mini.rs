//! Names of programs that were stripped as in Fedora and RHEL: the names of their own functions are in `.gnu_debugdata`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use evenkeel_profile::names::Function;
use evenkeel_profile::symbols::Why;
use evenkeel_testkit::skipped;

use super::{Program, named, program, run};

/// Strips a program as GDB's manual describes ("MiniDebugInfo"). Returns false, recorded as skipped, if xz is not installed.
fn strip_to_mini(program: &Program) -> bool {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let inside = |name: &str| text(&program.folder.path().join(name));
    let (path, mini, keep) = (text(&program.path), inside("mini"), inside("keep"));
    let listed = |flags: &[&str]| -> BTreeSet<String> {
        let listed = run("nm", &[flags, &["--format=posix", "--defined-only", &path]].concat());
        listed.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
    };
    let own: Vec<String> = listed(&[]).difference(&listed(&["-D"])).cloned().collect();
    std::fs::write(&keep, own.join("\n")).unwrap();
    run("objcopy", &["--only-keep-debug", &path, &inside("debug")]);
    run("objcopy", &["-S", "--remove-section=.comment", &format!("--keep-symbols={keep}"), &inside("debug"), &mini]);
    run("strip", &["--strip-all", &path]);
    if !Command::new("xz").arg(&mini).status().is_ok_and(|status| status.success()) {
        skipped("there is no xz here");
        return false;
    }
    run("objcopy", &[&format!("--add-section=.gnu_debugdata={mini}.xz"), &path]);
    true
}

fn all_are(found: &[Vec<Function>], name: &str) -> bool {
    !found.is_empty() && found.iter().all(|functions| functions == &[Function::named(name)])
}

#[test]
fn own_functions_of_a_stripped_program_are_named_by_its_mini_debug_info() {
    let program = program("inlined.c", "gcc", &["-O2", "-Wl,--build-id", "-Wl,--export-dynamic"]);
    if !strip_to_mini(&program) {
        return;
    }
    let [own, others] = ["hidden", "outer"].map(|name| program.recording(name, Some(&program.build_id)));
    let (found, symbols) = named(&own, program.settings());
    assert!(all_are(&found, "hidden"), "{found:?}");
    assert_eq!(symbols.coverage().unnamed, []);
    assert!(all_are(&named(&others, program.settings()).0, "outer"), "what others may see is not in it");
    // A damaged section is ignored. The other names are still found.
    let mut bytes = std::fs::read(&program.path).unwrap();
    let at = bytes.windows(6).position(|window| window == b"\xfd7zXZ\0").unwrap();
    for byte in &mut bytes[at + 40..at + 80] {
        *byte ^= 0x55;
    }
    std::fs::write(&program.path, bytes).unwrap();
    let (found, symbols) = named(&own, program.settings());
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
    assert_eq!(symbols.coverage().unnamed[0].why, Why::NoSymbols);
    assert!(all_are(&named(&others, program.settings()).0, "outer"));
}
