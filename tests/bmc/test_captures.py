"""Real machines' resources, served and changed: every capture that is here."""

from __future__ import annotations

import pytest

from tests.bmc.bysushy import sushy_on, system_of
from tests.bmc.captures import captured, present
from tests.bmc.plain import plain
from tests.bmc.rules import entries, locked
from tests.bmc.simulator import Simulator
from tests.bmc.tls import Authority

SIZES = {"dell": 455, "hpe": 277, "lenovo": 348, "nvidia_gb200": 403}


@pytest.mark.parametrize("name", present())
def test_sushy_reads_a_capture_as_it_was_captured(name: str, authority: Authority) -> None:
    with Simulator(captured(name), authority) as bmc, sushy_on(bmc) as root:
        bios = system_of(root).bios
        assert len(bios.attributes) == SIZES[name]
        assert bios.attributes == bmc.persona.tree[bmc.persona.bios]["Attributes"]


@pytest.mark.parametrize("name", present())
def test_every_writable_choice_of_a_capture_can_be_made(name: str, authority: Authority) -> None:
    with Simulator(captured(name), authority, post_s=0) as bmc:
        wanted = _others(bmc)
        assert len(wanted) > 30
        wrong = bmc.machine.wrong(wanted)
        assert wrong == ()


@pytest.mark.parametrize("name", present())
def test_a_capture_takes_a_change_over_a_boot(name: str, authority: Authority) -> None:
    with Simulator(captured(name), authority, post_s=0) as bmc:
        attribute, value = next(iter(_others(bmc).items()))
        when = "OnReset" if "OnReset" in bmc.manners.apply_times else ""
        with plain(bmc) as client:
            assert client.patch({attribute: value}, when).status_code in {200, 202, 204}
            assert client.reset("ForceRestart") == 204
            assert client.get(bmc.persona.bios)["Attributes"][attribute] == value


def _others(bmc: Simulator) -> dict[str, str]:
    """For each enumeration that can be written: a value that it does not have."""
    shut = locked(bmc.machine.registry, bmc.machine.active)
    found = {}
    for name, entry in entries(bmc.machine.registry).items():
        now = bmc.machine.active.get(name)
        values = [each["ValueName"] for each in entry.get("Value", [])]
        if name not in shut and now in values and len(values) > 1:
            found[name] = next(each for each in values if each != now)
    return found
