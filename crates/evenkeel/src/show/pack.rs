//! The page of `pack plan`: the placed sessions and the proof, a line for each CPU,
//! and a line for each session with values to copy.

use evenkeel_fleet::pack::{CpuSets, CpuUse, Placement, Report, Role};

use crate::show::page::{BAD, DIM, GOOD, Indent, PLAIN, Page, WARN};

pub(crate) fn page(report: &Report) -> String {
    let mut page = Page::default();
    summary(&mut page, report);
    cpus(&mut page, report);
    sessions(&mut page, report);
    left_out(&mut page, report);
    for caveat in &report.caveats {
        page.paragraph(Indent { first: 0, rest: 2 }, WARN, &format!("caveat: {caveat}"));
    }
    page.finish()
}

fn summary(page: &mut Page, report: &Report) {
    let used = report.cpus.iter().filter(|cpu| cpu.sessions > 0).count();
    page.heading(&format!(
        "{} of {} on {used} of {}",
        report.placed,
        count(report.sessions, "session"),
        count(report.cpus.len() as u32, "CPU")
    ));
    let is_all = report.placed == report.sessions;
    page.row("placed", if is_all { GOOD } else { BAD }, if is_all { "all" } else { "not all: see below" });
    if let Some(load) = report.load {
        page.row("highest load", PLAIN, &format!("{load:.2} of a CPU with sessions (bound {})", bound(report)));
    }
    if let Some(load) = report.packets_over() {
        let cpus: evenkeel_sys::CpuSet =
            report.cpus.iter().filter(|cpu| cpu.interrupt_load > 0.0).map(|cpu| cpu.cpu).collect();
        let over =
            format!("too many: they need {load:.1} times the capacity of each CPU that serves them (CPU {cpus})");
        page.row("packets", BAD, &over);
    }
    page.row(
        "CPU sets",
        PLAIN,
        match report.rules.cpu_sets {
            CpuSets::One => "one: each session runs on the CPUs that the placement counts on",
            CpuSets::Cache => "cache: each session may use all CPUs for sessions that share a last cache with its own",
            CpuSets::Node => "node: each session may use all CPUs for sessions in its node",
        },
    );
    let pairs = format!("{} with a load of {} or more", count_of_pairs(report.heavy_pairs), report.rules.heavy_cpus);
    page.row("on one core", if report.heavy_pairs == 0 { PLAIN } else { WARN }, &pairs);
    let proof = &report.proof;
    let proven = match proof.is_best {
        true => "best: no placement has more sessions, fewer such pairs or a lower highest load".to_owned(),
        false if report.placed < proof.placed_max => {
            format!("not proven to be best; no placement has more than {}", count(proof.placed_max, "session"))
        }
        false if report.heavy_pairs > proof.heavy_pairs_min => {
            format!(
                "not proven to be best; no placement of as many sessions has fewer than {}",
                count_of_pairs(proof.heavy_pairs_min)
            )
        }
        false => format!(
            "not proven to be best; in every such placement the busiest CPU has a load of at least {:.3}",
            proof.load_min
        ),
    };
    page.row("proof", if proof.is_best { PLAIN } else { WARN }, &proven);
    for node in report.nodes.iter().filter(|node| node.memory_used_mib > 0.0) {
        let name = node.node.map_or_else(|| "memory".to_owned(), |node| format!("memory of node {node}"));
        let whole = node.memory_mib.map_or_else(|| "an unknown size".to_owned(), |mib| format!("{mib:.0} MiB"));
        page.row(&name, PLAIN, &format!("{:.0} MiB of {whole} for sessions", node.memory_used_mib));
    }
    if let Some(limit) = report.rules.memory_limit_mib {
        let used: f64 = report.nodes.iter().map(|node| node.memory_used_mib).sum();
        let whose =
            report.slice.as_ref().map_or_else(|| "the control group".to_owned(), |slice| format!("slice {slice}"));
        page.row("memory limit", PLAIN, &format!("{used:.0} of {limit:.0} MiB that {whose} allows"));
    }
    page.line(PLAIN, "");
}

