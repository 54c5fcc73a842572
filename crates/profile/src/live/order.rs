//! `in_order`: sorts the records of one read of all CPUs' rings.
//! Each ring has its own order, and the recorder reads one ring after another.

use crate::perf::layout::Layout;
use crate::perf::record::{self, Head, Record, kind};

/// Sorts records of threads and mappings by time and puts them first. All other records follow in their order.
/// A thread's new name may be in the ring of its CPU before the parent's ring has the thread's creation.
/// Without sorting, the thread would get its parent's name.
pub(super) fn in_order<'b>(bytes: &'b [u8], layout: &Layout) -> (Vec<Record<'b>>, Vec<&'b [u8]>) {
    let is_about_lives = |bytes: &&[u8]| {
        let kinds = [kind::COMM, kind::FORK, kind::EXIT, kind::MMAP, kind::MMAP2];
        Head::parse(bytes, 0).is_ok_and(|head| kinds.contains(&head.kind))
    };
    let (lives, others): (Vec<&[u8]>, Vec<&[u8]>) = records(bytes).partition(is_about_lives);
    let mut lives: Vec<(Option<Record<'_>>, &[u8])> =
        lives.into_iter().map(|bytes| (record::parse(bytes, layout, 0).ok(), bytes)).collect();
    lives.sort_by_key(|(record, _)| record.as_ref().map_or(0, |record| record.id.at_ns));
    let all = lives.iter().map(|(_, bytes)| *bytes).chain(others).collect();
    (lives.into_iter().filter_map(|(record, _)| record).collect(), all)
}

/// Iterates over the records in these bytes, up to the first incomplete record.
fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let head = Head::parse(rest, 0).ok()?;
        let (record, after) = rest.split_at_checked(head.length)?;
        rest = after;
        Some(record)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::layout::sample;
    use crate::perf::record::What;
    use crate::perf::write;

    #[test]
    fn a_name_on_one_cpu_comes_behind_the_making_on_another() {
        /// `sample_id_all`: each record ends with its thread and time.
        const ID_ALL: u64 = 1 << 18;
        let layout = Layout { sample_type: sample::TID | sample::TIME, flags: ID_ALL, ..Layout::default() };
        let at = |kind: u32, body: &[u32], at_ns: u64| {
            let body: Vec<u8> = body.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let mut bytes = write::record(kind, 0, &body, &layout).unwrap();
            let time_at = bytes.len() - 8;
            bytes[time_at..].copy_from_slice(&at_ns.to_ne_bytes());
            bytes
        };
        let named = at(kind::COMM, &[7, 9, u32::from_ne_bytes(*b"late"), 0], 20);
        let other = at(kind::LOST, &[0; 4], 5);
        let forked = at(kind::FORK, &[7, 7, 9, 7, 0, 0], 10);
        let rings = [named.clone(), other.clone(), forked.clone()].concat();
        let (lives, all) = in_order(&rings, &layout);
        assert!(matches!(
            lives[..],
            [Record { what: What::Forked { .. }, .. }, Record { what: What::Named { .. }, .. }]
        ));
        assert_eq!(all, [&forked[..], &named, &other]);
        let (lives, all) = in_order(&rings[..rings.len() - 1], &layout);
        assert_eq!((lives.len(), all.len()), (1, 2), "what is cut off is left out");
    }
}
