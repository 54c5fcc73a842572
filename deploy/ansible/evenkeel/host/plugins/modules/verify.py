#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks whether applied settings still hold."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: verify
short_description: Check whether applied settings still hold
version_added: 0.1.0
description:
  - Reads the values in force with C(evenkeel verify), not the files that set them at boot.
  - Drift fails the task, unless O(fail_on_drift=false). A missing reboot or restart does not, and is reported.
author: The evenkeel authors (@evenkeel)
options:
  fail_on_drift:
    description: Fail if a value is not as applied, or if a change was interrupted.
    type: bool
    default: true
extends_documentation_fragment:
  - evenkeel.host.program
  - evenkeel.host.program.state
attributes:
  check_mode:
    description: Reads only. The program itself undoes a change that nobody confirmed in time, in check mode too.
    support: full
"""

EXAMPLES = r"""
- name: Do the settings hold?
  evenkeel.host.verify:
  become: true

- name: Only look
  evenkeel.host.verify:
    fail_on_drift: false
  become: true
  register: found

- name: Show what differs
  ansible.builtin.debug:
    var: found.drift
  when: found.drift
"""

RETURN = r"""
holds:
  description: How many values and files are as applied.
  returned: always
  type: int
drift:
  description: The others, each with the value in force, the likely cause, and the command that repairs it.
  returned: always
  type: list
  elements: dict
pending:
  description: What is not in force yet, and what it waits for (reboot, start, hand).
  returned: always
  type: list
  elements: dict
interrupted:
  description: Numbers of changes that were killed half-way.
  returned: always
  type: list
  elements: int
ended_by_reboot:
  description: Numbers of changes whose values the kernel lost at a reboot.
  returned: always
  type: list
  elements: int
overdue:
  description: Numbers of changes that nobody confirmed in time and that are still in force.
  returned: always
  type: list
  elements: int
reboot_required:
  description: Whether a setting waits for a reboot.
  returned: always
  type: bool
restart_required:
  description: Whether a setting waits for a start of a server or of a unit.
  returned: always
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.evenkeel.host.plugins.module_utils.program import ARGUMENTS, NO, PENDING, STATE, WELL, Program
from ansible_collections.evenkeel.host.plugins.module_utils.waits import waits


def main():
    spec = dict(fail_on_drift=dict(type="bool", default=True))
    spec.update(ARGUMENTS)
    spec.update(STATE)
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    program = Program(module)
    answer = program.ask("verify", program.state, good=(WELL, NO, PENDING))
    fields = ("drift", "pending", "interrupted", "ended_by_reboot", "overdue")
    result = dict(changed=False, holds=answer.data["holds"], exit_code=answer.code)
    result.update((field, answer.data.get(field, [])) for field in fields)
    result.update(waits(result["pending"]))
    if answer.code == NO and module.params["fail_on_drift"]:
        knobs = sorted(set(drift["knob"] for drift in result["drift"]))
        what = "no longer as applied: %s" % ", ".join(knobs) if knobs else "a change was interrupted or is overdue"
        module.fail_json(msg=what, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
