"""Real BIOSes beside a healthy node: nothing that the system shows to be right is called wrong."""

from __future__ import annotations

import json

import pytest

from tests.corpus.bios_captures import CAPTURES, texts
from tests.evidence.build import node
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.checks.firmware.bios import check_id
from toolkit.compat.bios import BiosRole
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.want import Role, Want

KEYS = {
    "bios": "bmc-bios",
    "registry": "bmc-bios-registry",
    "pending": "bmc-bios-pending",
    "system": "bmc-system",
}


def beside(name: str, serial: str = "") -> Evidence:
    """The healthy node with a capture's BMC; its serial number is the capture's own."""
    served = texts(name)
    system = json.loads(served["system"])
    own = system.get("SKU") or system.get("SerialNumber") or ""
    dmi = f"product_name:{system.get('Model')}\nproduct_serial:{serial or own}\n"
    frames = [Frame("bmc", State.OK, "redfish", "address 192.0.2.7\nverified ca\n")]
    frames += [Frame(KEYS[k], State.OK, "redfish", f"{text}\n") for k, text in served.items()]
    return node({"dmi": dmi}).plus(frames)


def judged(evidence: Evidence, setting: BiosRole, role: Role) -> Finding:
    return BY_ID[check_id(setting)](Node(evidence), Want(role=role)).finding


@pytest.mark.parametrize("role", [Role.BARE_METAL, Role.VM_HOST])
@pytest.mark.parametrize("name", CAPTURES)
def test_no_real_bios_makes_a_failure_on_a_healthy_node(name: str, role: Role) -> None:
    alone, both = node(), beside(name)
    for setting in BiosRole:
        before, after = judged(alone, setting, role), judged(both, setting, role)
        assert after.status is not Status.FAIL, (setting, after)
        if before.status is Status.PASS:
            assert after.status is Status.PASS, (setting, after)
        assert not any("contradiction" in each for each in after.details), (setting, after)


@pytest.mark.parametrize("name", CAPTURES)
def test_a_setting_that_neither_shows_is_not_exposed(name: str) -> None:
    finding = judged(beside(name), BiosRole.RESIZABLE_BAR, Role.BARE_METAL)
    assert finding.status is Status.NA
    assert finding.found.startswith("not exposed by this BIOS")


def test_a_real_bmc_beside_another_node_is_left_out() -> None:
    finding = judged(beside("dell", serial="ANOTHER1"), BiosRole.ABOVE_4G, Role.BARE_METAL)
    assert finding.status is Status.PASS
    assert len(finding.details) == 1
    assert "sits in another machine" in finding.details[0]
