"""A rebuild that fails or is cut off: the module that worked is there as before, byte for byte."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

import pytest

from tests.builds.nodeside import (
    AFTER,
    DRIVER,
    FUNCTIONS,
    PEERMEM,
    PEERMEM_SOURCE,
    REBUILD,
    TREES,
    VERSION,
    installed,
    kernel_of,
    loadable,
    module,
    new_ofed,
    node,
    rebuild,
    spent_s,
)
from tests.builds.sandbox import PATH, Sandbox
from tests.builds.stubs import exported

pytestmark = pytest.mark.builds
LONG = True

CONFTEST = f"/usr/src/{DRIVER}-{VERSION}/conftest.sh"
SCRATCH = "/root/scratch"
BIN = "/usr/local/sbin"  # the first folder of PATH
# Ends itself and all that called it, on the time that $AT says; else it does what it is named.
KILLER = """#!/bin/sh
echo >>/root/calls
[ "$(wc -l </root/calls)" != "$AT" ] || kill -9 0
exec /usr/bin/NAME "$@"
"""


@dataclass(frozen=True, slots=True)
class State:
    """All that DKMS and modprobe know of nvidia-peermem for one kernel."""

    files: tuple[tuple[str, str], ...]  # path, hash
    link: str

    @classmethod
    def of(cls, box: Sandbox, kernel: str) -> State:
        roots = (f"lib/modules/{kernel}/updates", "var/lib/dkms/nvidia-peermem")
        files = [
            (f"/{path.relative_to(box.root)}", sha256(path.read_bytes()).hexdigest())
            for root in roots
            for path in sorted(box.path(root).rglob("*"))
            if path.is_file()
            and not path.is_symlink()
            # A failed build leaves nothing here; the source may have been spoiled by a test.
            and (path.name.startswith((".", "nvidia-peermem")) or "/log/" in str(path))
        ]
        link = box.path(f"var/lib/dkms/nvidia-peermem/kernel-{kernel}-x86_64")
        return cls(tuple(files), str(link.readlink()))


OLD = pytest.mark.parametrize("base", ["bookworm"], indirect=True)  # DKMS 3.0: enough for these
BOTH = pytest.mark.parametrize("base", TREES, indirect=True)


@pytest.fixture(scope="module")
def base(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A node where another OFED is installed, so that nvidia-peermem is to be rebuilt."""
    with node(request.param) as box:
        kernel = kernel_of(box)
        box.run("rm", "-f", AFTER)
        new_ofed(box, "26.01", kernel)
        yield box


@pytest.fixture
def box(base: Sandbox) -> Iterator[Sandbox]:
    with base.branch() as copy:
        yield copy


@pytest.fixture(scope="module")
def built(base: Sandbox) -> Iterator[Sandbox]:
    """What would mend it is built aside, and not yet put in place."""
    with base.branch() as box:
        words = ("aside", SCRATCH, kernel_of(box), "nvidia-peermem", VERSION)
        box.run("sh", FUNCTIONS, *words)
        yield box


@pytest.fixture
def ready(built: Sandbox) -> Iterator[Sandbox]:
    with built.branch() as copy:
        yield copy


def refused(box: Sandbox, kernel: str, cause: str) -> None:
    """A rebuild fails for that cause, and leaves all as it is."""
    before = State.of(box, kernel)
    status, said = rebuild(box, "--kernel", kernel, "--peermem", check=False)
    assert status == 1
    assert cause in said[-1]
    assert "what was installed stays as it was" in said[-1]
    assert State.of(box, kernel) == before
    assert loadable(box, kernel)
    assert ("nvidia-peermem", VERSION, kernel) in installed(box)


@BOTH
def test_a_stub_is_refused(box: Sandbox) -> None:
    # The vendor's conftest no longer sees OFED: what it builds has no body.
    box.run("sed", "-i", r"s/^check_for_ib_peer_memory_symbols() {/&\nreturn 1/", CONFTEST)
    refused(box, kernel_of(box), "nvidia-peermem.ko: stub: ")


@OLD
def test_a_source_that_does_not_compile(box: Sandbox) -> None:
    with box.path(PEERMEM_SOURCE).open("a") as source:
        source.write("#error this kernel is too new\n")
    refused(box, kernel_of(box), "#error this kernel is too new")


@OLD
def test_a_build_against_symbols_that_are_not_installed(box: Sandbox) -> None:
    kernel = kernel_of(box)
    symvers = exported(kernel)
    box.run("sed", "-i", r"s/^0x\w*\tib_register/0x00c0ffee\tib_register/", symvers)
    refused(box, kernel, "crc: it has 0x00c0ffee for ib_register_peer_memory_client")


