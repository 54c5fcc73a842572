# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options that every module of the collection has."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type


class ModuleDocFragment(object):
    DOCUMENTATION = r"""
options:
  executable:
    description:
      - The evenkeel program on the host, by its path or its name.
      - A name is looked up in C(PATH), C(/usr/local/bin) and C(/opt/evenkeel/bin).
    type: str
    default: evenkeel
requirements:
  - The C(evenkeel) program on the host. The role M(evenkeel.host.tune) installs it.
notes:
  - A program that answers with a format that this collection does not know is an error, never a guess.
"""

    STATE = r"""
options:
  state_dir:
    description:
      - The folder of evenkeel's journal on the host.
      - The program's own default is C(/var/lib/evenkeel) for root.
    type: path
"""
