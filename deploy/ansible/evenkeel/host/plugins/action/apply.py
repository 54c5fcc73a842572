# SPDX-License-Identifier: MIT OR Apache-2.0
"""The controller's half of `apply`: reads goal files, and confirms a change with `try` over a new connection.

The host undoes a change that is not confirmed in time, by itself. So the controller only has to find out what became of it, however the
connection was lost: before the answer, with the answer, or after it.
"""
from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import shlex
import time

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.text.converters import to_text
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.evenkeel.host.plugins.module_utils.program import FOLDERS

display = Display()

# How much longer than `try` a lost host may take to be back.
GRACE_S = 60
# The time between two attempts to reach the host.
PAUSE_S = 1
# Without these, a session of ssh hangs until TCP gives up, which is many minutes after the host has undone the change.
KEEP_ALIVE = "-o ServerAliveInterval=5 -o ServerAliveCountMax=3"

# The line before the answer of the program.
MARK = "evenkeel-answers"


class ActionModule(ActionBase):
    """Runs the module, and confirms."""

    def run(self, tmp=None, task_vars=None):
        super(ActionModule, self).run(tmp, task_vars)
        arguments = dict(self._task.args)
        if arguments.get("goal") is not None:
            arguments["goal"] = self._goal(arguments["goal"])
        if arguments.get("try") in (None, "") or self._task.check_mode:
            return self._module(arguments, task_vars)
        return self._try(arguments, task_vars)

    def _module(self, arguments, task_vars):
        return self._execute_module(module_name="evenkeel.host.apply", module_args=arguments, task_vars=task_vars)

    def _goal(self, goal):
        """The part of a goal that hosts need. A path names a file of the controller."""
        if not isinstance(goal, dict):
            try:
                path = self._find_needle("files", to_text(goal))
                goal = self._loader.load_from_file(path)
            except AnsibleError as error:
                raise AnsibleActionFail("failed to read the goal: %s" % to_text(error))
        if not isinstance(goal, dict):
            raise AnsibleActionFail("failed to read the goal: it is no object")
        return dict((field, goal[field]) for field in ("format", "settings", "persist", "keep") if field in goal)

    def _try(self, arguments, task_vars):
        try:
            seconds = int(arguments["try"])
        except (TypeError, ValueError):
            return self._module(arguments, task_vars)
        self._keep_alive()
        history = self._history()
        result, lost = None, None
        try:
            result = self._module(arguments, task_vars)
        except AnsibleConnectionFailure as error:
            lost = error
        if result is not None and not waits_for_confirmation(result):
            return result
        if result is not None:
            before = result["transaction"]["id"] - 1
        elif history is not None:
            before = newest(history)
        else:
            # Without the numbers from before, nothing shows which change is this one. The host undoes it.
            raise lost
        transaction = self._confirmed(before, seconds)
        if transaction is None:
            raise lost or AnsibleActionFail("failed to confirm the change: the host's journal does not have it")
        if result is None:
            result = dict(plan=[], missed=[], diff=[])
        stays = transaction["status"] == "in-force"
        result.update(changed=stays, confirmed=stays, undone_by_host=not stays, transaction=transaction)
        if not stays:
            why = "the host could not be reached in time after the change, so it undid the change by itself after %s s"
            result.update(failed=True, msg=why % seconds)
            return result
        return self._persisted(result, arguments, task_vars)

    def _persisted(self, result, arguments, task_vars):
        """The files come last: a change that cuts the connection must not be back after a reboot."""
        persist, goal = arguments.get("persist"), arguments.get("goal") or {}
        is_wanted = bool(goal.get("persist") or goal.get("keep")) if persist is None else boolean(persist, strict=False)
        if not is_wanted:
            return result
        files = self._module(dict((name, value) for name, value in arguments.items() if name != "try"), task_vars)
        if files.get("failed"):
            files["changed"] = True
            return files
        merged = dict(result, **files)
        merged.update(changed=True, plan=result["plan"], diff=result["diff"] + files["diff"])
        merged.update(transaction=result["transaction"], persisted=files.get("transaction"))
        return merged

    def _confirmed(self, before, seconds):
        """Confirms the change over new connections, and returns it once it stays or is undone. None if it never began."""
        until = time.monotonic() + seconds + GRACE_S
        while True:
            self._reconnect()
            try:
                history = self._history()
                found = [one for one in history or [] if one["id"] > before and one["kind"] == "apply"]
                if history is not None and not found:
                    return None
                if found and not is_open(found[0]):
                    return found[0]
                if found and found[0]["status"] == "in-force":
                    self._ask(["confirm", str(found[0]["id"])])
                    found = [one for one in self._history() or [] if one["id"] == found[0]["id"]]
                    if found and not is_open(found[0]):
                        return found[0]
            except AnsibleConnectionFailure as error:
                if time.monotonic() > until:
                    raise
                display.vv("evenkeel: not reached again yet: %s" % to_text(error))
            if time.monotonic() > until:
                raise AnsibleActionFail("failed to confirm the change: it is neither confirmed nor undone after %s s" % seconds)
            time.sleep(PAUSE_S)

    def _history(self):
        """The transactions of the host's journal; None if the program gives no answer."""
        return self._ask(["history"]).get("transactions")

    def _ask(self, words):
        """One command of the program, over the connection alone. An answer that cannot be read is empty."""
        arguments = self._task.args
        argv = [to_text(arguments.get("executable") or "evenkeel"), "--json"] + words
        if arguments.get("state_dir"):
            argv += ["--state", to_text(arguments["state_dir"])]
        line = " ".join(shlex.quote(word) for word in argv)
        path = ":".join(["$PATH"] + FOLDERS)
        # With sudo there is a terminal, in which logins and standard error write too: the answer stands after a mark.
        done = self._low_level_execute_command("echo %s; PATH=%s %s 2>/dev/null" % (MARK, path, line), sudoable=True)
        answer = answer_of(done.get("stdout") or "")
        if not answer:
            display.vv("evenkeel: no answer of %s: %s" % (line, to_text(done.get("stderr") or done.get("stdout"))))
        return answer

    def _reconnect(self):
        """Ends a connection that ssh shares between tasks, so that the next one is new."""
        if self._connection.transport != "local" and hasattr(self._connection, "reset"):
            try:
                self._connection.reset()
            except (AnsibleError, OSError) as error:
                display.vv("evenkeel: the old connection did not end: %s" % to_text(error))

    def _keep_alive(self):
        if self._connection.transport != "ssh":
            return
        given = self._connection.get_option("ssh_extra_args") or ""
        if "ServerAliveInterval" not in given:
            self._connection.set_option("ssh_extra_args", ("%s %s" % (given, KEEP_ALIVE)).strip())
            self._reconnect()


def answer_of(text):
    """The object after the mark; empty if there is none."""
    try:
        answer = json.loads(text.rpartition(MARK)[2])
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def newest(transactions):
    """The highest number; 0 without any."""
    return max([one["id"] for one in transactions] or [0])


def waits_for_confirmation(result):
    """Whether the module left a change that will undo itself."""
    return not result.get("failed") and is_open(result.get("transaction") or {})


def is_open(transaction):
    """Whether a change is in force and will undo itself."""
    return "unconfirmed_seconds" in transaction and transaction.get("status") in ("in-force", "overdue")
