//! `fleet prove`: tests on many hosts whether a goal helps.
//! The trial switches hosts, waits, queries, logs and tests, and restores everything at the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_fleet::host_numbers::{NoAnswer, host_of, of_hosts};
use evenkeel_fleet::switchback::{Caveat, Evidence, Numbers, Power, Switchback};
use evenkeel_stats::{Look, Options, Verdict};

use super::answers::ProveAnswer;
use super::prometheus::Prometheus;
use super::prove_ansible::Arms;
use super::prove_args::Args;
use super::prove_engine::Engine;
use super::prove_log::{Begin, Log, Record};
use crate::exit;
use crate::experiment::{fresh_seed, stop_flag};
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// The effects for which the power table shows the number of blocks.
const EFFECTS: [f64; 4] = [0.02, 0.05, 0.1, 0.2];
/// How often to query Prometheus for the numbers of a block, and the time between queries.
/// One lost answer must not end a trial of many hours.
const QUERIES_MAX: u32 = 4;
const QUERY_AGAIN: Duration = Duration::from_secs(5);
/// How often to ask the guard.
const GUARD_EVERY: Duration = Duration::from_secs(15);
/// How often a waiting command checks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why a trial ended.
enum End {
    /// The trial has a verdict, or has measured all blocks.
    Whole,
    /// A signal arrived.
    Signal,
    /// A host, the cluster or Prometheus failed. The failure contains a message for the user.
    Halted(Failure),
}

/// A running trial.
struct Trial<'a> {
    out: &'a Out,
    stop: &'a AtomicBool,
    engine: Engine,
    prometheus: Prometheus,
    log: Log,
    begin: Begin,
    patience: Duration,
    before: Vec<Numbers>,
    blocks: Vec<Numbers>,
    /// The hosts on which the guard ended the goal,
    /// and how many times in a row Prometheus did not answer the guard's query.
    stopped: BTreeSet<String>,
    guard_failures: u32,
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let stop = stop_flag()?;
    let prometheus = Prometheus::at(&args.prometheus)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io(exit::NOT_POSSIBLE, "start the trial", &error))?;
    runtime.block_on(async {
        let mut trial = Trial::start(args, out, &stop, prometheus).await?;
        let ended = trial.measure(args).await;
        trial.put_back().await?;
        let why = match &ended {
            End::Whole => "whole".to_owned(),
            End::Signal => "a signal".to_owned(),
            End::Halted(failure) => failure.message(),
        };
        trial.log.add(&Record::End { why })?;
        trial.answer(args, ended)
    })
}

