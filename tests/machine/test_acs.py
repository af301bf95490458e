"""ACS on booted kernels: by the unit, and by argument on 6.12. Two boots, two reboots.

By argument on 6.1: test_boot_once.py, which boots a changed line anyway.
"""

from __future__ import annotations

import pytest

from tests.machine.acs import (
    BARE,
    ON_PATH,
    PATHS,
    assert_argued,
    assert_off_on_the_path_alone,
    assert_well,
    control,
    spaces,
    without_acs,
)
from tests.machine.pool import Guests, gdr
from tests.machine.specs import INTEL, NEWER

pytestmark = pytest.mark.machine
BOOTS = 4
UNIT = "gdr-toolkit-acs.service"
# A command line that leaves no room for a list of bridges: 1900 bytes more in each entry.
CROWDED = (
    'sed -i "s/^[[:space:]]*linux[[:space:]].*/& crowd=$(printf %01900d 0)/" /boot/grub/grub.cfg'
)


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


def test_an_argument_does_it_from_the_next_boot_on(guests: Guests) -> None:
    guest = guests.fresh(NEWER)
    before, line = spaces(guest), guest.cmdline
    assert_well(gdr(guest, "provision", "--yes", "--reboot", site=BARE, limit_s=600))
    marked = ";".join(f"x0100x1@{each}" for each in PATHS)
    assert_argued(guest, before, f"pci=config_acs={marked}", "Configured ACS to 0x0011")
    assert set(line.split()) <= set(guest.cmdline.split()), "what was there is there still"
