//! Runs the tutorials' commands that measure the reader's machine.
//! These commands must work on this machine, and leave nothing behind.

use std::path::Path;

use evenkeel_testkit::{HostLock, needs_root};

use crate::tutorials_run::{ReaderFolder, project, steps};

/// Puts root's journal and the register of holders into a separate mount namespace, which ends with the command.
const APART: &str = "mount -t tmpfs none /var/lib && mount -t tmpfs none /run && exec \"$@\"";

#[test]
fn live_blocks_work_here_and_leave_nothing() {
    if needs_root("commands with sudo, in a mount namespace") {
        return;
    }
    let _host = HostLock::take();
    let swappiness = || std::fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    let there = || ["/var/lib/evenkeel", "/run/evenkeel"].map(|path| Path::new(path).exists());
    let before = (swappiness(), there());
    for page in ["first-ten-minutes", "prove-a-setting", "apply-and-revert", "fifty-hertz-server", "fleet-image"] {
        let text = std::fs::read_to_string(project().join("docs/tutorials").join(page).with_extension("md")).unwrap();
        // One shell runs the whole page, so that a later command finds the journal of an earlier command.
        // Each command must succeed by itself.
        let step = |command: &str| format!("sh -c {} || exit 1", shlex::try_quote(command).unwrap());
        let script: Vec<String> = steps(&text).iter().map(|one| step(&one.command)).collect();
        let script = script.join("\n");
        let output = ReaderFolder::new().run_script(&script, &["unshare", "--mount", "sh", "-c", APART, "apart"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}: {said}\n{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_eq!((swappiness(), there()), before, "settings and folders are as before");
}
