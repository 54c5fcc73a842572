//! The undo of a change as shell commands, for a person without this program.

use evenkeel_host::Reading;

use crate::exclusive_pair::{self, Old};
use crate::outcome::SideEffect;
use crate::shell;

/// The shell commands that restore a value, in order: first the file, then the files that a write to it changed.
/// In an exclusive pair, the commands write only the file that was in use.
pub(crate) fn undo_commands(path: &str, reading: Reading, before: &str, along: &[SideEffect]) -> String {
    let text = reading.text(before);
    let sides = along.iter().map(|side| Old { path: &side.path, text: &side.before });
    let writes = exclusive_pair::writes(Old { path, text: &text }, sides.collect());
    let commands: Vec<String> = writes.iter().map(|old| shell::write_line(old.path, old.text)).collect();
    commands.join("; ")
}
