//! The packages for Unity, Godot and .NET, as `deploy/dist/engines.sh` builds them.
//! Their files must parse and name existing files, and their C# must compile and run.
//! Small stand-ins in `tests/csharp` replace Unity and Godot.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;
use tempfile::TempDir;

use crate::own;
use crate::programs::{Library, is_there, success};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The platforms by their NuGet names, each with its library file.
const NATIVE: [(&str, &str); 5] = [
    ("linux-arm64", "libevenkeel_rt.so"),
    ("linux-x64", "libevenkeel_rt.so"),
    ("osx-arm64", "libevenkeel_rt.dylib"),
    ("osx-x64", "libevenkeel_rt.dylib"),
    ("win-x64", "evenkeel_rt.dll"),
];

/// The packages, with a placeholder for the library of each of these platforms.
struct Staged {
    folder: TempDir,
}

impl Staged {
    fn new(systems: &[(&str, &str)]) -> Staged {
        let folder = tempfile::tempdir().unwrap();
        for (system, library) in systems {
            let at = folder.path().join("native").join(system);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join(library), system).unwrap();
        }
        let mut script = Command::new(own("../../deploy/dist/engines.sh"));
        script.arg("--stage").arg(folder.path().join("to")).arg(folder.path().join("native"));
        // A tree without git history has neither a commit nor a date.
        script.env("EVENKEEL_COMMIT", "test").env("SOURCE_DATE_EPOCH", "1700000000");
        let output = script.output().unwrap();
        success(&output, Path::new("engines.sh"));
        let said = String::from_utf8(output.stderr).unwrap();
        for (system, _) in NATIVE {
            let is_named = said.contains(&format!("skipped: the library for {system},"));
            assert_eq!(is_named, !systems.iter().any(|(there, _)| *there == system), "{system}: {said}");
        }
        Staged { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("to").join(path)
    }

    fn dotnet(&self) -> PathBuf {
        self.at(&format!("evenkeel-rt-{VERSION}-csharp"))
    }

    fn godot(&self) -> PathBuf {
        self.at(&format!("evenkeel-rt-{VERSION}-godot"))
    }

    fn unity(&self) -> PathBuf {
        self.at("package")
    }
}

/// Every file and folder below this folder, as sorted relative paths.
fn below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut found = BTreeSet::new();
    while let Some(at) = folders.pop() {
        for path in fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
            found.insert(path.strip_prefix(folder).unwrap().to_owned());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// An element of an XML file: its name, attributes and text.
type Element = (String, Vec<(String, String)>, String);

fn elements(path: &Path) -> Vec<Element> {
    let text = fs::read_to_string(path).unwrap();
    let mut reader = Reader::from_str(&text);
    let mut found: Vec<Element> = Vec::new();
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
            Event::Start(element) | Event::Empty(element) => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let attributes = element.attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    (text(attribute.key.as_ref()), text(&attribute.value))
                });
                found.push((text(element.name().as_ref()), attributes.collect(), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, _, of)) = found.last_mut() {
                    of.push_str(std::str::from_utf8(&text).unwrap().trim());
                }
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

/// Checks that the project's files exist and that unsafe code is allowed. Returns the name of its SDK.
fn check_project(path: &Path) -> String {
    let elements = elements(path);
    let folder = path.parent().unwrap();
    let mut named = 0;
    for (_, attributes, _) in &elements {
        for (_, include) in attributes.iter().filter(|(key, _)| key == "Include") {
            let at = include.split('*').next().unwrap();
            let found = folder.join(at);
            let is_there = if at == include { found.is_file() } else { found.read_dir().unwrap().next().is_some() };
            assert!(is_there, "{} names {include}", path.display());
            named += 1;
        }
    }
    assert!(named >= 3, "{} names {named} files", path.display());
    let has = |name: &str, value: &str| elements.iter().any(|(of, _, text)| of == name && text == value);
    assert!(has("AllowUnsafeBlocks", "true"));
    assert!(has("EnableDefaultCompileItems", "false"), "files are named one by one");
    elements[0].1.iter().find(|(key, _)| key == "Sdk").unwrap().1.clone()
}

#[test]
fn the_net_project_has_the_library_where_nuget_wants_it() {
    let staged = Staged::new(&NATIVE);
    let project = staged.dotnet().join("Evenkeel.Rt.csproj");
    assert_eq!(check_project(&project), "Microsoft.NET.Sdk");
    let elements = elements(&project);
    let has = |name: &str, value: &str| elements.iter().any(|(of, _, text)| of == name && text == value);
    assert!(
        has("TargetFramework", "netstandard2.1") && has("Version", VERSION) && has("PackageReadmeFile", "README.md")
    );
    for (system, library) in NATIVE {
        let packed = staged.dotnet().join("runtimes").join(system).join("native").join(library);
        assert_eq!(fs::read_to_string(packed).unwrap(), system);
    }
    // Without libraries for other platforms, the package includes only Linux.
    let linux = Staged::new(&NATIVE[1..2]);
    let systems: Vec<PathBuf> = below(&linux.dotnet().join("runtimes")).into_iter().collect();
    let expected = ["linux-x64", "linux-x64/native", "linux-x64/native/libevenkeel_rt.so"];
    assert_eq!(systems, expected.map(PathBuf::from));
}

#[test]
fn the_godot_project_names_its_files() {
    let staged = Staged::new(&NATIVE);
    let folder = staged.godot();
    assert!(check_project(&folder.join("EvenkeelServer.csproj")).starts_with("Godot.NET.Sdk/4."));
    let project = fs::read_to_string(folder.join("project.godot")).unwrap();
    assert!(project.contains("project/assembly_name=\"EvenkeelServer\""), "{project}");
    let scene = fs::read_to_string(folder.join("main.tscn")).unwrap();
    let named: Vec<&str> = [&project, &scene]
        .iter()
        .flat_map(|text| text.split("res://").skip(1))
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(named, ["main.tscn", "TickServer.cs"]);
    for name in named {
        assert!(folder.join(name).is_file(), "{name}");
    }
}

