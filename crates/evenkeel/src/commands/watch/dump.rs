//! Asks a running flight recorder for a dump.

use std::path::Path;
use std::time::Duration;

use evenkeel_watch::recorder;
use serde::Serialize;

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::show::Out;

/// How long to wait for the dump.
/// The recorder checks for requests about ten times per second, and writes a dump in less than a second.
const WAIT: Duration = Duration::from_secs(10);

/// The dump that was written.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct DumpAnswer {
    /// The file of the dump.
    dump: String,
}

pub(super) fn run(dir: &Path, out: &Out) -> Outcome {
    let dump = recorder::ask_in(dir, "asked by evenkeel watch --dump", WAIT)
        .map_err(|why| Failure::text(exit::NOT_POSSIBLE, format_args!("get a dump in {}", dir.display()), why))?;
    let dump = dump.display().to_string();
    out.answer(&DumpAnswer { dump: dump.clone() }, || {
        format!("{dump}\nevenkeel watch --replay {dump}\nevenkeel profile switches {dump}\n")
    })?;
    Ok(exit::WELL)
}
