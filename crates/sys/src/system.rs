//! Which system this is compiled for.

/// Whether this is Linux. Elsewhere the runtime library has clocks, locks and jobs from the standard library, and everything else is refused
/// with `EOPNOTSUPP`.
pub const IS_LINUX: bool = cfg!(target_os = "linux");
