//! Programs in C and C++ with the library as shipped, shared and static: the examples, and programs that misuse it.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use evenkeel_rt::udp::{BackendChoice, IoBackend, Udp, UdpSettings};
use tempfile::TempDir;

use crate::own;

/// Compiler warnings, which no program may cause.
const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wpadded", "-Wconversion"];
/// The system libraries that the static library needs.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// The library under its installed names.
pub(crate) struct Library {
    folder: TempDir,
}

#[derive(Clone, Copy, Debug)]
enum Linked {
    Shared,
    Static,
}

impl Library {
    pub(crate) fn new() -> Library {
        let folder = tempfile::tempdir().unwrap();
        // Cargo puts the libraries into the folder of this test program, or into the folder above.
        let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let at = |name: &str| {
            [built.join(name), built.join("..").join(name)]
                .into_iter()
                .find(|path| path.exists())
                .unwrap()
                .canonicalize()
        };
        let link = |from: PathBuf, name: &str| std::os::unix::fs::symlink(from, folder.path().join(name)).unwrap();
        for name in ["libevenkeel_rt.so", "libevenkeel_rt.so.2"] {
            link(at("libevenkeel_rt_c.so").unwrap(), name);
        }
        link(at("libevenkeel_rt_c.a").unwrap(), "libevenkeel_rt.a");
        Library { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, compiler: &str, source: &Path, linked: Linked, extra: &[&str]) -> PathBuf {
        let program = self.path(&format!("{}-{linked:?}", source.file_stem().unwrap().to_str().unwrap()));
        let mut command = Command::new(compiler);
        command.args(WARNINGS).args(extra).arg("-I").arg(own("include")).arg(source).arg("-o").arg(&program);
        match linked {
            Linked::Shared => command.arg("-L").arg(self.folder.path()).args(["-levenkeel_rt", "-lpthread"]),
            // Strip the debug information: it is most of the library, and the linker would write it into each program.
            Linked::Static => command.arg("-Wl,--strip-debug").arg(self.path("libevenkeel_rt.a")).args(SYSTEM),
        };
        success(&command.output().unwrap(), source);
        program
    }

    fn run(&self, program: &Path) -> String {
        let output = Command::new(program).env("LD_LIBRARY_PATH", self.folder.path()).output().unwrap();
        success(&output, program);
        String::from_utf8(output.stdout).unwrap()
    }
}

pub(crate) fn success(output: &Output, of: &Path) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}: {said}", of.display(), output.status);
}

/// Whether a program is installed. If not, records a skip.
pub(crate) fn is_there(program: &str) -> bool {
    let there =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|path| path.join(program).exists());
    if !there {
        evenkeel_testkit::skipped(format_args!("{program} is missing (deploy/setup.sh lab)"));
    }
    there
}

#[test]
fn the_examples_run() {
    let library = Library::new();
    // `pkg_config_finds_what_is_installed` builds tick.c with the static library.
    let table = [
        ("cc", "-std=c99", "server.c", Linked::Shared, "20 ticks"),
        ("cc", "-std=c99", "tick.c", Linked::Shared, "100 ticks"),
        ("cc", "-std=c99", "slices.c", Linked::Shared, "50 frames"),
        ("c++", "-std=c++17", "own_loop.cpp", Linked::Shared, "50 ticks"),
        ("c++", "-std=c++17", "own_loop.cpp", Linked::Static, "50 ticks"),
        ("c++", "-std=c++17", "server.cpp", Linked::Shared, "20 ticks"),
        ("c++", "-fno-exceptions", "server.cpp", Linked::Static, "20 ticks"),
    ];
    for (compiler, language, example, linked, said) in table {
        if !is_there(compiler) {
            continue;
        }
        // The structs of evenkeel_rt.hpp have the padding that their fields need, so allow it.
        let extra: &[&str] = if example == "server.cpp" { &[language, "-Wno-padded"] } else { &[language] };
        let program = library.compile(compiler, &own("examples").join(example), linked, extra);
        let printed = library.run(&program);
        assert!(printed.contains(said), "{example} {linked:?}: {printed}");
    }
}

/// docs/rt-c.md begins with a server that a test compiles and runs.
#[test]
fn the_page_begins_with_the_server() {
    let page = fs::read_to_string(own("../../docs/rt-c.md")).unwrap();
    let (_, rest) = page.split_once("```c\n").unwrap();
    let (shown, _) = rest.split_once("```\n").unwrap();
    let server = fs::read_to_string(own("examples/server.c")).unwrap();
    assert!(shown == server, "docs/rt-c.md does not begin with crates/rt-c/examples/server.c");
    assert!(server.lines().count() < 60, "the server has {} lines", server.lines().count());
}

