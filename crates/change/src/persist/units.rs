//! What the recipes that write systemd units share: where units go, what makes one start at boot, what makes systemd read them.

use evenkeel_host::facts::Init;

use super::recipe::PersistContext;
use crate::persist_plan::{Content, PersistedCommand, PersistedFile};

/// Where units of the machine's owner are: they go before those of packages.
pub(super) const UNITS: &str = "/etc/systemd/system";

/// A unit of ours, and the link that makes it start at boot.
///
/// The link is what `systemctl enable` makes. It hangs on `multi-user.target`, not on `sysinit.target`: our units write to devices
/// that drivers bring, and nothing of the early boot may wait for that. Who must not start before them is named in `Before=`.
pub(super) fn files(name: &str, text: String) -> [PersistedFile; 2] {
    let path = format!("{UNITS}/{name}");
    let link = PersistedFile {
        path: format!("{UNITS}/multi-user.target.wants/{name}"),
        content: Content::Link { target: path.clone() },
    };
    [PersistedFile { path, content: Content::Whole { text, mode: 0o644 } }, link]
}

/// The command that makes systemd read its units anew.
pub(super) fn daemon_reload(after: &str) -> PersistedCommand {
    let argv: Vec<String> = ["systemctl", "daemon-reload"].map(str::to_owned).into();
    PersistedCommand {
        undo: argv.clone(),
        argv,
        after: vec![after.to_owned()],
        why: "systemd reads its units again".to_owned(),
        only_booted: true,
    }
}

/// The name of the first program, if it is not systemd. An image has none yet.
pub(super) fn other_init<'a>(context: &PersistContext<'a>) -> Option<&'a str> {
    match context.facts.boot.init.known() {
        Some(Init::Other(name)) if !context.is_image => Some(name),
        _ => None,
    }
}

/// `Before=` the server's unit, where it is named.
pub(super) fn before(context: &PersistContext<'_>) -> String {
    context.unit.map(|unit| format!("Before={unit}\n")).unwrap_or_default()
}
