"""Ways in for which this project's tests have no real program: enroot's and srun's own.

A stand-in enters a mount namespace by its PID, as enroot exec does, or a root folder, as srun
does with pyxis. The namespace is real, and so is what the probe finds of it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import invoked
from tests.kube.containers import FILES, laid_out, sleeping
from tests.replay import ReplayTransport
from toolkit.errors import ExitCode, TransportError
from toolkit.evidence import Evidence, Frame, State
from toolkit.node.collect import Register, probe_script
from toolkit.node.inside import parse_inside, refuse_missing
from toolkit.verbs.inside import collect_inside

pytestmark = pytest.mark.kube
NCCL = next(f"/{name}" for name in FILES if name.endswith("libnccl.so.2.27.3"))


def program(folder: Path, name: str, text: str) -> str:
    """A stand-in, and the PATH that has it."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{text}")
    (folder / "bin" / name).chmod(0o755)
    return f"{folder}/bin:{os.environ['PATH']}"


def probed(path: str, where: str, register: Register | None = None) -> Evidence:
    done = subprocess.run(
        ("sh", "-s"), input=probe_script(register, parse_inside(where)), text=True,
        env={"PATH": path}, capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    return Evidence.parse(done.stdout)


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[int]:
    """A process whose root is the folder "train", mounted as enroot mounts one."""
    root = laid_out(tmp_path / "train", {})
    (root / "old").mkdir()
    script = (
        'mount --make-rprivate / && mount --bind "$1" "$1" && cd "$1" && '
        "mount -t proc proc proc && pivot_root . old && /bin/busybox umount -l /old && "
        "exec /bin/sleep 600"
    )
    with sleeping(("unshare", "--mount", "sh", "-c", script, "sh", root)) as pid:
        yield pid


@pytest.mark.parametrize("by", ["name", "pid"])
def test_a_container_of_enroot_is_found_by_its_mounts(
    by: str, contained: int, tmp_path: Path
) -> None:
    path = program(tmp_path, "enroot", '[ "$1" = exec ] && exec nsenter -t "$2" -m -r "$3" "$4"\n')
    where = "enroot:train" if by == "name" else f"enroot:{contained}"
    found = refuse_missing("gpu1", probed(path, where))
    assert NCCL in found.text("inside/libraries").split("\n")
    assert "way entered" in found.text("inside")


def test_a_container_of_enroot_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = program(tmp_path, "enroot", "echo 'enroot: no such process' >&2; exit 1\n")
    with pytest.raises(TransportError, match="gpu1: enroot gone: enroot: no such process"):
        refuse_missing("gpu1", probed(path, "enroot:gone"))


def test_a_step_of_slurm_runs_in_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = laid_out(tmp_path / "root", {})
    text = f'echo "$@" >{tmp_path}/said\nwhile [ "$1" != sh ]; do shift; done\n'
    text += f'exec chroot {root} "$@"\n'
    monkeypatch.setenv("PATH", program(tmp_path, "srun", text))
    node = ReplayTransport(
        "gpu1", Evidence({"uid": Frame("uid", State.OK, "id -u", "0\n")}, complete=True)
    )
    found = collect_inside(node, parse_inside("slurm:--container-image=train.sqsh"))
    assert NCCL in found.text("inside/libraries").split("\n")
    said = (tmp_path / "said").read_text()
    assert said == "--quiet -N1 -n1 -w gpu1 --container-image=train.sqsh sh -s\n"


def test_registration_is_tried_by_what_is_in_it() -> None:
    """This machine's own root, entered: its Python says what it found of libibverbs and CUDA."""
    found = refuse_missing("gpu1", probed(os.environ["PATH"], "chroot:/.", Register("/nowhere.so")))
    frame = found.frame("inside/registration")
    assert frame.state is State.OK, frame
    assert "libibverbs - /nowhere.so" in frame.text or "nowhere.so" in frame.text
    assert "registration" not in found.frames
    assert found.within().text("registration") == frame.text


def test_what_was_tried_in_it_is_told_of_it(tmp_path: Path) -> None:
    """By the verb, on this machine: the table and the document name what was entered."""
    words = ("--register", "--hosts", "localhost", "--transport", "local", "--inside", "chroot:/.")
    done = invoked.gdr("exercise", *words, state=tmp_path)
    assert "localhost in chroot /.: " in done.stdout, done.stderr
    (host,) = json.loads(invoked.gdr("exercise", *words, "--json", state=tmp_path).stdout)["hosts"]
    assert (host["inside"], done.returncode) == ("chroot /.", ExitCode.UNKNOWN)
