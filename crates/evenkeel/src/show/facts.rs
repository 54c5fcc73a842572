//! The page of `inspect`: facts grouped by area. It shows an unknown fact with the reason, and never omits it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_host::catalogue::{Figure, Instance};
use evenkeel_host::facts::{CpuLimit, Cpus, Idle, Limits, Machine, Memory, MemoryLimit, Numa, Tick};
use evenkeel_host::{Fact, Facts, Place, knobs};
use evenkeel_sys::CpuSet;
use serde::Serialize;

use self::cells::{cell, list_or_none, notes};
use crate::show::page::{DIM, Indent, PLAIN, Page, unknown};
use crate::show::units::bytes;

mod cells;
mod counters;
mod cpus;
mod disks;
mod network;
mod owners;

/// The page of `inspect`. `with_counters` adds the counters, which change all the time.
pub(crate) fn page(facts: &Facts, with_counters: bool) -> String {
    let mut page = Page::default();
    machine(&mut page, &facts.machine);
    kernel(&mut page, facts);
    cpus(&mut page, &facts.cpus);
    numa(&mut page, &facts.numa);
    clock(&mut page, facts);
    idle(&mut page, &facts.idle);
    cpus::frequency(&mut page, &facts.frequency);
    memory(&mut page, &facts.memory);
    disks::disks(&mut page, &facts.disks);
    network::section(&mut page, &facts.network);
    limits(&mut page, &facts.limits);
    owners::section(&mut page, facts);
    sysctls(&mut page, facts);
    if with_counters {
        counters::section(&mut page, facts);
    }
    page.finish()
}

/// The most important facts: at most fifteen lines in a terminal of 80 columns or more.
pub(crate) fn summary(facts: &Facts) -> String {
    let mut page = Page::default();
    let Facts { machine, kernel, cpus, clock, idle, memory, .. } = facts;
    page.heading("This machine");
    cloud(&mut page, machine);
    if machine.instance_type.known().is_some() {
        page.fact("instance", &machine.instance_type);
    }
    page.fact_as("hypervisor", &machine.hypervisor, word);
    page.fact("kernel", &kernel.release);
    page.fact("CPU model", &cpus.model);
    page.fact_as("CPUs online", &cpus.online, list_or_none);
    if cpus.isolated.known().is_some_and(|set| set.first().is_some()) {
        page.fact_as("isolated", &cpus.isolated, list_or_none);
    }
    page.fact_as("NUMA nodes", &facts.numa.nodes, |nodes| nodes.len().to_string());
    page.fact("clock source", &clock.current);
    page.fact_as("deepest idle", &idle.deepest_allowed, |deepest| {
        format!("{}, {} us to leave", deepest.name, deepest.exit_latency_us)
    });
    page.fact_as("memory", &memory.total_bytes, |size| bytes(*size));
    network::summary(&mut page, &facts.network);
    if matches!(facts.limits.cpu.known(), Some(CpuLimit::Quota { .. })) {
        page.fact_as("CPU limit", &facts.limits.cpu, cpu_limit);
    }
    page.line(PLAIN, "");
    page.paragraph(Indent::all(0), PLAIN, "All facts: evenkeel inspect --all. What to change: evenkeel audit");
    page.finish()
}

/// The cloud that the firmware's strings name. A machine without such strings may be in any cloud.
fn cloud(page: &mut Page, machine: &Machine) {
    match &machine.cloud {
        Fact::Absent { .. } => page.row("cloud", DIM, "unknown (the firmware names no vendor)"),
        cloud => page.fact_as("cloud", cloud, word),
    }
}

fn cpu_limit(limit: &CpuLimit) -> String {
    match limit {
        CpuLimit::Unlimited => "no limit".to_owned(),
        CpuLimit::Quota { quota_us, period_us } => format!("{quota_us} us in each {period_us} us"),
    }
}

fn machine(page: &mut Page, machine: &Machine) {
    page.heading("Machine");
    page.fact_as("hypervisor", &machine.hypervisor, word);
    cloud(page, machine);
    page.fact("instance", &machine.instance_type);
    if machine.instance_type.known().is_some() {
        catalogue(page, &machine.catalogue);
    }
    page.fact("vendor", &machine.vendor);
    page.fact("product", &machine.product);
    page.fact_as("container", &machine.container, word);
    page.fact_as("distribution", &machine.distribution, |distribution| {
        let spelled = || format!("{} {}", distribution.id, distribution.version.as_deref().unwrap_or_default());
        distribution.name.clone().unwrap_or_else(spelled)
    });
}

