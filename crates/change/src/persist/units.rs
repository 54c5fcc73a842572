//! Functions that the recipes for systemd units share: the folder of units,
//! the link that starts a unit at boot, and the command that makes systemd read its units.

use evenkeel_host::facts::Init;

use super::recipe::PersistContext;
use crate::persist_plan::{Content, PersistedCommand, PersistedFile};

/// The folder for units of the machine's owner. These units override units of packages.
pub(super) const UNITS: &str = "/etc/systemd/system";

/// A unit of evenkeel, and the link that starts it at boot.
///
/// `systemctl enable` creates the same link.
/// The link belongs to `multi-user.target`, not to `sysinit.target`:
/// our units write to devices that drivers provide, and the early boot must not wait for drivers.
/// `Before=` names units that must start later.
pub(super) fn files(name: &str, text: String) -> [PersistedFile; 2] {
    let path = format!("{UNITS}/{name}");
    let link = PersistedFile {
        path: format!("{UNITS}/multi-user.target.wants/{name}"),
        content: Content::Link { target: path.clone() },
    };
    [PersistedFile { path, content: Content::Whole { text, mode: 0o644 } }, link]
}

/// The command that makes systemd read its units again.
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

/// The name of the init system, if it is not systemd. `None` for an image, where no init system runs yet.
pub(super) fn other_init<'a>(context: &PersistContext<'a>) -> Option<&'a str> {
    match context.facts.boot.init.known() {
        Some(Init::Other(name)) if !context.is_image => Some(name),
        _ => None,
    }
}

/// The `Before=` line that names the server's unit, if the unit is known.
pub(super) fn before(context: &PersistContext<'_>) -> String {
    context.unit.map(|unit| format!("Before={unit}\n")).unwrap_or_default()
}
