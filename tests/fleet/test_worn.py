"""Kills, cuts and full disks at moments that nobody chose, over real sshd.

``GDR_WEAR=30`` says how many of each; a usual run has one. Whatever came, the next run ends with
the node as wanted, and with nothing of ours half placed. Of two controllers, too, one may die:
together they never have more nodes out of service than either was told.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fleet.links import Relay
from tests.fleet.nodes import Nodes, served
from tests.fleet.sshd import Keys
from tests.fleet.test_killed import leftovers, sick
from toolkit.errors import ExitCode

pytestmark = pytest.mark.sshd

WEAR = int(os.environ.get("GDR_WEAR", "1"))
NAME = "demo-iommu"
CHANGE = ("provision", "--yes", "--reboot", "--quiet")
RUN_S = 6.0  # that a whole run takes, about
RUN_BYTES = 400_000  # that the node's side of one connection sends, about
# What a cut may end with: before, amid or after the change; unknown where a reading was cut.
CUT = {ExitCode.OK, ExitCode.UNKNOWN, ExitCode.UNREACHABLE, ExitCode.STOPPED}


def moments(seed: int) -> list[float]:
    """Parts of a whole, 0 to 1, spread over it; the same ones in every run."""
    dice = random.Random(seed)  # noqa: S311 chance, not secrecy
    return [(number + dice.random()) / WEAR for number in range(WEAR)]


@contextmanager
def worn(folder: Path, keys: Keys, *names: str) -> Iterator[Nodes]:
    """Nodes on which something is to be done; after the block they are mended, and looked at."""
    with served(folder, names or (NAME,), keys) as nodes:
        yield nodes
        nodes.wait_for_boots()
        ended = nodes.run(*CHANGE)
        assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr
        left = nodes.run("provision", "--check")
        assert left.returncode == ExitCode.OK, left.stdout + left.stderr
        assert not [left for name in nodes.names for left in leftovers(nodes.tree(name))]


def begun(nodes: Nodes, *words: str) -> subprocess.Popen[bytes]:
    """A controller that nobody listens to."""
    return subprocess.Popen(
        nodes.command(*CHANGE, *words),
        env=nodes.environment,
        cwd=nodes.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("part", moments(1))
def test_a_controller_is_killed(tmp_path: Path, keys: Keys, part: float) -> None:
    with worn(tmp_path, keys) as nodes:
        controller = begun(nodes)
        time.sleep(RUN_S * part)
        controller.kill()
        controller.wait()


@pytest.mark.parametrize("part", moments(4))
def test_two_controllers_keep_one_budget_though_one_is_killed(
    tmp_path: Path, keys: Keys, part: float
) -> None:
    log, names = tmp_path / "hooks.log", sick(4)
    log.touch()
    hooks = ((f"--{act}", f"echo {act} {{host}} >>{log}") for act in ("drain", "undrain"))
    words = ("--max-unavailable", "1", *chain(*hooks))
    with worn(tmp_path, keys, *names) as nodes:
        mine, other = replace(nodes, names=names[:2]), replace(nodes, names=names[2:])
        with begun(other, *words) as second, begun(mine, *words) as controller:
            while not any(name in log.read_text() for name in mine.names):
                assert controller.poll() is None, "it ended before it had begun a node"
                time.sleep(0.02)
            time.sleep(RUN_S * part)
            controller.kill()
        # It goes on where nothing was left midway; else it stops, as nobody gives that back.
        assert second.returncode in {ExitCode.OK, ExitCode.STOPPED}
        nodes.wait_for_boots()
        for each in (mine, other):
            ended = each.run(*CHANGE, *words)
            assert ended.returncode == ExitCode.OK, ended.stdout + ended.stderr
        assert json.loads(nodes.gdr("budget", "--json").stdout)["shares"] == []
    out: set[str] = set()
    for line in log.read_text().splitlines():
        act, name = line.split()
        out = out | {name} if act == "drain" else out - {name}
        assert len(out) <= 1, log.read_text()
    assert not out


@pytest.mark.parametrize("part", moments(2))
def test_the_connection_is_cut(tmp_path: Path, keys: Keys, part: float) -> None:
    with worn(tmp_path, keys) as nodes:
        server = nodes.servers[NAME]
        usual = {file: (tmp_path / file).read_text() for file in ("hosts.ini", "known_hosts")}
        with Relay(server.port, limit=int(RUN_BYTES * part)) as link:
            for file, text in usual.items():
                (tmp_path / file).write_text(text.replace(str(server.port), str(link.port)))
            cut = nodes.run(*CHANGE)
        assert "Traceback" not in cut.stderr
        assert cut.returncode in CUT, cut.stderr
        for file, text in usual.items():
            (tmp_path / file).write_text(text)
        if cut.returncode == ExitCode.OK:
            nodes.wait_for_boots()
            assert nodes.run("provision", "--check").returncode == ExitCode.OK


@pytest.mark.root
@pytest.mark.parametrize("part", moments(3))
def test_the_disk_of_the_node_is_full(tmp_path: Path, keys: Keys, part: float) -> None:
    with worn(tmp_path, keys) as nodes:
        tree = nodes.tree(NAME)
        aside = tree.with_name("aside")
        tree.rename(aside)
        tree.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", tree], check=True)
        try:
            subprocess.run(["cp", "-a", f"{aside}/.", tree], check=True)
            used = int(subprocess.check_output(["df", "--output=used", "-k", tree]).split()[-1])
            room = used + int(part * 200)
            subprocess.run(["mount", "-o", f"remount,size={room}k", tree], check=True)
            full = nodes.run(*CHANGE)
            assert "Traceback" not in full.stderr
            nodes.wait_for_boots()
            subprocess.run(["mount", "-o", "remount,size=64m", tree], check=True)
        finally:
            subprocess.run(["cp", "-a", f"{tree}/.", aside], check=True)
            subprocess.run(["umount", "-l", tree], check=True)
            subprocess.run(["rm", "-rf", tree], check=True)
            aside.rename(tree)