/// The maximum load of the busiest CPU with sessions: the CPU time that the system and the hypervisor leave.
fn bound(report: &Report) -> String {
    let with_sessions = report.cpus.iter().filter(|cpu| cpu.sessions > 0);
    let highest = with_sessions.max_by(|a, b| a.load.total_cmp(&b.load));
    let bound = highest.map_or(report.rules.load_max, |cpu| cpu.load_max);
    // Four decimals hide rounding errors.
    // The value is the user's bound, such as 0.7, or 0.35 on a machine with one CPU.
    format!("{}", (bound * 1e4).round() / 1e4)
}

fn cpus(page: &mut Page, report: &Report) {
    let has_something = |cpu: &&CpuUse| !cpu.roles.is_empty();
    let rows: Vec<Vec<String>> = report.cpus.iter().filter(has_something).map(cpu).collect();
    page.table(&["CPU", "node", "core", "cache", "load", "sessions", "for"], &rows);
    let idle: evenkeel_sys::CpuSet = report.cpus.iter().filter(|cpu| cpu.roles.is_empty()).map(|cpu| cpu.cpu).collect();
    if !idle.is_empty() {
        page.line(DIM, &format!("  no sessions: CPU {idle}"));
    }
}

fn cpu(cpu: &CpuUse) -> Vec<String> {
    let role = |role: &Role| match role {
        Role::Sessions => "sessions".to_owned(),
        Role::Interrupts if cpu.interrupt_load > 0.0 => format!("interrupts ({:.2})", cpu.interrupt_load),
        Role::Interrupts => "interrupts".to_owned(),
        Role::System => format!("system ({:.2})", cpu.system),
        Role::NotAllowed => "not in the control group".to_owned(),
    };
    vec![
        cpu.cpu.to_string(),
        cpu.node.map_or_else(String::new, |node| node.to_string()),
        cpu.core.to_string(),
        cpu.cache.to_string(),
        format!("{:.2}", cpu.load),
        cpu.sessions.to_string(),
        cpu.roles.iter().map(role).collect::<Vec<_>>().join(", "),
    ]
}

fn sessions(page: &mut Page, report: &Report) {
    if report.placements.is_empty() {
        return;
    }
    page.line(PLAIN, "");
    let row = |one: &Placement| {
        vec![
            one.session.clone(),
            one.count.to_string(),
            one.cpus.to_string(),
            // A session on all CPUs of a node puts a small load on each CPU.
            if one.load < 0.1 { format!("{:.3}", one.load) } else { format!("{:.2}", one.load) },
            one.unit.join(" "),
        ]
    };
    let rows: Vec<Vec<String>> = report.placements.iter().map(row).collect();
    page.table(&["session", "count", "CPUs", "load on each", "for its systemd unit"], &rows);
    if let Some(one) = report.placements.first() {
        let is_same = report.placements.iter().all(|other| other.taskset == one.taskset);
        page.line(
            DIM,
            &match is_same {
                true => format!("  or start it with: {} COMMAND", one.taskset),
                false => "  or start one with: taskset --cpu-list CPUS COMMAND, with the CPUs of its line".to_owned(),
            },
        );
    }
}

fn left_out(page: &mut Page, report: &Report) {
    if report.left_out.is_empty() {
        page.line(PLAIN, "");
        return;
    }
    page.heading(&format!("{} without a place", count(report.left_out.iter().map(|one| one.count).sum(), "session")));
    let rows: Vec<Vec<String>> =
        report.left_out.iter().map(|one| vec![one.session.clone(), one.count.to_string(), one.why.clone()]).collect();
    page.table(&["session", "count", "reason"], &rows);
    page.line(PLAIN, "");
}

fn count(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn count_of_pairs(pairs: u64) -> String {
    format!("{pairs} pair{} of sessions", if pairs == 1 { "" } else { "s" })
}
