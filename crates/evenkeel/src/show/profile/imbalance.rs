//! The page of `profile imbalance`, and the sentence that it comes to.

use evenkeel_measure::Unit;
use evenkeel_profile::imbalance::{Cause, Cpu, Filled, Imbalance, ImbalanceCaveat, Shape, Source, Thread};

use evenkeel_profile::symbols::{NameCoverage, Unnamed};

use crate::show::blocks::Block;
use crate::show::units::{percent, quantity};

/// More CPUs than these are in the JSON answer; the busiest are shown.
const ROWS_MAX: usize = 32;
/// What a CPU's time can look like in a part, from idle to full.
const LEVELS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Files without names that are told, at the most.
const UNNAMED_MAX: usize = 3;
/// The longest stack that is shown, in functions.
const FRAMES_MAX: usize = 8;

/// The page; `unseen` is what could not be recorded, a sentence each.
pub(crate) fn blocks(seen: &Imbalance, unseen: &[String], names: &NameCoverage) -> Vec<Block> {
    let mut blocks = vec![Block::heading("CPUs while it was recorded")];
    blocks.push(Block::row("looked", quantity(seen.length_ns, Unit::Ns)));
    blocks.push(Block::row("all in all", verdict(seen)));
    if seen.source != Source::Counter {
        let parts = seen.cpus.iter().map(|cpu| cpu.parts.len()).max().unwrap_or(0);
        let part = quantity(seen.part_ns, Unit::Ns);
        blocks.push(Block::row("uneven", format!("{} of {parts} parts of {part}", seen.uneven_parts)));
    }
    blocks.push(Block::row("known by", source(seen.source)));
    blocks.extend(table(seen));
    blocks.extend(over_time(seen));
    if let Some(cpu) = seen.cpus.iter().find(|cpu| Some(cpu.cpu) == seen.busiest) {
        blocks.push(Block::heading(format!("The busiest: CPU {}", cpu.cpu)));
        blocks.extend(threads(cpu));
        blocks.extend(filled(seen.filled.as_ref()));
    }
    if let Some(cpu) = seen.cpus.iter().find(|cpu| Some(cpu.cpu) == seen.idlest) {
        blocks.push(Block::heading(format!("Beside it, the least busy: CPU {}", cpu.cpu)));
        blocks.extend(threads(cpu));
        blocks.extend(seen.beside.as_ref().map(functions));
    }
    blocks.extend(seen.doubts.iter().map(|doubt| Block::Warning(held_against(*doubt).to_owned())));
    blocks.extend(names.unnamed.iter().take(UNNAMED_MAX).map(|unnamed| {
        let Unnamed { file, is_kernel, share, why, mend, .. } = unnamed;
        let whose = if *is_kernel { "the kernel's" } else { "programs'" };
        let mend = mend.as_deref().map_or_else(String::new, |mend| format!(": {mend}"));
        Block::Note(format!(
            "{} of {whose} frames are in {file} and have no name: {}{mend}.",
            percent(*share),
            why.words()
        ))
    }));
    blocks.extend(unseen.iter().map(|what| Block::Warning(format!("Not seen: {what}."))));
    blocks
}

/// One sentence.
pub(crate) fn verdict(seen: &Imbalance) -> String {
    let cpus = seen.full_cpus().iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let share = |cpu: Option<u32>| seen.cpus.iter().find(|known| Some(known.cpu) == cpu).map(|cpu| cpu.busy_share);
    let busiest = share(seen.busiest).map_or_else(|| "unknown".to_owned(), percent);
    let beside = match seen.idlest.zip(share(seen.idlest)) {
        Some((cpu, share)) => format!("CPU {cpu} was busy for {}", percent(share)),
        None => "there is no other CPU".to_owned(),
    };
    match seen.shape {
        Shape::Even => format!("no CPU was full: the busiest, CPU {cpus}, was busy for {busiest}, while {beside}"),
        Shape::Uneven => format!("CPU {cpus} was full ({busiest}) while {beside}{}", because(seen)),
        Shape::Full => format!("CPU {cpus} was full, and no other idled{}", because(seen)),
        Shape::OneThread => {
            let who = seen.thread.as_ref().map_or_else(|| "one thread".to_owned(), named);
            let where_to = seen.thread.as_ref().map_or(0, |thread| thread.seen_on_cpus.len());
            let time = seen.thread.as_ref().and_then(|thread| thread.share).map_or_else(String::new, percent);
            format!(
                "no CPU was full, yet {who} ran for {time} of the time, on {where_to} CPUs in turn: it is what holds the server up"
            )
        }
        Shape::Unknown => match seen.source {
            Source::Counter => {
                format!("CPU {cpus} did most of the work; how full it was a counter does not tell{}", because(seen))
            }
            _ => "nothing can be said: the recording tells of no CPU".to_owned(),
        },
    }
}

/// The second half of the sentence.
fn because(seen: &Imbalance) -> String {
    let first = seen.thread.as_ref().map_or_else(|| "one thread".to_owned(), named);
    match seen.cause {
        None => String::new(),
        Some(Cause::OneThread) => {
            let share = seen.thread.as_ref().map_or_else(String::new, |thread| percent(thread.work_share));
            format!(
                ": {share} of its work was {first}, and a thread can be in one place only, so its work has to be made less or divided"
            )
        }
        Some(Cause::Interrupts) => ": most of its work was for interrupts, which can be spread over CPUs \
             (evenkeel explain irq.affinity, evenkeel explain net.rps_cpus)"
            .to_owned(),
        Some(Cause::Pinned) => ": most of its threads may run nowhere else (taskset -pc TID, cpuset)".to_owned(),
        Some(Cause::Together) => {
            ": several threads shared it that may run elsewhere, so the scheduler left them there".to_owned()
        }
        Some(Cause::Several) => {
            ": several threads shared it; where else they may run is not in the recording".to_owned()
        }
    }
}

fn named(thread: &Thread) -> String {
    match &thread.name {
        Some(name) => format!("{name} ({})", thread.tid),
        None => format!("thread {}", thread.tid),
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Switches => "every switch of a thread: exact",
        Source::Samples => "samples of a clock: with an error",
        Source::Counter => "samples of a counter: what a CPU did beside what the busiest did",
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
        blocks.push(Block::Note(format!("The {ROWS_MAX} busiest of {}; the others are in --json.", seen.cpus.len())));
    }
    blocks
}

/// A line for each CPU: how busy it was in each part.
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

fn held_against(doubt: ImbalanceCaveat) -> &'static str {
    match doubt {
        ImbalanceCaveat::SomeOnly => "Only some processes were watched: what others did with these CPUs is not in it.",
        ImbalanceCaveat::Short => {
            "It was recorded for less than two seconds: one pause of the machine would change the answer."
        }
        ImbalanceCaveat::Lost => "Records were lost: for a part of the time nobody knows what ran.",
        ImbalanceCaveat::Close => "A share is nearer to a limit (half, or nine tenths) than its error.",
        ImbalanceCaveat::InterruptsUnseen => {
            "The clock that samples is an interrupt: what runs while interrupts are off, such as their handlers, is counted to what comes after."
        }
        ImbalanceCaveat::KernelUnnamed => {
            "The kernel's functions have no names here, so interrupts are not told from system calls."
        }
        ImbalanceCaveat::NoStacks => {
            "There are no samples of what ran on the busiest CPU, so its functions are not known."
        }
        ImbalanceCaveat::SilentCpus => "CPUs without a busy share left no trace: they idled, or nobody watched them.",
    }
}
