//! Opens guides: files, the profiles that they include, and the library.

use std::path::Path;

use evenkeel_host::guide::{GUIDE_BYTES_MAX, Guide, GuideFormat, LibraryGuide};
use evenkeel_hostfs::user_file;

use crate::exit;
use crate::failure::Failure;

/// Where TuneD has its profiles, the strongest first.
const PROFILES: [&str; 4] = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// The file of a profile.
const PROFILE: &str = "tuned.conf";

/// The guide of this name: a file, otherwise a guide of the library.
pub(super) fn guide(name: &str, format: Option<GuideFormat>) -> Result<Guide, Failure> {
    let path = Path::new(name);
    let failed = |error| Failure::text(exit::WRONG_USE, format!("read the guide {name}"), error);
    if let Some(entry) = LibraryGuide::find(name).filter(|_| !path.exists()) {
        return entry.guide().map_err(failed);
    }
    let text = user_file::read_text(path, GUIDE_BYTES_MAX as u64).map_err(|error| {
        let failure = Failure::user_file(format!("read the guide {name}"), &error);
        if path.exists() { failure } else { failure.hint("`evenkeel guide --list` lists the guides that need no file") }
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    Guide::parse(name, &text, format, &|include| included(folder, include)).map_err(failed)
}

/// The text of a profile, or of a file of variables, that another profile includes.
fn included(folder: &Path, name: &str) -> Option<String> {
    let read = |path: &Path| user_file::read_text(path, GUIDE_BYTES_MAX as u64).ok();
    if name.contains('/') {
        return read(&folder.join(name));
    }
    let beside = read(&folder.join("..").join(name).join(PROFILE));
    let installed = || PROFILES.iter().find_map(|profiles| read(&Path::new(profiles).join(name).join(PROFILE)));
    let of_library = || LibraryGuide::find(&format!("tuned:{name}")).map(|guide| guide.text.to_owned());
    beside.or_else(installed).or_else(of_library)
}
