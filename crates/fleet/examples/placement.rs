//! Simulated sessions on machines with 36 and 128 CPUs: how late their ticks are, and how many fit, under several ways to place them.
//!
//! A tick is due once a period, at a random phase of its session. Its work is random (gamma, coefficient of variation 0.5).
//! A tick waits while its CPU runs another tick, first come first served.
//! A CPU with a busy sibling runs at 0.6 of its speed. Lateness is the time from due to done, less the work.
//! `cargo run --release -p evenkeel-fleet --example placement`

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Instant;

use evenkeel_fleet::Session;
use evenkeel_fleet::pack::{CpuSets, Machine, MachineCache, MachineCpu, MachineNode, Options, plan};

/// The speed of a CPU while its sibling is busy, as a share of its full speed.
const BUSY_SIBLING_SPEED: f64 = 0.6;
/// The CPU time of a packet where its interrupt is served, in milliseconds, as the plan assumes it.
const PACKET_MS: f64 = 0.002;
/// The additional time of a tick after its thread moved to another CPU, in milliseconds:
/// 300 KiB of data come from the shared cache, or from the other node.
const MOVE_MS: f64 = 0.03;
const MOVE_NODE_MS: f64 = 0.2;
/// The simulated time, and the time at its start in which ticks do not count yet, in milliseconds.
const END_MS: f64 = 11_000.0;
const WARM_MS: f64 = 1_000.0;
/// Sessions fit while the p99 of the lateness of all ticks is at most this many milliseconds.
const LATE_MS_MAX: f64 = 2.0;

#[derive(Clone, Copy)]
struct Work {
    name: &'static str,
    /// Period and mean work of each kind of session, in milliseconds. The kinds of the sessions alternate.
    kinds: &'static [(f64, f64)],
    packets_per_s: f64,
}

const WORKS: [Work; 3] = [
    Work { name: "1 ms of 20 ms", kinds: &[(20.0, 1.0)], packets_per_s: 600.0 },
    Work { name: "6 ms of 20 ms", kinds: &[(20.0, 6.0)], packets_per_s: 600.0 },
    Work { name: "mixed", kinds: &[(20.0, 1.0), (33.0, 8.0), (50.0, 4.0), (10.0, 0.5)], packets_per_s: 600.0 },
];

#[derive(Clone, Copy, PartialEq)]
enum Placement {
    /// The best that a kernel could do: each free CPU takes the tick that has waited longest.
    Unpinned,
    /// The kernel chooses a free CPU when the tick is due. Without one, the tick waits for the session's last CPU.
    UnpinnedSticky,
    /// Session i runs on CPU i. After the last CPU, the next session gets the first CPU again.
    RoundRobin,
    /// Each session gets whole CPUs, core by core. One CPU is reserved.
    KubernetesStatic,
    Plan,
    /// The plan, with the ticks of a CPU spread over the period.
    PlanSpread,
    /// Any CPU of the session's node that the plan uses. `pack plan` prints no such placement.
    PlanPools,
}

const PLACEMENTS: [(Placement, &str); 7] = [
    (Placement::Unpinned, "no pinning, any free CPU takes the next tick"),
    (Placement::UnpinnedSticky, "no pinning, a tick waits for its last CPU"),
    (Placement::RoundRobin, "one CPU a session, round robin"),
    (Placement::KubernetesStatic, "Kubernetes, static CPU manager"),
    (Placement::Plan, "evenkeel pack plan"),
    (Placement::PlanSpread, "the same, ticks spread"),
    (Placement::PlanPools, "the plan's nodes, any CPU of the node"),
];

