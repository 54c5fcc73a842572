"""Writes each result of a playbook as one line of JSON to the file that EVENKEEL_RECORD names, for lab/ansible/check.py."""
from __future__ import annotations

import json
import os

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: record
type: aggregate
short_description: Write each result as one line of JSON
description: For tests.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "record"
    CALLBACK_NEEDS_ENABLED = True

    def write(self, status, result):
        line = dict(status=status, host=result._host.name, task=result._task.get_name(), action=result._task.action)
        # Also the differences and the arguments, which are left out where people read.
        line["result"] = result._result
        with open(os.environ["EVENKEEL_RECORD"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line, cls=AnsibleJSONEncoder) + "\n")

    def v2_runner_on_ok(self, result):
        self.write("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.write("failed", result)

    def v2_runner_on_unreachable(self, result):
        self.write("unreachable", result)
