//! `Filled`: the functions and stacks that ran on a CPU, and the share of interrupts.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::busy;
use crate::fold::{Base, Folded};
use crate::names::Names;
use crate::recording::{Recording, Sample};
use crate::stack::StackId;

/// The maximum number of functions and of stacks in the report.
const FUNCTIONS_MAX: usize = 10;
const STACKS_MAX: usize = 5;

/// Functions that do the rest of an interrupt's work after the interrupt itself, such as packets and timers.
const SOFTIRQS: &[&str] = &["handle_softirqs", "__do_softirq", "do_softirq", "net_rx_action", "run_ksoftirqd"];
/// Functions that handle an interrupt itself, on x86 and on ARM.
const INTERRUPTS: &[&str] = &[
    "common_interrupt",
    "__common_interrupt",
    "asm_common_interrupt",
    "handle_irq_event",
    "__handle_irq_event_percpu",
    "handle_edge_irq",
    "handle_fasteoi_irq",
    "gic_handle_irq",
    "el0_interrupt",
    "el1_interrupt",
];
/// Prefixes of functions for interrupts from other CPUs and the local timer.
const VECTORS: [&str; 2] = ["sysvec_", "asm_sysvec_"];

/// The code that a CPU ran. Shares are of the CPU's busy time, from 0 to 1, without samples of the idle thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Filled {
    /// The number of the CPU.
    pub cpu: u32,
    /// The number of samples.
    pub samples: u64,
    /// The share of kernel code: system calls and interrupts together.
    pub kernel_share: f64,
    /// The share in softirqs, whichever thread was interrupted. None if the kernel's functions have no names.
    pub softirq_share: Option<f64>,
    /// The share in interrupts. None if the kernel's functions have no names.
    pub irq_share: Option<f64>,
    /// The functions with most own time, most first.
    pub functions: Vec<Place>,
    /// The most frequent stacks, most first.
    pub stacks: Vec<Path>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// The function's name, or a placeholder.
    pub name: String,
    /// Whether the function is a function of the kernel.
    pub is_kernel: bool,
    /// The share of the function's own code.
    pub self_share: f64,
    /// The share of the function including its callees.
    pub total_share: f64,
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Path {
    /// The stack from the thread's name and the outermost function on, joined by `;`.
    pub stack: String,
    /// The share of the samples with this stack.
    pub share: f64,
}

/// Summarizes the samples on one CPU. `None` if the CPU has no samples.
pub(super) fn find_filled(recording: &Recording, names: &Names, cpu: u32) -> Option<Filled> {
    let samples: Vec<&Sample> = busy::on_cpu(recording).filter(|sample| sample.cpu == cpu && sample.tid != 0).collect();
    let total = samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.weight)).max(1);
    if samples.is_empty() {
        return None;
    }
    let share = |weight: u64| (weight as f64 / total as f64).min(1.0);
    let mut stacks: HashMap<StackId, u64> = HashMap::new();
    for sample in &samples {
        let sum = stacks.entry(sample.stack).or_default();
        *sum = sum.saturating_add(sample.weight);
    }
    let kinds = Kinds::count(recording, names, &stacks);
    let folded = Folded::from_samples(recording, names, Base::Thread, samples.iter().copied());
    let mut lines: Vec<(String, u64)> = folded.lines.into_iter().collect();
    lines.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    Some(Filled {
        cpu,
        samples: samples.len() as u64,
        kernel_share: share(kinds.kernel),
        softirq_share: kinds.is_named.then(|| share(kinds.softirq)),
        irq_share: kinds.is_named.then(|| share(kinds.irq)),
        functions: functions(recording, names, &stacks, &share),
        stacks: lines
            .into_iter()
            .take(STACKS_MAX)
            .map(|(stack, weight)| Path { stack, share: share(weight) })
            .collect(),
    })
}

#[derive(Debug, Default)]
struct Kinds {
    kernel: u64,
    softirq: u64,
    irq: u64,
    /// Whether the kernel's functions have names. Also true if the samples contain no kernel function.
    is_named: bool,
}

impl Kinds {
    fn count(recording: &Recording, names: &Names, stacks: &HashMap<StackId, u64>) -> Kinds {
        let mut kinds = Kinds::default();
        let (mut has_kernel, mut has_name) = (false, false);
        for (stack, weight) in stacks {
            let mut frames = recording.stacks.innermost_first(*stack).map(|frame| names.get(frame)).peekable();
            if frames.peek().is_some_and(|frame| frame.is_kernel) {
                kinds.kernel = kinds.kernel.saturating_add(*weight);
            }
            let kernel = frames.take_while(|frame| frame.is_kernel).inspect(|frame| {
                has_kernel = true;
                has_name |= !frame.functions.is_empty();
            });
            let found = kernel.flat_map(|frame| frame.functions.iter().rev()).find_map(|function| {
                let name = function.name.as_str();
                let is_irq = INTERRUPTS.contains(&name) || VECTORS.iter().any(|vector| name.starts_with(vector));
                if SOFTIRQS.contains(&name) { Some(true) } else { is_irq.then_some(false) }
            });
            match found {
                Some(true) => kinds.softirq = kinds.softirq.saturating_add(*weight),
                Some(false) => kinds.irq = kinds.irq.saturating_add(*weight),
                None => {}
            }
        }
        kinds.is_named = has_name || !has_kernel;
        kinds
    }
}

/// A function's name, and whether the function is part of the kernel.
type Function<'a> = (&'a str, bool);
/// The weight of a function's own code, and its weight including callees.
type Sums = (u64, u64);

fn functions(
    recording: &Recording,
    names: &Names,
    stacks: &HashMap<StackId, u64>,
    share: &impl Fn(u64) -> f64,
) -> Vec<Place> {
    let mut sums: HashMap<Function<'_>, Sums> = HashMap::new();
    for (stack, weight) in stacks {
        let mut on_stack: BTreeSet<Function<'_>> = BTreeSet::new();
        for (depth, frame) in recording.stacks.innermost_first(*stack).enumerate() {
            let named = names.get(frame);
            // If code is inlined, an address has several names. The last name is the function that contains the code.
            if depth == 0 {
                let innermost =
                    named.functions.last().map_or(named.in_place.as_str(), |function| function.name.as_str());
                let sum = &mut sums.entry((innermost, named.is_kernel)).or_default().0;
                *sum = sum.saturating_add(*weight);
            }
            on_stack.extend(named.functions.iter().map(|function| (function.name.as_str(), named.is_kernel)));
            if named.functions.is_empty() {
                on_stack.insert((named.in_place.as_str(), named.is_kernel));
            }
        }
        for function in on_stack {
            let sum = &mut sums.entry(function).or_default().1;
            *sum = sum.saturating_add(*weight);
        }
    }
    let mut places: Vec<(Function<'_>, Sums)> = sums.into_iter().filter(|(_, (own, _))| *own > 0).collect();
    places.sort_by_key(|(function, (own, _))| (std::cmp::Reverse(*own), *function));
    let place = |((name, is_kernel), (own, total)): (Function<'_>, Sums)| Place {
        name: name.to_owned(),
        is_kernel,
        self_share: share(own),
        total_share: share(total),
    };
    places.into_iter().take(FUNCTIONS_MAX).map(place).collect()
}