fn main() {
    for (name, machine) in [("36 CPUs", machine(9, &[23, 33])), ("128 CPUs", machine(32, &[0, 1, 2, 3, 4, 5, 6, 7]))] {
        for work in WORKS {
            let start = equal_load(&machine, work);
            println!("\n{name}, 2 nodes; {}; {start} sessions, then as many as fit", work.name);
            println!(
                "| placement | p99 lateness, ms | of the worst session, ms | sessions that fit |\n|---|---|---|---|"
            );
            for (placement, title) in PLACEMENTS {
                let at = simulate(&machine, work, placement, start, 1);
                let (p99, worst) = at.map_or(("no place".to_owned(), String::new()), |(p99, worst)| {
                    (format!("{p99:.2}"), format!("{worst:.2}"))
                });
                println!("| {title} | {p99} | {worst} | {} |", most(&machine, work, placement));
            }
        }
    }
    proofs();
}

/// Two nodes; the second threads of all cores have the higher numbers, as on Amazon's and most other machines.
fn machine(cores: usize, interrupts: &[usize]) -> Machine {
    let cpu = |cpu: usize| {
        let core = cpu % (2 * cores);
        let node = core / cores;
        let serves_interrupts = interrupts.contains(&cpu);
        MachineCpu { cpu, node, cache: node, core, is_allowed: true, is_isolated: false, serves_interrupts }
    };
    Machine {
        cpus: (0..4 * cores).map(cpu).collect(),
        nodes: (0..2).map(|node| MachineNode { node: Some(node), memory_bytes: None }).collect(),
        caches: vec![MachineCache { size_bytes: Some(32 << 20) }; 2],
        ..Machine::default()
    }
}

/// The number of sessions that use 0.4 of all CPUs together. It is less than the number of CPUs, so that every placement has room.
fn equal_load(machine: &Machine, work: Work) -> usize {
    let mean = work.kinds.iter().map(|(period, work)| work / period).sum::<f64>() / work.kinds.len() as f64;
    ((0.4 * machine.cpus.len() as f64 / mean) as usize).min(machine.cpus.len() - 1)
}

