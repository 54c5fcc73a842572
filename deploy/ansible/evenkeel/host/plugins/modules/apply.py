#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Changes settings of a host as one transaction."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: apply
short_description: Change settings of a host as one transaction
version_added: 0.1.0
description:
  - Applies settings with C(evenkeel apply). It records each old value before it changes the setting, and reads the new value back.
    If one setting fails, it restores all of them. The module M(evenkeel.host.revert) undoes the change later.
  - A second run changes nothing.
  - With O(try) the host undoes the change by itself, unless this controller reaches it again over a new connection.
    Use it for settings that may cut the connection.
author: The evenkeel authors (@evenkeel)
options:
  settings:
    description: What to set, as C(KNOB=VALUE), or C(KNOB@PLACE=VALUE) for one queue or interrupt alone.
    type: list
    elements: str
  goal:
    description:
      - A goal of C(evenkeel tune) or a plan of C(evenkeel plan), as the path of a file on the controller or as an object.
      - Only its settings go to the hosts. Its evidence, which may contain command lines, stays on the controller.
      - The hosts may have had other values before. This is the difference from C(evenkeel apply FILE), which refuses that.
    type: raw
  advised:
    description: Set what C(evenkeel audit) advises, in favour of this.
    type: str
    choices: [latency, throughput, density]
  server:
    description: With O(advised), what is known of the server, such as C(pps), C(cpus) and C(players).
    type: dict
  unit:
    description: The systemd unit of the server. Settings of its process go to a drop-in of that unit.
    type: str
  persist:
    description:
      - Keep the settings after a reboot too.
      - Without this option, a goal that was made with C(--persist) decides.
    type: bool
  try:
    description:
      - The host undoes the change after this number of seconds, unless the controller confirms it over a new connection.
      - If the connection stays lost, the task waits until the host has undone the change, and fails.
      - With O(persist=true), the files are written only after the confirmation.
    type: int
  keep_going:
    description: Record a setting that fails and continue, instead of undoing all. The result lists it in C(missed).
    type: bool
    default: false
extends_documentation_fragment:
  - evenkeel.host.program
  - evenkeel.host.program.state
attributes:
  check_mode:
    description: Returns the plan, and the difference that it would make.
    support: full
  diff_mode:
    description: Shows each value and each file before and after.
    support: full
"""

EXAMPLES = r"""
- name: Two settings
  evenkeel.host.apply:
    settings:
      - vm.swappiness=10
      - kernel.timer_migration=0
  become: true

- name: A proved goal, kept over reboots, undone if the host cannot be reached afterwards
  evenkeel.host.apply:
    goal: files/goal.json
    persist: true
    try: 60
  become: true
  register: tuned

- name: Reboot where a setting waits for it
  ansible.builtin.reboot:
  become: true
  when: tuned.reboot_required
"""

RETURN = r"""
transaction:
  description: What was done, step by step, as docs/formats.md of evenkeel describes it.
  returned: if something was changed
  type: dict
plan:
  description: The steps that change something, each with the value before (C(seen)) and after (C(wanted)).
  returned: always
  type: list
  elements: dict
persisted:
  description: With O(try) and O(persist), the second change, which wrote the files after the confirmation.
  returned: with O(try) and O(persist), if something was changed
  type: dict
missed:
  description: The steps that were not set. They failed under O(keep_going), or no write can set them.
  returned: if something was changed
  type: list
  elements: dict
pending:
  description: What is not in force yet, and what it waits for (reboot, start, hand). Also of earlier changes.
  returned: when not in check mode
  type: list
  elements: dict
reboot_required:
  description: Whether a setting waits for a reboot. In check mode, whether one would.
  returned: always
  type: bool
restart_required:
  description: Whether a setting waits for a start of a server or of a unit. In check mode, whether one would.
  returned: always
  type: bool
confirmed:
  description: With O(try), whether the change was confirmed over a new connection.
  returned: with O(try), if something was changed
  type: bool
