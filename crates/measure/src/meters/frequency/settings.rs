//! The settings of the frequency meter.

/// The settings of the frequency meter.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long to measure each CPU in each state, in nanoseconds.
    pub each_ns: u64,
    /// How many pairs of CPUs to measure together.
    pub pairs_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { each_ns: 300_000_000, pairs_max: 8 }
    }
}
