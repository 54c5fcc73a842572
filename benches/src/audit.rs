//! `audit`: wall time of a whole `evenkeel audit --json`, compared with programs that read the same machine.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Context;
use evenkeel_sys::clock::realtime_ns;

use crate::row::{Measured, Measurements, Row};
use crate::turns::{Contender, Rounds, wall_ms};

const ROUNDS: usize = 40;

/// A peer: its program, its arguments, how to get its version, and its Debian package.
struct Peer {
    program: &'static str,
    arguments: &'static [&'static str],
    version: &'static str,
    package: &'static str,
}

const PEERS: &[Peer] = &[
    Peer { program: "lscpu", arguments: &["-J"], version: "--version", package: "util-linux" },
    Peer { program: "sysctl", arguments: &["-a"], version: "--version", package: "procps" },
    Peer { program: "tuned-adm", arguments: &["recommend"], version: "--version", package: "tuned" },
    Peer { program: "lstopo-no-graphics", arguments: &[], version: "--version", package: "hwloc-nox" },
];

pub(crate) fn measure() -> anyhow::Result<Row> {
    let ours = beside_us("evenkeel")?;
    let version =
        version(&ours, "--version").with_context(|| format!("{ours} does not run: 'make bench' builds it"))?;
    let mut contenders = vec![Contender::new(ours, &["audit", "--json"])];
    let mut names = vec![("evenkeel audit --json".to_owned(), version)];
    let mut skipped = BTreeMap::new();
    for peer in PEERS {
        let name = format!("{} {}", peer.program, peer.arguments.join(" ")).trim_end().to_owned();
        match self::version(peer.program, peer.version) {
            Some(version) => {
                contenders.push(Contender::new(peer.program, peer.arguments));
                names.push((name, version));
            }
            None => {
                skipped
                    .insert(name, format!("not installed: apt-get install --no-install-recommends {}", peer.package));
            }
        }
    }
    let seed = realtime_ns();
    let measured = wall_ms(&contenders, Rounds { count: ROUNDS, seed })?;
    let all = names.into_iter().zip(measured);
    let all = all.map(|((name, version), rounds)| Measured { name, version, rounds }).collect();
    Row::new(Measurements { row: "audit", unit: "ms", all, skipped, seed })
}

/// The path of one of evenkeel's programs, which the build puts beside this program.
pub(crate) fn beside_us(name: &str) -> anyhow::Result<String> {
    let us = std::env::current_exe().context("find this program")?;
    let path = us.with_file_name(name);
    Ok(path.to_str().context("the path of this program is not text")?.to_owned())
}

/// The first line of a program's version output. `None` if it does not run.
pub(crate) fn version(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}
