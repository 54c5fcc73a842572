//! `apply` and `verify`: the time of a change of the running machine, and of its verification, compared with `sysctl` with the same keys.
//!
//! Every value is increased by one and restored before the next run. The journal is on a tmpfs, so that no disk is measured.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use evenkeel_sys::clock::realtime_ns;
use evenkeel_sys::process;

use crate::audit::{beside_us, version};
use crate::row::{Measured, Measurements, Row};
use crate::turns::{Contender, Rounds, wall_ms};

const ROUNDS: usize = 40;

/// A place where a journal needs no disk.
const TMPFS: &str = "/dev/shm";

/// Settings that may be one higher for a moment without harm. Missing ones are left out.
const KEYS: &[&str] = &[
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.ipv4.udp_rmem_min",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_udp_timeout",
    "vm.compaction_proactiveness",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.min_free_kbytes",
    "vm.stat_interval",
    "vm.swappiness",
    "vm.watermark_boost_factor",
    "vm.watermark_scale_factor",
];

/// The machine with its old values, which are restored on drop.
struct Scene {
    _host: File,
    dir: PathBuf,
    evenkeel: String,
    /// Each key, with its old and its new value.
    keys: Vec<(String, String, String)>,
}

impl Scene {
    fn new() -> anyhow::Result<Scene> {
        ensure!(process::is_root(), "only root changes settings: run it with sudo");
        // Tests that switch settings use the same lock.
        let host = File::create(std::env::temp_dir().join("evenkeel-tests-of-this-host.lock"))?;
        host.lock()?;
        let dir = Path::new(TMPFS).join(format!("evenkeel-bench-{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| format!("make {}", dir.display()))?;
        let mut scene = Scene { _host: host, dir, evenkeel: beside_us("evenkeel")?, keys: Vec::new() };
        for key in KEYS {
            let Ok(now) = std::fs::read_to_string(path_of(key)) else { continue };
            let Ok(number) = now.trim().parse::<u32>() else { continue };
            let wanted = u64::from(number) + 1;
            let setting = format!("{key}={wanted}");
            if scene.ours(&["apply", "--plan-only", &setting]).run().is_ok() {
                scene.keys.push(((*key).to_owned(), number.to_string(), wanted.to_string()));
            }
        }
        let lines = |to: fn(&(String, String, String)) -> &str| -> String {
            scene.keys.iter().map(|key| format!("{} = {}\n", key.0, to(key))).collect()
        };
        std::fs::write(scene.dir.join("wanted.conf"), lines(|key| &key.2))?;
        std::fs::write(scene.dir.join("before.conf"), lines(|key| &key.1))?;
        Ok(scene)
    }

    fn ours(&self, arguments: &[&str]) -> Contender {
        let mut contender = Contender::new(&self.evenkeel, arguments);
        contender.arguments.extend(["--state".to_owned(), self.dir.join("state").display().to_string()]);
        contender
    }

    fn apply(&self) -> Contender {
        let settings: Vec<String> = self.keys.iter().map(|(key, _, wanted)| format!("{key}={wanted}")).collect();
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        self.ours(&[&["apply"], settings.as_slice()].concat())
    }

    fn sysctl(&self, file: &str) -> Contender {
        Contender::new("sysctl", &["-q", "-p", &self.dir.join(file).display().to_string()])
    }

    /// Restores the old values and empties the journal, before each run of `apply`.
    fn reset(&self) -> Contender {
        let state = self.dir.join("state").display().to_string();
        let script = "\"$0\" revert --state \"$1\" && rm -r \"$1\"; exec sysctl -q -p \"$2\"";
        let before = self.dir.join("before.conf").display().to_string();
        Contender::new("sh", &["-c", script, &self.evenkeel, &state, &before])
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for (key, before, _) in &self.keys {
            if let Err(error) = std::fs::write(path_of(key), before) {
                eprintln!("{key} was {before} and could not be put back: {error}");
            }
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn path_of(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key.replace('.', "/"))
}

/// Why `sysctl` is skipped, if it is.
const SYSCTL_MISSING: &str = "not installed: apt-get install --no-install-recommends procps";

pub(crate) fn measure_apply() -> anyhow::Result<Row> {
    let scene = Scene::new()?;
    let steps = scene.keys.len();
    let mut all =
        vec![(format!("evenkeel apply, {steps} steps"), &*scene.evenkeel, scene.apply().after(scene.reset()))];
    let mut skipped = BTreeMap::new();
    if version("sysctl", "--version").is_some() {
        all.push((format!("sysctl -p, {steps} keys"), "sysctl", scene.sysctl("wanted.conf").after(scene.reset())));
    } else {
        skipped.insert("sysctl -p".to_owned(), SYSCTL_MISSING.to_owned());
    }
    measure("apply", all, skipped)
}

pub(crate) fn measure_verify() -> anyhow::Result<Row> {
    let scene = Scene::new()?;
    scene.apply().run()?;
    let steps = scene.keys.len();
    let mut all = vec![(format!("evenkeel verify, {steps} steps"), &*scene.evenkeel, scene.ours(&["verify"]))];
    let mut skipped = BTreeMap::new();
    if version("sysctl", "--version").is_some() {
        let mut sysctl = Contender::new("sysctl", &["-n"]);
        sysctl.arguments.extend(scene.keys.iter().map(|(key, ..)| key.clone()));
        all.push((format!("sysctl -n, {steps} keys"), "sysctl", sysctl));
    } else {
        skipped.insert("sysctl -n".to_owned(), SYSCTL_MISSING.to_owned());
    }
    // Without its daemon, `tuned-adm` reports that and checks nothing. With its daemon, TuneD would have changed the machine itself.
    skipped.insert("tuned-adm verify".to_owned(), "it asks a daemon that holds a profile in force".to_owned());
    measure("verify", all, skipped)
}

fn measure(
    row: &'static str,
    all: Vec<(String, &str, Contender)>,
    skipped: BTreeMap<String, String>,
) -> anyhow::Result<Row> {
    let seed = realtime_ns();
    let mut names = Vec::new();
    let mut contenders = Vec::new();
    for (name, program, contender) in all {
        names.push((name, version(program, "--version").with_context(|| format!("{program} does not run"))?));
        contenders.push(contender);
    }
    let measured = wall_ms(&contenders, Rounds { count: ROUNDS, seed })?;
    let all = names.into_iter().zip(measured);
    let all = all.map(|((name, version), rounds)| Measured { name, version, rounds }).collect();
    Row::new(Measurements { row, unit: "ms", all, skipped, seed })
}
