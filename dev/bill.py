"""The toolkit's own bill of materials, written from its lock file. Pure.

CycloneDX 1.5 (https://cyclonedx.org/docs/1.5/json/): each package that an installation brings, its
version, the hashes of the files that may be installed, and what brings it. Without a time stamp:
the same lock has the same bill. Wheels carry it as PEP 770 says.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from typing import Any

FILE = "gdr-toolkit.cdx.json"
_PACKAGE = re.compile(r"([A-Za-z0-9][\w.-]*)==(\S+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"    #(?: via|  ) ([A-Za-z0-9][\w.-]*)")
_OURS = "gdr-toolkit"


@dataclass(frozen=True, slots=True)
class Locked:
    """One package of a lock file."""

    name: str
    version: str
    hashes: tuple[str, ...]  # SHA-256 of each file that may be installed
    via: tuple[str, ...]  # names of what needs it

    @property
    def ref(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def locked(text: str) -> tuple[Locked, ...]:
    """The packages of what ``uv pip compile --generate-hashes`` wrote, in its order."""
    found: list[Locked] = []
    for part in re.split(r"(?m)^(?=[A-Za-z0-9])", text):
        package = _PACKAGE.match(part)
        if package:
            via = tuple(each for each in _VIA.findall(part) if each != "via")
            found.append(Locked(package[1], package[2], tuple(_HASH.findall(part)), via))
    return tuple(found)


def bill(version: str, lock: str) -> str:
    """The document.

    :param version: the toolkit's own.
    :param lock: the text of requirements.lock.
    """
    packages = locked(lock)
    told = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{_OURS} {version}\n{lock}").urn,
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": _OURS,
                "name": _OURS,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(each) for each in packages],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(p.ref for p in packages if name in p.via)}
            for name, ref in ((_OURS, _OURS), *((each.name, each.ref) for each in packages))
        ],
    }
    return json.dumps(told, indent=1) + "\n"


def _component(package: Locked) -> dict[str, Any]:
    """One package; its files' hashes are properties, for it is any one of them."""
    return {
        "type": "library",
        "bom-ref": package.ref,
        "name": package.name,
        "version": package.version,
        "purl": package.ref,
        "properties": [{"name": "gdr-toolkit:sha256", "value": each} for each in package.hashes],
    }
