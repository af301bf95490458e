"""The vendor's nvidia-peermem is there before what starts jobs, as the journal of a boot tells.

Guests of their own, with three reboots: loaded by modules-load.d; not to be found by it, since the
driver comes late; and the same with the unit of ours. slurmd is a stand-in; it notes what it finds.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from dev.lab.machine import Guest
from tests.machine.pool import Guests, gdr, verdicts
from tests.machine.specs import peermem
from toolkit.facts.modules.load_order import OURS
from toolkit.plan.artefacts_modules import ORDER
from toolkit.plan.templates import render_text

pytestmark = pytest.mark.machine
BOOTS = 3
SLURMD = """[Service]
ExecStartPre=/bin/sh -c 'ls -d /sys/module/nvidia_peermem >/run/slurmd-found 2>&1; true'
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""
# The driver's modules are put in place by it and no sooner, at each boot.
OPENIBD = """[Unit]
Before=slurmd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'cp /root/kept/* /lib/modules/$(uname -r)/updates/ && depmod'
ExecStop=/bin/sh -c 'rm -f /lib/modules/$(uname -r)/updates/nvidia*.ko*; depmod'
[Install]
WantedBy=multi-user.target
"""
_AWAY = """mkdir -p /root/kept
find /lib/modules/$(uname -r)/updates -name 'nvidia*.ko*' -exec mv {} /root/kept \\;
depmod
systemctl enable -q openibd
"""


@pytest.fixture
def guest(guests: Guests) -> Guest:
    found = guests.fresh(peermem())
    found.put("/etc/systemd/system/slurmd.service", SLURMD)
    found.put("/etc/modules-load.d/site.conf", "nvidia-peermem\n")
    found.run("systemctl enable -q slurmd")
    return found


def _order(guest: Guest) -> tuple[str, str]:
    """Once the boot is through: SSH answers before slurmd is begun."""
    guest.run("systemctl is-system-running --wait; :")
    return verdicts(gdr(guest, "doctor", "--json"))["peermem.order"]


def _found(guest: Guest) -> str:
    return guest.run("cat /run/slurmd-found").out.strip()


def _noted(guest: Guest) -> str:
    return guest.run("journalctl -q --no-pager -b -t systemd-modules-load").out


def test_it_is_loaded_before_slurmd_begins_and_verify_shows_it(
    guest: Guest, tmp_path: Path
) -> None:
    guest.reboot()
    status, found = _order(guest)
    assert status == "pass", (found, _noted(guest))
    assert "Inserted module 'nvidia_peermem'" in _noted(guest)
    assert found.startswith("inserted ")
    assert _found(guest) == "/sys/module/nvidia_peermem"
    gdr(guest, "verify", "--junit", str(tmp_path / "verify.xml"))
    cases = ElementTree.parse(tmp_path / "verify.xml").getroot().iter("testcase")
    outcome = {str(each.get("name")): [inner.tag for inner in each] for each in cases}
    for check in ("peermem.loaded", "peermem.bound", "peermem.order"):
        [case] = [tags for case, tags in outcome.items() if check + "]" in case]
        assert not {"failure", "skipped", "error"} & set(case), (check, case)


def test_a_driver_that_comes_late_is_told_and_our_unit_mends_it(guest: Guest) -> None:
    guest.put("/etc/systemd/system/openibd.service", OPENIBD)
    guest.run(_AWAY)
    guest.reboot()
    status, found = _order(guest)
    assert status == "fail", (found, _noted(guest))
    assert found.startswith("Failed to find module 'nvidia-peermem'")
    assert "No such file" in _found(guest)

    for each in ORDER[:2]:
        guest.put(each.path, render_text(each.template, {}))
    guest.reboot()
    status, found = _order(guest)
    assert status == "pass", (found, guest.run(f"systemctl status {OURS}; :").out)
    assert found.startswith(f"{OURS} was up ")
    assert _found(guest) == "/sys/module/nvidia_peermem"
