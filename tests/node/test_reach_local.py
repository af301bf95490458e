"""This machine as a node: a child that is fed, heard, and never waited for too long."""

from __future__ import annotations

import os
import signal
import time

import pytest

from toolkit.errors import TransportError
from toolkit.node.collect import collect
from toolkit.ssh.local import LocalTransport, run_child
from toolkit.ssh.stream import Lines
from toolkit.ssh.transport import quiet


@pytest.fixture
def here() -> LocalTransport:
    return LocalTransport(become=False)


def test_a_script_gives_its_output_and_its_status(here: LocalTransport) -> None:
    heard: list[str] = []
    result = here.run("echo a; printf b; echo aside >&2; exit 255", sink=heard.append)
    assert (result.exit, result.stdout, result.stderr) == (255, "a\nb", "aside\n")
    assert heard == ["a", "b"]


def test_this_machine_can_be_probed(here: LocalTransport) -> None:
    evidence = collect(here)
    assert evidence.complete
    assert evidence.text("kernel-release").strip() == os.uname().release


def test_a_script_that_hangs_is_killed_with_its_children(here: LocalTransport) -> None:
    begun = time.monotonic()
    with pytest.raises(TransportError, match=r"localhost: no answer within 0\.5 s"):
        here.run("sleep 60 & sleep 60; echo no", limit_s=0.5)
    assert time.monotonic() - begun < 50


def test_a_shell_that_is_killed_has_no_result(here: LocalTransport) -> None:
    with pytest.raises(TransportError, match="connection was lost"):
        here.run("kill -9 $PPID")


def test_large_input_and_output_pass_each_other(here: LocalTransport) -> None:
    line = "head -c 30000 /dev/zero | tr '\\000' x; #" + "y" * 30_000 + "\n"
    assert len(here.run(line * 50).stdout) == 1_500_000


def test_a_process_left_behind_does_not_hold_the_result(here: LocalTransport) -> None:
    left = here.run("sleep 600 & echo $!", limit_s=120).stdout
    os.kill(int(left), signal.SIGKILL)  # raises where it was ended for us


def test_a_program_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_child(["no-such-program-here"], b"", limit_s=1, lines=Lines(quiet))


def test_an_ended_child_tells_its_status() -> None:
    ended = run_child(["sh", "-c", "exit 7"], b"unread", limit_s=60, lines=Lines(quiet))
    assert (ended.status, ended.late) == (7, False)
