//! Runs the fuzz targets on their corpus with the stable compiler, without a fuzzer.
//! Fails if a target no longer compiles, if no target reads a corpus, or if no target reaches a parser.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_host::Facts;
use evenkeel_hostfs::{Root, Why};

#[path = "../../../../fuzz/src/targets/mod.rs"]
mod targets;

pub(crate) use targets::TARGETS;
pub(crate) use targets::machines::QUEUES;
use targets::machines::{machine, on_paths};
use targets::{Reads, Target};

/// Every parser function: its file, its name, and the target whose text reaches it.
const PARSERS: &[(&str, &str, &str)] = &[
    ("arena/src/net/wire.rs", "parse", "arena"),
    ("change/src/plan_file.rs", "parse", "plan"),
    ("evenkeel/src/waivers.rs", "parse", "waivers"),
    ("fleet/src/credits/trace.rs", "parse_time", "cpu-trace"),
    ("fleet/src/pack/services.rs", "parse_services", "pack-plan"),
    ("fleet/src/regions/model.rs", "parse_degrees", "players"),
    ("fleet/src/regions/players.rs", "parse_latency_us", "players"),
    ("fleet/src/regions/players.rs", "parse_weight", "players"),
    ("host/src/facts/clock.rs", "parse_tsc_flags", "cpuinfo"),
    ("host/src/facts/counters.rs", "parse_losses", "counters"),
    ("host/src/facts/counters.rs", "parse_numastat", "counters"),
    ("host/src/facts/counters.rs", "parse_snmp", "counters"),
    ("host/src/facts/counters.rs", "parse_snmp6", "counters"),
    ("host/src/facts/counters.rs", "parse_sockstat", "counters"),
    ("host/src/facts/counters.rs", "parse_softnet", "counters"),
    ("host/src/facts/cpu.rs", "parse_model", "cpuinfo"),
    ("host/src/facts/cpu.rs", "parse_nohz_full", "cpus"),
    ("host/src/facts/cpu.rs", "parse_size", "topology"),
    ("host/src/facts/disks.rs", "parse_flag", "disk"),
    ("host/src/facts/disks.rs", "parse_schedulers", "disk"),
    ("host/src/facts/ethtool.rs", "parse_offloads", "features"),
    ("host/src/facts/idle.rs", "parse_disabled", "idle"),
    ("host/src/facts/idle.rs", "parse_numbers", "frequency"),
    ("host/src/facts/idle.rs", "parse_switch", "frequency"),
    ("host/src/facts/kernel.rs", "parse_arguments", "cmdline"),
    ("host/src/facts/kernel.rs", "parse_lockdown", "lockdown"),
    ("host/src/facts/kernel.rs", "parse_version", "uname"),
    ("host/src/facts/kernel_config.rs", "parse", "kernel-config"),
    ("host/src/facts/kernel_config.rs", "parse_tick", "kernel-config"),
    ("host/src/facts/machine.rs", "parse_os_release", "os-release"),
    ("host/src/facts/machine.rs", "parse_registers", "cpuid"),
    ("host/src/facts/memory.rs", "parse_mem_total", "meminfo"),
    ("host/src/facts/memory.rs", "parse_swap", "swaps"),
    ("host/src/facts/memory.rs", "parse_swaps", "swaps"),
    ("host/src/facts/network/kind.rs", "parse_vlans", "vlans"),
    ("host/src/facts/numa.rs", "parse_bits", "node"),
    ("host/src/facts/numa.rs", "parse_distances", "node"),
    ("host/src/facts/owners.rs", "parse_saptune", "saptune"),
    ("host/src/facts/owners.rs", "parse_variables", "irqbalance"),
    ("host/src/facts/preemption.rs", "parse_modes", "preempt"),
    ("host/src/facts/sysctl_files.rs", "parse", "sysctl-files"),
    ("host/src/guide/ansible/yaml.rs", "parse", "guide"),
    ("host/src/guide/parse.rs", "parse", "guide"),
    ("host/src/guide/tuned.rs", "parse", "guide"),
    ("host/src/knobs/net_driver.rs", "parse_version", "ethtool"),
    ("host/src/setting.rs", "parse", "setting"),
    ("measure/src/meters/bandwidth/wire.rs", "parse", "udp-packets"),
    ("measure/src/card/mod.rs", "parse", "card"),
    ("measure/src/meters/udp/wire.rs", "parse", "udp-packets"),
    ("measure/src/meters/memory/latency.rs", "parse_huge_bytes", "kernel-counts"),
    ("measure/src/meters/rates/group.rs", "parse_limit", "rates"),
    ("measure/src/meters/ticks/stream.rs", "parse", "ticks"),
    ("profile/src/fold.rs", "parse", "perf-script"),
    ("profile/src/live/probe/mod.rs", "parse_place", "symbols"),
    ("profile/src/live/probe/notes.rs", "parse_notes", "symbols"),
    ("profile/src/perf/file.rs", "parse", "perf-data"),
    ("profile/src/perf/layout.rs", "parse", "perf-data"),
    ("profile/src/perf/record.rs", "parse", "perf-data"),
    ("profile/src/scopes/parse.rs", "parse", "scopes"),
    ("profile/src/symbols/elf.rs", "parse", "programs"),
    ("profile/src/symbols/kernel.rs", "parse_build_id", "symbols"),
    ("profile/src/symbols/kernel.rs", "parse_kallsyms", "symbols"),
    ("profile/src/symbols/pclntab.rs", "parse_pclntab", "symbols"),
    ("profile/src/symbols/perf_map.rs", "parse_perf_map", "symbols"),
    ("profile/src/text.rs", "parse", "perf-script"),
    ("profile/src/text/head.rs", "parse", "perf-script"),
    ("profile/src/tree.rs", "parse", "perf-script"),
    ("profile/src/unwind/elf.rs", "parse", "programs"),
    ("profile/src/scopes/parse.rs", "parse", "scopes"),
    ("rt/src/agones/game_server.rs", "parse", "agones"),
    ("hostfs/src/sleep_deadline.rs", "parse_syscall", "kernel-counts"),
    ("hostfs/src/proc/devices.rs", "parse_disks", "kernel-counts"),
    ("hostfs/src/proc/devices.rs", "parse_interfaces", "kernel-counts"),
    ("hostfs/src/proc/run_queues.rs", "parse_run_queues", "kernel-counts"),
    ("hostfs/src/proc/sockets.rs", "parse_sockets", "kernel-counts"),
    ("hostfs/src/proc/fields.rs", "parse_amount", "kernel-counts"),
    ("hostfs/src/proc/fields.rs", "parse_fields", "rates"),
    ("hostfs/src/proc/fields.rs", "parse_pairs", "rates"),
    ("hostfs/src/proc/fields.rs", "parse_switches", "rates"),
    ("hostfs/src/cgroup/place.rs", "parse_membership", "cgroup"),
    ("hostfs/src/proc/interrupts.rs", "parse_per_cpu", "interrupts"),
    ("hostfs/src/proc/mounts.rs", "parse_mounts", "mountinfo"),
    ("hostfs/src/proc/process.rs", "parse_process", "rates"),
    ("hostfs/src/proc/stat.rs", "parse_stat", "rates"),
    ("hostfs/src/proc/stat.rs", "parse_ticks", "rates"),
    ("hostfs/src/timer_files.rs", "parse_set", "kernel-counts"),
    ("hostfs/src/timer_files.rs", "parse_timer", "kernel-counts"),
    ("hostfs/src/capture.rs", "parse", "capture"),
    ("sys/src/cpu_limit.rs", "parse_cpu_max", "limits"),
    ("sys/src/cpuset.rs", "parse_list", "cpuset"),
    ("sys/src/cpuset.rs", "parse_mask", "cpuset"),
    ("sys/src/cpuset.rs", "parse_range", "cpuset"),
    ("sys/src/errno.rs", "parse", "errno"),
    ("sys/src/http.rs", "parse", "http"),
    ("sys/src/http.rs", "parse_coding", "http"),
    ("sys/src/http.rs", "parse_length", "http"),
    ("sys/src/phase_slot.rs", "parse", "telemetry"),
    ("sys/src/resident.rs", "parse_locked_kib", "kernel-counts"),
    ("sys/src/resident.rs", "parse_swapped_in", "kernel-counts"),
    ("sys/src/schedstat.rs", "parse_schedstat", "kernel-counts"),
    ("sys/src/stall.rs", "parse_stalls", "kernel-counts"),
    ("sys/src/telemetry/owner.rs", "parse_boot", "telemetry"),
    ("sys/src/telemetry/owner.rs", "parse_start", "telemetry"),
    ("sys/src/telemetry/snapshot.rs", "parse", "telemetry"),
    ("trial/src/boots/state.rs", "parse", "report"),
    ("trial/src/boots/state.rs", "parse_json", "report"),
    ("watch/src/store/frame.rs", "parse", "watch-store"),
    ("watch/src/store/names.rs", "parse", "watch-store"),
    ("watch/src/store/segment.rs", "parse_segment", "watch-store"),
    ("workload/src/load/ddnet/wire.rs", "parse", "ddnet"),
    ("workload/src/load/protocol/http.rs", "parse_answer", "answers"),
    ("workload/src/load/protocol/memcached.rs", "parse_answer", "answers"),
    ("workload/src/load/protocol/memcached.rs", "parse_value", "answers"),
    ("workload/src/load/protocol/mod.rs", "parse_answer", "answers"),
    ("workload/src/load/protocol/mqtt.rs", "parse_answer", "answers"),
    ("workload/src/load/protocol/mqtt.rs", "parse_packet", "answers"),
    ("workload/src/load/protocol/redis.rs", "parse_answer", "answers"),
    ("workload/src/source/http.rs", "parse", "metrics-page"),
    ("workload/src/source/json_lines.rs", "parse_path", "output-lines"),
    ("workload/src/source/prometheus/page.rs", "parse", "metrics-page"),
    ("workload/src/source/prometheus/text.rs", "parse_head", "metrics-page"),
    ("workload/src/source/prometheus/text.rs", "parse_kind", "metrics-page"),
    ("workload/src/source/prometheus/text.rs", "parse_line", "metrics-page"),
    ("workload/src/source/prometheus/text.rs", "parse_name", "metrics-page"),
    ("workload/src/source/prometheus/text.rs", "parse_quoted", "metrics-page"),
    ("workload/src/source/prometheus/text.rs", "parse_value", "metrics-page"),
    ("workload/src/source/rule.rs", "parse", "output-lines"),
    ("trial/src/saved/read.rs", "parse", "report"),
    ("trial/src/search/goal.rs", "parse", "goal"),
    ("trial/src/search/log.rs", "parse_log", "search-log"),
    ("trial/src/session/session_log.rs", "parse", "report"),
];

