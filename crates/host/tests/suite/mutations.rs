//! Captures may come from strangers. The test cuts, changes and splices captured hosts at random but reproducibly.
//! Each capture must give facts and advice, or an error. It must never cause a panic, or use unlimited time or memory.

use std::fs;
use std::process::Command;

use evenkeel_host::{AdviceContext, Facts, Goal, Plan, Server, Setting, State, advise};
use evenkeel_hostfs::{Capture, Root};
use evenkeel_sys::clock::thread_cpu_ns;
use evenkeel_testkit::mutate::{Chance, asked, hosts, mutated};

/// The default number of mutations. `make lab` tries 100,000 of them, in a release build.
const MUTATIONS: u64 = 1_000;

/// The maximum CPU time for one capture. The largest captured host takes a tenth of this time in a debug build.
const CPU_NS_MAX: u64 = 1_000_000_000;

/// The limit of the process's address space.
const ADDRESS_KIB_MAX: u64 = 512 * 1024;

/// One capture may raise the peak of the resident memory by at most this much.
const PEAK_KIB_MAX: u64 = 64 * 1024;

const TEST: &str = "mutations::hostile_input_gives_answers_or_errors";
const CONFINED: &str = "EVENKEEL_CONFINED";

/// Does the work of inspect, audit, and a plan of all advice, without printing. `None` if the text is not a capture.
fn answered(text: &str, seed: u64) -> Option<usize> {
    let facts = Facts::probe(&Root::captured(Capture::parse(text).ok()?));
    let mut bytes = serde_json::to_string(&facts).unwrap().len();
    let as_text = Server { pps: Some(3_840), cpus: Some(2), players: Some(64) };
    for goal in Goal::ALL {
        for server in [Server::default(), as_text] {
            let advice = advise(&facts, &AdviceContext { goal, server });
            assert!(!advice.is_empty(), "seed {seed}");
            bytes += serde_json::to_string(&advice).unwrap().len();
            let wanted = advice.iter().filter(|advice| advice.state == State::Set);
            let settings: Vec<Setting> = wanted
                .filter_map(|advice| Setting::parse(&format!("{}={}", advice.knob, advice.wanted.as_ref()?)).ok())
                .collect();
            // An inconsistent machine may have no plan. In that case, there must be an error text.
            bytes += Plan::from_settings(&facts, &settings)
                .map_or_else(|error| error.to_string().len(), |plan| plan.steps.len());
        }
    }
    Some(bytes)
}

/// A field of this process's status in KiB. 0 if the kernel does not report the field.
fn status_kib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The worst values of all tried captures, each with its seed.
#[derive(Default)]
struct Worst {
    cpu_ns: (u64, u64),
    peak_kib: (u64, u64),
    bytes: (usize, u64),
}

fn try_all(mutations: u64) {
    let hosts = hosts();
    let mut answers = 0;
    let mut worst = Worst::default();
    for seed in 0..mutations {
        let text = mutated(&hosts, &mut Chance(seed));
        // Writing 5 resets the peak of the resident memory (proc_pid_clear_refs(5)).
        let counts = fs::write("/proc/self/clear_refs", "5").is_ok();
        let held_kib = status_kib("VmRSS");
        let before_ns = thread_cpu_ns();
        let bytes = answered(&text, seed);
        let cpu_ns = thread_cpu_ns() - before_ns;
        let peak_kib = if counts { status_kib("VmHWM").saturating_sub(held_kib) } else { 0 };
        assert!(cpu_ns < CPU_NS_MAX, "seed {seed} took {cpu_ns} ns of CPU time");
        assert!(peak_kib < PEAK_KIB_MAX, "seed {seed} took {peak_kib} KiB of memory");
        answers += u64::from(bytes.is_some());
        worst.cpu_ns = worst.cpu_ns.max((cpu_ns, seed));
        worst.peak_kib = worst.peak_kib.max((peak_kib, seed));
        worst.bytes = worst.bytes.max((bytes.unwrap_or(0), seed));
    }
    println!("{answers} of {mutations} mutated captures were still captures; all gave facts and advice");
    println!("longest: {} us of CPU time (seed {})", worst.cpu_ns.0 / 1_000, worst.cpu_ns.1);
    println!("most memory over what was held before: {} KiB (seed {})", worst.peak_kib.0, worst.peak_kib.1);
    println!("longest answer: {} bytes (seed {})", worst.bytes.0, worst.bytes.1);
    println!("the whole process never held more than {} KiB of address space", status_kib("VmPeak"));
    // More than a third of the captures must get past the parser. Otherwise only the parser would be tested.
    assert!(answers * 3 > mutations, "{answers} of {mutations}");
}

/// Runs this test again in a process with a limited address space, because the process itself could not enforce that limit.
#[test]
fn hostile_input_gives_answers_or_errors() {
    if std::env::var_os(CONFINED).is_some() {
        return try_all(asked(MUTATIONS));
    }
    let script = format!("ulimit -v {ADDRESS_KIB_MAX} && exec \"$0\" --exact {TEST} --nocapture");
    let run =
        Command::new("sh").arg("-c").arg(script).arg(std::env::current_exe().unwrap()).env(CONFINED, "1").output();
    let run = run.unwrap();
    println!("{}", String::from_utf8_lossy(&run.stdout));
    assert!(run.status.success(), "{}: {}", run.status, String::from_utf8_lossy(&run.stderr));
}
