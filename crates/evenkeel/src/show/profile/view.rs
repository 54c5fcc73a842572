//! The page of `profile view`.

use evenkeel_measure::Unit;
use evenkeel_profile::graph::Quantity;
use evenkeel_profile::recording::Lost;
use evenkeel_profile::symbols::NameCoverage;
use serde::Serialize;

use crate::show::blocks::Block;
use crate::show::units::{percent, quantity};

/// More CPUs than these are told by the JSON.
const CPUS_MAX: usize = 64;
/// Longer names are cut off here: a page has so many columns. The JSON has them whole.
const NAME_COLUMNS: usize = 60;

/// What a recording comes to.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    pub(crate) file: String,
    /// Of a recording alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recording: Option<RecordingInfo>,
    /// What weights count: `ns` of a CPU, or the name of what is counted.
    pub(crate) unit: String,
    pub(crate) weight: u64,
    pub(crate) functions: Vec<FunctionRow>,
    /// How many frames have a name, and why others have none; of a recording alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) names: Option<NameCoverage>,
    pub(crate) doubts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) written: Option<String>,
    #[serde(skip)]
    pub(crate) quantity: Quantity,
}

/// What a recording tells beside its stacks.
#[derive(Debug, Serialize)]
pub(crate) struct RecordingInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kernel: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) event: String,
    pub(crate) span_ns: u64,
    pub(crate) samples: u64,
    pub(crate) events: Vec<EventRow>,
    pub(crate) cpus: Vec<CpuRow>,
    pub(crate) threads: Vec<ThreadRow>,
    pub(crate) lost: LostRow,
}

#[derive(Debug, Serialize)]
pub(crate) struct EventRow {
    pub(crate) event: String,
    pub(crate) samples: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct CpuRow {
    pub(crate) cpu: u32,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
    /// Of the time that was looked at, where weights are time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sampled_share: Option<f64>,
    pub(crate) top_thread: String,
    pub(crate) top_thread_share: f64,
    pub(crate) top_function: String,
    pub(crate) top_function_share: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct ThreadRow {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct FunctionRow {
    pub(crate) function: String,
    pub(crate) kind: &'static str,
    pub(crate) own_weight: u64,
    pub(crate) own_share: f64,
    pub(crate) with_weight: u64,
    pub(crate) with_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) most_inlined: Option<Inlined>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Inlined {
    pub(crate) function: String,
    pub(crate) own_share: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct LostRow {
    pub(crate) records: u64,
    pub(crate) samples: u64,
    pub(crate) throttled: u64,
    pub(crate) odd: u64,
}

impl From<Lost> for LostRow {
    fn from(lost: Lost) -> LostRow {
        LostRow { records: lost.records, samples: lost.samples, throttled: lost.throttled, odd: lost.odd }
    }
}

pub(crate) fn blocks(answer: &Answer) -> Vec<Block> {
    let mut blocks = vec![Block::heading(format!("{}: {}", answer.file, answer.quantity.say(answer.weight)))];
    if let Some(info) = &answer.recording {
        blocks.extend(head(answer, info));
    }
    blocks.push(functions(&answer.functions));
    if let Some(info) = &answer.recording {
        blocks.extend(cpus(info));
    }
    blocks.extend(answer.doubts.iter().map(|doubt| Block::Warning(sentence(doubt))));
    if let Some(file) = &answer.written {
        blocks.push(Block::row("written", file));
    }
    blocks
}

fn head(answer: &Answer, info: &RecordingInfo) -> Vec<Block> {
    let mut rows = Vec::new();
    let on = [info.host.as_deref(), info.kernel.as_deref()];
    let on: Vec<&str> = on.into_iter().flatten().collect();
    if !on.is_empty() {
        rows.push(Block::row("machine", on.join(", Linux ")));
    }
    if !info.command.is_empty() {
        rows.push(Block::row("recorded by", info.command.join(" ")));
    }
    let span = quantity(info.span_ns, Unit::Ns);
    rows.push(match answer.quantity {
        Quantity::OffCpuTime => Block::row("intervals", format!("{} in {span}", info.samples)),
        _ => Block::row("samples", format!("{} of {} in {span}", info.samples, info.event)),
    });
    let others: Vec<String> = info
        .events
        .iter()
        .filter(|row| row.event != info.event && row.samples > 0)
        .map(|row| format!("{} ({})", row.event, row.samples))
        .collect();
    if !others.is_empty() {
        rows.push(Block::row("other events", others.join(", ")));
    }
    rows
}

fn functions(rows: &[FunctionRow]) -> Block {
    let row = |one: &FunctionRow| {
        let inlined = one.most_inlined.as_ref().filter(|inlined| inlined.own_share * 10.0 >= one.own_share);
        let inlined = inlined.map_or_else(String::new, |inlined| {
            format!(" (inlined {} {})", short(&inlined.function), percent(inlined.own_share))
        });
        let kind = one.kind.to_owned();
        [percent(one.own_share), percent(one.with_share), kind, format!("{}{inlined}", short(&one.function))]
    };
    Block::table(["itself", "with calls", "kind", "function"], rows.iter().map(row).collect())
}

fn cpus(info: &RecordingInfo) -> Vec<Block> {
    if info.cpus.is_empty() {
        return Vec::new();
    }
    let rows = info.cpus.iter().take(CPUS_MAX).map(|cpu| {
        let sampled = cpu.sampled_share.map_or_else(|| "-".to_owned(), percent);
        let thread = format!("{} {}", short(&cpu.top_thread), percent(cpu.top_thread_share));
        let function = format!("{} {}", short(&cpu.top_function), percent(cpu.top_function_share));
        [cpu.cpu.to_string(), cpu.samples.to_string(), sampled, thread, function]
    });
    let mut blocks = vec![
        Block::heading("CPUs"),
        Block::table(["cpu", "samples", "of its time", "most by thread", "most in function"], rows.collect()),
    ];
    if info.cpus.len() > CPUS_MAX {
        blocks.push(Block::Note(format!("{} more CPUs: see --json.", info.cpus.len() - CPUS_MAX)));
    }
    blocks
}

/// A name that leaves room for others on its line.
pub(super) fn short(name: &str) -> String {
    if name.chars().count() <= NAME_COLUMNS {
        return name.to_owned();
    }
    name.chars().take(NAME_COLUMNS - 1).chain(['…']).collect()
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
