//! The page of `measure disk`.

use evenkeel_measure::Samples;
use evenkeel_measure::meters::disk::{Report, Shared, Volume};

use crate::show::blocks::Block;
use crate::show::units::quantity;

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::heading("Synchronous writes")];
    blocks.push(Block::row("data", volume(report.data.as_ref())));
    blocks.push(Block::row("boot", volume(report.boot.as_ref())));
    let shared = match report.shared {
        Shared::FileSystem => {
            "the same file system: what the system logs and what the server writes wait for each other"
        }
        Shared::Disk => "file systems of their own on the same disk",
        Shared::Nothing => "nothing",
        Shared::Unknown => "unknown: the disks under them could not be told",
    };
    blocks.push(Block::row("they share", shared));
    let header = ["way", "writes", "p50", "p90", "p99", "longest"];
    let ways = [("O_DSYNC write", &report.sync_write), ("write, fdatasync", &report.write_and_sync)];
    blocks.push(Block::table(header, ways.into_iter().map(|(name, samples)| row(name, samples)).collect()));
    if report.data.as_ref().is_some_and(Volume::is_memory) {
        blocks.push(Block::Warning("The directory is in memory: no disk was written to.".to_owned()));
    }
    let lost = report.lost();
    if lost.count > 0 {
        let why = lost.why.as_deref().unwrap_or("unknown why");
        blocks.push(Block::Warning(format!("not measured: {} of 2 ways ({why})", lost.count)));
    }
    blocks.extend(ways.into_iter().map(|(_, samples)| Block::Histogram(samples.clone())));
    blocks
}

fn volume(volume: Option<&Volume>) -> String {
    let Some(volume) = volume else { return "unknown".to_owned() };
    let disks = if volume.disks.is_empty() { "no disk that is known".to_owned() } else { volume.disks.join(", ") };
    format!("{} ({} at {}, on {disks})", volume.source, volume.file_system, volume.mount_point)
}

fn row(name: &str, samples: &Samples) -> [String; 6] {
    let Some(seen) = samples.histogram.summary() else {
        return [name, "0", "none", "none", "none", "none"].map(str::to_owned);
    };
    let [p50, p90, p99, max] = [seen.p50, seen.p90, seen.p99, seen.max].map(|value| quantity(value, samples.unit));
    [name.to_owned(), seen.count.to_string(), p50, p90, p99, max]
}
