//! `PhaseKeeper`: applies the rule to a running clock. The tick thread publishes its slot and applies small shifts.
//! The tick thread needs a few stores for that, and no system call.
//! A helper thread reads the slots of the other sessions and plans the shifts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use evenkeel_sys::phase_registry::{FolderLock, SLOTS_MAX, Scanner, SlotWriter, time_namespace};
use evenkeel_sys::phase_slot::{Cpus, PERIODS_NS, Slot};
use evenkeel_sys::{Errno, IS_LINUX, clock, thread};

use super::rule::{self, SHIFT_PARTS, Step, Ticks};
use super::{PhaseError, PhaseReport, PhaseSettings, PhaseState};
use crate::helper_thread::give_way;
use crate::quantum::Alignment;

/// The interval between two reads of the other slots. Each neighbour adds this time again to the interval.
/// So the cost per session does not grow with the number of sessions.
const LOOK: Duration = Duration::from_millis(250);
const LOOK_EACH: Duration = Duration::from_millis(5);
/// How long the start waits for the helper thread, at most.
const READY: Duration = Duration::from_millis(500);
/// The smoothed work takes in one part of this many from each new tick.
const WORK_PARTS: i64 = 64;

#[derive(Debug, Default)]
struct Mailbox {
    /// The newest plan, for the tick thread.
    step: Option<Step>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    mailbox: Mutex<Mailbox>,
    over: Condvar,
}

/// The part of a session that does not change. The session recognises its neighbours by it.
#[derive(Clone, Copy, Debug)]
struct Own {
    id: u64,
    time_namespace: u64,
    cpus: Cpus,
}

/// The part of a clock that spreads the clock's ticks. Dropping it ends the helper thread and removes the session's slot.
#[derive(Debug)]
pub(crate) struct PhaseKeeper {
    writer: SlotWriter,
    shared: Arc<Shared>,
    own: Own,
    plan: Step,
    /// How far the plan still has to move the ticks.
    left_ns: i64,
    shifted_ns: i64,
    work_ns: u64,
    /// How far the search for time slices has moved ticks from their phase. The search moves them back later.
    searched_ns: i64,
    alignment: Alignment,
    has_plan: bool,
    period_ns: u64,
}

impl PhaseKeeper {
    /// Joins the sessions of the folder. Returns the delay of the next tick, which is due at `due_ns`. If not `is_first`, the delay is 0.
    pub(crate) fn join(
        settings: &PhaseSettings,
        period_ns: u64,
        due_ns: u64,
        is_first: bool,
    ) -> Result<(PhaseKeeper, u64), PhaseError> {
        if !IS_LINUX {
            return Err(PhaseError::Unsupported);
        }
        let folder = settings.folder.clone().unwrap_or_else(|| PathBuf::from("/dev/shm"));
        let (mut scanner, writer) =
            open(&folder).map_err(|errno| PhaseError::Folder { folder: folder.clone(), errno })?;
        let tickers = thread::affinity();
        let cpus = tickers.as_ref().map_or(Cpus::ALL, |cpus| Cpus::new(cpus.iter()));
        let own = Own { id: writer.id(), time_namespace: time_namespace(), cpus };
        let mut keeper = PhaseKeeper {
            writer,
            shared: Arc::default(),
            own,
            plan: Step::default(),
            left_ns: 0,
            shifted_ns: 0,
            work_ns: 0,
            searched_ns: 0,
            alignment: Alignment::Free,
            has_plan: false,
            period_ns,
        };
        let first = Ticks { id: own.id, period_ns, due_ns, work_ns: 0, is_fixed: false };
        let delay_ns = keeper.begin(&folder, &mut scanner, &first, is_first);
        keeper.start_thread(scanner, tickers.unwrap_or_default()).map_err(PhaseError::Thread)?;
        Ok((keeper, delay_ns))
    }

    /// Publishes the first entry. Returns the delay of the tick in that entry.
    fn begin(&mut self, folder: &Path, scanner: &mut Scanner, first: &Ticks, is_first: bool) -> u64 {
        // Sessions that start at the same time choose their phases one after another.
        let _lock = FolderLock::take(folder);
        let mut seen = Neighbours::new();
        seen.look(scanner, &self.own);
        let delay_ns = if is_first { rule::start(first, seen.all()) } else { 0 };
        let due_ns = first.due_ns.saturating_add(delay_ns);
        self.plan = rule::step(&Ticks { due_ns, ..*first }, seen.all());
        self.shifted_ns = delay_ns as i64;
        self.publish(due_ns);
        delay_ns
    }

