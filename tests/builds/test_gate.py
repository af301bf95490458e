"""Both gates over the same real modules: they let the same in, and refuse the rest alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builds import stubs
from tests.builds.failing import DRIVER
from tests.builds.judging import ground_of, modules_of
from tests.builds.layers import stack
from tests.builds.sandbox import Sandbox
from toolkit.built.plan.gate import GateGround, judge_module
from toolkit.built.plan.gate_rules import REGISTER
from toolkit.built.plan.model import BuiltFile
from toolkit.facts.modules.module_file import read_image

pytestmark = pytest.mark.builds

ROOT = Path(__file__).parents[2]
NAME = "nvidia-peermem.ko"
TREE = "/root/tree"


@dataclass(frozen=True, slots=True)
class Made:
    """nvidia-peermem as the vendor's make leaves it in one place or another."""

    box: Sandbox
    kernel: str
    ground: GateGround
    modules: dict[str, bytes]

    def python(self, data: bytes) -> str:
        """The first word that the gate of ours says; "" where it lets the module in."""
        refusals = judge_module(BuiltFile(NAME, data), self.ground)
        return refusals[0].cause.value if refusals else ""

    def shell(self, data: bytes) -> str:
        """The same of templates/dkms/gate.sh, in the tree where the providers are installed."""
        self.box.write(f"/root/judged/{NAME}", data)
        self.box.write("/root/gate.sh", (ROOT / "templates/dkms/gate.sh").read_text())
        done = self.box.run("sh", "-c", '. /root/gate.sh; gate "$@"', "-", self.kernel,
                            f"/root/judged/{NAME}", check=False)  # fmt: skip
        words = re.findall(rf"^gate: {re.escape(NAME)}: ([\w-]+): \S.*$", done.out, re.M)
        assert bool(done.status) == bool(words), done.out
        return words[0] if words else ""


def _make(box: Sandbox, kernel: str, symvers: str, *words: str) -> bytes:
    """nvidia-peermem alone, by the vendor's Makefile."""
    box.shell(f"rm -f {TREE}/*.ko {TREE}/*.mod* {TREE}/nvidia-peermem/*.o")
    box.run(
        *("make", "-C", TREE, "-j2", "modules", f"KERNEL_UNAME={kernel}"),
        *("NV_KERNEL_MODULES=nvidia-peermem", f"KBUILD_EXTRA_SYMBOLS={symvers}", *words),
    )
    box.shell(f"strip -g {TREE}/{NAME}")
    return box.path(f"{TREE}/{NAME}").read_bytes()


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    with stack("bookworm", peermem=True) as box:
        kernel, other = box.kernel("6.1."), box.kernel("6.12.")
        installed = modules_of(box, f"usr/lib/modules/{kernel}/updates/dkms")
        peermem = f"{DRIVER.package}-peermem.ko"
        ground = ground_of(box, kernel, installed)
        ofed = stubs.exported(kernel)
        driver = f"/usr/lib/modules/{kernel}/updates/dkms/{DRIVER.package}.ko"
        own = box.run("modprobe", "--show-exports", driver).out
        rows = re.sub(r"(?m)$", "\tnvidia\tEXPORT_SYMBOL\t", own.strip()) + "\n"
        box.write("/root/driver.symvers", rows)
        # Another OFED: the same names in another version.
        box.write("/root/other.symvers", re.sub(r"(?m)^0x\w\w", "0xff", box.read(ofed)))
        box.shell(f'cp -r "$AT" {TREE}', AT=f"/usr/src/{DRIVER.package}-{DRIVER.version}")
        modules = {"by DKMS": next(each.data for each in installed if each.name == peermem)}
        modules["by make"] = _make(box, kernel, f"{ofed} /root/driver.symvers")
        modules["other OFED"] = _make(box, kernel, "/root/other.symvers /root/driver.symvers")
        modules["careless"] = _make(box, kernel, ofed, "KBUILD_MODPOST_WARN=1")
        box.shell("mv /usr/src/ofa_kernel /root/hidden; mv /var/lib/dkms/mlnx-ofed-kernel /root/")
        box.shell(f"rm -r {TREE}/conftest")
        modules["stub"] = _make(box, kernel, "/root/driver.symvers")
        box.shell("mv /root/hidden /usr/src/ofa_kernel; mv /root/mlnx-ofed-kernel /var/lib/dkms/")
        others = modules_of(box, f"usr/lib/modules/{other}/updates/dkms")
        modules["other kernel"] = next(each.data for each in others if each.name == peermem)
        yield Made(box, kernel, ground, modules)


