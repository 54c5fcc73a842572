//! One turn: a number of wakes of one kind, after one idle gap, with one variant.
//! Every turn has its own threads, so that a variant's settings end with the turn.
//! The waker spins until its time has come, so we measure the waiter's wake and not the waker's.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_sys::waking::{self, TimerFd, Waited};
use evenkeel_sys::{CpuSet, Errno, clock, thread};

use super::kind::{Kind, Place};
use super::variant::Variant;
use crate::pinned::stay_on;
use crate::{MeterError, Watch};

/// A wake that takes longer than this is lost, and the turn ends.
const LIMIT_NS: u64 = 1_000_000_000;

/// The task of one turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) gap_ns: u64,
    pub(super) variant: Variant,
    pub(super) wakes: u32,
    pub(super) plain_slack_ns: Option<NonZeroU64>,
    pub(super) waker_delay_ns: u64,
}

/// The result of one turn.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnLatencies {
    pub(super) latencies_ns: Vec<u64>,
    pub(super) lost: u64,
    pub(super) why: Option<String>,
}

impl TurnLatencies {
    fn lose(&mut self, count: u64, why: &str) {
        self.lost += count;
        self.why.get_or_insert_with(|| why.to_owned());
    }
}

/// State that the waiter and the waker share.
#[derive(Debug, Default)]
struct Shared {
    /// The number of the wake for which the waiter is ready, from 1.
    ready: AtomicU32,
    /// The number of the last wake. A futex waiter sleeps on this word.
    word: AtomicU32,
    /// When the last wake was sent.
    sent_ns: AtomicU64,
    /// Whether the waiter or the waker has ended.
    over: AtomicBool,
}

/// How a wake arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    ToASleeper,
    TooEarly,
    Never,
}

impl Turn {
    /// Runs the turn.
    ///
    /// # Errors
    /// Fails if this machine does not support the variant, or a thread may not run on its CPU.
    pub(super) fn take(&self, watch: &Watch<'_>) -> Result<TurnLatencies, MeterError> {
        self.variant.surround(self.place.waiter_cpu, || match self.kind {
            Kind::Timer | Kind::Timerfd => self.alone(watch),
            Kind::Futex | Kind::Udp => self.pair(watch),
        })?
    }

    fn alone(&self, watch: &Watch<'_>) -> Result<TurnLatencies, MeterError> {
        let body = || {
            self.settle()?;
            let timer = TimerFd::new().map_err(|errno| MeterError::refused("make a timer", errno))?;
            let mut seen = TurnLatencies::default();
            seen.latencies_ns.reserve_exact(self.wakes as usize);
            for _ in 0..self.wakes {
                if watch.stopped() {
                    break;
                }
                let due_ns = clock::monotonic_ns() + self.gap_ns;
                let slept = match (self.variant.spins(), self.kind) {
                    (true, _) => spin_until(due_ns),
                    (false, Kind::Timerfd) => timer.sleep_until_ns(due_ns),
                    (false, _) => {
                        clock::sleep_until_ns(due_ns);
                        Ok(())
                    }
                };
                slept.map_err(|errno| MeterError::refused("wait for a timer", errno))?;
                seen.latencies_ns.push(clock::monotonic_ns().saturating_sub(due_ns));
            }
            Ok(self.if_still_there(seen))
        };
        std::thread::scope(|scope| join(scope.spawn(body)))
    }

