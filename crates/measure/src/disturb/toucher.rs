//! `Toucher`: a thread that takes new memory and touches each page once, at a set rate. Each touch is a page fault.

use evenkeel_sys::clock;
use evenkeel_sys::mapping::{Mapping, Pages};

use crate::error::MeterError;

/// The page size of most machines. With larger pages there are fewer faults.
const PAGE_BYTES: usize = 4096;
/// Memory is taken in chunks of this size. Each chunk is a separate mapping.
/// An allocator may return memory that was touched before, and then the kernel has no fault to serve.
const PIECE_PAGES: usize = 256;
/// The maximum number of chunks to hold at a time.
const HELD_PIECES: usize = 64;
/// The maximum rate. No machine serves more faults.
const FAULTS_PER_S_MAX: u64 = 10_000_000;

/// How to touch.
#[derive(Clone, Copy, Debug)]
pub struct Toucher {
    /// The number of pages per second.
    pub pages_per_s: u64,
    /// When to end, on the monotonic clock in nanoseconds.
    pub until_ns: u64,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The number of pages that were touched for the first time.
    pub pages: u64,
    /// How long the run took, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Toucher {
    /// Touches pages on the calling thread until the time is over. The thread holds at most 64 MiB.
    ///
    /// # Errors
    /// Fails if the request is out of bounds, or the kernel has no memory.
    pub fn touch(&self) -> Result<Touched, MeterError> {
        if !(1..=FAULTS_PER_S_MAX).contains(&self.pages_per_s) {
            let why = format!("{} pages a second are not within 1 to {FAULTS_PER_S_MAX}", self.pages_per_s);
            return Err(MeterError::wrong_use("touch fresh memory", why));
        }
        let start_ns = clock::monotonic_ns();
        let due_ns = |pages: u64| {
            let ns = u128::from(pages) * 1_000_000_000 / u128::from(self.pages_per_s);
            start_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
        };
        let (mut pages, mut held) = (0, Vec::with_capacity(HELD_PIECES));
        while due_ns(pages) < self.until_ns {
            if held.len() == HELD_PIECES {
                held.clear();
            }
            clock::sleep_until_ns(due_ns(pages));
            held.push(piece()?);
            pages += PIECE_PAGES as u64;
        }
        Ok(Touched { pages, elapsed_ns: clock::monotonic_ns() - start_ns })
    }
}

/// A chunk of memory whose pages have all been touched.
fn piece() -> Result<Mapping, MeterError> {
    let refused = |errno| MeterError::refused("take fresh memory", errno);
    let mut piece = Mapping::new(PIECE_PAGES * PAGE_BYTES, Pages::Small).map_err(refused)?;
    for page in piece.words_mut().chunks_mut(PAGE_BYTES / size_of::<u64>()) {
        if let Some(word) = page.first_mut() {
            *word = std::hint::black_box(1);
        }
    }
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused() {
        let wrong = Toucher { pages_per_s: 0, until_ns: 0 }.touch().unwrap_err();
        assert_eq!(wrong.to_string(), "touch fresh memory: 0 pages a second are not within 1 to 10000000");
        let touched = (1..=5).map(|nth| {
            // If the machine stalls before the first page, no time is left to touch pages. So try a longer time.
            let until_ns = clock::monotonic_ns() + nth * 5_000_000;
            Toucher { pages_per_s: 256_000, until_ns }.touch().unwrap()
        });
        assert!(touched.into_iter().any(|touched| touched.pages >= 256));
    }
}
