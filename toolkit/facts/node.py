"""One machine, read lazily from its evidence; it remembers what it cited."""

from __future__ import annotations

from toolkit.facts.node_devices import Devices
from toolkit.facts.node_modules import Modules
from toolkit.facts.node_stack import Stack
from toolkit.facts.node_system import System


class Node(System, Modules, Stack, Devices):
    """One machine. Asking for a fact that was not read raises NoEvidence or Unparsable.

    Its facts stand in four files by what they tell of; a new one goes where its kin are.
    """
