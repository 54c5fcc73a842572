//! Names of real programs, which the tests compile: with and without symbols, replaced, and damaged.

mod mini;
mod split;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use evenkeel_profile::names::{Function, Names};
use evenkeel_profile::recording::{Mapping, Recording, Sample};
use evenkeel_profile::stack::{Frame, Module};
use evenkeel_profile::symbols::{Settings, Symbols, Why};
use evenkeel_testkit::skipped;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use tempfile::TempDir;

/// A compiled program, and the places of its functions by their linker names.
struct Program {
    folder: TempDir,
    path: PathBuf,
    build_id: Vec<u8>,
    functions: BTreeMap<String, (u64, u64)>,
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles one of the programs in `tests/programs`.
fn program(source: &str, compiler: &str, flags: &[&str]) -> Program {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (from, to) = (text(&source), text(&path));
    run(compiler, &[&[from.as_str(), "-o", to.as_str()], flags].concat());
    let listed = run("nm", &["-S", to.as_str()]);
    let number = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
    let functions = listed.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [start, size, "t" | "T" | "W", name] = words.as_slice() else { return None };
        Some(((*name).to_owned(), (number(start), number(size))))
    });
    let functions = functions.collect();
    let notes = run("readelf", &["-n", to.as_str()]);
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap_or_default();
    let build_id = id.as_bytes().chunks(2).map(|two| number(std::str::from_utf8(two).unwrap()) as u8).collect();
    Program { folder, path, build_id, functions }
}

impl Program {
    /// A recording with a sample at every byte of this function. In these programs, code has the same offset in the file and in memory.
    fn recording(&self, function: &str, build_id: Option<&[u8]>) -> Recording {
        let (start, size) = self.functions[function];
        of_places(&self.path, build_id, start..start + size)
    }

    fn settings(&self) -> Settings {
        Settings { debug_folders: vec![self.folder.path().join("debug")], ..Settings::default() }
    }
}

fn of_places(path: &Path, build_id: Option<&[u8]>, offsets: impl Iterator<Item = u64>) -> Recording {
    let mut recording = Recording::default();
    let module = Module { path: path.to_str().unwrap().to_owned(), build_id: build_id.map(<[u8]>::to_vec) };
    let module = recording.modules.number(module);
    for offset in offsets {
        sampled(&mut recording, Frame::InFile { module, offset });
    }
    recording
}

fn sampled(recording: &mut Recording, frame: Frame) {
    let stack = recording.stacks.intern([frame]);
    let nothing = Sample { event: 0, at_ns: 1, cpu: 0, pid: 0, tid: 0, stack, weight: 1, address: 0, raw: (0, 0) };
    recording.samples.push(nothing);
}

/// The functions of each frame, in the order of the frames.
fn functions<'n>(recording: &Recording, names: &'n Names) -> Vec<&'n [Function]> {
    let all = 0..recording.stacks.frames().len();
    all.map(|place| names.at(place).unwrap().functions.as_slice()).collect()
}

fn named(recording: &Recording, settings: Settings) -> (Vec<Vec<Function>>, Symbols) {
    let mut symbols = Symbols::new(settings);
    let names = symbols.names(recording);
    (functions(recording, &names).into_iter().map(<[Function]>::to_vec).collect(), symbols)
}

/// Checks that all places are in `outer`. Also checks that some place is in `leaf`, which is inlined into `outer`, with the line.
fn assert_inlined(found: &[Vec<Function>]) {
    assert!(found.iter().all(|functions| functions.first().is_some_and(|first| first.name == "outer")), "{found:?}");
    let inlined = found.iter().filter(|functions| functions.len() == 2).collect::<Vec<_>>();
    let is_leaf = |functions: &&Vec<Function>| {
        let leaf = &functions[1];
        let file = leaf.file.as_deref().unwrap_or_default();
        leaf.name == "leaf" && leaf.is_inlined && file.ends_with("inlined.c") && leaf.line == 6
    };
    assert!(inlined.iter().any(is_leaf), "{inlined:?}");
    assert!(inlined.iter().all(|functions| functions[0].line == 13 || functions[0].line == 12), "{inlined:?}");
}

