//! `BootsContext`: the files of a trial over boots.

use std::path::{Path, PathBuf};

use evenkeel_hostfs::Root;
use evenkeel_trial::boots::{BootTransactions, BootsState, read};

use crate::args::StateArgs;
use crate::arms::parse;
use crate::exit;
use crate::failure::Failure;

/// The name of the trial's state file, in the folder of the journal.
pub(super) const FILE: &str = "boots";
/// Folders that lose their contents at a boot.
const GONE_BY_BOOT: [&str; 4] = ["/tmp", "/run", "/dev", "/proc"];

/// The data that a trial over boots needs: its folder, and the machine.
pub(super) struct BootsContext {
    pub(super) root: Root,
    pub(super) dir: PathBuf,
    pub(super) file: PathBuf,
    pub(super) program: String,
    /// The command that restores everything, in backquotes.
    pub(super) revert: String,
}

impl BootsContext {
    pub(super) fn new(state: &StateArgs) -> Result<BootsContext, Failure> {
        let dir = state.path()?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::io(exit::NOT_POSSIBLE, "find the folder of this program", &error))?;
        let program = program.to_string_lossy().into_owned();
        Ok(BootsContext { root: Root::live(), file: dir.join(FILE), dir, program, revert: state.revert() })
    }

    pub(super) fn hands(&self, state: &BootsState) -> Result<BootTransactions<'_>, Failure> {
        let settings = parse(&state.design.settings)?;
        BootTransactions::new(&self.root, &self.dir, &state.id, settings).map_err(not_possible)
    }

    /// Refuses a file that the trial needs after a boot, if the file lies in a folder that a boot clears.
    pub(super) fn refuse_gone(&self) -> Result<(), Failure> {
        for path in [self.dir.as_path(), Path::new(&self.program)] {
            if let Some(gone) = GONE_BY_BOOT.iter().find(|gone| path.starts_with(gone)) {
                let cause = format!("{} may be gone after a boot, like everything in {gone}", path.display());
                return Err(not_possible(cause)
                    .hint("install evenkeel as /usr/local/bin/evenkeel, and use the default --state"));
            }
        }
        Ok(())
    }

    pub(super) fn refuse_second(&self) -> Result<(), Failure> {
        match read(&self.file) {
            Ok(Some(state)) if state.ended.is_none() && self.hands(&state)?.is_licensed().unwrap_or(true) => {
                let cause = format!("a trial of {} is running", state.design.settings.join(" "));
                Err(not_possible(cause)
                    .hint("`evenkeel prove boots status` shows its progress, `evenkeel prove boots cancel` cancels it"))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::new(exit::NOT_POSSIBLE, error).hint("`evenkeel prove boots cancel` removes it")),
        }
    }
}

pub(super) fn not_possible(why: impl std::fmt::Display) -> Failure {
    Failure::text(exit::NOT_POSSIBLE, "begin a trial over boots", why)
}
