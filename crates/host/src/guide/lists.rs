//! Files that take one name from a list, and the files with these lists.

/// Files whose value must be one of the names in another file in the same folder.
const CHOICES: [(&str, &str); 3] = [
    ("current_clocksource", "available_clocksource"),
    ("scaling_governor", "scaling_available_governors"),
    (CONGESTION, "tcp_available_congestion_control"),
];

/// A name that is missing in this list may belong to a module that is not loaded.
pub(super) const CONGESTION: &str = "tcp_congestion_control";

/// The file that lists the names for the file at `path`.
pub(super) fn list_of(path: &str) -> Option<String> {
    let (folder, file) = path.rsplit_once('/')?;
    let (_, list) = CHOICES.iter().find(|(own, _)| *own == file)?;
    Some(format!("{folder}/{list}"))
}