/// Why parsers of meters have no fuzz target: a meter reads its own kernel, never a captured machine.
const OWN_KERNEL: &str = "reads the kernel that it runs on: its own property test has it";

/// Why the user's setting of a load has no fuzz target: it is an argument of a command.
const A_SETTING: &str = "a command's argument: its cases are next to it";

/// Parsers that no target reaches, each with the reason.
const NOT_FUZZED: &[(&str, &str, &str)] = &[
    ("profile/src/symbols/cache.rs", "parse_entry", "what the program wrote itself: its own property test has it"),
    ("profile/src/symbols/kernel.rs", "parse_build_id", "the kernel's notes: its own property test has it"),
    ("profile/src/symbols/kernel.rs", "parse_kallsyms", "the kernel's list: its own property test has it"),
    (
        "profile/src/symbols/pclntab.rs",
        "parse_text_start",
        "two words of a program's file: a table of cases is next to it",
    ),
    ("profile/src/symbols/perf_map.rs", "parse_perf_map", "its own property test has it"),
    ("profile/src/binaries/place.rs", "parse_status", "the kernel's status of a process"),
    ("evenkeel/src/commands/watch/at.rs", "parse", "a command's argument: its cases are next to it"),
    ("evenkeel/src/tick_function.rs", "parse", "a command's argument: a place, which has its own target"),
    ("evenkeel/src/commands/profile/begins.rs", "parse_until", "a command's argument: two words, or a place"),
    ("arena/src/control.rs", "parse", "lines of whoever started the program: its own property test has it"),
    ("profile/src/fold.rs", "parse", "lines of stacks and numbers: its own property test has it"),
    ("host/src/probe.rs", "parse", "hands a text to the parser of its path"),
    ("host/src/catalogue.rs", "parse", "reads our own text, which is part of the program"),
    ("evenkeel/src/commands/guard.rs", "parse", "lines that the program writes itself, to its own guard"),
    ("evenkeel/src/arms.rs", "parse", "a command's argument: settings, each of which the target setting has"),
    ("evenkeel/src/args.rs", "parse_ref", "a command's argument, checked by the list of knobs"),
    ("profile/src/live/already.rs", "parse_kernel_length", OWN_KERNEL),
    ("profile/src/live/already.rs", "parse_kernel_start", OWN_KERNEL),
    ("profile/src/live/already.rs", "parse_map", OWN_KERNEL),
    ("profile/src/symbols/cache.rs", "parse_entry", "what the program writes itself: its own property test has it"),
    ("profile/src/binaries/place.rs", "parse_status", OWN_KERNEL),
    ("sys/src/perf_probe.rs", "parse_bit", OWN_KERNEL),
    ("sys/src/cpu_limit.rs", "parse_groups", OWN_KERNEL),
    ("sys/src/cpu_limit.rs", "parse_stat", OWN_KERNEL),
    (
        "evenkeel/src/workload_settings.rs",
        "parse",
        "a command's argument: a placement, or a setting, which the target setting has",
    ),
    ("watch/src/store/frame.rs", "parse_format", "a number: every changed bit of it is a case next to it"),
    ("watch/src/store/index.rs", "parse_index", "its own test changes every byte; it only saves time"),
    ("trial/src/conditions.rs", "parse_load", "reads the kernel that it runs on: its cases are next to it"),
    ("workload/src/load/dataset.rs", "parse", A_SETTING),
    ("workload/src/load/dataset.rs", "parse_keys", A_SETTING),
    ("workload/src/load/dataset.rs", "parse_values", A_SETTING),
    ("workload/src/load/draw.rs", "parse", A_SETTING),
    ("workload/src/load/schedule.rs", "parse", A_SETTING),
    ("workload/src/workloads/command/load.rs", "parse", "a command's argument: cut by the crate for it"),
    ("workload/src/sockets.rs", "parse", "a command's argument: its own property test has it"),
    ("workload/src/placement.rs", "parse", "a command's argument, one of three words"),
];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn corpus(name: &str) -> Vec<(PathBuf, String)> {
    let dir = top().join("fuzz/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&dir).expect(name).map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect()
}

/// Reads a waiver file as the program does. The result is an answer with or without findings, or an error in the file.
fn waivers(text: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    let host = top().join("hosts/qemu-1cpu-6.1.txt");
    let mut program = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let output = program.arg("audit").arg("--host").arg(host).arg("--waivers").arg(file.path()).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 2)), "{output:?}");
}