# --- what is done to a good module


def truncated(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def without_its_end(data: bytes) -> bytes:
    """Unsigned, and the last row of its table of sections lost."""
    return data[:-64]


def empty(data: bytes) -> bytes:
    return b""


def packed_badly(data: bytes) -> bytes:
    return b"\xfd7zXZ\x00" + data[:200]


def tampered_version(data: bytes) -> bytes:
    """One bit of the version of one import."""
    at = data.index(REGISTER.encode() + b"\0") - 8
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def tampered_layout(data: bytes) -> bytes:
    at = data.index(b"module_layout\0") - 8
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def tampered_depends(data: bytes) -> bytes:
    return data.replace(b"depends=nvidia,ib_uverbs\0", b"depends=nvidia,ib_uother\0")


def tampered_release(data: bytes) -> bytes:
    return data.replace(b"version=535.261.03\0", b"version=535.183.01\0")


def other_machine(data: bytes) -> bytes:
    return data[:18] + b"\xb7\x00" + data[20:]


CHANGES: tuple[tuple[Callable[[bytes], bytes], str], ...] = (
    (truncated, "damaged"),
    (without_its_end, "damaged"),
    (empty, "damaged"),
    (packed_badly, "damaged"),
    (tampered_version, "crc"),
    (tampered_layout, "other-kernel"),
    (tampered_depends, "no-depends"),
    (tampered_release, "other-driver"),
    (other_machine, "other-arch"),
)
BUILT = (
    ("by DKMS", ""),
    ("by make", ""),
    ("stub", "stub"),
    ("careless", "crc"),
    ("other OFED", "crc"),
    ("other kernel", "other-kernel"),
)


@pytest.mark.parametrize(("how", "word"), BUILT, ids=[how for how, _ in BUILT])
def test_a_module_is_judged_alike_by_both(how: str, word: str, made: Made) -> None:
    assert (made.python(made.modules[how]), made.shell(made.modules[how])) == (word, word)


@pytest.mark.parametrize(("change", "word"), CHANGES, ids=[each.__name__ for each, _ in CHANGES])
def test_a_good_module_that_was_spoilt_is_refused_by_both(
    change: Callable[[bytes], bytes], word: str, made: Made
) -> None:
    good = made.modules["by make"]
    assert made.python(good) == ""
    spoilt = change(good)
    assert spoilt != good
    assert (made.python(spoilt), made.shell(spoilt)) == (word, word)


def test_every_cut_of_a_real_module_is_refused(made: Made) -> None:
    """However much of it arrived, a module is whole or is refused."""
    good = made.modules["by make"]
    for size in range(0, len(good), 97):
        assert made.python(good[:size]) == "damaged", size
    assert made.python(made.modules["by DKMS"][:-1]) == "damaged"  # a signature without its end


def test_what_kmod_reads_is_what_we_read(made: Made) -> None:
    for how in ("by DKMS", "stub", "careless"):
        image = read_image(NAME, made.modules[how])
        made.box.write(f"/root/read/{NAME}", made.modules[how])
        told = {name: made.box.run("modinfo", "-F", name, f"/root/read/{NAME}").out.strip()
                for name in ("depends", "license", "version", "name", "vermagic")}  # fmt: skip
        assert {name: image.info.get(name, "").strip() for name in told} == told
        rows = made.box.run("modprobe", "--dump-modversions", f"/root/read/{NAME}").out
        versions = {line.split()[1]: int(line.split()[0], 16) for line in rows.splitlines()}
        assert dict(image.versions) == versions


def test_the_flags_of_real_kernels_follow_from_their_configuration(made: Made) -> None:
    image = read_image(NAME, made.modules["by DKMS"])
    assert made.ground.flags == frozenset(image.flags) == {
        *("SMP", "preempt", "mod_unload", "modversions")
    }  # fmt: skip