undone_by_host:
  description: With O(try), whether the host undid the change because nobody confirmed it.
  returned: with O(try), if something was changed
  type: bool
exit_code:
  description: The exit code of the program, of a task that failed.
  returned: on failure
  type: int
outcome:
  description: The meaning of the exit code (no, wrong-use, not-allowed, not-possible, undone, not-undone).
  returned: on failure
  type: str
put_back:
  description: What was restored after a failure.
  returned: if a change failed half-way
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.evenkeel.host.plugins.module_utils.program import (
    ARGUMENTS,
    NO,
    NOT_POSSIBLE,
    PENDING,
    STATE,
    WELL,
    Program,
    server_words,
    value_diff,
)
from ansible_collections.evenkeel.host.plugins.module_utils.selection import Selection, WrongSelection
from ansible_collections.evenkeel.host.plugins.module_utils.waits import waits

TRY_SECONDS_MAX = 3600
# Outcomes of a step that is as requested, now or after what it waits for.
CHANGED = ("applied", "owned-by")
WAITING = ("pending-reboot", "pending-start")
GOOD = CHANGED + WAITING + ("already-so",)


class Change(object):
    """One change of this host: what it would do, and what it did."""

    def __init__(self, program, selection):
        self.program = program
        self.selection = selection
        difference = self.ask("diff", selection.lasting(), good=(WELL, NO)).data
        self.steps = difference["steps"]
        self.files = difference["files"]

    def ask(self, command, options, good=(WELL,), words=None):
        options = self.program.state + self.selection.options + list(options)
        return self.program.ask(command, options, self.selection.words if words is None else words, good)

    def tried_words(self):
        """The settings that a write to the running kernel sets: no other can cut a connection, and `--try` refuses them."""
        knobs = set(step["knob"] for step in self.writes())
        return [word for word in self.selection.words if word.partition("=")[0].partition("@")[0] in knobs]

    def writes(self):
        return [step for step in self.steps if step["action"] == "write"]

    def is_needed(self):
        """Whether `evenkeel apply` has something to do, or to refuse."""
        if self.files or self.writes():
            return True
        if self.selection.persist:
            # Files show what was requested, and they are in place. What cannot be persisted is for `evenkeel apply` to refuse.
            return False
        if self.selection.is_advised:
            # What only the server or a person can set is a hint of the audit here.
            waiting = [step for step in self.steps if step["action"] == "kernel-argument"]
        else:
            waiting = self.steps
        recorded = set((one["knob"], one["wanted"]) for one in self.verified()["pending"]) if waiting else ()
        return any((step["knob"], step["wanted"]) not in recorded for step in waiting)

    def refusal(self):
        """What `evenkeel apply` would refuse before it changes anything; None if nothing. Check mode asks this."""
        if self.selection.is_advised or len(self.writes()) == len(self.steps) and not self.selection.persist:
            return None
        plan = self.ask("plan", self.selection.lasting()).data
        persist = plan.get("persist")
        if persist:
            found = [one for one in persist.get("cannot", []) if one["setting"] in plan["settings"]]
            return "%(setting)s cannot outlive a boot: %(why)s; %(todo)s" % found[0] if found else None
        found = [step for step in plan["steps"] if step["action"] in ("hold", "by-hand", "process")]
        return "%(knob)s=%(wanted)s is nothing that a write to the host can set" % found[0] if found else None

    def verified(self):
        return self.program.ask("verify", self.program.state, good=(WELL, NO, PENDING)).data

    def planned_diff(self):
        return [value_diff(step["place"], step.get("seen"), step["wanted"]) for step in self.writes()] + self.file_diff()

    def file_diff(self):
        return [dict(prepared=file["diff"]) for file in self.files]

    def done_diff(self, transaction):
        """What the journal says was changed. The text of files is from before the change."""
        steps = [step for step in transaction["steps"] if step["outcome"] in CHANGED]
        diff = [value_diff(step["place"], step.get("before"), step["wanted"]) for step in steps]
        written = set(one["what"] for one in transaction.get("persisted", []) if one["changed"])
        return diff + [dict(prepared=file["diff"]) for file in self.files if file["path"] in written]

    def would_wait(self):
        """In check mode: what the steps would wait for."""
        actions = set(step["action"] for step in self.steps)
        needs_boot = any(step["takes_effect"] == "reboot" for step in self.steps)
        return dict(reboot_required=needs_boot or "kernel-argument" in actions, restart_required="process" in actions)


