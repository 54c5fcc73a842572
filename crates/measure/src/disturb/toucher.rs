//! `Toucher`: a thread that takes fresh memory and touches each page of it once, so many a second: a page fault each.

use evenkeel_sys::clock;

use crate::error::MeterError;

/// The size of a page on the machines that we know; where pages are larger there are fewer faults.
const PAGE_BYTES: usize = 4096;
/// Memory is taken in pieces so small that no huge page fits, and so large that the allocator gets each from the kernel anew.
const PIECE_PAGES: usize = 256;
/// The most memory that is held at a time.
const HELD_PIECES: usize = 64;
/// So many faults a second are more than any machine serves.
const FAULTS_PER_S_MAX: u64 = 10_000_000;

/// How to touch.
#[derive(Clone, Copy, Debug)]
pub struct Toucher {
    /// Pages a second.
    pub pages_per_s: u64,
    /// When to end, on the monotonic clock.
    pub until_ns: u64,
}

/// What it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Pages that were touched for the first time.
    pub pages: u64,
    /// For how long, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Toucher {
    /// Touches pages until the time is over, on the calling thread; 64 MiB are held at most.
    ///
    /// # Errors
    /// If more is asked than can be meant.
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
            held.push(piece());
            pages += PIECE_PAGES as u64;
        }
        Ok(Touched { pages, elapsed_ns: clock::monotonic_ns() - start_ns })
    }
}

/// Memory of which each page was touched.
fn piece() -> Vec<u8> {
    let mut piece = vec![0_u8; PIECE_PAGES * PAGE_BYTES];
    for page in piece.chunks_mut(PAGE_BYTES) {
        if let Some(byte) = page.first_mut() {
            *byte = std::hint::black_box(1);
        }
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_meant_is_refused() {
        let wrong = Toucher { pages_per_s: 0, until_ns: 0 }.touch().unwrap_err();
        assert_eq!(wrong.to_string(), "touch fresh memory: 0 pages a second are not within 1 to 10000000");
        let until_ns = clock::monotonic_ns() + 5_000_000;
        let touched = Toucher { pages_per_s: 256_000, until_ns }.touch().unwrap();
        assert!(touched.pages >= 256, "{touched:?}");
    }
}
