//! The stored sessions of trials, and a lock.
//! The lock allows one trial at a time on a host, because two trials would disturb each other.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use evenkeel_trial::SessionWriter;
use evenkeel_trial::session_log::{self, Head, SessionLog};

use crate::args::StateArgs;
use crate::exit;
use crate::failure::Failure;

const LOCK: &str = "trial.lock";
const FOLDER: &str = "sessions";
/// The maximum number of sessions in the default folder. evenkeel removes the oldest sessions beyond this number.
const KEPT_MAX: usize = 50;
/// The hint for a user who named a file that is not a session.
const WHAT_SESSIONS_ARE: &str = "a session is the .jsonl file of a trial: `evenkeel prove` prints its name, and `prove report` without FILE takes \
                                 the newest";
/// The word that means the newest session.
pub(crate) const LAST: &str = "last";

/// The lock of a running trial. If the lock created the state directory, it removes the directory when it is empty.
#[derive(Debug)]
pub(crate) struct TrialLock {
    /// The lock file. `None` if no folder can contain a lock file. Then this process does not detect other trials.
    _file: Option<File>,
    /// The state directory, if the lock created it.
    made: Option<PathBuf>,
}

impl Drop for TrialLock {
    fn drop(&mut self) {
        let Some(directory) = self.made.take() else { return };
        let is_idle = |entry: &std::fs::DirEntry| [LOCK, FOLDER].iter().any(|name| entry.file_name() == *name);
        let mut entries = std::fs::read_dir(&directory).into_iter().flatten();
        let is_ours = entries.all(|entry| entry.is_ok_and(|entry| is_idle(&entry)));
        // If the folder contains sessions, evenkeel can't remove it. Then the lock file and the directory also stay.
        if is_ours && std::fs::remove_dir(directory.join(FOLDER)).is_ok() {
            let _ = std::fs::remove_file(directory.join(LOCK)).and_then(|()| std::fs::remove_dir(&directory));
        }
    }
}

impl TrialLock {
    /// Takes the lock. If another trial holds it, the error names that trial.
    pub(crate) fn take(state: &StateArgs) -> Result<TrialLock, Failure> {
        let was_there = state.path().is_ok_and(|directory| directory.exists());
        let none = || Ok(TrialLock { _file: None, made: None });
        let path = match folder(state) {
            Ok(folder) => folder.with_file_name(LOCK),
            // Without a default folder, evenkeel can still measure. But a folder that the user named must work.
            Err(failure) if state.state.is_some() => return Err(failure),
            Err(_) => return none(),
        };
        let Ok(mut file) = open(&path) else { return none() };
        if file.try_lock().is_err() {
            let mut holder = String::new();
            let _ = Read::by_ref(&mut file).take(100).read_to_string(&mut holder);
            let holder = if holder.trim().is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() };
            let cause = format!("another trial (process {holder}) runs on this host, and each would disturb the other");
            return Err(
                Failure::text(exit::NOT_POSSIBLE, "begin a trial", cause).hint("wait until it ends, or stop it")
            );
        }
        // The previous holder may have removed the file before it released the lock.
        // A lock on a removed file excludes nobody.
        if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
            let cause = "another trial on this host is just ending";
            return Err(Failure::text(exit::NOT_POSSIBLE, "begin a trial", cause).hint("run it again"));
        }
        // The process number only informs people, so ignore an error such as a full disk.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        let made = path.parent().filter(|_| !was_there).map(Path::to_owned);
        Ok(TrialLock { _file: Some(file), made })
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    // Do not truncate the file: until this process has the lock, the file names the process that holds it.
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

/// Creates the file of a session: the file that the user named, or else a file next to the journal.
/// If the default file can't be created, the session continues without a file, and prints a warning.
pub(crate) fn begin(state: &StateArgs, named: Option<&Path>, head: &Head) -> Result<SessionWriter, Failure> {
    if let Some(path) = named {
        let keep = SessionWriter::begin(path, head).map_err(|error| Failure::new(exit::WRONG_USE, error))?;
        // Report a full disk now, before the measurement. Later, the result would be lost.
        return match keep.trouble() {
            None => Ok(keep),
            Some(why) => Err(Failure { begins: "", ..Failure::new(exit::NOT_POSSIBLE, anyhow!(why.to_owned())) }
                .hint("name another file with --keep FILE")),
        };
    }
    let unasked = || -> Result<SessionWriter, String> {
        let folder = folder(state).map_err(|failure| failure.message())?;
        forget_old(&folder);
        let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
        let path = folder.join(format!("{stamp}-{}.jsonl", std::process::id()));
        let keep = SessionWriter::begin(&path, head).map_err(|error| error.to_string())?;
        match keep.trouble().map(str::to_owned) {
            None => Ok(keep),
            // A file without its first line is useless, but would count as the newest session.
            Some(why) => {
                let _ = std::fs::remove_file(&path);
                Err(why)
            }
        }
    };
    Ok(unasked().unwrap_or_else(|why| SessionWriter::failed(format!("this session is not stored on disk: {why}"))))
}

