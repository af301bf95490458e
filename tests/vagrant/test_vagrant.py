"""``vagrant up``, then the suites against ``vagrant://``: a real machine from a box of ours."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dev.lab.box import box
from dev.lab.machine import factor
from dev.lab.rows import rows
from tests.machine.boxes import RUN, read
from tests.vagrant.ground import Ground, GroundError

pytestmark = pytest.mark.vagrant

UP_S = 180  # on an idle machine it takes a third of that; multiplied by factor()
SUITE_S = 120
NAME = "debian12"
HOST = f"vagrant://{NAME}"


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    made = {name: box(name, tell) for name in (NAME, "healthy")}
    with Ground() as opened:
        boxes = opened.folder / "boxes"
        boxes.mkdir()
        for name, path in made.items():
            (boxes / f"{name}.box").symlink_to(path)
        yield opened


@pytest.fixture(scope="module")
def up(ground: Ground) -> str:
    """The machine, running; what ``vagrant up`` printed."""
    return _up(ground)


def _up(ground: Ground, *name: str) -> str:
    began = time.monotonic()
    status, printed = ground.run("vagrant", "up", *name, "--no-tty", limit_s=UP_S * factor())
    tell(f"vagrant up: {time.monotonic() - began:.0f} s")
    if status:
        raise GroundError(printed[-3000:])
    # Who logs in while it still boots sees modules come between two questions.
    settled = ("vagrant", "ssh", *name, "--no-tty", "-c", "systemctl is-system-running --wait")
    ground.run(*settled, limit_s=UP_S * factor())
    return printed


def toolkit(ground: Ground, *words: str) -> tuple[int, str]:
    """The toolkit as its users run it, where Vagrant's machines can be reached."""
    return ground.run(sys.executable, "-m", *words, limit_s=SUITE_S * factor())


def test_up_without_a_name_starts_the_box_of_ours(up: str) -> None:
    assert up.count("Bringing machine") == 1
    assert "Bringing machine 'debian12' up with 'libvirt' provider" in up
    assert "Adding box 'gdr-toolkit/debian12'" in up
    assert "Machine booted and ready!" in up


def test_the_machine_is_as_the_vagrantfile_says(ground: Ground, up: str) -> None:
    script = "ls /sys/kernel/iommu_groups | wc -l; nproc; cat /etc/hostname; sudo -n id -u"
    status, printed = ground.run(
        "vagrant", "ssh", "--no-tty", "-c", script, limit_s=SUITE_S * factor()
    )
    assert status == 0, printed
    groups, processors, name, root = printed.split()[-4:]
    assert int(groups) > 0
    assert (processors, name, root) == ("2", NAME, "0")


def test_the_shipped_suites_are_green(ground: Ground, up: str, tmp_path: Path) -> None:
    known = Path.home() / ".ssh/known_hosts"
    before = known.read_bytes() if known.exists() else b""
    report, began = tmp_path / "report.xml", time.monotonic()
    words = ("--pyargs", "toolkit.suites", "--hosts", HOST, "-q", f"--junitxml={report}")
    status, printed = toolkit(ground, "pytest", *words, "-p", "no:cacheprovider")
    tell(f"the suites: {time.monotonic() - began:.0f} s")
    assert status == 0, printed[-6000:]
    cases = {case.get("name", ""): case for case in ET.parse(report).iter("testcase")}
    passed = [name for name, case in cases.items() if not len(case)]
    # What testinfra asks in other words holds on any machine; without a GPU little else does.
    assert f"test_the_boot_id[{HOST}]" in passed
    assert f"test_the_loaded_modules[{HOST}]" in passed
    assert (known.read_bytes() if known.exists() else b"") == before, "its key was kept"


def test_the_healthy_box_passes_ninety_cases_and_fails_none(ground: Ground, tmp_path: Path) -> None:
    _up(ground, "healthy")
    try:
        report = tmp_path / "report.xml"
        words = ("--pyargs", "toolkit.suites", "--hosts", "vagrant://healthy")
        judged = ("--gdr-profile", rows()["healthy"]["profile"], f"--junitxml={report}")
        _, printed = ground.run(*RUN, *words, *judged, limit_s=SUITE_S * factor())
        cases = read(report)
        assert not cases.failed, printed[-6000:]
        assert len(cases.passed) >= 90
    finally:
        ground.run("vagrant", "destroy", "-f", "healthy", limit_s=UP_S)


def test_a_driver_or_an_iommu_that_there_is_not_is_told(ground: Ground) -> None:
    for name, value in (("GDR_VAGRANT_DRIVER", "xen"), ("GDR_VAGRANT_IOMMU", "arm")):
        status, printed = ground.run("env", f"{name}={value}", "vagrant", "validate", limit_s=90)
        assert status != 0
        assert f'{name} is "{value}"; known: ' in printed


def test_the_machines_that_run_are_named_as_hosts(ground: Ground, up: str) -> None:
    status, printed = toolkit(ground, "toolkit.cli", "hosts", "--hosts", "vagrant://")
    assert status == 0, printed
    assert HOST in printed
    assert "rocky9" not in printed


def test_a_machine_that_does_not_run_is_told_in_a_sentence(ground: Ground, up: str) -> None:
    status, printed = toolkit(ground, "toolkit.cli", "doctor", "--hosts", "vagrant://rocky9")
    assert status == 4
    assert "vagrant://rocky9 is not created" in printed
    assert "vagrant up rocky9" in printed
