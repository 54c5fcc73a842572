//! Instructions that take a known number of cycles. They measure a CPU's clock when a guest cannot read the CPU's own counters.
//! This module also has loads that make a processor change its clock or share its core.
//!
//! In a chain, each instruction needs the result of the previous one. So even a wide processor runs the chain no faster than its latency.
//! On every x86 server processor since 2008 (Nehalem and later; AMD since Zen), adding two registers has a latency of one cycle.
//! A 64-bit multiplication has a latency of three cycles.
//! Additions of a small constant would form no chain: recent processors do them while renaming registers.

use std::hint::black_box;

/// Additions in one round of the chain.
pub const ADDS_PER_ROUND: u64 = 64;
/// Multiplications in one round of the multiplication chain.
pub const MULTIPLIES_PER_ROUND: u64 = 32;
/// Additions in one round of [`wide`].
pub const WIDE_ADDS_PER_ROUND: u64 = 64;
/// Cycles that one 64-bit multiplication takes on x86.
pub const MULTIPLY_CYCLES: u64 = 3;

/// Runs this many rounds of [`ADDS_PER_ROUND`] dependent additions. Each addition takes one cycle.
pub fn adds(rounds: u64) {
    let mut value = black_box(1_u64);
    let step = black_box(3_u64);
    for _ in 0..rounds {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instructions touch only the two named registers and the flags.
        unsafe {
            core::arch::asm!(
                ".rept 64", "add {value}, {step}", ".endr",
                value = inout(reg) value, step = in(reg) step, options(nomem, nostack)
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the instructions touch only the two named registers.
        unsafe {
            core::arch::asm!(
                ".rept 64", "add {value}, {value}, {step}", ".endr",
                value = inout(reg) value, step = in(reg) step, options(nomem, nostack)
            );
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        for _ in 0..ADDS_PER_ROUND {
            value = black_box(value.wrapping_add(step));
        }
    }
    black_box(value);
}

/// Runs this many rounds of [`MULTIPLIES_PER_ROUND`] dependent multiplications.
/// Returns false, without running any, if the latency is unknown for this processor.
pub fn multiplies(rounds: u64) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let mut value = black_box(3_u64);
        let factor = black_box(5_u64);
        for _ in 0..rounds {
            // SAFETY: the instructions touch only the two named registers and the flags.
            unsafe {
                core::arch::asm!(
                    ".rept 32", "imul {value}, {factor}", ".endr",
                    value = inout(reg) value, factor = in(reg) factor, options(nomem, nostack)
                );
            }
        }
        black_box(value);
        true
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = rounds;
        false
    }
}

/// Runs this many rounds of [`WIDE_ADDS_PER_ROUND`] additions in eight parallel chains.
/// The chains use all units of the core, so another thread on the same core slows them.
pub fn wide(rounds: u64) {
    #[cfg(target_arch = "x86_64")]
    {
        let step = black_box(3_u64);
        let (mut a, mut b, mut c, mut d) = (step, step, step, step);
        let (mut e, mut f, mut g, mut h) = (step, step, step, step);
        for _ in 0..rounds {
            // SAFETY: the instructions touch only the named registers and the flags.
            unsafe {
                core::arch::asm!(
                    ".rept 8",
                    "add {a}, {step}", "add {b}, {step}", "add {c}, {step}", "add {d}, {step}",
                    "add {e}, {step}", "add {f}, {step}", "add {g}, {step}", "add {h}, {step}",
                    ".endr",
                    a = inout(reg) a, b = inout(reg) b, c = inout(reg) c, d = inout(reg) d,
                    e = inout(reg) e, f = inout(reg) f, g = inout(reg) g, h = inout(reg) h,
                    step = in(reg) step, options(nomem, nostack)
                );
            }
        }
        black_box([a, b, c, d, e, f, g, h]);
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let mut values = black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
        for _ in 0..rounds * (WIDE_ADDS_PER_ROUND / 8) {
            values.iter_mut().for_each(|value| *value = value.wrapping_add(3));
            values = black_box(values);
        }
    }
}

/// Vector instructions for which a processor may lower its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vector {
    /// Multiplications and additions of 256 bits (AVX2 with FMA).
    Avx2,
    /// Multiplications and additions of 512 bits (AVX-512F).
    Avx512,
}

impl Vector {
    /// Whether this processor has these instructions and the kernel allows them.
    pub fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            match self {
                Vector::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
                Vector::Avx512 => is_x86_feature_detected!("avx512f"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Runs this many rounds of eight vector instructions.
    /// Returns false, without running any, if the processor does not have these instructions.
    pub fn burn(self, rounds: u64) -> bool {
        if !self.is_here() {
            return false;
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the check above showed that the processor has these instructions.
        unsafe {
            match self {
                Vector::Avx2 => burn_256(rounds),
                Vector::Avx512 => burn_512(rounds),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = rounds;
        true
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn burn_256(rounds: u64) {
    use core::arch::x86_64::{__m256d, _mm256_fmadd_pd, _mm256_set1_pd};
    let factor = _mm256_set1_pd(black_box(0.999_999));
    let mut values: [__m256d; 8] = [_mm256_set1_pd(black_box(1.0)); 8];
    for _ in 0..rounds {
        for value in &mut values {
            *value = _mm256_fmadd_pd(*value, factor, factor);
        }
    }
    black_box(values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn burn_512(rounds: u64) {
    use core::arch::x86_64::{__m512d, _mm512_fmadd_pd, _mm512_set1_pd};
    let factor = _mm512_set1_pd(black_box(0.999_999));
    let mut values: [__m512d; 8] = [_mm512_set1_pd(black_box(1.0)); 8];
    for _ in 0..rounds {
        for value in &mut values {
            *value = _mm512_fmadd_pd(*value, factor, factor);
        }
    }
    black_box(values);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsc;

    fn one_ticks(run: &mut dyn FnMut()) -> u64 {
        let start = tsc::ticks();
        run();
        tsc::ticks().saturating_sub(start)
    }

    fn shortest_ticks(mut run: impl FnMut()) -> u64 {
        (0..2000).map(|_| one_ticks(&mut run)).min().unwrap()
    }

    #[test]
    fn a_chain_takes_as_long_as_it_is() {
        // Each of the two chains takes 6,400 cycles. A changing clock affects both chains, and the shortest of many runs contains no interrupt.
        let (mut short, mut long) = (u64::MAX, u64::MAX);
        for _ in 0..2000 {
            short = short.min(one_ticks(&mut || adds(100)));
            long = long.min(one_ticks(&mut || adds(200)));
        }
        let ratio = long as f64 / short as f64;
        assert!((1.8..2.2).contains(&ratio), "{short} {long}");
        if multiplies(1) {
            let multiplied = shortest_ticks(|| assert!(multiplies(200)));
            let ratio = multiplied as f64 / short as f64;
            // Under software emulation both times depend on the emulator.
            println!("a multiplication takes {ratio:.3} additions");
        }
        let wide = shortest_ticks(|| wide(100));
        println!("one chain {short} ticks, eight at once {wide}");
        for vector in [Vector::Avx2, Vector::Avx512] {
            assert_eq!(vector.burn(10), vector.is_here());
        }
    }
}
