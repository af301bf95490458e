"""A controller killed at any step of its work, and the next run puts everything right."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fleet.nodes import Nodes, served
from tests.fleet.sshd import Keys
from tests.laws import NIGHT
from toolkit.demo.nodes import recipe_of
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd
LONG = True

SICK = 4  # one of each kind: a boot argument, a stub, a kernel without modules, Rocky
SEED = 20261121
LIMIT_S = 300


def sick(count: int) -> tuple[str, ...]:
    """So many nodes of the large fleet on which something is to be done."""
    numbered = (f"demo{number:03d}" for number in range(1, 200))
    return tuple(name for name in numbered if "healthy" not in recipe_of(name).kind)[:count]


@pytest.fixture
def nodes(tmp_path: Path, keys: Keys) -> Iterator[Nodes]:
    with served(tmp_path, sick(SICK), keys) as made:
        yield made


@dataclass(frozen=True, slots=True)
class Moment:
    """How far a run has come, by what can be seen of it from outside."""

    title: str
    come: Callable[[Nodes], bool]


def written(nodes: Nodes) -> int:
    """How much controllers have written down of their runs."""
    return sum(1 for _ in (nodes.folder / "state").rglob("*"))


def reading(nodes: Nodes) -> bool:
    return written(nodes) > int((nodes.folder / "written").read_text())


def changed(count: int) -> Callable[[Nodes], bool]:
    """The engine has begun on so many nodes."""

    def come(nodes: Nodes) -> bool:
        journals = (nodes.tree(name) / "var/lib/gdr-toolkit/journal" for name in nodes.names)
        return sum(journal.exists() for journal in journals) >= count

    return come


def booted(count: int) -> Callable[[Nodes], bool]:
    """So many nodes have had a boot of ours."""

    def come(nodes: Nodes) -> bool:
        boots = (nodes.tree(name) / "proc/sys/kernel/random/boot_id" for name in nodes.names)
        earlier = (nodes.folder / "boots").read_text().split("\n")
        return sum(boot.read_text().strip() not in earlier for boot in boots) >= count

    return come


BY_NIGHT = {
    "half the nodes have been begun": (Moment("half", changed(SICK // 2)),),
    "all nodes have been begun, later": (Moment("all", changed(SICK)),),
    "a node has booted": (Moment("one", booted(1)),),
}
# Each a run of its own, killed then, on the nodes that the one before it has left. The first three
# have begun on no node.
KILLED = {
    "before the first node is done": (
        Moment("at once", lambda _: True),
        Moment("while it reads", reading),
        Moment("while it reads, later", reading),
        Moment("the first node has been begun", changed(1)),
    ),
    "all nodes have been begun": (Moment("all", changed(SICK)),),
    "two nodes have booted": (Moment("two", booted(2)),),
    **(BY_NIGHT if NIGHT else {}),
}


def pauses() -> dict[str, list[float]]:
    """Seconds from each moment to the end; the same ones in every run."""
    dice = random.Random(SEED)  # noqa: S311 chance, not secrecy
    return {name: [1.5 * dice.random() ** 2 for _ in each] for name, each in KILLED.items()}


def killed(nodes: Nodes, moment: Moment, pause_s: float) -> None:
    """A controller that has come so far, and a little further."""
    (nodes.folder / "written").write_text(str(written(nodes)))
    command = nodes.command("provision", "--yes", "--reboot", "--quiet")
    with subprocess.Popen(
        command,
        env=nodes.environment,
        cwd=nodes.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as controller:
        end = time.monotonic() + LIMIT_S
        while not moment.come(nodes):
            assert controller.poll() is None, f"it ended before {moment.title}"
            assert time.monotonic() < end, f"it never came to that: {moment.title}"
            time.sleep(0.02)
        time.sleep(pause_s)
        controller.send_signal(signal.SIGKILL)
    nodes.wait_for_boots()


@pytest.mark.parametrize("name", KILLED)
def test_the_next_run_ends_healthy_with_nothing_half_placed(nodes: Nodes, name: str) -> None:
    boots = (nodes.tree(each) / "proc/sys/kernel/random/boot_id" for each in nodes.names)
    (nodes.folder / "boots").write_text("\n".join(boot.read_text().strip() for boot in boots))
    for moment, pause_s in zip(KILLED[name], pauses()[name], strict=True):
        killed(nodes, moment, pause_s)

    ended = nodes.run("provision", "--yes", "--reboot")
    assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr
    left = nodes.run("provision", "--check")
    assert left.returncode == ExitCode.OK, left.stdout + left.stderr
    for each in nodes.names:
        assert not leftovers(nodes.tree(each)), each


def leftovers(tree: Path) -> list[str]:
    """Temporary names of the engine that a finished run must not leave behind."""
    places = [tree / each for each in ("etc", "usr/src", "boot", "var/lib/gdr-toolkit")]
    found = (path for place in places if place.is_dir() for path in place.rglob("*"))
    return [str(path) for path in found if ".gdr-" in path.name or path.name.startswith("stage")]