const DEBUG: &[&str] = &["-g", "-O2", "-Wl,--build-id"];

#[test]
fn inlined_functions_are_named_with_their_line() {
    let program = program("inlined.c", "gcc", DEBUG);
    let recording = program.recording("outer", Some(&program.build_id));
    let (found, symbols) = named(&recording, program.settings());
    assert_inlined(&found);
    assert_eq!(symbols.coverage().user.of_named(), Some(1.0));
    assert_eq!(symbols.coverage().unnamed, []);
}

#[test]
fn separate_debug_information_is_found_by_build_id_and_by_link() {
    for (is_by_link, packed) in [(false, "zlib"), (true, "zlib"), (false, "none"), (false, "zstd")] {
        let program = program("inlined.c", "gcc", DEBUG);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let path = text(&program.path);
        let separate = if is_by_link {
            program.folder.path().join(".debug/program.debug")
        } else {
            let id: String = program.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            program.folder.path().join(format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..]))
        };
        std::fs::create_dir_all(separate.parent().unwrap()).unwrap();
        let to = text(&separate);
        let compress = format!("--compress-debug-sections={packed}");
        let made = Command::new("objcopy").args(["--only-keep-debug", &compress, &path, &to]).output().unwrap();
        if !made.status.success() {
            skipped(format_args!("objcopy here does not know {packed}"));
            continue;
        }
        run("strip", &[&path]);
        if is_by_link {
            run("objcopy", &[&format!("--add-gnu-debuglink={to}"), &path]);
        }
        let recording = program.recording("outer", Some(&program.build_id));
        assert_inlined(&named(&recording, program.settings()).0);
        // A debug file that belongs to another program is not used.
        let mut bytes = std::fs::read(&separate).unwrap();
        let at = bytes.windows(program.build_id.len()).position(|window| window == program.build_id).unwrap();
        bytes[at] ^= 1;
        std::fs::write(&separate, bytes).unwrap();
        let (found, _) = named(&recording, program.settings());
        assert!(found.iter().all(Vec::is_empty), "{found:?}");
    }
}

#[test]
fn a_stripped_program_says_so_and_its_library_functions_keep_their_names() {
    let program = program("inlined.c", "gcc", &["-O2", "-Wl,--build-id", "-Wl,--export-dynamic"]);
    run("strip", &[program.path.to_str().unwrap()]);
    let (found, _) = named(&program.recording("outer", None), program.settings());
    assert!(found.iter().all(|functions| functions == &[Function::named("outer")]), "{found:?}");
    let (found, symbols) = named(&program.recording("hidden", None), program.settings());
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
    let unnamed = &symbols.coverage().unnamed;
    assert_eq!((unnamed.len(), unnamed[0].why, unnamed[0].share), (1, Why::NoSymbols, 1.0));
}

