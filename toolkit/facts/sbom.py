"""The bill of materials of what we placed, as CycloneDX 1.5 has it (ECMA-424 is its 1.6).

Source: https://cyclonedx.org/docs/1.5/json/. Without a time stamp and with a serial number made
from the content, so that the same image has the same bill.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_SPEC = "1.5"


@dataclass(frozen=True, slots=True)
class Component:
    """One file that was placed; a kernel module where it has the name of one."""

    path: str
    sha256: str
    module: str = ""  # "nvidia_peermem"; "" for a file that is no module
    version: str = ""
    licence: str = ""  # as the module declares it: "Dual BSD/GPL"
    needs: tuple[str, ...] = ()  # paths of other components


# The document's values are those of JSON, and have no common type.
def bill_of(
    system: str, toolkit: str, components: Sequence[Component], content: str
) -> dict[str, Any]:
    """One CycloneDX document.

    :param system: what they were placed in: "debian 12".
    :param content: what the serial number is made from.
    """
    name, _, version = system.partition(" ")
    image: dict[str, Any] = {"type": "operating-system", "bom-ref": "image", "name": name}
    if version:
        image["version"] = version
    paths = {each.path for each in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {"type": "application", "name": "gdr-toolkit", "version": toolkit},
                ],
            },
            "component": image,
        },
        "components": [_component(each) for each in components],
        "dependencies": [
            {"ref": "image", "dependsOn": sorted(paths)},
            *(
                {"ref": each.path, "dependsOn": sorted(set(each.needs) & paths)}
                for each in components
            ),
        ],
    }


def _component(each: Component) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": "device-driver" if each.module else "file",
        "bom-ref": each.path,
        "name": each.module or each.path,
    }
    if each.version:
        told["version"] = each.version
    told["hashes"] = [{"alg": "SHA-256", "content": each.sha256}]
    if each.licence:
        told["licenses"] = [{"license": {"name": each.licence}}]
    if each.module:
        told["properties"] = [{"name": "gdr-toolkit:path", "value": each.path}]
    return told
