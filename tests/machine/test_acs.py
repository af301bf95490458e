"""ACS on booted kernels: by argument, and by the unit. Three boots, five reboots.

The tree is that of two sockets: on each switch the ports of GPU and HCA are on the path, a third
port and the root ports are not. Before any of ours the kernel has redirection on at all of them.
"""

from __future__ import annotations

import re

import pytest

from dev.lab.machine import Guest
from dev.lab.qemu import Spec
from tests.machine.pool import Guests, Ran, gdr
from tests.machine.specs import GPU_PORT, HCA_PORT, INTEL, NEWER

pytestmark = pytest.mark.machine
BOOTS = 8
ON_PATH = (GPU_PORT, HCA_PORT, "0001:82:00.0", "0001:82:01.0")
BARE = 'role = "bare-metal"\n'
UNIT = "gdr-toolkit-acs.service"
# A command line that leaves no room for a list of bridges: 1900 bytes more in each entry.
CROWDED = (
    'sed -i "s/^[[:space:]]*linux[[:space:]].*/& crowd=$(printf %01900d 0)/" /boot/grub/grub.cfg'
)


def spaces(guest: Guest) -> dict[str, str]:
    """The config space of every function, in hexadecimal; what the link's status holds apart."""
    said = guest.run(
        "cd /sys/bus/pci/devices && for each in 0001:*; do"
        """ echo "$each $(od -An -v -tx1 $each/config | tr -d ' \\n')"; done"""
    ).out
    return dict(line.split(" ") for line in said.split("\n") if line)


def control(space: str) -> int:
    """The ACS control register, which the table puts at 106h; -1 without the capability."""
    data = bytes.fromhex(space)
    return int.from_bytes(data[0x106:0x108], "little") if data[0x100] == 0x0D else -1


def without_acs(space: str) -> str:
    return space[: 2 * 0x106] + space[2 * 0x108 :]


def assert_off_on_the_path_alone(before: dict[str, str], now: dict[str, str], left: int) -> None:
    """``left`` is what the path's control registers hold."""
    assert {each: control(now[each]) for each in ON_PATH} == dict.fromkeys(ON_PATH, left)
    others = before.keys() - set(ON_PATH)
    assert {each: control(now[each]) for each in others} == {
        each: control(before[each]) for each in others
    }
    assert before.keys() == now.keys()


def assert_well(ran: Ran) -> None:
    """What was said after the changes: nothing about ACS fails, and nothing was blocked."""
    after = ran.out.partition("\nafter\n")[2]
    assert after, ran.out + ran.err
    assert not re.search(r"^error: ", ran.out + ran.err, re.MULTILINE), ran.out + ran.err
    assert not re.search(r"^(fail|unknown) +acs\.", after, re.MULTILINE), after
    assert "blocked   acs." not in ran.out, ran.out


def test_a_unit_does_it_at_once_and_at_each_boot_where_no_argument_can(guests: Guests) -> None:
    guest = guests.fresh(INTEL)
    guest.run(CROWDED)
    before = spaces(guest)
    assert {control(before[each]) for each in ON_PATH} == {0x1D}
    assert_well(gdr(guest, "provision", "--yes", site=BARE + 'iommu = "any"\n', limit_s=300))
    now = spaces(guest)
    assert_off_on_the_path_alone(before, now, 0x11)
    assert {each: without_acs(now[each]) for each in now} == {
        each: without_acs(before[each]) for each in before
    }, "all else in config space is as it was, bit by bit"

    guest.reboot()
    assert_off_on_the_path_alone(before, spaces(guest), 0x11)
    ended, asked = guest.run(
        f"systemctl show -P ExecMainExitTimestampMonotonic {UNIT};"
        "systemctl show -P ExecMainStartTimestampMonotonic systemd-udev-trigger.service"
    ).out.split()
    assert 0 < int(ended) <= int(asked), "before udev asks for drivers"
    told = guest.run(f"journalctl -b -u {UNIT} -o cat").out
    assert "0001:12:00.0 (0001:10:01.0/00.0/00.0): ACSCtl 001d -> 0011" in told

    ran = gdr(guest, "rollback", "--yes", "--run", "all")
    assert_off_on_the_path_alone(before, spaces(guest), 0x1D)
    left = guest.run("ls -d /etc/gdr-toolkit* /run/gdr-toolkit/* /etc/systemd/system/*gdr*; true")
    assert left.out == "", ran.out


@pytest.mark.parametrize(
    ("spec", "argument", "said"),
    [
        pytest.param(INTEL, "pci=disable_acs_redir={paths}", "disabled ACS redirect", id="6.1"),
        pytest.param(NEWER, "pci=config_acs={marked}", "Configured ACS to 0x0011", id="6.12"),
    ],
)
def test_an_argument_does_it_from_the_next_boot_on(
    guests: Guests, spec: Spec, argument: str, said: str
) -> None:
    guest = guests.fresh(spec)
    before, line = spaces(guest), guest.cmdline
    assert_well(gdr(guest, "provision", "--yes", "--reboot", site=BARE, limit_s=600))
    assert_off_on_the_path_alone(before, spaces(guest), 0x11)
    paths = [f"0001:{bus}:01.0/00.0/{port}.0" for bus in (10, 80) for port in ("00", "01")]
    marked = ";".join(f"x0100x1@{each}" for each in paths)
    word = argument.format(paths=";".join(paths), marked=marked)

    first = guest.boot_id
    assert guest.reboot() != first
    assert word in guest.cmdline.split(" ")
    assert set(line.split()) <= set(guest.cmdline.split()), "what was there is there still"
    now = spaces(guest)
    assert_off_on_the_path_alone(before, now, 0x11)
    assert {each: without_acs(now[each]) for each in now} == {
        each: without_acs(before[each]) for each in before
    }, "all else in config space is as it was, bit by bit"
    named = re.findall(rf"pci (\S+): {said}", guest.run("dmesg").out)
    assert sorted(named) == sorted(ON_PATH)