@OLD
def test_a_full_disk_below_the_scratch_folder(box: Sandbox) -> None:
    folder = box.path("var/lib/gdr-toolkit/rebuild")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=300k", "t", folder), check=True)
    refused(box, kernel_of(box), "No space left on device")


def _swap(box: Sandbox, kernel: str, **env: str) -> int:
    words = ("sh", FUNCTIONS, "swap", SCRATCH, kernel, "nvidia-peermem", VERSION)
    return box.run(*words, check=False, env=env).status


@OLD
def test_a_full_disk_while_it_is_put_in_place(ready: Sandbox) -> None:
    kernel = kernel_of(ready)
    before = State.of(ready, kernel)
    folder = ready.path("var/lib/gdr-toolkit/swaps")
    folder.mkdir(parents=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=8k", "t", folder), check=True)
    assert _swap(ready, kernel) == 1
    assert State.of(ready, kernel) == before
    assert loadable(ready, kernel)


@OLD
def test_depmod_fails_and_the_swap_is_taken_back(ready: Sandbox) -> None:
    kernel = kernel_of(ready)
    before = State.of(ready, kernel)
    ready.write(f"{BIN}/depmod", "#!/bin/sh\nexit 1\n", 0o755)
    assert _swap(ready, kernel) == 1
    assert State.of(ready, kernel) == before


@OLD
def test_a_kill_at_any_moment_of_the_swap(ready: Sandbox) -> None:
    """By renames, which are all that it does to what lies there: before and after each."""
    kernel = kernel_of(ready)
    before, path = State.of(ready, kernel), module(ready, kernel, "nvidia-peermem").path
    old = ready.path(path).read_bytes()
    built = f"{SCRATCH}/dkms/nvidia-peermem/{VERSION}/{kernel}/x86_64/module"
    new = next(ready.path(built).glob(f"{PEERMEM}*")).read_bytes()
    assert old != new
    for name in ("mv", "rm", "cp"):
        ready.write(f"{BIN}/{name}", KILLER.replace("NAME", name), 0o755)
    killed, seen = 0, set()
    while True:
        ready.run("/usr/bin/rm", "-f", "/root/calls")
        if _swap(ready, kernel, AT=str(killed + 1)) == 0:
            break
        killed += 1
        there = ready.path(path).read_bytes()
        assert there in {old, new}  # whole, whichever of the two
        seen.add(there)
        assert loadable(ready, kernel)
        assert ready.run("sh", FUNCTIONS, "mend", env={"AT": "0"}).status == 0
        assert State.of(ready, kernel) in {before, _state_after(ready, kernel, new)}
        assert killed < 60
    assert killed > 8
    assert seen == {old, new}
    assert ready.path(path).read_bytes() == new
    assert loadable(ready, kernel)


def _state_after(box: Sandbox, kernel: str, new: bytes) -> State | None:
    """The state once the swap counted: the new module, and nothing left beside it."""
    now = State.of(box, kernel)
    left = [path for path, _ in now.files if "/.gdr" in path or "/.swap" in path]
    held = {digest for path, digest in now.files if PEERMEM in path}
    return now if not left and held == {sha256(new).hexdigest()} else None


@OLD
def test_a_kill_in_the_middle_of_the_build(box: Sandbox) -> None:
    kernel = kernel_of(box)
    before = State.of(box, kernel)
    with subprocess.Popen(
        ["chroot", str(box.root), REBUILD, "--kernel", kernel, "--peermem"],
        env={"PATH": PATH, "LC_ALL": "C"},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        deadline = time.monotonic() + 300
        pattern = "scratch.*/dkms/nvidia-peermem/*/build/kernel-open/conftest"
        while not list(box.path("var/lib/gdr-toolkit/rebuild").glob(pattern)):
            assert time.monotonic() < deadline, "it never began to compile"
            time.sleep(0.1)
        os.killpg(child.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    assert State.of(box, kernel) == before
    assert loadable(box, kernel)
    # The next one clears up after it, and gets through.
    status, said = rebuild(box, "--kernel", kernel, "--peermem")
    assert (status, len(said)) == (0, 1)
    assert "rebuilt and installed" in said[0]
    assert not list(box.path("var/lib/gdr-toolkit/rebuild").glob("scratch.*"))


@OLD
def test_what_failed_is_not_tried_at_each_transaction(box: Sandbox) -> None:
    with box.path(PEERMEM_SOURCE).open("a") as source:
        source.write("#error this kernel is too new\n")
    assert rebuild(box, "--hook")[0] == 0
    before_s = spent_s()
    _, said = rebuild(box, "--hook")
    assert "failed before, and nothing has changed since" in said[0]
    assert spent_s() - before_s < 5
    with box.path(PEERMEM_SOURCE).open("a") as source:
        source.write("/* mended? */\n")
    _, said = rebuild(box, "--hook")
    assert "not rebuilt" in said[0]
