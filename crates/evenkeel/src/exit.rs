//! The exit codes: one for each outcome, the same for every command. So scripts need not parse messages.

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The code that the shell sees.
    pub(crate) code: u8,
    /// The meaning of the code, for `--help`, the manual and docs/formats.md.
    pub(crate) meaning: &'static str,
}

/// Success.
pub(crate) const WELL: Exit = Exit { code: 0, meaning: "success" };

/// The answer to a yes-or-no question is no.
pub(crate) const NO: Exit =
    Exit { code: 1, meaning: "the answer is no: drift, findings at the --fail-on level, or a verdict of worse" };

/// The arguments, or a file that they name, are invalid.
pub(crate) const WRONG_USE: Exit =
    Exit { code: 2, meaning: "wrong use: an unknown option or knob, a value out of range, a file that cannot be read" };

/// The kernel does not allow the action to this user.
pub(crate) const NOT_ALLOWED: Exit = Exit { code: 3, meaning: "permission denied: most often it needs root" };

/// This machine cannot do the action. More privileges would not help.
pub(crate) const NOT_POSSIBLE: Exit = Exit { code: 4, meaning: "this machine cannot do it, with or without root" };

/// A change failed, and evenkeel undid it: the machine is in its earlier state.
pub(crate) const UNDONE: Exit = Exit { code: 5, meaning: "a change failed half-way, and all of it was undone" };

/// A change failed, and evenkeel could not undo it completely.
pub(crate) const NOT_UNDONE: Exit =
    Exit { code: 6, meaning: "a change failed, and part of it could not be undone: the output lists what" };

/// Nothing failed, but the rest takes effect only after a reboot or a restart.
pub(crate) const PENDING: Exit = Exit {
    code: 7,
    meaning: "active as far as it can be now; the rest needs a reboot, a restart or the end of a trial",
};

/// The user stopped the command. Everything is restored, and the command reports its measurements so far.
pub(crate) const STOPPED: Exit =
    Exit { code: 8, meaning: "stopped by a signal before the end; what was measured until then is reported" };

/// All exit codes, in order.
pub(crate) const ALL: [Exit; 9] =
    [WELL, NO, WRONG_USE, NOT_ALLOWED, NOT_POSSIBLE, UNDONE, NOT_UNDONE, PENDING, STOPPED];

/// The table of exit codes at the end of `--help` and of the manual.
pub(crate) fn table() -> String {
    let lines = ALL.iter().map(|exit| format!("  {}  {}", exit.code, exit.meaning));
    format!("Exit codes:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
