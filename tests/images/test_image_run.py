"""image.sh: a bundle carried out in a tree by a builder without the toolkit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.little import at_work, little_root, mounts, names
from toolkit.node.deliver import image_runner

pytestmark = pytest.mark.builds

LIMIT_S = 300.0


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tmp").mkdir()
    return little_root(tmp_path / "tree")


def begin(tree: Path, script: str, shell: str = "sh", wait: int = 0) -> subprocess.Popen[str]:
    """image.sh with ``script`` for a bundle."""
    file = tree.parent / "image.sh"
    file.write_text(image_runner(script))
    return subprocess.Popen(
        (shell, file, tree, "apply", str(wait), "end"),
        env={**os.environ, "TMPDIR": str(tree.parent / "tmp")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ran(tree: Path, script: str, shell: str = "sh") -> tuple[int, str]:
    with begin(tree, script, shell) as running:
        out, said = running.communicate(timeout=LIMIT_S)
    assert said == ""
    return running.returncode, out


def test_where_there_is_no_room_for_what_it_carries_nothing_is_run(tree: Path) -> None:
    few = tree.parent / "few"
    few.write_text('ulimit -f 1\nexec sh "$@"\n')  # blocks of a file
    begin(tree, "exit\n").communicate(timeout=LIMIT_S)  # which makes image.sh
    words = ("sh", few, tree.parent / "image.sh", tree, "apply", "0", "end")
    env = {**os.environ, "TMPDIR": str(tree.parent / "tmp")}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, "no file can be written there" in done.stdout) == (5, True)
    assert list((tree.parent / "tmp").iterdir()) == []


@pytest.fixture
def slow(tree: Path) -> Iterator[subprocess.Popen[str]]:
    """One that is at work in the tree, and stays there."""
    with begin(tree, "echo begun\nsleep 600\n") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        yield running
        end(running)


def end(running: subprocess.Popen[str]) -> None:
    """Kill it with all that it began."""
    try:
        os.killpg(running.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    running.wait(LIMIT_S)


def test_it_waits_as_long_as_it_was_told(tree: Path, slow: subprocess.Popen[str]) -> None:
    with begin(tree, "echo at last\n", wait=600) as waiting:
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1.5)
        end(slow)
        out, _ = waiting.communicate(timeout=LIMIT_S)
    assert (waiting.returncode, out) == (0, "at last\n")


@pytest.mark.parametrize("shell", ["dash", "busybox", "bash"])
def test_a_tree_is_worked_on_by_one_at_a_time(
    tree: Path, slow: subprocess.Popen[str], shell: str, tmp_path: Path
) -> None:
    applet = tmp_path / "sh"  # busybox is what it is called by
    applet.symlink_to(
        f"/usr/bin/{shell}" if Path(f"/usr/bin/{shell}").exists() else f"/bin/{shell}"
    )
    code, out = ran(tree, "echo second\n", str(applet))
    assert code == 75
    assert out.splitlines()[1:3] == [f"= lock failed:75 {tree}", "|another run is at work in it"]
    # Its shell alone is killed: what it began goes on, and so does the lock.
    os.kill(slow.pid, signal.SIGKILL)
    slow.wait(LIMIT_S)
    assert ran(tree, "echo third\n", str(applet))[0] == 75


def test_what_a_killed_run_left_goes_with_the_next_one(
    tree: Path, slow: subprocess.Popen[str]
) -> None:
    scratch = tree.parent / "tmp"
    assert len(names(scratch)) == 1
    other = little_root(tree.parent / "other")
    assert ran(other, "echo beside\n") == (0, "beside\n")
    assert len(names(scratch)) == 1, "it is still at work"
    end(slow)
    until = time.monotonic() + LIMIT_S
    while at_work(scratch) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(names(scratch)) == 1
    assert ran(tree, "echo again\n") == (0, "again\n")
    assert names(scratch) == []
    assert mounts(tree.parent) == []


@pytest.mark.parametrize(
    ("there", "named", "told"),
    [
        pytest.param([], "", "/dev/null", id="no-key"),
        pytest.param(["var/lib/dkms/mok.key"], "", "", id="its-own"),
        pytest.param(["k", "c"], "/k", "", id="named"),
        pytest.param(["c", "var/lib/dkms/mok.key"], "/k", "/dev/null", id="each-node-gets-it"),
        pytest.param(["k"], "/k", "/dev/null", id="without-its-certificate"),
        pytest.param(["c"], "pkcs11:token=t", "", id="on-a-token"),
    ],
)
def test_dkms_makes_no_key_in_an_image(tree: Path, there: list[str], named: str, told: str) -> None:
    """One would be the key of a whole fleet, or verify nowhere."""
    dkms = tree / "usr/sbin/dkms"
    dkms.write_text('#!/bin/sh\necho "$* ${sign_file:-}"\n')
    dkms.chmod(0o755)
    if named:
        there = [*there, "etc/dkms/framework.conf.d/a.conf"]
    for path in there:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(f'mok_signing_key="{named}"\nmok_certificate=/c # ours\n')
    assert ran(tree, "dkms build -m nvidia\n") == (0, f"build -m nvidia {told}\n")
