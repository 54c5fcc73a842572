//! `flame`: wall time from a 20 MB `perf.data` file to a flame graph, compared with `perf script` and the programs that fold and draw its
//! text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use evenkeel_sys::clock::realtime_ns;

use crate::audit::{beside_us, version};
use crate::row::{Measured, Measurements, Row};
use crate::turns::{Contender, Rounds, wall_ms};

const ROUNDS: usize = 10;
/// perf stops when its file has this size.
const RECORDING: &str = "20M";
/// The environment variable with the path of the user's own recording, to use instead of a new one. The result depends much on the
/// recording.
const OWN_RECORDING: &str = "EVENKEEL_FLAME_DATA";
/// The path of the script in Debian, used if the script is not on `PATH`.
const FLAMEGRAPH: &str = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl";

/// The programs that fold and draw the output of `perf script`.
struct Peer {
    fold: &'static str,
    draw: &'static str,
    advice: &'static str,
}

const PEERS: &[Peer] = &[
    Peer { fold: "stackcollapse-perf.pl", draw: "flamegraph.pl", advice: "put both scripts of FlameGraph on the path" },
    Peer {
        fold: "inferno-collapse-perf",
        draw: "flamegraph.pl",
        advice: "cargo install --locked inferno, and apt-get install --no-install-recommends libdevel-nytprof-perl",
    },
    Peer { fold: "inferno-collapse-perf", draw: "inferno-flamegraph", advice: "cargo install --locked inferno" },
];

pub(crate) fn measure() -> anyhow::Result<Row> {
    let ours = beside_us("evenkeel")?;
    let our_version =
        version(&ours, "--version").with_context(|| format!("{ours} does not run: 'make bench' builds it"))?;
    let perf = version("perf", "--version").context("perf is missing: apt-get install linux-perf")?;
    let data = recording(&ours)?;
    let data = data.to_str().context("the path of the recording is not text")?;
    let svg = format!("{data}.svg");
    let mut contenders = vec![Contender::new(&ours, &["profile", "view", data, "--output", &svg, "--force"])];
    let mut names = vec![("evenkeel profile view".to_owned(), our_version)];
    let mut skipped = BTreeMap::new();
    for peer in PEERS {
        let name = format!("perf script | {} | {}", peer.fold, peer.draw);
        match found(peer.fold).zip(found(peer.draw)) {
            Some((fold, draw)) => {
                let line = format!("set -e; perf script -i '{data}' | '{fold}' | '{draw}' > '{svg}'");
                contenders.push(Contender::new("bash", &["-o", "pipefail", "-c", &line]));
                names.push((name, perf.clone()));
            }
            None => {
                skipped.insert(name, format!("not installed: {}", peer.advice));
            }
        }
    }
    let seed = realtime_ns();
    let measured = wall_ms(&contenders, Rounds { count: ROUNDS, seed })?;
    let all = names.into_iter().zip(measured);
    let all = all.map(|((name, version), rounds)| Measured { name, version, rounds }).collect();
    Row::new(Measurements { row: "flame", unit: "ms", all, skipped, seed })
}

/// The file to convert: everything that runs while audits repeat, with 4,999 samples per second and CPU.
fn recording(ours: &str) -> anyhow::Result<PathBuf> {
    if let Some(own) = std::env::var_os(OWN_RECORDING) {
        return Ok(PathBuf::from(own));
    }
    let data = Path::new("target/bench/flame.data").to_owned();
    let audits = format!("while :; do '{ours}' audit --json > /dev/null; '{ours}' explain > /dev/null; done");
    let mut perf = Command::new("timeout");
    perf.args(["--signal=INT", "100", "perf", "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", "4999"]);
    perf.arg(format!("--max-size={RECORDING}")).arg("-o").arg(&data).args(["timeout", "90", "sh", "-c", &audits]);
    // perf stops at the size limit or at the time limit. It reports neither as success.
    let _ended = perf.stdout(Stdio::null()).stderr(Stdio::null()).status().context("start perf")?;
    let length = std::fs::metadata(&data).with_context(|| format!("look at {}", data.display()))?.len();
    ensure!(length > 1_000_000, "perf recorded {length} bytes only");
    Ok(data)
}

/// The full path of a program, if it is installed.
fn found(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    let script = (program == "flamegraph.pl").then(|| PathBuf::from(FLAMEGRAPH)).filter(|file| file.is_file());
    Some(on_path.or(script)?.to_str()?.to_owned())
}
