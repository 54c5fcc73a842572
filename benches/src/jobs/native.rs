//! oneTBB and Taskflow: one small C++ program each, compiled here when the row is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use evenkeel_sys::CpuSet;

use super::{Case, Measure, Work};

pub(super) const VERSION: &str = "of this machine's packages";

const SOURCE: &str = include_str!("native.cpp");

/// A compiled program.
pub(super) struct Program(PathBuf);

/// Each C++ peer as a compiled program, or the reason why it is left out.
pub(super) fn all() -> [(&'static str, anyhow::Result<Program>); 2] {
    [
        ("oneTBB task_group", compile("onetbb", &["-DONETBB"], &["-ltbb"], "libtbb-dev")),
        ("Taskflow", compile("taskflow", &["-DTASKFLOW"], &["-pthread"], "libtaskflow-dev (not in every Debian)")),
    ]
}

fn compile(name: &str, defines: &[&str], libraries: &[&str], package: &str) -> anyhow::Result<Program> {
    let dir = Path::new("target/bench");
    std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    let (source, program) = (dir.join("native.cpp"), dir.join(format!("native-{name}")));
    std::fs::write(&source, SOURCE).with_context(|| format!("write {}", source.display()))?;
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-O2"]).args(defines).arg(&source).arg("-o").arg(&program).args(libraries);
    let output = command.output().context("start c++: apt-get install g++")?;
    if !output.status.success() {
        bail!("it does not compile: apt-get install {package}");
    }
    Ok(Program(program.canonicalize()?))
}

impl Program {
    pub(super) fn run(&self, case: Case, cpus: &CpuSet) -> anyhow::Result<f64> {
        let measure = match case.measure {
            Measure::Job => "job",
            Measure::FrameCpu => "frame-cpu",
            Measure::SlowestFrame => "slowest-frame",
        };
        let work = match case.work {
            Work::Empty => "empty",
            Work::Microsecond => "1us",
        };
        let list: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
        let mut command = Command::new(&self.0);
        command.args([measure, work, &case.threads.to_string(), &list.join(",")]);
        let output = command.output().with_context(|| format!("start {}", self.0.display()))?;
        ensure!(output.status.success(), "{} ended with {}", self.0.display(), output.status);
        String::from_utf8_lossy(&output.stdout).trim().parse().context("read the program's number")
    }
}