#[test]
fn the_csharp_example_runs() {
    if !is_there("mcs") || !is_there("mono") {
        return;
    }
    let library = Library::new();
    let program = library.path("Server.exe");
    let mut compiler = Command::new("mcs");
    compiler.args(["-unsafe", "-warnaserror", "-warn:4"]).arg(format!("-out:{}", program.display()));
    let sources = [own("csharp/EvenkeelRt.cs"), own("csharp/Server.cs")];
    success(&compiler.args(&sources).output().unwrap(), &sources[1]);
    let mut mono = Command::new("mono");
    let output = mono.arg(&program).env("LD_LIBRARY_PATH", library.folder.path()).output().unwrap();
    success(&output, &program);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("50 ticks"), "{printed}");
}

/// A sidecar that accepts every request until one asks it to end the server. Returns the requests.
fn sidecar(listener: TcpListener) -> Vec<String> {
    let mut heard = Vec::new();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut request = Vec::new();
        let mut bytes = [0; 512];
        // A request ends with its body, which is two braces or empty.
        while !(request.ends_with(b"{}") || request.starts_with(b"GET") && request.ends_with(b"\r\n\r\n")) {
            let Ok(count @ 1..) = stream.read(&mut bytes) else { break };
            request.extend_from_slice(&bytes[..count]);
        }
        let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
        let body = match line.starts_with("GET /gameserver ") {
            true => {
                r#"{"object_meta":{"name":"seven"},"status":{"state":"Ready","address":"10.0.0.7","ports":[{"port":7777}]}}"#
            }
            false => "{}",
        };
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let is_last = line.starts_with("POST /shutdown ");
        heard.push(line);
        if is_last {
            break;
        }
    }
    heard
}

