"""What the probe finds of libraries and their settings, under each shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit.evidence import Evidence, State
from toolkit.facts.nccl.consumers import Perftest, Ucx, Verbs
from toolkit.facts.node.node import Node
from toolkit.node.collect import Register, probe_script

pytestmark = pytest.mark.shell

LIB = "usr/lib/x86_64-linux-gnu"
BINARY = b"\x7fELF\x02\x00\xff\xfe\n\x00%s\x00\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with libraries that are no more than their names and a few words."""
    files = {
        f"{LIB}/libnccl.so.2.27.3": b"",
        f"{LIB}/libibverbs.so.1": BINARY % b"ibv_reg_dmabuf_mr",
        "usr/lib64/libibverbs.so.1": BINARY % b"ibv_reg_mr",
        "opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so": b"",
        "etc/nccl.conf": b"# ours\nNCCL_NET_GDR_LEVEL=LOC\n",
        "etc/environment": b"PATH=/usr/bin\nUCX_TLS=rc,cuda\n",
        "etc/profile.d/jobs.sh": b"#!/bin/sh\n  export NCCL_DEBUG=WARN\nunset NCCL_ALGO\n",
        "sys/kernel/mm/memory_peers/nv_mem/version": b"1.3\n",
        "bin/ib_write_bw": BINARY % b"cuMemAlloc_v2",
        "bin/ucx_info": b"#!/bin/sh\n[ $1 = -v ] && echo '# Library version: 1.17.0'\n",
    }
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    for name in ("ib_write_bw", "ucx_info"):
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / LIB / "libnccl.so.2").symlink_to("libnccl.so.2.27.3")
    for wheel in ("nvidia_nccl_cu12-2.26.2", "libucx_cu12-1.18.1", "nixl_cu12-1.0.0"):
        packages = tmp_path / "usr/local/lib/python3.12/dist-packages"
        (packages / f"{wheel}.dist-info").mkdir(parents=True)
    return tmp_path


def probed(root: Path, shell: tuple[str, ...], register: Register | None = None) -> Evidence:
    done = subprocess.run(
        (shutil.which(shell[0]) or shell[0], *shell[1:], "-s"),
        input=probe_script(register),
        env={"GDR_ROOT": str(root), "GDR_BIN": str(root / "bin"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return Evidence.parse(done.stdout)


SHELLS = pytest.mark.parametrize(
    "shell", [("dash",), ("busybox", "sh"), ("bash",)], ids=lambda shell: shell[0]
)


@SHELLS
def test_what_is_there_is_told(root: Path, shell: tuple[str, ...]) -> None:
    node = Node(probed(root, shell))
    found = {(each.name, each.version) for each in node.libraries}
    assert found == {
        *(("nccl", "2.27.3"), ("nccl", "2.26.2"), ("nccl-plugin", "")),
        *(("ucx", "1.18.1"), ("nixl", "1.0.0")),
    }
    assert node.verbs == (
        Verbs("/usr/lib64/libibverbs.so.1", False),
        Verbs(f"/{LIB}/libibverbs.so.1", True),
    )
    assert node.perftest == Perftest("/bin/ib_write_bw", cuda=True, dmabuf=False)
    assert node.ucx == Ucx("1.17.0", None)
    assert node.memory_peers == ("/sys/kernel/mm/memory_peers/nv_mem/version",)
    told = {each.name: (each.value, each.file) for each in node.settings.values()}
    assert told == {
        "NCCL_NET_GDR_LEVEL": ("LOC", "/etc/nccl.conf"),
        "UCX_TLS": ("rc,cuda", "/etc/environment"),
        "NCCL_DEBUG": ("WARN", "/etc/profile.d/jobs.sh"),
    }


@SHELLS
def test_where_nothing_is_there_every_frame_says_so(tmp_path: Path, shell: tuple[str, ...]) -> None:
    (tmp_path / "bin").mkdir()
    evidence = probed(tmp_path, shell)
    assert evidence.complete
    absent = {"perftest", "nccl-conf", "ucx-info"}
    for key in ("memory-peers", "libraries", "verbs-libraries", "consumer-settings"):
        assert (evidence.frame(key).state, evidence.text(key)) == (State.OK, "")
    assert {key for key in absent if evidence.frame(key).state is State.ABSENT} == absent


PYTHON = """#!/bin/sh
[ "$*" = "-ISB - /opt/it's/libibverbs.so.1" ] || exit 64
grep -c ask_pair
"""


@SHELLS
@pytest.mark.parametrize("at", ["bin/python3", "usr/libexec/platform-python"])
def test_a_registration_is_run_by_the_nodes_own_python(
    root: Path, shell: tuple[str, ...], at: str
) -> None:
    """The program comes to it whole, whatever quotes and dollars it has."""
    (root / at).parent.mkdir(parents=True, exist_ok=True)
    (root / at).write_text(PYTHON)
    (root / at).chmod(0o755)
    frame = probed(root, shell, Register("/opt/it's/libibverbs.so.1")).frame("registration")
    assert (frame.state, frame.text) == (State.OK, "2\n")


@SHELLS
def test_a_python_that_fails_is_told_with_its_words(root: Path, shell: tuple[str, ...]) -> None:
    (root / "bin/python3").write_text("#!/bin/sh\necho memlock 1\necho no ctypes >&2\nexit 3\n")
    (root / "bin/python3").chmod(0o755)
    frame = probed(root, shell, Register()).frame("registration")
    assert (frame.state, frame.exit) == (State.FAILED, 3)
    assert frame.text == "memlock 1\nno ctypes\n"


@SHELLS
def test_nothing_is_tried_unasked_or_without_a_python(root: Path, shell: tuple[str, ...]) -> None:
    assert "registration" not in probed(root, shell).frames
    assert probed(root, shell, Register()).frame("registration").state is State.ABSENT