impl<'a> Trial<'a> {
    async fn start(
        args: &Args,
        out: &'a Out,
        stop: &'a AtomicBool,
        prometheus: Prometheus,
    ) -> Result<Trial<'a>, Failure> {
        let path = args.log_path();
        let (engine, log, begin, records) = match args.go_on {
            true => gone_on(args, &path).await?,
            false => begun(args, &path).await?,
        };
        let (mut before, mut blocks, mut stopped) = (Vec::new(), Vec::new(), BTreeSet::new());
        for record in records {
            match record {
                Record::Before { numbers } => before.push(numbers),
                Record::Block { numbers } => blocks.push(numbers),
                Record::Stopped { host } => drop(stopped.insert(host)),
                Record::Begin(_) | Record::End { .. } => {}
            }
        }
        let (patience, guard_failures) = (args.patience, 0);
        Ok(Trial { out, stop, engine, prometheus, log, begin, patience, before, blocks, stopped, guard_failures })
    }

    async fn measure(&mut self, args: &Args) -> End {
        match self.measured(args).await {
            Ok(()) if self.stop.load(Ordering::Relaxed) => End::Signal,
            Ok(()) => End::Whole,
            Err(_) if self.stop.load(Ordering::Relaxed) => End::Signal,
            Err(failure) => End::Halted(failure),
        }
    }

    async fn measured(&mut self, args: &Args) -> Result<(), Failure> {
        self.check_guard()?;
        if self.before.len() < self.begin.blocks_before as usize {
            self.switch(&[]).await?;
        }
        while self.before.len() < self.begin.blocks_before as usize {
            let Some(numbers) = self.block(Vec::new()).await? else { return Ok(()) };
            self.log.add(&Record::Before { numbers: numbers.clone() })?;
            self.before.push(numbers);
            // Without two hosts that have numbers, further blocks would give no result.
            self.design()?;
            let line = format!("block {} of {} before the trial", self.before.len(), self.begin.blocks_before);
            self.out.status(&line);
        }
        if args.only_before {
            return Ok(());
        }
        let design = self.design()?;
        while self.blocks.len() < args.blocks as usize {
            let evidence = self.evidence(&design)?;
            if evidence.look().decided {
                return Ok(());
            }
            let mut with = design.arms(evidence.blocks()).with;
            let left = self.left_out(&design);
            with.retain(|host| !left.contains(host));
            // The guard has ended the goal on all hosts.
            if with.is_empty() {
                return Ok(());
            }
            self.switch(&with).await?;
            let Some(mut numbers) = self.block(with).await? else { return Ok(()) };
            let left = self.left_out(&design);
            numbers.retain(|host, _| !left.contains(host));
            self.log.add(&Record::Block { numbers: numbers.clone() })?;
            self.blocks.push(numbers);
            let look = self.evidence(&design)?.look();
            self.out.status(&format!("block {}: {}", self.blocks.len(), interval(&look)));
        }
        Ok(())
    }

    fn design(&self) -> Result<Switchback, Failure> {
        Switchback::pair(&self.before, self.begin.seed).map_err(|error| {
            Failure::text(exit::NOT_POSSIBLE, "pair the nodes", error).hint("ask Prometheus what --metric gives")
        })
    }

    fn options(&self) -> Options {
        Options { smallest_effect_ratio: self.begin.smallest_effect_ratio, ..Options::new(self.begin.better) }
    }

    fn evidence(&self, design: &Switchback) -> Result<Evidence, Failure> {
        evidence_of(design, self.options(), &self.blocks)
    }

    fn nodes(&self) -> BTreeSet<String> {
        self.begin.nodes.iter().cloned().collect()
    }

    /// The hosts with the goal, and all others.
    fn arms(&self, with: &[String]) -> Arms {
        let with: BTreeSet<String> = with.iter().cloned().collect();
        let without = self.nodes().difference(&with).cloned().collect();
        Arms { with, without }
    }

    /// Applies the goal to exactly these hosts, and waits until all hosts have applied or reverted it.
    async fn switch(&self, with: &[String]) -> Result<(), Failure> {
        self.engine.switch(&self.arms(with), &self.begin.identity(), self.patience).await
    }

    /// Waits for the wash-out and for the block, and then queries the block's numbers.
    /// Returns `None` if a signal arrived.
    /// Fails if a host left its arm within the block, because its number would then belong to both arms.
    /// During the block, the guard may end the goal on some of these hosts.
    async fn block(&mut self, mut with: Vec<String>) -> Result<Option<Numbers>, Failure> {
        let length = Duration::from_millis(self.begin.block_ms);
        self.guarded(Duration::from_millis(self.begin.wash_out_ms), &mut with).await?;
        self.guarded(length, &mut with).await?;
        if self.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        self.engine.check(&self.arms(&with), &self.begin.identity()).await?;
        let query = self.query(&self.begin.metric);
        let mut failure = None;
        for tried in 0..QUERIES_MAX {
            if tried > 0 {
                self.wait(QUERY_AGAIN).await;
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match self.numbers(&query) {
                Ok(numbers) => return Ok(Some(numbers)),
                Err(why) => failure = Some(Failure::text(exit::NOT_POSSIBLE, "ask Prometheus", why)),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Both hosts of each pair that contains a host on which the guard ended the goal.
    fn left_out(&self, design: &Switchback) -> BTreeSet<String> {
        let pairs = design.pairs().iter().map(|pair| [&pair.first, &pair.second]);
        pairs.filter(|pair| pair.iter().any(|host| self.stopped.contains(*host))).flatten().cloned().collect()
    }

    /// Runs the guard's query once before the trial,
    /// because a mistake in the query should show before the goal is in force.
    fn check_guard(&self) -> Result<(), Failure> {
        let Some(guard) = &self.begin.guard else { return Ok(()) };
        let failed = |why: NoAnswer| Failure::text(exit::WRONG_USE, "ask Prometheus for the guard", why);
        self.prometheus.numbers(&self.query(guard)).map(drop).map_err(failed)
    }

    /// The numbers of the hosts of the trial.
    fn numbers(&self, query: &str) -> Result<Numbers, NoAnswer> {
        let hosts = self.nodes();
        let numbers = self.prometheus.numbers(query)?;
        of_hosts(&numbers, |name| hosts.contains(name)).map_err(|error| NoAnswer::NoNumbers(error.to_string()))
    }

    /// A query for the length of a block.
    fn query(&self, query: &str) -> String {
        let seconds = Duration::from_millis(self.begin.block_ms).as_secs().max(1);
        query.replace("$window", &format!("{seconds}s"))
    }

    /// Waits, and runs the guard's query meanwhile. Hosts on which the guard ends the goal leave `with`.
    async fn guarded(&mut self, time: Duration, with: &mut Vec<String>) -> Result<(), Failure> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.wait(left.min(GUARD_EVERY)).await;
            self.ask_guard(with).await?;
        }
    }

    async fn ask_guard(&mut self, with: &mut Vec<String>) -> Result<(), Failure> {
        let Some(guard) = self.begin.guard.as_ref().filter(|_| !with.is_empty()) else { return Ok(()) };
        let found = match self.prometheus.numbers(&self.query(guard)) {
            Ok(numbers) => numbers,
            // Without the guard the goal must not go on for long.
            Err(why) if self.guard_failures + 1 >= QUERIES_MAX => {
                return Err(Failure::text(exit::NOT_POSSIBLE, "ask Prometheus for the guard", why));
            }
            Err(_) => {
                self.guard_failures += 1;
                return Ok(());
            }
        };
        self.guard_failures = 0;
        // A comparison with `bool` gives 0 for the other hosts. A host may have several numbers, such as those of two exporters.
        let bad = found.iter().filter(|(_, number)| **number != 0.0 && !number.is_nan());
        let hosts = self.nodes();
        let bad: BTreeSet<&str> = bad.filter_map(|(label, _)| host_of(label, |name| hosts.contains(name))).collect();
        let is_named = |host: &String| bad.contains(host.as_str());
        let (named, rest): (Vec<String>, Vec<String>) = with.drain(..).partition(is_named);
        *with = rest;
        if named.is_empty() {
            return Ok(());
        }
        for host in named {
            self.out.warn(&format!("the guard names {host}: the goal ends there, and its pair leaves the trial\n"));
            self.log.add(&Record::Stopped { host: host.clone() })?;
            self.stopped.insert(host);
        }
        self.switch(with).await
    }

    async fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.stop.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_EVERY.min(until - Instant::now())).await;
        }
    }

    /// Reverts the goal on all hosts.
    async fn put_back(&self) -> Result<(), Failure> {
        let later = self.engine.put_back(self.nodes(), &self.begin.identity(), self.patience).await?;
        later.iter().for_each(|later| self.out.warn(&format!("{later}\n")));
        Ok(())
    }

    fn caveats(&self, evidence: &Evidence) -> Vec<Caveat> {
        let hosts: Vec<String> = self.stopped.iter().cloned().collect();
        let stopped = (!hosts.is_empty()).then_some(Caveat::GuardStopped { hosts });
        stopped.into_iter().chain(evidence.caveats()).collect()
    }

    fn answer(&self, args: &Args, ended: End) -> Outcome {
        let (stopped, failure) = match ended {
            End::Whole => (None, None),
            End::Signal => (Some("a signal".to_owned()), None),
            End::Halted(failure) => (Some(failure.message()), Some(failure)),
        };
        if self.before.is_empty() {
            return failure.map_or(Ok(exit::STOPPED), Err);
        }
        let design = self.design()?;
        let before = evidence_of(&design, self.options(), &self.before)?;
        let power = design
            .power(&self.before, self.options(), &EFFECTS)
            .map_err(|error| Failure::new(exit::NOT_POSSIBLE, error))?;
        let evidence = self.evidence(&design)?;
        let look = evidence.look();
        let block_ms = self.begin.block_ms + self.begin.wash_out_ms;
        let blocks = self.before.len() + self.blocks.len();
        let hosts = design.pairs().len() * 2;
        let answer = ProveAnswer {
            goal: self.begin.goal.clone(),
            metric: self.begin.metric.clone(),
            verdict: look.verdict,
            ratio: Some(look.ratio).filter(|ratio| ratio.is_finite()),
            low: look.low,
            high: Some(look.high).filter(|high| high.is_finite()),
            hosts,
            blocks: evidence.blocks(),
            ratios: evidence.ratios(),
            host_hours: (blocks * hosts) as f64 * block_ms as f64 / 3_600_000.0,
            before: before.look().verdict,
            power,
            caveats: self.caveats(&evidence),
            stopped,
            seed: self.begin.seed,
        };
        self.out.answer(&answer, || page(&answer, &look, args.only_before))?;
        Ok(match (failure, answer.stopped.is_some(), answer.verdict) {
            (Some(failure), ..) => return Err(failure),
            (None, true, _) => exit::STOPPED,
            (None, false, Verdict::Worse) => exit::NO,
            (None, false, _) => exit::WELL,
        })
    }
}

