//! `Ring`: a chain of pointers through memory, so that each load must finish before the next can begin.
//! So a step takes exactly the latency of the memory.

use std::ptr;

use crate::errno::Errno;
use crate::mapping::Mapping;

/// The distance in bytes from one pointer to the next: a cache line.
pub const LINE_BYTES: usize = 64;

/// A ring of pointers, with one pointer in each of its lines.
#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    /// The current place, which always is a pointer of the ring.
    at: *const u8,
    lines: usize,
}

// SAFETY: `at` points into the mapping, which belongs to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Links the lines of `order` into a ring in that order. Name each line once.
    ///
    /// # Errors
    /// `EINVAL` if the order is empty or names a line outside the mapping.
    pub fn new(mut mapping: Mapping, order: &[u32]) -> Result<Ring, Errno> {
        let lines = mapping.len_bytes() / LINE_BYTES;
        let (Some(first), Some(last)) = (order.first(), order.last()) else { return Err(Errno::INVAL) };
        if order.iter().any(|line| *line as usize >= lines) {
            return Err(Errno::INVAL);
        }
        let start: *mut u8 = mapping.words_mut().as_mut_ptr().cast();
        let place = |line: u32| start.wrapping_add(line as usize * LINE_BYTES);
        let link = |from: u32, to: u32| {
            // SAFETY: the check above showed that `from` is a line of the mapping. No other code writes to the mapping now.
            // Lines are aligned to 64 bytes.
            unsafe { ptr::write(place(from).cast::<*const u8>(), place(to).cast_const()) }
        };
        for pair in order.windows(2) {
            link(pair[0], pair[1]);
        }
        link(*last, *first);
        Ok(Ring { at: place(*first), mapping, lines: order.len() })
    }

    /// Advances this many steps.
    pub fn chase(&mut self, steps: u64) {
        let mut at = self.at;
        for _ in 0..steps {
            // SAFETY: `at` is the place of a line of the order. Each line holds the place of another line.
            // The mapping lives as long as the ring, and no code writes to it any more.
            at = unsafe { ptr::read(at.cast::<*const u8>()) };
        }
        self.at = at;
    }

    /// The number of lines in one round of the ring.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// The mapping that contains the ring.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Pages;

    #[test]
    fn a_lap_comes_back_to_where_it_began() {
        let mapping = || Mapping::new(64 << 10, Pages::Unadvised).unwrap();
        let order = [3_u32, 900, 0, 17, 1023];
        let mut ring = Ring::new(mapping(), &order).unwrap();
        let start = ring.mapping().address();
        for lap in 0..3 {
            for line in order {
                assert_eq!(ring.at.addr() - start, line as usize * LINE_BYTES, "lap {lap}");
                ring.chase(1);
            }
        }
        ring.chase(5_000_002);
        assert_eq!(ring.at.addr() - start, 0, "five steps a lap");
        assert_eq!(ring.lines(), 5);
        for odd in [&[][..], &[1024][..], &[1, u32::MAX][..]] {
            assert_eq!(Ring::new(mapping(), odd).unwrap_err(), Errno::INVAL, "{odd:?}");
        }
    }
}
