"""What the real libibverbs and a real kernel say to a registration, on a guest without a GPU.

Soft-RoCE has no call for dma-buf memory, by either way to ask. A device of our own has it in the
kernel, behind a provider library that has none: that the two are told apart is the point.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator

import pytest

from dev.lab.machine import Guest
from dev.run import ROOT
from tests.builds.sandbox import Sandbox
from tests.builds.sources import unpacked
from tests.machine.pool import Guests, gdr
from tests.machine.specs import INTEL

pytestmark = pytest.mark.machine
BOOTS = 1
SOURCE = ROOT / "tests/machine/source/able_hca"
PYTHON = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libffi8")


def _python() -> bytes:
    """Debian's Python as its packages have it, to be laid over a root."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in PYTHON:
            folder = unpacked("bookworm", name)
            for path in sorted((folder / "usr").rglob("*")):
                if not path.is_dir() and "doc" not in path.parts:
                    tar.add(path, str(path.relative_to(folder)))
        link = tarfile.TarInfo("usr/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, "python3.11"
        tar.addfile(link)
    return stream.getvalue()


def _module(release: str) -> bytes:
    with Sandbox.of("bookworm") as box:
        for path in sorted(SOURCE.iterdir()):
            box.write(f"/src/{path.name}", path.read_text())
        box.run("make", "-C", f"/lib/modules/{release}/build", "M=/src", "modules")
        return box.path("src/able_hca.ko").read_bytes()


@pytest.fixture(scope="module")
def guest(_pool: Guests) -> Iterator[Guest]:
    """With rxe0 and able0, and a Python."""
    guest = _pool.fresh(INTEL)
    release = guest.run("uname -r").out.strip()
    guest.put("/tmp/python.tar", _python())
    guest.put("/tmp/able_hca.ko", _module(release))
    guest.run(
        "tar xf /tmp/python.tar -C / --skip-old-files && ldconfig && rm /tmp/python.tar && "
        "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0 && "
        "insmod /tmp/able_hca.ko && udevadm settle"
    )
    yield guest
    _pool.close()


def test_an_old_provider_is_told_from_a_kernel_that_cannot(guest: Guest) -> None:
    ran = gdr(guest, "exercise", "--register", "--json")
    [host] = json.loads(ran.out)["hosts"]
    said = {each["name"]: (each["public"], each["kernel"]) for each in host["hcas"]}
    assert said == {"rxe0": ("EOPNOTSUPP", "EOPNOTSUPP"), "able0": ("EOPNOTSUPP", "EBADF")}
    assert {each["name"]: each["able"] for each in host["hcas"]} == {"rxe0": False, "able0": False}
    [able] = (each["why"] for each in host["hcas"] if each["name"] == "able0")
    assert able == "the kernel can, and the provider library cannot: rdma-core is too old"
    assert host["missing"]["libcuda"].startswith("libcuda.so.1: cannot open shared object file")


def test_it_leaves_nothing(guest: Guest) -> None:
    before = guest.run("rdma resource show; ls /tmp /dev/shm").out
    gdr(guest, "exercise", "--register")
    assert guest.run("rdma resource show; ls /tmp /dev/shm").out == before
    assert not guest.run("pidof python3.11 || :").out.strip()