#[test]
fn names_read_as_they_are_written() {
    let of_rust = ["arena::arena::run", "<arena::arena::World as arena::arena::Step>::step", "arena::main"];
    let rows: [(&str, &str, &[&str], [&str; 3]); 3] = [
        ("world.cc", "g++", &["-g", "-O1"], ["game::World::step", "game::twice<int>", "main"]),
        ("arena.rs", "rustc", &["-g"], of_rust),
        ("arena.rs", "rustc", &["-g", "-Csymbol-mangling-version=v0"], of_rust),
    ];
    for (source, compiler, flags, wanted) in rows {
        let program = program(source, compiler, flags);
        let segments = run("readelf", &["-lW", program.path.to_str().unwrap()]);
        // The offset of the code in the file, and its address in memory.
        let code = segments.lines().find(|line| line.contains("R E")).unwrap().split_whitespace().collect::<Vec<_>>();
        let number = |digits: &str| u64::from_str_radix(digits.trim_start_matches("0x"), 16).unwrap();
        let less = number(code[2]) - number(code[1]);
        let offsets = program.functions.values().map(|(start, _)| start.wrapping_sub(less));
        let recording = of_places(&program.path, None, offsets);
        let (found, _) = named(&recording, program.settings());
        let found: Vec<&str> = found.iter().filter_map(|functions| Some(functions.first()?.name.as_str())).collect();
        for wanted in wanted {
            // In the newer mangling, a name contains the type arguments of a generic function.
            assert!(found.iter().any(|name| name.starts_with(wanted)), "{source}: {wanted} is not among {found:#?}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_into_a_library_has_the_name_of_what_it_calls() {
    for flags in [&["-O2", "-fcf-protection=full"][..], &["-O2", "-fcf-protection=none", "-Wl,-z,lazy"]] {
        let program = program("inlined.c", "gcc", flags);
        run("strip", &[program.path.to_str().unwrap()]);
        let sections = run("readelf", &["-SW", program.path.to_str().unwrap()]);
        let number = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
        let tables = sections.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(']').nth(1)?.split_whitespace().collect();
            words.first()?.starts_with(".plt").then(|| number(words[3])..number(words[3]) + number(words[4]))
        });
        let recording = of_places(&program.path, None, tables.flatten());
        let (found, _) = named(&recording, program.settings());
        let names: Vec<&str> = found.iter().flatten().map(|function| function.name.as_str()).collect();
        assert_eq!(names.iter().filter(|name| name.contains("printf")).count(), 16, "{flags:?}: {names:?}");
    }
}

#[test]
fn a_replaced_program_is_reported_and_its_cached_names_stay() {
    let program = program("inlined.c", "gcc", DEBUG);
    let recording = program.recording("outer", Some(&program.build_id));
    let kept = Settings { cache_folder: Some(program.folder.path().join("cache")), ..program.settings() };
    let (first, _) = named(&recording, kept.clone());
    assert_inlined(&first);
    run("objcopy", &["--remove-section=.note.gnu.build-id", program.path.to_str().unwrap()]);
    let (found, symbols) = named(&recording, program.settings());
    assert!(found.iter().all(Vec::is_empty), "another file's names would be wrong: {found:?}");
    assert_eq!(symbols.coverage().unnamed[0].why, Why::Replaced);
    assert_eq!(named(&recording, kept.clone()).0, first);
    std::fs::remove_file(&program.path).unwrap();
    let (found, symbols) = named(&recording, program.settings());
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
    assert_eq!(symbols.coverage().unnamed[0].why, Why::Gone);
    assert_eq!(named(&recording, kept.clone()).0, first);
    // A damaged entry of the cache is ignored.
    for entry in std::fs::read_dir(program.folder.path().join("cache")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[60] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    assert!(named(&recording, kept).0.iter().all(Vec::is_empty));
}

#[test]
fn debug_information_installed_later_replaces_cached_names() {
    let program = program("inlined.c", "gcc", DEBUG);
    let path = program.path.to_str().unwrap();
    let recording = program.recording("hidden", Some(&program.build_id));
    let id: String = program.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let separate = program.folder.path().join(format!("debug/.build-id/{}/{}.debug", &id[..2], &id[2..]));
    std::fs::create_dir_all(separate.parent().unwrap()).unwrap();
    std::fs::copy(&program.path, program.folder.path().join("whole")).unwrap();
    run("strip", &[path]);
    let kept = Settings { cache_folder: Some(program.folder.path().join("cache")), ..program.settings() };
    assert!(named(&recording, kept.clone()).0.iter().all(Vec::is_empty));
    std::fs::rename(program.folder.path().join("whole"), &separate).unwrap();
    let (found, _) = named(&recording, kept);
    assert!(found.iter().all(|functions| functions[0].name == "hidden"), "{found:?}");
}

#[test]
fn code_made_at_run_time_is_named_by_its_map_and_the_kernels_page_by_itself() {
    let pid = std::process::id();
    let mut recording = Recording::default();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let vdso = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
    let (start, end) = vdso.split_whitespace().next().unwrap().split_once('-').unwrap();
    let number = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
    let (start, end) = (number(start), number(end));
    let mut map = |path: &str, start: u64, end: u64| {
        let module = recording.modules.number(Module { path: path.to_owned(), build_id: None });
        recording.mappings.push(Mapping { at_ns: 0, pid, start, end, module });
    };
    map("[vdso]", start, end);
    map("//anon", 0x1000, 0x3000);
    for address in [0x1010, 0x2000, 0x9000].into_iter().chain(start..end) {
        sampled(&mut recording, Frame::Anonymous { pid, address });
    }
    let of_page = recording.modules.number(Module { path: "[vdso]".to_owned(), build_id: None });
    (0..end - start).for_each(|offset| sampled(&mut recording, Frame::InFile { module: of_page, offset }));
    let path = format!("/tmp/perf-{pid}.map");
    std::fs::write(&path, "1000 100 tick game.js:1\n9000 0 none\n").unwrap();
    let (found, symbols) = named(&recording, Settings::default());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(found[0], [Function::named("tick game.js:1")]);
    assert_eq!((found[1].len(), found[2].len()), (0, 0));
    let (by_address, by_offset) = found[3..].split_at((end - start) as usize);
    assert_eq!(by_address, by_offset);
    assert!(by_address.iter().any(|functions| functions.iter().any(|one| one.name.contains("clock_gettime"))));
    let why: Vec<Why> = symbols.coverage().unnamed.iter().map(|unnamed| unnamed.why).collect();
    assert!(why.contains(&Why::NoFramePointers), "nothing is mapped at one of them: {why:?}");
    assert_eq!(symbols.coverage().nowhere, 1);
}

/// A process's map disappears with the process, and a program without a build ID may disappear too.
/// Names that were found once stay in the cache for this recording.
#[test]
fn names_from_one_recording_are_cached_for_it_alone() {
    let program = program("inlined.c", "gcc", &["-g", "-O2", "-Wl,--build-id=none"]);
    assert_eq!(program.build_id, [0_u8; 0]);
    let mut recording = program.recording("main", None);
    // The number is larger than any real process number, so no other test writes this map.
    let pid = 5_000_000 + std::process::id();
    let module = recording.modules.number(Module { path: "//anon".to_owned(), build_id: None });
    recording.mappings.push(Mapping { at_ns: 0, pid, start: 0x1000, end: 0x3000, module });
    sampled(&mut recording, Frame::Anonymous { pid, address: 0x1010 });
    recording.span.end_ns = 77;
    let cache = tempfile::tempdir().unwrap();
    let until = SystemTime::now() + Duration::from_secs(60);
    let settings =
        || Settings { cache_folder: Some(cache.path().into()), recorded_until: Some(until), ..Settings::default() };
    let path = format!("/tmp/perf-{pid}.map");
    std::fs::write(&path, "1000 100 tick game.js:1\n").unwrap();
    let (found, _) = named(&recording, settings());
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&program.path).unwrap();
    assert_eq!(found.last().unwrap(), &[Function::named("tick game.js:1")]);
    assert!(found.iter().all(|functions| !functions.is_empty()), "{found:?}");
    let (again, symbols) = named(&recording, settings());
    assert_eq!((again, symbols.coverage().unnamed.as_slice()), (found, &[][..]));
    // In another recording, other code may have been at these places.
    let mut other = recording.clone();
    other.span.end_ns += 1;
    let (found, _) = named(&other, settings());
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
}

#[test]
fn the_running_kernel_names_its_own_addresses() {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let at = |name: &str| {
        let line = kallsyms.lines().find(|line| line.ends_with(name))?;
        u64::from_str_radix(line.split(' ').next()?, 16).ok().filter(|address| *address != 0)
    };
    let (Some(text), Some(address)) = (at(" T _text"), at(" T ksys_read")) else {
        skipped("/proc/kallsyms shows no addresses to this user");
        return;
    };
    let recorded = |mark: u64, release: Option<&str>| {
        let mut recording = Recording::default();
        recording.machine.kernel = release.map(str::to_owned);
        let module = Module { path: "[kernel.kallsyms]_text".to_owned(), build_id: None };
        let module = recording.modules.number(module);
        let end = mark + 0x100_0000;
        recording.mappings.push(Mapping { at_ns: 0, pid: u32::MAX, start: mark, end, module });
        sampled(&mut recording, Frame::Kernel { address: address - text + mark, module: None });
        recording
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let release = release.trim();
    for mark in [text, text - 0x20_0000] {
        let (found, _) = named(&recorded(mark, Some(release)), Settings::default());
        assert_eq!(found[0], [Function::named("ksys_read")], "the kernel that ran lay at {mark:x}");
    }
    let (found, symbols) = named(&recorded(text, Some("4.4.0-other")), Settings::default());
    assert_eq!(found[0], []);
    assert_eq!(symbols.coverage().unnamed[0].why, Why::OtherKernel);
}

/// A damaged file may lead to missing or wrong names, but to no other error.
#[test]
fn damaged_programs_end_nothing() {
    let plain = program("inlined.c", "gcc", DEBUG);
    let packed = program("inlined.c", "gcc", &["-g", "-O2", "-gz=zlib", "-Wl,--build-id"]);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for program in [plain, packed] {
        let whole = std::fs::read(&program.path).unwrap();
        let damaged = program.folder.path().join("damaged");
        let length = whole.len();
        // Headers and tables are damaged as often as the rest, although they are short.
        let place = prop_oneof![0..64_usize, length - 3000..length, 0..length, 0..length];
        let hits = prop::collection::vec((place, any::<u8>()), 1..40);
        let cases = (hits, prop_oneof![Just(length), 0..length]);
        for _ in 0..400 {
            let (hits, end) = cases.new_tree(&mut runner).unwrap().current();
            let mut bytes = whole.clone();
            for (at, value) in hits {
                bytes[at] = value;
            }
            bytes.truncate(end);
            std::fs::write(&damaged, &bytes).unwrap();
            let (start, size) = program.functions["outer"];
            let recording = of_places(&damaged, None, (start..start + size).chain([0, 1 << 40, u64::MAX]));
            let _ = named(&recording, program.settings());
        }
    }
}

/// Stripped Go programs still have the table of Go's runtime.
#[test]
fn stripped_programs_of_go_are_named_by_the_runtimes_table() {
    const SOURCE: &str = r#"package main

type World struct{ n uint64 }

//go:noinline
func (w *World) findPath(k uint64) uint64 {
	for i := uint64(0); i < k; i++ {
		w.n += i * i
	}
	return w.n
}

func main() { println((&World{}).findPath(10)) }
"#;
    if Command::new("go").arg("version").output().is_err() {
        skipped("there is no Go here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.go"), SOURCE).unwrap();
    // Compile Go's own library once, not for each run.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache");
    let build = |output: &str, flags: &[&str]| -> PathBuf {
        let mut go = Command::new("go");
        let go = go.current_dir(folder.path()).env("GOCACHE", &cache).env("GO111MODULE", "off");
        let go = go.env("CGO_ENABLED", "0").args(["build", "-o", output]).args(flags).arg("main.go");
        let made = go.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        folder.path().join(output)
    };
    // Stripping does not move the code.
    for mode in ["-buildmode=exe", "-buildmode=pie"] {
        let whole = build("whole", &[mode]);
        let stripped = build("stripped", &[mode, "-ldflags=-s -w"]);
        let listed = run("nm", &["-S", whole.to_str().unwrap()]);
        let of = |name: &str| -> (u64, u64) {
            let line = listed.lines().find(|line| line.ends_with(&format!(" T {name}"))).unwrap();
            let words: Vec<u64> = line.split(' ').take(2).map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
            (words[0], words[1])
        };
        let segments = run("readelf", &["-lW", stripped.to_str().unwrap()]);
        let code = segments.lines().find(|line| line.contains("LOAD") && line.contains("R E")).unwrap();
        let hex = |at: usize| {
            let word = code.split_whitespace().nth(at).unwrap();
            u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
        };
        let (offset, address) = (hex(1), hex(2));
        for name in ["main.(*World).findPath", "main.main", "runtime.mallocgc", "runtime.main"] {
            let (start, size) = of(name);
            let places = (start..start + size).map(|place| place - address + offset);
            let recording = of_places(&stripped, None, places);
            let (found, symbols) = named(&recording, Settings::default());
            let is_it = |functions: &Vec<Function>| functions.len() == 1 && functions[0].name == name;
            // Go fills the space up to the next function with code that never runs.
            // In the table, this code belongs to the function before it.
            assert!(found.iter().all(is_it), "{mode}: {name}: {:?}, {:?}", found.first(), symbols.coverage());
        }
    }
}
