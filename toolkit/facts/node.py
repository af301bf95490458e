"""One machine, read lazily from its evidence; it remembers what it cited."""

from __future__ import annotations

from toolkit.facts.node_bmc import Bmcs
from toolkit.facts.node_builds import Builds
from toolkit.facts.node_companions import Companions
from toolkit.facts.node_consumers import Consumers
from toolkit.facts.node_fabric import Fabric
from toolkit.facts.node_files import Files
from toolkit.facts.node_firmware import Firmware
from toolkit.facts.node_health import Health
from toolkit.facts.node_imported import Imported
from toolkit.facts.node_modules import Modules
from toolkit.facts.node_passport import Passports
from toolkit.facts.node_platform import Platforms
from toolkit.facts.node_stack import Stack
from toolkit.facts.node_system import System
from toolkit.facts.node_topology import Topology


class Node(
    Platforms,
    Files,
    Firmware,
    System,
    Modules,
    Builds,
    Stack,
    Health,
    Topology,
    Fabric,
    Companions,
    Consumers,
    Imported,
    Bmcs,
    Passports,
):
    """One machine. Asking for a fact that was not read raises NoEvidence or Unparsable.

    Its facts stand in files by what they tell of; a new one goes where its kin are.
    """
