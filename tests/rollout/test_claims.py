"""One rollout at a time on a host, as far as controllers share a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.errors import LockedError
from toolkit.rollout.claims import alive, claim

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from toolkit.rollout.claims import claim
held = claim(Path(sys.argv[1]), "run-1", "op@elsewhere", ["gpu1", "gpu2"], alone=True)
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("first", "second", "hosts", "refused"),
    [
        pytest.param(True, True, ["gpu2", "gpu3"], True, id="two-rollouts"),
        pytest.param(True, False, ["gpu2"], True, id="a-rollout-and-then-another-run"),
        pytest.param(False, True, ["gpu2"], True, id="another-run-and-then-a-rollout"),
        pytest.param(False, False, ["gpu2"], False, id="no-rollout-among-them"),
        pytest.param(True, True, ["gpu3"], False, id="other-hosts"),
    ],
)
def test_hosts_are_shared_or_not(
    tmp_path: Path, first: bool, second: bool, hosts: list[str], refused: bool
) -> None:
    with claim(tmp_path, "run-1", "op@here", ["gpu1", "gpu2"], alone=first):
        if refused:
            with pytest.raises(LockedError, match="run run-1 of op@here is at work on gpu2"):
                claim(tmp_path, "run-2", "me@here", hosts, alone=second)
        else:
            claim(tmp_path, "run-2", "me@here", hosts, alone=second).let_go()
    claim(tmp_path, "run-3", "me@here", hosts, alone=second).let_go()


def test_one_run_has_one_controller(tmp_path: Path) -> None:
    held = claim(tmp_path, "run-1", "op@here", ["gpu1"], alone=False)
    with held, pytest.raises(LockedError, match="run run-1 of op@here"):
        claim(tmp_path, "run-1", "me@here", ["gpu9"], alone=False)


def test_a_claim_dies_with_its_controller(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert alive(tmp_path / "run-1")
        with pytest.raises(LockedError, match="of op@elsewhere is at work on gpu1"):
            claim(tmp_path, "run-2", "me@here", ["gpu1"], alone=True)
        holder.kill()
    assert not alive(tmp_path / "run-1")
    claim(tmp_path, "run-2", "me@here", ["gpu1"], alone=True).let_go()
