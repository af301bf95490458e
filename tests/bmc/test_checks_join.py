"""Doctor beside real HTTPS: what the system shows and what its BMC says, in one verdict."""

from __future__ import annotations

import json

import pytest

from tests.bmc.client import bmc_on
from tests.bmc.conftest import Simulate
from tests.bmc.personas import PERSONAS
from tests.bmc.simulator import Simulator
from tests.evidence.build import node
from toolkit.checks.all import ALL
from toolkit.checks.check import Finding, Status
from toolkit.evidence import Evidence, Frame, State
from toolkit.facts.node.node import Node
from toolkit.redfish.registry import RegistryCache
from toolkit.want import Role, Want

FIRMWARE = [each for each in ALL if each.id.startswith("bios.")]


def judged(evidence: Evidence, role: Role = Role.BARE_METAL) -> dict[str, Finding]:
    seen = Node(evidence)
    return {each.id: each(seen, Want(role=role)).finding for each in FIRMWARE}


def read(simulated: Simulator) -> tuple[Frame, ...]:
    with bmc_on(simulated) as bmc:
        return bmc.read(RegistryCache())


def beside(frames: tuple[Frame, ...], *, own: bool = True) -> Evidence:
    """The healthy node with this BMC; it has the BMC's serial number, or another."""
    system = json.loads(next(each.text for each in frames if each.key == "bmc-system"))
    serial = system.get("SKU") or system.get("SerialNumber", "")
    dmi = f"product_name:{system.get('Model', '')}\nproduct_serial:{serial if own else 'OTHER1'}\n"
    return node({"dmi": dmi}).plus(frames)


@pytest.mark.parametrize("name", sorted(PERSONAS))
def test_every_maker_is_joined_and_none_makes_a_failure_of_what_is_right(
    name: str, simulate: Simulate
) -> None:
    alone, both = judged(node()), judged(beside(read(simulate(name))))
    shown = [at for at, each in both.items() if any(": current " in d for d in each.details)]
    assert len(shown) >= 4, shown
    for at, each in both.items():
        assert each.status is not Status.FAIL, (at, each)
        assert (each.status is Status.PASS) >= (alone[at].status is Status.PASS), (at, each)


@pytest.mark.parametrize("name", sorted(PERSONAS))
def test_what_was_read_is_judged_alike_when_it_was_saved(name: str, simulate: Simulate) -> None:
    evidence = beside(read(simulate(name)))
    assert judged(Evidence.parse(evidence.dump())) == judged(evidence)


def test_a_change_that_waits_for_the_boot_is_seen_as_pending(simulate: Simulate) -> None:
    bmc = simulate("dell")
    bmc.machine.pending["PcieAspmL1"] = "Enabled"
    finding = judged(beside(read(bmc)))["bios.aspm"]
    assert finding.status is Status.PASS
    assert "PcieAspmL1: current Disabled, pending Enabled, wanted off" in finding.details


def test_the_bmc_of_another_machine_is_left_out(simulate: Simulate) -> None:
    found = judged(beside(read(simulate("dell")), own=False))
    said = found["bios.above_4g"].details
    assert len(said) == 1
    assert "sits in another machine" in said[0]


def test_a_bmc_that_could_not_be_read_leaves_the_system_to_judge(simulate: Simulate) -> None:
    dead = Frame("bmc", State.TIMEOUT, "192.0.2.7", "192.0.2.7: no answer in time\n")
    found = judged(node().plus([dead]))
    alone = judged(node())
    assert all(each.status is alone[at].status for at, each in found.items())
    assert found["bios.above_4g"].details == ("BMC: 192.0.2.7: no answer in time",)
