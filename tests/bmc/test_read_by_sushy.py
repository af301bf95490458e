"""sushy, which knows nothing of our simulator, reads it as it would read a BMC."""

from __future__ import annotations

import pytest

from tests.bmc.bysushy import sushy_on, system_of
from tests.bmc.conftest import Simulate
from tests.bmc.personas import PERSONAS


@pytest.mark.parametrize("name", sorted(PERSONAS))
def test_sushy_reads_what_is_in_force_and_what_waits(name: str, simulate: Simulate) -> None:
    bmc = simulate(name)
    first, now = next(iter(bmc.machine.active.items()))
    bmc.machine.pending[first] = f"not {now}"
    with sushy_on(bmc) as root:
        bios = system_of(root).bios
        assert bios.attributes == bmc.machine.active
        if bmc.persona.name != "gigabyte":  # which announces no pending resource
            assert bios.pending_attributes[first] == f"not {now}"


@pytest.mark.parametrize("name", sorted(PERSONAS))
def test_sushy_leaves_no_session_and_writes_nothing(name: str, simulate: Simulate) -> None:
    bmc = simulate(name)
    with sushy_on(bmc) as root:
        assert bmc.sessions == 1
        assert system_of(root).power_state.value == "On"
    assert (bmc.sessions, bmc.logins) == (0, 1)
    assert bmc.log.writes == ()


# Not on those that name it otherwise, or not at all: sushy goes by the exact name.
@pytest.mark.parametrize("name", ["dell", "hpe", "lenovo", "dgx", "gigabyte"])
def test_sushy_finds_the_registry(name: str, simulate: Simulate) -> None:
    bmc = simulate(name)
    with sushy_on(bmc) as root:
        registry = system_of(root).bios.get_attribute_registry()
        names = {each.name for each in registry.registry_entries.attributes}
    assert names >= bmc.machine.active.keys()


def test_who_asks_for_the_connection_to_end_is_told_that_it_does(simulate: Simulate) -> None:
    """Sushy asks so each time; not told, it now and then writes to one that is ending."""
    with sushy_on(simulate("dell")) as root:
        told = root._conn.get("/redfish/v1/")
    assert told.headers["Connection"] == "close"