    fn start_thread(&self, mut scanner: Scanner, tickers: evenkeel_sys::CpuSet) -> Result<(), Errno> {
        let (shared, own) = (Arc::clone(&self.shared), self.own);
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let body = move || {
            give_way(&tickers);
            let mut seen = Neighbours::new();
            let _ = ready.send(());
            run(&shared, &mut scanner, &own, &mut seen);
        };
        let started = std::thread::Builder::new().name("evenkeel-phases".into()).spawn(body);
        started.map_err(|error| Errno::from(&error))?;
        // After the start we allocate nothing, so wait here until the thread has all its memory.
        let _ = is_ready.recv_timeout(READY);
        Ok(())
    }

    /// The clock shifts the next tick by `aligner_ns` for alignment. Returns the additional shift for the neighbours.
    pub(crate) fn move_ns(&mut self, alignment: Alignment, aligner_ns: i64) -> i64 {
        self.alignment = alignment;
        self.searched_ns = match alignment {
            Alignment::Trying | Alignment::Held => 0,
            // After a search, the aligner moves ticks back to their phase. The ticks are back when the aligner no longer moves them.
            Alignment::Free | Alignment::NoMultiple if aligner_ns == 0 => 0,
            Alignment::Looking | Alignment::Free | Alignment::NoMultiple => self.searched_ns.saturating_add(aligner_ns),
        };
        if let Some(step) = self.newest() {
            self.plan = step;
            self.left_ns = step.distance_ns;
            self.has_plan = true;
        }
        if self.is_aligned() {
            self.left_ns = 0;
            return 0;
        }
        let most_ns = (self.period_ns / SHIFT_PARTS) as i64;
        let shift_ns = self.plan.shift_ns.clamp(-most_ns, most_ns);
        shift_ns.clamp(self.left_ns.min(0), self.left_ns.max(0))
    }

    /// Records that the next tick was shifted by this much.
    pub(crate) fn moved(&mut self, by_ns: i64) {
        self.left_ns = self.left_ns.saturating_sub(by_ns);
        self.shifted_ns = self.shifted_ns.saturating_add(by_ns);
    }

    /// Records how long a tick worked.
    pub(crate) fn worked(&mut self, work_ns: u64) {
        // A tick counts as at most one period, because one pause of a second says nothing about the next ticks.
        let work_ns = work_ns.min(self.period_ns) as i64;
        let before_ns = self.work_ns as i64;
        let parts = if before_ns == 0 { 1 } else { WORK_PARTS };
        self.work_ns = before_ns.saturating_add((work_ns - before_ns) / parts).max(0) as u64;
    }

    /// Publishes when the next tick is due. Called once per tick.
    pub(crate) fn publish(&mut self, due_ns: u64) {
        // A session whose period is out of range has no neighbours. Its slot becomes silent.
        if PERIODS_NS.contains(&self.period_ns) {
            self.writer.publish(&Slot {
                time_namespace: self.own.time_namespace,
                period_ns: self.period_ns,
                due_ns: due_ns.saturating_add_signed(self.searched_ns.saturating_neg()),
                work_ns: self.work_ns,
                is_fixed: self.is_aligned(),
                cpus: self.own.cpus,
            });
        }
    }

    /// Changes the period of the ticks.
    pub(crate) fn set_period(&mut self, period_ns: u64) {
        self.period_ns = period_ns;
        self.left_ns = 0;
    }

    pub(crate) fn report(&self) -> PhaseReport {
        let state = match self.plan.neighbours {
            _ if self.is_aligned() => PhaseState::Aligned,
            0 => PhaseState::Alone,
            _ if self.has_plan && self.plan.is_settled(self.period_ns) => PhaseState::Settled,
            _ => PhaseState::Settling,
        };
        let neighbours = self.plan.neighbours;
        PhaseReport { state, neighbours, shifted_ns: self.shifted_ns, distance_ns: self.plan.distance_ns }
    }

    fn is_aligned(&self) -> bool {
        matches!(self.alignment, Alignment::Looking | Alignment::Trying | Alignment::Held) || self.searched_ns != 0
    }

