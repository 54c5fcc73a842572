//! Runs programs interleaved: each program once per round, in a new random order. So changes of the machine affect all programs alike.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use evenkeel_sys::clock::monotonic_ns;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// A program and its arguments.
pub(crate) struct Contender {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    /// A program that restores the machine before each run of this one. Its time does not count.
    pub(crate) before: Option<Box<Contender>>,
}

impl Contender {
    pub(crate) fn new(program: impl Into<String>, arguments: &[&str]) -> Contender {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Contender { program: program.into(), arguments, before: None }
    }

    pub(crate) fn after(self, before: Contender) -> Contender {
        Contender { before: Some(Box::new(before)), ..self }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs the program to its end, and returns the time in milliseconds.
    pub(crate) fn run(&self) -> anyhow::Result<f64> {
        let before_ns = monotonic_ns();
        let status = self.command().status().with_context(|| format!("start {}", self.program))?;
        let ms = (monotonic_ns() - before_ns) as f64 / 1e6;
        ensure!(status.success(), "{} {} ended with {status}", self.program, self.arguments.join(" "));
        Ok(ms)
    }
}

/// The number of rounds, and the seed of their orders.
#[derive(Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) count: usize,
    pub(crate) seed: u64,
}

/// Wall time of the whole process in milliseconds: for each contender one number per round. The first round is not counted, because it
/// fills the page cache.
///
/// # Errors
/// If a contender cannot be started or fails.
pub(crate) fn wall_ms(contenders: &[Contender], rounds: Rounds) -> anyhow::Result<Vec<Vec<f64>>> {
    in_turns(contenders.len(), rounds, |at| {
        let contender = &contenders[at];
        contender.before.as_deref().map_or(Ok(0.0), Contender::run)?;
        contender.run()
    })
}

/// Calls `run` for each of this many contenders, once per round, and returns one number per round for each. The first round is not counted.
///
/// # Errors
/// The error of `run`.
pub(crate) fn in_turns(
    contenders: usize,
    rounds: Rounds,
    mut run: impl FnMut(usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<Vec<f64>>> {
    let mut chance = ChaCha8Rng::seed_from_u64(rounds.seed);
    let mut order: Vec<usize> = (0..contenders).collect();
    let mut measured = vec![Vec::with_capacity(rounds.count); contenders];
    for round in 0..=rounds.count {
        order.shuffle(&mut chance);
        for &at in &order {
            let number = run(at)?;
            if round > 0 {
                measured[at].push(number);
            }
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender(program: &str) -> Contender {
        Contender::new(program, &[])
    }

    #[test]
    fn each_has_a_number_for_each_round() {
        let measured = wall_ms(&[contender("true"), contender("true")], Rounds { count: 3, seed: 1 }).unwrap();
        assert!(measured.iter().all(|rounds| rounds.len() == 3 && rounds.iter().all(|ms| *ms > 0.0)), "{measured:?}");
    }

    #[test]
    fn what_goes_before_must_not_fail_either() {
        let after = |before| contender("true").after(contender(before));
        assert!(wall_ms(&[after("true")], Rounds { count: 1, seed: 1 }).is_ok());
        assert!(wall_ms(&[after("false")], Rounds { count: 1, seed: 1 }).is_err());
    }

    #[test]
    fn a_contender_that_fails_is_no_figure() {
        for program in ["false", "/not/here"] {
            assert!(wall_ms(&[contender(program)], Rounds { count: 1, seed: 1 }).is_err(), "{program}");
        }
    }
}
