//! The page of `profile imbalance`, and its verdict.

use evenkeel_measure::Unit;
use evenkeel_profile::imbalance::{Cause, Cpu, Filled, Imbalance, ImbalanceCaveat, Shape, Source, Thread};

use evenkeel_profile::symbols::{NameCoverage, Unnamed};

use crate::show::units::{percent, quantity};
use crate::view::Block;

/// The maximum number of CPUs on the page, the busiest first. The JSON answer has all CPUs.
const ROWS_MAX: usize = 32;
/// The characters for the busy share of a CPU in a part of the time, from idle to full.
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The maximum number of files without function names on the page.
const UNNAMED_MAX: usize = 3;
/// The maximum number of functions of a stack on the page.
const FRAMES_MAX: usize = 8;

/// The page. `unseen` lists the data that evenkeel could not record, with the reasons.
pub(crate) fn blocks(seen: &Imbalance, unseen: &[String], names: &NameCoverage) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Balance of the CPUs")];
    blocks.push(Block::Note(format!(
        "{}. Full is busy for 90 % or more, idle is 50 % or less.",
        capital(&verdict(seen))
    )));
    blocks.push(Block::row("recorded", quantity(seen.length_ns, Unit::Ns)));
    if seen.source != Source::Counter {
        let parts = seen.cpus.iter().map(|cpu| cpu.parts.len()).max().unwrap_or(0);
        let part = quantity(seen.part_ns, Unit::Ns);
        blocks.push(Block::row("uneven", format!("in {} of {parts} parts of {part}", seen.uneven_parts)));
    }
    blocks.push(Block::row("source", source(seen.source)));
    blocks.extend(table(seen));
    blocks.extend(over_time(seen));
    if let Some(cpu) = seen.cpus.iter().find(|cpu| Some(cpu.cpu) == seen.busiest) {
        blocks.push(Block::heading(format!("The busiest: CPU {}", cpu.cpu)));
        blocks.extend(threads(cpu));
        blocks.extend(filled(seen.filled.as_ref()));
    }
    if let Some(cpu) = seen.cpus.iter().find(|cpu| Some(cpu.cpu) == seen.idlest) {
        blocks.push(Block::heading(format!("For comparison, the least busy: CPU {}", cpu.cpu)));
        blocks.extend(threads(cpu));
        blocks.extend(seen.idlest_filled.as_ref().map(functions));
    }
    blocks.extend(seen.caveats.iter().map(|caveat| Block::Warning(caveat_text(*caveat).to_owned())));
    blocks.extend(names.unnamed.iter().take(UNNAMED_MAX).map(|unnamed| {
        let Unnamed { file, is_kernel, share, why, mend, .. } = unnamed;
        let whose = if *is_kernel { "kernel" } else { "user" };
        let mend = mend.as_deref().map_or_else(String::new, |mend| format!("; to fix it: {mend}"));
        Block::Note(format!(
            "{} of {whose} frames have no name. They are in {file}: {}{mend}.",
            percent(*share),
            why.words()
        ))
    }));
    blocks.extend(unseen.iter().map(|what| Block::Warning(format!("Not recorded: {what}."))));
    blocks
}

