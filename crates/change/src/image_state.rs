//! The journal of an image.
//! evenkeel opens it through the image's own folder, so it opens and creates nothing outside of the image.
//! This holds for any links in the image, even if another process changes the image meanwhile.

use evenkeel_hostfs::Image;
use evenkeel_sys::Errno;
use rustix::fs::AtFlags;

use crate::journal::{JOURNAL, NOTE};
use crate::log::Log;
use crate::outside::Real;
use crate::state::{LOCK, State, undamaged};
use crate::state_dir::{StateDir, refuse_if_shared};
use crate::state_error::StateError;

/// The path of an image's journal, relative to the image's root.
/// `verify` and `revert` find the journal there on a machine that boots from the image.
pub const IMAGE_DIR: &str = "var/lib/evenkeel";

impl State {
    /// Opens the state directory of an image, [`IMAGE_DIR`], and takes the lock. Creates the directory if needed.
    /// Opens and creates nothing outside of the image, whatever links the image contains.
    ///
    /// # Errors
    /// The errors of [`State::open`]; also if a link in the path points out of the image.
    pub fn open_in(image: &Image) -> Result<State, StateError> {
        State::open_dir(StateDir::make_in(image, &mut |_| ())?, Box::new(Real))
    }

    /// Like [`open_in`](State::open_in), but only for a restore, as [`State::open_to_revert`].
    ///
    /// # Errors
    /// The errors of [`State::open_to_revert`]; also if a link in the path points out of the image.
    pub fn open_to_revert_in(image: &Image) -> Result<State, StateError> {
        State::to_revert(StateDir::make_in(image, &mut |_| ())?, Box::new(Real))
    }

    /// Removes the journal from an image if nothing in the journal is left to undo.
    /// Machines made from the image should not start with a history.
    ///
    /// # Errors
    /// If a file can't be removed.
    pub fn remove_closed_in(self, image: &Image) -> Result<(), StateError> {
        if self.log().transactions().any(|logged| !logged.is_closed()) {
            return Ok(());
        }
        let dir = StateDir::open_in(image)?;
        // Remove the lock last: another evenkeel that waits for the lock must not see half of a journal.
        for name in [NOTE, JOURNAL, LOCK] {
            match rustix::fs::unlinkat(&dir.dir, name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(errno) => return Err(StateError::io("remove", &dir.path.join(name), errno)),
            }
        }
        let removed = image.remove_folder(IMAGE_DIR);
        removed.map(drop).map_err(|errno| in_image(image, "remove the state directory", IMAGE_DIR, errno))
    }
}

impl Log {
    /// Reads the journal of an image without the lock. A missing journal is empty.
    ///
    /// # Errors
    /// The errors of [`Log::read`], and a link in the path that points out of the image.
    pub fn read_in(image: &Image) -> Result<Log, StateError> {
        undamaged(Log::read_or_empty(StateDir::open_in(image))?, &image.shown(IMAGE_DIR))
    }
}

impl StateDir {
    /// Creates and opens the folders of the image, one after the other.
    /// Calls `between` before each step, with the number of the step.
    pub(crate) fn make_in(image: &Image, between: &mut dyn FnMut(usize)) -> Result<StateDir, StateError> {
        let ends = IMAGE_DIR.match_indices('/').map(|(at, _)| at).chain([IMAGE_DIR.len()]);
        let mut steps = 0;
        for end in ends {
            between(steps);
            steps += 1;
            // Only root may enter the last folder.
            let mode = if end == IMAGE_DIR.len() { 0o700 } else { 0o755 };
            let made = image.make_folder(&IMAGE_DIR[..end], mode);
            made.map_err(|errno| in_image(image, "make the state directory", &IMAGE_DIR[..end], errno))?;
        }
        between(steps);
        StateDir::open_in(image)
    }

