//! `screening`: how many windows it takes to find and prove the right set of knobs, on a simulated server of 30 knobs. Three of them help,
//! one hurts, and two help only together. The peer tests one knob after another with the same test and certainty. `screening-regret`: the
//! true distance of the chosen set from the best one, compared with random search and Optuna's TPE with the same windows. `screening-table`
//! prints how often each method finds the right set.
//!
//! The server is the one that the search's own tests use (`evenkeel_trial::search::simulated`). Optuna runs as a process that gets the same
//! server line by line. It is expected in `target/optuna`; the hint says how to install it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use evenkeel_trial::search::simulated::{METRIC, Simulated, Truth, one_at_a_time};
use evenkeel_trial::search::{Answer, Budget, Log, SearchDesign, Tools, Verdict, search};
use evenkeel_trial::{Arm, Level};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::row::{Measured, Measurements, Row};

/// The number of searches per method. Use 100 for published figures.
const SEEDS: u64 = 20;
const SEEDS_CALIBRATED: u64 = 100;
/// The maximum number of windows of one search. A search that does not find the right set counts as having used all of them.
const WINDOWS_MAX: usize = 10_000;
/// The maximum number of pairs per knob, for the method that tests one knob after another.
const PAIRS_MAX: usize = 300;
/// The knobs that really help, in order.
const RIGHT: [usize; 5] = [4, 7, 11, 23, 28];
const PYTHON: &str = "target/optuna/bin/python";
const SCRIPT: &str = "lab/optuna-tpe.py";
const OPTUNA: &str = "5.0.0";
const INSTALL: &str = "it is not here: python3 -m venv target/optuna && target/optuna/bin/pip install optuna==5.0.0";

/// The simulated server with its true effects. Its noise comes from `EVENKEEL_NOISE`. The default of 0.04 is the noise of a median round
/// trip over a second.
fn truth() -> Truth {
    let noise = std::env::var("EVENKEEL_NOISE").ok().and_then(|text| text.parse().ok()).filter(|noise| *noise > 0.0);
    Truth { noise: noise.unwrap_or(0.04), ..Truth::three_of_thirty() }
}

fn seeds() -> u64 {
    if std::env::var_os("EVENKEEL_CALIBRATE").is_some() { SEEDS_CALIBRATED } else { SEEDS }
}

fn design(seed: u64) -> SearchDesign {
    let budget = Budget { windows: WINDOWS_MAX, time_ms: None };
    SearchDesign { smallest_effect_ratio: 0.05, ..SearchDesign::new(truth().candidates(), METRIC, budget, seed) }
}

/// The set of knobs that a search chose.
struct Chosen {
    knobs: Vec<usize>,
    windows: usize,
}

fn ours(seed: u64) -> anyhow::Result<Chosen> {
    let design = design(seed);
    let mut server = Simulated::new(truth(), seed);
    let mut log = Log::in_memory(Vec::new());
    let tools = Tools { subject: &mut server, log: &mut log, stop: &|| false, on_progress: &mut |_| {} };
    let answer: Answer = search(&design, tools)?;
    let knob = |settings: &[String]| -> Option<usize> {
        settings.first()?.strip_prefix("knob")?.split('=').next()?.parse().ok()
    };
    let proved = answer.verdict == Verdict::Better;
    let mut knobs: Vec<usize> =
        answer.set.iter().filter(|_| proved).filter_map(|chosen| knob(&chosen.settings)).collect();
    knobs.sort_unstable();
    Ok(Chosen { knobs, windows: answer.windows.values().sum() })
}

fn singly(seed: u64) -> anyhow::Result<Chosen> {
    let mut server = Simulated::new(truth(), seed);
    let (knobs, windows) = one_at_a_time(&design(seed), &mut server, PAIRS_MAX)?;
    Ok(Chosen { knobs, windows })
}

/// Random search: measures random arms, one window each, and chooses the arm of the best window.
fn random(seed: u64, windows: usize) -> Chosen {
    let truth = truth();
    let (mut chance, mut server) = (ChaCha8Rng::seed_from_u64(seed), Simulated::new(truth.clone(), seed));
    let mut best = (f64::INFINITY, Vec::new());
    for _ in 0..windows {
        let knobs: Vec<usize> = (0..truth.knobs).filter(|_| chance.random::<bool>()).collect();
        let value = server.measure(&arm(&knobs));
        if value < best.0 {
            best = (value, knobs);
        }
    }
    Chosen { knobs: best.1, windows }
}