    fn pair(&self, watch: &Watch<'_>) -> Result<TurnLatencies, MeterError> {
        let refused = |error: std::io::Error| MeterError::refused("open a UDP socket on the loopback", &error);
        let ours = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(refused)?;
        let theirs = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(refused)?;
        theirs.connect(ours.local_addr().map_err(refused)?).map_err(refused)?;
        // Connect the socket, so that it receives no other packets.
        ours.connect(theirs.local_addr().map_err(refused)?).map_err(refused)?;
        ours.set_read_timeout(Some(Duration::from_nanos(LIMIT_NS))).map_err(refused)?;
        ours.set_nonblocking(self.variant.spins()).map_err(refused)?;
        let shared = &Shared::default();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let seen = self.settle().map(|()| self.wait(shared, &ours, watch));
                shared.over.store(true, Ordering::Release);
                seen
            });
            let waker = scope.spawn(|| {
                let woke = self.wake(shared, &theirs);
                shared.over.store(true, Ordering::Release);
                woke
            });
            let (woke, seen) = (join(waker), join(waiter));
            woke.and(seen)
        })
    }

    /// Runs the waiter on the calling thread.
    fn settle(&self) -> Result<(), MeterError> {
        stay_on(self.place.waiter_cpu)?;
        let name = self.variant.name();
        self.variant.take_on(self.plain_slack_ns).map_err(|errno| MeterError::refused(format!("wait as {name}"), errno))
    }

    fn wait(&self, shared: &Shared, socket: &UdpSocket, watch: &Watch<'_>) -> TurnLatencies {
        let mut seen = TurnLatencies::default();
        seen.latencies_ns.reserve_exact(self.wakes as usize);
        for number in 1..=self.wakes {
            if watch.stopped() {
                break;
            }
            shared.ready.store(number, Ordering::Release);
            let came = match self.kind {
                Kind::Udp => receive(socket, number),
                _ => wait_on_word(shared, number, self.variant.spins()),
            };
            let now_ns = clock::monotonic_ns();
            match came {
                Came::ToASleeper => {
                    seen.latencies_ns.push(now_ns.saturating_sub(shared.sent_ns.load(Ordering::Acquire)));
                }
                Came::TooEarly => seen.lose(1, "the waiter had not fallen asleep when it was woken: its CPU was busy"),
                Came::Never => {
                    let left = u64::from(self.wakes - number + 1);
                    seen.lose(left, "a wake did not come within a second: the waker did not run");
                    break;
                }
            }
        }
        self.if_still_there(seen)
    }

    fn wake(&self, shared: &Shared, socket: &UdpSocket) -> Result<(), MeterError> {
        if let Some(cpu) = self.place.waker_cpu {
            stay_on(cpu)?;
        }
        for number in 1..=self.wakes {
            while shared.ready.load(Ordering::Acquire) != number {
                if shared.over.load(Ordering::Acquire) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            spin_until(clock::monotonic_ns() + self.gap_ns).map_err(|errno| MeterError::refused("wait", errno))?;
            let sent_ns = clock::monotonic_ns();
            if self.waker_delay_ns > 0 {
                spin_until(sent_ns + self.waker_delay_ns).map_err(|errno| MeterError::refused("wait", errno))?;
            }
            shared.sent_ns.store(sent_ns, Ordering::Release);
            let sent = match self.kind {
                Kind::Udp => socket.send(&number.to_le_bytes()).map(|_| true).map_err(|error| Errno::from(&error)),
                _ => {
                    shared.word.store(number, Ordering::Release);
                    // A spinning waiter needs no system call, because it reads the word.
                    if self.variant.spins() { Ok(true) } else { waking::wake(&shared.word) }
                }
            };
            sent.map_err(|errno| MeterError::refused("wake the one who waits", errno))?;
        }
        Ok(())
    }

    /// Checks that the thread is still on its CPU. When a CPU goes offline, the kernel moves its threads to another CPU.
    fn if_still_there(&self, mut seen: TurnLatencies) -> TurnLatencies {
        let ours: CpuSet = [self.place.waiter_cpu].into_iter().collect();
        if thread::affinity() != Ok(ours) {
            let count = seen.latencies_ns.len() as u64;
            seen.latencies_ns.clear();
            seen.lose(count, "the CPU was taken offline, or from us, meanwhile");
        }
        seen
    }
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, MeterError>>) -> Result<T, MeterError> {
    thread.join().unwrap_or_else(|_| Err(MeterError::not_possible("measure a wake", "a thread ended by itself")))
}

fn spin_until(due_ns: u64) -> Result<(), Errno> {
    while clock::monotonic_ns() < due_ns {
        std::hint::spin_loop();
    }
    Ok(())
}

fn wait_on_word(shared: &Shared, number: u32, spins: bool) -> Came {
    let until_ns = clock::monotonic_ns() + LIMIT_NS;
    let mut came = Came::TooEarly;
    while shared.word.load(Ordering::Acquire) != number {
        if spins {
            if clock::monotonic_ns() > until_ns {
                return Came::Never;
            }
            came = Came::ToASleeper;
            std::hint::spin_loop();
            continue;
        }
        match waking::wait(&shared.word, number - 1, LIMIT_NS) {
            Ok(Waited::Woken) => came = Came::ToASleeper,
            Ok(Waited::NotAsleep) => came = Came::TooEarly,
            Ok(Waited::TimedOut) | Err(_) => return Came::Never,
        }
    }
    came
}

fn receive(socket: &UdpSocket, number: u32) -> Came {
    let until_ns = clock::monotonic_ns() + LIMIT_NS;
    let mut bytes = [0; 4];
    loop {
        match socket.recv(&mut bytes) {
            Ok(4) if u32::from_le_bytes(bytes) == number => return Came::ToASleeper,
            Ok(_) => {}
            // No packet has arrived: the waiter spins on a non-blocking socket, the read timeout expired, or a signal came.
            // The check below ends the wait.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Came::Never,
        }
        if clock::monotonic_ns() > until_ns {
            return Came::Never;
        }
    }
}
