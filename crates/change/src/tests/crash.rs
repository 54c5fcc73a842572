//! Kills the process at every boundary:
//! before, after and in the middle of each record, and before and after each sync and each write to the host.
//! At whatever boundary the process was killed, `revert` restores every file, including side effects.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_hostfs::{Entry, HostWriter, Root, Tree, TreeError, WriteError};
use evenkeel_sys::Errno;

use super::{Quick, Stage, lasting, plan, session_units, step};
use crate::outside::Outside;
use crate::{Session, State, Which, apply, revert};

/// Passes this many boundaries, and then does nothing, like a killed process.
#[derive(Clone)]
pub(crate) struct Fuse {
    burn: Arc<Mutex<Burn>>,
    claims: Option<PathBuf>,
}

struct Burn {
    passed: usize,
    dies_at: usize,
    is_dead: bool,
}

impl Fuse {
    pub(crate) fn new(dies_at: usize) -> Fuse {
        Fuse { burn: Arc::new(Mutex::new(Burn { passed: 0, dies_at, is_dead: false })), claims: None }
    }

    /// Uses this folder for the locks and registers of the machine.
    pub(crate) fn claiming(self, claims: &Path) -> Fuse {
        Fuse { claims: Some(claims.to_owned()), ..self }
    }

    fn boundary(&self) -> Result<(), Errno> {
        let mut burn = self.burn.lock().unwrap_or_else(PoisonError::into_inner);
        burn.is_dead |= burn.passed == burn.dies_at;
        if burn.is_dead {
            return Err(Errno::IO);
        }
        burn.passed += 1;
        Ok(())
    }

    pub(crate) fn has_died(&self) -> bool {
        self.burn.lock().unwrap().is_dead
    }
}

impl Outside for Fuse {
    fn append(&mut self, file: &File, bytes: &[u8]) -> Result<(), Errno> {
        self.boundary()?;
        if let Err(killed) = self.boundary() {
            Quick.append(file, &bytes[..bytes.len() / 2])?;
            return Err(killed);
        }
        Quick.append(file, bytes)?;
        self.boundary()
    }

    fn sync(&mut self, file: &File) -> Result<(), Errno> {
        self.boundary()?;
        Quick.sync(file)?;
        self.boundary()
    }

    fn truncate(&mut self, file: &File, len_bytes: u64) -> Result<(), Errno> {
        self.boundary()?;
        Quick.truncate(file, len_bytes)?;
        self.boundary()
    }

    fn rename(&mut self, dir: &File, from: &str, to: &str) -> Result<(), Errno> {
        self.boundary()?;
        Quick.rename(dir, from, to)?;
        self.boundary()
    }

    fn remove(&mut self, dir: &File, name: &str) -> Result<(), Errno> {
        self.boundary()?;
        Quick.remove(dir, name)?;
        self.boundary()
    }

    fn claims_dir(&self, _: &Root) -> Option<PathBuf> {
        self.claims.clone()
    }

    fn put(&mut self, tree: &Tree, path: &str, entry: &Entry) -> Result<(), TreeError> {
        let killed = |errno| killed(path, errno);
        self.boundary().map_err(killed)?;
        Quick.put(tree, path, entry)?;
        self.boundary().map_err(killed)
    }

    fn rehearse(&mut self, _: &[String]) -> Result<(), String> {
        self.boundary().and_then(|()| self.boundary()).map_err(|errno| errno.to_string())
    }

    fn write(&mut self, writer: &HostWriter, path: &str, value: &str) -> Result<(), WriteError> {
        let killed = |errno| WriteError { path: path.to_owned(), value: value.to_owned(), errno };
        self.boundary().map_err(killed)?;
        writer.write(path, value)?;
        self.boundary().map_err(killed)
    }
}

fn killed(path: &str, errno: Errno) -> TreeError {
    TreeError { doing: "write", path: path.to_owned(), errno, why: "killed".to_owned() }
}

/// Repeats for each boundary in `act`:
/// runs `prepare`, runs `act` and kills it at the boundary, then reverts and compares every file.
fn kill_everywhere(name: &str, prepare: impl Fn(&Stage), act: impl Fn(&Stage, &mut State)) {
    let mut died = 0;
    for dies_at in 0.. {
        let stage = Stage::on(&lasting::host());
        let before = stage.root.capture();
        prepare(&stage);
        let fuse = Fuse::new(dies_at);
        act(&stage, &mut stage.state_on(fuse.clone()));
        if !fuse.has_died() {
            break;
        }
        died += 1;

        let report = revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
        assert!(report.all_undone, "{name} killed at {dies_at}: {report:?}");
        assert!(stage.is_as(&before), "{name} killed at {dies_at}: {}", stage.root.capture());
        let again = revert(&stage.root, &stage.writer, &mut stage.state(), Which::All).unwrap();
        assert!(again.transactions.is_empty(), "{name} killed at {dies_at}: {again:?}");
    }
    println!("{name}: killed at each of {died} points, all put back");
    assert!(died > 20, "{name} has more boundaries than {died}");
}