/// Optuna's TPE, with the same server.
fn optuna(seed: u64, windows: usize) -> anyhow::Result<Chosen> {
    let truth = truth();
    let mut server = Simulated::new(truth.clone(), seed);
    let arguments = [truth.knobs.to_string(), windows.to_string(), seed.to_string()];
    let mut child = Command::new(PYTHON)
        .arg(SCRIPT)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {PYTHON}"))?;
    let (mut tell, hear) = (child.stdin.take().context("its input")?, child.stdout.take().context("its output")?);
    let mut best = None;
    for line in BufReader::new(hear).lines().take(windows + 1) {
        let line = line?;
        let (word, levels) = line.split_once(' ').with_context(|| format!("{SCRIPT} said {line:?}"))?;
        ensure!(levels.len() == truth.knobs, "{SCRIPT} said {line:?}");
        let knobs: Vec<usize> =
            levels.bytes().enumerate().filter(|(_, on)| *on == b'1').map(|(knob, _)| knob).collect();
        match word {
            "ask" => writeln!(tell, "{}", server.measure(&arm(&knobs)))?,
            _ => best = Some(knobs),
        }
    }
    drop(tell);
    ensure!(child.wait()?.success(), "{SCRIPT} failed");
    Ok(Chosen { knobs: best.with_context(|| format!("{SCRIPT} named no best trial"))?, windows })
}

fn arm(knobs: &[usize]) -> Arm {
    let truth = truth();
    Arm((0..truth.knobs).map(|knob| if knobs.contains(&knob) { Level::Planned } else { Level::AsItWas }).collect())
}

/// The true metric of the chosen set divided by that of the best set, without noise.
fn regret(chosen: &Chosen) -> f64 {
    let truth = truth();
    (truth.cost(&arm(&chosen.knobs)) - truth.cost(&arm(&RIGHT))).exp()
}

fn has_optuna() -> bool {
    Path::new(PYTHON).exists()
}

fn measured(name: &str, version: &str, rounds: Vec<f64>) -> Measured {
    Measured { name: name.to_owned(), version: version.to_owned(), rounds }
}

/// # Errors
/// If a search can't be run.
pub(crate) fn measure() -> anyhow::Result<Row> {
    let (mut found, mut one_by_one) = (Vec::new(), Vec::new());
    for seed in 0..seeds() {
        let chosen = ours(seed)?;
        found.push(if chosen.knobs == RIGHT { chosen.windows } else { WINDOWS_MAX } as f64);
        one_by_one.push(singly(seed)?.windows as f64);
    }
    let all = vec![
        measured("evenkeel", env!("CARGO_PKG_VERSION"), found),
        measured("one at a time", "same test and certainty", one_by_one),
    ];
    Row::new(Measurements { row: "screening", unit: "windows", all, skipped: BTreeMap::new(), seed: 0 })
}

/// # Errors
/// If a search can't be run.
pub(crate) fn measure_regret() -> anyhow::Result<Row> {
    let (mut found, mut by_chance, mut tpe) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 0..seeds() {
        let chosen = ours(seed)?;
        by_chance.push(regret(&random(seed, chosen.windows)));
        if has_optuna() {
            tpe.push(regret(&optuna(seed, chosen.windows)?));
        }
        found.push(regret(&chosen));
    }
    let mut all = vec![
        measured("evenkeel", env!("CARGO_PKG_VERSION"), found),
        measured("random search", "as many windows", by_chance),
    ];
    let mut skipped = BTreeMap::new();
    if tpe.is_empty() {
        skipped.insert("optuna TPE".to_owned(), INSTALL.to_owned());
    } else {
        all.push(measured("optuna TPE", OPTUNA, tpe));
    }
    Row::new(Measurements { row: "screening-regret", unit: "times the best set's", all, skipped, seed: 0 })
}

/// How often each method finds the right set, and which other knobs it chooses.
///
/// # Errors
/// If a search can't be run.
pub(crate) fn print_table() -> anyhow::Result<()> {
    type Search = fn(u64, usize) -> anyhow::Result<Chosen>;
    let searches: [(&str, Search); 4] = [
        ("evenkeel", |seed, _| ours(seed)),
        ("one at a time", |seed, _| singly(seed)),
        ("random search", |seed, windows| Ok(random(seed, windows))),
        ("optuna TPE", optuna),
    ];
    println!(
        "of {} searches: the right set, then on average windows, knobs without benefit, knobs that help and are missing, and times the best set's lateness",
        seeds()
    );
    for (name, run) in searches {
        if name == "optuna TPE" && !has_optuna() {
            println!("{name:14} skipped: {INSTALL}");
            continue;
        }
        let (mut right, mut sums) = (0, [0.0; 4]);
        for seed in 0..seeds() {
            let windows = ours(seed)?.windows;
            let chosen = run(seed, windows)?;
            right += u64::from(chosen.knobs == RIGHT);
            let needless = chosen.knobs.iter().filter(|knob| !RIGHT.contains(knob)).count();
            let missing = RIGHT.iter().filter(|knob| !chosen.knobs.contains(knob)).count();
            let figures = [chosen.windows as f64, needless as f64, missing as f64, regret(&chosen)];
            sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        }
        let [windows, needless, missing, times] = sums.map(|sum| sum / seeds() as f64);
        println!("{name:14} {right:4} {windows:7.0} {needless:6.1} {missing:6.1} {times:7.3}");
    }
    Ok(())
}
