//! The cycle counter: the cheapest clock (some nanoseconds).
//! The cycle counter is also the only clock that continues through a pause of the whole machine without support by the kernel.
//! On x86 it is the time-stamp counter, on 64-bit ARM the virtual count.

use crate::clock;

/// How long [`Scale::measured`] compares the counter with the kernel's clock.
const COMPARED_NS: u64 = 20_000_000;
/// The number of pairs of readings. The closest pair counts, because an interrupt between the two readings spoils a pair.
const TRIES: u32 = 50;

/// The counter's value now. The processor may read it some instructions early or late.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    // No code of this crate runs where the kernel forbids the instruction (prctl PR_SET_TSC).
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: Linux lets user space read the virtual count (CNTKCTL_EL1.EL0VCTEN). The instruction touches no memory.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    clock::monotonic_ns()
}

/// Reads the counter only after all earlier instructions are done (`rdtscp`; on ARM after a barrier).
/// This reading is slower than [`ticks`], but the code under measurement cannot move out of the measured part.
/// A value of this type proves that the processor has the instruction.
#[derive(Clone, Copy, Debug)]
pub struct InOrder(());

impl InOrder {
    /// Checks the processor. `None` if the processor lacks the instruction.
    pub fn find() -> Option<InOrder> {
        #[cfg(target_arch = "x86_64")]
        {
            use crate::cpuid::cpuid;
            // CPUID 80000001h, EDX bit 27. A leaf above the highest leaf returns invalid data.
            if cpuid(0x8000_0000).eax < 0x8000_0001 || cpuid(0x8000_0001).edx & (1 << 27) == 0 {
                return None;
            }
        }
        Some(InOrder(()))
    }

    /// The counter now.
    #[inline(always)]
    pub fn ticks(self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `find` saw that the processor has the instruction. It writes one word that this function owns.
        unsafe {
            let mut cpu = 0;
            core::arch::x86_64::__rdtscp(&mut cpu)
        }
        #[cfg(target_arch = "aarch64")]
        {
            let count: u64;
            // SAFETY: as for the function `ticks`. The barrier touches no memory.
            unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
            count
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        clock::monotonic_ns()
    }
}

/// The counter and the monotonic clock in nanoseconds, read as close together as possible.
pub fn ticks_and_ns() -> (u64, u64) {
    let one = || {
        let before = ticks();
        let ns = clock::monotonic_ns();
        let after = ticks();
        (after.saturating_sub(before), before + after.saturating_sub(before) / 2, ns)
    };
    let closest = (0..TRIES).map(|_| one()).min_by_key(|(apart, ..)| *apart).unwrap_or_else(one);
    (closest.1, closest.2)
}

/// Converts the counter's ticks to time. It has one moment at which both clocks were read, and the rate between that moment and another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    ticks: u64,
    ns: u64,
    ns_per_tick: f64,
}

impl Scale {
    /// Compares the counter with the monotonic clock for some 20 ms. The result is good to about 10 ppm.
    /// [`Scale::since`] over a longer time is better.
    pub fn measured() -> Scale {
        let first = ticks_and_ns();
        clock::sleep_until_ns(first.1 + COMPARED_NS);
        Scale::between(first, ticks_and_ns())
    }

    /// The scale from two readings of [`ticks_and_ns`]. A longer time between the readings is more precise.
    pub fn between(first: (u64, u64), second: (u64, u64)) -> Scale {
        let (ticks, ns) = (second.0.saturating_sub(first.0), second.1.saturating_sub(first.1));
        let ns_per_tick = if ticks == 0 || ns == 0 { 1.0 } else { ns as f64 / ticks as f64 };
        Scale { ticks: first.0, ns: first.1, ns_per_tick }
    }

    /// A scale with the same start, whose rate is measured from that start to now.
    pub fn since(&self) -> Scale {
        Scale::between((self.ticks, self.ns), ticks_and_ns())
    }

    /// The monotonic clock's reading at `ticks`, in nanoseconds.
    pub fn ns_at(&self, ticks: u64) -> u64 {
        let apart_ns = ticks.wrapping_sub(self.ticks).cast_signed() as f64 * self.ns_per_tick;
        self.ns.saturating_add_signed(apart_ns as i64)
    }

    /// The counter's reading when the monotonic clock reads `ns`.
    pub fn ticks_at(&self, ns: u64) -> u64 {
        let apart = ns.wrapping_sub(self.ns).cast_signed() as f64 / self.ns_per_tick;
        self.ticks.saturating_add_signed(apart as i64)
    }

    /// Converts a length in ticks to nanoseconds.
    pub fn length_ns(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick).round() as u64
    }

    /// Converts a length in nanoseconds to ticks.
    pub fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 / self.ns_per_tick).round() as u64
    }

    /// The counter's frequency in hertz.
    pub fn hz(&self) -> f64 {
        1e9 / self.ns_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_maps_both_ways() {
        let scale = Scale::between((1000, 500), (3000, 1500));
        assert_eq!((scale.ns_at(1000), scale.ns_at(3000), scale.ns_at(0)), (500, 1500, 0));
        assert_eq!((scale.ticks_at(1500), scale.length_ns(10), scale.ticks(5)), (3000, 5, 10));
        assert_eq!(scale.hz(), 2e9);
        assert_eq!(Scale::between((5, 5), (5, 9)).hz(), 1e9, "a counter that stands still has no rate");
    }

    #[test]
    fn readings_in_order_are_of_the_same_counter() {
        let Some(in_order) = InOrder::find() else { return };
        let before = ticks();
        let between = in_order.ticks();
        assert!(before <= between && between <= in_order.ticks());
    }

    #[test]
    fn the_counter_goes_with_the_clock() {
        let scale = Scale::measured();
        let (ticks, ns) = ticks_and_ns();
        // Both clocks were read within a moment. The closest of many pairs has no pause between its two readings.
        assert!(scale.ns_at(ticks).abs_diff(ns) < 1_000_000, "{} {ns}", scale.ns_at(ticks));
        assert!(scale.since().hz() / scale.hz() > 0.99);
    }
}
