//! Names of programs whose line information is in separate files: next to the program, in the build folder, or in one package.
//! Also tests files of another program, damaged files, and missing files.

use std::os::unix::fs::symlink;

use super::*;

const SPLIT: &[&str] = &["-g", "-gsplit-dwarf", "-O2", "-Wl,--build-id"];

/// Compiles a program, and returns it with its unit's file. None, recorded as skipped, if the compiler does not write this file.
fn split(more: &[&str]) -> Option<(Program, PathBuf)> {
    if Command::new("gcc").arg("--version").output().is_err() {
        skipped("there is no compiler here");
        return None;
    }
    let program = program("inlined.c", "gcc", &[SPLIT, more].concat());
    let is_unit = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "dwo");
    let mut files = std::fs::read_dir(program.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let Some(unit) = files.find(is_unit) else {
        skipped("the compiler here splits nothing off");
        return None;
    };
    Some((program, unit))
}

fn found(program: &Program) -> Vec<Vec<Function>> {
    named(&program.recording("outer", Some(&program.build_id)), program.settings()).0
}

/// Checks that `outer` is the only function of each place, and that lines are known.
fn assert_outer_alone(found: &[Vec<Function>]) {
    let is_it = |functions: &Vec<Function>| functions.len() == 1 && functions[0].name == "outer";
    assert!(found.iter().all(is_it), "{found:?}");
    assert!(found.iter().any(|functions| functions[0].line > 0), "lines are the program's own: {found:?}");
}

#[test]
fn inlined_functions_are_named_by_the_file_of_their_unit() {
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let Some((program, unit)) = split(&[version]) else { return };
        assert_inlined(&found(&program));
        let away = program.folder.path().join("away");
        std::fs::rename(&unit, &away).unwrap();
        assert_outer_alone(&found(&program));
        // A file with another ID belongs to another program, so the reader does not use it.
        let Some((_other, its_unit)) = split(&[version, "-O3"]) else { return };
        std::fs::copy(&its_unit, &unit).unwrap();
        assert_outer_alone(&found(&program));
        // The path is a pipe. The reader must not wait for it.
        std::fs::remove_file(&unit).unwrap();
        run("mkfifo", &[unit.to_str().unwrap()]);
        assert_outer_alone(&found(&program));
        std::fs::remove_file(&unit).unwrap();
        symlink(&away, &unit).unwrap();
        assert_inlined(&found(&program));
    }
}

#[test]
fn a_unit_is_found_where_it_was_built_and_next_to_the_program() {
    let Some((mut program, unit)) = split(&[]) else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("program");
    std::fs::copy(&program.path, &moved).unwrap();
    program.path = moved;
    assert_inlined(&found(&program));
    std::fs::rename(&unit, elsewhere.path().join(unit.file_name().unwrap())).unwrap();
    assert_inlined(&found(&program));
}

#[test]
fn packed_units_are_found_next_to_the_program() {
    if Command::new("dwp").arg("--version").output().is_err() {
        skipped("there is no dwp here");
        return;
    }
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let Some((program, unit)) = split(&[version]) else { return };
        let package = program.folder.path().join("program.dwp");
        let (of, to) = (program.path.to_str().unwrap(), package.to_str().unwrap());
        let made = Command::new("dwp").args(["-e", of, "-o", to]).output().unwrap();
        if !made.status.success() {
            skipped(format_args!("dwp here does not pack {version}: {}", String::from_utf8_lossy(&made.stderr)));
            continue;
        }
        std::fs::remove_file(&unit).unwrap();
        assert_inlined(&found(&program));
        // If the file appears later, the cached names are replaced.
        let away = program.folder.path().join("away");
        std::fs::rename(&package, &away).unwrap();
        let kept = Settings { cache_folder: Some(program.folder.path().join("cache")), ..program.settings() };
        let recording = program.recording("outer", Some(&program.build_id));
        assert_outer_alone(&named(&recording, kept.clone()).0);
        std::fs::rename(&away, &package).unwrap();
        assert_inlined(&named(&recording, kept).0);
        damaged(&program, &package);
    }
}

#[test]
fn damaged_units_end_nothing() {
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let Some((program, unit)) = split(&[version]) else { return };
        damaged(&program, &unit);
    }
}

/// Whatever the file contains, each place keeps its name from the program itself.
fn damaged(program: &Program, file: &Path) {
    let whole = std::fs::read(file).unwrap();
    let length = whole.len();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    // Headers and tables are damaged as often as the rest, although they are short.
    let place = prop_oneof![0..64_usize, length - 1200..length, 0..length, 0..length, 0..length];
    let hits = prop::collection::vec((place, any::<u8>()), 1..20);
    let cases = (hits, prop_oneof![4 => Just(length), 1 => 0..length]);
    for _ in 0..150 {
        let (hits, end) = cases.new_tree(&mut runner).unwrap().current();
        let mut bytes = whole.clone();
        for (at, value) in hits {
            bytes[at] = value;
        }
        bytes.truncate(end);
        std::fs::write(file, &bytes).unwrap();
        let found = found(program);
        assert!(
            found.iter().all(|functions| functions.first().is_some_and(|first| first.name == "outer")),
            "{found:?}"
        );
    }
}
