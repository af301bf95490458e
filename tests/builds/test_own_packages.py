"""The deb and the rpm of the tool itself: one folder, and the command that runs from it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from dev import release
from dev.run import ROOT
from toolkit import __version__

pytestmark = pytest.mark.builds


@pytest.fixture(scope="module")
def tree() -> release.Tree:
    """Of ours, of Invoke and of msgspec, what a start imports."""
    ours = (each for name in ("toolkit", "gdr_toolkit") for each in (ROOT / name).rglob("*"))
    files = {str(each.relative_to(ROOT)): each.read_bytes() for each in ours if each.is_file()}
    theirs = [each for name in ("invoke", "msgspec") for each in metadata.files(name) or ()]
    files |= {str(each): Path(str(each.locate())).read_bytes() for each in theirs}
    return {name: data for name, data in files.items() if not {"..", ".pyc"} & _words(name)}


def _words(name: str) -> set[str]:
    return {*name.split("/"), Path(name).suffix}


def _run(*words: str | Path) -> str:
    return subprocess.run([*map(str, words)], check=True, capture_output=True, text=True).stdout


def test_the_deb_places_a_folder_that_runs(tree: release.Tree, tmp_path: Path) -> None:
    deb = release.deb_file(tree, "x86_64", tmp_path)
    _run("dpkg-deb", "--extract", deb, tmp_path / "root")
    place = tmp_path / "root" / release.HOME
    told = _run(sys.executable, "-ISB", place, "--version")
    assert told.startswith(f"gdr-toolkit {__version__}")
    assert f"-I /{release.HOME} " in (tmp_path / "root" / "usr" / "bin" / "gdr").read_text()
    told = _run("dpkg-deb", "--field", deb, "Version", "Architecture", "Depends")
    assert f"Version: {__version__}\nArchitecture: amd64\n" in told
    assert "python3.11 | python3.12" in told


@pytest.mark.packagers
def test_the_rpm_has_the_same_files(tree: release.Tree, tmp_path: Path) -> None:
    rpm = release.rpm_file(tree, "x86_64", tmp_path)
    listed = _run("rpm", "--dbpath", tmp_path / "db", "-qlp", rpm).split()
    placed = {f"/{release.HOME}/{name}" for name in (*tree, "__main__.py")}
    assert placed | {"/usr/bin/gdr"} <= {*listed}
    needs = _run("rpm", "--dbpath", tmp_path / "db", "-qRp", rpm)
    assert "(python(abi) = 3.11 or python(abi) = 3.12" in needs
