//! The targets for tables of the user about many servers.

use evenkeel_fleet::credits::{CreditsAsked, StartCredits, forecast, read_trace};
use evenkeel_fleet::instances::{PriceBook, PricesWanted};
use evenkeel_fleet::pack::{Machine, MachineCache, MachineCpu, MachineNode, Options, parse_services, plan};
use evenkeel_fleet::read_sessions;
use evenkeel_fleet::regions::{Candidates, Goal, catalogue, choose, read_candidates};

/// A table of players or of regions. Any answer is consistent in itself.
pub(super) fn players(text: &str) {
    let _ = read_candidates(text.as_bytes());
    let listed = catalogue().into_iter().filter(|one| one.provider.as_deref() == Some("aws")).collect();
    let positions = Candidates { listed: Some(listed), ..Candidates::default() };
    let goals = [(Some(2), None), (None, Some(80.0)), (Some(1), Some(10.0))];
    for candidates in [Candidates::default(), positions] {
        for (count, within_ms) in goals {
            let goal = Goal { count, within_ms, thousandths: 950 };
            let Ok(answer) = choose(text.as_bytes(), &candidates, &goal) else { continue };
            let report = &answer.report;
            assert!(!report.chosen.is_empty() && report.chosen.len() <= report.candidates);
            assert!(report.latency.percentile_ms.is_some_and(|ms| ms >= report.proof.bound_ms));
            assert!((0.0..=1.0).contains(&report.left_behind.share));
            let _ = answer.map();
        }
    }
}

/// A table of CPU use. Shares are shares, and no credit is made.
pub(super) fn cpu_trace(text: &str) {
    let Ok(trace) = read_trace(text.as_bytes(), Some(2)) else { return };
    for name in ["t2.micro", "t3.medium", "Standard_B2s"] {
        let asked = CreditsAsked {
            instance_type: name.to_owned(),
            mode: None,
            start: StartCredits::Launch,
            days: 2.0,
            memory_gib: None,
            surplus_usd_per_vcpu_hour: None,
        };
        let Ok(report) = forecast(&trace, &asked) else { panic!("{name} has credits") };
        for found in report.enough.iter().chain([&report.standard]).chain(&report.unlimited) {
            assert!(
                (0.0..=1.000_001).contains(&found.limited_share) && (-1e-9..=1.000_001).contains(&found.unserved_share)
            );
            assert!(found.surplus_vcpu_hours >= 0.0 && found.lowest_credits <= found.start_credits);
        }
    }
}

/// A file of prices, in any format.
pub(super) fn prices(text: &str) {
    for is_spot in [false, true] {
        let mut book = PriceBook::new(PricesWanted { is_spot, ..PricesWanted::default() });
        if book.add("prices", text.as_bytes()).is_ok() && book.refuse_empty().is_ok() {
            assert!(book.files()[0].prices > 0 && book.currency().is_some());
        }
    }
}

/// A table of sessions, placed on a machine of two nodes with two cores of two threads each.
pub(super) fn sessions(text: &str) {
    let Ok(sessions) = read_sessions(text.as_bytes()) else { return };
    let machine = eight_cpus();
    let Ok(report) = plan(&machine, &sessions, &Options { work: 500, ..Options::default() }) else { return };
    let left_out: u32 = report.left_out.iter().map(|one| one.count).sum();
    assert_eq!(report.placed + left_out, report.sessions);
    assert!(report.cpus.iter().all(|cpu| cpu.load <= 1.0 + 1e-5));
    assert!(report.placed <= report.proof.placed_max);
}

/// A saved answer of `pack plan`, for the same machine. What passes is on CPUs of the machine, and each service is there once.
pub(super) fn pack_plan(text: &str) {
    let machine = eight_cpus();
    let Ok(services) = parse_services(text, &machine) else { return };
    let units: std::collections::BTreeSet<&str> = services.iter().map(|one| one.unit.unit.as_str()).collect();
    assert_eq!(units.len(), services.len());
    for one in &services {
        assert!(!one.unit.cpus.is_empty() && one.unit.cpus.iter().all(|cpu| cpu < 8));
        assert!(one.unit.path().starts_with("/etc/systemd/system/") && !one.unit.path().contains(".."));
    }
}

/// Two nodes with two cores of two threads each.
fn eight_cpus() -> Machine {
    let cpu = |cpu: usize| MachineCpu {
        cpu,
        node: cpu / 4,
        cache: cpu / 4,
        core: cpu / 2,
        is_allowed: true,
        is_isolated: cpu == 7,
        serves_interrupts: cpu == 1,
    };
    Machine {
        cpus: (0..8).map(cpu).collect(),
        nodes: (0..2).map(|node| MachineNode { node: Some(node), memory_bytes: Some(1 << 30) }).collect(),
        caches: vec![MachineCache { size_bytes: Some(16 << 20) }; 2],
        ..Machine::default()
    }
}
