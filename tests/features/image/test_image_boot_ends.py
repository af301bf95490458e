"""One boot of an image that does not come up, or whose run is ended: nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn
from xml.etree import ElementTree

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from tests.features.image.booting import Fake, fakes, machine
from toolkit.cli.options import Said
from toolkit.errors import ExitCode, TransportError, UsageError
from toolkit.features.image import cli as image
from toolkit.features.image import run_boot as image_boot
from toolkit.features.image.boot import emulated, throwaway
from toolkit.features.image.boot.emulated import Emulated, Rest, settle_script, settled
from toolkit.features.image.boot.qemu import Accelerator
from toolkit.features.image.cli_boot import boot_image
from toolkit.features.image.run_boot import boot
from toolkit.progress import Silent
from toolkit.safe_file import hold
from toolkit.verbs.cli.session import Session


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    return fakes(tmp_path, monkeypatch)


def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, programs: Fake) -> Path:
    """No trial of KVM, and a folder of its own for what the boot makes."""
    programs("qemu-img", "exit 1")
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
        pytest.param("exec sleep 600", "within 500 s", id="silence-until-the-deadline"),
    ],
)
def test_what_does_not_come_up_shows_its_console_and_leaves_nothing(
    programs: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qemu: str, sentence: str
) -> None:
    home = _quick(monkeypatch, tmp_path, programs)
    programs("qemu-system-x86_64", f'echo $$ >"{tmp_path}/pid"\n{_CONSOLE}: >up\n{qemu}')
    if "sleep" in qemu:  # its time is up as soon as the console has all that is said
        began = iter((0.0,))
        now = {"monotonic": lambda: next(began, 900.0 * Path("up").exists())}
        monkeypatch.setattr(emulated, "time", SimpleNamespace(**vars(time) | now))
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(TransportError, match=sentence) as caught,
        boot(tmp_path / "disk", limit_s=500),
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
    monkeypatch.setattr("toolkit.features.image.boot.emulated._STUCK_S", 0.0)
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
    """Its lock tells, and not the number of its process, which is another in another container."""
    home = _quick(monkeypatch, tmp_path, programs)
    killed, living, young = (home / f"gdr-boot-{name}" for name in ("killed", "living", "young"))
    for each in (killed, living, young):
        each.mkdir()
    for each in (killed, living):
        (each / "lock").touch()
        os.utime(each, (1, 1))
    link = home / "gdr-boot-link"
    link.symlink_to(young)
    programs("qemu-system-x86_64", "exit 3")
    held = hold(living / "lock")
    assert held is not None
    with held, pytest.raises(TransportError), boot(tmp_path / "disk", limit_s=2):
        pytest.fail("it came up")
    assert sorted(home.iterdir()) == [link, living, young]


def test_no_image_is_worked_on_for_a_boot_that_cannot_be(
    programs: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "_brought", lambda *_: pytest.fail("it was worked on"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(Exit) as ended:
        image.image(Context(), root=str(tmp_path), boot=True)
    assert ended.value.code == ExitCode.USAGE
    for name in ("qemu-system-x86_64", "qemu-img"):
        programs(name, "exit 1")
    with pytest.raises(UsageError, match="64 MB of memory is none"):
        image_boot.refuse_early(0, 64)
    with pytest.raises(UsageError, match="within -1 s"):
        image_boot.refuse_early(-1, 2048)


def test_a_boot_that_failed_is_no_green_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file has what was judged before the boot, and pipelines show it whatever the exit."""
    disk, report = tmp_path / "disk", tmp_path / "image.xml"
    disk.write_bytes(b"x")
    report.write_text("<testsuites/>")

    def fail(*_: object, **__: object) -> NoReturn:
        raise TransportError("image: nobody answers")

    monkeypatch.setattr("toolkit.features.image.cli_boot.boot", fail)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = Session.begin("image", Said({"junit": str(report), "quiet": True}))
    with pytest.raises(TransportError):
        boot_image(session, disk)
    [case] = ElementTree.parse(report).iter("error")
    assert case.get("message") == "image: nobody answers"
    assert f"unchanged by its boot: {disk} sha256 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "proofs"),
    [
        pytest.param(TransportError("it did not come up"), 1, id="of-a-boot-that-failed-too"),
        pytest.param(KeyboardInterrupt(), 0, id="nobody-waits-for-it-after-ctrl-c"),
    ],
)
def test_the_image_is_looked_at_again(tmp_path: Path, error: BaseException, proofs: int) -> None:
    (tmp_path / "disk").write_bytes(b"x")
    with pytest.raises(type(error)), image_boot.unchanged(tmp_path / "disk", Silent()) as found:
        raise error
    assert [each.unchanged for each in found] == [True] * proofs


def test_a_boot_that_never_comes_to_rest_says_what_it_waits_for(tmp_path: Path) -> None:
    """With a systemctl that tells as systemd does: --wait alone takes its time."""
    (tmp_path / "systemctl").write_text(_SYSTEMCTL)
    (tmp_path / "systemctl").chmod(0o755)
    began = time.monotonic()
    said = subprocess.run(
        ("sh", "-c", settle_script(1)),
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    ).stdout
    assert time.monotonic() - began < 250
    assert settled(said) == Rest("starting", ("a.service",), ("b.service", "c.target"))
    assert settled("") == settled("\n") == Rest("")
    assert settled("running\n") == Rest("running")


_SYSTEMCTL = """#!/bin/sh
case $* in
    'is-system-running --wait') exec sleep 600 ;;
    is-system-running) echo starting; exit 1 ;;
    list-units*) echo 'a.service loaded failed failed A' ;;
    list-jobs*) printf '%s\\n' '12 b.service start running' '13 c.target start waiting' ;;
esac
"""


_HOLD = """
import sys
from pathlib import Path
from toolkit.features.image.boot.emulated import Emulated
from toolkit.safe_file import hold
from toolkit.features.image.boot.qemu import QemuMachine
folder = Path(sys.argv[1])
machine = QemuMachine(folder / "d", "raw", folder, 1, folder / "c", folder / "s")
with Emulated(machine, "image"):
    print("started", flush=True)
    sys.stdin.read()
"""


_TRY = """
import sys
from pathlib import Path
from toolkit.features.image.boot.qemu import accelerator
print("started", flush=True)
accelerator(Path(sys.argv[1]), 600)
"""


@pytest.mark.parametrize(
    "script", [pytest.param(_HOLD, id="the-boot"), pytest.param(_TRY, id="the-trial-of-kvm")]
)
def test_whoever_is_killed_takes_the_machine_along(
    programs: Fake, tmp_path: Path, script: str
) -> None:
    (tmp_path / "bin/setpriv").symlink_to("/usr/bin/setpriv")
    programs("qemu-system-x86_64", f'echo $$ >"{tmp_path}/pid"; exec sleep 600')
    words = (sys.executable, "-c", script, str(tmp_path))
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
