//! `evenkeel prove compare`: compares the reports of several machines.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::user_file;
use evenkeel_trial::saved::{BYTES_MAX, RunReport, SavedError, across};

use crate::exit;
use crate::failure::{Failure, Outcome};
use crate::report;
use crate::show::Out;
use crate::view;

/// The allowed numbers of reports. One report can't be compared, and a page with more than 64 would be hard to read.
const REPORTS: std::ops::RangeInclusive<usize> = 2..=64;

/// Compare the reports of several machines
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel prove compare host-a/report.json host-b/report.json --report all")]
pub(crate) struct Args {
    /// The reports (report.json), 2 to 64
    #[arg(value_name = "REPORT", required = true)]
    files: Vec<PathBuf>,
    /// Write compare.html into DIR
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Reads the reports, and prints their combined result for each setting.
pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let Args { files, report: folder } = args;
    if !REPORTS.contains(&files.len()) {
        let cause = format!("{} given, but {} to {} are allowed", files.len(), REPORTS.start(), REPORTS.end());
        return Err(Failure::text(exit::WRONG_USE, "compare reports", cause));
    }
    let named = |file: &PathBuf| Ok((file.display().to_string(), read(file)?));
    let reports = files.iter().map(named).collect::<Result<Vec<_>, Failure>>()?;
    refuse_twice(&reports)?;
    let answer = across(&reports);
    let mut text = view::terminal::text(&report::across::blocks(&answer));
    if let Some(folder) = folder {
        let page = report::write_page(folder, "compare.html", &report::across::page(&answer))?;
        text += &format!("\nreport: {}\n", page.display());
    }
    out.answer(&answer, || text)?;
    Ok(exit::WELL)
}

/// Refuses two files with the same run, because they would look like two machines that agree.
fn refuse_twice(reports: &[(String, RunReport)]) -> Result<(), Failure> {
    for (at, (name, saved)) in reports.iter().enumerate() {
        let windows: Vec<_> =
            saved.trials.iter().map(|entry| &entry.report.windows).filter(|them| !them.is_empty()).collect();
        let has = |other: &RunReport| {
            windows.iter().all(|own| other.trials.iter().any(|entry| entry.report.windows == **own))
        };
        let twice = reports[..at].iter().find(|(_, other)| !windows.is_empty() && has(other));
        if let Some((before, _)) = twice {
            let cause = format!("{before} and {name} contain the same run, so it would count as two machines");
            return Err(Failure::text(exit::WRONG_USE, "compare reports", cause).hint("name each run once"));
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<RunReport, Failure> {
    let tried = || format!("read the report {}", file.display());
    let hint = "`evenkeel prove --report DIR` writes DIR/report.json";
    let text = user_file::read_text(file, BYTES_MAX as u64)
        .map_err(|error| Failure::user_file(tried(), &error).or_hint(hint))?;
    RunReport::parse(&text).map_err(|error: SavedError| Failure::text(exit::WRONG_USE, tried(), error).hint(hint))
}