/// A trial's engine, its log, and the content of the log.
type Started = (Engine, Log, Begin, Vec<Record>);

async fn gone_on(args: &Args, path: &Path) -> Result<Started, Failure> {
    let (log, begin, records) = Log::open(path)?;
    if begin.goal != args.goal || begin.metric != args.metric || begin.guard != args.guard {
        let guard = begin.guard.as_ref().map(|guard| format!(" and --guard '{guard}'")).unwrap_or_default();
        let cause = format!("it is about the goal {:?} and --metric '{}'{guard}", begin.goal, begin.metric);
        return Err(Failure::text(exit::WRONG_USE, format_args!("go on with {}", path.display()), cause));
    }
    let engine = Engine::from_args(args, &begin.trial).await?;
    engine.take(Some(&begin.identity())).await?;
    Ok((engine, log, begin, records))
}

async fn begun(args: &Args, path: &Path) -> Result<Started, Failure> {
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let trial = format!("{:08x}", fresh_seed() & 0xffff_ffff);
    let engine = Engine::from_args(args, &trial).await?;
    let (identity, nodes) = engine.take(None).await?;
    let begin = Begin {
        format: Begin::format(),
        trial,
        goal: args.goal.clone(),
        generation: identity.generation,
        uid: identity.uid,
        nodes,
        metric: args.metric.clone(),
        guard: args.guard.clone(),
        better: args.better.into(),
        block_ms: args.block.as_millis() as u64,
        wash_out_ms: args.wash_out.as_millis() as u64,
        blocks_before: args.blocks_before,
        smallest_effect_ratio: args.smallest_effect,
        seed,
    };
    match Log::create(path, &begin) {
        Ok(log) => Ok((engine, log, begin, Vec::new())),
        Err(failure) => {
            engine.give_back().await?;
            Err(failure)
        }
    }
}

