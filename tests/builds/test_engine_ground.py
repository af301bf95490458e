"""What a build may touch in its ground, and that nothing of it outlives it. With real DKMS."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.builds.sandbox import Sandbox
from toolkit.built.plan.model import BuildFailure, Inputs, Part
from toolkit.features.builds.io.sandbox import Order, SandboxJob, build_script, run_job
from toolkit.features.builds.plan.outcome import read_outcome

pytestmark = pytest.mark.builds

INPUTS = Inputs(Part.GDRDRV, "hang", "1", "6.1", "x86_64", "", "", "", "", "", "")
HANGS = (
    'PACKAGE_NAME="hang"\nPACKAGE_VERSION="1"\nBUILT_MODULE_NAME[0]="hang"\n'
    'DEST_MODULE_LOCATION[0]="/updates/dkms"\nMAKE[0]="./hang.sh"\n'
)
ENDLESS = (b"3601", b"3602")  # seconds that what must not go on sleeps


@pytest.fixture(scope="module")
def hanging() -> Iterator[Sandbox]:
    with Sandbox.of("bookworm") as box:
        box.write(
            "/usr/src/hang-1/dkms.conf",
            HANGS,
        )
        # It leaves its session and its group, as a build under nohup or setsid would.
        script = "#!/bin/sh\necho hanging\nsetsid sleep 3601 &\nsleep 3602\n"
        box.write("/usr/src/hang-1/hang.sh", script, 0o755)
        yield box


@pytest.mark.parametrize(
    "path", ["/etc/written", "/usr/lib/written", "/lib/modules/written", "/usr/src/hang-1/written"]
)
def test_a_build_cannot_write_to_its_ground(hanging: Sandbox, path: str) -> None:
    with hanging.branch() as box:
        box.write("/usr/src/hang-1/hang.sh", f"#!/bin/sh\ntouch {path}\nsleep 1\n", 0o755)
        script = build_script(_order(box, 60), root=str(box.root))
        text = run_job(SandboxJob("hang", str(box.root), script, 100, ""))
        assert f"touch: cannot touch '{path}': Read-only file system" in text
        assert not box.path(path).exists()


def test_what_a_build_registers_as_an_alternative_is_gone_with_its_view(hanging: Sandbox) -> None:
    """OFED's own script registers its headers, below a /usr/src that ends with the build."""
    kept = ("etc/alternatives/made", "var/lib/dpkg/alternatives/made")
    with hanging.branch() as box:
        made = "update-alternatives --install /usr/src/made made /usr/src/hang-1 17"
        shown = "ls -l /etc/alternatives/made /var/lib/dpkg/alternatives/made /etc/alternatives/awk"
        box.write("/usr/src/hang-1/hang.sh", f"#!/bin/sh\n{made} && {shown}\nexit 1\n", 0o755)
        before = box.read("var/lib/dpkg/alternatives/awk")
        order = replace(_order(box, 60), writable=True)
        text = run_job(SandboxJob("x", "", build_script(order, root=str(box.root)), 100, ""))
        assert "/etc/alternatives/made -> /usr/src/hang-1" in text
        assert "/etc/alternatives/awk -> " in text
        assert [each for each in kept if os.path.lexists(box.path(each))] == []
        assert box.read("var/lib/dpkg/alternatives/awk") == before


def test_what_others_left_in_dkms_takes_no_part(hanging: Sandbox) -> None:
    """A leftover of OFED there breaks the vendor's build; and no key is made there."""
    with hanging.branch() as box:
        box.shell("mkdir -p /var/lib/dkms/mlnx-ofed-kernel")
        box.write("/usr/src/hang-1/hang.sh", "#!/bin/sh\nls -A /var/lib/dkms; exit 1\n", 0o755)
        script = build_script(_order(box, 60), root=str(box.root))
        text = run_job(SandboxJob("hang", str(box.root), script, 100, ""))
        assert "mlnx-ofed-kernel" not in text
        assert [each.name for each in box.path("var/lib/dkms").iterdir()] == ["mlnx-ofed-kernel"]


