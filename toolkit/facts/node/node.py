"""One machine, read lazily from its evidence; it remembers what it cited."""

from __future__ import annotations

from toolkit.facts.node.accelerator_stack import Companions, Consumers
from toolkit.facts.node.builds import Builds, Passports
from toolkit.facts.node.fabric import Fabric
from toolkit.facts.node.files import Files
from toolkit.facts.node.health import Health
from toolkit.facts.node.modules import KernelModules
from toolkit.facts.node.pasted_logs import Imported, ToldPorts, ToldStack, Traffic
from toolkit.facts.node.platform import Bmcs, Firmware, Platforms
from toolkit.facts.node.stack import Stack
from toolkit.facts.node.system import System
from toolkit.facts.node.topology import Topology


class Node(
    Platforms,
    Files,
    Firmware,
    System,
    KernelModules,
    Builds,
    Stack,
    Health,
    Topology,
    Fabric,
    Companions,
    Consumers,
    Imported,
    ToldPorts,
    ToldStack,
    Bmcs,
    Passports,
    Traffic,
):
    """One machine. Asking for a fact that was not read raises NoEvidence or Unparsable.

    Its facts stand in files by what they tell of; a new one goes where its kin are.
    """
