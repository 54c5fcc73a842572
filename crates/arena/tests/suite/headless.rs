//! The arena is headless by construction.
//! Nothing that draws, plays sound or reads keys is among its dependencies, in its sources, or open in the running server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The crates that the sources may use. None of these draws, plays sound or reads keys.
const ROOTS: [&str; 15] = [
    "anyhow",
    "clap",
    "core",
    "crate",
    "evenkeel_arena",
    "evenkeel_rt",
    "expect_test",
    "hdrhistogram",
    "proptest",
    "rand_chacha",
    "rustix",
    "self",
    "serde",
    "signal_hook",
    "std",
];

/// Parts of the names of packages that draw, play sound or read keys.
const NOT_HEADLESS: [&str; 34] = [
    "alsa",
    "ash",
    "bevy",
    "cpal",
    "crossterm",
    "drm",
    "egl",
    "egui",
    "evdev",
    "fltk",
    "gilrs",
    "glfw",
    "glium",
    "glow",
    "glutin",
    "gtk",
    "input-linux",
    "iced",
    "jack",
    "kira",
    "macroquad",
    "minifb",
    "opengl",
    "pixels",
    "portaudio",
    "pulse",
    "rodio",
    "sdl",
    "skia",
    "vulkan",
    "wayland",
    "wgpu",
    "winit",
    "x11",
];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every package in the lock file that the arena may be built from. The list may have more packages than are built, but never fewer.
fn packages() -> BTreeSet<String> {
    let lock = fs::read_to_string(top().join("Cargo.lock")).unwrap();
    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let name = package.split('"').nth(1).unwrap().to_owned();
        let list = package.split("dependencies = [").nth(1).unwrap_or_default();
        let names = list.split('"').skip(1).step_by(2).map(|need| need.split(' ').next().unwrap().to_owned());
        needs.entry(name).or_default().extend(names);
    }
    let mut found = BTreeSet::new();
    let mut left = vec!["evenkeel-arena".to_owned()];
    while let Some(name) = left.pop() {
        if found.insert(name.clone()) {
            left.extend(needs.get(&name).cloned().unwrap_or_default());
        }
    }
    found
}

#[test]
fn no_dependency_draws_plays_sound_or_reads_keys() {
    let packages = packages();
    assert!(packages.len() > 20 && packages.contains("evenkeel-rt"), "{packages:?}");
    let ours: Vec<&String> = packages.iter().filter(|name| name.starts_with("evenkeel-")).collect();
    assert_eq!(ours, ["evenkeel-arena", "evenkeel-rt", "evenkeel-stats", "evenkeel-sys", "evenkeel-testkit"]);
    for name in &packages {
        let parts: Vec<&str> = name.split(['-', '_']).collect();
        let is_one = |word: &&str| name.as_str() == *word || parts.iter().any(|part| part.starts_with(*word));
        // `ash` is also the start of `ashpd`. No dependency here has such a name.
        let found = NOT_HEADLESS.iter().find(|word| is_one(word));
        assert_eq!(found, None, "{name}");
    }
}

#[test]
fn the_sources_name_only_what_is_headless() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for line in text.lines() {
                let Some(used) = line.trim_start().strip_prefix("use ") else { continue };
                let root = used.split([':', ';', ' ']).next().unwrap();
                let own = ["super", "serde_json", "thiserror"].contains(&root) || ROOTS.contains(&root);
                assert!(own, "{}: {line}", path.display());
                seen += 1;
            }
            for word in ["/dev/dri", "/dev/snd", "/dev/input", "/dev/fb"] {
                assert!(!text.contains(word), "{} names {word}", path.display());
            }
        }
    }
    assert!(seen > 100, "{seen} uses");
}

#[test]
fn the_running_server_has_no_device_and_no_library_of_a_screen_open() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_evenkeel-arena"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .env_remove("DISPLAY")
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let proc = PathBuf::from(format!("/proc/{}", server.id()));
    let maps = fs::read_to_string(proc.join("maps")).unwrap();
    let fds = fs::read_dir(proc.join("fd")).unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    let fds: Vec<PathBuf> = fds.collect();
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!(ready.contains("\"ready\""), "{ready}");
    let libraries: BTreeSet<&str> =
        maps.lines().filter_map(|line| line.rsplit('/').next()?.split(".so").next()).collect();
    let libraries: Vec<&&str> =
        libraries.iter().filter(|name| name.starts_with("lib") || name.starts_with("ld-")).collect();
    for name in &libraries {
        let known = ["libc", "libm", "libgcc_s", "ld-linux"];
        assert!(known.iter().any(|known| name.starts_with(known)), "{libraries:?}");
    }
    for fd in fds {
        let device = fd.strip_prefix("/dev").ok();
        let plain = device.is_none_or(|device| {
            ["null", "pts", "tty", "urandom", "cpu_dma_latency"].iter().any(|name| device.starts_with(name))
        });
        assert!(plain, "{} is open", fd.display());
    }
}
