//! Passes over large memory with wide vectors if the CPU has them.
//! Code that is compiled for every CPU of a family moves half as much at a time, so it may be slower than the memory.

/// The sum of all words. It wraps at overflow.
pub fn sum(words: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the check above showed that this CPU has AVX2 and the kernel saves its registers.
        return unsafe { sum_avx2(words) };
    }
    plain(words)
}

/// Sets all words to this value.
pub fn fill(words: &mut [u64], to: u64) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { fill_avx2(words, to) };
    }
    words.fill(to);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2(words: &mut [u64], to: u64) {
    // Do not use the library's own loop: it was compiled without AVX2, and the compiler may not inline it here.
    for word in words {
        *word = to;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(words: &[u64]) -> u64 {
    plain(words)
}

/// A loop that compilers vectorise. It is inlined, so that it uses the caller's instruction set.
#[inline(always)]
fn plain(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_set_and_no_other() {
        for length in 0..50 {
            let mut words = vec![7; 60];
            fill(&mut words[3..3 + length], 9);
            let set =
                words.iter().enumerate().all(|(at, word)| *word == if (3..3 + length).contains(&at) { 9 } else { 7 });
            assert!(set, "{length}: {words:?}");
        }
    }

    #[test]
    fn every_word_counts_once_and_it_wraps() {
        for length in 0..100_u64 {
            let words: Vec<u64> = (0..length).map(|at| 1 << (at % 60)).collect();
            assert_eq!(sum(&words), words.iter().sum::<u64>(), "{length}");
        }
        assert_eq!(sum(&[u64::MAX, 3]), 2);
        assert_eq!(sum(&[1; 5][1..]), 4, "from where no vector begins");
    }
}
