"""image.diff over media: any beside any other, and none of them touched. No boots."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from dev.run import ROOT
from tests.images.disks import Part, call, digest, disk
from tests.images.little import little_root, loops, mounts, names
from tests.unit.passports import BORN
from toolkit.facts.passport import PLACE

pytestmark = pytest.mark.builds


def root(folder: Path, system: str) -> Path:
    made = little_root(folder)
    (made / PLACE.lstrip("/")).parent.mkdir(parents=True)
    (made / PLACE.lstrip("/")).write_text(replace(BORN, system=system).json())
    return made


def diff(a: Path, b: Path, state: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "toolkit.cli", "image.diff", str(a), str(b)),
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_disks_and_archives_stand_beside_each_other(tmp_path: Path) -> None:
    media, state = tmp_path / "media", tmp_path / "state"
    media.mkdir()
    one, other = root(tmp_path / "one", "debian 12"), root(tmp_path / "other", "debian 13")
    raw = disk(media / "a.raw", (Part(40, one),))
    qcow2 = disk(media / "b.qcow2", (Part(40, other),), qcow2=True)
    bare = disk(media / "c.raw", (Part(40, little_root(tmp_path / "bare")),))
    call("tar", "-C", other, "-I", "zstd", "-cf", media / "d.tar.zst", ".")
    before = {each: digest(media / each) for each in names(media)}
    ended = diff(raw, qcow2, state)
    assert ended.returncode == 2, ended.stderr
    assert "debian 12" in ended.stdout
    assert "they differ in 1 thing" in ended.stdout
    assert diff(qcow2, media / "d.tar.zst", state).returncode == 0
    refused = diff(bare, raw, state)
    assert refused.returncode == 64
    assert f"no {PLACE} in it" in refused.stderr
    assert {each: digest(media / each) for each in names(media)} == before
    assert mounts(media) == loops(media) == []
