"""From a bare root to a node that proves what it was born from; two boots under emulation.

Debian 12 by mmdebstrap; nvidia-peermem from the vendor's sources, built by DKMS for the image's
kernel, which is not this machine's. All by the verb, as an operator would.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dev.lab.machine import factor
from dev.run import ROOT
from tests.images.golden import environment, golden, release
from toolkit.facts.passport import PLACE
from toolkit.features.image.io.index import look

pytestmark = pytest.mark.machine
BOOTS = 2
LONG = True  # and builds all of an image's modules


def module() -> str:
    """The vendor's module as the image has it; by a function, since the kernel's name is built."""
    return f"lib/modules/{release()}/updates/dkms/nvidia-peermem.ko"


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of the verb."""

    status: int
    out: str
    err: str


def image(root: Path, *words: str) -> Ran:
    """``image --root ROOT --yes``, with more words."""
    return _run(root, "-m", "toolkit.cli", "image", "--root", str(root), "--yes", *words)


# The boot alone, of an image that somebody has changed since: the verb would mend it first.
_BOOT = """
import sys
from pathlib import Path
from toolkit.features.image.cli_boot import boot_image
from toolkit.cli.options import Said
from toolkit.verbs.cli.session import Session
said = Said({"profile": "peermem", "junit": sys.argv[2], "quiet": True})
sys.exit(boot_image(Session.begin("image", said), Path(sys.argv[1])))
"""


def boot_alone(root: Path, junit: Path) -> Ran:
    return _run(root, "-c", _BOOT, str(root), str(junit))


def _run(root: Path, *words: str) -> Ran:
    home = root.parent / "tmp"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        (sys.executable, *words),
        cwd=ROOT,
        env={**environment(root.parent / "state"), "TMPDIR": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600 * factor(),
        check=False,
    )
    assert list(home.iterdir()) == [], "something of the run is left"
    return Ran(done.returncode, done.stdout, done.stderr)


def cases(junit: Path) -> dict[str, str]:
    """What the suite said in the booted image, by check: passed, skipped or failure."""
    ended = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        name = case.get("name", "").partition("[")[2].rstrip("]")
        name = name.removeprefix("toolkit://image").removeprefix("-") or case.get("name", "")
        ended[name.partition("[")[0]] = next((each.tag for each in case), "passed")
    return ended


@pytest.fixture(scope="module")
def born(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An image that the verb has brought to the wanted state."""
    root = golden(tmp_path_factory.mktemp("born") / "root")
    ran = image(root)
    assert ran.status == 0, ran.out + ran.err
    assert (root / PLACE.lstrip("/")).exists()
    yield root
    subprocess.run(("rm", "-rf", str(root)), check=True)


def test_the_vendors_module_is_built_for_the_images_own_kernel(born: Path) -> None:
    said = subprocess.run(
        ("modinfo", str(born / module())), capture_output=True, text=True, check=True
    ).stdout
    told = {line.partition(":")[0]: line.partition(":")[2].strip() for line in said.splitlines()}
    assert told["vermagic"].startswith(f"{release()} ")
    assert set(told["depends"].split(",")) == {"nvidia", "ib_uverbs"}


def test_its_first_boot_is_as_the_passport_says_and_leaves_no_trace(
    born: Path, tmp_path: Path
) -> None:
    before, junit = look(born), tmp_path / "image.xml"
    ran = image(born, "--boot", "--junit", str(junit))
    assert ran.status == 0, ran.out + ran.err
    assert f"unchanged by its boot: {born}" in ran.out
    assert look(born) == before
    ended = cases(junit)
    assert ended["image.passport"] == "passed"
    assert ended["test_whether_peermem_is_loaded"] == "passed"
    assert "failure" not in ended.values()
    # What an emulated machine has not is never a pass.
    assert {ended[each] for each in ended if each.startswith("gpu.")} == {"skipped"}


def test_one_module_that_was_replaced_is_refused_at_the_first_boot(
    born: Path, tmp_path: Path
) -> None:
    path, junit = born / module(), tmp_path / "image.xml"
    whole = path.read_bytes()
    at = whole.index(b"srcversion=") + len(b"srcversion=")
    other = b"0" if whole[at : at + 1] != b"0" else b"1"
    path.write_bytes(whole[:at] + other + whole[at + 1 :])
    try:
        ran = boot_alone(born, junit)
    finally:
        path.write_bytes(whole)
    assert ran.status == 2, ran.out + ran.err
    assert [each for each, ending in cases(junit).items() if ending == "failure"] == [
        "image.passport"
    ]
    assert f"/{module()}" in ran.out
