"""What the gate says of a module, held against a kernel that is asked to load it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builds import stubs
from tests.builds.grounds import tree
from tests.builds.guest import Said, boot
from tests.builds.judging import judge_files, modules_of
from tests.builds.layers import layer, stack
from tests.builds.sandbox import Sandbox
from tests.builds.sources import source
from toolkit.built.plan.gate import GateVerdict, Refused

pytestmark = pytest.mark.builds

PLAIN = ("6.1.", "6.12.")
DRIVER = "nvidia-current-open"  # Debian's names: the file, and what modprobe is asked for
# Everything in one boot; each line of output says what it is the answer to.
SCRIPT = f"""
say() {{ sed "s/^/$1: /"; }}
insmod /kinds/stub/{DRIVER}-peermem.ko 2>&1 | say stub
modprobe {DRIVER}-peermem 2>&1 | say load
lsmod | grep -E '^(nvidia|ib_|mlx_)' | tr -s ' ' | say lsmod
rmmod nvidia 2>&1 | say held
cat /sys/module/nvidia_peermem/version | say version
cat /proc/driver/nvidia/version | say driver
modprobe -r {DRIVER}-peermem; lsmod | grep -c ^nvidia_peermem | say renamed
rmmod nvidia_peermem nvidia ib_uverbs ib_core mlx_compat 2>&1 | say unload
lsmod | grep -cE '^(nvidia|ib_|mlx_)' | say left
insmod /kinds/updated/mlx_compat.ko
insmod /kinds/updated/ib_core.ko
insmod /kinds/updated/ib_uverbs.ko
modprobe nvidia-current-open
insmod /lib/modules/$(uname -r)/updates/dkms/{DRIVER}-peermem.ko 2>&1 | say updated
"""


def _kinds(box: Sandbox) -> None:
    """Beside the good stack: nvidia-peermem without OFED, and OFED in another version."""
    kernel = box.kernel(PLAIN[0])
    vendors = source("nvidia-open")
    box.run("mkdir", "-p", "/kinds/stub", "/kinds/updated")
    with Sandbox.of("bookworm") as bare:
        main = stubs.driver(bare, vendors.version, peermem=vendors)
        bare.run("dkms", "add", main.name)
        bare.run("dkms", "build", main.name, "-k", kernel)
        made = bare.path(f"var/lib/dkms/{main.name}/{kernel}/x86_64/module")
        box.write(f"/kinds/stub/{DRIVER}-peermem.ko", (made / f"{DRIVER}-peermem.ko").read_bytes())
        update = stubs.ofed(bare, "26.01", shape=stubs.Shape.OTHER)
        bare.run("dkms", "add", update.name)
        bare.run("dkms", "build", update.name, "-k", kernel)
        made = bare.path(f"var/lib/dkms/{update.name}/{kernel}/x86_64/module")
        for name in ("mlx_compat.ko", "ib_core.ko", "ib_uverbs.ko"):
            box.write(f"/kinds/updated/{name}", (made / name).read_bytes())


@pytest.fixture(scope="module")
def kinds() -> tuple[Path, ...]:
    return layer("kinds", stack("bookworm", peermem=True).lower, _kinds)


def _booted(below: tuple[Path, ...], kernel: str, script: str) -> Said:
    """Boot the modules of a tree in a guest, as if they were installed there."""
    with Sandbox(below) as built, Sandbox.of("guest") as box:
        updates = f"lib/modules/{kernel}/updates/dkms"
        for path in built.path(updates).iterdir():
            box.write(f"{updates}/{path.name}", path.read_bytes())
        if built.path("kinds").exists():
            for path in built.path("kinds").rglob("*.ko"):
                box.write(f"/{path.relative_to(built.root)}", path.read_bytes())
        box.run("depmod", kernel)
        return boot(box.root, kernel, script)


@pytest.fixture(scope="module")
def said(kinds: tuple[Path, ...]) -> Said:
    return _booted(kinds, _release(PLAIN[0]), SCRIPT)


def _release(words: str) -> str:
    with Sandbox((tree("bookworm"),)) as box:
        return box.kernel(words)


def answers(said: Said, name: str) -> list[str]:
    return [row.removeprefix(f"{name}: ") for row in said.out.split("\n") if row.startswith(name)]


def told(said: Said, name: str, expected: list[str]) -> None:
    """That this was the answer; where it was not, all that the guest said."""
    given = answers(said, name)
    assert given == expected, f"{name}: {given}, not {expected}\n{said.out}\n{said.console}"


def logged(said: Said, words: str) -> None:
    """That the kernel said so."""
    assert words in said.console, f"not on the console: {words}\n{said.out}\n{said.console}"


def judged(kinds: tuple[Path, ...], folder: str) -> GateVerdict:
    """What the gate says of nvidia-peermem beside the modules of a folder."""
    with Sandbox(kinds) as box:
        kernel = box.kernel(PLAIN[0])
        installed = modules_of(box, f"/lib/modules/{kernel}/updates/dkms")
        others = {each.name: each for each in (*installed, *modules_of(box, folder))}
        box.path(stubs.exported(kernel)).unlink()
        return judge_files(box, kernel, tuple(others.values()), "peermem")


def test_the_real_module_loads_after_what_it_rests_on(said: Said, kinds: tuple[Path, ...]) -> None:
    told(said, "load", [])
    shown = {row.split()[0]: row.split()[3:] for row in answers(said, "lsmod")}
    assert shown == {
        "nvidia_peermem": [],
        "nvidia": ["nvidia_peermem"],
        "ib_uverbs": ["nvidia_peermem"],
        "ib_core": ["ib_uverbs"],
        "mlx_compat": ["ib_core"],
    }, f"lsmod: {shown}\n{said.out}\n{said.console}"
    told(said, "version", [source("nvidia-open").version])
    logged(said, "peer memory client nv_mem registered")
    verdict = judged(kinds, "/nothing")
    assert verdict.passed, f"refused: {verdict}"


def test_it_unloads_in_order(said: Said) -> None:
    told(said, "held", ["rmmod: ERROR: Module nvidia is in use by: nvidia_peermem"])
    # Debian's file has another name than its module, so that modprobe -r finds nothing loaded.
    told(said, "renamed", ["1"])
    told(said, "unload", [])
    told(said, "left", ["0"])
    logged(said, "peer memory client nv_mem gone")


def test_the_kernel_refuses_the_stub_that_the_gate_refuses(
    said: Said, kinds: tuple[Path, ...]
) -> None:
    [told] = answers(said, "stub")
    assert told.endswith(f"/kinds/stub/{DRIVER}-peermem.ko: Invalid parameters")
    [refusal] = judged(kinds, "/kinds/stub").refusals
    assert refusal.cause is Refused.STUB


def test_the_kernel_refuses_another_ofed_as_the_gate_does(
    said: Said, kinds: tuple[Path, ...]
) -> None:
    assert "Invalid parameters" in answers(said, "updated")[0]
    symbol = "ib_register_peer_memory_client"
    logged(said, f"nvidia_peermem: disagrees about version of symbol {symbol}")
    causes = {each.cause for each in judged(kinds, "/kinds/updated").refusals}
    assert causes == {Refused.CRC}


def test_it_loads_in_a_newer_kernel_from_packed_files() -> None:
    kernel = _release(PLAIN[1])
    script = f"modprobe {DRIVER}-peermem && cat /sys/module/nvidia_peermem/version"
    said = _booted(stack("bookworm", peermem=True).lower, kernel, script)
    assert (said.status, said.out) == (0, f"{source('nvidia-open').version}\n"), said.out