const SETTINGS: &[&str] =
    &["vm.swappiness=10", "thp.enabled=never", "vm.min_free_kbytes=80000", "net.rps_cpus=0-1", "irq.affinity=1"];

#[test]
fn apply_killed_anywhere_is_put_back() {
    kill_everywhere(
        "apply",
        |_| (),
        |stage, state| {
            let _ = apply(&stage.root, &stage.writer, state, &plan(SETTINGS), "t");
        },
    );
}

#[test]
fn a_roll_back_killed_anywhere_is_finished() {
    let settings = [SETTINGS, &["clocksource=xen"]].concat();
    kill_everywhere(
        "roll back",
        |_| (),
        |stage, state| {
            let _ = apply(&stage.root, &stage.writer, state, &plan(&settings), "t");
        },
    );
}

#[test]
fn a_second_apply_killed_anywhere_is_put_back_with_the_first() {
    kill_everywhere(
        "second apply",
        |stage| {
            apply(&stage.root, &stage.writer, &mut stage.state(), &plan(SETTINGS), "first").unwrap();
        },
        |stage, state| {
            let settings = plan(&["thp.enabled=always", "vm.swappiness=0"]);
            let _ = apply(&stage.root, &stage.writer, state, &settings, "second");
        },
    );
}

#[test]
fn revert_killed_anywhere_is_finished_by_the_next() {
    kill_everywhere(
        "revert",
        |stage| {
            apply(&stage.root, &stage.writer, &mut stage.state(), &plan(SETTINGS), "first").unwrap();
            apply(&stage.root, &stage.writer, &mut stage.state(), &plan(&["vm.swappiness=20"]), "second").unwrap();
        },
        |stage, state| {
            let _ = revert(&stage.root, &stage.writer, state, Which::All);
        },
    );
}

#[test]
fn a_session_killed_anywhere_is_put_back() {
    kill_everywhere(
        "session",
        |_| (),
        |stage, state| {
            let targets = [step("thp.enabled=never"), step("vm.swappiness=10")];
            let Ok(mut session) = Session::begin(&stage.root, &stage.writer, state, "t", &targets) else { return };
            for (thp, swappiness) in [("never", "10"), ("madvise", "60"), ("always", "0")] {
                let _ = session.set(0, thp);
                let _ = session.set(1, swappiness);
            }
            session.end();
        },
    );
}

/// The next append moves a torn record to another file. A kill may interrupt the move, too.
#[test]
fn a_crash_while_a_torn_end_is_set_aside_loses_nothing() {
    kill_everywhere(
        "torn end",
        |stage| {
            apply(&stage.root, &stage.writer, &mut stage.state(), &plan(SETTINGS), "first").unwrap();
            let path = stage.dir.path().join("journal");
            std::fs::write(&path, stage.journal() + "0badc0de {\"format\":1,\"torn").unwrap();
        },
        |stage, state| {
            let _ = revert(&stage.root, &stage.writer, state, Which::All);
        },
    );
}

#[test]
fn persistent_changes_are_restored_after_any_kill() {
    kill_everywhere(
        "apply to last",
        |_| (),
        |stage, state| {
            let _ = lasting::keep_it(stage, state, "10");
        },
    );
    kill_everywhere(
        "second apply to last",
        |stage| {
            lasting::keep_it(stage, &mut stage.state(), "10").unwrap();
        },
        |stage, state| {
            let _ = lasting::keep_it(stage, state, "20");
        },
    );
    kill_everywhere(
        "services of sessions",
        |stage| {
            session_units::place(stage, &mut stage.state(), &["0", "1"]).unwrap();
        },
        |stage, state| {
            let _ = session_units::place(stage, state, &["1", "0-1"]);
        },
    );
    kill_everywhere(
        "revert of what lasts",
        |stage| {
            lasting::keep_it(stage, &mut stage.state(), "10").unwrap();
            lasting::keep_it(stage, &mut stage.state(), "20").unwrap();
        },
        |stage, state| {
            let _ = revert(&stage.root, &stage.writer, state, Which::All);
        },
    );
}
