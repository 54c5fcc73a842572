//! The workload of a stored session or search, as recorded in the file.

use crate::exit;
use crate::failure::Failure;
use crate::workload_args::{WorkloadArgs, workload_of};

/// The workload in the file of a session or search.
pub(crate) struct Stored<'a> {
    /// The arguments and the command of the workload, in shell syntax; `None` if an older evenkeel wrote the file.
    pub(crate) arguments: Option<&'a str>,
    /// The folder in which the workload was started; `None` if it is unknown.
    pub(crate) folder: Option<&'a str>,
    /// The description of the workload.
    pub(crate) describes_itself: &'a str,
    /// Whether the file is in evenkeel's own folder.
    pub(crate) is_ours: bool,
    /// The command that continues the session or search.
    pub(crate) again: String,
}

impl Stored<'_> {
    /// The workload to start: the stored workload in its folder,
    /// or the workload that the user named, in the current folder.
    /// The two must be the same.
    pub(crate) fn workload(&self, asked: &WorkloadArgs) -> Result<WorkloadArgs, Failure> {
        let now = asked.line();
        match (self.arguments, now.is_empty()) {
            (Some(then), true) => self.restored(then),
            (Some(then), false) if workload_of(then)?.line() == now => Ok(asked.clone()),
            (Some(then), false) => Err(begun_otherwise(then, &now)),
            (None, false) => Ok(asked.clone()),
            (None, true) => Err(self.unknown()),
        }
    }

    fn restored(&self, then: &str) -> Result<WorkloadArgs, Failure> {
        let workload = workload_of(then)?;
        if workload.runs_command() && !self.is_ours {
            // A file can come from anywhere, so evenkeel runs its command only if the user repeats the command.
            let cause = "its workload is a command, and evenkeel runs no command that only a file names";
            return Err(Failure::text(exit::WRONG_USE, "resume", cause)
                .hint(format!("check the command, then run: {} {then}", self.again)));
        }
        if let Some(folder) = self.folder.filter(|_| self.is_ours) {
            std::env::set_current_dir(folder).map_err(|error| {
                Failure::io(exit::NOT_POSSIBLE, format!("enter {folder}, where the session began"), &error)
            })?;
        }
        Ok(workload)
    }

    fn unknown(&self) -> Failure {
        let cause = format!(
            "an older evenkeel began it and did not store the workload's arguments ({})",
            self.describes_itself
        );
        Failure::text(exit::WRONG_USE, "resume", cause).hint(format!(
            "name the same workload again: {again} --workload NAME, or {again} -- CMD",
            again = self.again
        ))
    }
}

fn begun_otherwise(then: &str, now: &str) -> Failure {
    let then = if then.is_empty() { "the default workload" } else { then };
    let cause = format!("it began with {then}, but you named {now}");
    Failure::text(exit::WRONG_USE, "resume", cause).hint("leave out the workload: the session contains it")
}
