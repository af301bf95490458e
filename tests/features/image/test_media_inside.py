"""Files of an image: whatever a link in it says, nothing outside of it is read or changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from toolkit.features.image.io.inside import link_inside, read_inside, remove_inside, write_inside

OWN = (os.getuid(), os.getgid())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the builder's, with a file in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("the builder's\n")
    return tmp_path / "outside"


@pytest.fixture(params=["absolute", "relative", "both"])
def root(request: pytest.FixtureRequest, tmp_path: Path, outside: Path) -> Path:
    """An image in which etc leads out: as seen from here, though not from within."""
    root = tmp_path / "image"
    root.mkdir()
    target = {
        "absolute": str(outside),
        "relative": "../outside",
        "both": f"../../../../../../../../../..{outside}",
    }[request.param]
    (root / "etc").symlink_to(target)
    return root


def test_what_lies_behind_a_link_out_is_not_read(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_inside(root, "/etc/file")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root, at: write_inside(root, at, b"x", owner=OWN), id="write"),
        pytest.param(lambda root, at: link_inside(root, at, "x"), id="link"),
        pytest.param(remove_inside, id="remove"),
    ],
)
@pytest.mark.parametrize("at", ["/etc/file", "/etc/../outside/file", "/../outside/file"])
def test_nothing_behind_a_link_out_is_changed(
    change: Callable[[Path, str], None], at: str, root: Path, outside: Path
) -> None:
    """It may be refused, or done below the image's own root."""
    with suppress(OSError):
        change(root, at)
    assert [each.name for each in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "the builder's\n"


def test_a_link_is_followed_as_the_image_sees_it(tmp_path: Path) -> None:
    root = tmp_path / "image"
    (root / "usr/lib").mkdir(parents=True)
    (root / "lib").symlink_to("/usr/lib")
    write_inside(root, "/lib/new/file", b"ours\n", owner=OWN)
    assert (root / "usr/lib/new/file").read_bytes() == b"ours\n"
    assert read_inside(root, "/lib/new/file") == b"ours\n"
    remove_inside(root, "/lib/new")
    assert list((root / "usr/lib").iterdir()) == []


def test_a_file_that_is_a_link_is_replaced_and_its_target_is_not(
    tmp_path: Path, outside: Path
) -> None:
    root = tmp_path / "image"
    root.mkdir()
    for name in ("one", "two"):
        (root / name).symlink_to(outside / "file")
    write_inside(root, "/one", b"ours\n", owner=OWN)
    link_inside(root, "/two", "one")
    assert (root / "one").read_bytes() == b"ours\n"
    assert not (root / "one").is_symlink()
    assert (root / "two").readlink() == Path("one")
    assert (outside / "file").read_text() == "the builder's\n"


def test_a_folder_that_is_removed_takes_no_target_of_its_links_along(
    tmp_path: Path, outside: Path
) -> None:
    root = tmp_path / "image"
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/link").symlink_to(outside)
    remove_inside(root, "/a")
    remove_inside(root, "/a")  # what is not there is none
    assert list(root.iterdir()) == []
    assert (outside / "file").exists()
    (root / "whole").symlink_to(outside)
    remove_inside(root, "/whole")
    assert (outside / "file").exists()


def test_the_links_of_proc_lead_nowhere(tmp_path: Path) -> None:
    """A tree that has /proc mounted in it: /proc/self/cwd and root are doors to this machine."""
    with pytest.raises(OSError, match="symbolic links"):
        read_inside(Path("/proc/self"), "/root/etc/passwd")
