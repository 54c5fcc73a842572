# SPDX-License-Identifier: MIT OR Apache-2.0
"""What to set: settings by hand, those of a goal, or what the audit advises. No part of it reads the host."""
from __future__ import absolute_import, division, print_function

__metaclass__ = type

# A goal has no more settings than this; evenkeel knows about a hundred knobs, some with a place for each queue.
SETTINGS_MAX = 10000


class WrongSelection(Exception):
    """The task's arguments cannot be meant."""


class Selection(object):
    """The words and options of `evenkeel apply` and `evenkeel diff`."""

    def __init__(self, settings=None, goal=None, advised=None, server=None, unit=None, persist=None):
        found = {}
        if goal is not None:
            settings, found = of_goal(goal)
        self.words = [checked(word) for word in settings or []]
        self.persist = bool(found) if persist is None else persist
        self.is_advised = bool(advised)
        self.options = ["--advised", "--goal", advised] if advised else []
        if server:
            self.options += ["--server", server]
        unit = unit or found.get("unit")
        if unit:
            self.options += ["--unit=%s" % unit]
        if not self.words and not advised:
            raise WrongSelection("nothing was named to set")

    def lasting(self):
        """The option that makes the settings outlive a boot, where it was asked for."""
        return ["--persist"] if self.persist else []


def of_goal(goal):
    """The settings of a goal, and what makes it outlive a boot. The rest of the file is for people and for `prove`."""
    if not isinstance(goal, dict):
        raise WrongSelection("the goal is no object: name the file of `evenkeel tune --out` or `evenkeel plan --output`")
    if goal.get("format") != 1:
        raise WrongSelection("the goal has format %s, and this collection knows 1" % goal.get("format"))
    settings = goal.get("settings")
    if not isinstance(settings, list) or not settings:
        raise WrongSelection("the goal has no settings")
    if len(settings) > SETTINGS_MAX:
        raise WrongSelection("the goal has more than %s settings" % SETTINGS_MAX)
    # The first versions of evenkeel wrote `keep`.
    persist = goal.get("persist") or goal.get("keep") or {}
    if not isinstance(persist, dict):
        raise WrongSelection("the field persist of the goal is no object")
    return settings, persist


def checked(word):
    """A setting as text. Without `=` the program would take the word for the path of a file on the host."""
    word = str(word)
    knob, equals, value = word.partition("=")
    if not (knob and equals and value):
        raise WrongSelection("expected KNOB=VALUE, and not %r" % word)
    return word
