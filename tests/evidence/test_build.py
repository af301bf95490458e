"""The composed node is one that the probe could have read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.evidence.board import BOARD, od
from tests.evidence.build import HEALTHY, node
from tests.evidence.frames import MISSING
from toolkit.evidence import Evidence
from toolkit.node.collect import probe_script


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """What the probe prints on a machine that consists of an empty folder."""
    empty = tmp_path_factory.mktemp("root")
    (empty / "bin").mkdir()
    environment = {"GDR_ROOT": str(empty), "GDR_BIN": str(empty / "bin"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=probe_script(),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return Evidence.parse(done.stdout)


def test_the_keys_are_those_of_the_probe(probed: Evidence) -> None:
    assert probed.complete
    assert set(HEALTHY) == set(probed.frames)


def test_their_order_is_that_of_the_probe(probed: Evidence) -> None:
    """Cuts are tried along it: what comes last on a node comes last here."""
    assert list(node().frames) == list(probed.frames)


def test_captured_files_have_the_keys_of_the_probe(probed: Evidence) -> None:
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        assert list(Evidence.parse(path.read_text()).frames) == list(probed.frames), path.name


def test_a_frame_that_the_probe_has_not_cannot_be_invented() -> None:
    with pytest.raises(AssertionError, match="neither the probe nor an import has a frame ofed"):
        node({"ofed": "x"})
    assert "cmdline" not in node({"cmdline": MISSING}).frames


@pytest.mark.parametrize("size", [0, 3, 64, 256, 4096])
def test_config_space_is_folded_as_od_folds_it(tmp_path: Path, size: int) -> None:
    data = (bytes(range(16)) + bytes(48) + b"\xff" * 32).ljust(size, b"\0")[:size]
    (tmp_path / "config").write_bytes(data)
    done = subprocess.run(
        ["od", "-A", "x", "-t", "x1", str(tmp_path / "config")], capture_output=True, check=True
    )
    assert od(data) == done.stdout.decode()


def test_the_board_hangs_together() -> None:
    known = {each.address for each in BOARD.functions}
    assert all(f.parent in known or f.parent.startswith("pci") for f in BOARD.functions)
