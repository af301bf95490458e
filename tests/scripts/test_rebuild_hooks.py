"""The program that nodes rebuild with, and the hooks of package managers that call it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dev.tools import in_ci
from tests.scripts.engine import SHELLS
from toolkit.plan.templates import render_text

pytestmark = pytest.mark.shell

KERNEL = "6.8.0-45-generic"


def test_the_program_is_clean_and_every_shell_can_read_it(tmp_path: Path) -> None:
    script = tmp_path / "rebuild"
    script.write_text(render_text("dkms/rebuild.sh.j2", {}))
    done = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    for shell in SHELLS.values():
        subprocess.run([*shell, "-n", script], check=True)
        done = subprocess.run(
            [*shell, script, "--nope"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr[:6]) == (64, "usage:")


def test_zypper_gets_an_answer_to_every_frame(tmp_path: Path) -> None:
    program = tmp_path / "rebuild"
    program.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\nexit 1\n')
    program.chmod(0o755)
    text = render_text("zypper/rebuild.sh.j2", {}).replace(
        "/usr/lib/gdr-toolkit/rebuild", str(program)
    )
    frames = ["PLUGINBEGIN\nuserdata:x\n\n", "COMMITBEGIN\n\n{}", "\nCOMMITEND\n\n{}", "WHAT\n\n"]
    done = subprocess.run(
        ["bash", "-c", text],
        input="".join(f"{frame}\0" for frame in frames) + "_DISCONNECT\n\n\0",
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "ACK\n\n\0" * 5
    assert (tmp_path / "calls").read_text() == "--hook\n"


def test_a_line_for_dnf_5_has_its_five_fields_and_prints_nothing_that_it_would_read() -> None:
    text = render_text("dnf/rebuild.actions.j2", {})
    lines = [line.split(":", 4) for line in text.split("\n") if line and not line.startswith("#")]
    assert {(line[0], line[2], line[3]) for line in lines} == {("post_transaction", "in", "")}
    of_dnf_4 = [
        line for line in render_text("dnf/rebuild.action.j2", {}).split("\n") if ":in:" in line
    ]
    assert [line[1] for line in lines] == [line.partition(":")[0] for line in of_dnf_4]
    [command] = {line[4] for line in lines}
    assert shlex.split(command) == ["/bin/sh", "-c", "/usr/lib/gdr-toolkit/rebuild --hook >&2"]


@pytest.mark.skipif(
    not shutil.which("apt-config") and not in_ci(), reason="apt is not on this machine"
)
def test_apt_understands_its_hook(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(render_text("apt/rebuild.conf.j2", {}))
    done = subprocess.run(
        ["apt-config", "dump", "--format", "%v%n", "DPkg::Post-Invoke"],
        env=os.environ | {"APT_CONFIG": str(tmp_path / "conf")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    [command] = [line for line in done.stdout.split("\n") if "gdr-toolkit" in line]
    # Where the program is gone, or fails, apt must not fail.
    assert subprocess.run(["sh", "-c", command], check=False).returncode == 0


@pytest.mark.parametrize("name", ["kernel/rebuild.sh.j2", "kernel/rebuild.install.j2"])
def test_a_kernels_package_never_fails_over_it(name: str, tmp_path: Path) -> None:
    program = tmp_path / "rebuild"
    program.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\nexit 1\n')
    program.chmod(0o755)
    text = render_text(name, {}).replace("/usr/lib/gdr-toolkit/rebuild", str(program))
    words = ["add", KERNEL] if "install" in name else [KERNEL]
    subprocess.run(["sh", "-c", text, "hook", *words], check=True)
    assert (tmp_path / "calls").read_text() == f"--hook --kernel {KERNEL}\n"
    if "install" in name:
        subprocess.run(["sh", "-c", text, "hook", "remove", KERNEL], check=True)
        assert (tmp_path / "calls").read_text().count("\n") == 1