/// Documented figures of the instance type, one row per source, because sources may be years apart.
fn catalogue(page: &mut Page, instance: &Fact<Instance>) {
    let Some(instance) = instance.known() else {
        page.fact_as("by documents", instance, |_| String::new());
        return;
    };
    let mut label = "by documents";
    for figures in instance.figures.chunk_by(|one, next| one.source == next.source) {
        let shown = |figure: &Figure| {
            let (what, unit) = figure.figure.words();
            format!("{what} {} {unit}", figure.value).trim_end().to_owned()
        };
        let shown: Vec<String> = figures.iter().map(shown).collect();
        let Some(source) = figures.first().map(|figure| figure.source) else { continue };
        page.row(label, PLAIN, &format!("{} ({}, {})", shown.join(", "), source.title, source.date));
        label = "";
    }
    if !instance.not_given.is_empty() {
        let unknown: Vec<&str> = instance.not_given.iter().map(|kind| kind.words().0).collect();
        page.row(label, DIM, &format!("unknown: {} (no known document gives it)", unknown.join(", ")));
    }
}

fn kernel(page: &mut Page, facts: &Facts) {
    page.heading("Kernel");
    page.fact_as("boot loader", &facts.boot.loader, |loader| owners::loader(*loader).to_owned());
    page.fact_as("first program", &facts.boot.init, word);
    page.fact("release", &facts.kernel.release);
    page.fact("architecture", &facts.kernel.architecture);
    page.fact("preemption", &facts.preemption.model);
    page.fact_as("timer", &facts.kernel.timer_hz, |hz| format!("{hz} ticks a second"));
    page.fact_as("built", &facts.kernel.config, |config| {
        let tick = match config.tick {
            Tick::Periodic => "a tick that never stops",
            Tick::StopsWhenIdle => "no tick when idle",
            Tick::StopsOnNohzFull => "no tick when idle or on CPUs of nohz_full",
        };
        format!("preemption {}, {tick} ({})", config.preemption, config.source)
    });
    page.fact_as("lockdown", &facts.kernel.lockdown, word);
    page.fact_as("command line", &facts.kernel.command_line, |arguments| arguments.join(" "));
}

fn cpus(page: &mut Page, cpus: &Cpus) {
    page.heading("CPUs");
    page.fact("model", &cpus.model);
    for (label, set) in [
        ("online", &cpus.online),
        ("present", &cpus.present),
        ("possible", &cpus.possible),
        ("isolated", &cpus.isolated),
        ("without a tick", &cpus.nohz_full),
        ("unbound work", &cpus.unbound_work),
    ] {
        page.fact_as(label, set, list_or_none);
    }
    page.fact("SMT control", &cpus.smt_control);
    for (package, cores) in cores_by_package(cpus) {
        page.row(&package, PLAIN, &cores.join(", "));
    }
    if cpus.cpus.iter().any(|cpu| cpu.siblings.known().is_some_and(|siblings| siblings.len() > 1)) {
        page.row("", DIM, "CPUs joined by + share one core");
    }
    notes(page, cpus.cpus.iter().filter_map(|cpu| cpu.siblings.unknown_why().map(|_| unknown(&cpu.siblings))));
    caches(page, cpus);
    cpus::vulnerabilities(page, cpus);
}

/// The cores of each package. `0+2` is a core with the CPUs 0 and 2.
/// An offline CPU is `3(off)`, and a CPU with unknown siblings is `3`.
fn cores_by_package(cpus: &Cpus) -> BTreeMap<String, Vec<String>> {
    let mut packages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cpu in &cpus.cpus {
        let package = match cpu.package.known() {
            Some(package) => format!("socket {package}"),
            None => "socket unknown".to_owned(),
        };
        let core = match cpu.siblings.known() {
            Some(siblings) if siblings.first() != Some(cpu.cpu) => continue,
            Some(siblings) => siblings.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join("+"),
            None if cpu.online.known() == Some(&false) => format!("{}(off)", cpu.cpu),
            None => cpu.cpu.to_string(),
        };
        packages.entry(package).or_default().push(core);
    }
    packages
}

