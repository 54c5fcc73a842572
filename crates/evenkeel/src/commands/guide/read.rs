//! Opens guides: files, the profiles that they include, and the library.

use std::path::Path;

use evenkeel_host::guide::{GUIDE_BYTES_MAX, Guide, GuideError, GuideFormat, LibraryGuide};
use evenkeel_hostfs::user_file::UserFileError;
use evenkeel_hostfs::{Root, user_file};

use crate::exit;
use crate::failure::Failure;

/// The folders of TuneD's profiles, and its files of variables, in order of precedence.
const PROFILES: [&str; 4] = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// The file of a profile.
const PROFILE: &str = "tuned.conf";

/// The name that means standard input, and its path.
const STANDARD_INPUT: (&str, &str) = ("-", "/dev/stdin");

/// Opens the guide of this name: standard input, a file, or else a guide of the library.
pub(super) fn guide(name: &str, format: Option<GuideFormat>, root: &Root) -> Result<Guide, Failure> {
    let is_standard_input = name == STANDARD_INPUT.0;
    let (name, path) = match is_standard_input {
        true => ("standard input", Path::new(STANDARD_INPUT.1)),
        false => (name, Path::new(name)),
    };
    let failed = |error| {
        let failure = Failure::text(exit::WRONG_USE, format!("read the guide {name}"), error);
        match error {
            GuideError::OtherProgram(_) => {
                failure.hint("give the file that this program writes, or its settings as KEY=VALUE, one in a line")
            }
            _ => failure,
        }
    };
    if let Some(entry) = LibraryGuide::find(name).filter(|_| !path.exists()) {
        return entry.guide().map_err(failed);
    }
    let text = text(path).map_err(|error| {
        let failure = Failure::user_file(format!("read the guide {name}"), &error);
        if path.exists() {
            failure
        } else {
            failure.or_hint("`evenkeel guide --list` lists the guides that need no file")
        }
    })?;
    // Standard input has no folder: it can include only guides of the library and of TuneD.
    let folder = path.parent().filter(|_| !is_standard_input).unwrap_or(Path::new(""));
    Guide::parse(name, &text, format, &|include| included(root, folder, include)).map_err(failed)
}

/// The text of a file. Old pages and configuration files may contain bytes that are not UTF-8, most often in comments. They are replaced by
/// U+FFFD. Windows saves text as UTF-16 with a mark at its beginning. Any other file with zero bytes is not text.
fn text(path: &Path) -> Result<String, UserFileError> {
    let bytes = user_file::read(path, GUIDE_BYTES_MAX as u64)?;
    let text = match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => of_utf_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => of_utf_16(rest, u16::from_be_bytes),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    };
    if text.contains('\0') { Err(UserFileError::NoText) } else { Ok(text) }
}

/// The text of bytes in UTF-16. What is not a letter is replaced by U+FFFD. Half a letter at the end becomes a zero byte.
fn of_utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    let odd = (!rest.is_empty()).then_some('\0');
    text.map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).chain(odd).collect()
}

/// The text of a profile, or of a file of variables, that another profile includes. A guide can come from anywhere.
/// So it can include only files of its own folder, profiles in neighbouring folders,
/// TuneD's profiles on the inspected machine, and guides of the library.
fn included(root: &Root, folder: &Path, name: &str) -> Option<String> {
    let readable = |path: &Path| text(path).ok();
    let installed = |path: &str| root.text(path).ok().filter(|text| text.len() <= GUIDE_BYTES_MAX);
    if name.contains("..") {
        return None;
    }
    if name.starts_with('/') {
        let is_tuned =
            PROFILES.iter().any(|profiles| name.strip_prefix(profiles).is_some_and(|rest| rest.starts_with('/')));
        return is_tuned.then(|| installed(name)).flatten();
    }
    if name.contains('/') {
        return readable(&folder.join(name));
    }
    let of_tuned = || PROFILES.iter().find_map(|profiles| installed(&format!("{profiles}/{name}/{PROFILE}")));
    let of_library = || LibraryGuide::find(&format!("tuned:{name}")).map(|guide| guide.text.to_owned());
    readable(&folder.join("..").join(name).join(PROFILE)).or_else(of_tuned).or_else(of_library)
}

#[cfg(test)]
mod tests {
    use evenkeel_hostfs::Capture;

    use super::*;

    #[test]
    fn a_letter_that_is_not_utf_8_loses_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("guide");
        let name = path.to_str().unwrap();
        let root = Root::captured(Capture::default());
        for (bytes, settings) in [
            (b"caf\xe9 comment\nvm.dirty_ratio=15\n".as_slice(), Some(1)),
            (b"\xef\xbb\xbfvm.dirty_ratio=15\nvm.swappiness=1\n", Some(2)),
            (b"\xff\xfev\0m\0.\0d\0i\0r\0t\0y\0_\0r\0a\0t\0i\0o\0=\x005\0\n\0", Some(1)),
            (b"\xfe\xff\0v\0m\0.\0d\0i\0r\0t\0y\0_\0r\0a\0t\0i\0o\0=\x005\0\n", Some(1)),
            (b"\xff\xfe\0\0v\0", None),
            (b"\x7fELF\0\0vm.dirty_ratio=15\n", None),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(guide(name, None, &root).ok().map(|guide| guide.asks().count()), settings);
        }
    }

    #[test]
    fn a_guide_includes_only_what_is_beside_it_and_what_tuned_has() {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("mine");
        std::fs::create_dir_all(profile.join("more")).unwrap();
        std::fs::create_dir_all(folder.path().join("base")).unwrap();
        std::fs::write(profile.join("more/variables.conf"), "a=1\n").unwrap();
        std::fs::write(folder.path().join("base").join(PROFILE), "[sysctl]\n").unwrap();
        std::fs::write(folder.path().join("secret"), "secret\n").unwrap();
        let root = Root::captured(Capture::default());
        let secret = folder.path().join("secret").display().to_string();
        for (name, is_found) in [
            ("more/variables.conf", true),
            ("base", true),
            ("latency-performance", true),
            ("../secret", false),
            ("more/../../secret", false),
            (secret.as_str(), false),
            ("/etc/passwd", false),
            ("/etc/tuned-other/x", false),
            ("/etc/tuned/variables.conf", false), // this machine's file is not the captured one's
        ] {
            assert_eq!(included(&root, &profile, name).is_some(), is_found, "{name}");
        }
    }
}
