"""What is read of a container's files, under each shell; and that nothing is written there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from toolkit.evidence import Evidence
from toolkit.facts.nccl.consumers import parse_settings
from toolkit.facts.nccl.containers import (
    parse_cuda,
    parse_drivers,
    parse_leader,
    parse_named,
    parse_providers,
)
from toolkit.node.inside import inside_script

pytestmark = pytest.mark.shell
SHELLS = pytest.mark.parametrize(
    "shell", [("dash",), ("busybox", "sh"), ("bash",)], ids=lambda shell: shell[0]
)
LIB = "usr/lib/x86_64-linux-gnu"
OWN = "opt/job/lib"  # a folder that its environment alone names
FILES = {
    "usr/lib/os-release": b"ID=ubuntu\n",
    "etc/nccl.conf": b"NCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5_0\n",
    "root/.nccl.conf": b"# of the user\nNCCL_IB_HCA=mlx5_1\n",
    "etc/libibverbs.d/mlx5.driver": b"driver mlx5\n",
    "etc/libibverbs.d/efa.driver": b"# by hand\ndriver efa\n",
    "etc/ld.so.conf.d/site.conf": b"# ours\n/opt/site/lib\n",
    "opt/site/lib/libibverbs.so.1": b"\x7fELF\x00ibv_reg_dmabuf_mr\n",
    f"{LIB}/libibverbs/libmlx5-rdmav34.so": b"",
    f"{OWN}/libnccl.so.2.29.1": b"",
    f"{OWN}/libcuda.so.1": b"",
    "usr/local/cuda-12.8/lib64/stubs/libcuda.so": b"",
    "proc/1/status": b"Name:\tsleep\nUid:\t0\t0\t0\t0\nCapEff:\t00000000a80465fb\n",
    "proc/1/limits": b"Max locked memory         65536                65536                bytes\n",
    "proc/1/uid_map": b"         0       1000          1\n",
    "proc/1/mounts": b"overlay / overlay rw 0 0\nshm /dev/shm tmpfs rw,size=65536k 0 0\n",
    "proc/1/environ": f"LD_LIBRARY_PATH=/{OWN}:/nowhere\0".encode()
    + b"NCCL_TOPO_FILE=/etc/t.xml\0SECRET=x\0",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / LIB / "libibverbs.so.1").symlink_to("libibverbs.so.1.14.39.0")
    (tmp_path / LIB / "libibverbs.so.1.14.39.0").write_bytes(b"ibv_reg_dmabuf_mr\n")
    return tmp_path


def read(root: Path, shell: tuple[str, ...], temporary: Path) -> Evidence:
    done = subprocess.run(
        (shutil.which(shell[0]) or shell[0], *shell[1:], "-s"), input=inside_script(), text=True,
        env={"GDR_ROOT": str(root), "GDR_BIN": "/", "PATH": "/usr/bin:/bin",
             "TMPDIR": str(temporary)},
        capture_output=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return Evidence.parse(done.stdout)


@SHELLS
def test_all_that_counts_is_told(root: Path, shell: tuple[str, ...], tmp_path: Path) -> None:
    found = read(root, shell, tmp_path)
    assert found.complete
    assert found.text("os-release") == "ID=ubuntu\n"
    leader = parse_leader(found.text("process"))
    assert (leader.memlock, leader.ipc_lock, leader.mapped) == (65536, True, True)
    libraries = parse_providers(found.text("providers"))
    assert libraries.libibverbs == (f"/{LIB}/libibverbs.so.1", "/opt/site/lib/libibverbs.so.1")
    assert libraries.release == "39.0"
    assert libraries.providers == (("mlx5", f"/{LIB}/libibverbs/libmlx5-rdmav34.so"),)
    assert parse_drivers(found.text("drivers")) == {"mlx5", "efa"}
    assert parse_cuda(found.text("cuda-libraries")) == ((f"/{OWN}/libcuda.so.1", ""),)
    assert f"/{OWN}/libnccl.so.2.29.1" in found.text("libraries").split("\n")
    assert parse_named(found.text("named-files")) == (("NCCL_TOPO_FILE", "/etc/t.xml", False),)


@SHELLS
def test_settings_count_as_nccl_reads_them(
    root: Path, shell: tuple[str, ...], tmp_path: Path
) -> None:
    """The environment before the user's file, and that before /etc/nccl.conf; no other variable."""
    found = read(root, shell, tmp_path)
    told = parse_settings(found.text("nccl-conf"), found.text("consumer-settings"))
    assert {each.name: (each.value, each.file) for each in told} == {
        "NCCL_DEBUG": ("WARN", "/etc/nccl.conf"),
        "NCCL_IB_HCA": ("mlx5_1", "/root/.nccl.conf"),
        "NCCL_TOPO_FILE": ("/etc/t.xml", "its environment"),
    }
    assert "SECRET" not in found.dump()


@SHELLS
def test_nothing_is_written_there(root: Path, shell: tuple[str, ...], tmp_path: Path) -> None:
    empty = tmp_path / "temporary"
    empty.mkdir()
    stamps = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    read(root, shell, empty)
    assert list(empty.iterdir()) == []
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == stamps
    assert empty.stat().st_mtime_ns == stamps[empty]
