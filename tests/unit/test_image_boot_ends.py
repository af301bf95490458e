"""One boot of an image that does not come up, or whose run is ended: nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.booting import Fake, fakes, machine
from toolkit.errors import TransportError, UsageError
from toolkit.flow import image_boot
from toolkit.flow.image_boot import boot
from toolkit.progress import Silent
from toolkit.reach import throwaway
from toolkit.reach.emulated import Emulated
from toolkit.reach.kvm import Accelerator


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return fakes(tmp_path, monkeypatch)


def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No trial of KVM, and a folder of its own for what the boot makes."""
    monkeypatch.setattr(image_boot, "accelerator", lambda: Accelerator("tcg", "a test"))
    monkeypatch.setattr(image_boot, "boots_by_bios", lambda *_: True)
    monkeypatch.setattr(throwaway, "refuse_little_room", lambda *_: None)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TMPDIR", str(home))
    (tmp_path / "disk").write_bytes(b"\0" * 4096)
    return home


# The last word of -serial file:PATH is where the console goes.
_CONSOLE = (
    'for each in "$@"; do case $each in file:*) console=${each#file:} ;; esac; done\n'
    "printf '%s\\n' 'Booting' 'Kernel panic - not syncing: no root' >\"$console\"\n"
)


@pytest.mark.parametrize(
    ("qemu", "sentence"),
    [
        pytest.param("exit 3", "QEMU ended with 3", id="it-ends"),
        pytest.param("exec sleep 600", "within 2 s", id="silence-until-the-deadline"),
    ],
)
def test_what_does_not_come_up_shows_its_console_and_leaves_nothing(
    programs: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qemu: str, sentence: str
) -> None:
    home = _quick(monkeypatch, tmp_path)
    programs("qemu-system-x86_64", f'echo $$ >"{tmp_path}/pid"\n{_CONSOLE}{qemu}')
    with (
        pytest.raises(TransportError, match=sentence) as caught,
        boot(tmp_path / "disk", limit_s=2),
    ):
        pytest.fail("it came up")
    assert "| Kernel panic - not syncing: no root" in str(caught.value)
    assert list(home.iterdir()) == []
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_console_that_has_given_up_is_not_waited_for(
    tmp_path: Path, programs: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.reach.emulated._STUCK_S", 0.0)
    programs("qemu-system-x86_64", f"{_CONSOLE}exec sleep 600")
    with (
        Emulated(machine(tmp_path), "image") as running,
        pytest.raises(TransportError, match="it gave up: Kernel panic"),
    ):
        running.wait_for_login(600, Silent())


def test_without_qemu_the_sentence_says_what_to_install(programs: Fake, tmp_path: Path) -> None:
    programs("other", "exit 0")
    with (
        pytest.raises(UsageError, match="--boot needs QEMU") as caught,
        boot(tmp_path / "disk"),
    ):
        pytest.fail("it came up")
    assert "apt install qemu-system-x86" in caught.value.hint


def test_what_a_killed_boot_left_goes_with_the_next(
    programs: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _quick(monkeypatch, tmp_path)
    killed, living = home / "gdr-boot-4194305-x", home / f"gdr-boot-{os.getppid()}-x"
    killed.mkdir()
    living.mkdir()
    programs("qemu-system-x86_64", "exit 3")
    with pytest.raises(TransportError), boot(tmp_path / "disk", limit_s=2):
        pytest.fail("it came up")
    assert list(home.iterdir()) == [living]


_HOLD = """
import sys
from pathlib import Path
from toolkit.reach.emulated import Emulated
from toolkit.reach.qemu import Machine
folder = Path(sys.argv[1])
machine = Machine(folder / "d", "raw", folder, 1, folder / "c", folder / "s")
with Emulated(machine, "image"):
    print("started", flush=True)
    sys.stdin.read()
"""


def test_whoever_is_killed_takes_the_machine_along(programs: Fake, tmp_path: Path) -> None:
    (tmp_path / "bin/setpriv").symlink_to("/usr/bin/setpriv")
    programs("qemu-system-x86_64", f'echo $$ >"{tmp_path}/pid"; exec sleep 600')
    words = (sys.executable, "-c", _HOLD, str(tmp_path))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"started\n"
        wait_until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
        child.kill()
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}/cmdline").exists() or _over(pid))


def _over(pid: int) -> bool:
    """Nobody may have waited for it: then it is a zombie, which runs no more."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def wait_until(true: Callable[[], bool], limit_s: float = 60) -> None:
    """As long as a busy machine may take."""
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "it has not come about"
        time.sleep(0.05)
