"""Evidence of the healthy node with what its BMC said put beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.evidence.build import node
from tests.evidence.frames import Override
from tests.unit.bios_personas import Row, entry
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.want import Want

ADDRESS = "192.0.2.7"
DMI = "sys_vendor:Dell Inc.\nproduct_name:PowerEdge XE9680\nproduct_serial:B5XH3S3\n"


@dataclass(frozen=True, slots=True)
class Bmc:
    """What a BMC said."""

    rows: tuple[Row, ...] = ()
    pending: Mapping[str, object] = field(default_factory=dict)
    serial: str = "B5XH3S3"
    model: str = "PowerEdge XE9680"
    secure: Mapping[str, object] | None = None  # the SecureBoot resource
    trouble: str = ""  # why it could not be read

    def frames(self) -> list[Frame]:
        """As they are put into the node's evidence."""
        if self.trouble:
            return [Frame("bmc", State.FAILED, ADDRESS, f"{self.trouble}\n", 1)]
        served = {each.name: each.value for each in self.rows if not each.unserved}
        known = {"RegistryEntries": {"Attributes": [entry(each) for each in self.rows]}}
        system = {"Manufacturer": "Dell Inc.", "Model": self.model, "SerialNumber": self.serial}
        texts = {
            "bmc": f"address {ADDRESS}\nverified ca\nvendor Dell Inc.\n",
            "bmc-system": json.dumps(system) + "\n",
            "bmc-bios": json.dumps({"Attributes": served}) + "\n",
            "bmc-bios-pending": json.dumps({"Attributes": dict(self.pending)}) + "\n",
            "bmc-bios-registry": json.dumps(known) + "\n",
        }
        if self.secure is not None:
            texts["bmc-secureboot"] = json.dumps(self.secure) + "\n"
        return [Frame(key, State.OK, "redfish", text) for key, text in texts.items()]

    def beside(self, frames: Mapping[str, Override] | None = None) -> Evidence:
        """The healthy node, but for ``frames``, with this BMC."""
        return node({"dmi": DMI, **(frames or {})}).plus(self.frames())


def found(check: str, evidence: Evidence, want: Want | None = None) -> Finding:
    return BY_ID[check](Node(evidence), want or Want()).finding
