"""Putting a build in place: whatever goes wrong, and whenever, the module that was there stays.

By each shell, on a scratch node; with real DKMS and real modules in tests/builds.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.tools import in_ci
from tests.scripts.engine import SHELLS
from tests.scripts.swapping import ARCH, KERNEL, MODULE, PACKAGE, VERSION, Node, node

pytestmark = pytest.mark.shell


@pytest.fixture(params=sorted(SHELLS))
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return node(tmp_path, SHELLS[request.param])


@pytest.fixture
def place(fresh: Node) -> Node:
    """The same version is installed, as it was built before."""
    fresh.install(VERSION, "old\n")
    return fresh


def test_the_new_build_is_installed_and_nothing_is_left_beside_it(place: Node) -> None:
    before = place.state()
    done = place.swap()
    assert done.returncode == 0, done.stderr
    assert place.state() == {
        name: "new\n" if text == "old\n" else text for name, text in before.items()
    }
    assert not place.journals.exists()


def _killed(place: Node, **env: str) -> bool:
    (place.root / "calls").unlink(missing_ok=True)
    done = place.swap(**env)
    assert done.returncode in {0, -9}, done.stderr
    return done.returncode == -9


@pytest.mark.parametrize("installed", ["same", "other", "none"])
def test_a_kill_before_any_change_that_it_makes(installed: str, fresh: Node) -> None:
    """Of the same version, of another, and where DKMS installs it for the first time."""
    if installed != "none":
        fresh.install(VERSION if installed == "same" else "570.9", "old\n")
    before = fresh.state()
    fresh.may_be_killed()
    killed = 0
    while _killed(fresh, AT=str(killed + 1)):
        killed += 1
        if installed != "none":
            assert fresh.installed.read_text() in {"old\n", "new\n"}
        assert fresh.call("mend", AT="0").returncode == 0
        if fresh.state() != before:  # it was done, but for its litter
            assert fresh.installed.read_text() == "new\n"
            break
    assert killed >= 8
    assert fresh.installed.read_text() == "new\n"
    assert not [name for name in fresh.state() if "/.gdr" in name or "/.swap" in name]


def test_a_kill_while_a_cut_off_swap_is_taken_back(place: Node) -> None:
    """Again and again: what takes it back at last finds all that it needs."""
    before = place.state()
    place.write(place.root / "depmod-fails", "")
    place.may_be_killed()
    # It fails at its last step, so that all of it is to be taken back.
    count = 0
    while True:
        (place.root / "calls").unlink(missing_ok=True)
        if place.swap(AT=str(count + 1)).returncode != -9:
            break
        count += 1
        (place.root / "calls").unlink()
        place.call("mend", AT=str(count % 14 + 1))
        assert place.call("mend", AT="0").returncode == 0
        assert place.state() == before
    assert count > 20


@contextmanager
def _disk(folder: Path, blocks: int) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    words = ("mount", "-t", "tmpfs", "-o", f"nr_blocks={blocks},nr_inodes=100", "gdr", str(folder))
    if subprocess.run(words, capture_output=True, check=False).returncode:
        lacks = "may not mount here, so no disk can be full"
        pytest.fail(lacks) if in_ci() else pytest.skip(lacks)
    try:
        yield
    finally:
        subprocess.run(("umount", str(folder)), check=True)


def test_a_disk_that_is_full_at_any_moment_of_noting_what_is_there(place: Node) -> None:
    """Half a note of what is installed would have a swap that fails remove the rest of it."""
    before = place.state()
    place.write(place.root / "depmod-fails", "")  # so that each that begins is taken back
    said = []
    for blocks in range(1, 9):
        with _disk(place.journals, blocks):
            done = place.swap()
            assert done.returncode != 0
            said.append("nothing was changed" in done.stderr)
            assert place.state() == before, blocks
    assert said[0]
    assert not said[-1]


def test_a_link_that_leads_nowhere_is_no_hindrance(place: Node) -> None:
    weak = place.root / f"lib/modules/{KERNEL}/weak-updates/{MODULE}"
    weak.parent.mkdir()
    weak.symlink_to("../../gone/extra/nvidia-peermem.ko")
    before = place.state()
    place.write(place.root / "depmod-fails", "")
    assert place.swap().returncode == 1
    assert place.state() == before
    (place.root / "depmod-fails").unlink()
    done = place.swap()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("others", ["another version", "removed", "kernel removed"])
def test_what_others_did_after_a_kill_is_left_as_it_is(others: str, place: Node) -> None:
    """A driver that was updated meanwhile does not get its old modules back."""
    kills = place.write(place.root / "depmod-kills", "")
    assert place.swap().returncode == -9
    assert place.installed.read_text() == "new\n"
    kills.unlink()
    link = place.tree / f"kernel-{KERNEL}-{ARCH}"
    subprocess.run(("rm", "-rf", place.tree / VERSION, link), check=True)
    place.installed.unlink()
    if others == "another version":
        place.install("590.2", "newer\n")
    if others == "kernel removed":
        subprocess.run(("rm", "-rf", place.root / f"lib/modules/{KERNEL}"), check=True)
    before = place.state()
    done = place.call("mend")
    assert done.returncode == 0, done.stderr
    assert place.state() == before
    assert f"others have changed {PACKAGE}" in done.stderr
    assert not place.journals.exists()