/// The maximum number of sessions whose ticks are not too late in any of three runs.
fn most(machine: &Machine, work: Work, placement: Placement) -> usize {
    let fits = |count| {
        (1..=3).all(|seed| simulate(machine, work, placement, count, seed).is_some_and(|(p99, _)| p99 <= LATE_MS_MAX))
    };
    let (mut low, mut high) = (0, machine.cpus.len() * 40);
    while high - low > (low / 100).max(1) {
        let middle = (low + high) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// Random numbers, the same in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A sum of four exponentials. Its standard deviation is half of its mean.
    fn gamma(&mut self, mean: f64) -> f64 {
        (0..4).map(|_| -(1.0 - self.next()).ln()).sum::<f64>() * mean / 4.0
    }
}

struct Ticker {
    period: f64,
    work: f64,
    due: f64,
    /// The CPU to which the session is pinned; none if it is not pinned.
    cpu: Option<usize>,
    /// If set, the session may use any CPU of this node that serves no interrupts.
    pool: Option<usize>,
    last: usize,
    late: Vec<f64>,
}

/// The CPU of each session; an unpinned session has no CPU of its own. `None` if some sessions have no place.
fn places(machine: &Machine, work: Work, placement: Placement, count: usize) -> Option<Vec<Option<usize>>> {
    let cpus = machine.cpus.len();
    match placement {
        Placement::Unpinned | Placement::UnpinnedSticky => Some(vec![None; count]),
        Placement::RoundRobin => Some((0..count).map(|at| Some(at % cpus)).collect()),
        Placement::KubernetesStatic => {
            // CPU 0 is reserved. The first session gets its sibling.
            let order: Vec<usize> = (0..cpus).map(|at| at / 2 + at % 2 * cpus / 2).skip(1).collect();
            (count <= order.len()).then(|| order.into_iter().take(count).map(Some).collect())
        }
        Placement::Plan | Placement::PlanSpread | Placement::PlanPools => {
            let sessions: Vec<Session> = (0..work.kinds.len()).map(|kind| session(work, kind, count)).collect();
            let sessions: Vec<Session> = sessions.into_iter().filter(|session| session.count > 0).collect();
            let report =
                plan(machine, &sessions, &Options { work: 0, cpu_sets: CpuSets::One, ..Options::default() }).ok()?;
            if !report.left_out.is_empty() {
                return None;
            }
            let mut of_kind: Vec<VecDeque<usize>> = vec![VecDeque::new(); work.kinds.len()];
            for one in &report.placements {
                let cpu = one.cpus.first()?;
                of_kind[one.session.parse::<usize>().ok()?].extend(std::iter::repeat_n(cpu, one.count as usize));
            }
            (0..count).map(|at| of_kind[at % work.kinds.len()].pop_front().map(Some)).collect()
        }
    }
}

fn session(work: Work, kind: usize, count: usize) -> Session {
    let (period, mean) = work.kinds[kind];
    let kinds = work.kinds.len();
    Session {
        name: kind.to_string(),
        count: (count / kinds + usize::from(kind < count % kinds)) as u32,
        cpus: mean / period,
        tick_hz: Some(1000.0 / period),
        work_us_p99: Some(2.5 * mean * 1000.0),
        memory_mib: None,
        cache_kib: Some(300.0),
        packets_per_s: Some(work.packets_per_s),
        network_mbps: None,
        unit: None,
        cpu_weight: None,
    }
}

/// The p99 of lateness over all ticks, and the highest p99 of a single session. `None` if a session has no place.
fn simulate(machine: &Machine, work: Work, placement: Placement, count: usize, seed: u64) -> Option<(f64, f64)> {
    let places = places(machine, work, placement, count)?;
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut tickers: Vec<Ticker> = places
        .iter()
        .enumerate()
        .map(|(at, cpu)| {
            let (period, work) = work.kinds[at % work.kinds.len()];
            let due = chance.next() * period;
            Ticker {
                period,
                work,
                due,
                cpu: *cpu,
                pool: None,
                last: cpu.unwrap_or(at % machine.cpus.len()),
                late: Vec::new(),
            }
        })
        .collect();
    if placement == Placement::PlanPools {
        for ticker in &mut tickers {
            ticker.pool = ticker.cpu.take().map(|cpu| machine.cpus[cpu].node);
        }
    }
    if placement == Placement::PlanSpread {
        spread(&mut tickers, machine.cpus.len());
    }
    let mut host = Host::new(machine, tickers, work.packets_per_s, chance);
    host.is_sticky = placement == Placement::UnpinnedSticky;
    host.run();
    let p99 = |late: &mut Vec<f64>| {
        late.sort_by(f64::total_cmp);
        late.get(late.len() * 99 / 100).copied().unwrap_or(0.0)
    };
    let worst = host.tickers.iter_mut().map(|ticker| p99(&mut ticker.late)).fold(0.0, f64::max);
    let mut all: Vec<f64> = host.tickers.iter().flat_map(|ticker| ticker.late.iter().copied()).collect();
    Some((p99(&mut all), worst))
}

/// Spreads the ticks of each CPU, each with a gap in proportion to its work.
fn spread(tickers: &mut [Ticker], cpus: usize) {
    for cpu in 0..cpus {
        let total: f64 = tickers.iter().filter(|ticker| ticker.cpu == Some(cpu)).map(|ticker| ticker.work).sum();
        let mut before = 0.0;
        for ticker in tickers.iter_mut().filter(|ticker| ticker.cpu == Some(cpu)) {
            ticker.due = before / total * ticker.period;
            before += ticker.work;
        }
    }
}

/// The index in [`Host::waiting`] of the ticks that any CPU may run.
const ANY: usize = 2;

#[derive(Clone, Copy)]
struct Tick {
    ticker: usize,
    due: f64,
    work: f64,
}

#[derive(Default)]
struct Cpu {
    running: Option<(Tick, f64)>,
    /// When the remaining work was last updated. `speed` is the present speed of the CPU.
    since: f64,
    speed: f64,
    /// Increases with each change of speed. The event for the end of a tick is valid only if it has the CPU's version.
    version: u64,
    queue: VecDeque<Tick>,
    interrupts: f64,
    sibling: usize,
    node: usize,
}

/// An event's time in nanoseconds, because it needs an order; then a number that makes it unique.
type Event = Reverse<(u64, u64, What)>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Due(usize),
    End(usize, u64),
}

