//! Files that take one name of a list, and the files that list them.

/// Files that take one of the names which another file in their folder lists.
const CHOICES: [(&str, &str); 3] = [
    ("current_clocksource", "available_clocksource"),
    ("scaling_governor", "scaling_available_governors"),
    (CONGESTION, "tcp_available_congestion_control"),
];

/// A name that its list lacks may be in a module that is not loaded.
pub(super) const CONGESTION: &str = "tcp_congestion_control";

/// The file that lists the names which the file at `path` takes.
pub(super) fn list_of(path: &str) -> Option<String> {
    let (folder, file) = path.rsplit_once('/')?;
    let (_, list) = CHOICES.iter().find(|(own, _)| *own == file)?;
    Some(format!("{folder}/{list}"))
}
