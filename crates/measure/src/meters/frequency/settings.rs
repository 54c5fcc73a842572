//! How to measure.

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long each CPU is watched each way, in nanoseconds.
    pub each_ns: u64,
    /// How many pairs of CPUs are put against each other.
    pub pairs_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { each_ns: 300_000_000, pairs_max: 8 }
    }
}
