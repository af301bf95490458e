"""A module that was changed after it was signed is found out by its bytes, as the kernel would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.modules.building import Signing
from tests.modules.conftest import Built
from tests.modules.machine import Machine
from toolkit.checks.all import BY_ID
from toolkit.checks.check import Finding, Status
from toolkit.facts.node.node import Node
from toolkit.want import Want

pytestmark = pytest.mark.modules
SHELLS = [("dash",), ("busybox", "sh"), ("bash",)]
NAMES = ("nvidia", "ib_uverbs", "nvidia-peermem")


@pytest.fixture
def signed(machine: Machine, built: Built) -> Machine:
    """All signed by our key, which the kernel holds, and whose certificate DKMS has."""
    machine.enforce, machine.keys = "Y", {built.ours.name: built.ours.id()}
    machine.enrolled = built.ours.listed()
    for name in NAMES:
        machine.put(_signed(built.ours, built, machine, name))
    (machine.root / "var/lib/dkms").mkdir(parents=True)
    shutil.copy(built.ours.certificate, machine.root / "var/lib/dkms/mok.pub")
    return machine


def _signed(by: Signing, built: Built, machine: Machine, name: str) -> Path:
    path = built.good / f"{name}.ko"
    return by.sign(built.headers, path, machine.root / f"signed/{name}.ko")


def change(path: Path) -> Path:
    """One bit, in the code that the kernel would run."""
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    return path


def found(machine: Machine, *shell: str) -> Finding:
    return BY_ID["module.signed"](Node(machine.read(*shell)), Want()).finding


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.parametrize("ending", ["", ".xz"])
def test_a_changed_module_is_refused_and_a_good_one_is_not(
    signed: Machine, ending: str, shell: tuple[str, ...]
) -> None:
    where = signed.root / f"lib/modules/{signed.release}/updates/dkms"
    peermem = signed.root / "signed/nvidia-peermem.ko"
    (where / peermem.name).unlink()
    signed.put(peermem, f"{peermem.name}{ending}")
    assert found(signed, *shell).status is Status.PASS
    signed.put(change(peermem), f"{peermem.name}{ending}")
    told = found(signed, *shell)
    assert told.status is Status.FAIL
    assert told.found == (
        "nvidia_peermem was changed after it was signed: its signature is of other bytes"
    )


def test_both_answers_are_kept_word_for_word(signed: Machine) -> None:
    path = f"/lib/modules/{signed.release}/updates/dkms/nvidia-peermem.ko"
    assert signed.read().text("peermem-verified") == f"good {path}\n"
    change(signed.root / path.lstrip("/"))
    assert signed.read().text("peermem-verified") == f"bad {path}\n"


def test_by_another_certificate_nothing_is_said(signed: Machine, built: Built) -> None:
    shutil.copy(built.theirs.certificate, signed.root / "var/lib/dkms/mok.pub")
    change(signed.root / f"lib/modules/{signed.release}/updates/dkms/nvidia-peermem.ko")
    assert signed.read().text("peermem-verified") == ""


def test_where_no_signature_is_asked_for_none_is_looked_at(signed: Machine) -> None:
    signed.enforce = "N"
    frame = signed.read().frame("peermem-verified")
    assert frame.trouble == "a kernel that demands signatures: not there"


@pytest.mark.parametrize("left", [0, 27, 30, 39, 41, 600])
def test_a_module_that_was_cut_off_breaks_nothing(signed: Machine, left: int) -> None:
    path = signed.root / f"lib/modules/{signed.release}/updates/dkms/nvidia-peermem.ko"
    path.write_bytes(path.read_bytes()[-left:] if left else b"")
    assert "good" not in signed.read().text("peermem-verified")