/// One row for each kind of cache: its size, and the CPUs that share it.
fn caches(page: &mut Page, cpus: &Cpus) {
    let mut kinds: BTreeMap<(String, String), BTreeSet<CpuSet>> = BTreeMap::new();
    let mut unknowns = Vec::new();
    for cache in cpus.cpus.iter().flat_map(|cpu| &cpu.caches) {
        let (Some(level), Some(shared_by)) = (cache.level.known(), cache.shared_by.known()) else {
            unknowns.extend(cache.level.unknown_why().map(|_| unknown(&cache.level)));
            unknowns.extend(cache.shared_by.unknown_why().map(|_| unknown(&cache.shared_by)));
            continue;
        };
        let kind = match cache.kind.known().map(String::as_str) {
            Some("Data") => "d",
            Some("Instruction") => "i",
            _ => "",
        };
        let size = cache.size_bytes.known().map_or_else(|| "size unknown".to_owned(), |size| bytes(*size));
        kinds.entry((format!("L{level}{kind}"), size)).or_default().insert(shared_by.clone());
    }
    let cores: BTreeSet<CpuSet> = cpus.cpus.iter().filter_map(|cpu| cpu.siblings.known().cloned()).collect();
    for ((name, size), sets) in &kinds {
        let lists = || sets.iter().map(|set| set.to_string().replace(',', "+")).collect::<Vec<_>>().join(", ");
        let each = if *sets == cores { "core".to_owned() } else { format!("of {}", lists()) };
        page.row(&format!("cache {name}"), PLAIN, &format!("{size} for each {each}"));
    }
    notes(page, unknowns.into_iter());
}