def selection_of(module):
    params = module.params
    try:
        return Selection(
            settings=params["settings"],
            goal=params["goal"],
            advised=params["advised"],
            server=server_words(params["server"]),
            unit=params["unit"],
            persist=params["persist"],
        )
    except WrongSelection as error:
        module.fail_json(msg="failed to select settings: %s" % error)


def apply(module, change):
    """Makes the change and returns the module's result."""
    params = module.params
    options, words = change.selection.lasting(), None
    # Files follow once the values are confirmed.
    if params["try"] and change.writes():
        refuse(module, change)
        options, words = ["--try", str(params["try"])], change.tried_words()
    if params["keep_going"]:
        options += ["--keep-going"]
    good = (WELL, NO) if params["keep_going"] else (WELL,)
    answer = change.ask("apply", options, good, words)
    transaction = answer.data.get("transaction")
    result = dict(changed=False, diff=[])
    if transaction:
        steps = transaction["steps"]
        missed = [step for step in steps if step["outcome"] not in GOOD]
        did = any(step["outcome"] in CHANGED + WAITING for step in steps)
        did = did or any(one["changed"] for one in transaction.get("persisted", []))
        result = dict(changed=did, transaction=transaction, missed=missed, diff=change.done_diff(transaction))
        for step in missed:
            module.warn("%s=%s was not set: %s" % (step["knob"], step["wanted"], step["outcome"]))
    return result


def refuse(module, change):
    """Ends the module if `evenkeel apply` would refuse the whole change, before a part of it is made."""
    refusal = change.refusal()
    if refusal:
        module.fail_json(msg=refusal, exit_code=NOT_POSSIBLE, outcome="not-possible", plan=change.steps)


def planned(module, change):
    """Ends the module in check mode, with what `evenkeel apply` would do or refuse."""
    refuse(module, change)
    if change.is_needed():
        module.exit_json(changed=True, plan=change.steps, diff=change.planned_diff(), **change.would_wait())
    module.exit_json(changed=False, plan=[], diff=[], **waits(change.verified()["pending"]))


def main():
    spec = {
        "settings": dict(type="list", elements="str"),
        "goal": dict(type="raw"),
        "advised": dict(type="str", choices=["latency", "throughput", "density"]),
        "server": dict(type="dict"),
        "unit": dict(type="str"),
        "persist": dict(type="bool"),
        "try": dict(type="int"),
        "keep_going": dict(type="bool", default=False),
    }
    spec.update(ARGUMENTS)
    spec.update(STATE)
    module = AnsibleModule(
        argument_spec=spec,
        supports_check_mode=True,
        mutually_exclusive=[("settings", "goal", "advised")],
        required_one_of=[("settings", "goal", "advised")],
        required_by=dict(server="advised"),
    )
    seconds = module.params["try"]
    if seconds is not None and not 1 <= seconds <= TRY_SECONDS_MAX:
        module.fail_json(msg="try is a number of seconds from 1 to %s, and not %s" % (TRY_SECONDS_MAX, seconds))
    program = Program(module)
    change = Change(program, selection_of(module))
    if module.check_mode:
        planned(module, change)
    if not change.is_needed() and not (change.selection.persist and change.steps):
        result = dict(changed=False, diff=[])
    else:
        result = apply(module, change)
    pending = change.verified()["pending"]
    plan = change.steps if result["changed"] else []
    module.exit_json(plan=plan, pending=pending, **dict(result, **waits(pending)))


if __name__ == "__main__":
    main()
