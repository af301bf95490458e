"""Why modprobe nvidia-peermem would fail, named before anything is loaded, from real modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.modules.building import run, signing
from tests.modules.conftest import P2P, Built
from tests.modules.machine import REGISTER, Machine
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.evidence import Evidence
from toolkit.facts.lines import blocks
from toolkit.facts.modules.module_file import ModuleImage, parse_image
from toolkit.facts.node.node import Node
from toolkit.want import Want

pytestmark = pytest.mark.modules


def judged(evidence: Evidence, check: str = "peermem.loadable") -> Finding:
    return BY_ID[check](Node(evidence), Want()).finding


def image(evidence: Evidence) -> ModuleImage:
    """The one nvidia-peermem that was sent, whether kmod can unpack it or not."""
    [(path, lines)] = blocks(evidence.text("peermem-elf"), "peermem-elf")
    return parse_image(path, lines)


def test_with_all_in_place_nothing_stands_in_the_way(machine: Machine) -> None:
    evidence = machine.read()
    finding = judged(evidence)
    assert (finding.status, finding.found) == (Status.PASS, "nothing stands in the way"), finding
    for check in ("stub", "crc", "vermagic", "provider"):
        assert judged(evidence, f"peermem.{check}").status is Status.PASS, check


# --- how each cause comes about ---


def stub(machine: Machine, built: Built) -> None:
    machine.put(built.stub / "nvidia-peermem.ko")


def careless(machine: Machine, built: Built) -> None:
    machine.put(built.careless / "nvidia-peermem.ko")


def ofed_updated(machine: Machine, built: Built) -> None:
    machine.put(built.updated / "ib_uverbs.ko")
    machine.load(built.updated / "ib_uverbs.ko", REGISTER)


def inbox_loaded(machine: Machine, built: Built) -> None:
    machine.load(built.inbox / "ib_uverbs.ko")
    machine.symbols.pop(REGISTER)


def inbox_alone(machine: Machine, built: Built) -> None:
    inbox_loaded(machine, built)
    machine.put(built.inbox / "ib_uverbs.ko")


def other_kernel(machine: Machine, built: Built) -> None:
    machine.put(built.other / "nvidia-peermem.ko")


def unsigned(machine: Machine, built: Built) -> None:
    machine.enforce = "Y"


def unknown_signer(machine: Machine, built: Built) -> None:
    machine.enforce = "Y"
    machine.keys[built.ours.name] = built.ours.id()
    path = built.good / "nvidia-peermem.ko"
    machine.put(built.theirs.sign(built.headers, path, machine.root / "signed/nvidia-peermem.ko"))


def no_driver(machine: Machine, built: Built) -> None:
    for name in P2P:
        machine.symbols.pop(name)
    machine.loaded.pop("nvidia")
    (machine.root / f"lib/modules/{machine.release}/updates/dkms/nvidia.ko").unlink()


def legacy(machine: Machine, built: Built) -> None:
    machine.loaded["nv_peer_mem"] = ""


def forbidden(machine: Machine, built: Built) -> None:
    machine.blocked = "install nvidia_peermem /bin/false\n"


@dataclass(frozen=True, slots=True)
class Cause:
    """One way to fail: what is found, the step that mends it, and the check that tells more."""

    happens: Callable[[Machine, Built], None]
    check: str
    found: str
    command: str


REBUILD, RELOAD = "rebuild nvidia-peermem for", "./invokew reload --hosts NODE --what rdma"
CAUSES = [
    Cause(stub, "peermem.stub", "a stub: it imports nothing", REBUILD),
    Cause(careless, "peermem.stub", "depends on nothing, whatever it imports", REBUILD),
    Cause(ofed_updated, "peermem.crc",
          "built against another version of ib_register_peer_memory_client", REBUILD),
    Cause(inbox_loaded, "peermem.provider", "the wrong stack is loaded", RELOAD),
    Cause(inbox_alone, "peermem.provider", "nothing exports ib_register", "DOCA-OFED for"),
    Cause(other_kernel, "peermem.vermagic", "whose module_layout differs", REBUILD),
    Cause(unsigned, "module.signed", "nvidia_peermem is not signed", "mokutil --import"),
    Cause(unknown_signer, "module.signed",
          "signed by NVIDIA Support, whom the kernel does not trust", "mokutil --import"),
    Cause(no_driver, "peermem.provider", "nvidia is not loaded, and not on disk", "dkms install"),
    Cause(legacy, "peermem.legacy_conflict", "nv_peer_mem is loaded", "rmmod nv_peer_mem"),
    Cause(forbidden, "modules.blacklist", "install /bin/false", "grep -r nvidia_peermem"),
]  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.happens.__name__)
def test_a_cause_is_named_with_the_step_that_mends_it(
    cause: Cause, machine: Machine, built: Built
) -> None:
    cause.happens(machine, built)
    evidence = machine.read()
    finding = judged(evidence)
    assert finding.status is Status.FAIL, finding
    assert cause.found in finding.found
    assert cause.command in finding.hint
    assert finding.details == (f"see {cause.check}",)
    assert judged(evidence, cause.check).status is Status.FAIL


# --- what is no cause ---


def test_a_module_signed_by_a_key_that_the_kernel_holds_is_taken(
    machine: Machine, built: Built
) -> None:
    machine.enforce = "Y"
    machine.keys[built.ours.name] = built.ours.id()
    for name in ("nvidia", "ib_uverbs", "nvidia-peermem"):
        signed = built.ours.sign(
            built.headers, built.good / f"{name}.ko", machine.root / f"signed/{name}.ko"
        )
        machine.put(signed)
    assert judged(machine.read()).status is Status.PASS
    assert judged(machine.read(), "module.signed").status is Status.PASS


def test_a_key_of_the_same_name_is_another_key(
    machine: Machine, built: Built, tmp_path: Path
) -> None:
    """A machine that was installed anew: its firmware keeps the key of the one before."""
    new, old = built.ours, signing(tmp_path / "old", built.ours.name)
    machine.enforce = "Y"
    for name in ("nvidia", "ib_uverbs", "nvidia-peermem"):
        path = built.good / f"{name}.ko"
        machine.put(new.sign(built.headers, path, machine.root / f"signed/{name}.ko"))
    machine.loaded.clear()  # what is loaded would tell that its key was taken
    machine.symbols.clear()
    for enrolled, status in ((new, Status.PASS), (old, Status.FAIL)):
        machine.keys, machine.enrolled = {enrolled.name: enrolled.id()}, enrolled.listed()
        assert judged(machine.read(), "module.signed").status is status
        assert judged(machine.read()).status is status


def test_providers_that_are_not_loaded_yet_are_no_obstacle(machine: Machine) -> None:
    machine.loaded.clear()
    machine.symbols.clear()
    assert judged(machine.read()).status is Status.PASS
    assert "would be loaded first" in judged(machine.read(), "peermem.provider").found


@pytest.mark.parametrize("ending", ["xz", "zst", "gz"])
def test_a_packed_module_is_read_as_the_plain_one(
    machine: Machine, built: Built, ending: str
) -> None:
    plain = image(machine.read())
    (machine.root / f"lib/modules/{machine.release}/updates/dkms/nvidia-peermem.ko").unlink()
    machine.put(built.good / "nvidia-peermem.ko", f"nvidia-peermem.ko.{ending}")
    packed = image(machine.read())
    assert (packed.imports, packed.versions) == (plain.imports, plain.versions)


# --- read as others read it ---


def test_symbol_versions_are_those_that_kmod_reads(machine: Machine, built: Built) -> None:
    image = Node(machine.read()).peermem_image
    assert image is not None
    said = run("modprobe", "--dump-modversions", built.good / "nvidia-peermem.ko")
    rows = [line.split() for line in said.strip().split("\n")]
    assert dict(image.versions) == {name: int(crc, 16) for crc, name in rows}


def test_a_signature_is_what_modinfo_reads(machine: Machine, built: Built) -> None:
    path = built.good / "nvidia-peermem.ko"
    signed = built.ours.sign(built.headers, path, machine.root / "signed/nvidia-peermem.ko")
    machine.put(signed)
    image = Node(machine.read()).peermem_image
    assert image is not None
    assert image.signature is not None
    told = [run("modinfo", "-F", field, signed).strip() for field in ("signer", "sig_hashalgo")]
    assert [image.signature.signer, image.signature.digest] == told
    serial = run("modinfo", "-F", "sig_key", signed).replace(":", "").strip().lower()
    assert image.signature.key == serial


def test_an_old_kmod_leaves_the_versions_to_be_read_from_the_symbols(machine: Machine) -> None:
    new, old = Node(machine.read()).exports, Node(machine.read(old_kmod=True)).exports
    assert [(each.path, dict(each.crcs)) for each in old] == [
        (each.path, dict(each.crcs)) for each in new
    ]
    assert any(REGISTER in each.crcs for each in old)


@pytest.mark.parametrize("shell", [("dash",), ("busybox", "sh"), ("bash",)], ids=lambda s: s[0])
def test_every_shell_reads_the_same_bytes(machine: Machine, shell: tuple[str, ...]) -> None:
    keys = ("peermem-elf", "exports", "module-deps")
    plain, other = machine.read(), machine.read(*shell)
    assert [other.text(key) for key in keys] == [plain.text(key) for key in keys]
