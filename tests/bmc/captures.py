"""Personas seeded with what real machines served, read where the captures lie."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from tests.bmc.persona import Manners, Persona
from tests.bmc.personas import PERSONAS
from tests.bmc.rules import Resource

CAPTURES = Path(__file__).parents[2].parent / "shared" / "redfish"
_NAMES = ("test_captures.py", "test_client_captures.py")
OF_CAPTURES = [Path(__file__).with_name(name) for name in _NAMES]  # the tests that need them

# Whose manners each capture has: the tree is the machine's, what it does is ours.
OF = {"dell": "dell", "hpe": "hpe", "lenovo": "lenovo", "nvidia_gb200": "grace"}


def present() -> tuple[str, ...]:
    """The captures that are here."""
    return tuple(name for name in OF if (CAPTURES / name).is_dir())


def captured(name: str) -> Persona:
    """A BMC that serves one capture, and takes changes as its maker's do."""
    made = Persona(name, dict(_files(CAPTURES / name)), PERSONAS[OF[name]]().manners)
    return replace(made, manners=_manners(made, made.manners))


def _files(folder: Path) -> list[tuple[str, Resource]]:
    files = sorted(folder.rglob("index.json"))
    return [(f"/{file.parent.relative_to(folder)}", json.loads(file.read_text())) for file in files]


def _manners(made: Persona, usual: Manners) -> Manners:
    """As usual, but for what the capture itself tells: apply times and kinds of reset."""
    settings = made.tree[made.bios]["@Redfish.Settings"]
    action = made.tree[made.system]["Actions"]["#ComputerSystem.Reset"]
    kinds = action.get("ResetType@Redfish.AllowableValues")
    if kinds is None:
        info = made.tree[made.find(action["@Redfish.ActionInfo"])]
        kinds = info["Parameters"][0]["AllowableValues"]
    times = tuple(settings.get("SupportedApplyTimes", ()))
    return replace(usual, apply_times=times, resets=tuple(kinds))