def test_what_a_package_depends_on_need_not_be_installed_there() -> None:
    """DKMS 3.2 ends with 13 where BUILD_DEPENDS are not registered; here they are given."""
    with Sandbox.of("trixie") as box:
        conf = HANGS.replace("hang", "dep") + 'BUILD_DEPENDS[0]="nowhere"\n'
        box.write("/usr/src/dep-1/dkms.conf", conf)
        box.write("/usr/src/dep-1/dep.sh", "#!/bin/sh\necho made; exit 3\n", 0o755)
        script = build_script(Order(box.kernel("6."), "dep", "1", 60), root=str(box.root))
        came = read_outcome(run_job(SandboxJob("x", "", script, 100, "")), INPUTS)
    assert isinstance(came, BuildFailure)
    assert (came.step, came.status) == ("make", 10)
    assert "made" in came.tail


def test_builds_that_begin_at_once_keep_out_of_each_others_way(hanging: Sandbox) -> None:
    script = build_script(Order(hanging.kernel("6.1."), "none", "1", 60), root=str(hanging.root))
    with ThreadPoolExecutor(4) as executor:
        jobs = [SandboxJob("x", "", script, 100, "")] * 12
        said = list(executor.map(run_job, jobs))
    assert all("no source of none/1" in text for text in said)
    assert _scratch(hanging) == []


def test_a_tree_that_cannot_be_entered_says_what_is_missing() -> None:
    with Sandbox.of("bookworm") as box:
        box.path("mnt").rmdir()
        script = build_script(_order(box, 60), root=str(box.root))
        came = read_outcome(run_job(SandboxJob("x", "", script, 60, "")), INPUTS)
    assert isinstance(came, BuildFailure)
    assert came.step == "prepare"
    assert "/mnt: mount point does not exist" in came.found


# --- builds that do not end ------------------------------------------------------------


def _order(box: Sandbox, limit_s: int) -> Order:
    return Order(box.kernel("6.1."), "hang", "1", limit_s)


def _going() -> list[str]:
    """What of a hanging build still runs, anywhere on this machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:2] and words[1] in ENDLESS:
            found.append(b" ".join(words).decode())
    return found


def _scratch(box: Sandbox) -> list[str]:
    return [each.name for each in box.path("var/tmp").glob("gdr-build.*")]


def test_a_build_that_hangs_is_ended_at_its_limit(hanging: Sandbox) -> None:
    script = build_script(_order(hanging, 60), root=str(hanging.root))
    begun = time.monotonic()
    text = run_job(SandboxJob("hang", str(hanging.root), script, 300, ""))
    assert time.monotonic() - begun < 200
    came = read_outcome(text, INPUTS)
    assert isinstance(came, BuildFailure)
    assert (came.step, came.found.split(": ")[1]) == ("make", "not done after 60 s, killed")
    assert "hanging" in came.tail
    assert _going() == []
    assert _scratch(hanging) == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_goes_on_when_the_worker_is_killed(
    hanging: Sandbox, tmp_path: Path, how: signal.Signals
) -> None:
    script, log = tmp_path / "script", tmp_path / "log"
    script.write_text(build_script(_order(hanging, 400), root=str(hanging.root)))
    worker = subprocess.Popen(
        [sys.executable, "-c",
         "import sys; from pathlib import Path\n"
         "from toolkit.features.builds.io.sandbox import SandboxJob, run_job\n"
         "run_job(SandboxJob('hang', '', Path(sys.argv[1]).read_text(), 500, sys.argv[2]))",
         str(script), str(log)],
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    _wait(lambda: len(_going()) == 2, 120, "it never began")
    _wait(lambda: "|hanging" in log.read_text(), 30, "its line never came")
    os.kill(worker.pid, how)
    worker.wait(30)
    _wait(lambda: not _going(), 60, "it goes on")
    came = read_outcome(log.read_text(), INPUTS)
    assert isinstance(came, BuildFailure)
    assert came.found == "it was killed, or cut off, in the midst of: make"
    # The next build there removes what this one could not.
    run_job(
        SandboxJob("hang", "", build_script(_order(hanging, 1), root=str(hanging.root)), 300, "")
    )
    assert _scratch(hanging) == []


def _wait(until: Callable[[], bool], limit_s: float, why: str) -> None:
    end = time.monotonic() + limit_s
    while not until():
        assert time.monotonic() < end, why
        time.sleep(0.1)