/// The verdict in one sentence.
pub(crate) fn verdict(seen: &Imbalance) -> String {
    let cpus = seen.full_cpus().iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let cpus_were = if seen.full_cpus().len() > 1 { format!("CPUs {cpus} were") } else { format!("CPU {cpus} was") };
    let share = |cpu: Option<u32>| seen.cpus.iter().find(|known| Some(known.cpu) == cpu).map(|cpu| cpu.busy_share);
    let busiest = share(seen.busiest).map_or_else(|| "unknown".to_owned(), percent);
    let idlest = match seen.idlest.zip(share(seen.idlest)) {
        Some((cpu, share)) => format!("CPU {cpu} was busy for {}", percent(share)),
        None => "the machine has no other CPU".to_owned(),
    };
    match seen.shape {
        Shape::Even => format!("no CPU was full: the busiest, CPU {cpus}, was busy for {busiest}, {idlest}"),
        Shape::Uneven => format!("{cpus_were} full ({busiest}) while {idlest}{}", because(seen)),
        Shape::Full => format!("{cpus_were} full, and no other CPU was idle{}", because(seen)),
        Shape::OneThread => {
            let who = seen.thread.as_ref().map_or_else(|| "one thread".to_owned(), named);
            let where_to = seen.thread.as_ref().map_or(0, |thread| thread.seen_on_cpus.len());
            let time = seen.thread.as_ref().and_then(|thread| thread.share).map_or_else(String::new, percent);
            format!(
                "no CPU was full, but {who} ran for {time} of the time, on {where_to} CPUs by turns. This thread is the bottleneck: reduce or divide its work"
            )
        }
        Shape::Unknown => match seen.source {
            Source::Counter => {
                format!("CPU {cpus} did most of the work{}. A counter does not show how full it was", because(seen))
            }
            _ => "the recording has no data about any CPU".to_owned(),
        },
    }
}

/// The cause, as the second half of the verdict's sentence.
fn because(seen: &Imbalance) -> String {
    let first = seen.thread.as_ref().map_or_else(|| "one thread".to_owned(), named);
    match seen.cause {
        None => String::new(),
        Some(Cause::OneThread) => {
            let share = seen.thread.as_ref().map_or_else(String::new, |thread| percent(thread.work_share));
            format!(
                ": {first} did {share} of its work. A thread runs on one CPU at a time, so reduce or divide its work"
            )
        }
        Some(Cause::Interrupts) => ": most of the work was interrupts. Distribute them over CPUs (evenkeel explain irq.affinity, evenkeel explain \
                                    net.rps_cpus)"
            .to_owned(),
        Some(Cause::Pinned) if seen.shape == Shape::Full => {
            ": most of the work was by threads that may run only there. Reduce the work, or use a machine with more CPUs".to_owned()
        }
        Some(Cause::Pinned) => {
            ": most of the work was by threads that may run only there. Let them run elsewhere (taskset -pc TID, cpuset)".to_owned()
        }
        Some(Cause::Together) => {
            ": several threads shared it although they may run elsewhere, so the scheduler kept them together".to_owned()
        }
        Some(Cause::Several) => {
            ": several threads shared it. A recording does not show where else they may run; check with taskset -pc TID".to_owned()
        }
    }
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn named(thread: &Thread) -> String {
    match &thread.name {
        Some(name) => format!("{name} ({})", thread.tid),
        None => format!("thread {}", thread.tid),
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Switches => "context switches: exact",
        Source::Samples => "samples of a clock: with the error shown",
        Source::Counter => "samples of a counter: work of each CPU relative to the busiest",
    }
}

fn table(seen: &Imbalance) -> Vec<Block> {
    let mut cpus: Vec<&Cpu> = seen.cpus.iter().collect();
    if cpus.len() > ROWS_MAX {
        cpus.sort_by(|one, other| other.busy_share.total_cmp(&one.busy_share));
        cpus.truncate(ROWS_MAX);
    }
    let row = |cpu: &&Cpu| {
        let busy = match cpu.error_share {
            _ if cpu.unknown_share >= 1.0 => "unknown".to_owned(),
            Some(error) => format!("{} ±{:.1}", percent(cpu.busy_share), error * 100.0),
            None => percent(cpu.busy_share),
        };
        let real = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.2}"));
        let switches = cpu.switches_per_s.map_or_else(|| "unknown".to_owned(), |rate| format!("{rate:.0}/s"));
        let first = cpu.threads.first();
        let first = first.map_or_else(|| "none".to_owned(), |it| format!("{} {}", named(it), percent(it.work_share)));
        [cpu.cpu.to_string(), busy, real(cpu.waiting), switches, cpu.thread_count.to_string(), first]
    };
    let header = ["CPU", "busy", "waiting", "switches", "threads", "most of its work"];
    let mut blocks = vec![Block::table(header, cpus.iter().map(row).collect())];
    if seen.cpus.len() > ROWS_MAX {
        blocks.push(Block::Note(format!(
            "These are the {ROWS_MAX} busiest of {} CPUs; --json has all.",
            seen.cpus.len()
        )));
    }
    blocks
}