struct Host {
    now: f64,
    cpus: Vec<Cpu>,
    tickers: Vec<Ticker>,
    /// Ticks that wait for a CPU of a node, and ticks that wait for any CPU.
    waiting: [VecDeque<Tick>; 3],
    is_sticky: bool,
    events: BinaryHeap<Event>,
    number: u64,
    chance: Chance,
}

impl Host {
    fn new(machine: &Machine, tickers: Vec<Ticker>, packets_per_s: f64, chance: Chance) -> Host {
        let queues = machine.cpus.iter().filter(|cpu| cpu.serves_interrupts).count().max(1) as f64;
        let interrupts = (packets_per_s * tickers.len() as f64 * PACKET_MS / 1000.0 / queues).min(0.95);
        let cpu = |cpu: &MachineCpu| Cpu {
            interrupts: if cpu.serves_interrupts { interrupts } else { 0.0 },
            sibling: (cpu.cpu + machine.cpus.len() / 2) % machine.cpus.len(),
            node: cpu.node,
            ..Cpu::default()
        };
        let cpus = machine.cpus.iter().map(cpu).collect();
        Host {
            now: 0.0,
            cpus,
            tickers,
            waiting: Default::default(),
            is_sticky: false,
            events: BinaryHeap::new(),
            number: 0,
            chance,
        }
    }

    fn run(&mut self) {
        for at in 0..self.tickers.len() {
            self.event(self.tickers[at].due, What::Due(at));
        }
        while let Some(Reverse((ns, _, what))) = self.events.pop() {
            self.now = ns as f64 / 1e6;
            if self.now > END_MS {
                break;
            }
            match what {
                What::Due(ticker) => self.due(ticker),
                What::End(cpu, version) if self.cpus[cpu].version == version => self.end(cpu),
                What::End(..) => {}
            }
        }
    }

    fn event(&mut self, at: f64, what: What) {
        self.number += 1;
        self.events.push(Reverse(((at * 1e6) as u64, self.number, what)));
    }

    fn due(&mut self, at: usize) {
        let work = self.chance.gamma(self.tickers[at].work);
        let ticker = &mut self.tickers[at];
        let tick = Tick { ticker: at, due: ticker.due, work };
        ticker.due += ticker.period;
        let (next, pinned, last, pool) = (ticker.due, ticker.cpu, ticker.last, ticker.pool);
        self.event(next, What::Due(at));
        match pinned {
            Some(cpu) if self.cpus[cpu].running.is_some() => self.cpus[cpu].queue.push_back(tick),
            Some(cpu) => self.start(cpu, tick),
            None => match self.idle(last, pool) {
                Some(cpu) => self.start(cpu, tick),
                None if self.is_sticky => self.cpus[last].queue.push_back(tick),
                None => self.waiting[pool.unwrap_or(ANY)].push_back(tick),
            },
        }
    }

    /// A free CPU: the tick's last CPU, else one of a free core, else any. CPUs of the same node come first.
    fn idle(&self, last: usize, pool: Option<usize>) -> Option<usize> {
        let may = |on: &Cpu| pool.is_none_or(|node| on.node == node && on.interrupts == 0.0);
        let free = (0..self.cpus.len()).filter(|cpu| self.cpus[*cpu].running.is_none() && may(&self.cpus[*cpu]));
        free.min_by_key(|cpu| {
            let on = &self.cpus[*cpu];
            let is_core_busy = self.cpus[on.sibling].running.is_some();
            (is_core_busy, *cpu != last, on.node != self.cpus[last].node)
        })
    }

