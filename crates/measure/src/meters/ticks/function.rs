//! `TickFunction`: a function that the server enters once per tick, as the user names it. The kernel records its entries (a uprobe).

use std::sync::Arc;

use evenkeel_sys::perf_probe::Probe;

use super::watcher::ProbedFunction;
use crate::MeterError;

/// Finds a function by name in the programs of these processes.
pub type Find = dyn Fn(&str, &[u32]) -> Result<Probe, MeterError> + Send + Sync;

/// Parses the name of a function as the user typed it. The error text describes the expected form.
pub type ReadFunction = fn(&str) -> Result<TickFunction, String>;

/// A function that the server enters once per tick, and how to find its code.
#[derive(Clone)]
pub struct TickFunction {
    /// The function's name, as the user wrote it.
    pub name: String,
    /// Finds the function, because this module does not read symbols.
    pub find: Arc<Find>,
}

impl TickFunction {
    /// The function with the probe at its entry in these processes' programs.
    ///
    /// # Errors
    /// Fails if the programs do not have this function, or have several functions of this name.
    pub fn probed(&self, pids: &[u32]) -> Result<ProbedFunction, MeterError> {
        Ok(ProbedFunction { name: self.name.clone(), probe: (self.find)(&self.name, pids)? })
    }
}

impl std::fmt::Debug for TickFunction {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("TickFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for TickFunction {
    fn eq(&self, other: &TickFunction) -> bool {
        self.name == other.name
    }
}
