"""The real engine on a tree of real DKMS, killed at any moment: rollback is byte for byte.

GDR_KILLS says how many kills; a run of CI has few.
"""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256

import pytest

from tests.builds import stubs
from tests.builds.nodeside import AFTER, VERSION, kernel_of, loadable, new_ofed, node
from tests.builds.sandbox import PATH, Sandbox
from tests.scripts.engine import STATE, bundle_of, sent, trigger
from toolkit.node.deliver import rollback_script
from toolkit.plan.acts import built_ofed as acts_of_ofed

pytestmark = pytest.mark.builds
LONG = True

KILLS = int(os.environ.get("GDR_KILLS", "4"))
SEED = 20261127
CONF = "/etc/modprobe.d/gdr-toolkit.conf"
TREES = (
    *("etc", "boot", "var/lib/dkms", "var/lib/dpkg/alternatives", "usr/src/nvidia*"),
    *("usr/src/ofa_kernel*", "usr/lib/modules"),
)


@pytest.fixture(scope="module")
def base() -> Iterator[Sandbox]:
    """A node where another OFED is installed, so that nvidia-peermem is to be rebuilt."""
    with node("bookworm") as box:
        box.run("rm", "-f", AFTER)
        new_ofed(box, "26.01", kernel_of(box))
        yield box


def bundle(kernel: str) -> str:
    """Steps as a plan has them for that node."""
    package = f"/var/lib/dkms/nvidia-peermem/{VERSION}"
    again = f"-m nvidia-peermem -v {VERSION} -k {kernel} --force"
    depmod = f"DEPMOD depmod -a {kernel}"
    steps = (
        f"keep BUILD_DKMS /lib/modules/{kernel}/updates/dkms {package}/{kernel}"
        " '/var/lib/dkms/nvidia-peermem/kernel-*'",
        f"temps BUILD_DKMS {package}/build '/var/lib/gdr-toolkit/rebuild/scratch.*'",
        f"keep DEPMOD '/lib/modules/{kernel}/modules.*'",
        *(f"undo kept 'BUILD_DKMS dkms {verb} {again}'" for verb in ("build", "install")),
        f"trigger 'BUILD_DKMS rebuild --kernel {kernel} --peermem'",
        *trigger(depmod),
    )
    return sent(bundle_of({CONF: "softdep nvidia post: nvidia-peermem\n"}, *steps, expect=()))


def files(box: Sandbox) -> dict[str, str]:
    """Every file and link that builds may touch: its mode, and its bytes or its target."""
    found = {}
    for tree in TREES:
        for path in (each for top in box.root.glob(tree) for each in top.rglob("*")):
            mode = f"{path.lstat().st_mode:o}"
            if path.is_symlink():
                found[str(path)] = f"{mode} {path.readlink()}"
            elif path.is_file():
                found[str(path)] = f"{mode} {sha256(path.read_bytes()).hexdigest()}"
            else:
                found[str(path)] = mode
    return {path.removeprefix(str(box.root)): what for path, what in found.items()}


@pytest.mark.parametrize("name", ["bookworm", "trixie"])
def test_the_kernels_own_modules_that_dkms_moved_aside_come_back(name: str) -> None:
    with Sandbox.of(name) as box:
        stub = stubs.ofed(box)
        box.run("dkms", "add", stub.name)
        kernel, package, version = box.kernel("6.12"), *stub.name.split("/")
        box.run("dkms", "generate_mok", check=False)  # which DKMS keeps, whatever is taken back
        keeps = f"/lib/modules/{kernel}/updates/dkms"
        acts = tuple(acts_of_ofed(package, version, kernel, (keeps,)))
        kept = shlex.join(("keep", "BUILD_DKMS", *dict.fromkeys(p for a in acts for p in a.keeps)))
        depmod = (
            f"keep DEPMOD '/lib/modules/{kernel}/modules.*'",
            *trigger(f"DEPMOD depmod -a {kernel}"),
        )
        steps = (kept, depmod[0], *(f"trigger {shlex.quote(a.call)}" for a in acts), *depmod[1:])
        before = files(box)
        box.run("sh", "-s", text=sent(bundle_of({CONF: "x\n"}, *steps, expect=())))
        assert files(box) != before
        box.run("sh", "-s", text=rollback_script("all", 5))
        after = files(box)
        wrong = {p for p in {*before, *after} if before.get(p) != after.get(p)}
        # "dkms add" makes an empty folder, and a build takes it away.
        own = {
            f"/var/lib/dkms/{package}/{version}/build",
            *(f"/var/lib/dkms/mok.{e}" for e in ("key", "pub")),
        }
        assert wrong <= own


def killed(box: Sandbox, after_s: float) -> bool:
    """Whether it was still at work after that time."""
    with subprocess.Popen(
        ["chroot", str(box.root), "sh", "-s"],
        env={"PATH": PATH, "LC_ALL": "C", "HOME": "/root"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as child:
        assert child.stdin is not None
        child.stdin.write(bundle(kernel_of(box)))
        child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(after_s)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    return child.returncode == -signal.SIGKILL


def moments() -> list[float]:
    """Parts of a run, every second one near its end, where files take their places."""
    dice = random.Random(SEED)  # noqa: S311 chance, not secrecy
    spread = [(number + dice.random()) / KILLS for number in range(KILLS)]
    return [0.7 + 0.3 * at if number % 2 else at for number, at in enumerate(spread)]


def test_what_was_comes_back_whenever_the_run_is_killed(base: Sandbox) -> None:
    before, kernel = files(base), kernel_of(base)
    with base.branch() as box:
        started = time.monotonic()
        assert box.run("sh", "-s", text=bundle(kernel)).status == 0
        whole_s = time.monotonic() - started
        assert files(box) != before
    for part in moments():
        # It ends before where it is quicker than the first: the machine is less busy by now.
        while took_s := cut_and_undone(base, before, whole_s * part):
            whole_s = min(whole_s * part, took_s)


def cut_and_undone(base: Sandbox, before: dict[str, str], at_s: float) -> float:
    """0 where it was killed amid the run, else what that took; all is as before in either case."""
    kernel = kernel_of(base)
    with base.branch() as box:
        started = time.monotonic()
        took_s = 0.0 if killed(box, at_s) else time.monotonic() - started
        undone = box.run("sh", "-s", text=rollback_script("all", 5), check=False)
        after = files(box)
        wrong = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        assert (wrong, undone.status) == (set(), 0), f"killed after {at_s:.2f} s: {undone.out}"
        assert "other hands" not in undone.out, f"killed after {at_s:.2f} s: {undone.out}"
        left = [path.name for path in box.path(STATE).iterdir()]
        assert {*left} <= {"journal", "owned", "pending", "runs", "rebuild"}, left
        assert not list(box.path(f"{STATE}/rebuild").glob("scratch.*"))
        assert loadable(box, kernel) == loadable(base, kernel)
    return took_s