    fn start(&mut self, cpu: usize, tick: Tick) {
        let last = std::mem::replace(&mut self.tickers[tick.ticker].last, cpu);
        let moved = match (last == cpu, self.cpus[last].node == self.cpus[cpu].node) {
            (true, _) => 0.0,
            (false, true) => MOVE_MS,
            (false, false) => MOVE_NODE_MS,
        };
        self.cpus[cpu].running = Some((tick, tick.work + moved));
        self.cpus[cpu].since = self.now;
        self.pace(cpu);
        self.pace(self.cpus[cpu].sibling);
    }

    /// Updates the remaining work, and returns when it ends at the present speed.
    fn pace(&mut self, cpu: usize) {
        let is_beside_busy = self.cpus[self.cpus[cpu].sibling].running.is_some();
        let on = &mut self.cpus[cpu];
        let Some((_, left)) = &mut on.running else { return };
        *left -= (self.now - on.since) * on.speed;
        on.since = self.now;
        on.speed = (1.0 - on.interrupts) * if is_beside_busy { BUSY_SIBLING_SPEED } else { 1.0 };
        on.version += 1;
        let (end, version) = (self.now + left.max(0.0) / on.speed, on.version);
        self.event(end, What::End(cpu, version));
    }

    fn end(&mut self, cpu: usize) {
        let Some((tick, _)) = self.cpus[cpu].running.take() else { return };
        self.cpus[cpu].version += 1;
        if tick.due > WARM_MS {
            self.tickers[tick.ticker].late.push((self.now - tick.due - tick.work).max(0.0));
        }
        let pool = if self.cpus[cpu].interrupts == 0.0 { self.cpus[cpu].node } else { ANY };
        let pooled = |waiting: &mut [VecDeque<Tick>; 3]| waiting[pool].pop_front().or_else(|| waiting[ANY].pop_front());
        match self.cpus[cpu].queue.pop_front().or_else(|| pooled(&mut self.waiting)) {
            Some(next) => self.start(cpu, next),
            None => self.pace(self.cpus[cpu].sibling),
        }
    }
}

/// For 64 and 1,000 sessions of random sizes, prints the load after exchanges alone, the load after the search, and the proven bound.
fn proofs() {
    println!(
        "\n| CPUs | sessions | load, exchanges alone | after the search | no placement is below | proven | states | seconds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (cores, cpus) in [(9, 36), (32, 128)] {
        for (count, sizes) in [(64, 1), (64, 4), (64, 64), (1000, 1000)] {
            let mut chance = Chance(11);
            let loads: Vec<f64> =
                (0..sizes).map(|_| 0.02 + chance.next() * 0.35 * (64.0 / f64::from(count)).min(1.0)).collect();
            let sessions: Vec<Session> = (0..count)
                .map(|at| Session { count: 1, cpus: loads[at as usize % sizes], ..session(WORKS[0], 0, 1) })
                .map(|session| Session { tick_hz: None, work_us_p99: None, packets_per_s: None, ..session })
                .collect();
            let machine = machine(cores, &[]);
            let load = |work| plan(&machine, &sessions, &Options { work, ..Options::default() }).ok();
            let began = Instant::now();
            let (Some(first), Some(whole)) = (load(0), load(Options::default().work)) else { continue };
            println!(
                "| {cpus} | {count} of {sizes} sizes | {:.4} | {:.4} | {:.4} | {} | {} | {:.2} |",
                first.load.unwrap_or(0.0),
                whole.load.unwrap_or(0.0),
                whole.proof.load_min,
                if whole.proof.is_best { "yes" } else { "no" },
                whole.proof.visited,
                began.elapsed().as_secs_f64()
            );
        }
    }
}