/// The lines of a `.meta` file. Each is `key: value` or the start of an item. Unity's own reader accepts little more.
fn meta(path: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = |line: &str| {
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("{}: {line}", path.display()));
        let indent = key.len() - key.trim_start().len();
        assert!(indent % 2 == 0 && (value.is_empty() || value.starts_with(' ')), "{}: {line}", path.display());
        (key.trim_start().trim_start_matches("- ").to_owned(), value.trim().to_owned())
    };
    text.lines().map(line).collect()
}

fn check_metas(folder: &Path) {
    let is_sample = |path: &PathBuf| path.starts_with("Samples~");
    let (metas, assets): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) = below(folder)
        .into_iter()
        .filter(|path| !is_sample(path))
        .partition(|path| path.extension().is_some_and(|end| end == "meta"));
    let of: BTreeSet<PathBuf> = metas.iter().map(|path| path.with_extension("")).collect();
    assert_eq!(of, assets, "each file and folder has one .meta");
    let mut ids = BTreeSet::new();
    for path in &metas {
        let lines = meta(&folder.join(path));
        assert_eq!(lines[0], ("fileFormatVersion".to_owned(), "2".to_owned()), "{}", path.display());
        let (key, id) = &lines[1];
        assert!(
            key == "guid" && id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit()),
            "{}: {id}",
            path.display()
        );
        assert!(ids.insert(id.clone()), "{}: another file has the same guid", path.display());
    }
}

#[test]
fn the_unity_package_is_whole() {
    let staged = Staged::new(&NATIVE);
    let folder = staged.unity();
    check_metas(&folder);
    let package = json(&folder.join("package.json"));
    assert_eq!((&package["name"], &package["version"]), (&"com.evenkeel.rt".into(), &VERSION.into()));
    for sample in package["samples"].as_array().unwrap() {
        assert!(folder.join(sample["path"].as_str().unwrap()).is_dir(), "{sample}");
    }
    let runtime = json(&folder.join("Runtime/Evenkeel.Rt.asmdef"));
    assert_eq!((&runtime["name"], &runtime["allowUnsafeCode"]), (&"Evenkeel.Rt".into(), &true.into()));
    let sample = json(&folder.join("Samples~/TickServer/Evenkeel.TickServer.asmdef"));
    assert_eq!(sample["references"], serde_json::json!(["Evenkeel.Rt"]));
    assert!(folder.join("Samples~/TickServer/TickServer.cs").is_file());
}

#[test]
fn unity_loads_each_library_on_its_own_system() {
    let staged = Staged::new(&NATIVE);
    for (library, system, player, processor) in [
        ("x86_64/libevenkeel_rt.so", "Linux", "Linux64", "x86_64"),
        ("x86_64/evenkeel_rt.dll", "Windows", "Win64", "x86_64"),
        ("x86_64/libevenkeel_rt.dylib", "OSX", "OSXUniversal", "x86_64"),
        ("arm64/libevenkeel_rt.dylib", "OSX", "OSXUniversal", "ARM64"),
    ] {
        let lines = meta(&staged.unity().join("Plugins").join(format!("{library}.meta")));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert!(lines.contains(&pair("OS", system)), "{library}: {lines:?}");
        let mut player_of_line = String::new();
        for (key, value) in lines {
            match key.as_str() {
                "Standalone" => player_of_line = value,
                "enabled" if !player_of_line.is_empty() => {
                    assert_eq!(value == "1", player_of_line == player, "{library} on {player_of_line}");
                }
                "CPU" if player_of_line == player => assert_eq!(value, processor, "{library}"),
                _ => {}
            }
        }
    }
}

/// Compiles C# with the stand-in for an engine, runs it with the library, and returns its output.
fn run(library: &Library, name: &str, sources: &[PathBuf]) -> String {
    let program = library.path(&format!("{name}.exe"));
    let mut compiler = Command::new("mcs");
    compiler.args(["-unsafe", "-warnaserror", "-warn:4"]).arg(format!("-out:{}", program.display()));
    success(&compiler.args(sources).output().unwrap(), &sources[0]);
    let output = Command::new("mono").arg(&program).env("LD_LIBRARY_PATH", library.folder()).output().unwrap();
    success(&output, &program);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_samples_for_engines_run() {
    if !is_there("mcs") || !is_there("mono") {
        return;
    }
    let staged = Staged::new(&NATIVE[1..2]);
    let library = Library::new();
    let (unity, godot, dotnet) = (staged.unity(), staged.godot(), staged.dotnet());
    let binding = |folder: &Path| [folder.join("EvenkeelRt.cs"), folder.join("TickThread.cs")];
    for (name, binding, others) in [
        (
            "unity",
            binding(&unity.join("Runtime")),
            vec![unity.join("Samples~/TickServer/TickServer.cs"), own("tests/csharp/UnityEngine.cs")],
        ),
        ("godot", binding(&godot.join("evenkeel")), vec![godot.join("TickServer.cs"), own("tests/csharp/Godot.cs")]),
        ("dotnet", binding(&dotnet), vec![own("tests/csharp/TickThreadTest.cs")]),
    ] {
        let sources: Vec<PathBuf> = others.into_iter().chain(binding).collect();
        let printed = run(&library, name, &sources);
        let expected = if name == "dotnet" { "passed" } else { "ticks" };
        assert!(printed.contains(expected), "{name}: {printed}");
    }
}
