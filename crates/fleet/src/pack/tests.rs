//! Compares placements with the best of all possible ones, and checks every rule on random machines.

use proptest::prelude::*;

use super::*;
use crate::pack::kinds::Kind;
use crate::pack::problem::{Problem, Slot};
use crate::pack::search::solve;
use crate::pack::state::Score;

/// The shape of a machine of equal parts.
#[derive(Clone, Copy, Debug)]
struct Shape {
    nodes: usize,
    caches: usize,
    cores: usize,
    threads: usize,
}

fn machine(shape: Shape, memory_mib: u64, cache_kib: u64) -> Machine {
    let mut machine = Machine::default();
    let node = |memory_mib| MachineNode { node: None, memory_bytes: Some(memory_mib << 20) };
    for at in 0..shape.nodes {
        machine.nodes.push(MachineNode { node: Some(at as u32), ..node(memory_mib) });
        for _ in 0..shape.caches {
            machine.caches.push(MachineCache { size_bytes: Some(cache_kib << 10) });
            for core in 0..shape.cores {
                for _ in 0..shape.threads {
                    machine.cpus.push(MachineCpu {
                        cpu: machine.cpus.len(),
                        node: at,
                        cache: machine.caches.len() - 1,
                        core: machine.caches.len() * 1000 + core,
                        is_allowed: true,
                        is_isolated: false,
                        serves_interrupts: false,
                    });
                }
            }
        }
    }
    machine
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

fn session(cpus: f64, count: u32) -> Session {
    Session {
        name: format!("{cpus}"),
        count,
        cpus,
        tick_hz: None,
        work_us_p99: None,
        memory_mib: None,
        cache_kib: None,
        packets_per_s: None,
        network_mbps: None,
        unit: None,
        cpu_weight: None,
    }
}

/// A machine of up to six CPUs, and up to five sessions that compete for its CPUs, memory and caches.
fn small(numbers: &mut Numbers) -> (Machine, Vec<Session>, Options) {
    let shape = numbers.pick(&[
        Shape { nodes: 1, caches: 1, cores: 2, threads: 2 },
        Shape { nodes: 2, caches: 1, cores: 1, threads: 2 },
        Shape { nodes: 2, caches: 1, cores: 2, threads: 1 },
        Shape { nodes: 1, caches: 2, cores: 1, threads: 2 },
        Shape { nodes: 1, caches: 3, cores: 1, threads: 2 },
        Shape { nodes: 3, caches: 1, cores: 2, threads: 1 },
        Shape { nodes: 1, caches: 1, cores: 1, threads: 1 },
    ]);
    let mut machine = machine(shape, numbers.pick(&[1000, 500]), 1000);
    for cpu in &mut machine.cpus {
        cpu.is_allowed = numbers.below(8) > 0;
        cpu.is_isolated = numbers.below(8) == 0;
        cpu.serves_interrupts = numbers.below(6) == 0;
    }
    machine.quota_cpus = numbers.pick(&[None, None, None, Some(2.0)]);
    machine.memory_limit_bytes = numbers.pick(&[None, None, Some(400 << 20), Some(800 << 20)]);
    let mut sessions = Vec::new();
    let mut left = 5 - numbers.below(3) as u32;
    while left > 0 {
        let count = 1 + numbers.below(u64::from(left)) as u32;
        left -= count;
        let cpus = numbers.pick(&[0.1, 0.2, 0.24, 0.26, 0.3, 0.36, 0.4, 0.5, 0.72, 0.9, 1.2, 1.7]);
        let mut one = session(cpus, count);
        one.memory_mib = numbers.pick(&[None, Some(100.0), Some(260.0), Some(450.0)]);
        one.cache_kib = numbers.pick(&[None, Some(300.0), Some(700.0)]);
        one.packets_per_s = numbers.pick(&[None, Some(1000.0), Some(20_000.0)]);
        if numbers.below(3) == 0 {
            one.tick_hz = Some(50.0);
            one.work_us_p99 = Some((cpus * 20_000.0 * numbers.pick(&[1.0, 1.5, 2.5])).min(20_000.0));
        }
        sessions.push(one);
    }
    let options = Options {
        system_cpus: numbers.pick(&[None, Some(0.0), Some(0.5)]),
        shares: numbers.pick(&[None, None, Some((0, 0.8)), Some((1, 0.75))]).into_iter().collect(),
        interrupt_cpus: numbers.pick(&[InterruptCpus::Auto, InterruptCpus::Share, InterruptCpus::Avoid]),
        ..Options::default()
    };
    (machine, sessions, options)
}

fn problem(machine: &Machine, sessions: &[Session], options: &Options) -> Problem {
    let rooms = Rooms::new(machine, sessions, options);
    rooms.problem(machine, kinds::kinds(sessions, 700_000), 700_000)
}

/// The score of a placement, computed directly from the rules. None if it breaks a rule.
/// A session's CPUs are a set of bits; 0 means that the session has no place.
fn judge(problem: &Problem, sessions: &[&Kind], places: &[u32]) -> Option<Score> {
    let has = |place: u32, slot: usize| place >> slot & 1 == 1;
    let slots = || problem.slots.iter().enumerate();
    let placed = || sessions.iter().zip(places).filter(|(_, place)| **place != 0);
    for (kind, place) in placed() {
        let mut nodes: Vec<usize> = slots().filter(|(at, _)| has(*place, *at)).map(|(_, slot)| slot.node).collect();
        nodes.dedup();
        if nodes.len() != 1 || place.count_ones() != kind.need.width {
            return None;
        }
        if kind.need.width > 1 && slots().any(|(at, slot)| has(*place, at) && slot.is_isolated) {
            return None;
        }
    }
    if placed().map(|(kind, _)| kind.need.total_load()).sum::<u64>() > problem.quota {
        return None;
    }
    if placed().map(|(kind, _)| kind.need.memory_kib).sum::<u64>() > problem.memory_limit {
        return None;
    }
    for (node, memory) in problem.memory.iter().enumerate() {
        let is_here = |place: u32| slots().any(|(at, slot)| has(place, at) && slot.node == node);
        if placed().filter(|(_, place)| is_here(**place)).map(|(kind, _)| kind.need.memory_kib).sum::<u64>() > *memory {
            return None;
        }
    }
    let mut most = 0;
    for (at, slot) in slots() {
        let here: Vec<&Kind> = placed().filter(|(_, place)| has(**place, at)).map(|(kind, _)| *kind).collect();
        let load = slot.base + here.iter().map(|kind| kind.need.load).sum::<u32>();
        let fits = match here.as_slice() {
            [] => true,
            [one] if one.need.is_exclusive => load <= slot.limit_alone,
            all => load <= slot.limit && all.iter().all(|kind| !kind.need.is_exclusive && load <= kind.need.limit),
        };
        if !fits {
            return None;
        }
        most = most.max(if here.is_empty() { 0 } else { load });
    }
    let mut score = Score {
        left_out: places.iter().filter(|place| **place == 0).count() as u32,
        heavy_pairs: 0,
        load: most,
        spread: 0,
        cache_excess: 0,
        sharing: 0,
    };
    for core in 0..problem.cores {
        let on = |place: u32| slots().filter(|(at, slot)| has(place, *at) && slot.core == core).count() as u64;
        let heavy: u64 = placed().filter(|(kind, _)| kind.need.is_heavy).map(|(_, place)| on(*place)).sum();
        score.heavy_pairs += heavy * heavy.saturating_sub(1) / 2;
    }
    for (cache, size) in problem.caches.iter().enumerate() {
        let on = |place: u32| slots().filter(|(at, slot)| has(place, *at) && slot.cache == cache).count() as u64;
        let used: u64 = placed().map(|(kind, place)| kind.need.cache_kib * on(*place)).sum();
        score.cache_excess += used.saturating_sub(*size);
        score.spread += placed().filter(|(_, place)| on(**place) > 0).count() as u32;
    }
    score.spread -= placed().count() as u32;
    let threads: Vec<&Slot> =
        placed().flat_map(|(_, place)| slots().filter(|(at, _)| has(*place, *at)).map(|(_, slot)| slot)).collect();
    for (nth, one) in threads.iter().enumerate() {
        for other in &threads[..nth] {
            let shares = [one.at == other.at, one.core == other.core, one.cache == other.cache, one.node == other.node];
            score.sharing += shares.into_iter().filter(|is_so| *is_so).count() as u64;
        }
    }
    Some(score)
}

/// The best of all placements.
fn brute(problem: &Problem, sessions: &[&Kind], places: &mut Vec<u32>, best: &mut Option<Score>) {
    let Some(score) = judge(problem, &sessions[..places.len()], places) else { return };
    if places.len() == sessions.len() {
        *best = Some(best.map_or(score, |best| best.min(score)));
        return;
    }
    // One more session never lowers any field of the score.
    if best.is_some_and(|best| score >= best) {
        return;
    }
    let width = sessions[places.len()].need.width;
    for place in (0..1_u32 << problem.slots.len()).rev().filter(|place| [0, width].contains(&place.count_ones())) {
        places.push(place);
        brute(problem, sessions, places, best);
        places.pop();
    }
}

#[test]
fn equal_to_trying_all_placements() {
    let mut numbers = Numbers(7);
    let mut seen = [0; 4];
    for case in 0..1500 {
        let (machine, sessions, options) = small(&mut numbers);
        let problem = problem(&machine, &sessions, &options);
        let found = solve(&problem, options.work);
        let each: Vec<&Kind> =
            problem.kinds.iter().flat_map(|kind| std::iter::repeat_n(kind, kind.count as usize)).collect();
        let mut best = None;
        brute(&problem, &each, &mut Vec::new(), &mut best);
        let case = format!("case {case}: {machine:?} {sessions:?} {options:?}\n{found:?}");
        assert_eq!(Some(found.score), best, "{case}");
        assert!(found.are_ties_proven && found.bound == found.score.first_levels(), "{case}");
        let places: Vec<u32> = found.placed.iter().map(|one| one.slots.iter().map(|slot| 1 << slot).sum()).collect();
        let kinds: Vec<&Kind> = found.placed.iter().map(|one| &problem.kinds[one.kind]).collect();
        let judged = judge(&problem, &kinds, &places).map(|score| Score { left_out: found.score.left_out, ..score });
        assert_eq!(judged, Some(found.score), "{case}");
        for (at, is_so) in
            [found.score.left_out > 0, found.score.heavy_pairs > 0, found.visited > 0, found.score.spread > 0]
                .into_iter()
                .enumerate()
        {
            seen[at] += u32::from(is_so);
        }
    }
    assert!(seen.iter().all(|seen| *seen > 5), "the cases are too easy: {seen:?}");
}

/// A machine with up to 64 CPUs, and sessions that need a small or a large part of it.
fn large(seed: u64) -> (Machine, Vec<Session>, Options) {
    let mut numbers = Numbers(seed);
    let shape = Shape {
        nodes: 1 + numbers.below(3) as usize,
        caches: 1 + numbers.below(2) as usize,
        cores: 1 + numbers.below(5) as usize,
        threads: 1 + numbers.below(2) as usize,
    };
    let mut machine = machine(shape, 4000, 8000);
    for cpu in &mut machine.cpus {
        cpu.is_allowed = numbers.below(10) > 0;
        cpu.is_isolated = numbers.below(10) == 0;
        cpu.serves_interrupts = numbers.below(10) == 0;
    }
    machine.quota_cpus = numbers.pick(&[None, None, Some(1.5), Some(6.0)]);
    machine.memory_limit_bytes = numbers.pick(&[None, Some(1 << 30), Some(6 << 30)]);
    let sessions = (0..1 + numbers.below(6))
        .map(|_| {
            let cpus = numbers.pick(&[0.01, 0.05, 0.12, 0.2, 0.3, 0.33, 0.5, 0.68, 0.95, 1.4, 3.0]);
            let mut one = session(cpus, 1 + numbers.below(20) as u32);
            one.memory_mib = numbers.pick(&[None, Some(100.0), Some(500.0), Some(5000.0)]);
            one.cache_kib = numbers.pick(&[None, Some(2000.0)]);
            one.packets_per_s = numbers.pick(&[None, Some(500.0), Some(50_000.0)]);
            if numbers.below(2) == 0 {
                one.tick_hz = Some(50.0);
                one.work_us_p99 = Some(cpus * 20_000.0 * numbers.pick(&[1.0, 2.0, 3.0]));
            }
            one
        })
        .collect();
    let options = Options {
        load_max: numbers.pick(&[0.7, 0.5, 1.0]),
        system_cpus: numbers.pick(&[None, Some(0.0), Some(1.5)]),
        interrupt_cpus: numbers.pick(&[InterruptCpus::Auto, InterruptCpus::Share, InterruptCpus::Avoid]),
        cpu_sets: CpuSets::One,
        shares: if numbers.below(4) == 0 { vec![(0, 0.5)] } else { Vec::new() },
        work: 2000,
    };
    (machine, sessions, options)
}

/// The placements on one CPU, once for each of their sessions.
fn on_cpu(report: &Report, cpu: usize) -> Vec<&Placement> {
    let here = report.placements.iter().filter(|one| one.cpus.contains(cpu));
    here.flat_map(|one| std::iter::repeat_n(one, one.count as usize)).collect()
}

fn check_cpus(machine: &Machine, sessions: &[Session], options: &Options, report: &Report) {
    let of = |placement: &Placement| sessions.iter().find(|one| one.name == placement.session).unwrap();
    for (cpu, used) in machine.cpus.iter().zip(&report.cpus) {
        let here = on_cpu(report, cpu.cpu);
        assert_eq!(here.len(), used.sessions as usize);
        let load = used.interrupt_load + here.iter().map(|one| one.load).sum::<f64>();
        assert!((load - used.load).abs() < 1e-4, "{load} {used:?}");
        if here.is_empty() {
            continue;
        }
        assert!(cpu.is_allowed && used.system < 1.0);
        assert!(!cpu.serves_interrupts || report.rules.shares_interrupt_cpus);
        let share = options.shares.iter().find(|(at, _)| *at == cpu.cpu).map_or(1.0, |(_, share)| *share);
        let limit = if here.len() == 1 && used.system == 0.0 && used.interrupt_load == 0.0 {
            share
        } else {
            options.load_max * share
        };
        assert!(load <= limit * (1.0 - used.system) + 1e-4, "{load} {limit} {used:?}");
        for one in here {
            let session = of(one);
            assert!(one.cpus.len() == 1 || !cpu.is_isolated);
            let peak = session.work_us_p99.unwrap_or(0.0) * session.tick_hz.unwrap_or(0.0) / 1e6;
            assert!(load - one.load + peak <= 1.0 + 1e-4, "{one:?} {load} {peak}");
        }
    }
}

/// Checks that no two heavy sessions share a core while another core of the node has none and has room.
fn check_cores(machine: &Machine, options: &Options, report: &Report) {
    let heavy = |core: usize| -> Vec<&Placement> {
        let cpus = machine.cpus.iter().filter(|cpu| cpu.core == core);
        cpus.flat_map(|cpu| on_cpu(report, cpu.cpu)).filter(|one| one.load >= HEAVY_CPUS).collect()
    };
    for cpu in &machine.cpus {
        let here = heavy(cpu.core);
        for one in here.iter().filter(|one| here.len() > 1 && one.cpus.len() == 1) {
            let is_free = |other: &&MachineCpu| {
                let used = &report.cpus[other.cpu];
                other.node == cpu.node
                    && heavy(other.core).is_empty()
                    && used.sessions == 0
                    && used.load_max >= options.load_max - 1e-5
                    && used.interrupt_load == 0.0
            };
            if let Some(free) = machine.cpus.iter().find(is_free) {
                panic!("{one:?} on CPU {} shares a core with another one, and {free:?} is free", cpu.cpu);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_rule_holds_on_any_machine(seed in any::<u64>()) {
        let (machine, mut sessions, options) = large(seed);
        for (at, one) in sessions.iter_mut().enumerate() {
            one.name = format!("session {at}");
        }
        let report = plan(&machine, &sessions, &options).unwrap();
        let asked: u32 = sessions.iter().map(|one| one.count).sum();
        let left_out: u32 = report.left_out.iter().map(|one| one.count).sum();
        prop_assert_eq!((report.sessions, report.placed + left_out), (asked, asked));
        prop_assert_eq!(report.placements.iter().map(|one| one.count).sum::<u32>(), report.placed);
        for one in &report.placements {
            let nodes: Vec<usize> = one.cpus.iter().map(|cpu| machine.cpus[cpu].node).collect();
            prop_assert!(nodes.iter().all(|node| *node == nodes[0]), "{:?}", one);
            let need = sessions.iter().find(|session| session.name == one.session).unwrap();
            let width = if need.cpus <= 1.0 { 1 } else { (need.cpus / options.load_max - 1e-9).ceil() as usize };
            prop_assert_eq!(one.cpus.len(), width);
        }
        for node in &report.nodes {
            prop_assert!(node.memory_used_mib <= node.memory_mib.unwrap());
            prop_assert!(node.memory_mib.unwrap() <= 4000.0 * 0.9);
        }
        let memory: f64 = report.nodes.iter().map(|node| node.memory_used_mib).sum();
        prop_assert!(report.rules.memory_limit_mib.is_none_or(|limit| memory <= limit));
        let load: f64 = report.placements.iter().map(|one| one.load * one.cpus.len() as f64 * f64::from(one.count)).sum();
        prop_assert!(machine.quota_cpus.is_none_or(|quota| load <= quota * options.load_max + 1e-3));
        let system: f64 = report.cpus.iter().map(|one| one.system).sum();
        prop_assert!(system >= report.rules.system_cpus - 1e-9 || report.caveats.iter().any(|caveat| caveat.contains("left for the system")));
        check_cpus(&machine, &sessions, &options, &report);
        check_cores(&machine, &options, &report);
        // The bounds hold, whether or not the search finished.
        prop_assert!(report.placed <= report.proof.placed_max);
        if report.placed == report.proof.placed_max {
            prop_assert!(report.heavy_pairs >= report.proof.heavy_pairs_min);
            if report.heavy_pairs == report.proof.heavy_pairs_min {
                prop_assert!(report.load.unwrap_or(0.0) >= report.proof.load_min);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn wider_sets_are_the_same_placement_on_cpus_for_sessions(seed in any::<u64>()) {
        let (machine, sessions, one) = large(seed);
        let narrow = plan(&machine, &sessions, &one).unwrap();
        for cpu_sets in [CpuSets::Cache, CpuSets::Node] {
            let wide = plan(&machine, &sessions, &Options { cpu_sets, ..one.clone() }).unwrap();
            prop_assert_eq!((&wide.cpus, &wide.nodes, wide.placed), (&narrow.cpus, &narrow.nodes, narrow.placed));
            prop_assert_eq!(wide.placements.iter().map(|one| one.count).sum::<u32>(), wide.placed);
            for set in &wide.placements {
                let first = &machine.cpus[set.cpus.first().unwrap()];
                for cpu in set.cpus.iter().map(|cpu| &machine.cpus[cpu]) {
                    prop_assert!(cpu.is_allowed && cpu.node == first.node);
                    prop_assert!(wide.rules.shares_interrupt_cpus || !cpu.serves_interrupts);
                    prop_assert!(wide.cpus[cpu.cpu].system < 1.0);
                    prop_assert_eq!(cpu.is_isolated, first.is_isolated);
                }
            }
        }
    }
}

#[test]
fn sets_are_of_a_cpu_a_cache_or_a_node() {
    let mut machine = machine(Shape { nodes: 2, caches: 2, cores: 2, threads: 1 }, 8000, 8000);
    machine.cpus[3].serves_interrupts = true;
    machine.cpus[7].is_isolated = true;
    let sets = |cpu_sets| {
        let sessions = [Session { unit: Some("a@{n}.service".to_owned()), ..session(0.4, 7) }];
        let report = plan(&machine, &sessions, &Options { cpu_sets, ..Options::default() }).unwrap();
        let line = |one: &Placement| format!("{} on {}: {}", one.count, one.cpus, one.units.join(" "));
        report.placements.iter().map(line).collect::<Vec<_>>()
    };
    let names = |range: std::ops::RangeInclusive<u32>| {
        range.map(|number| format!("a@{number}.service")).collect::<Vec<_>>().join(" ")
    };
    let row = |count: u32, cpus: &str, range| format!("{count} on {cpus}: {}", names(range));
    assert_eq!(sets(CpuSets::Node), [row(3, "0-2", 1..=3), row(3, "4-6", 4..=6), row(1, "7", 7..=7)]);
    assert_eq!(
        sets(CpuSets::Cache),
        [row(2, "0-1", 1..=2), row(1, "2", 3..=3), row(2, "4-5", 4..=5), row(1, "6", 6..=6), row(1, "7", 7..=7)]
    );
    assert_eq!(sets(CpuSets::One).len(), 7);
    let twice = [session(0.1, 1), session(0.2, 1)].map(|one| Session { unit: Some("a.service".to_owned()), ..one });
    assert_eq!(plan(&machine, &twice, &Options::default()), Err(PackError::UnitTwice("a.service".to_owned())));
}

#[test]
fn one_cpu_more_is_left_where_there_are_few() {
    for (threads, expected) in [(1, 0.5), (2, 1.0), (4, 1.0), (5, 0.0)] {
        let machine = machine(Shape { nodes: 1, caches: 1, cores: threads, threads: 1 }, 1000, 1000);
        let report = plan(&machine, &[session(0.1, 1)], &Options::default()).unwrap();
        assert_eq!(report.rules.system_cpus, expected);
        let system: f64 = report.cpus.iter().map(|one| one.system).sum();
        assert_eq!((system, report.placed), (expected, 1));
    }
}

#[test]
fn packets_decide_whether_interrupts_share_a_cpu() {
    let mut machine = machine(Shape { nodes: 1, caches: 1, cores: 8, threads: 1 }, 8000, 8000);
    machine.cpus[3].serves_interrupts = true;
    let shared = |packets: Option<f64>, asked| {
        let mut one = session(0.3, 8);
        one.packets_per_s = packets;
        let report = plan(&machine, &[one], &Options { interrupt_cpus: asked, ..Options::default() }).unwrap();
        (report.rules.shares_interrupt_cpus, (report.cpus[3].interrupt_load * 1000.0).round() as u32)
    };
    assert_eq!(shared(None, InterruptCpus::Auto), (false, 0));
    assert_eq!(shared(Some(1000.0), InterruptCpus::Auto), (true, 16));
    assert_eq!(shared(Some(10_000.0), InterruptCpus::Auto), (false, 160));
    assert_eq!(shared(Some(10_000.0), InterruptCpus::Share), (true, 160));
    assert_eq!(shared(Some(1000.0), InterruptCpus::Avoid), (false, 16));
}

#[test]
fn what_has_no_place_is_listed_with_its_reason() {
    let few = machine(Shape { nodes: 2, caches: 1, cores: 4, threads: 1 }, 1000, 1000);
    let reason = |machine: &Machine, one: Session| {
        let report = plan(machine, &[one], &Options::default()).unwrap();
        report.left_out.first().map(|left_out| (left_out.resource, left_out.count))
    };
    assert_eq!(reason(&few, session(0.4, 9)), Some((Resource::Cpu, 1)));
    assert_eq!(reason(&few, session(3.0, 1)), Some((Resource::Node, 1)));
    assert_eq!(reason(&few, Session { memory_mib: Some(500.0), ..session(0.1, 3) }), Some((Resource::Memory, 1)));
    assert_eq!(reason(&few, Session { memory_mib: Some(901.0), ..session(0.1, 3) }), Some((Resource::Memory, 3)));
    let late = Session { tick_hz: Some(50.0), work_us_p99: Some(20_001.0), ..session(0.1, 2) };
    assert_eq!(reason(&few, late), Some((Resource::Tick, 2)));
    let quota = Machine { quota_cpus: Some(1.0), ..few };
    assert_eq!(reason(&quota, session(0.1, 8)), Some((Resource::Quota, 1)));
    // Both nodes have memory left, and the control group has none.
    let limited = |slice: Option<&str>, mib: u64| Machine {
        memory_limit_bytes: Some(mib << 20),
        slice: slice.map(str::to_owned),
        quota_cpus: None,
        ..quota.clone()
    };
    let large = Session { memory_mib: Some(300.0), ..session(0.1, 4) };
    assert_eq!(reason(&limited(None, 1000), large.clone()), Some((Resource::Memory, 1)));
    assert_eq!(reason(&limited(None, 1200), large.clone()), None);
    let why = |machine: &Machine| {
        plan(machine, std::slice::from_ref(&large), &Options::default()).unwrap().left_out.remove(0).why
    };
    assert_eq!(why(&limited(None, 1000)), "the memory limit of the control group (1000 MiB) is used up");
    assert_eq!(
        why(&limited(Some("game.slice"), 299)),
        "the memory limit of slice game.slice (299 MiB) is less than it needs"
    );
    let many = plan(&quota, &[session(0.1, 10_001)], &Options::default());
    assert_eq!(many.unwrap_err(), PackError::TooManySessions(10_001));
    assert!(matches!(plan(&Machine::default(), &[session(0.1, 1)], &Options::default()), Err(PackError::NoCpus(_))));
}

/// Each of two sessions needs a CPU of its own, but the hypervisor gives only a part of one CPU.
#[test]
fn a_session_with_its_own_cpu_is_bounded_by_what_the_cpu_has() {
    let machine = machine(Shape { nodes: 1, caches: 1, cores: 2, threads: 1 }, 1000, 1000);
    let options = Options { system_cpus: Some(0.0), shares: vec![(0, 0.8)], ..Options::default() };
    let report = plan(&machine, &[session(0.72, 2)], &options).unwrap();
    assert_eq!((report.placed, report.proof.placed_max, report.proof.is_best), (2, 2, true));
    assert_eq!(plan(&machine, &[session(0.82, 2)], &options).unwrap().placed, 1);
}