#[test]
fn agones_gets_reports_from_c() {
    let library = Library::new();
    let program = library.compile("cc", &own("tests/c/agones.c"), Linked::Shared, &["-std=c99"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let heard = std::thread::spawn(|| sidecar(listener));
    let mut command = Command::new(&program);
    let output =
        command.env("LD_LIBRARY_PATH", library.folder.path()).env("AGONES_SDK_HTTP_PORT", port).output().unwrap();
    success(&output, &program);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with("ready 2, health sent"), "{printed}");
    assert!(printed.contains("seven is Ready at 10.0.0.7:7777"), "{printed}");
    let heard = heard.join().unwrap();
    assert_eq!(heard.iter().filter(|line| line.starts_with("POST /ready ")).count(), 1, "{heard:?}");
}

#[test]
fn misuse_is_a_status_and_no_crash() {
    let library = Library::new();
    for linked in [Linked::Shared, Linked::Static] {
        let program = library.compile("cc", &own("tests/c/misuse.c"), linked, &["-std=gnu11"]);
        let mut command = Command::new(&program);
        let output = command.arg(library.folder.path()).env("LD_LIBRARY_PATH", library.folder.path()).output().unwrap();
        success(&output, &program);
    }
}

#[test]
fn threads_share_what_they_may() {
    let library = Library::new();
    library.run(&library.compile("cc", &own("tests/c/threads.c"), Linked::Shared, &["-std=gnu11"]));
}

#[test]
fn jobs_are_functions_with_a_context() {
    let library = Library::new();
    library.run(&library.compile("cc", &own("tests/c/jobs.c"), Linked::Shared, &["-std=c11"]));
}

#[test]
fn objects_of_the_cpp_header_free_themselves_and_throw() {
    if !is_there("c++") {
        return;
    }
    let library = Library::new();
    let extra = ["-std=c++17", "-Wno-padded"];
    library.run(&library.compile("c++", &own("tests/c/wrapper.cpp"), Linked::Shared, &extra));
}

#[test]
fn memory_stays_and_long_waits_are_logged() {
    let library = Library::new();
    library.run(&library.compile("cc", &own("tests/c/memory.c"), Linked::Shared, &["-std=gnu11"]));
}

#[test]
fn packets_and_pages_come_and_go() {
    let library = Library::new();
    let program = library.compile("cc", &own("tests/c/network.c"), Linked::Shared, &["-std=c99"]);
    let mut command = Command::new(&program);
    let output = command.arg(library.folder.path()).env("LD_LIBRARY_PATH", library.folder.path()).output().unwrap();
    success(&output, &program);
}

/// The C number of the backend that a socket of the Rust library gets if it requests io_uring.
/// If io_uring is not available (old kernel, forbidden, or not built in), the result is the next simpler backend.
/// The features of the whole build decide.
fn way_for_uring() -> u32 {
    let address = "127.0.0.1:0".parse().unwrap();
    let settings = UdpSettings { address, receive: BackendChoice::Is(IoBackend::Uring), ..UdpSettings::default() };
    let backend = Udp::open(settings).unwrap().report().receive_backend;
    assert!([IoBackend::Uring, IoBackend::Offloaded].contains(&backend), "{backend:?}");
    2 + IoBackend::ALL.iter().position(|known| *known == backend).unwrap() as u32
}

#[test]
fn sockets_for_each_cpu_and_by_each_way() {
    let library = Library::new();
    let backend = way_for_uring();
    let program = library.compile("cc", &own("tests/c/udp.c"), Linked::Shared, &["-std=gnu11"]);
    let mut command = Command::new(&program);
    let output = command.arg(backend.to_string()).env("LD_LIBRARY_PATH", library.folder.path()).output().unwrap();
    success(&output, &program);
}

/// Installs below a folder, and builds the example only with the flags from pkg-config.
#[test]
fn pkg_config_finds_what_is_installed() {
    if !is_there("pkg-config") {
        return;
    }
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    for linked in [Linked::Shared, Linked::Static] {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("usr");
        let output = Command::new(own("install.sh")).arg(&prefix).arg(&built).output().unwrap();
        success(&output, Path::new("install.sh"));
        let lib = prefix.join("lib");
        let flags: &[&str] = match linked {
            Linked::Shared => &["--cflags", "--libs"],
            Linked::Static => {
                // If both libraries exist, a linker takes the shared one, so remove the shared library.
                for entry in fs::read_dir(&lib).unwrap().map(|entry| entry.unwrap().path()) {
                    if entry.to_string_lossy().contains(".so") {
                        fs::remove_file(entry).unwrap();
                    }
                }
                &["--cflags", "--libs", "--static"]
            }
        };
        let mut ask = Command::new("pkg-config");
        let output = ask.args(flags).arg("evenkeel-rt").env("PKG_CONFIG_PATH", lib.join("pkgconfig")).output().unwrap();
        success(&output, Path::new("pkg-config"));
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.contains("-lpthread"), matches!(linked, Linked::Static), "{said}");
        let program = folder.path().join("tick");
        let mut compiler = Command::new("cc");
        compiler.arg(own("examples/tick.c")).arg("-o").arg(&program).args(said.split_whitespace());
        success(&compiler.output().unwrap(), &program);
        // The loader searches for the name that contains the ABI version.
        let output = Command::new(&program).env("LD_LIBRARY_PATH", &lib).output().unwrap();
        success(&output, &program);
        assert!(matches!(linked, Linked::Static) || lib.join("libevenkeel_rt.so.2").exists());
        let is_shared = !Command::new(&program).output().unwrap().status.success();
        assert_eq!(is_shared, matches!(linked, Linked::Shared), "{linked:?}");
    }
}

/// Installs below a folder with a space in its name, with libraries in Debian's folders. Builds the examples only with CMake.
#[test]
fn cmake_finds_what_is_installed() {
    if !is_there("cmake") || !is_there("c++") {
        return;
    }
    let built = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("a place/usr");
    let mut install = Command::new(own("install.sh"));
    let output = install.arg(&prefix).arg(&built).env("LIBDIR", "lib/x86_64-linux-gnu").output().unwrap();
    success(&output, Path::new("install.sh"));
    let build = folder.path().join("build");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(prefix.join("share/evenkeel-rt/examples")).arg("-B").arg(&build);
    configure
        .arg("-Devenkeel-rt_DIR=".to_owned() + prefix.join("lib/x86_64-linux-gnu/cmake/evenkeel-rt").to_str().unwrap());
    success(&configure.output().unwrap(), Path::new("cmake -S"));
    success(&Command::new("cmake").arg("--build").arg(&build).output().unwrap(), Path::new("cmake --build"));
    for server in ["server-c", "server-cpp", "server-static"] {
        let output = Command::new(build.join(server)).output().unwrap();
        success(&output, Path::new(server));
        assert!(String::from_utf8_lossy(&output.stdout).contains("20 ticks"), "{server}");
    }
}

/// One function of the header: its name, and its parameters' types.
struct Function {
    name: String,
    parameters: Vec<String>,
}

