"""A controller killed at any moment, and the next run puts everything right."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.nodes import Nodes, served
from tests.fleet.sshd import Keys
from toolkit.demo.nodes import recipe_of
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd

MOMENTS = 20
LONGEST_S = 9.0  # a provision of these eight takes about that long here
SEED = 20261121


def sick(count: int) -> tuple[str, ...]:
    """So many nodes of the large fleet on which something is to be done."""
    numbered = (f"demo{number:03d}" for number in range(1, 200))
    return tuple(name for name in numbered if recipe_of(name).kind != "healthy")[:count]


@pytest.fixture
def nodes(tmp_path: Path, keys: Keys) -> Iterator[Nodes]:
    with served(tmp_path, sick(8), keys) as made:
        yield made


def moments() -> list[float]:
    """Seconds after the start; the same ones in every run, earlier ones more often."""
    dice = random.Random(SEED)  # noqa: S311 chance, not secrecy
    return [LONGEST_S * dice.random() ** 1.5 for _ in range(MOMENTS)]


@pytest.mark.parametrize("moment_s", moments(), ids=lambda moment: f"{moment:.2f}s")
def test_the_next_run_ends_healthy_with_nothing_half_placed(nodes: Nodes, moment_s: float) -> None:
    command = nodes.command("provision", "--yes", "--reboot", "--quiet")
    with subprocess.Popen(
        command,
        env=nodes.environment,
        cwd=nodes.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as controller:
        time.sleep(moment_s)
        controller.send_signal(signal.SIGKILL)
    nodes.wait_for_boots()

    ended = nodes.run("provision", "--yes", "--reboot")
    assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr
    left = nodes.run("provision", "--check")
    assert left.returncode == ExitCode.OK, left.stdout + left.stderr
    for name in nodes.names:
        assert not leftovers(nodes.tree(name)), name


def leftovers(tree: Path) -> list[str]:
    """Temporary names of the engine that a finished run must not leave behind."""
    places = [tree / each for each in ("etc", "usr/src", "boot", "var/lib/gdr-toolkit")]
    found = (path for place in places if place.is_dir() for path in place.rglob("*"))
    return [str(path) for path in found if ".gdr-" in path.name or path.name.startswith("stage")]