fn numa(page: &mut Page, numa: &Numa) {
    page.heading("NUMA");
    let Some(nodes) = numa.nodes.known() else {
        page.fact_as("nodes", &numa.nodes, |_| String::new());
        return;
    };
    let mut unknowns = Vec::new();
    let mut header = vec!["node".to_owned(), "CPUs".to_owned(), "memory".to_owned()];
    header.extend(nodes.iter().map(|node| format!("to {}", node.node)));
    let mut rows = Vec::new();
    for node in nodes {
        let mut row = vec![node.node.to_string()];
        row.push(cell(&node.cpus, list_or_none, &mut unknowns));
        row.push(cell(&node.memory_bytes, |size| bytes(*size), &mut unknowns));
        match node.distances.known() {
            Some(distances) => row.extend(distances.iter().map(u32::to_string)),
            None => {
                unknowns.push(unknown(&node.distances));
                row.extend(nodes.iter().map(|_| "?".to_owned()));
            }
        }
        rows.push(row);
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    page.table(&header, &rows);
    notes(page, unknowns.into_iter());
}

fn clock(page: &mut Page, facts: &Facts) {
    page.heading("Clock");
    page.fact("source", &facts.clock.current);
    page.fact_as("on offer", &facts.clock.available, |words| words.join(", "));
    page.fact_as("arguments", &facts.clock.arguments, |words| listed(words));
    page.fact_as("PTP clocks", &facts.clock.ptp, |names| listed(names));
    if let Some(lines) = facts.clock.tsc_log.known() {
        lines.iter().for_each(|line| page.row("kernel's log", PLAIN, line));
    }
    page.fact_as("kept by", &facts.daemons.clock_keepers, |names| listed(names));
    page.fact_as("TSC", &facts.clock.tsc, |tsc| {
        let say = |promise: bool, word: &str| if promise { word.to_owned() } else { format!("not {word}") };
        [say(tsc.constant, "constant"), say(tsc.nonstop, "nonstop"), say(tsc.reliable, "vouched for")].join(", ")
    });
}

fn idle(page: &mut Page, idle: &Idle) {
    page.heading("Idle");
    page.fact("driver", &idle.driver);
    page.fact("governor", &idle.governor);
    match idle.states.known() {
        None => page.fact_as("states", &idle.states, |_| String::new()),
        Some(states) => {
            let mut unknowns = Vec::new();
            for state in states {
                let name = cell(&state.name, String::clone, &mut unknowns);
                let exit = cell(&state.exit_latency_us, |us| format!("{us} us to leave"), &mut unknowns);
                let off =
                    cell(&state.disabled, |off| if *off { ", switched off" } else { "" }.to_owned(), &mut unknowns);
                page.row(&format!("state {}", state.index), PLAIN, &format!("{name}, {exit}{off}"));
            }
            notes(page, unknowns.into_iter());
        }
    }
    page.fact("intel_idle limit", &idle.intel_idle_max_cstate);
    page.fact("ACPI limit", &idle.processor_max_cstate);
    page.fact_as("time to resume", &idle.resume_latency_us, |us| match us.as_str() {
        "0" => "any".to_owned(),
        "n/a" => "none: CPU 0 may not idle".to_owned(),
        us => format!("at most {us} us"),
    });
    page.fact_as("deepest allowed", &idle.deepest_allowed, |deepest| {
        let by =
            if deepest.limited_by.is_empty() { String::new() } else { format!("; {}", deepest.limited_by.join("; ")) };
        format!("{}, {} us to leave{by}", deepest.name, deepest.exit_latency_us)
    });
    page.fact_as("guest halt poll", &idle.guest_halt_poll_ns, |ns| format!("{ns} ns"));
}

fn memory(page: &mut Page, memory: &Memory) {
    page.heading("Memory");
    page.fact_as("total", &memory.total_bytes, |size| bytes(*size));
    page.fact("huge pages", &memory.thp_enabled);
    page.fact("defragmentation", &memory.thp_defrag);
    page.fact_as("in background", &memory.khugepaged_defrag, |on| if *on { "yes" } else { "no" }.to_owned());
    page.fact_as("by size", &memory.thp_sizes, |sizes| {
        let on = sizes.iter().filter_map(|size| Some((size, size.enabled.known().filter(|word| *word != "never")?)));
        let on: Vec<String> = on.map(|(size, word)| format!("{} {word}", bytes(size.size_bytes))).collect();
        if on.is_empty() { "none is on".to_owned() } else { on.join(", ") }
    });
    page.fact_as("set aside", &memory.huge_pages, |sizes| {
        let counts = sizes.iter().filter_map(|size| Some((size, size.count.known().filter(|count| **count > 0)?)));
        let kept: Vec<String> = counts.map(|(size, count)| format!("{count} of {}", bytes(size.size_bytes))).collect();
        if kept.is_empty() { "no huge pages".to_owned() } else { kept.join(", ") }
    });
    page.fact_as("swap", &memory.swaps, |swaps| {
        let areas = swaps.iter().map(|swap| format!("{} {} ({})", bytes(swap.size_bytes), swap.path, swap.kind));
        let areas: Vec<String> = areas.collect();
        if areas.is_empty() { "none".to_owned() } else { areas.join(", ") }
    });
}

fn limits(page: &mut Page, limits: &Limits) {
    page.heading("Limits of our control group");
    page.fact_as("CPU time", &limits.cpu, cpu_limit);
    page.fact_as("CPUs", &limits.cpus_allowed, list_or_none);
    page.fact_as("memory", &limits.memory, memory_limit);
}

fn memory_limit(limit: &MemoryLimit) -> String {
    match limit {
        MemoryLimit::Unlimited => "no limit".to_owned(),
        MemoryLimit::Bytes(size) => bytes(*size),
    }
}

fn sysctls(page: &mut Page, facts: &Facts) {
    if facts.sysctls.is_empty() {
        return;
    }
    page.heading("Settings under /proc/sys");
    let name = |path: &str| path.trim_start_matches("/proc/sys/").replace('/', ".");
    let known = facts.sysctls.iter().filter_map(|(path, fact)| Some((path, fact.known()?)));
    // The kernel separates the numbers of one value by tabs.
    let value = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: Vec<Vec<String>> = known.map(|(path, text)| vec![name(path), value(text)]).collect();
    page.table(&["name", "value"], &rows);
    // A file that moved between kernel versions exists at only one of its places. Do not report the missing places.
    let moved: Vec<&str> = knobs::ALL
        .iter()
        .filter(|knob| matches!(knob.place, Place::FileSince { .. }))
        .flat_map(|knob| knob.place.files())
        .collect();
    let is_reported =
        |path: &str, fact: &Fact<String>| fact.known().is_none() && !(fact.is_absent() && moved.contains(&path));
    notes(page, facts.sysctls.iter().filter(|(path, fact)| is_reported(path, fact)).map(|(_, fact)| unknown(fact)));
}

/// The name of a value in JSON. If the value has a text, adds the text, such as `other lxc`.
fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(map)) => {
            map.iter().map(|(kind, name)| format!("{kind} {}", name.as_str().unwrap_or_default())).collect()
        }
        _ => "?".to_owned(),
    }
}

/// The words of a list, or `none` for an empty list.
fn listed(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
