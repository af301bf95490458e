"""A node on which DKMS builds nvidia-peermem by our recipe, with what rebuilds it placed."""

from __future__ import annotations

import re
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from tests.builds import stubs
from tests.builds.grounds import tree
from tests.builds.layers import layer
from tests.builds.sandbox import Sandbox
from tests.builds.sources import source
from toolkit.plan.templates import TEMPLATES, render_text

DRIVER, OFED = "nvidia-current-open", "mlnx-ofed-kernel"
VERSION = "535.261.03"
REBUILD = "/usr/lib/gdr-toolkit/rebuild"
FUNCTIONS = "/root/functions.sh"
PEERMEM = "nvidia-peermem.ko"
TREES = ("bookworm", "trixie")  # DKMS 3.0 and 3.2
_OURS = {
    "/etc/kernel/postinst.d/zz-gdr-toolkit": "kernel/rebuild.sh.j2",
    REBUILD: "dkms/rebuild.sh.j2",
}
PEERMEM_SOURCE = f"/usr/src/{DRIVER}-{VERSION}/nvidia-peermem/nvidia-peermem.c"
AFTER = "/etc/dkms/framework.conf.d/gdr-toolkit-rebuild.conf"


@dataclass(frozen=True, slots=True)
class Module:
    """One installed module, as its file tells."""

    path: str
    sha256: str
    changed: int  # nanoseconds
    srcversion: str
    crcs: dict[str, str]  # of its imports from the driver and the RDMA core


def kernel_of(box: Sandbox) -> str:
    return box.kernel("6.1." if any("6.1." in each for each in box.kernels) else "6.")


def place_package(
    box: Sandbox, version: str = VERSION, *, values: Mapping[str, str] | None = None
) -> str:
    """Our DKMS package, as a bundle would place it; returns its folder."""
    usual = {"driver": version, "version": version, "driver_dkms": DRIVER, "ofed_dkms": OFED}
    values = values or usual
    folder = f"/usr/src/nvidia-peermem-{version}"
    box.write(f"{folder}/dkms.conf", render_text("dkms/peermem.conf.j2", values))
    for name in ("before-build", "after-build"):
        box.write(f"{folder}/{name}.sh", render_text(f"dkms/{name}.sh.j2", values), 0o755)
    return folder


def place_program(box: Sandbox) -> None:
    """What rebuilds, with its hooks; and its functions, to be called one by one."""
    for path, template in _OURS.items():
        box.write(path, render_text(template, {}), 0o755)
    if box.run("dkms", "--version").out.strip() >= "dkms-3.2":
        box.write(AFTER, render_text("dkms/after-transaction.conf.j2", {}))
    parts = ("gate.sh", "aside.sh", "swap.sh")
    text = "\n".join((TEMPLATES / "dkms" / each).read_text() for each in parts)
    box.write(FUNCTIONS, f'{text}\n"$@"\n')


def node(name: str) -> Sandbox:
    """Driver, OFED, nvidia-peermem and gdrdrv, all installed for one kernel."""

    def make(box: Sandbox) -> None:
        kernel = kernel_of(box)
        stubs.install(box, stubs.driver(box, VERSION, beside=source("nvidia-open")), kernel)
        stubs.install(box, stubs.ofed(box), kernel)
        stubs.install(box, stubs.gdrdrv(box), kernel)
        place_package(box)
        place_program(box)
        box.run("dkms", "add", f"nvidia-peermem/{VERSION}")
        box.run(REBUILD, "--kernel", kernel)

    files = sorted(path for path in TEMPLATES.glob("dkms/*") if path.is_file())
    recipe = sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    return Sandbox(layer(f"node-{recipe}", (tree(name),), make))


def rebuild(box: Sandbox, *words: str, check: bool = True) -> tuple[int, list[str]]:
    """Call it as a hook or an operator would; what it said of what it did."""
    done = box.run(REBUILD, *words, check=check)
    return done.status, [
        line.removeprefix("gdr-toolkit: ")
        for line in done.out.splitlines()
        if line.startswith("gdr-toolkit: ")
    ]


def spent_s() -> float:
    """What all that has ended has had of processors: it is no more for who else is at work here."""
    had = resource.getrusage(resource.RUSAGE_CHILDREN)
    return had.ru_utime + had.ru_stime


def module(box: Sandbox, kernel: str, name: str) -> Module:
    """The module that modprobe would load.

    :raises AssertionError: where there is none.
    """
    path = box.run("modinfo", "-k", kernel, "-n", name).out.strip()
    rows = box.run("modprobe", "--dump-modversions", path).out
    crcs = dict(re.findall(r"^(0x\w+)\t((?:nvidia_p2p|ib_\w*peer)\w*)$", rows, re.M))
    there = box.path(path)
    return Module(
        path,
        sha256(there.read_bytes()).hexdigest(),
        there.stat().st_mtime_ns,
        box.run("modinfo", "-k", kernel, "-F", "srcversion", name).out.strip(),
        {symbol: crc for crc, symbol in crcs.items()},
    )


def exports(box: Sandbox, kernel: str, name: str) -> dict[str, str]:
    """Checksums of what an installed module exports."""
    path = box.run("modinfo", "-k", kernel, "-n", name).out.strip()
    rows = box.run("modprobe", "--show-exports", path).out
    return {symbol: crc for crc, symbol in re.findall(r"^(0x\w+)\s(\w+)$", rows, re.M)}


def loadable(box: Sandbox, kernel: str) -> bool:
    """Whether modprobe finds nvidia-peermem, with the driver and the RDMA core before it."""
    done = box.run("modprobe", "-S", kernel, "-n", "--show-depends", "nvidia-peermem", check=False)
    names = [line.rpartition("/")[2].split(".ko")[0] for line in done.out.split("\n") if line]
    return done.status == 0 and {DRIVER, "ib_uverbs"} < set(names) and names[-1] == "nvidia-peermem"


def installed(box: Sandbox) -> set[tuple[str, str, str]]:
    """(package, version, kernel) that DKMS calls installed."""
    rows = re.findall(r"^(\S+)/(\S+), (\S+), \S+: installed", box.run("dkms", "status").out, re.M)
    return {(package, version, kernel) for package, version, kernel in rows}


def new_ofed(box: Sandbox, version: str, kernel: str, *, other: bool = True) -> None:
    """An update of OFED by its package: built and installed; ``other``: with other checksums."""
    shape = stubs.Shape.OTHER if other else stubs.Shape.PLAIN
    _updated(box, stubs.ofed(box, version, shape=shape), kernel)


def new_driver(box: Sandbox, version: str, kernel: str) -> None:
    """An update of the driver by its package: other checksums, and its version in the sources."""
    stub = stubs.driver(box, version, shape=stubs.Shape.OTHER, beside=source("nvidia-open"))
    box.run("sed", "-i", f"s/535\\.261\\.03/{version}/g", f"/usr/src/{DRIVER}-{version}/Kbuild")
    _updated(box, stub, kernel)


def _updated(box: Sandbox, stub: stubs.Stub, kernel: str) -> None:
    for words in (("add",), ("build", "-k", kernel), ("install", "-k", kernel)):
        box.run("dkms", words[0], stub.name, *words[1:])
