//! The settings of the gaps meter.

use std::fmt;
use std::sync::Arc;

use evenkeel_sys::CpuSet;
use serde::Serialize;

use super::cause::Class;
use super::seen::Seen;
use super::tally::Keep;

/// How to watch: all the time, or in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The probe always watches, and uses each CPU completely.
    Spin,
    /// The probe watches for short moments, and uses less than a hundredth of one CPU in all.
    Sample,
}

/// How many CPUs to watch at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All CPUs at once. Only this order can recognise a pause of the whole machine.
    AllAtOnce,
    /// One CPU after another, each for an equal share of the time.
    OneAtATime,
}

/// The settings of the gaps meter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The CPUs. None means all CPUs that this process may use.
    pub cpus: Option<CpuSet>,
    /// The total time, in nanoseconds: up to ten days.
    pub length_ns: u64,
    /// The shortest gap to report, in nanoseconds: 500 or more.
    pub threshold_ns: u64,
    /// How to watch: all the time, or in samples.
    pub mode: Mode,
    /// How many CPUs to watch at a time.
    pub order: Order,
    /// How the probes are scheduled.
    pub class: Class,
    /// Which gaps to list individually.
    pub keep: Keep,
    /// Receives each window of a sampling probe.
    pub on_window: WindowSink,
}

/// A function that receives each window of a sampling probe. It runs in the probe's thread, so it must be quick.
#[derive(Clone, Default)]
pub struct WindowSink(Option<Arc<dyn Fn(Seen) + Send + Sync>>);

impl WindowSink {
    /// A sink that passes each window to this function.
    pub fn with(function: impl Fn(Seen) + Send + Sync + 'static) -> WindowSink {
        WindowSink(Some(Arc::new(function)))
    }

    pub(super) fn function(&self) -> &(dyn Fn(Seen) + Sync) {
        match &self.0 {
            Some(function) => function.as_ref(),
            None => &|_| {},
        }
    }
}

impl fmt::Debug for WindowSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "WindowSink(a function)" } else { "WindowSink(none)" })
    }
}
