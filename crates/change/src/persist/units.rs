//! What the recipes that write systemd units share: where units go, what makes one start at boot, what makes systemd read them.

use evenkeel_host::facts::Init;

use super::Ground;
use crate::keep::{Content, KeptCommand, KeptFile};

/// Where units of the machine's owner are: they go before those of packages.
pub(super) const UNITS: &str = "/etc/systemd/system";

/// The longest name of a unit, as systemd bounds it.
const NAME_BYTES_MAX: usize = 255;

/// A unit of ours, and the link that makes it start at boot.
///
/// The link is what `systemctl enable` makes. It hangs on `multi-user.target`, not on `sysinit.target`: our units write to devices
/// that drivers bring, and nothing of the early boot may wait for that. Who must not start before them is named in `Before=`.
pub(super) fn files(name: &str, text: String) -> [KeptFile; 2] {
    let path = format!("{UNITS}/{name}");
    let link = KeptFile {
        path: format!("{UNITS}/multi-user.target.wants/{name}"),
        content: Content::Link { target: path.clone() },
    };
    [KeptFile { path, content: Content::Whole { text, mode: 0o644 } }, link]
}

/// The command that makes systemd read its units anew.
pub(super) fn daemon_reload(after: &str) -> KeptCommand {
    let argv: Vec<String> = ["systemctl", "daemon-reload"].map(str::to_owned).into();
    KeptCommand {
        undo: argv.clone(),
        argv,
        after: vec![after.to_owned()],
        why: "systemd reads its units anew".to_owned(),
        only_booted: true,
    }
}

/// The name of the first program, if it is not systemd. An image has none yet.
pub(super) fn other_init<'a>(ground: &Ground<'a>) -> Option<&'a str> {
    match ground.facts.boot.init.known() {
        Some(Init::Other(name)) if !ground.is_image => Some(name),
        _ => None,
    }
}

/// `Before=` the server's unit, where it is named and may be.
pub(super) fn before(ground: &Ground<'_>) -> String {
    ground.unit.filter(|unit| is_service(unit)).map(|unit| format!("Before={unit}\n")).unwrap_or_default()
}

/// Whether a text is the name of a service, as `systemd.unit(5)` has it: it becomes a path, so it is bounded here.
pub(super) fn is_service(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    let stem = name.strip_suffix(".service").unwrap_or_default();
    let is_template = stem.ends_with('@');
    !stem.is_empty()
        && !is_template
        && !stem.starts_with(['.', '-', '@'])
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_services_name_is_no_path_and_no_option() {
        for name in ["memcached.service", "game@1.service", "a-b_c.d:e.service", r"dev-sda\x2d1.service"] {
            assert!(is_service(name), "{name}");
        }
        let long = format!("{}.service", "a".repeat(250));
        let bad = [
            "",
            ".service",
            "memcached",
            "memcached.socket",
            "../x.service",
            "a/b.service",
            "a b.service",
            "a\n.service",
        ];
        for name in
            bad.into_iter().chain(["-x.service", "..service", "game@.service", "@a.service", "ä.service", &long])
        {
            assert!(!is_service(name), "{name}");
        }
    }
}
