"""Our client before real machines' resources: read as sushy reads them, and changed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.bmc.bysushy import sushy_on, system_of
from tests.bmc.captures import captured, present
from tests.bmc.client import bmc_on, by_key
from tests.bmc.rules import entries, locked
from tests.bmc.simulator import Simulator
from tests.bmc.tls import Authority
from toolkit.evidence import State
from toolkit.redfish.client import JobState
from toolkit.redfish.registry import RegistryCache


@pytest.mark.parametrize("name", present())
def test_our_client_and_sushy_read_the_same_of_a_capture(name: str, authority: Authority) -> None:
    with Simulator(captured(name), authority) as bmc:
        with bmc_on(bmc) as ours:
            frames = by_key(ours.read(RegistryCache()))
        with sushy_on(bmc) as root:
            theirs = system_of(root).bios
            ours_now = json.loads(frames["bmc-bios"].text)["Attributes"]
            assert (ours_now.keys(), _but_secrets(ours_now)) == (
                theirs.attributes.keys(),
                _but_secrets(theirs.attributes),
            )
            waiting = json.loads(frames["bmc-bios-pending"].text).get("Attributes")
            assert _but_secrets(waiting) == _but_secrets(theirs.pending_attributes)
        assert (bmc.sessions, bmc.log.writes) == (0, ())


@pytest.mark.parametrize("name", present())
def test_every_capture_has_its_registry_found(name: str, authority: Authority) -> None:
    with Simulator(captured(name), authority) as bmc:
        with bmc_on(bmc) as ours:
            frame = by_key(ours.read(RegistryCache()))["bmc-bios-registry"]
        served = bmc.persona.tree[bmc.persona.registry]
    assert frame.state is State.OK
    assert entries(json.loads(frame.text)).keys() == entries(served).keys()


@pytest.mark.parametrize("name", present())
def test_a_capture_is_changed_over_a_boot_and_read_again(name: str, authority: Authority) -> None:
    with Simulator(captured(name), authority) as bmc:
        attribute, value = _other(bmc)
        with bmc_on(bmc) as ours:
            answer = ours.change({attribute: value}, "OnReset")
            assert bmc.machine.active[attribute] != value
            ours.reset("ForceRestart")
            end = time.monotonic() + 30
            while bmc.machine.posting or ours.job(answer).state is JobState.RUNNING:
                assert time.monotonic() < end
                time.sleep(0.02)
            frames = by_key(ours.read(RegistryCache()))
        assert json.loads(frames["bmc-bios"].text)["Attributes"][attribute] == value
        assert len(bmc.log.of("PATCH")) == 1


def _but_secrets(values: dict[str, Any]) -> dict[str, Any]:
    """Without the hashes of passwords, which one maker serves and our client keeps out."""
    return {name: value for name, value in values.items() if "Password" not in name}


def _other(bmc: Simulator) -> tuple[str, str]:
    """An enumeration that can be written, and a value that it does not have."""
    shut = locked(bmc.machine.registry, bmc.machine.active)
    for name, entry in entries(bmc.machine.registry).items():
        values = [each["ValueName"] for each in entry.get("Value", [])]
        now = bmc.machine.active.get(name)
        if name not in shut and now in values and len(values) > 1:
            return name, next(each for each in values if each != now)
    raise AssertionError("nothing can be written")