/// Passes a text to the reader of a target.
pub(crate) fn take(target: &Target, text: &str) {
    match target.reads {
        Reads::Whole(read) => read(text),
        Reads::Paths(host, paths) => drop(on_paths(host, paths, text)),
        Reads::Program => waivers(text),
    }
}

#[test]
fn every_target_takes_its_corpus() {
    for target in TARGETS {
        for (_, text) in corpus(target.name) {
            take(target, &text);
        }
    }
}

#[test]
fn every_path_of_a_target_is_one_that_its_machine_is_asked_for() {
    for target in TARGETS {
        let Reads::Paths(host, paths) = target.reads else { continue };
        let root = Root::captured(machine(host));
        for path in paths {
            let is_asked = root.text(path).map_or_else(|refusal| refusal.why != Why::NotCaptured, |_| true);
            assert!(is_asked, "{}: {path} is not looked at any more", target.name);
        }
        let plain = Facts::probe(&root);
        let changes = |text: &str| on_paths(host, paths, text) != plain;
        assert!(
            corpus(target.name).iter().any(|(_, text)| changes(text)),
            "{}: nothing in its corpus counts",
            target.name
        );
    }
}

#[test]
fn targets_programs_and_corpora_are_the_same_list() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len());
    let manifest = fs::read_to_string(top().join("fuzz/Cargo.toml")).unwrap();
    // lab/fuzz.sh runs each program in the manifest.
    let programs = manifest.split("[[bin]]").skip(1);
    let programs = programs.map(|program| program.split('"').nth(1).unwrap().to_owned());
    assert_eq!(programs.collect::<BTreeSet<_>>(), names);
    let folders = fs::read_dir(top().join("fuzz/corpus")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(folders.collect::<BTreeSet<_>>(), names);
    for name in &names {
        assert!(!corpus(name).is_empty(), "{name}");
    }
}

fn sources(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_parser_has_a_target() {
    let mut files = Vec::new();
    for dir in [
        "arena", "sys", "hostfs", "host", "change", "measure", "profile", "rt", "trial", "workload", "watch", "fleet",
        "evenkeel",
    ] {
        sources(&top().join("crates").join(dir).join("src"), &mut files);
    }
    let mut found = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(top().join("crates")).unwrap().to_string_lossy().into_owned();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let functions = code.lines().filter_map(|line| line.split_once("fn ")?.1.split(['(', '<']).next());
        let parsers = functions.filter(|function| *function == "parse" || function.starts_with("parse_"));
        found.extend(parsers.map(|parser| (name.clone(), parser.to_owned())));
    }
    let known = PARSERS.iter().chain(NOT_FUZZED).map(|(file, parser, _)| ((*file).to_owned(), (*parser).to_owned()));
    assert_eq!(found, known.collect::<BTreeSet<_>>(), "name the target that reaches a new parser in PARSERS");
    for (file, parser, target) in PARSERS {
        assert!(TARGETS.iter().any(|known| known.name == *target), "{file} {parser}: no target is called {target}");
    }
}