/// A line for each CPU, with its busy share in each part of the time.
fn over_time(seen: &Imbalance) -> Vec<Block> {
    let shown = seen.cpus.iter().filter(|cpu| cpu.unknown_share < 1.0).take(ROWS_MAX);
    let level = |share: &f64| LEVELS[((share * 8.0).round() as usize).min(8)];
    shown.map(|cpu| Block::row(&format!("CPU {}", cpu.cpu), cpu.parts.iter().map(level).collect::<String>())).collect()
}

fn threads(cpu: &Cpu) -> Vec<Block> {
    if cpu.threads.is_empty() {
        return vec![Block::Note("Nothing ran there.".to_owned())];
    }
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let row = |thread: &Thread| {
        [
            named(thread),
            thread.pid.to_string(),
            thread.share.map_or_else(|| "unknown".to_owned(), percent),
            list(&thread.seen_on_cpus),
            thread.may_run_on_cpus.as_deref().map_or_else(|| "unknown".to_owned(), list),
        ]
    };
    let header = ["thread", "process", "of this CPU", "seen on", "may run on"];
    vec![Block::table(header, cpu.threads.iter().map(row).collect())]
}

fn filled(filled: Option<&Filled>) -> Vec<Block> {
    let Some(filled) = filled else { return Vec::new() };
    let share = |share: Option<f64>| share.map_or_else(|| "unknown".to_owned(), percent);
    let mut blocks = vec![
        Block::row("kernel", percent(filled.kernel_share)),
        Block::row("softirqs", share(filled.softirq_share)),
        Block::row("interrupts", share(filled.irq_share)),
        functions(filled),
    ];
    for path in &filled.stacks {
        let frames: Vec<&str> = path.stack.split(';').collect();
        let (first, rest) = frames.split_first().unwrap_or((&"", &[]));
        let cut = rest.len().saturating_sub(FRAMES_MAX);
        let inner = rest.get(cut..).unwrap_or_default().join(" > ");
        let gap = if cut > 0 { " … " } else { " " };
        blocks.push(Block::row(&percent(path.share), format!("{first}:{gap}{inner}")));
    }
    blocks
}

fn functions(filled: &Filled) -> Block {
    let row = |place: &evenkeel_profile::imbalance::Place| {
        let mark = if place.is_kernel { " [kernel]" } else { "" };
        [percent(place.self_share), percent(place.total_share), format!("{}{mark}", place.name)]
    };
    Block::table(["own", "with calls", "function"], filled.functions.iter().map(row).collect())
}

fn caveat_text(caveat: ImbalanceCaveat) -> &'static str {
    match caveat {
        ImbalanceCaveat::SomeOnly => "Only some processes were recorded, so the CPUs may have been busier.",
        ImbalanceCaveat::Short => {
            "The recording is shorter than two seconds, so one pause of the machine would change the result."
        }
        ImbalanceCaveat::Lost => "Records were lost, so for a part of the time it is unknown what ran.",
        ImbalanceCaveat::Close => "A busy share is closer to a limit (50 % or 90 %) than its error.",
        ImbalanceCaveat::InterruptsUnseen => {
            "Samples cannot show code that runs with interrupts off, such as interrupt handlers. Its time counts for the code that follows."
        }
        ImbalanceCaveat::KernelUnnamed => {
            "Kernel functions have no names here, so interrupts and system calls look alike."
        }
        ImbalanceCaveat::NoStacks => "The busiest CPU has no samples with stacks, so its functions are unknown.",
        ImbalanceCaveat::SilentCpus => "CPUs without a busy share have no records: they were idle or not recorded.",
    }
}
