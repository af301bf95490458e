"""The vendor's nvidia-peermem on a node: loaded in order, gone, and in the stub's place.

One boot, of a guest whose modules DKMS has built; no reboot.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from dev.lab.machine import Guest
from tests.machine.pool import Guests, gdr, verdicts
from tests.machine.specs import peermem
from tests.machine.stack import STUB

pytestmark = pytest.mark.machine
BOOTS = 1


@pytest.fixture
def guest(guests: Guests) -> Guest:
    """With none of the path's modules loaded."""
    found = guests.shared(peermem())
    found.run("modprobe -r nvidia-peermem nvidia ib_uverbs 2>/dev/null; :")
    return found


def _doctor(guest: Guest) -> dict[str, tuple[str, str]]:
    """By a site that insists on peermem: this driver and kernel have dma-buf as well."""
    return verdicts(gdr(guest, "doctor", "--json", "--profile", "peermem"))


def _verified(guest: Guest) -> dict[str, str]:
    """What the shipped suite says of each check, by its JUnit file."""
    path = guest.folder / "verify.xml"
    gdr(guest, "verify", "--junit", str(path))
    ended = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = (
            case.get("name", "")
            .rpartition("[")[2]
            .rstrip("]")
            .removeprefix(f"toolkit://{guest.name}-")
        )
        ended[name] = next((each.tag for each in case if each.tag != "system-out"), "passed")
    return ended


def test_the_real_module_loads_after_what_it_rests_on_and_verify_sees_it(guest: Guest) -> None:
    guest.run("modprobe nvidia-peermem")
    loaded = [row.split() for row in guest.run("lsmod").out.splitlines()]
    users = {row[0]: row[3] if len(row) > 3 else "" for row in loaded}
    assert users["nvidia"] == users["ib_uverbs"] == "nvidia_peermem"
    assert "peer memory client nv_mem registered" in guest.run("dmesg").out
    cases = _verified(guest)
    for check in ("peermem.loaded", "peermem.bound", "peermem.stub"):
        assert cases[check] == "passed", cases
    assert guest.run("dkms status").out.count(": installed") == 2


def test_once_it_is_unloaded_doctor_says_so(guest: Guest) -> None:
    guest.run("modprobe nvidia-peermem && rmmod nvidia-peermem")
    told = _doctor(guest)
    assert told["peermem.loaded"] == ("fail", "nvidia-peermem is not loaded")
    assert told["peermem.file"][0] == "pass", "it can be loaded again"


def test_a_stub_in_its_place_is_named_and_the_kernel_refuses_it(guest: Guest) -> None:
    place = guest.run("modinfo -F filename nvidia-peermem").out.strip()
    guest.run(f"cp '{place}' /root/real.ko && cp {STUB} '{place}' && depmod")
    try:
        refused = guest.run("modprobe nvidia-peermem", check=False)
        assert refused.status, refused
        assert "Invalid argument" in refused.err
        told = _doctor(guest)
        assert told["peermem.stub"][0] == "fail", told["peermem.stub"]
        assert "stub" in told["peermem.stub"][1]
    finally:
        guest.run(f"cp /root/real.ko '{place}' && depmod")
