#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads what a host is."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: facts
short_description: Read what a host is, for servers that need steady latency
version_added: 0.1.0
description:
  - Reads hypervisor, instance type, CPUs, NUMA nodes, clock source, idle states, network queues and interrupts, memory,
    limits and kernel settings with C(evenkeel inspect). It changes nothing.
  - With O(capture=true) it also returns the host as one text, which every command of evenkeel reads on any machine.
author: The evenkeel authors (@evenkeel)
options:
  metadata:
    description: Ask the cloud for the instance type (EC2, Google Cloud, Azure; 100 ms at most).
    type: bool
    default: false
  capture:
    description:
      - Return the host as text, as C(evenkeel capture) writes it. The text has no host name and no address.
      - The playbook C(evenkeel.host.report) collects these texts.
    type: bool
    default: false
extends_documentation_fragment:
  - evenkeel.host.program
attributes:
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
"""

EXAMPLES = r"""
- name: Read the host
  evenkeel.host.facts:

- name: Only on machines of KVM
  ansible.builtin.debug:
    msg: "{{ ansible_facts.evenkeel.machine.hypervisor }}"
  when: ansible_facts.evenkeel.machine.hypervisor == 'kvm'

- name: Keep the host as a file on the controller
  evenkeel.host.facts:
    capture: true
  register: host
"""

RETURN = r"""
ansible_facts:
  description: The facts, as C(ansible_facts.evenkeel).
  returned: always
  type: dict
  contains:
    evenkeel:
      description:
        - The field C(facts) of C(evenkeel inspect --json). docs/formats.md of evenkeel describes it.
        - A fact that cannot be read is an object with C(unknown) and C(why), never 0 or empty.
      returned: always
      type: dict
capture:
  description: The host as text.
  returned: if O(capture=true)
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.evenkeel.host.plugins.module_utils.program import ARGUMENTS, Program


def main():
    spec = dict(metadata=dict(type="bool", default=False), capture=dict(type="bool", default=False))
    spec.update(ARGUMENTS)
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    program = Program(module)
    options = ["--metadata"] if module.params["metadata"] else []
    result = dict(changed=False)
    result["ansible_facts"] = dict(evenkeel=program.ask("inspect", options).data["facts"])
    if module.params["capture"]:
        result["capture"] = program.ask("capture", options).data["capture"]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
