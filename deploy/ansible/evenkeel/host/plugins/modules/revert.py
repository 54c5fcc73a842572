#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Undoes changes of evenkeel."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: revert
short_description: Undo one change of evenkeel, or all of them
version_added: 0.1.0
description:
  - Puts back the values and files of one transaction, or of all, with C(evenkeel revert). A second run changes nothing.
author: The evenkeel authors (@evenkeel)
options:
  transaction:
    description: The number of the change, as C(evenkeel history) lists it. Without it, all changes are undone.
    type: int
extends_documentation_fragment:
  - evenkeel.host.program
  - evenkeel.host.program.state
attributes:
  check_mode:
    description: Reports the transactions that would be undone.
    support: full
  diff_mode:
    description: Shows each value before and after. In check mode it reads them from the journal.
    support: full
"""

EXAMPLES = r"""
- name: Everything as it was before
  evenkeel.host.revert:
  become: true

- name: Undo one change
  evenkeel.host.revert:
    transaction: 3
  become: true
"""

RETURN = r"""
transactions:
  description: What was undone, the newest first. In check mode, what would be undone.
  returned: always
  type: list
  elements: dict
all_undone:
  description: Whether everything is as before.
  returned: when not in check mode
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.evenkeel.host.plugins.module_utils.program import (
    ARGUMENTS,
    NO,
    OUTCOMES,
    STATE,
    WELL,
    WRONG_USE,
    Program,
    value_diff,
)

# A transaction with one of these has nothing left to undo.
OVER = ("reverted", "rolled-back")
# Outcomes of a step that `revert` puts back.
TO_UNDO = ("applied", "owned-by", "interrupted", "tried", "not-put-back")


def has_to_undo(transaction):
    """Whether something of it is still there. A reboot ends values of the kernel, and leaves files."""
    has_files = any(one["changed"] for one in transaction.get("persisted", []))
    has_values = any(step["outcome"] in TO_UNDO for step in transaction["steps"])
    if transaction["status"] == "ended-by-reboot":
        return has_files
    return transaction["status"] not in OVER and (has_files or has_values)


def planned(program, number):
    """The transactions that `revert` would undo now, the newest first, and the values that would change."""
    history = program.ask("history", program.state, good=(WELL, NO)).data["transactions"]
    mine = [one for one in history if number in (None, one["id"])]
    if number is not None and not mine:
        # As `evenkeel revert` refuses it.
        message = "failed to revert transaction %s: it does not exist" % number
        program.module.fail_json(msg=message, exit_code=WRONG_USE, outcome=OUTCOMES[WRONG_USE], changed=False)
    found = sorted((one for one in mine if has_to_undo(one)), key=lambda one: one["id"], reverse=True)
    diff = [
        value_diff(step["place"], step["wanted"], step["before"])
        for one in found
        for step in reversed(one["steps"])
        if step["outcome"] in ("applied", "owned-by")
    ]
    return found, diff


def did_change(report):
    """Whether the report of `revert` says that something was put back."""
    for one in report["transactions"]:
        files = one.get("files", []) + one.get("persisted", [])
        if any(file["undo"] in ("restored", "foreign", "ran") for file in files):
            return True
    return False


def done_diff(report):
    """Each value that was put back: what was there, and what is now."""
    files = [file for one in report["transactions"] for file in one.get("files", [])]
    return [value_diff(file["place"], file.get("found"), file.get("before")) for file in files if "found" in file]


def main():
    spec = dict(transaction=dict(type="int"))
    spec.update(ARGUMENTS)
    spec.update(STATE)
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    program = Program(module)
    number = module.params["transaction"]
    if module.check_mode:
        found, diff = planned(program, number)
        module.exit_json(changed=bool(found), transactions=found, diff=diff)
    answer = program.run("revert", program.state, [str(number)] if number is not None else [])
    report = answer.data
    if answer.error or "transactions" not in report:
        program.fail("revert", answer)
    result = dict(changed=did_change(report), diff=done_diff(report))
    result.update(transactions=report["transactions"], all_undone=report["all_undone"])
    if answer.code != WELL:
        program.fail("revert", answer, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
