"""The grounds themselves: what is built on is what it says, and is left as it was."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.builds import sandbox as sandboxes
from tests.builds.grounds import tree
from tests.builds.guest import GuestTrouble, boot, make_disk
from tests.builds.layers import layer
from tests.builds.sandbox import Sandbox, mounts_below, sweep
from tests.builds.stubs import Shape, driver, ofed

pytestmark = pytest.mark.builds


@pytest.mark.parametrize(
    ("name", "dkms", "kernels"),
    [
        pytest.param("bookworm", "3.0", ("6.1.", "6.1.*-cloud-amd64", "6.1.*-rt-amd64", "6.12.")),
        pytest.param("trixie", "3.2", ("6.12.",)),
    ],
)
def test_a_tree_has_the_dkms_and_the_kernels_it_is_for(
    name: str, dkms: str, kernels: tuple[str, ...]
) -> None:
    with Sandbox.of(name) as box:
        assert f"dkms-{dkms}." in box.run("dkms", "--version").out
        for kernel in kernels:
            release = box.kernel(kernel)
            box.run("test", "-e", f"/lib/modules/{release}/build/Makefile")
            inbox = sorted(box.path(f"lib/modules/{release}/kernel").rglob("*.ko*"))
            assert len(inbox) < 200, "depmod reads them all whenever DKMS installs"
            if inbox:
                assert any(each.name.startswith("ib_core.ko") for each in inbox)


def test_what_is_written_to_a_sandbox_is_in_its_branches_and_nowhere_else() -> None:
    with Sandbox.of("bookworm") as box:
        box.write("/etc/site", "box\n")
        box.path("usr/bin/make").unlink()
        with box.branch() as branch:
            assert branch.read("/etc/site") == "box\n"
            assert branch.run("make", "--version", check=False).status == 127
            branch.write("/etc/site", "branch\n")
        assert box.read("/etc/site") == "box\n"
        gone = box.root
    assert not (tree("bookworm") / "etc/site").exists()
    assert (tree("bookworm") / "usr/bin/make").exists()
    assert not gone.exists()


def test_a_sandbox_is_unmounted_after_a_failure_and_with_mounts_of_a_tests_own(
    tmp_path: Path,
) -> None:
    box = Sandbox.of("bookworm")
    box.home = tmp_path

    def failing() -> None:
        with box:
            ours = len(mounts_below(tmp_path))
            box.path("mnt/small").mkdir()
            words = ("mount", "-t", "tmpfs", "small", box.path("mnt/small"))
            subprocess.run(words, check=True)
            assert len(mounts_below(tmp_path)) == ours + 1 > 3
            box.run("false")

    with pytest.raises(AssertionError, match="false: 1"):
        failing()
    assert mounts_below(tmp_path) == ()
    assert list(tmp_path.iterdir()) == []


def test_all_that_a_command_started_ends_with_it() -> None:
    with Sandbox.of("bookworm") as box:
        with pytest.raises(subprocess.TimeoutExpired):
            box.shell("sleep 1000 & echo $! > /pid; wait", limit_s=10)
        process = Path("/proc", box.read("/pid").strip(), "stat")
        # A killed process dies once it gets a processor.
        end = time.monotonic() + 60
        while _lives(process):
            assert time.monotonic() < end, "it outlived the command"
            time.sleep(0.05)


def test_a_command_is_over_when_it_ends_whoever_has_its_output_open() -> None:
    with Sandbox.of("bookworm") as box:
        began = time.monotonic()
        done = box.run("sh", "-euc", 'sleep 600 & cat; printf "said\\r\\n"', text="given\n")
        assert done.out == "given\nsaid\n"
        assert time.monotonic() - began < 300


def _lives(stat: Path) -> bool:
    try:
        # Who adopts a dead one may be slow to bury it.
        return ") Z " not in stat.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_a_killed_run_left_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(("true",))
    ended.wait()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: ended.pid)
        left = Sandbox((tree("bookworm"),), tmp_path).__enter__()
    ours = tmp_path / f"{sandboxes.PREFIX}{os.getpid()}-x"
    ours.mkdir()
    sweep(tmp_path)
    assert not left.root.exists()
    assert mounts_below(tmp_path) == ()
    assert ours.exists()


def test_a_layer_is_kept_with_what_it_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = (tree("bookworm"),)
    monkeypatch.setenv("GDR_TEST_CACHE", str(tmp_path))

    def change(box: Sandbox) -> None:
        box.path("usr/bin/make").unlink()
        box.run("rm", "-r", "/etc/dkms")
        box.write("/etc/dkms/framework.conf", "ours\n")

    with Sandbox(layer("changed", below, change)) as box:
        assert not box.path("usr/bin/make").exists()
        assert [path.name for path in box.path("etc/dkms").iterdir()] == ["framework.conf"]
    with Sandbox(below) as box:
        assert box.path("usr/bin/make").exists()
        assert box.path("etc/dkms/framework.conf").read_text() != "ours\n"


def test_two_shapes_of_a_stub_differ_in_their_symbol_versions() -> None:
    with Sandbox.of("bookworm") as box:
        kernel = box.kernel("6.1.")
        versions = [_versions(box, kernel, shape) for shape in (Shape.PLAIN, Shape.OTHER)]
    symbols = ("ib_register_peer_memory_client", "nvidia_p2p_get_pages")
    for symbol in symbols:
        assert len({each[symbol] for each in versions}) == 2, versions


def _versions(box: Sandbox, kernel: str, shape: Shape) -> dict[str, str]:
    """The symbol versions of both providers."""
    found: dict[str, str] = {}
    version = f"1.{len(shape)}"
    for stub in (ofed(box, version, shape=shape), driver(box, version, shape=shape)):
        box.run("dkms", "add", stub.name)
        box.run("dkms", "build", stub.name, "-k", kernel)
        for path in box.path(f"var/lib/dkms/{stub.name}/{kernel}/x86_64/module").iterdir():
            inside = f"/{path.relative_to(box.root)}"
            # Dummies export nothing, which modprobe calls an error.
            told = box.run("modprobe", "--show-exports", inside, check=False).out
            found |= {
                row.split("\t")[1]: row.split("\t")[0] for row in told.splitlines() if "\t" in row
            }
    return found


def test_a_guest_runs_a_script_with_the_kernel_asked_for_and_keeps_its_disk(
    tmp_path: Path,
) -> None:
    root = tree("guest")
    release = _plain()
    disk = make_disk(root, tmp_path / "disk")
    first = boot(root, release, "uname -r; echo kept >/note; exit 7", disk=disk)
    assert (first.status, first.out) == (7, f"{release}\n")
    assert "reboot: Power down" in first.console
    again = boot(root, release, "cat /note /proc/cmdline", append="gdr.word", disk=disk)
    assert again.status == 0
    assert again.out.startswith("kept\n")
    assert "gdr.word" in again.out
    assert not (root / "note").exists()


def test_a_guest_that_panics_says_so() -> None:
    with pytest.raises(GuestTrouble, match="Kernel panic - not syncing: sysrq triggered crash"):
        boot(tree("guest"), _plain(), "echo c >/proc/sysrq-trigger; sleep 60")


def test_a_guest_that_hangs_is_ended() -> None:
    with pytest.raises(GuestTrouble, match="no end after 12 s"):
        boot(tree("guest"), _plain(), "echo began; sleep 1000", limit_s=12)


def _plain() -> str:
    """The oldest kernel that boots."""
    return sorted(path.name for path in (tree("guest") / "lib/modules").iterdir())[0]