fn evidence_of(design: &Switchback, options: Options, blocks: &[Numbers]) -> Result<Evidence, Failure> {
    let mut evidence = design.evidence(options).map_err(|error| Failure::new(exit::WRONG_USE, error))?;
    blocks.iter().for_each(|block| design.add(&mut evidence, block));
    Ok(evidence)
}

fn interval(look: &Look) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    if !look.high.is_finite() || look.low <= 0.0 {
        return "no interval yet".to_owned();
    }
    format!("{:+.1} % ({:+.1} to {:+.1} %)", percent(look.ratio), percent(look.low), percent(look.high))
}

fn page(answer: &ProveAnswer, look: &Look, only_before: bool) -> String {
    let verdict = match answer.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "the same",
        Verdict::Undecided => "undecided",
    };
    let mut text = String::new();
    if !only_before {
        text += &format!("{}: {verdict}, {}\n", answer.goal, interval(look));
        let counts =
            format!("{} hosts in pairs, {} blocks, {:.1} host hours", answer.hosts, answer.blocks, answer.host_hours);
        text += &format!("  {counts}, seed {}\n", answer.seed);
    }
    if matches!(answer.before, Verdict::Better | Verdict::Worse) {
        text += "  The blocks before the trial show a difference without the goal: this fleet is too noisy, or it was chance (1 in 20).\n";
    }
    for caveat in &answer.caveats {
        text += &match caveat {
            Caveat::Missing { with, without } => {
                format!(
                    "  Numbers are missing {with} times with the settings and {without} times without: look at these hosts.\n"
                )
            }
            Caveat::GuardStopped { hosts } => format!(
                "  The guard ended the goal on {}: the result leaves out these hosts, where the goal did harm.\n",
                hosts.join(", ")
            ),
            Caveat::CarryOver { ratio } => {
                let percent = (ratio - 1.0) * 100.0;
                format!(
                    "  Blocks after a switch differ from the others by {percent:+.1} %: the effect outlasts --wash-out.\n"
                )
            }
        };
    }
    text += "  If one load balancer spreads players over all hosts, a better host takes load from the others: then the effect is smaller than it looks.\n";
    text += &power(&answer.power);
    text
}

fn power(rows: &[Power]) -> String {
    let mut text = "  effect  blocks: half of trials  nine of ten\n".to_owned();
    for row in rows {
        let blocks =
            |blocks: Option<u64>| blocks.map_or(format!("over {}", row.blocks_max), |blocks| blocks.to_string());
        let percent = row.effect_ratio * 100.0;
        text += &format!("  {percent:>4.0} %  {:>22}  {:>11}\n", blocks(row.blocks_p50), blocks(row.blocks_p90));
    }
    text
}
