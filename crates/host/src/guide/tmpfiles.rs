//! Lines of tmpfiles.d that write a value to a file of the kernel: `w /sys/… - - - - never`.

use super::line::Content;
use super::names;

/// The number of fields before the value: the type, the path, the mode, the user, the group and the age.
const BEFORE: usize = 6;

/// The setting of a line. `None` if the line does not write to a file of the kernel.
pub(super) fn line(line: &str) -> Option<Content> {
    let mut fields = line.split_whitespace();
    let marks = fields.next()?.strip_prefix('w')?;
    let is_kind = marks.bytes().all(|mark| b"+!-=~^$".contains(&mark));
    let path = fields.next().filter(|path| is_kind && (path.starts_with("/sys/") || path.starts_with("/proc/")))?;
    let value = fields.skip(BEFORE - 2).collect::<Vec<_>>().join(" ");
    Some(match names::by_file(path, value.trim_matches(['"', '\''])).filter(|_| !value.is_empty()) {
        Some(ask) => Content::Settings(vec![ask]),
        None if value.is_empty() => Content::not("its seventh field, the value, is missing"),
        None => Content::not(format!("evenkeel does not know {path}")),
    })
}
