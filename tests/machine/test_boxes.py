"""Boxes that have something to say: each fails what its row names, and no other case.

One boot, from the disk that is packed into the box; the broken ones go on from where it
came to rest, broken by the program that breaks them when they are made: one of them, and by
GDR_NIGHT all, two with a reboot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.lab.box import box_disk
from dev.lab.making import _write_down
from dev.lab.rows import rows
from dev.run import ROOT
from tests.laws import NIGHT
from tests.machine.boxes import BOARD, Boxed, suites
from tests.machine.pool import Guests

pytestmark = pytest.mark.machine
BOOTS = 1 + 2 * NIGHT
BOXES = {name: row for name, row in rows().items() if "fails" in row}
BROKEN = [name for name in BOXES if name != "healthy"]
# What the healthy node of our evidence has and the box cannot show: clocks of an emulated
# processor, perftest with CUDA, and a newer driver.
NOT_SHOWN = {"bios.power_profile", "perftest.path", "nvidia.topo_gate", "pcie.hostbridge"}


@pytest.fixture(scope="module")
def healthy(_pool: Guests, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boxed]:
    """A machine of the healthy box, booted and at rest."""
    _pool.close()
    guest = Boxed("healthy", tmp_path_factory.mktemp("box") / "healthy", BOARD)
    guest.prepare(box_disk("healthy"))
    try:
        guest.start()
        guest.wait()
        guest.run("systemctl is-system-running --wait; sync", check=False)
        yield guest
    finally:
        guest.remove()


def test_the_healthy_one_passes_ninety_cases_and_fails_none(healthy: Boxed) -> None:
    cases = suites(healthy, BOXES["healthy"]["profile"])
    assert cases.failed == set(BOXES["healthy"]["fails"].split()), cases.said
    assert len(cases.passed) >= 90
    text = (ROOT / "tests/evidence/healthy.verdicts").read_text().partition("# dmabuf")[0]
    shown = set(re.findall(r"^pass +(\S+):", text, re.MULTILINE)) - NOT_SHOWN
    assert {name: why for name, why in cases.skipped.items() if name in shown} == {}


@pytest.fixture(scope="module")
def rested(healthy: Boxed) -> Path:
    """Its disk and its state, as it came to rest."""
    _write_down(healthy, healthy.folder / "state")
    healthy.stop()
    return healthy.folder


@pytest.mark.parametrize("name", BROKEN if NIGHT else ["lost-gpu"])
def test_a_broken_one_fails_what_its_row_names(name: str, rested: Path, tmp_path: Path) -> None:
    guest = Boxed(name, tmp_path / name, BOARD)
    guest.prepare(rested / "disk.qcow2", rested / "state")
    try:
        guest.start()
        guest.wait()
        guest.run(f"/usr/lib/gdr-box/defect {name}")
        if name in {"acs", "iommu"}:  # the kernel reads its command line when it boots
            guest.reboot()
        cases = suites(guest, BOXES[name]["profile"])
    finally:
        guest.remove()
    assert cases.failed == set(BOXES[name]["fails"].split()), cases.said