    fn open_in(image: &Image) -> Result<StateDir, StateError> {
        let opened = image.open_folder(IMAGE_DIR);
        let dir = opened.map_err(|errno| in_image(image, "open the state directory", IMAGE_DIR, errno))?;
        let path = image.shown(IMAGE_DIR);
        refuse_if_shared(&dir, &path)?;
        Ok(StateDir { dir, path })
    }
}

/// Why a folder of an image is not accessible.
fn in_image(image: &Image, doing: &'static str, folder: &str, errno: Errno) -> StateError {
    let path = image.shown(folder);
    let why = match errno {
        Errno::XDEV => "a symbolic link in the path is absolute, or points out of the image: make it relative",
        Errno::NOTDIR | Errno::LOOP => "it is a symbolic link or not a directory, and could point out of the image",
        _ => return StateError::io(doing, &path, errno),
    };
    StateError::Unsafe { path: path.display().to_string(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use evenkeel_hostfs::Root;

    use super::*;
    use crate::outcome::Kind;
    use crate::record::Event;

    /// Another process replaces the image's `var` with a link before one of the steps.
    /// evenkeel touches nothing outside the image.
    #[test]
    fn a_link_that_appears_between_two_steps_leads_nowhere() {
        const STEPS: usize = 4;
        let mut refused = 0;
        for swapped_at in 0..=STEPS {
            let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            std::fs::create_dir_all(outside.path().join("lib/evenkeel")).unwrap();
            std::fs::create_dir(dir.path().join("var")).unwrap();
            let image = Root::mounted(dir.path()).unwrap().image().unwrap();
            let swap = || {
                std::fs::rename(dir.path().join("var"), dir.path().join("was")).unwrap();
                symlink(outside.path(), dir.path().join("var")).unwrap();
            };
            let made = StateDir::make_in(&image, &mut |step| {
                if step == swapped_at {
                    swap()
                }
            });
            if swapped_at == STEPS {
                swap();
            }
            match made.and_then(|dir| State::open_dir(dir, Box::new(Real))) {
                Ok(mut state) => {
                    assert_eq!(swapped_at, STEPS, "the last step was before the link");
                    state
                        .append(Event::Begin {
                            txn: 1,
                            kind: Kind::Apply,
                            title: String::new(),
                            boot_id: None,
                            steps: Vec::new(),
                            settings: Vec::new(),
                            lasting: None,
                            until: None,
                            owner: None,
                            captured: None,
                        })
                        .unwrap();
                    assert!(std::fs::metadata(dir.path().join("was/lib/evenkeel/journal")).unwrap().len() > 0);
                }
                Err(error) => {
                    refused += 1;
                    assert!(matches!(error, StateError::Unsafe { .. }), "step {swapped_at}: {error}");
                }
            }
            assert!(Log::read_in(&image).is_err());
            assert_eq!(std::fs::read_dir(outside.path().join("lib/evenkeel")).unwrap().count(), 0, "step {swapped_at}");
            assert_eq!(std::fs::read_dir(outside.path().join("lib")).unwrap().count(), 1, "step {swapped_at}");
            assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1, "step {swapped_at}");
        }
        assert_eq!(refused, STEPS);
    }

    #[test]
    fn a_link_that_stays_in_the_image_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("mnt/var")).unwrap();
        symlink("mnt/var", dir.path().join("var")).unwrap();
        let image = Root::mounted(dir.path()).unwrap().image().unwrap();
        assert_eq!(Log::read_in(&image).unwrap().transactions().count(), 0);
        drop(State::open_in(&image).unwrap());
        assert!(dir.path().join("mnt/var/lib/evenkeel/lock").exists());
        std::fs::remove_file(dir.path().join("var")).unwrap();
        symlink("/mnt/var", dir.path().join("var")).unwrap();
        for opened in [State::open_in(&image), State::open_to_revert_in(&image)] {
            let error = opened.map(drop).unwrap_err().to_string();
            assert!(error.contains("is absolute, or points out of the image"), "{error}");
        }
    }
}
