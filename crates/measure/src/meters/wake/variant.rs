//! Finds the parts of a wake by removing one part at a time. Each `Variant` is a way to wait that lacks a part.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_hostfs::{HeldLatency, Root};
use evenkeel_sys::{Errno, clock, sched, thread};
use serde::Serialize;

use crate::MeterError;
use crate::pinned::not_there;

/// The priority of a real-time waiter. It is above ordinary threads, and below the kernel's and other real-time work.
const PRIORITY: u8 = 50;
/// A sleeping CPU needs this time to learn that deep idle states are now forbidden.
const SETTLE_NS: u64 = 300_000;

/// A way to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// A thread that sets nothing. It has the ordinary class and its initial slack.
    Plain,
    /// Timer slack of 1 ns.
    #[serde(rename = "slack-1ns")]
    Slack1,
    /// Real-time class (`SCHED_FIFO`).
    Fifo,
    /// Slack of 1 ns, and no CPU may enter an idle state that takes time to leave (/dev/cpu_dma_latency held at 0).
    #[serde(rename = "dma-latency-0")]
    DmaLatency0,
    /// Slack of 1 ns, and a thread of the idle class keeps the CPU from idling at all. This variant needs no privilege and no idle driver.
    KeptAwake,
    /// Real-time class, with /dev/cpu_dma_latency held at 0, as in `cyclictest`.
    #[serde(rename = "fifo-dma-latency-0")]
    FifoDmaLatency0,
    /// A waiter that polls instead of sleeping. The remaining time is the cost of polling and signalling.
    Spinning,
}

impl Variant {
    /// All variants, with their names on the command line and in answers.
    pub const ALL: [(Variant, &'static str); 7] = [
        (Variant::Plain, "plain"),
        (Variant::Slack1, "slack-1ns"),
        (Variant::Fifo, "fifo"),
        (Variant::DmaLatency0, "dma-latency-0"),
        (Variant::KeptAwake, "kept-awake"),
        (Variant::FifoDmaLatency0, "fifo-dma-latency-0"),
        (Variant::Spinning, "spinning"),
    ];

    /// The variants that the parts need.
    pub const USUAL: [Variant; 6] =
        [Variant::Plain, Variant::Slack1, Variant::Fifo, Variant::DmaLatency0, Variant::KeptAwake, Variant::Spinning];

    /// The variant's name, on the command line and in answers.
    pub fn name(self) -> &'static str {
        Variant::ALL.iter().find(|(variant, _)| *variant == self).map_or("", |(_, name)| name)
    }

    /// The variant with this name.
    pub fn by_name(name: &str) -> Option<Variant> {
        Variant::ALL.iter().find(|(_, known)| *known == name).map(|(variant, _)| *variant)
    }

    pub(super) fn spins(self) -> bool {
        self == Variant::Spinning
    }

    fn holds_dma_latency(self) -> bool {
        matches!(self, Variant::DmaLatency0 | Variant::FifoDmaLatency0)
    }

    /// Applies the variant to the calling thread. Its effects end with the thread.
    pub(super) fn take_on(self, plain_slack_ns: Option<NonZeroU64>) -> Result<(), Errno> {
        match self {
            Variant::Plain | Variant::Spinning => thread::set_timer_slack_ns(plain_slack_ns),
            Variant::Slack1 | Variant::DmaLatency0 | Variant::KeptAwake => {
                thread::set_timer_slack_ns(Some(NonZeroU64::MIN))
            }
            Variant::Fifo | Variant::FifoDmaLatency0 => sched::set_fifo(PRIORITY),
        }
    }

    /// Runs `measure` under the variant's conditions: with the DMA latency held at 0, or with a thread that keeps the CPU awake.
    /// The conditions end when this function returns, or when the process ends.
    pub(super) fn surround<T>(self, waiter_cpu: usize, measure: impl FnOnce() -> T) -> Result<T, MeterError> {
        let _held = if self.holds_dma_latency() { Some(hold_dma_latency()?) } else { None };
        if self != Variant::KeptAwake {
            return Ok(measure());
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
            scope.spawn({
                let is_over = &is_over;
                move || keep_awake(waiter_cpu, is_over, &ready)
            });
            let measured = match is_ready.recv() {
                Ok(Ok(())) => Ok(measure()),
                Ok(Err(errno)) => Err(not_there(format!("keep CPU {waiter_cpu} awake"), errno)),
                Err(_) => Err(MeterError::not_possible("keep a CPU awake", "the thread for it ended")),
            };
            is_over.store(true, Ordering::Relaxed);
            measured
        })
    }
}

fn hold_dma_latency() -> Result<HeldLatency, MeterError> {
    let writer =
        Root::live().writer().map_err(|error| MeterError::not_possible("hold CPUs awake", error.to_string()))?;
    let held = writer.hold_dma_latency_us(0);
    let held = held.map_err(|error| MeterError::refused("hold /dev/cpu_dma_latency at 0", error.errno))?;
    clock::sleep_until_ns(clock::monotonic_ns() + SETTLE_NS);
    Ok(held)
}

/// A thread that runs only when the CPU would idle.
/// The thread must never run as an ordinary thread, even for a moment, because the waiter would then have to wait.
fn keep_awake(cpu: usize, is_over: &AtomicBool, ready: &std::sync::mpsc::SyncSender<Result<(), Errno>>) {
    let made = thread::set_affinity(&[cpu].into_iter().collect()).and_then(|()| sched::set_idle());
    let is_made = made.is_ok();
    let _ = ready.send(made);
    if is_made {
        while !is_over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_has_a_name_and_goes_by_it() {
        for (variant, name) in Variant::ALL {
            assert_eq!((variant.name(), Variant::by_name(name)), (name, Some(variant)));
            assert_eq!(serde_json::to_value(variant).unwrap(), name);
        }
        assert_eq!(Variant::by_name("faster"), None);
    }
}
