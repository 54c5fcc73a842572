//! `evenkeel measure disk`.

use std::path::PathBuf;

use evenkeel_measure::card::{Better, CardLine};
use evenkeel_measure::meters::disk::{self, Report, Shared, Volume};
use evenkeel_measure::{Samples, Unit};

use crate::commands::measure::card::{CardTurn, percentiles, value};
use crate::commands::measure::context::Context;
use crate::commands::measure::meter::Meter;
use crate::failure::Failure;
use crate::show::finding::{A_TICK, Finding, Grade, TICK_NS};
use crate::show::units::{quantity, real_quantity};
use crate::view::Block;

/// Measure small synchronous writes, and whether boot and data share a volume
///
/// Writes up to 2000 blocks with O_DSYNC and with fdatasync, to an unnamed file that disappears when the meter ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  evenkeel measure disk --directory /srv/game")]
pub(crate) struct Args {
    /// The directory of the data
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    directory: PathBuf,
    /// Bytes per write
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    block: u32,
    /// Maximum duration of each of the two write methods, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = crate::times::whole_ms(10..=60_000))]
    each: u64,
}

impl Meter for Args {
    const NAME: &'static str = "disk";
    const TITLE: &'static str = "Synchronous writes";
    const CARD: Option<CardTurn> = Some(CardTurn {
        seconds: 1.0,
        run: |pace, watch| {
            let settings = disk::Settings {
                each_ns: pace.choose(500_000_000, 250_000_000),
                writes_max: 500,
                ..disk::Settings::default()
            };
            Ok(lines(&disk::run(&settings, watch)?))
        },
        finding: |lines| write(value(lines, "disk_sync_write_ns_p50"), value(lines, "disk_sync_write_ns_p99")),
    });
    type Report = Report;

    fn measure(&self, context: &Context<'_>) -> Result<Report, Failure> {
        let settings = disk::Settings {
            directory: self.directory.clone(),
            block_bytes: self.block as usize,
            each_ns: self.each * 1_000_000,
            ..disk::Settings::default()
        };
        context.measure(|watch| disk::run(&settings, watch))
    }

    fn finding(report: &Report) -> Option<Finding> {
        if report.data.as_ref().is_some_and(Volume::is_memory) {
            return Some(Finding::unknown("the directory is in memory, so no disk was measured"));
        }
        let at = |q| report.sync_write.histogram.quantile(q).map(|ns| ns as f64);
        Some(write(at(0.5), at(0.99)))
    }

    fn page(report: &Report) -> Vec<Block> {
        let mut blocks = vec![Block::heading("Synchronous writes")];
        blocks.push(Block::row("data", volume(report.data.as_ref())));
        blocks.push(Block::row("boot", volume(report.boot.as_ref())));
        let shared = match report.shared {
            Shared::FileSystem => "the same file system: writes of the system log and of the server delay each other",
            Shared::Disk => "the same disk, with separate file systems",
            Shared::Nothing => "nothing",
            Shared::Unknown => "unknown: evenkeel could not find their disks",
        };
        blocks.push(Block::row("they share", shared));
        let header = ["way", "writes", "p50", "p90", "p99", "longest"];
        let ways = [("O_DSYNC write", &report.sync_write), ("write, fdatasync", &report.write_and_sync)];
        blocks.push(Block::table(header, ways.into_iter().map(|(name, samples)| row(name, samples)).collect()));
        if report.data.as_ref().is_some_and(Volume::is_memory) {
            blocks.push(Block::Warning("The directory is in memory, so nothing was written to a disk.".to_owned()));
        }
        let lost = report.lost();
        if lost.count > 0 {
            let why = lost.why.as_deref().unwrap_or("unknown why");
            blocks.push(Block::Warning(format!("not measured: {} of 2 ways ({why})", lost.count)));
        }
        blocks.extend(ways.into_iter().map(|(_, samples)| Block::Histogram(samples.clone())));
        blocks
    }
}

fn write(p50_ns: Option<f64>, p99_ns: Option<f64>) -> Finding {
    let (Some(p50), Some(p99)) = (p50_ns, p99_ns) else { return Finding::unknown("no write was timed") };
    let [typical, slow] = [p50, p99].map(|ns| real_quantity(ns, Unit::Ns));
    let says = format!("a synchronous write takes {typical} (p50) and {slow} (p99); {A_TICK}");
    Finding::new(Grade::of_low(p99, TICK_NS / 10.0, TICK_NS), says)
}

fn volume(volume: Option<&Volume>) -> String {
    let Some(volume) = volume else { return "unknown".to_owned() };
    let disks = if volume.disks.is_empty() { "an unknown disk".to_owned() } else { volume.disks.join(", ") };
    format!("{} ({} at {}, on {disks})", volume.source, volume.file_system, volume.mount_point)
}

fn row(name: &str, samples: &Samples) -> [String; 6] {
    let Some(seen) = samples.histogram.summary() else {
        return [name, "0", "none", "none", "none", "none"].map(str::to_owned);
    };
    let [p50, p90, p99, max] = [seen.p50, seen.p90, seen.p99, seen.max].map(|value| quantity(value, samples.unit));
    [name.to_owned(), seen.count.to_string(), p50, p90, p99, max]
}

fn lines(report: &Report) -> Vec<CardLine> {
    percentiles("disk_sync_write_ns", "a write of 4 KiB", Better::Lower, &report.sync_write)
        .into_iter()
        .flatten()
        .collect()
}
