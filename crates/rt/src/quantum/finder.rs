//! `Finder`: a separate thread that analyses gaps. The analysis takes ten milliseconds of CPU time, which no tick can spare.
//! The tick thread passes the gaps to the finder and continues; it never waits for the answer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use evenkeel_stats::periodicity::{Count, Detector, Gap, Known, Periodicity, Window};
use evenkeel_sys::thread;

use super::watch::Watch;
use crate::helper_thread::give_way;

/// How long the start waits for the finder's thread, at most.
const READY: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Asked,
    Answered(Periodicity),
    Over,
}

#[derive(Debug, Default)]
struct Mailbox {
    stage: Stage,
    windows: Vec<Window>,
    gaps: Vec<Gap>,
}

#[derive(Debug, Default)]
struct Shared {
    mailbox: Mutex<Mailbox>,
    news: Condvar,
}

/// The handle of the thread. The thread ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Finder {
    shared: Arc<Shared>,
}

impl Finder {
    /// `None` if the system starts no thread.
    pub(super) fn start() -> Option<Finder> {
        let shared = Arc::new(Shared::default());
        {
            let (windows, gaps) = Watch::room();
            let mut mailbox = lock(&shared);
            mailbox.windows.reserve(windows);
            mailbox.gaps.reserve(gaps);
        }
        let tickers = thread::affinity().unwrap_or_default();
        let theirs = Arc::clone(&shared);
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let body = move || {
            give_way(&tickers);
            let (windows, gaps) = Watch::room();
            let room = (Vec::with_capacity(windows), Vec::with_capacity(gaps), Detector::with_room(windows, gaps));
            let _ = ready.send(());
            run(&theirs, room);
        };
        std::thread::Builder::new().name("evenkeel-quantum".into()).spawn(body).ok()?;
        // After the start we allocate nothing, so wait here until the thread has all its memory.
        // If the thread gets no CPU in time, it may allocate later.
        let _ = is_ready.recv_timeout(READY);
        Some(Finder { shared })
    }

    /// Passes the gaps to the thread. Returns false if the thread is busy.
    pub(super) fn ask(&self, watch: &Watch) -> bool {
        let Some(mut mailbox) = self.try_lock() else { return false };
        mailbox.windows.clear();
        mailbox.gaps.clear();
        // The mailbox has room for all windows and gaps, so this allocates nothing.
        mailbox.windows.extend_from_slice(watch.windows());
        mailbox.gaps.extend_from_slice(watch.gaps());
        mailbox.stage = Stage::Asked;
        drop(mailbox);
        self.shared.news.notify_one();
        true
    }

    /// Returns the answer to the last question, if there is one. Returns each answer once.
    pub(super) fn answer(&self) -> Option<Periodicity> {
        let mut mailbox = self.try_lock()?;
        match std::mem::take(&mut mailbox.stage) {
            Stage::Answered(said) => Some(said),
            other => {
                mailbox.stage = other;
                None
            }
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Mailbox>> {
        match self.shared.mailbox.try_lock() {
            Ok(mailbox) => Some(mailbox),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        lock(&self.shared).stage = Stage::Over;
        self.shared.news.notify_one();
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Mailbox> {
    shared.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(shared: &Shared, room: (Vec<Window>, Vec<Gap>, Detector)) {
    let (mut windows, mut gaps, mut detector) = room;
    loop {
        let mut mailbox = lock(shared);
        loop {
            match mailbox.stage {
                Stage::Asked => break,
                Stage::Over => return,
                Stage::Idle | Stage::Answered(_) => {}
            }
            mailbox = shared.news.wait(mailbox).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut windows, &mut mailbox.windows);
        std::mem::swap(&mut gaps, &mut mailbox.gaps);
        drop(mailbox);
        let said = detector.detect(&windows, &gaps, &Known { count: Count::All, ..Known::default() });
        let mut mailbox = lock(shared);
        std::mem::swap(&mut windows, &mut mailbox.windows);
        std::mem::swap(&mut gaps, &mut mailbox.gaps);
        if matches!(mailbox.stage, Stage::Asked) {
            mailbox.stage = Stage::Answered(said);
        }
    }
}
