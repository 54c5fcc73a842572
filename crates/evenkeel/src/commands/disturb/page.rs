//! The parts that the pages of all kinds share.

use crate::view::Block;

pub(super) fn went_offline(cpu: usize) -> Block {
    Block::Warning(format!("CPU {cpu} went offline; its disturbance ended there."))
}

pub(super) fn count(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".to_owned(), |count| count.to_string())
}