/// Reads a stored session from a file. `last` means the newest session.
pub(crate) fn read(state: &StateArgs, named: &Path) -> Result<(PathBuf, SessionLog), Failure> {
    let path = if named == Path::new(LAST) && !named.exists() { newest(state)? } else { named.to_owned() };
    let kept =
        session_log::read(&path).map_err(|error| Failure::new(exit::WRONG_USE, error).hint(WHAT_SESSIONS_ARE))?;
    Ok((path, kept))
}

/// The absolute path of a file. It is valid in every current folder.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::io(exit::WRONG_USE, format!("find {}", path.display()), &error))
}

/// Whether a session is in evenkeel's own state folder. Only the user of that folder can write to it.
pub(crate) fn is_ours(path: &Path, state: &StateArgs) -> Result<bool, Failure> {
    Ok(is_in(path, &state.path()?.join(FOLDER)))
}

/// Whether a file is directly in a folder. Follows links in both paths.
pub(crate) fn is_in(path: &Path, folder: &Path) -> bool {
    let (Ok(path), Ok(folder)) = (path.canonicalize(), folder.canonicalize()) else { return false };
    path.parent() == Some(&folder)
}

fn newest(state: &StateArgs) -> Result<PathBuf, Failure> {
    let folder = state.path()?.join(FOLDER);
    // A file without a first line is not a session: evenkeel was killed before it wrote that line.
    let is_begun = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
    sessions(&folder).into_iter().rfind(is_begun).ok_or_else(|| {
        let cause = format!("{} has no session", folder.display());
        Failure::text(exit::WRONG_USE, "find the last session", cause).hint("name the file of a session")
    })
}

/// The folder of sessions. Creates the folder if it is missing.
fn folder(state: &StateArgs) -> Result<PathBuf, Failure> {
    let state_folder = state.path()?;
    if state_folder.exists() && !state_folder.is_dir() {
        let cause = "it is a file, and a folder is needed";
        return Err(Failure::text(exit::WRONG_USE, format_args!("use the journal {}", state_folder.display()), cause)
            .hint("name a folder with --state DIR"));
    }
    let folder = state_folder.join(FOLDER);
    // Only the owner may read the folder, as the journal requires.
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| {
        Failure::io(exit::NOT_POSSIBLE, format_args!("make the folder {}", folder.display()), &error)
            .hint("name a folder of your own with --state DIR")
    })?;
    Ok(folder)
}

/// The sessions in a folder, the oldest first.
fn sessions(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect();
    found.sort();
    found
}

/// Removes the oldest sessions of a folder, so that there is room for one more.
pub(crate) fn forget_old(folder: &Path) {
    let found = sessions(folder);
    let old = found.len().saturating_sub(KEPT_MAX - 1);
    for path in &found[..old] {
        // If evenkeel can't remove a session, the folder only has one session too many.
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The entries of a directory after a trial's lock was taken and released. `does` runs while the lock is held.
    fn left(directory: &Path, does: impl FnOnce()) -> Vec<String> {
        let state = StateArgs { state: Some(directory.to_owned()) };
        let lock = TrialLock::take(&state).unwrap();
        assert!(TrialLock::take(&state).unwrap_err().message().contains("another trial (process"));
        does();
        drop(lock);
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_directory_that_was_made_for_the_lock_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (made, kept, shared, there) =
            (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"), folder.path().join("d"));
        assert!(left(&made, || ()).is_empty() && !made.exists());
        assert_eq!(left(&kept, || fs::write(kept.join("sessions/x.jsonl"), "{}").unwrap()), [FOLDER, LOCK]);
        assert_eq!(left(&shared, || fs::write(shared.join("journal"), "").unwrap()), ["journal", FOLDER, LOCK]);
        fs::create_dir(&there).unwrap();
        assert_eq!(left(&there, || ()), [FOLDER, LOCK]);
        // Repeat with a lock file that already exists.
        assert_eq!(left(&there, || ()), [FOLDER, LOCK]);
    }
}
