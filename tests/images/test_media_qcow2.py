"""--disk FILE.qcow2: the result is made as the source was, also of one with clusters to spare."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.images.disks import Part, call, disk
from tests.images.little import little_root
from toolkit.features.image.io.index import TreeChange, TreeDifference
from toolkit.features.image.io.media import ImageSource, Medium, stage

pytestmark = pytest.mark.builds

CLUSTER = 65536


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return disk(tmp_path / "raw", (Part(40, little_root(tmp_path / "root")),))


def changed(image: Path) -> None:
    with stage(ImageSource(Medium.DISK, image)) as on:
        on.write("/etc/new", b"new\n")
        assert on.commit() == (TreeDifference("/etc/new", TreeChange.ADDED),)


def test_it_keeps_the_manner_it_was_made_in(tmp_path: Path, raw: Path) -> None:
    image = tmp_path / "node.qcow2"
    manner = "compression_type=zstd,extended_l2=on,cluster_size=131072"
    call("qemu-img", "convert", "-c", "-O", "qcow2", "-o", manner, raw, image)
    changed(image)
    told = json.loads(call("qemu-img", "info", "--output=json", image))
    own = told["format-specific"]["data"]
    assert (own["compression-type"], own["extended-l2"]) == ("zstd", True)
    assert told["cluster-size"] == 131072


def test_one_of_a_machine_that_was_switched_off_is_taken(tmp_path: Path, raw: Path) -> None:
    """It has a cluster that is counted as used, and that nobody uses."""
    image = tmp_path / "node.qcow2"
    call("qemu-img", "convert", "-O", "qcow2", raw, image)
    behind = -(-image.stat().st_size // CLUSTER)
    with image.open("r+b") as file:
        file.seek(struct.unpack(">Q", _at(image, 48))[0])  # of the table, whose first entry
        file.seek(struct.unpack(">Q", file.read(8))[0] + 2 * behind)  # is where the counts are
        file.write(b"\0\1")
        file.truncate((behind + 1) * CLUSTER)
    changed(image)
    assert "No errors were found" in call("qemu-img", "check", image)


def _at(image: Path, offset: int) -> bytes:
    with image.open("rb") as file:
        file.seek(offset)
        return file.read(8)
