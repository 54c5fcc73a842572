//! `Paths`: the functions of each stack, and the function where slow ticks spend their additional time.
//! Growth is summed by function, from the outermost inwards, because two samples in one loop rarely have the same instruction.

use std::collections::{BTreeMap, HashMap};

use super::account::{Account, Sums};
use super::tick::Spent;
use crate::names::Names;
use crate::recording::Recording;
use crate::stack::{Frame, FrameId, StackId};

/// If a function has at least this share of the difference, the search continues in the functions that it calls.
/// The last function with this share is the place.
const MOST: f64 = 0.6;
/// System libraries. If a tick waits inside such a library, the place is the library's caller.
const SYSTEMS: [&str; 9] =
    ["libc.so", "libc-", "libpthread", "ld-", "ld.so", "vdso", "libstdc++", "libm.so", "libgcc_s"];
/// Prefixes of library functions. If a tick waits inside such a function, the place is the function's caller.
const LIBRARYS: [&str; 8] =
    ["std::", "core::", "alloc::", "parking_lot", "lock_api", "__", "pthread_", "tokio::runtime"];

/// A function, and whether the function belongs to the program itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Function {
    name: String,
    is_programs: bool,
}

/// The functions of stacks.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    functions: Vec<Function>,
    /// The functions of each stack, outermost first.
    by_stack: BTreeMap<StackId, Vec<usize>>,
}

/// A place in the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The innermost function of the program's own code, or else the innermost function of any code. None if unknown.
    pub function: Option<String>,
    /// The caller of that function, if known.
    pub from: Option<String>,
}

impl Paths {
    /// The functions of all stacks in these accounts.
    pub fn from_accounts(recording: &Recording, names: &Names, accounts: &[Account]) -> Paths {
        let mut paths = Paths::default();
        let mut numbers: HashMap<Function, usize> = HashMap::new();
        for stack in accounts.iter().flat_map(|account| account.sums.keys()).filter_map(|(_, stack)| *stack) {
            if paths.by_stack.contains_key(&stack) {
                continue;
            }
            let frames: Vec<FrameId> = recording.stacks.innermost_first(stack).collect();
            let functions = frames.into_iter().rev().flat_map(|frame| functions(recording, names, frame));
            let path = functions.map(|function| {
                let next = numbers.len();
                *numbers.entry(function).or_insert(next)
            });
            let path = path.collect();
            paths.by_stack.insert(stack, path);
        }
        let mut functions: Vec<(usize, Function)> = numbers.into_iter().map(|(function, at)| (at, function)).collect();
        functions.sort_unstable_by_key(|(at, _)| *at);
        paths.functions = functions.into_iter().map(|(_, function)| function).collect();
        paths
    }

    /// The function in which one kind of time grows most.
    /// The search goes from the outermost function inwards, as long as one function has most of the growth.
    pub fn place(&self, spent: Spent, slow: &Sums, rest: &Sums) -> Place {
        let mut grown: BTreeMap<StackId, i64> = BTreeMap::new();
        let mut add = |sums: &Sums, sign: i64| {
            for ((kind, stack), ns) in sums {
                if let Some(stack) = stack.filter(|_| kind.kind() == spent.kind()) {
                    let sum = grown.entry(stack).or_default();
                    *sum = sum.saturating_add(ns.cast_signed().saturating_mul(sign));
                }
            }
        };
        add(slow, 1);
        add(rest, -1);
        let path = |stack: &StackId| self.by_stack.get(stack).map_or(&[][..], Vec::as_slice);
        let mut paths: Vec<(&[usize], i64)> = grown.iter().map(|(stack, ns)| (path(stack), *ns)).collect();
        let all: i64 = paths.iter().fold(0, |sum, (_, ns)| sum.saturating_add(*ns));
        let mut chain: Vec<usize> = Vec::new();
        loop {
            let depth = chain.len();
            let mut next: BTreeMap<usize, i64> = BTreeMap::new();
            for (path, ns) in &paths {
                if let Some(function) = path.get(depth) {
                    let sum = next.entry(*function).or_default();
                    *sum = sum.saturating_add(*ns);
                }
            }
            let most = next.into_iter().max_by_key(|(_, ns)| *ns);
            let Some((function, _)) = most.filter(|(_, ns)| *ns > 0 && *ns as f64 >= all as f64 * MOST) else { break };
            paths.retain(|(path, _)| path.get(depth) == Some(&function));
            chain.push(function);
        }
        self.place_of(&chain)
    }

    fn place_of(&self, chain: &[usize]) -> Place {
        let chain: Vec<&Function> = chain.iter().filter_map(|at| self.functions.get(*at)).collect();
        let Some(at) = chain.iter().rposition(|function| function.is_programs) else {
            return Place { function: chain.last().map(|function| function.name.clone()), from: None };
        };
        let from = chain[..at].iter().rev().find(|from| from.is_programs && from.name != chain[at].name);
        Place { function: Some(chain[at].name.clone()), from: from.map(|from| from.name.clone()) }
    }
}

/// The functions of a frame, outermost first.
fn functions(recording: &Recording, names: &Names, frame: FrameId) -> Vec<Function> {
    let named = names.get(frame);
    if named.functions.is_empty() {
        return vec![Function { name: named.in_place.clone(), is_programs: false }];
    }
    let is_programs = !named.is_kernel && is_in_program(recording, frame);
    let of = |function: &crate::names::Function| Function {
        name: function.name.clone(),
        is_programs: is_programs && !is_of_library(&function.name),
    };
    named.functions.iter().map(of).collect()
}

/// Whether a frame is in the program's own code.
fn is_in_program(recording: &Recording, frame: FrameId) -> bool {
    let module = match recording.stacks.frames().get(frame.place()) {
        Some(Frame::InFile { module, .. }) => Some(*module),
        Some(Frame::Named { module, is_kernel: false, .. }) => *module,
        Some(Frame::Anonymous { .. }) => None,
        _ => return false,
    };
    let name = module.and_then(|module| recording.modules.get(module)).map_or("", |module| module.name());
    let name = name.trim_start_matches('[');
    !SYSTEMS.iter().any(|systems| name.starts_with(systems))
}

fn is_of_library(name: &str) -> bool {
    let name = name.trim_start_matches(['<', '&']);
    LIBRARYS.iter().any(|of| name.starts_with(of))
}
