"""What the probe reads of a stack whose modules have no srcversion: marks and build ids."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.evidence.modules import ko
from toolkit.checks.modules.obstacles import loaded_from_elsewhere
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.node.collect import probe_script

pytestmark = pytest.mark.shell

SHELLS = [
    pytest.param(("dash", "-s"), id="dash"),
    pytest.param(("busybox", "sh", "-s"), id="busybox"),
    pytest.param(("bash", "-s"), id="bash"),
]
KERNEL = "6.1.0-56-amd64"
FOLDER = f"lib/modules/{KERNEL}/updates/dkms"
OLD, NEW = bytes([0xAA] * 20), bytes([0xBB] * 20)
NOTE = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
MODINFO = f"""#!/bin/sh
shift 2
for name; do
    case $name in ib_core | ib_uverbs | mlx5_core) ;; *) continue ;; esac
    echo "filename:       /{FOLDER}/$name.ko"
    [ "$name" != mlx5_core ] || echo 'srcversion:     AAAA'
    [ "$name" != ib_uverbs ] || echo 'intree:         Y'
    echo 'vermagic:       {KERNEL} SMP'
done
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stack")
    files: dict[str, bytes] = {
        "proc/sys/kernel/random/boot_id": b"0b5c7f0e\n",
        "proc/sys/kernel/osrelease": f"{KERNEL}\n".encode(),
        "bin/modinfo": MODINFO.encode(),
        "sys/module/mlx5_core/srcversion": b"AAAA\n",
        "sys/module/mlx5_core/taint": b"OE\n",
        "sys/module/ib_core/taint": b"OE\n",
        "sys/module/ib_core/notes/.note.gnu.build-id": NOTE + OLD,
        "sys/module/ib_uverbs/taint": b"\n",
        "sys/module/nvme_rdma/version": b"2.0.0\n",
        "sys/module/nvme_rdma/taint": b"OE\n",
        "sys/module/rdma_rxe/taint": b"\n",
        f"{FOLDER}/ib_core.ko": ko({}, {}, build=NEW, build_first=True),
        f"{FOLDER}/ib_uverbs.ko": b"\x7fELF" + bytes(200),
        f"{FOLDER}/mlx5_core.ko": b"",
    }
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "bin/modinfo").chmod(0o755)
    return root


@pytest.mark.parametrize("shell", SHELLS)
def test_what_tells_two_builds_apart_without_a_srcversion(
    shell: tuple[str, ...], tree: Path
) -> None:
    done = subprocess.run(
        (shutil.which(shell[0]) or shell[0], *shell[1:]),
        input=probe_script(),
        env={"GDR_ROOT": str(tree), "GDR_BIN": str(tree / "bin"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    node = Node(Evidence.parse(done.stdout))
    state, files = node.module_state, node.rdma_files
    assert (state["ib_core"].build_id, files["ib_core"].build_id) == (OLD.hex(), NEW.hex())
    assert (state["ib_uverbs"].in_tree, files["ib_uverbs"].in_tree) == (True, True)
    assert (state["mlx5_core"].in_tree, files["mlx5_core"].in_tree) == (False, False)
    assert files["mlx5_core"].build_id == ""  # its srcversion tells enough
    assert loaded_from_elsewhere(node, ("ib_core", "ib_uverbs", "mlx5_core")) == ["ib_core"]
    assert (state["nvme_rdma"].version, "rdma_rxe" in state) == ("2.0.0", False)
