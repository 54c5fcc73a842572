# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls the evenkeel program and understands its answers and exit codes. Every module of the collection goes through here."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json

# The exit codes of docs/formats.md.
WELL, NO, WRONG_USE, NOT_ALLOWED, NOT_POSSIBLE, UNDONE, NOT_UNDONE, PENDING, STOPPED = range(9)

OUTCOMES = {
    WELL: "success",
    NO: "no",
    WRONG_USE: "wrong-use",
    NOT_ALLOWED: "not-allowed",
    NOT_POSSIBLE: "not-possible",
    UNDONE: "undone",
    NOT_UNDONE: "not-undone",
    PENDING: "pending",
    STOPPED: "stopped",
}

HINTS = {
    NOT_ALLOWED: "run the task with become",
    UNDONE: "the host is as it was before",
    NOT_UNDONE: "part of the change could not be undone: see put_back, and run the module revert",
}

# The formats of the answers that the modules read. Fields may be added under the same number.
FORMAT = 1

# Folders besides PATH, because a session of ssh often lacks them.
FOLDERS = ["/usr/local/bin", "/opt/evenkeel/bin"]

ARGUMENTS = dict(executable=dict(type="str", default="evenkeel"))
STATE = dict(state_dir=dict(type="path"))


class Answer(object):
    """One answer of the program: its exit code, and the object that it printed."""

    def __init__(self, code, data):
        self.code = code
        self.data = data

    @property
    def outcome(self):
        return OUTCOMES.get(self.code, "unknown")

    @property
    def error(self):
        return self.data.get("error") or {}


class Program(object):
    """The program on this host."""

    def __init__(self, module):
        self.module = module
        name = module.params["executable"]
        self.path = module.get_bin_path(name, opt_dirs=FOLDERS)
        if not self.path:
            module.fail_json(
                msg="failed to find the program %s on this host; the role evenkeel.host.tune installs it" % name
            )
        state = module.params.get("state_dir")
        self.state = ["--state", state] if state else []

    def run(self, command, options=(), words=()):
        """Runs one command and returns its Answer, whatever its exit code. `words` are never taken for options."""
        argv = [self.path, "--json"] + command.split() + list(options)
        if words:
            argv += ["--"] + list(words)
        code, out, err = self.module.run_command(argv)
        try:
            data = json.loads(out)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            self.module.fail_json(
                msg="failed to read the answer of evenkeel %s: it is no JSON object" % command,
                exit_code=code,
                stdout=out[:2000],
                stderr=err[:2000],
            )
        if data.get("format") != FORMAT:
            self.module.fail_json(
                msg="failed to read the answer of evenkeel %s: it has format %s, and this collection knows %s"
                % (command, data.get("format"), FORMAT)
            )
        return Answer(code, data)

    def ask(self, command, options=(), words=(), good=(WELL,)):
        """Runs one command, and fails the module unless the exit code is one of `good`."""
        answer = self.run(command, options, words)
        if answer.code not in good or answer.error:
            self.fail(command, answer)
        return answer

    def fail(self, command, answer, **more):
        """Fails the module with what the program said, and what its exit code means."""
        message = answer.error.get("message") or "evenkeel %s ended with exit code %s (%s)" % (
            command,
            answer.code,
            answer.outcome,
        )
        hints = [answer.error.get("hint"), HINTS.get(answer.code)]
        for hint in hints:
            if hint:
                message += "; %s" % hint
        result = dict(msg=message, exit_code=answer.code, outcome=answer.outcome, changed=answer.code == NOT_UNDONE)
        for field in ("transaction", "put_back"):
            if field in answer.data:
                result[field] = answer.data[field]
        result.update(more)
        self.module.fail_json(**result)


def server_words(server):
    """The value of --server, from a dictionary. None if there is nothing to say."""
    if not server:
        return None
    return ",".join("%s=%s" % (key, server[key]) for key in sorted(server))


def value_diff(place, before, after):
    """One value before and after, in the form that Ansible shows with --diff."""
    before, after = ("" if value is None else "%s\n" % value for value in (before, after))
    return dict(before_header=place, after_header=place, before=before, after=after)
