//! The page of `profile view`.

use evenkeel_measure::Unit;
use evenkeel_profile::graph::Quantity;
use evenkeel_profile::recording::Lost;
use evenkeel_profile::symbols::NameCoverage;
use serde::Serialize;

use crate::show::units::{part, percent, quantity};
use crate::view::Block;

/// The maximum number of CPUs on the page. The JSON answer has all CPUs.
const CPUS_MAX: usize = 64;
/// The maximum length of a name on the page, in columns. The JSON answer has the whole names.
const NAME_COLUMNS: usize = 60;

/// The answer.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Answer {
    pub(crate) file: String,
    /// The recording; absent for folded stacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recording: Option<RecordingInfo>,
    /// The unit of weights: `ns` of CPU time, or the name of the event.
    pub(crate) unit: String,
    pub(crate) weight: u64,
    pub(crate) functions: Vec<FunctionRow>,
    /// How many frames have a name, and why other frames have none; absent for folded stacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) names: Option<NameCoverage>,
    pub(crate) caveats: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) written: Option<String>,
    #[serde(skip)]
    pub(crate) quantity: Quantity,
}

/// The properties of a recording besides its stacks.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct RecordingInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kernel: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) event: String,
    pub(crate) span_ns: u64,
    pub(crate) samples: u64,
    /// The number of samples of the idle thread, which evenkeel leaves out. Absent without such samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_samples: Option<u64>,
    pub(crate) events: Vec<EventRow>,
    pub(crate) cpus: Vec<CpuRow>,
    pub(crate) threads: Vec<ThreadRow>,
    pub(crate) lost: LostRow,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct EventRow {
    pub(crate) event: String,
    pub(crate) samples: u64,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct CpuRow {
    pub(crate) cpu: u32,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
    /// The sampled time of this CPU, divided by the selected time; absent if the weights are not times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sampled_share: Option<f64>,
    /// The sampled time of this CPU's idle thread, divided by the selected time; absent if it has no samples.
    /// No other field counts this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_share: Option<f64>,
    pub(crate) top_thread: String,
    pub(crate) top_thread_share: f64,
    pub(crate) top_function: String,
    pub(crate) top_function_share: f64,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct ThreadRow {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
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

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct Inlined {
    pub(crate) function: String,
    pub(crate) own_share: f64,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
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
    let mut blocks = vec![Block::heading(format!("{}: {}", answer.file, answer.quantity.to_text(answer.weight)))];
    blocks.extend(summary(answer).map(Block::Note));
    if let Some(info) = &answer.recording {
        blocks.extend(head(answer, info));
    }
    blocks.push(functions(&answer.functions));
    if let Some(info) = &answer.recording {
        blocks.extend(cpus(info));
    }
    blocks.extend(answer.caveats.iter().map(|caveat| Block::Warning(sentence(caveat))));
    if let Some(file) = &answer.written {
        blocks.push(Block::row("written", file));
    }
    blocks
}

/// Text with the functions that took the most time, and the busiest thread's share of a CPU.
fn summary(answer: &Answer) -> Option<String> {
    let top = answer.functions.first().filter(|top| top.own_weight > 0)?;
    let mut words = format!("Most in one function: {}, {}.", short(&top.function), percent(top.own_share));
    let info = answer.recording.as_ref().filter(|info| info.span_ns > 0 && answer.quantity == Quantity::CpuTime);
    if let Some((info, thread)) = info.and_then(|info| Some((info, info.threads.iter().max_by_key(|row| row.weight)?)))
    {
        let used = percent(part(thread.weight, info.span_ns));
        words += &format!(
            " The busiest thread, {} ({}), used {used} of a CPU; at 100 % a thread limits the server.",
            thread.name, thread.tid
        );
    }
    Some(words)
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
        Quantity::OffCpuTime => Block::row("off-CPU intervals", format!("{} in {span}", info.samples)),
        _ => Block::row("samples", format!("{} of {} in {span}", info.samples, info.event)),
    });
    if let Some(count) = info.idle_samples {
        let words = format!("{count} more samples of the idle thread, which are left out");
        rows.push(Block::row("idle", words));
    }
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
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let most = |name: &str, part: f64| {
        if name.is_empty() { "-".to_owned() } else { format!("{} {}", short(name), percent(part)) }
    };
    let row = |cpu: &CpuRow| {
        let thread = most(&cpu.top_thread, cpu.top_thread_share);
        let function = most(&cpu.top_function, cpu.top_function_share);
        (
            cpu.cpu.to_string(),
            cpu.samples.to_string(),
            share(cpu.sampled_share),
            share(cpu.idle_share),
            thread,
            function,
        )
    };
    let rows = info.cpus.iter().take(CPUS_MAX).map(row);
    let table = if info.idle_samples.is_some() {
        let rows =
            rows.map(|(cpu, samples, busy, idle, thread, function)| [cpu, samples, busy, idle, thread, function]);
        Block::table(["CPU", "samples", "busy", "idle", "main thread", "main function"], rows.collect())
    } else {
        let rows = rows.map(|(cpu, samples, busy, _, thread, function)| [cpu, samples, busy, thread, function]);
        Block::table(["CPU", "samples", "busy", "main thread", "main function"], rows.collect())
    };
    let mut blocks = vec![Block::heading("CPUs"), table];
    if info.cpus.len() > CPUS_MAX {
        blocks.push(Block::Note(format!("{} more CPUs: see --json.", info.cpus.len() - CPUS_MAX)));
    }
    blocks
}

/// A name, shortened for a table.
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
