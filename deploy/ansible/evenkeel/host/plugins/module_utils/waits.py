# SPDX-License-Identifier: MIT OR Apache-2.0
"""What settings wait for, in the words of a playbook."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type


def waits(pending):
    """Whether a reboot or a restart is missing, from the field `pending` of `evenkeel verify`."""
    reasons = set(one.get("waits_for") for one in pending)
    return dict(reboot_required="reboot" in reasons, restart_required="start" in reasons)