    /// Returns the newest plan, each plan once. Never waits.
    fn newest(&self) -> Option<Step> {
        match self.shared.mailbox.try_lock() {
            Ok(mut mailbox) => mailbox.step.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().step.take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Drop for PhaseKeeper {
    fn drop(&mut self) {
        lock(&self.shared).is_over = true;
        self.shared.over.notify_one();
    }
}

fn open(folder: &Path) -> Result<(Scanner, SlotWriter), Errno> {
    Ok((Scanner::open(folder)?, SlotWriter::create(folder)?))
}

fn lock(shared: &Shared) -> MutexGuard<'_, Mailbox> {
    shared.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sessions that tick on CPUs of this session, and this session. The capacity covers all, so reading the slots allocates nothing.
struct Neighbours {
    ticks: Box<[Ticks]>,
    many: usize,
    own: Option<Ticks>,
}

impl Neighbours {
    fn new() -> Neighbours {
        Neighbours { ticks: vec![Ticks::default(); SLOTS_MAX].into_boxed_slice(), many: 0, own: None }
    }

    fn all(&self) -> &[Ticks] {
        &self.ticks[..self.many]
    }

    /// Reads all slots. If the folder cannot be read, there are no neighbours.
    fn look(&mut self, scanner: &mut Scanner, own: &Own) {
        (self.many, self.own) = (0, None);
        let now_ns = clock::monotonic_ns();
        let _ = scanner.scan(|id, slot| {
            let Slot { period_ns, due_ns, work_ns, is_fixed, .. } = slot;
            let ticks = Ticks { id, period_ns, due_ns, work_ns, is_fixed };
            if id == own.id {
                self.own = Some(ticks);
                return true;
            }
            if slot.is_fresh(now_ns)
                && slot.time_namespace == own.time_namespace
                && slot.cpus.overlap(&own.cpus)
                && let Some(place) = self.ticks.get_mut(self.many)
            {
                *place = ticks;
                self.many += 1;
                return true;
            }
            false
        });
    }
}

/// Looks at the neighbours until the clock ends.
fn run(shared: &Shared, scanner: &mut Scanner, own: &Own, seen: &mut Neighbours) {
    let mut pause = LOOK;
    loop {
        let wait = shared.over.wait_timeout_while(lock(shared), pause, |mailbox| !mailbox.is_over);
        let (mailbox, _) = wait.unwrap_or_else(PoisonError::into_inner);
        if mailbox.is_over {
            return;
        }
        drop(mailbox);
        seen.look(scanner, own);
        pause = LOOK + LOOK_EACH * seen.many as u32;
        if let Some(me) = seen.own {
            let step = rule::step(&me, seen.all());
            lock(shared).step = Some(step);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn others_see_the_place_to_which_a_search_returns() {
        let folder = tempfile::tempdir().unwrap();
        let settings = PhaseSettings { folder: Some(folder.path().into()) };
        let (mut keeper, delay_ns) = PhaseKeeper::join(&settings, 20_000_000, 50_000_000, true).unwrap();
        assert_eq!(delay_ns, 0);
        let mut scanner = Scanner::open(folder.path()).unwrap();
        let mut due_ns = 50_000_000_u64;
        // For each row: the aligner's state, the aligner's move of the next tick, and whether the session keeps its phase.
        let table = [
            (Alignment::Looking, 0, true),
            (Alignment::Looking, 2_000_000, true),
            (Alignment::Looking, 2_000_000, true),
            (Alignment::Free, -2_000_000, true),
            (Alignment::Free, -2_000_000, false),
            (Alignment::Free, 0, false),
        ];
        for (at, (alignment, aligner_ns, is_fixed)) in table.into_iter().enumerate() {
            due_ns = due_ns.saturating_add_signed(aligner_ns) + 20_000_000;
            assert_eq!(keeper.move_ns(alignment, aligner_ns), 0);
            keeper.publish(due_ns);
            let mut seen = Vec::new();
            let mut take = |_, slot: Slot| {
                seen.push((slot.due_ns, slot.is_fixed));
                true
            };
            scanner.scan(&mut take).unwrap();
            assert_eq!(seen, [(50_000_000 + 20_000_000 * (at as u64 + 1), is_fixed)], "{at}");
            assert_eq!(keeper.report().state == PhaseState::Aligned, is_fixed, "{at}");
        }
        // The other sessions must see the phase at which this session holds its ticks.
        assert_eq!(keeper.move_ns(Alignment::Held, 3_000_000), 0);
        keeper.publish(7);
        let check = |_, slot: Slot| {
            assert_eq!((slot.due_ns, slot.is_fixed), (7, true));
            true
        };
        scanner.scan(check).unwrap();
    }
}
