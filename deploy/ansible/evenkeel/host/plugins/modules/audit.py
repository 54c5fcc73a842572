#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Lists the settings that are worth changing on a host."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: audit
short_description: List the settings that are worth changing on a host
version_added: 0.1.0
description:
  - Returns what C(evenkeel audit) advises on the host, each finding with its reason, its risk and its sources. It changes nothing.
author: The evenkeel authors (@evenkeel)
options:
  favour:
    description: What to favour if settings conflict.
    type: str
    choices: [latency, throughput, density]
    default: latency
  server:
    description: What is known of the server, such as C(pps), C(cpus) and C(players).
    type: dict
  metadata:
    description: Ask the cloud for the instance type (EC2, Google Cloud, Azure; 100 ms at most).
    type: bool
    default: false
  waivers:
    description:
      - A TOML file on the host with findings to accept.
      - The program's own default is C(/etc/evenkeel/waivers.toml), if it is there.
    type: path
  fail_on:
    description: Fail if there are findings at this level or above. Waived findings do not count.
    type: str
    choices: [set, owned-by, blocked, unknown]
extends_documentation_fragment:
  - evenkeel.host.program
attributes:
  check_mode:
    description: Reads only, so check mode is the same.
    support: full
"""

EXAMPLES = r"""
- name: What would suit a server with 64 players?
  evenkeel.host.audit:
    server:
      players: 64
      pps: 3840
  register: audit

- name: Show the settings that it advises
  ansible.builtin.debug:
    msg: "{{ audit.advice | selectattr('state', 'equalto', 'set') | map(attribute='id') | list }}"

- name: Stop a deployment to a host that is not tuned
  evenkeel.host.audit:
    fail_on: set
"""

RETURN = r"""
advice:
  description: The findings, the most urgent first, as docs/formats.md of evenkeel describes them.
  returned: always
  type: list
  elements: dict
  sample:
    - id: vm.swappiness
      knob: vm.swappiness
      state: set
      current: "60"
      wanted: "10"
      effect: large
counts:
  description: The number of findings by state.
  returned: always
  type: dict
  sample: {set: 8, keep: 37}
settings:
  description: The advised settings as C(KNOB@PLACE=VALUE), which M(evenkeel.host.apply) takes.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.evenkeel.host.plugins.module_utils.program import ARGUMENTS, NO, WELL, Program, server_words


def options_of(params):
    options = ["--goal", params["favour"]]
    server = server_words(params["server"])
    for option, value in (("--server", server), ("--waivers", params["waivers"]), ("--fail-on", params["fail_on"])):
        if value:
            options += [option, value]
    return options + (["--metadata"] if params["metadata"] else [])


def result_of(advice):
    counts = {}
    for finding in advice:
        counts[finding["state"]] = counts.get(finding["state"], 0) + 1
    wanted = [finding for finding in advice if finding["state"] == "set" and "wanted" in finding]
    settings = ["%s@%s=%s" % (finding["knob"], finding["place"], finding["wanted"]) for finding in wanted]
    return dict(changed=False, advice=advice, counts=counts, settings=settings)


def main():
    spec = dict(
        favour=dict(type="str", choices=["latency", "throughput", "density"], default="latency"),
        server=dict(type="dict"),
        metadata=dict(type="bool", default=False),
        waivers=dict(type="path"),
        fail_on=dict(type="str", choices=["set", "owned-by", "blocked", "unknown"]),
    )
    spec.update(ARGUMENTS)
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    answer = Program(module).ask("audit", options_of(module.params), good=(WELL, NO))
    result = result_of(answer.data["advice"])
    if answer.code == NO:
        level = module.params["fail_on"]
        module.fail_json(msg="the audit has findings at level %s or above" % level, exit_code=NO, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
