//! The system that this crate is compiled for.

/// Whether this is Linux. On other systems the runtime library has clocks, locks and jobs from the standard library.
/// All other features are refused there with `EOPNOTSUPP`.
pub const IS_LINUX: bool = cfg!(target_os = "linux");
