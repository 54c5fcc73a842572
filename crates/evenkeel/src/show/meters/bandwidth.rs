//! The pages of `measure bandwidth`: what was measured, and what was served.

use evenkeel_measure::Unit;
use evenkeel_measure::meters::bandwidth::{By, Report, Served, Way};
use evenkeel_measure::meters::udp::Between;

use crate::show::blocks::Block;
use crate::show::units::{percent_to, real_quantity};

const UNKNOWN: &str = "unknown";

pub(crate) fn blocks(report: &Report) -> Vec<Block> {
    let by = if report.by == By::Tcp { "TCP" } else { "UDP" };
    let told = |bits_per_s: Option<f64>| bits_per_s.map_or_else(|| UNKNOWN.to_owned(), bits);
    let way = if report.way == Way::ToServer { "to the server" } else { "from the server" };
    let mut blocks = vec![
        Block::row("server", report.to.to_string()),
        Block::row("streams", format!("{} by {by}, {way}", report.streams.len())),
        Block::row("arrived", told(report.arrived_bits_per_s)),
        Block::row("sent", told(report.sent_bits_per_s)),
    ];
    if let Some(cut) = report.cut_to_bits_per_s {
        let words = format!("The server sends no more than {} in all: --reverse-max there says how much.", bits(cut));
        blocks.push(Block::Note(words));
    }
    if report.between == Between::Loopback {
        let words = "This is loopback: the speed of memory and of the kernel, and of no network. Between hosts: `evenkeel measure bandwidth \
                     --serve ADDRESS` on the other, `evenkeel measure bandwidth ADDRESS` here.";
        blocks.insert(1, Block::Note(words.to_owned()));
    }
    if let Some(share) = report.lost_share {
        blocks.push(Block::row("lost", format!("{} of the packets", percent_to(2, share))));
    }
    let percent = |share: f64| percent_to(0, share);
    let server = report.server_cpu_share.map_or_else(|| UNKNOWN.to_owned(), percent);
    blocks.push(Block::row("CPU", format!("{} of one here, {server} of one at the server", percent(report.cpu_share))));
    if report.untold > 0 {
        let words =
            format!("Of {} streams the server did not tell what it counted: they are not in it.", report.untold);
        blocks.push(Block::Warning(words));
    }
    let not_sent: u64 = report.streams.iter().map(|stream| stream.not_sent).sum();
    if not_sent > 0 {
        blocks.push(Block::Warning(format!("The kernel here did not take {not_sent} packets.")));
    }
    blocks
}

/// `9.41 Gbit/s`: networks are told in bits, by thousands.
fn bits(per_s: f64) -> String {
    let told = real_quantity(per_s, Unit::PerS);
    told.strip_suffix("/s").map_or_else(|| told.clone(), |number| format!("{number}bit/s"))
}

/// What a server did.
pub(crate) fn served(report: &Served) -> Vec<Block> {
    let Served { streams, bytes, sent_bytes, refused, .. } = report;
    let streams = format!("{streams}, {bytes} bytes came, {sent_bytes} sent; {refused} connections refused");
    let mut blocks = vec![Block::row("TCP streams", streams)];
    blocks.extend(super::udp::served(&report.udp));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_read_as_people_say_them() {
        assert_eq!(bits(9.41e9), "9.41 Gbit/s");
        assert_eq!(bits(0.0), "0 bit/s");
        assert_eq!(bits(940_000_000.0), "940 Mbit/s");
    }
}
