"""A group's domain is changed under a real kernel, and never the one that carries us. One boot."""

from __future__ import annotations

import re

import pytest

from dev.lab.machine import Guest
from dev.lab.qemu import Spec
from tests.machine.pool import Guests, gdr
from toolkit.errors import ExitCode

pytestmark = pytest.mark.machine
BOOTS = 1
# Beside the card that SSH comes by, one that nobody uses.
SPARE = ("-netdev", "user,id=spare,restrict=on", "-device", "virtio-net-pci,netdev=spare,romfile=")
TWO_CARDS = Spec(iommu="intel", extra=SPARE)


def _cards(guest: Guest) -> dict[str, str]:
    """Network cards' addresses: the one that our session comes by, and the other."""
    ours = guest.run("ip -o route get 10.0.2.2 | sed 's/.* dev \\([^ ]*\\).*/\\1/'").out.strip()
    told = guest.run(
        "for each in /sys/class/net/*/device; do "
        'echo "$(basename "${each%/device}") $(readlink -f "$each")"; done'
    ).out
    found = {}
    for line in told.splitlines():
        name, path = line.split(" ")
        address = re.findall(r"0000:[0-9a-f:]+\.[0-7]", path)[-1]
        found["ours" if name == ours else "spare"] = address
    return found


def _group(guest: Guest, address: str) -> str:
    link = guest.run(f"readlink /sys/bus/pci/devices/{address}/iommu_group").out
    return link.strip().rpartition("/")[2]


def test_an_idle_card_gets_another_domain_and_back_and_ours_is_refused(guests: Guests) -> None:
    guest = guests.fresh(TWO_CARDS)
    cards = _cards(guest)
    ours, spare = (_group(guest, cards[each]) for each in ("ours", "spare"))
    before, boot = guest.groups(), guest.boot_id
    assert before[ours] == before[spare] == "DMA-FQ"

    refused = gdr(guest, "iommu", "--yes", "--device", cards["ours"])
    assert refused.status == ExitCode.STOPPED, refused.out + refused.err
    assert "our SSH session from" in refused.out
    assert guest.groups() == before

    disk = guest.run("readlink -f /sys/class/block/vda").out
    address = re.findall(r"0000:[0-9a-f:]+\.[0-7]", disk)[-1]
    refused = gdr(guest, "iommu", "--yes", "--device", address)
    assert refused.status == ExitCode.STOPPED, refused.out + refused.err
    assert "the disk vda is on it" in refused.out
    assert guest.groups() == before

    asked = gdr(guest, "iommu", "--check", "--device", cards["spare"])
    assert asked.status == ExitCode.PENDING, asked.out + asked.err
    gdr(guest, "iommu", "--yes", "--device", cards["spare"], check=True)
    assert guest.groups() == before | {spare: "identity"}
    log = guest.run("journalctl -q --no-pager -b -o cat -t gdr-toolkit").out
    assert f"iommu {spare}/identity/" in log
    assert " who=" in log
    assert cards["spare"] == _cards(guest)["spare"], "its driver has it again"

    gdr(guest, "iommu", "--yes", "--undo", check=True)
    assert guest.groups() == before
    assert _cards(guest) == cards
    assert guest.boot_id == boot
