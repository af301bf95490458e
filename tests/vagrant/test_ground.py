"""What the tests of Vagrant start leaves nothing behind, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dev.run import ROOT
from tests.vagrant.ground import PREFIX, Ground, GroundError, sweep

pytestmark = pytest.mark.vagrant

# Starts libvirt and something that would never end, says where, and waits to be killed.
HOLDS = """
import sys, time
from tests.vagrant.ground import Ground
with Ground() as ground:
    ground.start("sleep", MARK)
    print(ground.folder, flush=True)
    time.sleep(600)
"""


def running(words: str) -> list[int]:
    """Processes of this machine whose command line has these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if words in line:
            found.append(int(path.parent.name))
    return found


def test_what_runs_inside_ends_with_the_block_and_its_folder_goes() -> None:
    with Ground() as ground, ground.start("sleep", "86411"):
        status, networks = ground.run("virsh", "-c", "qemu:///system", "net-list", limit_s=60)
        assert status == 0, networks
        folder = ground.folder
        assert running(str(folder))
        ground.close()
    assert running("sleep 86411") == running(str(folder)) == []
    assert not folder.exists()


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM], ids=lambda by: by.name)
def test_what_runs_inside_ends_when_we_are_killed(by: signal.Signals) -> None:
    mark = str(86420 + by)
    script = HOLDS.replace("MARK", repr(mark))
    with subprocess.Popen(
        (sys.executable, "-c", script), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert running(f"sleep {mark}")
        child.send_signal(by)
    end = time.monotonic() + 20
    while running(str(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    assert running(f"sleep {mark}") == running(str(folder)) == []
    sweep()
    assert not folder.exists()
    assert folder.name.startswith(PREFIX)


def test_a_command_that_does_not_end_is_told_with_what_it_had_printed() -> None:
    with Ground() as ground, pytest.raises(GroundError, match=r"echo begun.*: over 2 s\nbegun"):
        ground.run("sh", "-c", "echo begun; exec sleep 86431", limit_s=2)
    assert running("sleep 86431") == []