/// Every function that returns a status.
fn functions() -> Vec<Function> {
    let header = fs::read_to_string(own("include/evenkeel_rt.h")).unwrap();
    let code: Vec<&str> = header.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join(" ");
    let declared = code.split("EvenkeelStatus evenkeel_").skip(1).map(|rest| rest.split(");").next().unwrap());
    let function = |text: &str| {
        let (name, parameters) = text.split_once('(').unwrap();
        let types = parameters.split(',').filter(|parameter| parameter.trim() != "void").map(|parameter| {
            let end = parameter.rfind([' ', '*']).unwrap();
            parameter[..=end].trim().to_owned()
        });
        Function {
            name: format!("evenkeel_{name}"),
            parameters: types.filter(|of| of != "void" && !of.is_empty()).collect(),
        }
    };
    declared.map(function).collect()
}

/// Calls every function with a null for each of its pointers in turn, and then with an invalid handle.
/// The function's other pointers point to memory that is valid for any struct.
#[test]
fn no_null_and_no_nonsense_brings_it_down() {
    let functions = functions();
    assert!(functions.len() > 30, "{}", functions.len());
    let mut calls = String::new();
    for Function { name, parameters } in &functions {
        let pointers: Vec<usize> = (0..parameters.len()).filter(|at| parameters[*at].contains('*')).collect();
        let handles = |at: usize| parameters[at].contains("Evenkeel") && !parameters[at].contains("**");
        for odd in &pointers {
            // The library cannot detect a wrong struct pointer, so this test passes only invalid handles.
            let is_struct = structs(&parameters[*odd]);
            let values: &[&str] = if handles(*odd) && !is_struct {
                &["0", "1", "0xdeadbeef", "~(uintptr_t)0", "(uintptr_t)any"]
            } else {
                &["0"]
            };
            for value in values {
                let arguments: Vec<String> = parameters
                    .iter()
                    .enumerate()
                    .map(|(at, of)| match () {
                        () if at == *odd => format!("({of})(uintptr_t)({value})"),
                        () if of.contains('*') => format!("({of})(void *)any"),
                        () => format!("({of})1"),
                    })
                    .collect();
                writeln!(calls, "    prepare(); refused(\"{name} {odd} {value}\", {name}({}));", arguments.join(", "))
                    .unwrap();
            }
        }
    }
    let source = format!(
        r#"#include <evenkeel_rt.h>
#include <stdio.h>
static uint64_t any[1024];
static int wrong;
static void prepare(void) {{ evenkeel_init(any, 4096); }}
static void refused(const char *call, EvenkeelStatus status)
{{
    if (status == EVENKEEL_STATUS_OK) {{ fprintf(stderr, "%s was taken\n", call); wrong = 1; }}
}}
int main(void)
{{
{calls}    return wrong;
}}
"#
    );
    let library = Library::new();
    let file = library.path("nonsense.c");
    fs::write(&file, source).unwrap();
    library.run(&library.compile("cc", &file, Linked::Shared, &["-std=c99"]));
}

/// Whether a pointer points to a struct, not to a handle. The header defines structs.
fn structs(of: &str) -> bool {
    let header = fs::read_to_string(own("include/evenkeel_rt.h")).unwrap();
    let name = of.trim_end_matches('*').split_whitespace().find(|word| word.starts_with("Evenkeel"));
    name.is_some_and(|name| header.contains(&format!("typedef struct {} {{", name.trim_end_matches('*'))))
}

#[test]
fn only_our_names_are_exported() {
    if !is_there("nm") {
        return;
    }
    let library = Library::new();
    let output =
        Command::new("nm").args(["-D", "--defined-only"]).arg(library.path("libevenkeel_rt.so")).output().unwrap();
    success(&output, OsStr::new("nm").as_ref());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut exported: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    exported.sort_unstable();
    let header = fs::read_to_string(own("include/evenkeel_rt.h")).unwrap();
    for name in &exported {
        assert!(name.starts_with("evenkeel_"), "{name} is exported");
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
    for function in functions() {
        assert!(exported.contains(&function.name.as_str()), "{} is not exported", function.name);
    }
}

#[test]
fn every_function_says_which_threads_may_call_it() {
    let header = fs::read_to_string(own("include/evenkeel_rt.h")).unwrap();
    let mut said = "";
    let mut documented = 0;
    for block in header.split("\n\n") {
        let code = block.lines().find(|line| !line.starts_with("//")).unwrap_or_default();
        if code.contains(" *evenkeel_") || code.contains(" evenkeel_") && code.contains('(') && !code.starts_with('#') {
            assert!(block.contains("// Threads: "), "{code}: {said}");
            documented += 1;
        }
        said = block;
    }
    assert!(documented > functions().len(), "{documented}");
}
